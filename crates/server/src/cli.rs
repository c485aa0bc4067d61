//! The command line. What a person reads here is all there is to know for running the server.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use jobyard_protocols::PROTOCOLS;

use crate::address::ANY_PORT;
use crate::bench;
use crate::config::{Layer, limits_help};
use crate::import;

/// One job queue for every client you already have.
///
/// Jobyard speaks the wire protocols of six job-queue servers over one engine: point the clients you have at it,
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

    /// Look into a data directory, or back it up
    ///
    /// None of these needs the server to be stopped, and none of them changes the directory.
    #[command(subcommand)]
    Log(LogCommand),

    /// Measure a running server
    ///
    /// Measure how many jobs a running server can put, hand out and finish. Each connection puts a job, takes one and
    /// finishes it, over and over, in a queue with a new name, and leaves nothing in it, unless told to.
    #[command(after_long_help = bench::NOTES)]
    Bench(bench::Arguments),

    /// Move the jobs of a running beanstalkd here
    ///
    /// Moves the ready, delayed and buried jobs of a beanstalkd that goes on running into a Jobyard that is running, each exactly
    /// once: whoever is killed when, run it again. Priority, time to run and what is left of a delay are kept.
    #[command(after_long_help = import::NOTES)]
    Import(import::Arguments),

    /// Take beanstalkd's place
    ///
    /// Makes a link to this program that is called beanstalkd. Started under that name it takes that program's options, speaks
    /// its protocol only, and imports the binlog that it finds with -b.
    #[command(arg_required_else_help = true, after_long_help = BEANSTALKD_NOTES)]
    Beanstalkd(Beanstalkd),
}

/// What `jobyard beanstalkd` can be told.
#[derive(Args, Debug)]
pub struct Beanstalkd {
    /// Make the link in this directory
    ///
    /// One that is there for another copy of this program is replaced. Any other file of that name is left alone.
    #[arg(long, value_name = "DIR")]
    pub link: PathBuf,
}

/// What can be done with a data directory.
#[derive(Debug, Subcommand)]
pub enum LogCommand {
    /// Check that nothing in it is damaged
    ///
    /// Reads every batch, checks that it is whole and follows from the one before it, and that its records make sense.
    /// Exits with 1 if anything is damaged, and says where, and what 'jobyard serve --salvage' would lose. An end that is
    /// torn, as a crash leaves it, is no damage: the next start cuts it off.
    Verify {
        /// The data directory
        #[arg(value_name = "DIR")]
        directory: PathBuf,
    },

    /// Print its records, or its jobs, as lines of JSON
    ///
    /// A line for each record, the oldest first: where it is in the log, when it was written, and what it says. Bodies that
    /// are no UTF-8 are printed in base64, as body_base64.
    Dump {
        /// The data directory
        #[arg(value_name = "DIR")]
        directory: PathBuf,

        /// Print the jobs that there are, and why each is where it is, as the last record left them
        ///
        /// A lease or a delay that has ended since is still shown, and what a connection holds is shown as ready: neither is
        /// written to the log.
        #[arg(long)]
        jobs: bool,
    },

    /// Print how much of it is still needed
    Stats {
        /// The data directory
        #[arg(value_name = "DIR")]
        directory: PathBuf,
    },

    /// Copy it, while the server runs
    ///
    /// The copy holds all that was acknowledged before this began, and is checked before it is said to be done. A server
    /// can be started with it.
    Backup {
        /// The data directory
        #[arg(value_name = "DIR")]
        directory: PathBuf,

        /// Where the copy goes: a directory that is not there or empty
        #[arg(value_name = "DEST")]
        destination: PathBuf,
    },
}

/// What `jobyard serve` can be told.
#[derive(Args, Debug)]
pub struct Serve {
    /// Read settings from a TOML file
    #[arg(long, value_name = "FILE", help_heading = "Configuration")]
    pub config: Option<PathBuf>,

    /// Start although the log is damaged, with what is left of it
    ///
    /// Every job that can still be read is kept, and what was lost is said; jobs that were finished may be back if that
    /// was in the damaged part. The old files are kept beside the new ones, as damaged-*, until you remove them. Where
    /// nothing is damaged, nothing is changed.
    #[arg(long, conflicts_with = "memory", help_heading = "Storage")]
    pub salvage: bool,

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
    text.push_str(LISTEN_NOTES);
    text.push_str(SETTINGS_NOTES);
    for line in EXAMPLE_FILE.lines() {
        let _ = writeln!(text, "{}", format!("  {line}").trim_end());
    }
    let _ = write!(text, "\nLimits in the file's table [limits], and their defaults:\n{}", limits_help());
    text.push_str(PROCESS_NOTES);
    text
}

// Lines of at most 78 letters, or a narrow terminal breaks them.

const LISTEN_NOTES: &str = "  The number is the port if none is given. 'any' takes all the options:
  dialect=original   answer as the original server did, not as its document
                     says (document): takeanumber of an empty queue, masenko
                     INFO without metrics, workq with the TTR of a lease
  heartbeat=10s      how long a masenko client may be silent (45s)
  lease=5m           how long a takeanumber reservation lasts (for ever)

Examples:
  jobyard serve --data /var/lib/jobyard --fsync interval=50ms
  jobyard serve --memory
  jobyard serve --listen workq://127.0.0.1 --listen 'masenko://[::1]:12345'
  jobyard serve --listen 'any+unix:///run/jobyard.sock?heartbeat=10s'
  JOBYARD_LISTEN=any://127.0.0.1:0,any://[::1]:0 jobyard serve
";

