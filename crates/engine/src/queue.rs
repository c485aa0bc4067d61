//! The queues: their names, the order of their ready and delayed jobs, and who waits for them.

use std::collections::{BTreeMap, HashMap};

use crate::bytes::{bytes_len, number_len};
use crate::hash::Seeded;
use crate::index::Index;
use crate::job::{Job, Rank};
use crate::names::{ClientId, JobNumber, QueueName};
use crate::reply::{Pause, QueueCounts, QueueTotals, QueueView, URGENT};
use crate::time::Now;

/// A queue, for as long as it exists or is waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
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
        OrderKey {
            calm: if crate::broken("engine-order-ignored") { 0 } else { !job.urgency },
            rank: job.rank(),
            place: job.place,
            number: job.number,
        }
    }

    /// The first that is not urgent, if there were such a job.
    fn beyond_urgent() -> Self {
        OrderKey { calm: !URGENT + 1, rank: Rank::Ahead(i64::MIN), place: 0, number: 0 }
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
    /// The delayed jobs by when that is over, on each clock.
    pub(crate) due: Index<(u64, JobNumber)>,
    pub(crate) dated: Index<(i64, JobNumber)>,
    /// The buried jobs, in their order.
    pub(crate) buried: Index<(u64, JobNumber)>,
    pub(crate) leased: usize,
    /// Who waits for a job of this queue, by the ticket they drew when they began.
    pub(crate) waiting: BTreeMap<u64, ClientId>,
    /// Where it stands among the queues by age. A queue that is only waited for has no such place: it does not
    /// exist, and is forgotten with its last waiter.
    pub(crate) ordinal: Option<u64>,
    /// Whether its record is written, and it exists for ever. Else it goes when it has no job, and nobody attends it.
    pub(crate) is_kept: bool,
    /// How many jobs are in it, in any state.
    pub(crate) jobs: usize,
    /// Which stretch of the log holds its newest record.
    pub(crate) stretch: u32,
    /// Whether it is paused; not durable, as all that follows.
    pub(crate) pause: Option<Pause>,
    pub(crate) putters: usize,
    pub(crate) takers: usize,
    pub(crate) totals: QueueTotals,
}

impl Queue {
    /// The memory it takes: itself, its lists, its name, and its places in three tables, which share that.
    pub(crate) fn memory_bytes(&self) -> usize {
        const TABLES: usize = 3;
        const ENTRY: usize = 48;
        size_of::<Queue>() + self.lists_bytes() + self.name.as_bytes().len() + TABLES * ENTRY
    }

    /// What its lists of jobs have allocated.
    pub(crate) fn lists_bytes(&self) -> usize {
        self.ready.memory_bytes()
            + self.delayed.memory_bytes()
            + self.due.memory_bytes()
            + self.dated.memory_bytes()
            + self.buried.memory_bytes()
    }

    /// What its record takes in the log, if it has one.
    pub(crate) fn record_bytes(&self) -> u64 {
        let ordinal = self.ordinal.filter(|_| self.is_kept);
        ordinal.map_or(0, |ordinal| 1 + bytes_len(self.name.as_bytes()) + number_len(ordinal)) as u64
    }

    /// Whether it has no reason to exist any longer.
    pub(crate) fn is_idle(&self) -> bool {
        !self.is_kept && self.jobs == 0 && self.putters == 0 && self.takers == 0
    }

