//! `jobyard serve`: from settings to a running server.

use std::hash::{BuildHasher, RandomState};
use std::io::{Write, stdout};
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use jobyard_broker::{Broker, Config as BrokerConfig, Listening};
use jobyard_engine::Limits;
use jobyard_log::{Discard, FileLog, Log, LogError, Options as LogOptions, ReadDisk, Reader, SyncMode};
use mio::Waker;

use crate::bind::{Bound, bind};
use crate::cli::{ClockSource, Serve};
use crate::clock::{RealTime, Time};
use crate::commit_thread::ThreadLog;
use crate::config::{self, Commit, Config, Fsync, Storage};
use crate::disk::OsDisk;
use crate::failure::Failure;
use crate::log_tools::salvage::{Salvaged, salvage, with_advice};
use crate::logging::LogLevel;
use crate::net::{Net, SIGNALS, WAKER};
use crate::run::Server;
use crate::signals::Signals;
use crate::{beanstalkd, logging, machine, manual};

/// Starts the server, and runs it until it is told to stop.
pub fn serve(arguments: Serve) -> Result<(), Failure> {
    let log_format = config::log_format(&arguments.settings, std::env::vars_os());
    let mut config = config::load(arguments.config, arguments.settings, std::env::vars_os()).map_err(|error| {
        logging::start(log_format, LogLevel::Error);
        Failure::Usage(error)
    })?;
    logging::start(config.log_format, config.log_level);
    let manual = arguments.clock == Some(ClockSource::Stdin);
    if manual && config.storage != Storage::Memory {
        return Err(Failure::Usage(anyhow!("--clock stdin needs --memory")));
    }
    if arguments.salvage && config.storage == Storage::Memory {
        return Err(Failure::Usage(anyhow!("--salvage needs a directory: there is nothing to salvage in memory")));
    }
    // Transcripts show what happens when it is full, with little.
    if !manual {
        config::check_input(&config.limits).map_err(Failure::Usage)?;
    }
    fit_into_segments(&mut config);
    config.limits.clients_max = machine::raise_open_files(config.limits.clients_max);
    let bound = bind_all(&config)?;
    if manual { manual::run(&config, bound) } else { run(&config, bound, arguments.salvage) }
}

/// Listens everywhere.
pub fn bind_all(config: &Config) -> Result<Vec<Bound>, Failure> {
    let mut bound = Vec::new();
    for address in &config.listen {
        bound.extend(bind(address, config.insecure_public)?);
    }
    Ok(bound)
}

/// Runs with these sockets until it is told to stop.
pub fn run(config: &Config, bound: Vec<Bound>, salvages: bool) -> Result<(), Failure> {
    match &config.storage {
        Storage::Memory => run_on(config, bound, |_| Ok(Discard::default()), None)?,
        Storage::Data(directory) => {
            let mut disk = OsDisk::open(directory)?;
            if beanstalkd::is_unfinished(directory) {
                return Err(anyhow!(
                    "{} holds an import from beanstalkd that is not finished: {FINISH}",
                    directory.display()
                )
                .into());
            }
            if let Some(name) = beanstalkd::binlog_names(&disk)?.first() {
                return Err(anyhow!(
                    "{} holds a binlog of beanstalkd, {name}, that was not imported: start it under the name beanstalkd, with -b, \
                     and it is; or move those files away",
                    directory.display()
                )
                .into());
            }
            let options = log_options(config);
            let mut found = found_in(&mut disk, directory);
            if salvages {
                match salvage(&mut disk, &options).with_context(|| with_data_in(directory))? {
                    Salvaged::Made(what) => {
                        tracing::warn!("{what}");
                        found = None;
                    }
                    Salvaged::Whole => tracing::info!("there is nothing to salvage: the log is not damaged"),
                    Salvaged::NoLog => {
                        return Err(anyhow!("there is no log to salvage in {}", directory.display()).into());
                    }
                }
            }
            let log = FileLog::open(disk, options);
            let ran = match config.commit {
                Commit::Loop => run_on(config, bound, |_| Ok(log), found),
                Commit::Thread => run_on(config, bound, |net| in_thread(log, net), found),
            };
            let ran = ran.map_err(|error| with_advice(error, directory));
            ran.with_context(|| with_data_in(directory))?;
        }
    }
    Ok(())
}

const FINISH: &str = "start it under the name beanstalkd, with -b, and it goes on";

/// What there is to say of what a directory holds before the server has it: that it is new, or how the last one ended.
fn found_in<D: ReadDisk>(disk: &mut D, directory: &Path) -> Option<String> {
    match Reader::open_damaged(disk, &[]) {
        Err(LogError::NoLog) => Some(format!("a new log in {}", directory.display())),
        Ok(reader) if reader.manifest().is_ok_and(|manifest| !manifest.clean) => {
            Some("the last server did not close the log: it was killed, or the machine went down".to_owned())
        }
        // Whatever is wrong is for the start to find.
        Ok(_) | Err(_) => None,
    }
}

