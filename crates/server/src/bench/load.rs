//! The loop that keeps all connections busy, on one thread, until the time is over or the jobs are done.

use std::io::ErrorKind;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use mio::event::Event;
use mio::{Events, Poll, Token};
use rustix::time::{ClockId, clock_gettime};

use super::connection::{Connection, Step};
use super::latency::Latencies;
use super::wire::Script;

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
    /// How long all connections may be silent while something is unanswered.
    pub timeout: Duration,
}

/// What came of it.
#[derive(Debug)]
pub struct Measured {
    /// Requests that were answered: all of them.
    pub requests: u64,
    /// Jobs that were finished: all that were put.
    pub cycles: u64,
    /// The time from the first request to the last answer. Not to the end of the planned time: with many connections a
    /// server may answer all puts before the first take, and what was begun then would count for little or much.
    pub seconds: f64,
    /// What it took of a processor to ask and to understand, in seconds.
    pub generator_seconds: f64,
    /// How long requests took.
    pub latencies: Latencies,
}

/// Connections under load.
#[derive(Debug)]
pub struct Load<'a> {
    poll: Poll,
    connections: Vec<Connection<'a>>,
    depth: usize,
    timeout: Duration,
    began: Instant,
    /// No job is put after this, in nanoseconds after `began`.
    end: u64,
    /// How long from the beginning to the end, in nanoseconds.
    duration: u64,
    jobs_put: u64,
    jobs_max: u64,
    /// Connections with something unanswered.
    busy: usize,
    requests: u64,
    cycles: u64,
    latencies: Latencies,
}

impl<'a> Load<'a> {
    /// The load of this plan on these connections, which use the scripts in turn.
    pub fn new(streams: Vec<TcpStream>, scripts: &'a [Script], plan: &Plan) -> Result<Load<'a>> {
        let poll = Poll::new().context("cannot wait for sockets")?;
        let scripts = scripts.iter().cycle();
        let mut connections: Vec<_> = streams
            .into_iter()
            .zip(scripts)
            .map(|(stream, script)| Connection::new(stream, script, plan.depth))
            .collect();
        for (index, connection) in connections.iter_mut().enumerate() {
            connection.register(poll.registry(), Token(index)).context("cannot wait for a socket")?;
        }
        let nanos = |seconds| u64::try_from(Duration::from_secs_f64(seconds).as_nanos()).unwrap_or(u64::MAX);
        Ok(Load {
            poll,
            connections,
            depth: plan.depth,
            timeout: plan.timeout,
            began: Instant::now(),
            end: u64::MAX,
            duration: plan.jobs.map_or_else(|| nanos(plan.seconds), |_| u64::MAX),
            jobs_put: 0,
            jobs_max: plan.jobs.unwrap_or(u64::MAX),
            busy: 0,
            requests: 0,
            cycles: 0,
            latencies: Latencies::new(),
        })
    }

    /// Greets the server on every connection, then does what was planned. Every job that was put is finished, also
    /// when the time is over.
    pub fn run(mut self) -> Result<Measured> {
        let mut events = Events::with_capacity(EVENTS);
        for connection in &mut self.connections {
            connection.greet(0);
            connection.send()?;
        }
        self.until_all_is_answered(&mut events)?;

        self.latencies = Latencies::new();
        (self.requests, self.cycles) = (0, 0);
        let processor_before = processor_seconds();
        (self.began, self.end) = (Instant::now(), self.duration);
        for index in 0..self.connections.len() {
            let now = self.now();
            let connection = &mut self.connections[index];
            let wanted = usize::try_from(self.jobs_max - self.jobs_put).unwrap_or(usize::MAX);
            for _ in 0..self.depth.min(wanted) {
                connection.put(self.jobs_put, now);
                self.jobs_put += 1;
            }
            connection.send()?;
        }
        self.until_all_is_answered(&mut events)?;

        Ok(Measured {
            requests: self.requests,
            cycles: self.cycles,
            seconds: self.began.elapsed().as_secs_f64(),
            generator_seconds: processor_seconds() - processor_before,
            latencies: self.latencies,
        })
    }

    fn until_all_is_answered(&mut self, events: &mut Events) -> Result<()> {
        self.busy = self.connections.iter().filter(|connection| !connection.is_idle()).count();
        while self.busy > 0 {
            match self.poll.poll(events, Some(self.timeout)) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                other => other.context("cannot wait for sockets")?,
            }
            if events.is_empty() {
                bail!("no answer for {:?}: {} connections wait for the server", self.timeout, self.busy);
            }
            for event in events.iter() {
                self.go_on(event)?;
            }
        }
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
        let connection = &mut self.connections[index];
        let was_idle = connection.is_idle();
        while let Some(answer) = connection.answer(now)? {
            self.latencies.record(now - answer.asked_at);
            self.requests += 1;
            if answer.step == Step::Finish {
                self.cycles += 1;
                if now < self.end && self.jobs_put < self.jobs_max {
                    connection.put(self.jobs_put, now);
                    self.jobs_put += 1;
                }
            }
        }
        if !was_idle && connection.is_idle() {
            self.busy -= 1;
        }
        Ok(())
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// What this process took of a processor so far.
fn processor_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
