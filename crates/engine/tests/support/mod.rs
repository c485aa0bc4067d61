//! An engine with a log in stretches, which can be compacted, dropped and read back.
#![allow(dead_code, reason = "each test file uses its own part of it")]

use std::collections::VecDeque;

use jobyard_engine::{
    By, Choice, ClientId, Command, Engine, History, Hold, JobRef, LeaseId, LeaseRequest, Limits, NewJob, Now,
    QueueName, Reply, Wait, records,
};

pub const CLIENT: ClientId = ClientId(1);

pub struct World {
    pub engine: Engine,
    pub now: Now,
    pub stretches: VecDeque<Vec<u8>>,
    /// Bytes written since this was set to 0.
    pub appended: usize,
    /// The last lease that was given.
    pub last_lease: Option<LeaseId>,
    dropped: bool,
    epoch: u64,
}

pub fn engine(epoch: u64) -> Engine {
    let mut engine = Engine::new(Limits::default(), epoch, 0);
    engine.begin_stretch();
    engine
}

pub fn name(text: &str) -> QueueName {
    QueueName::new(text.as_bytes())
}

pub fn plain(queue: &str) -> NewJob {
    NewJob::plain(name(queue), b"some body"[..].into())
}

impl World {
    pub fn new() -> Self {
        World {
            engine: engine(1),
            now: Now { engine_ms: 1_000, wall_ms: 50_000, random: 0 },
            stretches: VecDeque::from([Vec::new()]),
            appended: 0,
            last_lease: None,
            dropped: false,
            epoch: 1,
        }
    }

    pub fn command(&mut self, command: Command) {
        self.engine.handle(self.now, CLIENT, command, &mut |_, reply| {
            assert!(!matches!(reply, Reply::Refused(_) | Reply::NoJob), "{reply:?}");
        });
        self.write();
    }

    /// Returns its number.
    pub fn enqueue(&mut self, job: NewJob) -> u64 {
        let mut given = 0;
        self.engine.handle(self.now, CLIENT, Command::Enqueue(Box::new(job)), &mut |_, reply| match reply {
            Reply::Enqueued { number, .. } => given = number,
            reply => panic!("{reply:?}"),
        });
        self.write();
        given
    }

    pub fn lease(&mut self, queue: &str, hold: Hold) {
        self.lease_as(CLIENT, queue, hold);
    }

    pub fn lease_as(&mut self, client: ClientId, queue: &str, hold: Hold) {
        let request = LeaseRequest {
            queues: vec![name(queue)],
            choice: Choice::Best,
            hold,
            wait: Wait::No,
            creates_queues: false,
            body_without: None,
            heeds_ms: None,
        };
        let given = &mut self.last_lease;
        self.engine.handle(self.now, client, Command::Lease(Box::new(request)), &mut |_, reply| match reply {
            Reply::Leased { lease, .. } => *given = Some(lease),
            reply => panic!("{reply:?}"),
        });
        self.write();
    }

    pub fn complete(&mut self, number: u64) {
        self.command(Command::Complete { job: JobRef::Number(number), by: By::Anyone, result: Box::default() });
    }

    pub fn exists(&mut self, number: u64) -> bool {
        let mut exists = false;
        let look = Command::Look(jobyard_engine::Look::Job(JobRef::Number(number)));
        self.engine.handle(self.now, CLIENT, look, &mut |_, reply| exists = matches!(reply, Reply::Job(_)));
        exists
    }

    /// What was decided goes to the log.
    pub fn write(&mut self) {
        self.appended += self.engine.records().len();
        self.stretches.back_mut().unwrap().extend_from_slice(self.engine.records());
        self.engine.clear_records();
    }

    pub fn begin_stretch(&mut self) {
        self.stretches.push_back(Vec::new());
        self.engine.begin_stretch();
    }

    /// Begins a new stretch if the newest holds this much.
    pub fn roll(&mut self, stretch_bytes: usize) {
        if self.stretches.back().unwrap().len() >= stretch_bytes {
            self.begin_stretch();
        }
    }

    /// Writes all that is needed of the oldest stretch anew. Returns where in the newest stretch that begins.
    pub fn compact_oldest(&mut self) -> usize {
        let before = self.engine.snapshot();
        let begin = self.stretches.back().unwrap().len();
        assert!(self.engine.compact(usize::MAX));
        self.write();
        assert_eq!(self.engine.snapshot(), before, "compaction changes nothing");
        self.engine.check();
        begin
    }

    pub fn drop_oldest(&mut self) {
        self.stretches.pop_front();
        self.engine.drop_stretch();
        self.dropped = true;
    }

    /// The kinds of the records in the newest stretch, from there on.
    pub fn kinds(&self, begin: usize) -> impl Iterator<Item = &'static str> {
        records(&self.stretches.back().unwrap()[begin..]).map(|record| record.unwrap().kind)
    }

    pub fn bytes(&self) -> usize {
        self.stretches.iter().map(Vec::len).sum()
    }

    pub fn numbers(&self) -> Vec<u64> {
        self.engine.snapshot().jobs.iter().map(|job| job.number).collect()
    }

    /// What is read back, before it is recovered.
    pub fn replayed(&mut self) -> Engine {
        self.epoch += 1;
        let history = if self.dropped { History::Rest } else { History::Whole };
        let mut again = Engine::new(Limits::default(), self.epoch, 0);
        for stretch in &self.stretches {
            again.begin_stretch();
            again.replay(stretch, history).expect("the engine reads its own records");
        }
        again
    }

    /// Goes on with what is read back, which is the same.
    pub fn restart(&mut self) {
        let before = self.engine.snapshot();
        self.engine = self.replayed();
        self.engine.recover(self.now);
        self.engine.check();
        self.write();
        assert_eq!(self.engine.snapshot().durable(), before.durable());
    }
}
