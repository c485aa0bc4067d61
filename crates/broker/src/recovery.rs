//! Reading the log back, a portion a turn, so that the server can be asked for its health meanwhile.

use jobyard_engine::History;
use jobyard_log::{Claim, Log, Moment, Position, Replayed};

use crate::clock::EngineClock;
use crate::commit::Failure;
use crate::deadlines::Looks;
use crate::{Broker, Clock, OpenError};

/// How much of the log one turn reads: some milliseconds' worth.
pub(crate) const PORTION_BYTES: usize = 1 << 20;

/// A client that may ask for the server's health is read so far before the server is ready.
pub(crate) const PROBE_BYTES_MAX: usize = 4 << 10;

/// How far the log has been read back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes that were.
    pub done_bytes: u64,
    /// Bytes that there were.
    pub bytes: u64,
}

/// The log is being read back.
#[derive(Debug)]
pub(crate) struct Recovery {
    opened: Clock,
    history: History,
    next: Position,
    tail: Position,
    /// When the last batch was decided.
    last: Option<Moment>,
    progress: Progress,
    /// All was read back; what fell due meanwhile is being done.
    replayed: bool,
}

impl Recovery {
    pub(crate) fn new(claim: &Claim, opened: Clock) -> Self {
        Recovery {
            opened,
            history: if claim.first > 1 { History::Rest } else { History::Whole },
            next: claim.first,
            tail: claim.tail,
            last: None,
            progress: Progress { done_bytes: 0, bytes: claim.bytes },
            replayed: false,
        }
    }
}

impl<L: Log> Broker<L> {
    /// How far the log has been read back; nothing if that is over.
    #[must_use]
    pub fn progress(&self) -> Option<Progress> {
        self.recovery.as_ref().map(|recovery| recovery.progress)
    }

    /// Reads about so much of the log back, and starts when that was the last of it.
    pub(crate) fn recover(&mut self, bytes: usize) {
        let Some(mut recovery) = self.recovery.take() else { return };
        if recovery.replayed {
            return self.catch_up(recovery);
        }
        match self.replay(&mut recovery, bytes) {
            Ok(Some(next)) => {
                recovery.next = next;
                self.recovery = Some(recovery);
            }
            Ok(None) if recovery.next == recovery.tail + 1 && !self.engine.can_count_on() => {
                self.commit.fail(Failure::Open(OpenError::Counted));
            }
            Ok(None) if recovery.next == recovery.tail + 1 => {
                self.replayed(&recovery);
                recovery.replayed = true;
                self.catch_up(recovery);
            }
            Ok(None) => {
                let (expected, found) = (recovery.tail, recovery.next - 1);
                self.commit.fail(Failure::Open(OpenError::Short { expected, found }));
            }
            Err(error) => self.commit.fail(Failure::Open(error)),
        }
    }

    /// Gives the log's records to the engine. Returns from where to go on.
    fn replay(&mut self, recovery: &mut Recovery, bytes: usize) -> Result<Option<Position>, OpenError> {
        let (engine, stretches) = (&mut self.engine, &mut self.stretches);
        let mut senseless = None;
        let next = self.commit.log.replay(recovery.next, bytes, &mut |replayed| {
            let Replayed { position, begins_segment, batch } = replayed;
            if begins_segment {
                stretches.begin(position, engine);
            }
            recovery.last = Some(batch.at);
            recovery.next = position + 1;
            recovery.progress.done_bytes += batch.payload.len() as u64;
            if senseless.is_none() && engine.replay(batch.payload, recovery.history).is_err() {
                senseless = Some(position);
            }
        });
        match (next, senseless) {
            (_, Some(position)) => Err(OpenError::Records { position }),
            (Err(error), None) => Err(OpenError::Log(error)),
            (Ok(next), None) => Ok(next),
        }
    }

    /// All was read back: time goes on.
    fn replayed(&mut self, recovery: &Recovery) {
        self.clock = EngineClock::new(recovery.last, recovery.opened, self.seed);
        self.now = self.clock.now(self.machine);
        self.looks = Looks::new(self.now.engine_ms);
        self.commit.set_time(recovery.last);
        let segment_bytes = self.commit.log.extent().segment_bytes;
        self.stretches.set_segment_bytes(segment_bytes);
        if segment_bytes > 0 && self.stretches.is_empty() {
            self.stretches.begin(recovery.next, &mut self.engine);
        }
        self.engine.set_portion(self.batch_bytes_max());
    }

    /// Does a portion of what fell due meanwhile. Nobody is served before all of it is durable.
    fn catch_up(&mut self, recovery: Recovery) {
        let done = self.engine.records().is_empty() && self.engine.recover(self.now);
        if !done {
            self.recovery = Some(recovery);
        }
        self.commit();
        self.recovered = self.commit.position(self.engine.records());
    }

    /// Whether the log is being read back.
    pub(crate) fn replaying(&self) -> bool {
        self.recovery.as_ref().is_some_and(|recovery| !recovery.replayed)
    }

    /// Whether nobody is served yet: the log is being read back, or what recovery decided is not durable.
    pub(crate) fn starting(&self) -> bool {
        self.recovery.is_some() || self.commit.durable() < self.recovered
    }

    /// Lets those who may ask for the server's health do so.
    pub(crate) fn run_probes(&mut self) {
        for _ in 0..self.clients.queue.len() {
            let Some(id) = self.clients.queue.pop_front() else { return };
            if self.clients.get(id).is_some_and(|client| client.probes) {
                self.run_client(id);
            } else {
                self.clients.queue.push_back(id);
            }
        }
    }

    /// The server is ready: what clients sent before is looked at.
    pub(crate) fn start(&mut self) {
        self.started = true;
        for id in self.clients.ids() {
            if let Some(client) = self.clients.get_mut(id).filter(|_| !crate::broken("broker-deaf-start")) {
                client.feed();
            }
            self.clients.change(id);
            self.clients.queue_up(id, &self.limits);
        }
    }
}
