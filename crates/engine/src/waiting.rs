//! Who waits for what: for a job of some queues, or for the result of a job.

use std::collections::{BTreeMap, HashMap};

use crate::command::{Choice, Hold};
use crate::hash::ByNumber;
use crate::names::{ClientId, JobNumber};
use crate::queue::QueueId;

/// All that wait. A client waits for one thing at a time.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    clients: HashMap<ClientId, Waiter, ByNumber>,
    /// In the order in which they began.
    tickets: BTreeMap<u64, ClientId>,
    /// Who waits for the result of a job, in that order.
    results: HashMap<JobNumber, BTreeMap<u64, ClientId>, ByNumber>,
    /// How many wait for a job.
    for_jobs: usize,
    last_ticket: u64,
    memory_bytes: usize,
}

/// One client that waits.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) ticket: u64,
    pub(crate) until_ms: u64,
    pub(crate) want: Want,
}

/// What a client waits for.
#[derive(Debug)]
pub(crate) enum Want {
    /// A job of one of these queues.
    Lease(Box<LeaseWant>),
    /// The result of a job.
    Result(JobNumber),
    /// The result of a job that it put and that ends with it; how long the job may go unleased.
    Run { number: JobNumber, unleased_until_ms: u64 },
}

/// What a client that waits for a job asked for.
#[derive(Clone, Debug)]
pub(crate) struct LeaseWant {
    /// Each once, in the order named.
    pub(crate) queues: Vec<QueueId>,
    pub(crate) choice: Choice,
    pub(crate) hold: Hold,
    pub(crate) body_without: Option<u8>,
    pub(crate) heed: Option<Heed>,
}

/// A wait that also ends when a job that the client holds has little time left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heed {
    /// No more than so long.
    pub(crate) left_ms: u64,
    /// When the wait ends otherwise.
    pub(crate) wait_until_ms: u64,
}

impl Waiting {
    /// The ticket that the next to begin will draw.
    pub(crate) fn next_ticket(&self) -> u64 {
        let next = self.last_ticket + 1;
        if crate::broken("engine-last-waiter-first") { u64::MAX - next } else { next }
    }

    /// A client begins to wait.
    pub(crate) fn begin(&mut self, client: ClientId, until_ms: u64, want: Want) -> u64 {
        let ticket = self.next_ticket();
        self.last_ticket += 1;
        if let Want::Result(number) | Want::Run { number, .. } = want {
            self.results.entry(number).or_default().insert(ticket, client);
        }
        self.for_jobs += usize::from(matches!(want, Want::Lease(_)));
        self.tickets.insert(ticket, client);
        self.memory_bytes += want.memory_bytes();
        let before = self.clients.insert(client, Waiter { ticket, until_ms, want });
        assert!(before.is_none(), "a client waits for one thing at a time");
        ticket
    }

    /// A client no longer waits.
    pub(crate) fn end(&mut self, client: ClientId) -> Option<Waiter> {
        let waiter = self.clients.remove(&client)?;
        self.tickets.remove(&waiter.ticket);
        self.for_jobs -= usize::from(matches!(waiter.want, Want::Lease(_)));
        if !crate::broken("engine-waiters-leak") {
            self.memory_bytes -= waiter.want.memory_bytes();
        }
        if let Want::Result(number) | Want::Run { number, .. } = waiter.want {
            let waiting = self.results.get_mut(&number).expect("who waits for a result is listed");
            waiting.remove(&waiter.ticket);
            if waiting.is_empty() {
                self.results.remove(&number);
            }
        }
        Some(waiter)
    }

    /// How many wait for a job.
    pub(crate) fn for_jobs(&self) -> usize {
        self.for_jobs
    }

    /// The memory that those who wait take.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }

    pub(crate) fn get(&self, client: ClientId) -> Option<&Waiter> {
        self.clients.get(&client)
    }

    pub(crate) fn set_until(&mut self, client: ClientId, until_ms: u64) {
        self.clients.get_mut(&client).expect("it waits").until_ms = until_ms;
    }

    pub(crate) fn client(&self, ticket: u64) -> Option<ClientId> {
        self.tickets.get(&ticket).copied()
    }

    /// Who waits for the result of a job, in the order in which they began.
    pub(crate) fn for_result(&self, number: JobNumber) -> Vec<ClientId> {
        self.results.get(&number).map_or_else(Vec::new, |waiting| waiting.values().copied().collect())
    }

    /// The client that runs a job, if it still waits for it.
    pub(crate) fn runner(&self, number: JobNumber) -> Option<ClientId> {
        let waiting = self.results.get(&number)?;
        waiting.values().copied().find(|client| matches!(self.clients[client].want, Want::Run { .. }))
    }

    /// All, in the order in which they began.
    pub(crate) fn in_order(&self) -> impl Iterator<Item = (ClientId, &Waiter)> {
        self.tickets.values().map(|&client| (client, &self.clients[&client]))
    }
}

impl Want {
    pub(crate) fn memory_bytes(&self) -> usize {
        // An entry in a queue's line, or in a table.
        const ENTRY: usize = 48;
        let places = match self {
            Want::Lease(want) => want.queues.len(),
            Want::Result(_) | Want::Run { .. } => 1,
        };
        size_of::<Waiter>() + size_of::<LeaseWant>() + 3 * ENTRY + places * (ENTRY + size_of::<QueueId>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::QueueName;
    use crate::queue::Queues;

    #[test]
    fn who_waits_takes_memory_for_itself_and_for_each_place_in_a_line() {
        let queues: Vec<QueueId> = {
            let mut queues = Queues::new(crate::hash::Seeded(0));
            ["a", "b", "c"].map(|name| queues.intern(QueueName::new(name.as_bytes()).as_bytes())).into()
        };
        let lease = |count: usize| {
            let queues = queues[..count].to_vec();
            let hold = Hold::Endless;
            Want::Lease(Box::new(LeaseWant { queues, choice: Choice::Best, hold, body_without: None, heed: None }))
        };
        // An entry of 48 bytes in each of three tables; for each place one more, and the queue's four bytes.
        let own = size_of::<Waiter>() + size_of::<LeaseWant>() + 144;
        assert_eq!(lease(0).memory_bytes(), own);
        assert_eq!(lease(1).memory_bytes(), own + 52);
        assert_eq!(lease(3).memory_bytes(), own + 156);
        assert_eq!(Want::Result(7).memory_bytes(), own + 52);
        assert_eq!(Want::Run { number: 7, unleased_until_ms: 9 }.memory_bytes(), own + 52);
    }
}