    /// Its delayed jobs in the order in which they fall due.
    pub(crate) fn by_due(&self, now: Now) -> impl Iterator<Item = JobNumber> + '_ {
        let (mut due, mut dated) = (self.due.iter_from(0).peekable(), self.dated.iter_from(0).peekable());
        std::iter::from_fn(move || {
            let left = due.peek().map(|&(at_ms, _)| i128::from(at_ms) - i128::from(now.engine_ms));
            let left_to_date = dated.peek().map(|&(at_ms, _)| i128::from(at_ms) - i128::from(now.wall_ms));
            match (left, left_to_date) {
                (Some(left), Some(left_to_date)) if left_to_date < left => dated.next().map(|(_, number)| number),
                (None, _) => dated.next().map(|(_, number)| number),
                (Some(_), _) => due.next().map(|(_, number)| number),
            }
        })
    }

    /// The job that who takes the next one of this queue is given.
    pub(crate) fn next(&self) -> Option<OrderKey> {
        self.first_ready().filter(|_| self.pause.is_none() || crate::broken("engine-pause-ignored"))
    }

    /// The best of the ready jobs, whether anyone may be given it or not.
    pub(crate) fn first_ready(&self) -> Option<OrderKey> {
        self.ready.first()
    }

    pub(crate) fn view(&self) -> QueueView<'_> {
        let counts = QueueCounts {
            ready: self.ready.len().saturating_sub(usize::from(crate::broken("engine-count-wrong"))),
            delayed: self.delayed.len(),
            leased: self.leased,
            buried: self.buried.len().saturating_sub(usize::from(crate::broken("engine-buried-miscounted"))),
        };
        QueueView {
            name: &self.name,
            counts,
            urgent: self.ready.count_below(OrderKey::beyond_urgent()),
            pause: self.pause,
            putters: self.putters + usize::from(crate::broken("engine-putters-miscounted")),
            takers: self.takers,
            waiting: if crate::broken("engine-waiters-uncounted") { 0 } else { self.waiting.len() },
            totals: self.totals,
        }
    }
}

/// All queues.
#[derive(Debug, Default)]
pub(crate) struct Queues {
    slots: Vec<Option<Queue>>,
    free: Vec<QueueId>,
    names: HashMap<QueueName, QueueId, Seeded>,
    /// Those that exist, the oldest first, by ordinal.
    created: BTreeMap<u64, QueueId>,
    /// Those that exist, by name.
    sorted: BTreeMap<QueueName, QueueId>,
    pub(crate) next_ordinal: u64,
    /// The one that was last looked for to put a job into: often the next one too.
    last: Option<QueueId>,
    memory_bytes: usize,
    record_bytes: u64,
}

impl Queues {
    pub(crate) fn new(seed: Seeded) -> Self {
        Queues { names: HashMap::with_hasher(seed), next_ordinal: 1, ..Queues::default() }
    }

    /// How many exist.
    pub(crate) fn len(&self) -> usize {
        self.created.len()
    }

    /// The memory that queues take, but for their jobs.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }

    /// What the records of queues take in the log.
    pub(crate) fn record_bytes(&self) -> u64 {
        self.record_bytes
    }

    /// A queue's lists have changed; `before_bytes` is what they took before.
    pub(crate) fn recount(&mut self, id: QueueId, before_bytes: usize) {
        self.memory_bytes = self.memory_bytes + self.get(id).lists_bytes() - before_bytes;
    }

    /// The queue of that name, if it exists.
    pub(crate) fn find(&self, name: &QueueName) -> Option<&Queue> {
        self.id(name.as_bytes()).map(|id| self.get(id)).filter(|queue| queue.ordinal.is_some())
    }

    pub(crate) fn exists(&self, name: &QueueName) -> bool {
        self.find(name).is_some()
    }

    /// Whether the queue of that name exists for ever.
    pub(crate) fn is_kept(&self, name: &QueueName) -> bool {
        self.find(name).is_some_and(|queue| queue.is_kept)
    }

    /// The queue of that name, if it exists or is waited for.
    pub(crate) fn id(&self, name: &[u8]) -> Option<QueueId> {
        if let Some(id) = self.last
            && let Some(queue) = &self.slots[id.0 as usize]
            && queue.name.as_bytes() == name
        {
            return Some(id);
        }
        self.names.get(name).copied()
    }

    pub(crate) fn get(&self, id: QueueId) -> &Queue {
        self.slots[id.0 as usize].as_ref().expect("a queue that is referred to is there")
    }

    pub(crate) fn get_mut(&mut self, id: QueueId) -> &mut Queue {
        self.slots[id.0 as usize].as_mut().expect("a queue that is referred to is there")
    }

