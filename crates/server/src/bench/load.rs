//! The loop that keeps all connections busy, on one thread, until the time is over or the jobs are done.

use std::io::ErrorKind;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use mio::event::Event;
use mio::{Events, Poll, Token};
use rustix::time::{ClockId, clock_gettime};

use super::connection::{Connection, Step};
use super::handover::Pairs;
use super::latency::Latencies;
use super::wire::Script;
use crate::progress::{Line, bar, grouped};

/// Events that are told of at once.
const EVENTS: usize = 1024;

/// How much there is to do.
#[derive(Debug)]
pub struct Plan {
    /// Requests in flight on each connection.
    pub depth: usize,
    /// This many jobs;
    pub jobs: Option<u64>,
    /// otherwise, for so long.
    pub seconds: f64,
    /// Jobs that wait in the queues all the while.
    pub backlog: u64,
    /// What is done with them.
    pub course: Course,
    /// Whether nothing is in the queues when it begins.
    pub finds_empty: bool,
    /// How long all connections may be silent while something is unanswered.
    pub timeout: Duration,
}

/// What is done over and over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Course {
    /// From the first to the last thing that is done with a job, by one connection.
    Steps(Step, Step),
    /// One connection of two puts a job for which the other waits.
    HandOver,
}

/// What came of it.
#[derive(Debug)]
pub struct Measured {
    /// Requests that were answered: all of them.
    pub requests: u64,
    /// Jobs of which all was done that was wanted: put, taken and finished.
    pub cycles: u64,
    /// The time from the first request to the last answer. Not to the end of the planned time: with many connections a
    /// server may answer all puts before the first take, and what was begun then would count for little or much.
    pub seconds: f64,
    /// What it took of a processor to ask and to understand, in seconds.
    pub generator_seconds: f64,
    /// How long requests took; of those that are handed over, how long each was under way.
    pub latencies: Latencies,
}

/// A part of the run: what is done, and how often.
#[derive(Debug)]
struct Phase {
    course: Course,
    /// How often each connection may still begin;
    shares: Vec<u64>,
    /// how often all of them together;
    left: u64,
    /// and until when, in nanoseconds after the phase began.
    end: u64,
    /// What it is called where one sees how far it is.
    name: &'static str,
}

impl Phase {
    /// As often as there are jobs, each connection as often as its share.
    fn shared(first: Step, last: Step, shares: Vec<u64>, name: &'static str) -> Phase {
        let left = shares.iter().sum();
        Phase { course: Course::Steps(first, last), shares, left, end: u64::MAX, name }
    }

    /// Whether this connection may begin once more. If so, it does.
    fn begin(&mut self, index: usize, now: u64) -> bool {
        let may = now < self.end && self.left > 0 && self.shares[index] > 0;
        if may {
            self.left -= 1;
            self.shares[index] -= 1;
        }
        may
    }
}

/// Connections under load.
#[derive(Debug)]
pub struct Load<'a> {
    poll: Poll,
    pub(super) connections: Vec<Connection<'a>>,
    depth: usize,
    timeout: Duration,
    phase: Phase,
    pub(super) pairs: Pairs,
    /// When the phase began.
    began: Instant,
    pub(super) jobs_put: u64,
    /// Connections with something unanswered.
    pub(super) busy: usize,
    requests: u64,
    pub(super) cycles: u64,
    pub(super) latencies: Latencies,
    line: Line,
}

impl<'a> Load<'a> {
    /// The load of this plan on these connections, which use the scripts in turn.
    pub fn new(streams: Vec<TcpStream>, scripts: &'a [Script], plan: &Plan) -> Result<Load<'a>> {
        let poll = Poll::new().context("cannot wait for sockets")?;
        // The greeting shows that a queue is empty; in some protocols it names the queue too.
        let greets = u64::from(plan.finds_empty || scripts.iter().any(|script| script.greet_names_queue));
        // Both connections of a pair have one queue.
        let together = if plan.course == Course::HandOver { 2 } else { 1 };
        let scripts = scripts.iter().cycle().flat_map(|script| std::iter::repeat_n(script, together));
        let mut connections: Vec<_> = streams
            .into_iter()
            .zip(scripts)
            .map(|(stream, script)| Connection::new(stream, script, plan.depth))
            .collect();
        for (index, connection) in connections.iter_mut().enumerate() {
            connection.register(poll.registry(), Token(index)).context("cannot wait for a socket")?;
        }
        Ok(Load {
            poll,
            phase: Phase::shared(Step::Greet, Step::Greet, vec![greets; connections.len()], "greeting"),
            pairs: Pairs::new(connections.len()),
            connections,
            depth: plan.depth,
            timeout: plan.timeout,
            began: Instant::now(),
            jobs_put: 0,
            busy: 0,
            requests: 0,
            cycles: 0,
            latencies: Latencies::new(),
            line: Line::new(),
        })
    }

    /// Greets the server on every connection, then does what was planned. Every job that was put is finished, also
    /// when the time is over, unless jobs shall only be put.
    pub fn run(mut self, plan: &Plan) -> Result<Measured> {
        let measured = self.go_through_all(plan);
        self.line.clear();
        measured
    }

    fn go_through_all(&mut self, plan: &Plan) -> Result<Measured> {
        self.until_all_is_answered()?;
        // Each takes as many as it put: other connections may have other queues.
        let shares = shares(plan.backlog, self.connections.len());
        self.go_through(Phase::shared(Step::Put, Step::Put, shares.clone(), "putting the backlog"))?;

        let processor_before = processor_seconds();
        let nanos = u64::try_from(Duration::from_secs_f64(plan.seconds).as_nanos()).unwrap_or(u64::MAX);
        self.go_through(Phase {
            course: plan.course,
            shares: vec![u64::MAX; self.connections.len()],
            left: plan.jobs.unwrap_or(u64::MAX),
            end: if plan.jobs.is_some() { u64::MAX } else { nanos },
            name: "measuring",
        })?;
        let measured = Measured {
            requests: self.requests,
            cycles: self.cycles,
            seconds: self.began.elapsed().as_secs_f64(),
            generator_seconds: processor_seconds() - processor_before,
            latencies: std::mem::replace(&mut self.latencies, Latencies::new()),
        };

        self.go_through(Phase::shared(Step::Take, Step::Finish, shares, "finishing the backlog"))?;
        Ok(measured)
    }

    /// One phase, up to its last answer. The figures are of it alone.
    fn go_through(&mut self, phase: Phase) -> Result<()> {
        self.latencies = Latencies::new();
        (self.requests, self.cycles) = (0, 0);
        self.phase = phase;
        self.began = Instant::now();
        self.until_all_is_answered()
    }

    /// Begins on all connections, as much as may be in flight, and goes on until nothing more is to be done.
    fn until_all_is_answered(&mut self) -> Result<()> {
        let mut events = Events::with_capacity(EVENTS);
        let planned = self.phase.left;
        self.begin_all()?;
        while self.busy > 0 {
            match self.poll.poll(&mut events, Some(self.timeout)) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                other => other.context("cannot wait for sockets")?,
            }
            if events.is_empty() {
                bail!("no answer for {:?}: {} connections wait for the server", self.timeout, self.busy);
            }
            for event in &events {
                self.go_on(event)?;
            }
            self.line.show(|| self.phase.shown(planned, self.requests, self.began.elapsed()));
        }
        Ok(())
    }

