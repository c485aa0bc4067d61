//! A log in memory behind a gate: it appends nothing before the test lets it.

use std::sync::{Arc, Mutex};
use std::thread;

use jobyard_log::{FRAME_HEADER_BYTES, MemoryLog};

use super::*;

/// What was asked of the log, in order.
type Calls = Arc<Mutex<Vec<String>>>;

struct Gated {
    log: MemoryLog,
    /// Opened for one batch by each word; if there will be none, whoever waits panics.
    gate: Receiver<()>,
    calls: Calls,
    /// Whether it cannot let go of anything, and what came of that.
    keeps: bool,
    trouble: Option<String>,
}

impl Gated {
    fn new(log: MemoryLog, gate: Receiver<()>, calls: Calls) -> Self {
        Gated { log, gate, calls, keeps: false, trouble: None }
    }

    fn note(&self, call: String) {
        self.calls.lock().unwrap().push(call);
    }
}

impl Log for Gated {
    fn claim(&mut self, seen_epoch: u64) -> Result<Claim, LogError> {
        self.log.claim(seen_epoch)
    }

    fn replay(
        &mut self,
        from: Position,
        bytes: usize,
        each: &mut dyn FnMut(Replayed<'_>),
    ) -> Result<Option<Position>, LogError> {
        self.log.replay(from, bytes, each)
    }

    fn submit(&mut self, epoch: u64, expected_position: Position, batch: Batch<'_>) {
        self.gate.recv().expect("the gate is opened");
        self.log.submit(epoch, expected_position, batch);
        self.note(format!("append {expected_position}"));
    }

    fn completed(&mut self) -> Option<Completion> {
        self.log.completed()
    }

    fn truncate_before(&mut self, position: Position) {
        self.note(format!("truncate {position}"));
        if self.keeps {
            self.trouble = Some("could not let go".to_owned());
        } else {
            self.log.truncate_before(position);
        }
    }

    fn extent(&self) -> Extent {
        self.log.extent()
    }

    fn tend(&mut self, engine_ms: u64) -> Option<u64> {
        self.note(format!("tend {engine_ms}"));
        Some(engine_ms + 10)
    }

    fn close(&mut self) {
        self.note("close".to_owned());
    }

    fn shortage(&self) -> Option<String> {
        Some("no room".to_owned())
    }

    fn trouble(&self) -> Option<String> {
        self.trouble.clone()
    }
}

/// A log with a thread, claimed, and the test's side of it.
struct Bench {
    log: ThreadLog<Gated>,
    epoch: u64,
    gate: Sender<()>,
    woken: Receiver<()>,
    calls: Calls,
}

impl Bench {
    fn new() -> Self {
        Self::over(MemoryLog::new(1, 0))
    }

    fn over(log: MemoryLog) -> Self {
        Self::of(|gate, calls| Gated::new(log, gate, calls))
    }

    fn of(gated: impl FnOnce(Receiver<()>, Calls) -> Gated) -> Self {
        let (gate, opened) = channel();
        let (wake, woken) = channel();
        let calls = Calls::default();
        let gated = gated(opened, Arc::clone(&calls));
        // The last wake comes when the test may be over.
        let mut log = ThreadLog::new(gated, move || wake.send(()).unwrap_or(())).unwrap();
        let epoch = log.claim(0).unwrap().epoch;
        Bench { log, epoch, gate, woken, calls }
    }

    fn submit(&mut self, position: Position, payload: &[u8]) {
        self.log.submit(self.epoch, position, Batch { at: Moment::default(), payload });
    }

    fn open(&self) {
        self.gate.send(()).unwrap();
    }

