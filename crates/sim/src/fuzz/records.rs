//! Any bytes as the records of a log: an engine that takes them is sound, and what it decides then can be read back.

use jobyard_engine::{Engine, History, Limits, Now};

/// What an engine may take that holds nothing, and for each byte of records: the shortest one makes a job or a queue.
const MEMORY_BYTES: usize = 64 << 10;
const MEMORY_PER_BYTE: usize = 1 << 10;

/// How much of an engine's state goes into one portion.
const PORTION_BYTES: usize = 1 << 10;

/// Gives the bytes, in two portions, to engines that believe differently much of it. The first byte says where to cut, and what
/// time it is.
///
/// # Panics
/// If an engine does what it must not.
pub fn check_records(data: &[u8]) {
    let (head, records) = data.split_at(data.len().min(1));
    let head = head.first().copied().unwrap_or(0);
    let (first, second) = records.split_at(usize::from(head).min(records.len()));
    let time_ms = 1_u64 << (head % 48);
    let now = Now { engine_ms: time_ms, wall_ms: time_ms.cast_signed(), random: 7 };
    for history in [History::Whole, History::Rest, History::Damaged] {
        let mut engine = Engine::new(Limits::default(), 1, 7);
        engine.begin_stretch();
        let mut sound = true;
        for portion in [first, second] {
            // What could not be read is left out: a damaged log is read like that.
            sound &= engine.replay(portion, history).is_ok();
        }
        let can_count_on = engine.can_count_on();
        assert!(can_count_on || history != History::Damaged, "what was salvaged cannot be written to");
        if (sound || history == History::Damaged) && can_count_on {
            check_engine(engine, records.len(), now);
        }
    }
}

/// An engine that has read so many bytes of records is sound, starts, and can be written anew.
pub(super) fn check_engine(mut engine: Engine, bytes: usize, now: Now) {
    // Jobs whose blockers are gone are freed by the recovery: only then all is in its place.
    let (taken, allowed) = (engine.memory_bytes(), MEMORY_BYTES + MEMORY_PER_BYTE * bytes);
    assert!(taken <= allowed, "{taken} bytes of memory for {bytes} bytes of records");
    engine.set_portion(PORTION_BYTES);
    // What the first ends may expire at once, and what that takes along.
    for _ in 0..4 {
        recover(&mut engine, now, bytes);
    }
    check_rewrite(engine, now, bytes);
}

/// Recovers an engine that was made of so many bytes.
fn recover(engine: &mut Engine, now: Now, bytes: usize) {
    // Each portion decides something about a job or a queue, of which there is at most one for each byte.
    let done = (0..bytes * 4 + 4).any(|_| {
        engine.clear_records();
        engine.recover(now)
    });
    assert!(done, "recovery does not end");
    engine.check();
}

/// What is written anew of an engine makes the same one again.
fn check_rewrite(mut engine: Engine, now: Now, bytes: usize) {
    let before = engine.snapshot().durable();
    engine.begin_keep_all();
    let mut copy = Engine::new(Limits::default(), 2, 8);
    copy.begin_stretch();
    loop {
        let done = engine.keep_all(PORTION_BYTES);
        copy.replay(engine.records(), History::Rest).expect("what an engine wrote can be read");
        engine.clear_records();
        if done {
            break;
        }
    }
    recover(&mut copy, now, bytes);
    let after = copy.snapshot().durable();
    assert!(after == before, "written anew:\n{after:#?}\nbefore:\n{before:#?}");
}
