//! The command line. What a person reads here is all there is to know for running the server.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use jobyard_protocols::PROTOCOLS;

use crate::address::ANY_PORT;
use crate::config::Layer;

/// One job queue for every client you already have.
///
/// Jobyard speaks the wire protocols of five job-queue servers over one engine: point the clients you have at it,
/// unchanged. A job that was put by one protocol can be taken by any other.
#[derive(Debug, Parser)]
#[command(version, arg_required_else_help = true, max_term_width = 100)]
#[command(after_help = "Try 'jobyard serve', and 'jobyard serve --help' for addresses, settings and signals.")]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the server
    ///
    /// Run the server in the foreground. It prints its addresses on stdout, logs to stderr, and runs until it is told
    /// to stop.
    #[command(after_long_help = after_serve())]
    Serve(Box<Serve>),
}

/// What `jobyard serve` can be told.
#[derive(Args, Debug)]
pub struct Serve {
    /// Read settings from a TOML file
    #[arg(long, value_name = "FILE", help_heading = "Configuration")]
    pub config: Option<PathBuf>,

    /// The settings.
    #[command(flatten)]
    pub settings: Layer,

    /// Who moves the clock; `stdin` is for tests, see `manual.rs`.
    #[arg(long, hide = true)]
    pub clock: Option<ClockSource>,
}

/// Who moves the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ClockSource {
    /// The machine.
    System,
    /// Lines on stdin.
    Stdin,
}

fn after_serve() -> String {
    let mut text =
        format!("Protocols:\n  any          {ANY_PORT:>5}  whichever its client speaks, known by the first bytes\n");
    for protocol in PROTOCOLS {
        let port = protocol.port.map_or("-".to_owned(), |port| port.to_string());
        let options = match protocol.options {
            [] => String::new(),
            options => format!("  ?{}=", options.join("= ?")),
        };
        let _ = writeln!(text, "  {:<12} {port:>5}{options}", protocol.name);
    }
    text.push_str(SERVE_NOTES);
    text
}

/// Lines of at most 78 letters, or a narrow terminal breaks them.
const SERVE_NOTES: &str = "  The number is the port if none is given. 'any' takes all the options:
  dialect=original   answer as the original server did, where clients need it
  heartbeat=10s      how long a masenko client may be silent (45s)
  lease=5m           how long a takeanumber reservation lasts (for ever)

Examples:
  jobyard serve --memory
  jobyard serve --listen workq://127.0.0.1 --listen 'masenko://[::1]:12345'
  jobyard serve --listen 'any+unix:///run/jobyard.sock?heartbeat=10s'
  JOBYARD_LISTEN=any://127.0.0.1:0,any://[::1]:0 jobyard serve

Settings:
  Every option is also a variable and a key of the configuration file:
  --drain-timeout 5s is JOBYARD_DRAIN_TIMEOUT=5s and drain_timeout = \"5s\".
  The command line wins over variables, these over the file. The file can also
  have a table [limits]. An unknown name is an error, in all of them.

Signals:
  SIGTERM, SIGINT  stop: accept nobody, carry out what was received, answer
                   those who wait as if their time had run out, exit. A second
                   one exits at once
  SIGHUP           the same, unless it is ignored at the start (nohup)
  SIGUSR1          take no more jobs; workers go on

Exit codes:
  0  stopped as it was told
  1  could not start or go on, such as an address in use
  2  the command line, a variable or the configuration file makes no sense";

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_makes_sense() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_help_fits_a_narrow_terminal_and_names_every_protocol() {
        let text = after_serve();
        for line in text.lines() {
            assert!(line.chars().count() <= 78, "{line}");
        }
        for protocol in PROTOCOLS {
            assert!(text.contains(protocol.name), "{}", protocol.name);
        }
    }
}
