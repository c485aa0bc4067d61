//! What whoever runs the server is told while it runs: how far the log has been read back, and why jobs are
//! refused for want of room.

use std::io::{IsTerminal, Write, stderr};
use std::time::{Duration, Instant};

use jobyard_broker::{Broker, Progress};
use jobyard_log::Log;

/// The progress line changes so often at most.
const PROGRESS_EVERY: Duration = Duration::from_millis(100);

/// On a disk that is on the brink, room comes and goes many times a second: it is told of so often at most.
const DISK_EVERY: Duration = Duration::from_secs(10);

/// What was told last.
#[derive(Debug)]
pub struct Watch {
    begun: Instant,
    /// When the progress line was last written, if there is a terminal to write it on.
    shown: Option<Instant>,
    terminal: bool,
    ready: bool,
    disk: Disk,
}

/// What was told of the disk.
#[derive(Debug, Default)]
struct Disk {
    full: bool,
    /// When, if ever.
    told: Option<Instant>,
}

impl Disk {
    /// How long to wait before it may be told that the disk is, or is no longer, full. Nothing if it was told.
    fn wait(&self, full: bool, now: Instant) -> Option<Duration> {
        let since_told = self.told.map(|told| now.saturating_duration_since(told));
        (full != self.full).then(|| since_told.map_or(Duration::ZERO, |since| DISK_EVERY.saturating_sub(since)))
    }
}

impl Watch {
    /// Nothing was told.
    pub fn new() -> Watch {
        Watch {
            begun: Instant::now(),
            shown: None,
            terminal: stderr().is_terminal(),
            ready: false,
            disk: Disk::default(),
        }
    }

    /// Tells what has changed. If there is more that is not to be told yet, returns when to look again.
    pub fn look<L: Log>(&mut self, broker: &Broker<L>) -> Option<Duration> {
        if !self.ready {
            self.look_at_recovery(broker);
        }
        if broker.stopped() {
            return None;
        }
        let full = broker.disk_full();
        if full == self.disk.full {
            return None;
        }
        let now = Instant::now();
        let wait = self.disk.wait(full, now)?;
        if !wait.is_zero() {
            return Some(wait);
        }
        self.disk = Disk { full, told: Some(now) };
        if full {
            tracing::warn!("{}", refused(broker.shortage().as_deref()));
        } else {
            tracing::info!("there is room on the disk again: jobs are taken");
        }
        None
    }

    fn look_at_recovery<L: Log>(&mut self, broker: &Broker<L>) {
        if let Some(progress) = broker.progress() {
            self.show(progress);
            return;
        }
        self.clear_line();
        self.ready = true;
        if broker.failure().is_none() {
            let ms = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
            tracing::info!(jobs = broker.jobs(), ms, "ready");
        }
    }

    fn show(&mut self, progress: Progress) {
        if !self.terminal || self.shown.is_some_and(|shown| shown.elapsed() < PROGRESS_EVERY) {
            return;
        }
        self.shown = Some(Instant::now());
        let _ = write!(stderr(), "\r{}", line(progress));
    }

    /// Leaves nothing of the progress line.
    fn clear_line(&self) {
        if self.shown.is_some() {
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }
}

/// That there is no room for jobs, and why.
fn refused(shortage: Option<&str>) -> String {
    let why = shortage.map(|why| format!(": {why}")).unwrap_or_default();
    format!("jobs are refused until there is room{why}; finishing goes on")
}

fn line(Progress { done_bytes, bytes }: Progress) -> String {
    const MIB: u64 = 1 << 20;
    let percent = (done_bytes.saturating_mul(100)).checked_div(bytes).unwrap_or(100).min(100);
    format!("reading the log: {percent:3} % of {} MiB", bytes.div_ceil(MIB))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_how_much_of_how_much() {
        assert_eq!(line(Progress { done_bytes: 1 << 20, bytes: 4 << 20 }), "reading the log:  25 % of 4 MiB");
        assert_eq!(line(Progress { done_bytes: 0, bytes: 0 }), "reading the log: 100 % of 0 MiB");
        assert_eq!(line(Progress { done_bytes: 9, bytes: 3 }), "reading the log: 100 % of 1 MiB");
    }

    #[test]
    fn a_full_disk_is_told_of_at_once_and_then_every_ten_seconds_at_most() {
        let start = Instant::now();
        let mut disk = Disk::default();
        assert_eq!(disk.wait(false, start), None);
        assert_eq!(disk.wait(true, start), Some(Duration::ZERO));
        disk = Disk { full: true, told: Some(start) };
        assert_eq!(disk.wait(true, start), None);
        assert_eq!(disk.wait(false, start + Duration::from_secs(3)), Some(Duration::from_secs(7)));
        assert_eq!(disk.wait(false, start + DISK_EVERY), Some(Duration::ZERO));
        assert_eq!(disk.wait(false, start + Duration::from_secs(90)), Some(Duration::ZERO));
    }

    #[test]
    fn a_refusal_says_why_if_anyone_knows() {
        let why = "could not make spare-4.log: Input/output error (os error 5)";
        let said = "jobs are refused until there is room: could not make spare-4.log: Input/output error (os error 5); \
                    finishing goes on";
        assert_eq!(refused(Some(why)), said);
        assert_eq!(refused(None), "jobs are refused until there is room; finishing goes on");
    }
}
