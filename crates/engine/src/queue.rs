//! The queues: their names, the order of their ready and delayed jobs, and who waits for them.

use std::collections::{BTreeMap, HashMap};

use crate::hash::Seeded;
use crate::index::Index;
use crate::job::{Job, Rank};
use crate::names::{ClientId, JobNumber, QueueName};
use crate::reply::{QueueCounts, QueueView};

/// A queue, for as long as it exists or is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct QueueId(u32);

/// What a job's turn depends on: the least is taken first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OrderKey {
    /// The complement of the urgency, which turns its order around.
    calm: i128,
    rank: Rank,
    place: u64,
    pub(crate) number: JobNumber,
}

impl OrderKey {
    pub(crate) fn of(job: &Job) -> Self {
        OrderKey { calm: !job.urgency, rank: job.rank(), place: job.place, number: job.number }
    }
}

/// What a delayed job's place in a listing depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DueKey {
    calm: i128,
    wall_ms: i64,
    place: u64,
    pub(crate) number: JobNumber,
}

impl DueKey {
    pub(crate) fn of(job: &Job, wall_ms: i64) -> Self {
        DueKey { calm: !job.urgency, wall_ms, place: job.place, number: job.number }
    }
}

/// One queue.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) name: QueueName,
    pub(crate) ready: Index<OrderKey>,
    pub(crate) delayed: Index<DueKey>,
    pub(crate) leased: usize,
    /// Who waits for a job of this queue, by the ticket they drew when they began.
    pub(crate) waiting: BTreeMap<u64, ClientId>,
    /// Whether it exists. A queue that is only waited for does not, and is forgotten with its last waiter.
    exists: bool,
}

impl Queue {
    /// The memory it takes: itself, its lists, and its name in three tables.
    pub(crate) fn memory_bytes(&self) -> usize {
        const TABLES: usize = 3;
        const ENTRY: usize = 48;
        size_of::<Queue>() + self.lists_bytes() + TABLES * (self.name.as_bytes().len() + ENTRY)
    }

    /// What its lists of jobs have allocated.
    pub(crate) fn lists_bytes(&self) -> usize {
        self.ready.memory_bytes() + self.delayed.memory_bytes()
    }

    pub(crate) fn view(&self) -> QueueView<'_> {
        let counts = QueueCounts { ready: self.ready.len(), delayed: self.delayed.len(), leased: self.leased };
        QueueView { name: &self.name, counts }
    }
}

/// All queues.
#[derive(Debug, Default)]
pub(crate) struct Queues {
    slots: Vec<Option<Queue>>,
    free: Vec<QueueId>,
    names: HashMap<QueueName, QueueId, Seeded>,
    /// Those that exist, the oldest first.
    created: Vec<QueueId>,
    /// Those that exist, by name.
    sorted: BTreeMap<QueueName, QueueId>,
    memory_bytes: usize,
}

impl Queues {
    pub(crate) fn new(seed: Seeded) -> Self {
        Queues { names: HashMap::with_hasher(seed), ..Queues::default() }
    }

    /// How many exist.
    pub(crate) fn len(&self) -> usize {
        self.created.len()
    }

    /// The memory that queues take, but for their jobs.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }

    /// A queue's lists have changed; `before_bytes` is what they took before.
    pub(crate) fn recount(&mut self, id: QueueId, before_bytes: usize) {
        self.memory_bytes = self.memory_bytes + self.get(id).lists_bytes() - before_bytes;
    }

    /// The queue of that name, if it exists.
    pub(crate) fn find(&self, name: &QueueName) -> Option<&Queue> {
        self.id(name).map(|id| self.get(id)).filter(|queue| queue.exists)
    }

    pub(crate) fn exists(&self, name: &QueueName) -> bool {
        self.find(name).is_some()
    }

    /// The queue of that name, if it exists or is waited for.
    pub(crate) fn id(&self, name: &QueueName) -> Option<QueueId> {
        self.names.get(name).copied()
    }

    pub(crate) fn get(&self, id: QueueId) -> &Queue {
        self.slots[id.0 as usize].as_ref().expect("a queue that is referred to is there")
    }

    pub(crate) fn get_mut(&mut self, id: QueueId) -> &mut Queue {
        self.slots[id.0 as usize].as_mut().expect("a queue that is referred to is there")
    }

    /// The queue of that name; from now on it exists.
    pub(crate) fn create(&mut self, name: &QueueName) -> QueueId {
        let id = self.intern(name);
        if !self.get(id).exists {
            self.get_mut(id).exists = true;
            self.created.push(id);
            self.sorted.insert(name.clone(), id);
        }
        id
    }

    /// The queue of that name, to wait for; it need not exist.
    pub(crate) fn intern(&mut self, name: &QueueName) -> QueueId {
        if let Some(id) = self.id(name) {
            return id;
        }
        let queue = Queue {
            name: name.clone(),
            ready: Index::new(),
            delayed: Index::new(),
            leased: 0,
            waiting: BTreeMap::new(),
            exists: false,
        };
        let id = self.free.pop().unwrap_or_else(|| {
            let id = u32::try_from(self.slots.len()).expect("limits keep queues far below 2^32");
            self.slots.push(None);
            QueueId(id)
        });
        self.memory_bytes += queue.memory_bytes();
        self.slots[id.0 as usize] = Some(queue);
        self.names.insert(name.clone(), id);
        id
    }

    /// Forgets a queue that does not exist and that nobody waits for any more.
    pub(crate) fn forget_unused(&mut self, id: QueueId) {
        let queue = self.get(id);
        if queue.exists || !queue.waiting.is_empty() {
            return;
        }
        let queue = self.slots[id.0 as usize].take().expect("looked at above");
        self.memory_bytes -= queue.memory_bytes();
        self.names.remove(&queue.name);
        self.free.push(id);
    }

    /// Those that exist, the oldest first.
    pub(crate) fn by_age(&self) -> impl Iterator<Item = &Queue> {
        self.created.iter().map(|&id| self.get(id))
    }

    /// Those that exist, by name.
    pub(crate) fn by_name(&self) -> impl Iterator<Item = &Queue> {
        self.sorted.values().map(|&id| self.get(id))
    }

    /// All, also those that are only waited for.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Queue> {
        self.slots.iter().flatten()
    }
}
