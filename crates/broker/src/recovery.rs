//! Reading the log back, a portion a turn, so that the server can be asked for its health meanwhile.

use jobyard_engine::{Engine, History};
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

/// A log is given back to an engine.
#[derive(Debug)]
pub struct Replay {
    history: History,
    next: Position,
    tail: Position,
    last: Option<Moment>,
    progress: Progress,
}

impl Replay {
    /// Of a log that was claimed; nothing is read yet.
    #[must_use]
    pub fn new(claim: &Claim) -> Self {
        Replay {
            history: if claim.first > 1 { History::Rest } else { History::Whole },
            next: claim.first,
            tail: claim.tail,
            last: None,
            progress: Progress { done_bytes: 0, bytes: claim.bytes },
        }
    }

    /// When the last batch was decided, of those that were read.
    #[must_use]
    pub fn last(&self) -> Option<Moment> {
        self.last
    }

    /// Gives about so much of the log to the engine. `begins` is told of each batch that is the first of a segment. Returns
    /// whether that was the last of it: then all of it was there, and the engine can go on.
    pub fn portion<L: Log>(
        &mut self,
        log: &mut L,
        engine: &mut Engine,
        bytes: usize,
        begins: &mut dyn FnMut(Position, &mut Engine),
    ) -> Result<bool, OpenError> {
        let mut senseless = None;
        let next = log.replay(self.next, bytes, &mut |replayed| {
            let Replayed { position, begins_segment, batch } = replayed;
            if begins_segment {
                begins(position, engine);
            }
            self.last = Some(batch.at);
            self.next = position + 1;
            self.progress.done_bytes += batch.payload.len() as u64;
            if senseless.is_none() && engine.replay(batch.payload, self.history).is_err() {
                senseless = Some(position);
            }
        });
        if let Some(position) = senseless {
            return Err(OpenError::Records { position });
        }
        if let Some(next) = next.map_err(OpenError::Log)? {
            self.next = next;
            return Ok(false);
        }
        let (expected, found) = (self.tail, self.next - 1);
        if found != expected {
            return Err(OpenError::Short { expected, found });
        }
        if engine.can_count_on() { Ok(true) } else { Err(OpenError::Counted) }
    }
}

/// The log is being read back.
#[derive(Debug)]
pub(crate) struct Recovery {
    opened: Clock,
    replay: Replay,
    /// All was read back; what fell due meanwhile is being done.
    replayed: bool,
}

impl Recovery {
    pub(crate) fn new(claim: &Claim, opened: Clock) -> Self {
        Recovery { opened, replay: Replay::new(claim), replayed: false }
    }
}

impl<L: Log> Broker<L> {
    /// How far the log has been read back; nothing if that is over.
    #[must_use]
    pub fn progress(&self) -> Option<Progress> {
        self.recovery.as_ref().map(|recovery| recovery.replay.progress)
    }

    /// Reads about so much of the log back, and starts when that was the last of it.
    pub(crate) fn recover(&mut self, bytes: usize) {
        let Some(mut recovery) = self.recovery.take() else { return };
        if recovery.replayed {
            return self.catch_up(recovery);
        }
        let (engine, stretches) = (&mut self.engine, &mut self.stretches);
        let mut begins = |position, engine: &mut Engine| stretches.begin(position, engine);
        match recovery.replay.portion(&mut self.commit.log, engine, bytes, &mut begins) {
            Ok(false) => self.recovery = Some(recovery),
            Ok(true) => {
                self.replayed(&recovery);
                recovery.replayed = true;
                self.catch_up(recovery);
            }
            Err(error) => self.commit.fail(Failure::Open(error)),
        }
    }

    /// All was read back: time goes on.
    fn replayed(&mut self, recovery: &Recovery) {
        self.clock = EngineClock::new(recovery.replay.last, recovery.opened, self.seed);
        self.now = self.clock.now(self.machine);
        self.looks = Looks::new(self.now.engine_ms);
        self.commit.set_time(recovery.replay.last);
        let segment_bytes = self.commit.log.extent().segment_bytes;
        self.stretches.set_segment_bytes(segment_bytes);
        if segment_bytes > 0 && self.stretches.is_empty() {
            self.stretches.begin(recovery.replay.next, &mut self.engine);
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
                client.fed = true;
            }
            self.clients.change(id);
            self.clients.queue_up(id, &self.limits);
        }
    }
}

#[cfg(test)]
mod tests {
    use jobyard_engine::Limits;
    use jobyard_log::{Batch, MemoryLog};

    use super::*;

    #[test]
    fn when_the_last_batch_was_decided_is_known_as_soon_as_it_was_read() {
        let mut log = MemoryLog::new(1, 0);
        let claim = log.claim(0).unwrap();
        let moment = |engine_ms| Moment { engine_ms, ..Moment::default() };
        for position in 1..=3 {
            log.submit(claim.epoch, position, Batch { at: moment(10 * position), payload: b"" });
            log.completed();
        }
        let mut log = log.crash();
        let claim = log.claim(claim.epoch).unwrap();
        let (mut replay, mut engine) = (Replay::new(&claim), Engine::new(Limits::default(), claim.epoch, 0));
        assert_eq!(replay.last(), None);
        while !replay.portion(&mut log, &mut engine, 1, &mut |_, _| {}).unwrap() {}
        assert_eq!(replay.last(), Some(moment(30)));
    }
}
