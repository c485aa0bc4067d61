//! Statistics and lists, as YAML. Strings are quoted, as in beanstalkd 1.13; a list's are not.

use std::fmt::Display;
use std::io::Write;

use jobyard_engine::{Due, JobView, OwnTime, QueueCounts, QueueView, StateView, Sum, Tally};

use super::line::Counted;
use super::write::{self, NOT_FOUND};
use crate::codec::{Context, Health};
use crate::views::priority_from_urgency;

/// The beanstalkd whose form this is. Clients read it as two numbers, so nothing else can stand here.
pub const VERSION: &str = "1.13";

/// `stats-job`
pub(super) fn job(job: &JobView<'_>, out: &mut Vec<u8>, context: &Context<'_>) {
    let state = match job.state {
        StateView::Leased if crate::broken("protocols-reserved-is-ready") => "ready",
        StateView::Ready => "ready",
        StateView::Leased => "reserved",
        StateView::Buried => "buried",
        // One that waits for others is none that beanstalkd has.
        StateView::Delayed | StateView::Blocked => "delayed",
        StateView::Done | StateView::Failed => return write::line(out, NOT_FOUND),
    };
    let ttr_ms = match job.own_time {
        OwnTime::Millis(ms) => ms,
        OwnTime::None | OwnTime::Unlimited => context.limits.default_lease_ms,
    };
    let left_ms = match job.until {
        Some(Due::Engine(until_ms)) => until_ms.saturating_sub(context.now.engine_ms),
        Some(Due::Wall(until_ms)) => since_ms(context.now.wall_ms, until_ms),
        None => 0,
    };
    let Tally { leases, timeouts, releases, burials, revivals } = job.tally;
    let mut page = Page::new();
    page.number("id", job.number);
    page.text("tube", job.queue.as_bytes());
    page.bare("state", state);
    page.number("pri", priority_from_urgency(job.urgency));
    page.number("age", since_ms(job.created_wall_ms, context.now.wall_ms) / 1_000);
    page.number("delay", job.delay_ms / 1_000);
    page.number("ttr", ttr_ms.div_ceil(1_000));
    page.number("time-left", left_s(left_ms));
    page.number("file", 0);
    page.number("reserves", leases);
    page.number("timeouts", timeouts);
    page.number("releases", releases);
    page.number("buries", burials);
    page.number("kicks", revivals);
    page.write(out);
}

/// `stats-tube`
pub(super) fn tube(tube: &QueueView<'_>, out: &mut Vec<u8>, context: &Context<'_>) {
    let (pause_ms, left_ms) =
        tube.pause.map_or((0, 0), |pause| (pause.ms, pause.until_ms.saturating_sub(context.now.engine_ms)));
    let mut page = Page::new();
    page.text("name", tube.name.as_bytes());
    page.counts(tube.urgent, tube.counts);
    page.number("total-jobs", tube.totals.enqueued);
    page.number("current-using", tube.putters);
    page.number("current-watching", tube.takers);
    page.number("current-waiting", tube.waiting);
    page.number("cmd-delete", tube.totals.removed);
    page.number("cmd-pause-tube", tube.totals.pauses);
    page.number("pause", pause_ms / 1_000);
    page.number("pause-time-left", left_s(left_ms));
    page.write(out);
}

