//! A start from what a crash left, and what must hold of it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use jobyard_engine::{ClientId, Command, Engine, History, Limits, NewJob, Now, QueueName, Reply};
use jobyard_log::{Batch, Claim, Completion, FileLog, Log, Moment, Options, Position};
use jobyard_sim::disk::SimDisk;

use crate::truth::digest;
use crate::world::for_one_start;

/// A log that was opened again, and the engine made from it.
pub struct Recovered {
    pub disk: SimDisk,
    pub log: FileLog<SimDisk>,
    pub claim: Claim,
    pub engine: Engine,
    /// The state as replayed, before anything else was done.
    pub digest: u64,
    last: Moment,
}

/// Opens the log and replays it.
pub fn recover(disk: SimDisk, options: &Options) -> Result<Recovered, String> {
    let recovered = catch_unwind(AssertUnwindSafe(|| open(disk, options)));
    recovered.unwrap_or_else(|_| Err("the start panicked (see above)".to_owned()))
}

fn open(disk: SimDisk, options: &Options) -> Result<Recovered, String> {
    let mut log = FileLog::open(disk.clone(), for_one_start(options));
    let claim = log.claim(0).map_err(|error| format!("the claim failed: {error}"))?;
    let mut engine = Engine::new(Limits::default(), claim.epoch, 1);
    let history = if claim.first > 1 { History::Rest } else { History::Whole };
    let (mut last, mut next, mut senseless) = (Moment::default(), claim.first, None);
    let more = log.replay(claim.first, usize::MAX, &mut |replayed| {
        if replayed.begins_segment {
            engine.begin_stretch();
        }
        if replayed.position != next || engine.replay(replayed.batch.payload, history).is_err() {
            senseless.get_or_insert(replayed.position);
        }
        (next, last) = (replayed.position + 1, replayed.batch.at);
    });
    match more {
        Ok(None) if next == claim.tail + 1 => {}
        other => return Err(format!("the replay ended before {next} of {claim:?}: {other:?}")),
    }
    if let Some(position) = senseless {
        return Err(format!("batch {position} makes no sense"));
    }
    if engine.stretches() == 0 {
        engine.begin_stretch();
    }
    engine.check();
    let digest = digest(&engine.snapshot());
    Ok(Recovered { disk, log, claim, engine, digest, last })
}

impl Recovered {
    /// Goes on as a server would: ends what does not survive, puts one more job, and makes that durable. Returns the job's
    /// number.
    pub fn go_on(&mut self) -> Result<u64, String> {
        let gone_on = catch_unwind(AssertUnwindSafe(|| self.put_one_more()));
        gone_on.unwrap_or_else(|_| Err("going on panicked (see above)".to_owned()))
    }

    /// A moment after all that is in the log.
    pub fn now(&self) -> Now {
        Now { engine_ms: self.last.engine_ms + 1, wall_ms: self.last.wall_ms + 1, random: 7 }
    }

    fn put_one_more(&mut self) -> Result<u64, String> {
        let now = self.now();
        self.engine.recover(now);
        self.engine.check();
        let mut number = None;
        let queue = QueueName::new(b"one more");
        let job = NewJob::plain(queue, Box::from(&b"one more"[..]));
        self.engine.handle(now, ClientId(1), Command::Enqueue(Box::new(job)), &mut |_, reply| {
            if let Reply::Enqueued { number: given, .. } = reply {
                number = Some(given);
            }
        });
        let at = Moment { engine_ms: now.engine_ms, wall_ms: now.wall_ms, ..self.last };
        self.log.submit(self.claim.epoch, self.claim.tail + 1, Batch { at, payload: self.engine.records() });
        self.engine.clear_records();
        match self.log.completed() {
            Some(Completion::Durable(position)) if position == self.claim.tail + 1 => {}
            other => return Err(format!("the next batch: {other:?}, {:?}", self.log.trouble())),
        }
        number.ok_or_else(|| "no job can be put".to_owned())
    }

    pub fn tail(&self) -> Position {
        self.claim.tail
    }
}
