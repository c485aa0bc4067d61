//! `jobyard log …`: looks into a data directory, or copies it. No lock is taken and nothing in it is changed, so a server
//! may be using it meanwhile. Beside them, for `serve`: salvage.

mod backup;
mod dump;
mod jobs;
pub mod salvage;
mod stats;
#[cfg(test)]
mod testing;
mod text;
mod verify;
mod walk;

use std::io::{self, Write, stdout};

use anyhow::Result;

use crate::cli::LogCommand;

/// Does what was asked for.
pub fn run(command: &LogCommand) -> Result<()> {
    let done = match command {
        LogCommand::Verify { directory } => verify::verify(directory, &mut stdout().lock()),
        LogCommand::Dump { directory, jobs: false } => dump::dump(directory, &mut stdout().lock()),
        LogCommand::Dump { directory, jobs: true } => jobs::jobs(directory, &mut stdout().lock()),
        LogCommand::Stats { directory } => stats::stats(directory, &mut stdout().lock()),
        LogCommand::Backup { directory, destination } => backup::backup(directory, destination, &mut stdout().lock()),
    };
    match done {
        // Whoever reads has read enough, as `head` does.
        Err(error) if is_broken_pipe(&error) => Ok(()),
        done => done,
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// Where the tools print to.
type Out<'a> = &'a mut dyn Write;