/// `stats`
pub(super) fn server(sum: &Sum, out: &mut Vec<u8>, context: &Context<'_>) {
    let (host, log) = (context.host, context.log);
    let cpu = (host.cpu_time)();
    let mut page = Page::new();
    page.counts(sum.urgent, sum.counts);
    for (counted, key) in Counted::ALL {
        page.number(key, context.tallies.beanstalkd.of(counted));
    }
    page.number("job-timeouts", sum.counters.timed_out);
    page.number("total-jobs", sum.counters.enqueued);
    page.number("max-job-size", context.limits.body_bytes_max);
    page.number("current-tubes", sum.queues);
    page.number("current-connections", context.clients);
    page.number("current-producers", sum.producers);
    page.number("current-workers", sum.workers);
    page.number("current-waiting", sum.waiting);
    page.number("total-connections", context.clients_total);
    page.number("pid", host.pid);
    page.text("version", VERSION.as_bytes());
    page.bare("rusage-utime", format_args!("{}.{:06}", cpu.user.as_secs(), cpu.user.subsec_micros()));
    page.bare("rusage-stime", format_args!("{}.{:06}", cpu.system.as_secs(), cpu.system.subsec_micros()));
    page.number("uptime", since_ms(context.started_wall_ms, context.now.wall_ms) / 1_000);
    page.number("binlog-oldest-index", log.oldest);
    page.number("binlog-current-index", log.newest);
    page.number("binlog-records-migrated", log.written.anew);
    page.number("binlog-records-written", log.written.decided);
    page.number("binlog-max-size", log.segment_bytes);
    page.bare("draining", context.health == Health::Draining);
    page.bare("id", format_args!("{:016x}", host.instance));
    page.text("hostname", host.name.as_bytes());
    page.text("os", host.os.as_bytes());
    page.text("platform", host.platform.as_bytes());
    page.write(out);
}

/// `list-tubes`, `list-tubes-watched` and `list-origins`
pub(super) fn names<'a>(names: impl Iterator<Item = &'a [u8]>, out: &mut Vec<u8>) {
    let mut page = Page::new();
    for name in names {
        page.0.extend_from_slice(b"- ");
        page.0.extend_from_slice(name);
        page.0.push(b'\n');
    }
    page.write(out);
}

/// Whole seconds that are left. A moment of a time is always over when somebody asks how much is left.
fn left_s(left_ms: u64) -> u64 {
    let more_ms = if crate::broken("protocols-time-left-too-long") { 1_000 } else { 0 };
    (left_ms.saturating_sub(1) + more_ms) / 1_000
}

/// How long it is from one time to another, if that is later.
fn since_ms(from_wall_ms: i64, to_wall_ms: i64) -> u64 {
    u64::try_from(to_wall_ms.saturating_sub(from_wall_ms)).unwrap_or(0)
}

/// A page of YAML.
struct Page(Vec<u8>);

impl Page {
    fn new() -> Self {
        Page(b"---\n".to_vec())
    }

    fn bare(&mut self, key: &str, value: impl Display) {
        writeln!(self.0, "{key}: {value}").expect("memory takes it");
    }

    fn number(&mut self, key: &str, value: impl Display) {
        self.bare(key, value);
    }

    /// How many jobs stand where.
    fn counts(&mut self, urgent: usize, counts: QueueCounts) {
        self.number("current-jobs-urgent", urgent);
        self.number("current-jobs-ready", counts.ready);
        self.number("current-jobs-reserved", counts.leased);
        self.number("current-jobs-delayed", counts.delayed);
        self.number("current-jobs-buried", counts.buried);
    }

    /// A quoted string. Queues of other protocols may have names that no tube has.
    fn text(&mut self, key: &str, value: &[u8]) {
        write!(self.0, "{key}: \"").expect("memory takes it");
        for chunk in value.utf8_chunks() {
            for character in chunk.valid().chars() {
                match character {
                    '"' | '\\' => write!(self.0, "\\{character}"),
                    // YAML has the same escape for what may stand in no text: control characters, and two line ends.
                    '\0'..='\x1f' | '\x7f'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' => {
                        write!(self.0, "\\u{:04x}", u32::from(character))
                    }
                    _ => write!(self.0, "{character}"),
                }
                .expect("memory takes it");
            }
            for byte in chunk.invalid() {
                write!(self.0, "\\x{byte:02x}").expect("memory takes it");
            }
        }
        self.0.extend_from_slice(b"\"\n");
    }

    /// The page, behind how long it is.
    fn write(self, out: &mut Vec<u8>) {
        write::counted(out, "OK", self.0.len() as u64);
        out.extend_from_slice(&self.0);
        out.extend_from_slice(b"\r\n");
    }
}
