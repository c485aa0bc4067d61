//! `jobyard bench`: a client that puts a server under load and says how it did. Any server of a protocol will do, also
//! one that is not Jobyard.

mod connection;
mod handover;
mod latency;
mod load;
mod protocol;
mod report;
mod scripts;
mod target;
mod wire;

use std::time::Duration;

use anyhow::{Context, ensure};
use clap::{Args, ValueEnum};
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::failure::Failure;
use crate::machine;
use crate::serve::say;
use connection::Step;
use load::{Course, Load, Plan};
use protocol::{Jobs, random};
use report::Report;
use target::Target;
use wire::Script;

/// What stands under the options in the help.
pub const NOTES: &str = "Protocols:
  goqueue, takeanumber, masenko, jobcentre, workq and beanstalkd, to whoever
  speaks them: also to the servers that they come from. Besides, to compare:
  redis (LPUSH, LMOVE to a second list, LREM), and echo, a server that says
  again what it hears: what machine and load allow.

Workloads:
  cycle     each connection puts a job, takes one and finishes it
  put       jobs are put, and stay there, under the names that --json says;
            in workq, for an hour
  take      jobs that --workload put left in --queue are taken and finished:
            there must be as many
  handover  of each pair of connections one waits for the job that the other
            puts; the time is that from the put to the one who waited

  A request is one put, take or finish; a cycle is one of each. A job is
  taken by whichever connection asks, and finished by it; in workq, with
  delete. Every reply is checked, and the first that is wrong ends the run.
  When the time is over, what was begun is finished; figures are of all there
  was, up to the last answer. With several requests in flight on a connection
  a latency is that of the pipeline. Times are right to 1 %.

Examples:
  jobyard bench
  jobyard bench goqueue://127.0.0.1:11223 --connections 10 --depth 64
  jobyard bench beanstalkd://127.0.0.1:11300 --jobs 100000 --json
  jobyard bench redis://127.0.0.1 --pin 1
  jobyard bench workq://127.0.0.1 --workload handover --connections 2
  jobyard bench --depth 64 --jobs 1000000 --backlog 10000 --priorities 100
  jobyard bench --depth 64 --jobs 1000000 --workload put
  jobyard bench --workload take --queue bench-0123456789abcdef-0 --jobs 1000

Exit codes:
  0  every request was answered as it should be
  1  no connection, a server that hung up, or an answer that is wrong
  2  the command line makes no sense";

/// Requests of all connections together that may be on their way, in bytes.
const OUTPUT_BYTES_MAX: u64 = 1 << 30;

/// What `jobyard bench` can be told.
#[derive(Args, Debug)]
pub struct Arguments {
    /// The server: PROTOCOL://HOST:PORT
    #[arg(value_name = "URL", default_value = "jobcentre://127.0.0.1:5627")]
    target: Target,

    /// How many connections
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=60_000))]
    connections: u32,

    /// Requests in flight on each connection
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    depth: u32,

    /// What is done with jobs
    #[arg(long, value_enum, value_name = "WORKLOAD", default_value = "cycle", hide_possible_values = true)]
    workload: Workload,

    /// For how long, such as 10 or 0.5 [default: 5]
    #[arg(long, value_name = "SECONDS", value_parser = seconds, conflicts_with = "jobs")]
    seconds: Option<f64>,

    /// How many jobs, instead of for how long
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    jobs: Option<u64>,

    /// The size of a job's body, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 64, value_parser = clap::value_parser!(u32).range(..=16 << 20))]
    body: u32,

    /// Jobs that wait in the queues all the while
    ///
    /// So many jobs are put before the measured ones, so that those wait behind them; they are taken in turn with all
    /// others, and at the end the rest is taken and finished. They are not in the figures.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=1_000_000_000))]
    backlog: u64,

    /// A queue that is there, whatever is in it, instead of a new one
    ///
    /// Jobs that are taken must have bodies of the same size.
    #[arg(long, value_name = "QUEUE", value_parser = queue, required_if_eq("workload", "take"))]
    queue: Option<String>,

    /// How many priorities jobs have, where the protocol has any
    ///
    /// Each job has one of them, in no order.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    priorities: u32,

    /// How many queues the connections share
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=60_000))]
    queues: u32,

    /// Give up when the server says nothing for so long
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
    timeout: f64,

    /// Run on this processor only, as the system counts them
    #[arg(long, value_name = "CPU")]
    pin: Option<usize>,

    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

/// What is done with jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Workload {
    Cycle,
    Put,
    Take,
    Handover,
}

impl Workload {
    fn name(self) -> &'static str {
        match self {
            Workload::Cycle => "cycle",
            Workload::Put => "put",
            Workload::Take => "take",
            Workload::Handover => "handover",
        }
    }

    fn course(self) -> Course {
        match self {
            Workload::Cycle => Course::Steps(Step::Put, Step::Finish),
            Workload::Put => Course::Steps(Step::Put, Step::Put),
            Workload::Take => Course::Steps(Step::Take, Step::Finish),
            Workload::Handover => Course::HandOver,
        }
    }
}