const SETTINGS_NOTES: &str = "
Settings:
  Every option but --salvage is a variable, and but --config a file's key:
  --drain-timeout 5s is JOBYARD_DRAIN_TIMEOUT=5s and drain_timeout = \"5s\".
  The command line wins over variables, these over the file. In all of them an
  unknown name is an error. A file for --config can look like this:

";

const EXAMPLE_FILE: &str = r#"listen = ["any://127.0.0.1:5627", "workq://127.0.0.1:9922"]
data = "/var/lib/jobyard"
fsync = "always"
max_memory = "4GiB"
log_format = "json"

[limits]
body_bytes_max = 1048576
"#;

const BEANSTALKD_NOTES: &str = "Examples:
  jobyard beanstalkd --link /usr/local/bin
  beanstalkd -h
  beanstalkd -l 127.0.0.1 -p 11300 -b /var/lib/beanstalkd -u beanstalkd

  What each option means here, and what becomes of the binlog, is in
  docs/beanstalkd-command.md.";

const PROCESS_NOTES: &str = "
Signals:
  SIGTERM, SIGINT  stop: accept nobody, carry out what was received, answer
                   those who wait as if their time had run out, exit. A second
                   one exits at once
  SIGHUP           the same, unless it is ignored at the start (nohup)
  SIGUSR1          take no more jobs; workers go on

Exit codes:
  0  stopped as it was told
  1  could not start or go on: an address in use, a damaged log, a disk that
     failed to write or sync
  2  the command line, a variable or the configuration file makes no sense";

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use jobyard_engine::Limits;
    use jobyard_protocols::Protocol;

    use super::*;
    use crate::address::Address;

    #[test]
    fn the_command_line_makes_sense() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_help_fits_a_narrow_terminal_and_names_every_protocol() {
        let text = after_serve();
        for line in text.lines().chain(bench::NOTES.lines()).chain(BEANSTALKD_NOTES.lines()) {
            assert!(line.chars().count() <= 78, "{line}");
        }
        for protocol in PROTOCOLS {
            assert!(text.contains(protocol.name), "{}", protocol.name);
        }
    }

    const README: &str = include_str!("../../../README.md");

    /// The cells of the README's table of protocols, without its head.
    fn readme_table() -> Vec<Vec<&'static str>> {
        let rows = README.lines().skip_while(|line| !line.starts_with("| protocol |")).skip(2);
        let rows = rows.take_while(|line| line.starts_with('|'));
        rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect()).collect()
    }

    #[test]
    fn the_readme_has_a_row_for_each_protocol_and_no_other() {
        let mut expected = vec![[
            "`any`".to_owned(),
            format!("`{}`", Address::default_listen()),
            "–".to_owned(),
            "all of these".to_owned(),
        ]];
        expected.extend(PROTOCOLS.iter().map(|Protocol { name, port, options, .. }| {
            let place = if port.is_some() { "127.0.0.1" } else { "127.0.0.1:PORT" };
            let options: Vec<_> = options.iter().map(|option| format!("`{option}`")).collect();
            let port = port.map_or("–".to_owned(), |port| port.to_string());
            [format!("`{name}`"), format!("`{name}://{place}`"), port, options.join(" ")]
        }));
        let table = readme_table();
        assert_eq!(table.len(), expected.len(), "{table:?}");
        for (row, expected) in table.iter().zip(expected) {
            let [name, address, port, made_for, options] = row[..] else { panic!("{row:?} has not five cells") };
            assert_eq!([name, address, port, options], expected.each_ref().map(String::as_str));
            assert!(!made_for.is_empty(), "{name}");
        }
    }

    #[test]
    fn the_readmes_commands_make_sense() {
        let without_comment = |line: &'static str| line.split(" #").next().unwrap_or(line);
        let commands = README.lines().filter(|line| line.starts_with("jobyard ")).map(without_comment);
        let commands: Vec<_> = commands.collect();
        assert!(commands.len() > 1);
        for command in commands {
            let words = command.split_whitespace().map(|word| word.trim_matches('\''));
            Cli::try_parse_from(words).unwrap_or_else(|error| panic!("{command}: {error}"));
        }
        let place = Address::default_listen().to_string().replace("any://", "");
        let first = README.lines().find(|line| line.contains(&format!("# starts the server: {place}"))).unwrap();
        let (_, arguments) = first.split('#').next().unwrap().split_once(" -- ").unwrap();
        Cli::try_parse_from(["jobyard"].into_iter().chain(arguments.split_whitespace())).unwrap();
    }

    #[test]
    fn the_file_in_the_help_is_one_that_can_be_read() {
        let layer: Layer = toml::from_str(EXAMPLE_FILE).unwrap();
        assert_eq!(layer.listen.map(|list| list.len()), Some(2));
        assert_eq!(layer.limits.body_bytes_max, Some(1 << 20));
    }

    #[test]
    fn the_help_names_every_limit_with_its_default() {
        let limits = limits_help();
        assert!(after_serve().contains(&limits));
        // What `Debug` says of a struct is the one list of its fields that nobody can forget to extend.
        let debug = format!("{:?}", Limits::default());
        let fields: Vec<_> = debug.split(['{', ',', '}']).filter_map(|part| part.trim().split_once(": ")).collect();
        assert_eq!(fields.len(), limits.lines().count(), "{debug}");
        for ((name, value), line) in fields.into_iter().zip(limits.lines()) {
            let words: Vec<_> = line.split_whitespace().take(2).collect();
            let machine_decides = name == "memory_bytes_max";
            assert_eq!(words, [name, if machine_decides { "-" } else { value }]);
        }
    }
}
