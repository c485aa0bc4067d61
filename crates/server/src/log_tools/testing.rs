//! Small logs for the tests of the tools.

use std::fs;
use std::path::PathBuf;

use anyhow::Result;
use jobyard_engine::{ClientId, Command, Engine, Limits, NewJob, Now, QueueName};
use jobyard_log::{Batch, Completion, FileLog, Log, Moment, Options};

use super::verify;
use crate::disk::OsDisk;

/// A directory that goes away with the test.
pub struct Place(pub PathBuf);

impl Place {
    pub fn new(name: &str) -> Place {
        Place(std::env::temp_dir().join(format!("jobyard-tools-{}-{name}", std::process::id())))
    }

    pub fn verified(&self) -> Result<String> {
        let mut out = Vec::new();
        verify::verify(&self.0, &mut out).map(|()| String::from_utf8(out).unwrap())
    }

    /// Writes a log of these batches, and closes it.
    pub fn write(&self, batches: &[Vec<u8>]) {
        self.write_unclosed(batches).close();
    }

    /// Writes a log of these batches.
    pub fn write_unclosed(&self, batches: &[Vec<u8>]) -> FileLog<OsDisk> {
        let mut log = FileLog::open(OsDisk::open(&self.0).unwrap(), options());
        let epoch = log.claim(0).unwrap().epoch;
        for (position, payload) in (1..).zip(batches) {
            log.submit(epoch, position, Batch { at: Moment::default(), payload });
            assert_eq!(log.completed(), Some(Completion::Durable(position)));
        }
        log
    }

    /// Changes a bit of the first batch of a segment; doing so again mends it.
    pub fn flip_in_segment(&self, segment: u64) {
        let path = self.0.join(format!("{segment:020}.log"));
        let mut bytes = fs::read(&path).unwrap();
        bytes[4096 + 100] ^= 1;
        fs::write(&path, bytes).unwrap();
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The smallest segments that there can be.
pub fn options() -> Options {
    Options { segment_bytes: 64 << 10, ..Options::new(7) }
}

/// The records of so many jobs in the queue `q`, a batch each.
pub fn jobs(count: u8) -> Vec<Vec<u8>> {
    let mut engine = Engine::new(Limits::default(), 1, 0);
    let now = Now { engine_ms: 0, wall_ms: 0, random: 0 };
    let batch = |job: u8| {
        let job = NewJob::plain(QueueName::new(b"q"), Box::from([job; 2000]));
        engine.handle(now, ClientId(1), Command::Enqueue(Box::new(job)), &mut |_, _| {});
        let records = engine.records().to_vec();
        engine.clear_records();
        records
    };
    (1..=count).map(batch).collect()
}