    /// The queue of that age, if it exists.
    pub(crate) fn of_ordinal(&self, ordinal: u64) -> Option<QueueId> {
        self.created.get(&ordinal).copied()
    }

    /// The queue of that name; from now on it exists, for ever. The ordinal must be free, or its own.
    pub(crate) fn create(&mut self, name: &[u8], ordinal: u64) -> QueueId {
        let id = self.intern(name);
        self.appear(id, ordinal);
        let queue = self.get_mut(id);
        if !queue.is_kept {
            queue.is_kept = true;
            let bytes = queue.record_bytes();
            self.record_bytes += bytes;
        }
        id
    }

    /// A queue exists, for as long as it has a reason to. The ordinal must be free, unless it exists already.
    pub(crate) fn appear(&mut self, id: QueueId, ordinal: u64) {
        let queue = self.get_mut(id);
        if queue.ordinal.is_none() {
            queue.ordinal = Some(ordinal);
            let name = queue.name.clone();
            self.created.insert(ordinal, id);
            self.sorted.insert(name, id);
            self.next_ordinal = self.next_ordinal.max(ordinal + 1);
        }
    }

    /// If a queue has no reason to exist it does not any longer. The pause that was going on, if any.
    pub(crate) fn forget_idle(&mut self, id: QueueId) -> Option<Pause> {
        let queue = self.get_mut(id);
        if !queue.is_idle() {
            return None;
        }
        queue.totals = QueueTotals::default();
        let (pause, ordinal, name) = (queue.pause.take(), queue.ordinal.take(), queue.name.clone());
        if let Some(ordinal) = ordinal {
            self.created.remove(&ordinal);
            self.sorted.remove(&name);
        }
        self.forget_unused(id);
        pause
    }

    /// A job has come into a queue.
    pub(crate) fn join(&mut self, id: QueueId) {
        self.get_mut(id).jobs += 1;
    }

    /// A job has gone from a queue.
    pub(crate) fn part(&mut self, id: QueueId) {
        self.get_mut(id).jobs -= 1;
    }

    /// The queue of that name; it need not exist.
    pub(crate) fn intern(&mut self, name: &[u8]) -> QueueId {
        let id = self.id(name).unwrap_or_else(|| self.add(name));
        self.last = Some(id);
        id
    }

    fn add(&mut self, name: &[u8]) -> QueueId {
        let name = QueueName::new(name);
        let queue = Queue {
            name: name.clone(),
            ready: Index::new(),
            delayed: Index::new(),
            due: Index::new(),
            dated: Index::new(),
            buried: Index::new(),
            leased: 0,
            waiting: BTreeMap::new(),
            ordinal: None,
            is_kept: false,
            jobs: 0,
            stretch: 0,
            pause: None,
            putters: 0,
            takers: 0,
            totals: QueueTotals::default(),
        };
        let id = self.free.pop().unwrap_or_else(|| {
            let id = u32::try_from(self.slots.len()).expect("limits keep queues far below 2^32");
            self.slots.push(None);
            QueueId(id)
        });
        self.memory_bytes += queue.memory_bytes();
        self.slots[id.0 as usize] = Some(queue);
        self.names.insert(name, id);
        id
    }

    /// Forgets a queue that does not exist and that nobody waits for any more.
    pub(crate) fn forget_unused(&mut self, id: QueueId) {
        let queue = self.get(id);
        if queue.ordinal.is_some() || queue.jobs > 0 || !queue.waiting.is_empty() {
            return;
        }
        let queue = self.slots[id.0 as usize].take().expect("looked at above");
        self.memory_bytes -= queue.memory_bytes();
        self.names.remove(&queue.name);
        self.free.push(id);
    }

    /// Those that exist, the oldest first.
    pub(crate) fn by_age(&self) -> impl Iterator<Item = &Queue> {
        self.created.values().map(|&id| self.get(id))
    }

    /// Those that exist, by name.
    pub(crate) fn by_name(&self) -> impl Iterator<Item = &Queue> {
        self.sorted.values().map(|&id| self.get(id))
    }