fn seconds(text: &str) -> Result<f64, &'static str> {
    let seconds = text.parse().ok().filter(|seconds| (0.001..=86_400.0).contains(seconds));
    seconds.ok_or("expected 0.001 to 86400")
}

/// A name that means itself in every protocol and in JSON, as those of `--workload put` do.
fn queue(text: &str) -> Result<String, &'static str> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if plain { Ok(text.to_owned()) } else { Err("expected letters, digits and hyphens") }
}

/// Runs it and prints what was measured.
pub fn bench(arguments: &Arguments) -> Result<(), Failure> {
    check(arguments).map_err(Failure::Usage)?;
    let scripts = scripts(arguments);
    if let Some(cpu) = arguments.pin {
        pin(cpu)?;
    }
    let connections = arguments.connections as usize;
    // As far as that goes. A server's files are more than ours, so the connection that is one too many is told by itself.
    machine::raise_open_files(connections);
    let (place, streams) = arguments.target.connect(connections)?;
    let plan = Plan {
        depth: arguments.depth as usize,
        jobs: arguments.jobs,
        seconds: arguments.seconds.unwrap_or(DEFAULT_SECONDS),
        backlog: arguments.backlog,
        course: arguments.workload.course(),
        finds_empty: arguments.queue.is_none(),
        timeout: Duration::from_secs_f64(arguments.timeout),
    };
    let measured = Load::new(streams, &scripts, &plan)?.run(&plan)?;
    let report = Report {
        protocol: arguments.target.protocol().name(),
        workload: arguments.workload.name(),
        place,
        queue: &scripts[0].queue,
        connections: arguments.connections,
        depth: arguments.depth,
        body: arguments.body,
        queues: arguments.queues,
        priorities: arguments.priorities,
        backlog: arguments.backlog,
        measured: &measured,
    };
    say(&if arguments.json { report.json() } else { report.table() });
    Ok(())
}

const DEFAULT_SECONDS: f64 = 5.0;

fn pin(cpu: usize) -> anyhow::Result<()> {
    let mut only = CpuSet::new();
    only.set(cpu);
    sched_setaffinity(None, &only).with_context(|| format!("cannot run on processor {cpu} only"))
}

/// What cannot be, although each option by itself may.
fn check(arguments: &Arguments) -> anyhow::Result<()> {
    let Arguments { target, connections, depth, body, workload, priorities, .. } = arguments;
    let protocol = target.protocol();
    let name = protocol.name();
    let least = protocol.body_bytes_min();
    ensure!(*body as usize >= least, "--body {body}: a {name} job has at least {least} bytes");
    let on_their_way = u64::from(*connections) * u64::from(*depth) * u64::from(*body);
    ensure!(
        on_their_way <= OUTPUT_BYTES_MAX,
        "{connections} connections × {depth} requests of {body} bytes are more than 1 GiB at once"
    );
    ensure!(*priorities == 1 || protocol.has_priorities(), "--priorities {priorities}: jobs of {name} have none");
    ensure!(
        u64::from(*priorities) * u64::from(*body) <= OUTPUT_BYTES_MAX,
        "one request of {body} bytes for each of {priorities} priorities are more than 1 GiB"
    );
    if let Some(cpu) = arguments.pin {
        ensure!(cpu < CpuSet::MAX_CPU, "--pin {cpu}: there are {} processors at most", CpuSet::MAX_CPU);
    }
    match workload {
        Workload::Cycle => {}
        Workload::Put | Workload::Take => {
            ensure!(
                arguments.backlog == 0,
                "--backlog: with --workload {} nothing waits behind others",
                workload.name()
            );
        }
        Workload::Handover => {
            ensure!(protocol.can_wait(), "--workload handover: clients of {name} do not wait");
            ensure!(connections % 2 == 0, "--connections {connections}: in a hand-over there are two for each job");
            ensure!(*depth == 1, "--depth {depth}: in a hand-over there is one job for each two connections");
            ensure!(arguments.backlog == 0, "--backlog: nobody waits for a job where there are some");
            ensure!(arguments.queues == 1, "--queues: in a hand-over there is one for each two connections");
        }
    }
    if arguments.queue.is_some() {
        ensure!(arguments.queues == 1, "--queues: there is only --queue");
        ensure!(*workload != Workload::Handover, "--queue: in a hand-over there is one for each two connections");
    }
    Ok(())
}

/// One script for each queue. The names are new in each run, so that what others left cannot get in the way.
fn scripts(arguments: &Arguments) -> Vec<Script> {
    let protocol = arguments.target.protocol();
    let jobs = Jobs { run: random(), queue: 0, body_bytes: arguments.body as usize, priorities: arguments.priorities };
    if let Some(name) = &arguments.queue {
        return vec![protocol.script_for(name.clone(), jobs)];
    }
    let queues = match arguments.workload {
        Workload::Handover => arguments.connections / 2,
        _ => arguments.queues,
    };
    (0..queues).map(|queue| protocol.script(Jobs { queue, ..jobs })).collect()
}
