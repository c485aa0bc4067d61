//! `jobyard serve`: from settings to a running server.

use std::hash::{BuildHasher, RandomState};
use std::io::{Write, stdout};

use anyhow::{Context, Result, anyhow};
use jobyard_broker::{Broker, Config as BrokerConfig, Listening};
use jobyard_log::Discard;

use crate::bind::{Bound, bind};
use crate::cli::{ClockSource, Serve};
use crate::clock::{RealTime, Time};
use crate::config::{self, Config, Storage};
use crate::failure::Failure;
use crate::logging::LogLevel;
use crate::net::Net;
use crate::run::Server;
use crate::{logging, machine, manual};

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
    config.limits.clients_max = machine::raise_open_files(config.limits.clients_max);
    let bound = bind_all(&config)?;
    if manual { manual::run(&config, bound) } else { run(&config, bound) }
}

/// Listens everywhere.
pub fn bind_all(config: &Config) -> Result<Vec<Bound>, Failure> {
    let mut bound = Vec::new();
    for address in &config.listen {
        bound.extend(bind(address, config.insecure_public)?);
    }
    Ok(bound)
}

fn run(config: &Config, bound: Vec<Bound>) -> Result<(), Failure> {
    let time = RealTime::new();
    let announcement = announcement(config, &bound);
    let broker = Broker::open(broker_config(config, &bound, random_seed()), Discard::default(), time.now())
        .context("cannot start")?;
    let net = Net::new(bound, config.limits.turn_bytes_max).context("cannot wait for sockets")?;
    let server = Server::new(net, broker)?;
    warn_of_lost_jobs(&config.storage);
    say(&announcement);
    tracing::info!(version = env!("CARGO_PKG_VERSION"), "started");
    server.run(&time)?;
    tracing::info!("stopped");
    Ok(())
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
    }
}

/// Where the server listens and where it stores, in lines for people and for whoever started it on port 0.
pub fn announcement(config: &Config, bound: &[Bound]) -> String {
    let mut text = String::new();
    for bound in bound {
        text.push_str(&format!("listening on {}\n", bound.address));
    }
    text.push_str(match config.storage {
        Storage::Memory => "storing in memory only (--memory): jobs are gone when the server ends\n",
        Storage::Data(_) => {
            "storing in memory only (this version has no disk storage): jobs are gone when the server ends\n"
        }
    });
    text
}

/// Writes to stdout at once. If nobody reads that, the server runs all the same.
pub fn say(text: &str) {
    let mut out = stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

fn warn_of_lost_jobs(storage: &Storage) {
    if let Storage::Data(directory) = storage {
        tracing::warn!(
            "this version keeps nothing on disk: every job is gone when the server ends. \
             A later version will keep jobs in {}. If you want them in memory only, say --memory",
            directory.display()
        );
    }
}

/// Nobody outside can guess it. The standard library asks the system for the same purpose.
fn random_seed() -> u64 {
    RandomState::new().hash_one(std::process::id())
}
