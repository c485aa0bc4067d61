//! `jobyard bench`: a client that puts a server under load and says how it did. Any server of a protocol will do, also
//! one that is not Jobyard.

mod connection;
mod latency;
mod load;
mod report;
mod scripts;
mod target;
mod wire;

use std::time::Duration;

use anyhow::ensure;
use clap::Args;

use crate::failure::Failure;
use crate::machine;
use crate::serve::say;
use connection::Step;
use load::{Load, Plan};
use report::Report;
use scripts::random;
use target::Target;
use wire::Script;

/// What stands under the options in the help.
pub const NOTES: &str = "Protocols:
  goqueue, takeanumber, masenko, jobcentre, workq; and beanstalkd, for a
  server of that kind to compare with.

  A request is one put, take or finish; a cycle is one of each. A job is
  taken by whichever connection asks, and finished by it; in workq, with
  delete. Every reply is checked, and the first that is wrong ends the run.
  When the time is over, what was begun is finished; figures are of all there
  was, up to the last answer. With several requests in flight on a connection
  a latency is that of the pipeline.

Examples:
  jobyard bench
  jobyard bench goqueue://127.0.0.1:11223 --connections 10 --depth 64
  jobyard bench beanstalkd://127.0.0.1:11300 --jobs 100000 --json
  jobyard bench --depth 64 --jobs 1000000 --backlog 10000
  jobyard bench --depth 64 --jobs 1000000 --put-only
  jobyard bench --jobs 1000000 --take-only bench-0123456789abcdef-0

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

    /// Only put jobs, and leave them there
    ///
    /// The queues keep them, under the names that --json says; in workq, for an hour.
    #[arg(long, conflicts_with = "backlog")]
    put_only: bool,

    /// Only take and finish jobs of this queue, that --put-only left there
    ///
    /// There must be as many as are taken, with bodies of the same size.
    #[arg(long, value_name = "QUEUE", value_parser = queue, conflicts_with_all = ["backlog", "put_only", "queues"])]
    take_only: Option<String>,

    /// How many queues the connections share
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=60_000))]
    queues: u32,

    /// Give up when the server says nothing for so long
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
    timeout: f64,

    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

fn seconds(text: &str) -> Result<f64, &'static str> {
    let seconds = text.parse().ok().filter(|seconds| (0.001..=86_400.0).contains(seconds));
    seconds.ok_or("expected 0.001 to 86400")
}

/// A name that means itself in every protocol and in JSON, as those of `--put-only` do.
fn queue(text: &str) -> Result<String, &'static str> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if plain { Ok(text.to_owned()) } else { Err("expected letters, digits and hyphens") }
}

/// Runs it and prints what was measured.
pub fn bench(arguments: &Arguments) -> Result<(), Failure> {
    let scripts = scripts(arguments).map_err(Failure::Usage)?;
    let connections = arguments.connections as usize;
    // As far as that goes. A server's files are more than ours, so the connection that is one too many is told by itself.
    machine::raise_open_files(connections);
    let (place, streams) = arguments.target.connect(connections)?;
    let plan = Plan {
        depth: arguments.depth as usize,
        jobs: arguments.jobs,
        seconds: arguments.seconds.unwrap_or(DEFAULT_SECONDS),
        backlog: arguments.backlog,
        steps: match arguments {
            Arguments { put_only: true, .. } => (Step::Put, Step::Put),
            Arguments { take_only: Some(_), .. } => (Step::Take, Step::Finish),
            _ => (Step::Put, Step::Finish),
        },
        timeout: Duration::from_secs_f64(arguments.timeout),
    };
    let measured = Load::new(streams, &scripts, &plan)?.run(&plan)?;
    let report = Report {
        protocol: arguments.target.protocol().name(),
        place,
        queue: &scripts[0].queue,
        connections: arguments.connections,
        depth: arguments.depth,
        body: arguments.body,
        queues: arguments.queues,
        backlog: arguments.backlog,
        measured: &measured,
    };
    say(&if arguments.json { report.json() } else { report.table() });
    Ok(())
}

const DEFAULT_SECONDS: f64 = 5.0;

/// One script for each queue. The names are new in each run, so that what others left cannot get in the way.
fn scripts(arguments: &Arguments) -> anyhow::Result<Vec<Script>> {
    let Arguments { target, connections, depth, body, queues, .. } = arguments;
    let protocol = target.protocol();
    let least = protocol.body_bytes_min();
    let body_bytes = *body as usize;
    ensure!(body_bytes >= least, "--body {body}: a {} job has at least {least} bytes", protocol.name());
    let on_their_way = u64::from(*connections) * u64::from(*depth) * u64::from(*body);
    ensure!(
        on_their_way <= OUTPUT_BYTES_MAX,
        "{connections} connections × {depth} requests of {body} bytes are more than 1 GiB at once"
    );
    let run = random();
    if let Some(name) = &arguments.take_only {
        return Ok(vec![protocol.script_for(name.clone(), run, 0, body_bytes)]);
    }
    Ok((0..*queues).map(|queue| protocol.script(run, queue, body_bytes)).collect())
}
