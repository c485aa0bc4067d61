//! What a log in files must do, on a disk in memory.

mod basics;
mod damage;
mod failures;
mod letting_go;
mod modes;
mod portions;
mod reading;
mod rewriting;
mod room;
mod salvaging;
mod starts;

use super::test_disk::TestDisk;
use super::{FileLog, Options, SyncMode};
use crate::error::LogError;
use crate::log::{Batch, Claim, Completion, Log, Moment, Position};

const SALT: u64 = 0x5a17_c0de_5eed_f00d;
/// Room for a few frames.
const SEGMENT_BYTES: u64 = 4096 + 1000;

fn options() -> Options {
    Options { segment_bytes: SEGMENT_BYTES, ..Options::new(SALT) }
}

fn with_sync(sync: SyncMode) -> Options {
    Options { sync, ..options() }
}

fn open(disk: &TestDisk, options: Options) -> FileLog<TestDisk> {
    FileLog::open(disk.clone(), options)
}

/// A log that was claimed, and what the claim said.
fn claimed(disk: &TestDisk, options: Options) -> (FileLog<TestDisk>, Claim) {
    let mut log = open(disk, options);
    let claim = log.claim(0).unwrap();
    (log, claim)
}

fn batch(engine_ms: u64, payload: &[u8]) -> Batch<'_> {
    Batch { at: Moment { engine_ms, wall_ms: -5, boot_ms: 7, boot: 9 }, payload }
}

/// What the batch at this position holds: 100 to 199 bytes that no other holds.
fn payload(position: Position) -> Vec<u8> {
    let len = 100 + usize::try_from(position * 37 % 100).unwrap();
    format!("{position:08}").into_bytes().into_iter().cycle().take(len).collect()
}

fn submit(log: &mut FileLog<TestDisk>, epoch: u64, position: Position, payload: &[u8]) -> Completion {
    log.submit(epoch, position, batch(position, payload));
    log.completed().unwrap()
}

/// Appends the batches of these positions.
fn append(log: &mut FileLog<TestDisk>, epoch: u64, positions: std::ops::RangeInclusive<Position>) {
    for position in positions {
        assert_eq!(
            submit(log, epoch, position, &payload(position)),
            Completion::Durable(position),
            "{:?}",
            log.trouble()
        );
        log.tend(position);
    }
}

type Read = Vec<(Position, Vec<u8>)>;

fn read(log: &mut FileLog<TestDisk>) -> Result<Read, LogError> {
    let mut read = Vec::new();
    let next = log.replay(1, usize::MAX, &mut |replayed| {
        read.push((replayed.position, replayed.batch.payload.to_vec()));
    })?;
    assert_eq!(next, None);
    Ok(read)
}

/// What [`append`] has appended.
fn expected(positions: std::ops::RangeInclusive<Position>) -> Read {
    positions.map(|position| (position, payload(position))).collect()
}

/// What a server that starts now finds.
fn recovered(disk: &TestDisk) -> Result<(Claim, Read), LogError> {
    recovered_with(disk, options())
}

fn recovered_with(disk: &TestDisk, options: Options) -> Result<(Claim, Read), LogError> {
    let mut log = open(disk, options);
    let claim = log.claim(0)?;
    let read = read(&mut log)?;
    Ok((claim, read))
}

/// Numbers that look random.
fn random(seed: u64) -> impl FnMut() -> usize {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state >> 33).unwrap()
    }
}

/// As in a copy, or if someone has tidied up.
fn remove_spares(disk: &TestDisk) {
    for name in disk.names().iter().filter(|name| name.starts_with("spare")) {
        disk.remove_now(name);
    }
}
