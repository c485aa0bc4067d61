//! The log, in files that are in memory.

use jobyard_log::{Batch, Completion, FileLog, Log, Moment, Options};

use crate::disk::MemoryDisk;
use crate::measured;

/// Appends batches of so many bytes: an operation is a batch.
pub fn commit(count: u64, bytes: usize) {
    drop(filled(count, bytes));
}

/// Reads batches of 1 KiB back: an operation is a batch.
pub fn replay(count: u64) {
    let mut log = FileLog::open(uncounted(count).into_disk(), Options::new(7));
    let claim = log.claim(1).expect("it was closed well");
    let mut batches = 0;
    let mut next = Some(claim.first);
    while let Some(from) = next {
        let read = || log.replay(from, 1 << 20, &mut |_| batches += 1);
        next = measured(read).expect("it is whole");
    }
    assert_eq!(batches, count);
}

fn filled(count: u64, bytes: usize) -> FileLog<MemoryDisk> {
    append(count, bytes, |log, epoch, position, batch| measured(|| log.submit(epoch, position, batch)))
}

fn uncounted(count: u64) -> FileLog<MemoryDisk> {
    append(count, 1 << 10, Log::submit)
}

fn append(
    count: u64,
    bytes: usize,
    submit: impl Fn(&mut FileLog<MemoryDisk>, u64, u64, Batch<'_>),
) -> FileLog<MemoryDisk> {
    let mut log = FileLog::open(MemoryDisk::default(), Options::new(7));
    let claim = log.claim(0).expect("it is new");
    let payload: Vec<u8> = (0..=u8::MAX).cycle().take(bytes).collect();
    for position in claim.tail + 1..=claim.tail + count {
        submit(&mut log, claim.epoch, position, Batch { at: Moment::default(), payload: &payload });
        assert_eq!(log.completed(), Some(Completion::Durable(position)));
        // Room is made ahead of need, as it is while a server runs.
        log.tend(position);
    }
    log
}