    fn begin_all(&mut self) -> Result<()> {
        if self.phase.course == Course::HandOver {
            return self.begin_pairs();
        }
        for index in 0..self.connections.len() {
            let now = self.now();
            for _ in 0..self.depth {
                self.begin(index, now);
            }
            self.connections[index].send()?;
        }
        self.busy = self.connections.iter().filter(|connection| !connection.is_idle()).count();
        Ok(())
    }

    /// What one connection has to say is heard, and what follows is asked, in as few reads and writes as can be.
    fn go_on(&mut self, event: &Event) -> Result<()> {
        let Token(index) = event.token();
        let mut more = event.is_readable() || event.is_read_closed() || event.is_error();
        while more {
            more = self.connections[index].receive(event)?;
            self.hear(index)?;
        }
        self.connections[index].send()
    }

    fn hear(&mut self, index: usize) -> Result<()> {
        let now = self.now();
        let was_idle = self.connections[index].is_idle();
        let last = match self.phase.course {
            Course::Steps(_, last) => last,
            Course::HandOver if Pairs::puts(index) => Step::Put,
            Course::HandOver => Step::Finish,
        };
        while let Some(answer) = self.connections[index].answer(last, now)? {
            self.requests += 1;
            if self.phase.course == Course::HandOver {
                self.go_on_with_pair(index, answer.step, now)?;
                continue;
            }
            self.latencies.record(now - answer.asked_at);
            if answer.step == last {
                self.cycles += u64::from(answer.step == Step::Finish);
                self.begin(index, now);
            }
        }
        if !was_idle && self.connections[index].is_idle() {
            self.busy -= 1;
        }
        Ok(())
    }

    /// Asks for the first step once more, if it may be.
    fn begin(&mut self, index: usize, now: u64) {
        let Course::Steps(first, _) = self.phase.course else { return };
        if self.may_begin(index, now) {
            self.connections[index].ask(first, self.jobs_put, now);
            self.jobs_put += u64::from(first == Step::Put);
        }
    }

    /// Whether this connection may begin once more. If so, it must.
    pub(super) fn may_begin(&mut self, index: usize, now: u64) -> bool {
        self.phase.begin(index, now)
    }

    pub(super) fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

impl Phase {
    /// How far it has come, of so much that was planned: of the jobs or, where these are without number, of the time.
    fn shown(&self, planned: u64, requests: u64, elapsed: Duration) -> String {
        let (done, total) = match self.end {
            u64::MAX => (planned - self.left, planned),
            end => (u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX), end),
        };
        let rate = requests as f64 / elapsed.as_secs_f64().max(0.001);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is shown")]
        let rate = grouped(rate as u64);
        format!("{}  {}, {rate} requests/s", bar(done, total), self.name)
    }
}

/// So many jobs, cut into shares of which none is more than one larger than another.
fn shares(jobs: u64, connections: usize) -> Vec<u64> {
    let connections = connections as u64;
    (0..connections).map(|index| jobs / connections + u64::from(index < jobs % connections)).collect()
}

/// What this process took of a processor so far.
fn processor_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_of_the_jobs_or_of_the_time() {
        let course = Course::Steps(Step::Put, Step::Finish);
        let second = Duration::from_secs(1);
        let jobs = Phase { course, shares: Vec::new(), left: 250, end: u64::MAX, name: "measuring" };
        let shown = "[###############.....]  75 %  measuring, 2,250 requests/s";
        assert_eq!(jobs.shown(1_000, 2_250, second), shown);
        let timed = Phase { left: u64::MAX, end: 4_000_000_000, ..jobs };
        assert!(timed.shown(u64::MAX, 7, second).starts_with("[#####...............]  25 %"));
        assert!(timed.shown(u64::MAX, 7, 5 * second).starts_with("[####################] 100 %"));
    }
}
