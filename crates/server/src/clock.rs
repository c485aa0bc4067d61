//! The two clocks of the machine, as the broker is told them.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use jobyard_broker::Clock;
use rustix::time::{ClockId, clock_gettime};

use crate::machine;

/// Something that tells the time.
pub trait Time {
    /// What time it is.
    fn now(&self) -> Clock;
}

/// The machine's own time.
#[derive(Debug)]
pub struct RealTime {
    start: Instant,
    /// For how long the machine had been running then.
    booted_ms: u64,
    boot: u64,
}

impl RealTime {
    /// Counts from now.
    pub fn new() -> RealTime {
        let booted = Duration::try_from(clock_gettime(ClockId::Monotonic)).unwrap_or_default();
        let booted_ms = u64::try_from(booted.as_millis()).unwrap_or(u64::MAX);
        RealTime { start: Instant::now(), booted_ms, boot: machine::boot() }
    }
}

impl Time for RealTime {
    fn now(&self) -> Clock {
        let passed_ms = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        let monotonic_ms = self.booted_ms.saturating_add(passed_ms);
        // A machine whose clock was never set may be before 1970.
        let wall_ms = match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
            Err(before) => i64::try_from(before.duration().as_millis()).map_or(i64::MIN, |ms| -ms),
        };
        Clock { monotonic_ms, boot: self.boot, wall_ms }
    }
}

/// Time that stands still unless it is moved, for tests.
#[derive(Debug)]
pub struct ManualTime(Clock);

impl ManualTime {
    /// 2026-01-01T00:00:00Z.
    pub fn new() -> ManualTime {
        ManualTime(Clock { monotonic_ms: 0, boot: 1, wall_ms: 1_767_225_600_000 })
    }

    /// Time passes on both clocks.
    pub fn pass(&mut self, ms: u64) {
        self.0.monotonic_ms = self.0.monotonic_ms.saturating_add(ms);
        self.0.wall_ms = self.0.wall_ms.saturating_add_unsigned(ms);
    }

    /// The wall clock steps.
    pub fn step(&mut self, by_ms: i64) {
        self.0.wall_ms = self.0.wall_ms.saturating_add(by_ms);
    }
}

impl Time for ManualTime {
    fn now(&self) -> Clock {
        self.0
    }
}
