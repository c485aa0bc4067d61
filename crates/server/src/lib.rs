//! The `jobyard` binary: carries out the broker's actions on real sockets and a real disk, by real time; and its tools.
//!
//! Absent here: parsing, and every decision about jobs and clients. `bench` is a client, and stands apart. This is a library
//! so that its settings, and the import of binlogs, can be fuzzed; nothing else is to be used by others.

mod address;
mod beanstalkd;
mod bench;
mod bind;
mod cli;
mod clock;
mod commit_thread;
mod config;
mod disk;
mod failure;
mod import;
mod log_tools;
mod logging;
mod machine;
mod manual;
mod net;
mod progress;
mod run;
mod serve;
mod signals;
mod units;
mod watch;

use std::process::ExitCode;

use clap::Parser;

pub use beanstalkd::check_binlog;
use cli::{Cli, Command};
pub use config::check_settings;
use failure::Failure;

/// The binary.
#[must_use]
pub fn main() -> ExitCode {
    let mut arguments = std::env::args_os();
    if beanstalkd::is_meant(arguments.next().as_deref()) {
        return beanstalkd::main(arguments);
    }
    let Cli { command } = Cli::parse();
    let outcome = match command {
        Command::Serve(arguments) => serve::serve(*arguments),
        Command::Log(command) => log_tools::run(&command).map_err(Failure::Runtime),
        Command::Bench(arguments) => bench::bench(&arguments),
        Command::Import(arguments) => import::import(&arguments),
        Command::Beanstalkd(arguments) => beanstalkd::command(&arguments).map_err(Failure::Runtime),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            logging::say_failure(failure.error());
            failure.exit_code()
        }
    }
}