fn with_data_in(directory: &Path) -> String {
    format!("with the data in {}", directory.display())
}

/// Lets another thread append to this log, which wakes the loop when it has.
fn in_thread<L: Log + Send + 'static>(log: L, net: &Net) -> Result<ThreadLog<L>> {
    let waker = Waker::new(net.registry(), WAKER).context("cannot wait for another thread")?;
    // What it wakes for is looked at in every turn: that it cannot be woken once more means that it will be.
    ThreadLog::new(log, move || _ = waker.wake()).context("cannot start a thread")
}

/// Runs with the log that `open` gives. If it can be used, `found` is told.
fn run_on<L: Log>(
    config: &Config,
    bound: Vec<Bound>,
    open: impl FnOnce(&Net) -> Result<L>,
    found: Option<String>,
) -> Result<()> {
    let time = RealTime::new();
    let announcement = announcement(config, &bound);
    let broker_config = broker_config(config, &bound, random_seed());
    let net = Net::new(bound, config.limits.turn_bytes_max).context("cannot wait for sockets")?;
    // Before the log is opened, which may take a while.
    let signals = Signals::register(net.registry(), SIGNALS)?;
    let log = open(&net)?;
    let broker = Broker::begin(broker_config, log, time.now()).context("cannot start")?;
    if let Some(found) = found {
        tracing::info!("{found}");
    }
    for notice in broker.notices() {
        tracing::warn!("{notice}");
    }
    let server = Server::new(net, signals, broker);
    say(&announcement);
    tracing::info!(version = env!("CARGO_PKG_VERSION"), "started");
    server.run(&time)?;
    tracing::info!("stopped");
    Ok(())
}

/// How the log is kept.
pub fn log_options(config: &Config) -> LogOptions {
    let sync = match config.fsync {
        Fsync::Always => SyncMode::Always,
        Fsync::Interval { ms } => SyncMode::Interval(ms),
        Fsync::Never => SyncMode::Never,
    };
    LogOptions { segment_bytes: config.segment_bytes, sync, ..LogOptions::new(random_seed()) }
}

/// What reviving a job may write.
const REVIVED_BYTES: usize = 128;

/// A batch must find room in a segment, so that a full disk is known before anything is decided.
pub fn fit_into_segments(config: &mut Config) {
    if config.storage == Storage::Memory {
        return;
    }
    let share = |part| usize::try_from(config.segment_bytes / part).unwrap_or(usize::MAX);
    let (at_most, block_at_most, name_at_most) = (share(2), share(4), share(16));
    let limits = &mut config.limits;
    limits.revived_max = (share(2) / REVIVED_BYTES).clamp(1, limits.revived_max);
    let Limits { body_bytes_max, block_bytes_max, group_bytes_max, queue_name_bytes_max, .. } = limits;
    // A job that is written anew has its result with it.
    *block_bytes_max = block_at_most.min(*block_bytes_max);
    *queue_name_bytes_max = name_at_most.min(*queue_name_bytes_max);
    let limits = [body_bytes_max, group_bytes_max];
    if limits.iter().all(|limit| **limit <= at_most) {
        return;
    }
    for limit in limits {
        *limit = at_most.min(*limit);
    }
    tracing::warn!(
        "bodies may have at most {at_most} bytes, half a segment: for larger ones, set a larger segment_size"
    );
}

/// What the broker is told of the settings and of the sockets that there are.
pub fn broker_config(config: &Config, bound: &[Bound], seed: u64) -> BrokerConfig {
    let listeners = bound
        .iter()
        .map(|bound| Listening { listener: bound.address.listener, options: bound.address.options.clone() });
    BrokerConfig {
        limits: config.limits.clone(),
        listeners: listeners.collect(),
        seed,
        drain_timeout_ms: config.drain_timeout_ms,
        host: machine::host(random_seed()),
    }
}

/// Where the server listens and where it stores, in lines for people and for whoever started it on port 0.
pub fn announcement(config: &Config, bound: &[Bound]) -> String {
    let mut text = String::new();
    for bound in bound {
        text.push_str(&format!("listening on {}\n", bound.address));
    }
    text.push_str(&match &config.storage {
        Storage::Memory => "storing in memory only: jobs are gone when the server ends\n".to_owned(),
        Storage::Data(directory) => format!("storing in {} ({})\n", directory.display(), config.fsync),
    });
    text
}

/// Writes to stdout at once. If nobody reads that, the server runs all the same.
pub fn say(text: &str) {
    let mut out = stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Nobody outside can guess it. The standard library asks the system for the same purpose.
pub fn random_seed() -> u64 {
    RandomState::new().hash_one(std::process::id())
}