    fn calls(&self) -> Vec<String> {
        self.calls.lock().unwrap().clone()
    }
}

#[test]
fn nothing_is_durable_before_the_log_has_said_so() {
    let mut bench = Bench::new();
    for position in 1..=3 {
        bench.submit(position, &[7; 100]);
        assert_eq!(bench.log.completed(), None);
        assert_eq!(bench.log.completed(), None);
        bench.open();
        bench.woken.recv().unwrap();
        assert_eq!(bench.log.completed(), Some(Completion::Durable(position)));
        assert_eq!(bench.log.completed(), None, "none is in flight");
    }
    let mut read = Vec::new();
    let next = bench.log.replay(1, usize::MAX, &mut |replayed| read.push(replayed.batch.payload.to_vec()));
    assert_eq!((next, read), (Ok(None), vec![vec![7; 100]; 3]));
}

#[test]
fn a_batch_that_was_fenced_is_said_to_be() {
    let mut bench = Bench::new();
    bench.submit(2, b"x");
    bench.open();
    bench.woken.recv().unwrap();
    assert_eq!(bench.log.completed(), Some(Completion::Fenced));
}

#[test]
fn a_payload_that_is_shorter_than_the_last_is_not_mixed_with_it() {
    let mut bench = Bench::new();
    for (position, payload) in [(1, b"longer".as_slice()), (2, b"short"), (3, b"")] {
        bench.submit(position, payload);
        bench.open();
        bench.woken.recv().unwrap();
        assert_eq!(bench.log.completed(), Some(Completion::Durable(position)));
    }
    let mut read = Vec::new();
    bench.log.replay(1, usize::MAX, &mut |replayed| read.push(replayed.batch.payload.to_vec())).unwrap();
    assert_eq!(read, [b"longer".as_slice(), b"short", b""]);
}

#[test]
fn while_it_is_away_no_more_room_is_told_of_than_there_will_be() {
    let mut full = MemoryLog::new(1, 0);
    full.fill_up(true);
    let mut bench = Bench::over(full);
    let before = bench.log.extent();
    bench.submit(1, &[0; 1_000]);
    let taken = 1_000 + FRAME_HEADER_BYTES as u64;
    let away = bench.log.extent();
    assert_eq!((away.room, away.rest), (before.room - taken, before.rest - taken));
    assert!(away.short);
    assert_eq!((bench.log.shortage(), bench.log.trouble()), (Some("no room".to_owned()), None));
    bench.open();
    bench.woken.recv().unwrap();
    bench.log.completed();
    assert_eq!(bench.log.extent(), before, "what the log itself says");
}

#[test]
fn what_is_asked_while_it_is_away_is_done_when_it_is_back() {
    let mut bench = Bench::new();
    assert_eq!(bench.log.tend(1), Some(11));
    bench.submit(1, b"x");
    assert_eq!((bench.log.tend(2), bench.log.tend(3)), (None, None));
    bench.log.truncate_before(1);
    assert_eq!(bench.calls(), ["tend 1"]);
    bench.open();
    bench.woken.recv().unwrap();
    assert_eq!(bench.calls(), ["tend 1", "append 1"], "it is not back before it is asked for");
    bench.log.completed();
    assert_eq!(bench.calls(), ["tend 1", "append 1", "truncate 1", "tend 3"]);
    bench.submit(2, b"x");
    bench.open();
    bench.woken.recv().unwrap();
    bench.log.completed();
    assert_eq!(bench.calls()[4..], ["append 2"], "and only once");
}

#[test]
fn if_what_was_put_off_fails_nothing_more_is_said_to_be_durable() {
    let mut bench = Bench::of(|gate, calls| Gated { keeps: true, ..Gated::new(MemoryLog::new(1, 0), gate, calls) });
    bench.submit(1, b"x");
    bench.log.truncate_before(1);
    bench.open();
    bench.woken.recv().unwrap();
    assert_eq!(bench.log.completed(), Some(Completion::Unknown));
    assert_eq!(bench.log.trouble().as_deref(), Some("could not let go"));
}

#[test]
fn closing_and_dropping_wait_for_it() {
    let mut bench = Bench::new();
    bench.submit(1, b"x");
    let gate = bench.gate.clone();
    thread::scope(|scope| {
        scope.spawn(move || gate.send(()).unwrap());
        bench.log.close();
    });
    assert_eq!(bench.calls(), ["append 1", "close"]);
    bench.submit(2, b"x");
    let Bench { log, gate, calls, .. } = bench;
    thread::scope(|scope| {
        scope.spawn(move || gate.send(()).unwrap());
        drop(log);
    });
    assert_eq!(calls.lock().unwrap().last().unwrap(), "append 2");
}

#[test]
fn a_thread_that_panics_is_trouble() {
    let Bench { mut log, epoch, gate, woken, .. } = Bench::new();
    log.submit(epoch, 1, Batch { at: Moment::default(), payload: b"x" });
    let known = log.extent();
    drop(gate);
    woken.recv().unwrap();
    assert_eq!(log.completed(), Some(Completion::Unknown));
    assert_eq!(log.trouble().as_deref(), Some(LOST));
    assert_eq!((log.extent(), log.tend(1), log.claim(0)), (known, None, Err(LogError::NoLog)));
    log.truncate_before(1);
    log.submit(epoch, 2, Batch { at: Moment::default(), payload: b"x" });
    assert_eq!(log.completed(), Some(Completion::Unknown), "nothing hangs");
    log.close();
}

#[test]
fn a_loop_that_waits_for_sockets_is_woken_if_the_thread_panics() {
    let (gate, opened) = channel();
    let mut inner = Gated::new(MemoryLog::new(0, 0), opened, Calls::default());
    let epoch = inner.claim(0).unwrap().epoch;
    let mut poll = mio::Poll::new().unwrap();
    let waker = mio::Waker::new(poll.registry(), mio::Token(1)).unwrap();
    let mut log = ThreadLog::new(inner, move || waker.wake().unwrap()).unwrap();
    log.submit(epoch, 1, Batch { at: Moment::default(), payload: b"x" });
    drop(gate);
    // Not before the thread is gone with all it has.
    log.thread.take().unwrap().join().unwrap_err();
    let mut events = mio::Events::with_capacity(4);
    poll.poll(&mut events, Some(std::time::Duration::from_secs(30))).unwrap();
    assert_eq!(events.iter().count(), 1);
    assert_eq!(log.completed(), Some(Completion::Unknown));
}

#[test]
fn closing_does_not_hang_if_the_thread_panics() {
    let Bench { mut log, epoch, gate, .. } = Bench::new();
    log.submit(epoch, 1, Batch { at: Moment::default(), payload: b"x" });
    drop(gate);
    log.close();
    assert_eq!(log.trouble().as_deref(), Some(LOST));
}
