//! What codecs may know of the server as a whole, beside its jobs.

use std::cell::Cell;
use std::time::Duration;

use jobyard_engine::Written;

use crate::beanstalkd::Counted;

/// What protocols count over all their connections, since the server's start.
#[derive(Debug, Default)]
pub struct Tallies {
    pub(crate) beanstalkd: RequestCounts,
}

/// How often each of beanstalkd's requests was made.
#[derive(Debug, Default)]
pub(crate) struct RequestCounts([Cell<u64>; Counted::ALL.len()]);

impl RequestCounts {
    pub(crate) fn count(&self, request: Counted) {
        let count = &self.0[request as usize];
        count.set(count.get() + 1);
    }

    pub(crate) fn of(&self, request: Counted) -> u64 {
        self.0[request as usize].get()
    }
}

/// The machine and the process that the server is.
#[derive(Clone, Debug)]
pub struct Host {
    /// The process.
    pub pid: u32,
    /// What the machine is called.
    pub name: Box<str>,
    /// Which version of its system it runs.
    pub os: Box<str>,
    /// What kind of processor it has.
    pub platform: Box<str>,
    /// A random number of this run of the server.
    pub instance: u64,
    /// What the process has taken of the processors so far.
    pub cpu_time: fn() -> CpuTime,
}

impl Default for Host {
    fn default() -> Self {
        let unknown = || Box::from("unknown");
        let cpu_time = CpuTime::default;
        Host { pid: 0, name: unknown(), os: unknown(), platform: unknown(), instance: 0, cpu_time }
    }
}

/// What a process has taken of the processors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// For itself.
    pub user: Duration,
    /// For what it asked of the system.
    pub system: Duration,
}

/// The log, as it is shown. One that keeps nothing has no segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogView {
    /// The oldest segment that is kept, counted from 1 over those that this run of the server has seen.
    pub oldest: u64,
    /// The newest one.
    pub newest: u64,
    /// How long a segment is.
    pub segment_bytes: u64,
    /// What was written to it.
    pub written: Written,
}