    /// After a replay, those that have jobs and no record exist as long as they have.
    pub(crate) fn appear_without_record(&mut self) {
        let unrecorded = self.all().filter(|queue| queue.ordinal.is_none() && queue.jobs > 0);
        let mut names: Vec<QueueName> = unrecorded.map(|queue| queue.name.clone()).collect();
        names.sort_unstable();
        for name in names {
            let id = self.intern(name.as_bytes());
            self.appear(id, self.next_ordinal);
        }
    }

    /// All, also those that are only waited for.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Queue> {
        self.slots.iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_takes_memory_for_itself_its_lists_and_its_name_and_three_tables() {
        let mut queues = Queues::new(Seeded(0));
        let short = queues.intern(b"abc");
        let alone = queues.memory_bytes();
        assert_eq!(alone, size_of::<Queue>() + queues.get(short).lists_bytes() + 3 + 3 * 48);
        let long = queues.create(b"abcdefghijklm", 1);
        assert_eq!(queues.memory_bytes(), 2 * alone + 10, "ten bytes more");
        let before_bytes = queues.get(short).lists_bytes();
        for number in 0..1_000 {
            let key = OrderKey { calm: 0, rank: Rank::Usual, place: number, number };
            queues.get_mut(short).ready.insert(key);
            let queue = queues.get_mut(short);
            queue.delayed.insert(DueKey { calm: 0, wall_ms: 0, place: number, number });
            queue.due.insert((0, number));
            queue.dated.insert((0, number));
            queue.buried.insert((0, number));
        }
        queues.recount(short, before_bytes);
        let queue = queues.get(short);
        let by_number = [queue.due.memory_bytes(), queue.dated.memory_bytes(), queue.buried.memory_bytes()];
        assert!(by_number.iter().all(|&bytes| bytes > 16_000), "{by_number:?}");
        let lists = queue.ready.memory_bytes() + queue.delayed.memory_bytes() + by_number.iter().sum::<usize>();
        assert!(lists > 1_000 * (size_of::<OrderKey>() + size_of::<DueKey>()), "{lists}");
        assert_eq!(queues.memory_bytes(), 2 * alone + 10 + lists - before_bytes);
        queues.forget_unused(long);
        assert_eq!(queues.all().count(), 2, "it exists");
        queues.forget_unused(short);
        assert_eq!((queues.all().count(), queues.memory_bytes()), (1, alone + 10));
        assert_eq!(queues.intern(b"another"), short, "its place is used again");
    }

    #[test]
    fn a_record_of_a_queue_is_as_long_as_it_was_said_to_be() {
        let mut queues = Queues::new(Seeded(0));
        assert_eq!(queues.record_bytes(), 0);
        let mut written = Vec::new();
        for (name, ordinal) in [(&b"q"[..], 1), (b"a longer name", 300), (&[b'n'; 200], 1 << 40)] {
            queues.create(name, ordinal);
            crate::record::Record::QueueCreated { name, ordinal }.encode(&mut written);
            assert_eq!(queues.record_bytes(), written.len() as u64);
        }
        queues.intern(b"that does not exist");
        assert_eq!(queues.record_bytes(), written.len() as u64);
    }

    #[test]
    fn queues_with_jobs_and_without_a_record_exist_as_long_as_they_have_any() {
        let mut queues = Queues::new(Seeded(0));
        let (late, early) = (queues.intern(b"late"), queues.intern(b"early"));
        queues.intern(b"empty");
        queues.create(b"kept", 1);
        queues.join(late);
        queues.join(late);
        queues.join(early);
        queues.appear_without_record();
        let names = |queues: &Queues| queues.by_age().map(|queue| queue.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&queues), [b"kept".as_slice(), b"early", b"late"].map(QueueName::new));
        queues.part(late);
        queues.forget_idle(late);
        assert!(queues.exists(&QueueName::new(b"late")), "it has a job");
        queues.part(late);
        queues.forget_idle(late);
        assert!(!queues.exists(&QueueName::new(b"late")));
        assert_eq!(queues.id(b"late"), None, "it is forgotten");
    }
}
