//! Started under the name `beanstalkd`: that program's options and exit codes, on this server. And the link that gives it
//! the name.

mod binlog;
mod fuzz;
mod import;
mod link;
mod options;
mod plan;
mod service;
#[cfg(test)]
mod testing;
mod user;

use std::ffi::{OsStr, OsString};
use std::io::{Write, stderr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use jobyard_protocols::beanstalkd::VERSION;

use crate::address::{Address, Place};
use crate::bind::{Bound, is_public};
use crate::clock::{RealTime, Time};
use crate::config::{self, Config, Layer, Storage};
use crate::disk::{OsDirectory, OsDisk};
use crate::failure::Failure;
use crate::log_tools::salvage::with_advice;
use crate::logging::{self, LogLevel};
use crate::serve::{self, say};
use crate::units::Bytes;
use crate::{cli, machine};
pub use binlog::names as binlog_names;
pub use fuzz::check_binlog;
use options::{Asked, Options, USAGE};
pub use plan::is_unfinished;

/// The name.
const NAME: &str = "beanstalkd";
/// A body may take half of the largest segment.
const KEPT_BYTES_MAX: usize = 512 << 20;

/// Whether the binary was started under this name.
pub fn is_meant(program: Option<&OsStr>) -> bool {
    program.map(Path::new).and_then(Path::file_name) == Some(OsStr::new(NAME))
}

/// Does what beanstalkd was told to.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    match options::parse(arguments, &mut |warning| complain(&warning)) {
        Asked::Usage => {
            let _ = stderr().write_all(USAGE.as_bytes());
            ExitCode::SUCCESS
        }
        Asked::Version => {
            say(&format!("{NAME} {VERSION} (jobyard {})\n", env!("CARGO_PKG_VERSION")));
            ExitCode::SUCCESS
        }
        Asked::Senseless(why) => {
            complain(&why);
            let _ = stderr().write_all(USAGE.as_bytes());
            ExitCode::from(5)
        }
        Asked::Run(options) => match run(options) {
            Ok(()) => ExitCode::SUCCESS,
            Err(Exit { code, error }) => {
                logging::say_failure(&error);
                ExitCode::from(code)
            }
        },
    }
}

/// `jobyard beanstalkd`.
pub fn command(arguments: &cli::Beanstalkd) -> Result<()> {
    say(&format!("{}\n", link::link(&arguments.link)?));
    Ok(())
}

fn complain(what: &str) {
    let _ = writeln!(stderr(), "{NAME}: {what}");
}

/// Why the process ends other than it should, and beanstalkd's exit code for that.
#[derive(Debug)]
struct Exit {
    code: u8,
    error: anyhow::Error,
}

impl Exit {
    fn cannot_listen(error: anyhow::Error) -> Exit {
        Exit { code: 111, error }
    }

    fn cannot_lock(error: anyhow::Error) -> Exit {
        Exit { code: 10, error }
    }

    fn unknown_users(error: anyhow::Error) -> Exit {
        Exit { code: 32, error }
    }

    fn no_such_user(error: anyhow::Error) -> Exit {
        Exit { code: 33, error }
    }

    fn cannot_become(error: anyhow::Error) -> Exit {
        Exit { code: 34, error }
    }

    fn other(error: anyhow::Error) -> Exit {
        Exit { code: 1, error }
    }
}

/// Listens, becomes the user, imports, and serves until it is told to stop.
fn run(options: Options) -> Result<(), Exit> {
    let user = options.user.clone();
    let place = place(&options).map_err(Exit::cannot_listen)?;
    if let Some(directory) = &options.directory {
        check_directory(directory).map_err(Exit::cannot_lock)?;
    }
    let mut config = settings(options, place).map_err(Exit::other)?;
    logging::start(config.log_format, config.log_level);
    serve::fit_into_segments(&mut config);
    config.limits.clients_max = machine::raise_open_files(config.limits.clients_max);
    let bound = serve::bind_all(&config).map_err(|failure| Exit::cannot_listen(failure.into_error()))?;
    warn_of_strangers(&bound);
    if let Some(user) = user {
        user::become_user(&user)?;
    }
    if let Storage::Data(directory) = &config.storage {
        import_from(directory, &config)?;
    }
    serve::run(&config, bound, false).map_err(Failure::into_error).map_err(Exit::other)
}

/// It is there, as beanstalkd wants it to be.
fn check_directory(directory: &Path) -> Result<()> {
    ensure!(directory.exists(), "the directory {} does not exist", directory.display());
    ensure!(directory.is_dir(), "{} is no directory: -b names one", directory.display());
    Ok(())
}

/// Where to listen.
fn place(options: &Options) -> Result<Place> {
    let listen = options.listen.as_bytes();
    if let Some(path) = listen.strip_prefix(b"unix:") {
        ensure!(!path.is_empty(), "a unix socket needs a path: -l unix:/run/beanstalkd.sock");
        return Ok(Place::Unix(PathBuf::from(OsStr::from_bytes(path))));
    }
    let host = options.listen.to_str().filter(|host| !host.is_empty());
    let host = host.with_context(|| format!("'{}' is no address", options.listen.display()))?;
    let port = service::port(&options.port)?;
    Ok(Place::Tcp { host: host.to_owned(), port })
}

/// beanstalkd's options as our settings. Of what it has no option for, the `JOBYARD_*` variables decide.
fn settings(options: Options, place: Place) -> Result<Config> {
    let Options { directory, fsync, job_bytes_max, verbose, .. } = options;
    let mut address = Address::default_listen();
    address.listener = jobyard_protocols::find(NAME).context("there is no such protocol")?;
    address.place = place;
    let body_bytes_max = match &directory {
        Some(_) if job_bytes_max > KEPT_BYTES_MAX => {
            complain(&format!("with -b a job can have {KEPT_BYTES_MAX} bytes at most"));
            KEPT_BYTES_MAX
        }
        // A limit of nothing is none that our settings know.
        _ => job_bytes_max.max(1),
    };
    // Larger jobs need larger files.
    let segment_size =
        (body_bytes_max > 16 << 20).then(|| Bytes((2 * body_bytes_max).next_power_of_two().min(1 << 30)));
    let layer = Layer {
        listen: Some(vec![address]),
        // It was said on the command line, or is what beanstalkd has always done.
        insecure_public: Some(true),
        memory: Some(directory.is_none()),
        data: directory,
        fsync: Some(fsync),
        segment_size,
        log_level: Some(match verbose {
            0 => LogLevel::Warn,
            1 => LogLevel::Info,
            _ => LogLevel::Debug,
        }),
        ..Layer::default()
    };
    let mut config = config::load(None, layer, std::env::vars_os())?;
    let limits = &mut config.limits;
    limits.body_bytes_max = body_bytes_max;
    limits.input_bytes_max = limits.input_bytes_max.max(limits.line_bytes_max());
    Ok(config)
}

/// Says who can use the server, if that is not only this machine.
fn warn_of_strangers(bound: &[Bound]) {
    let has_strangers = |place: &Place| match place {
        Place::Tcp { host, .. } => host.parse().is_ok_and(is_public),
        Place::Unix(_) => false,
    };
    if let Some(bound) = bound.iter().find(|bound| has_strangers(&bound.address.place)) {
        tracing::warn!(
            "anyone who can reach {} can read and remove every job: with -l 127.0.0.1 only this machine can",
            bound.address
        );
    }
}

/// Takes over what beanstalkd left in its directory.
fn import_from(directory: &Path, config: &Config) -> Result<(), Exit> {
    let disk = OsDisk::open(directory).map_err(Exit::cannot_lock)?;
    let imported = OsDirectory::open(directory).and_then(|mut source| {
        let job_bytes_max = config.limits.body_bytes_max;
        import::import(&mut source, disk, &serve::log_options(config), job_bytes_max, RealTime::new().now())
    });
    // What salvages a log does not start while an import is under way.
    let imported =
        if is_unfinished(directory) { imported } else { imported.map_err(|error| with_advice(error, directory)) };
    let said = imported.with_context(|| format!("cannot import the binlog in {}", directory.display()));
    for line in said.map_err(Exit::other)? {
        say(&format!("{line}\n"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Fsync;

    fn configured(line: &str) -> Config {
        let words = line.split_whitespace().map(OsString::from);
        let Asked::Run(options) = options::parse(words, &mut |_| {}) else { panic!("{line}") };
        let place = place(&options).unwrap();
        settings(options, place).unwrap()
    }

    #[test]
    fn only_the_name_counts() {
        for (program, meant) in [
            ("beanstalkd", true),
            ("/usr/bin/beanstalkd", true),
            ("./beanstalkd", true),
            ("jobyard", false),
            ("beanstalkd/jobyard", false),
            ("beanstalkd2", false),
            ("", false),
        ] {
            assert_eq!(is_meant(Some(OsStr::new(program))), meant, "{program}");
        }
        assert!(!is_meant(None));
    }

    #[test]
    fn without_options_it_listens_everywhere_and_keeps_nothing() {
        let config = configured("");
        assert_eq!(config.listen[0].to_string(), "beanstalkd://0.0.0.0:11300");
        assert_eq!((config.storage, config.insecure_public), (Storage::Memory, true));
        assert_eq!((config.limits.body_bytes_max, config.log_level), (65_535, LogLevel::Warn));
    }

    #[test]
    fn what_is_said_is_what_is_set() {
        let config = configured("-l ::1 -p 11301 -b /nonexistent/jobs -f 50 -VV");
        assert_eq!(config.listen[0].to_string(), "beanstalkd://[::1]:11301");
        assert_eq!(config.storage, Storage::Data("/nonexistent/jobs".into()));
        assert_eq!((config.fsync, config.log_level), (Fsync::Interval { ms: 50 }, LogLevel::Debug));
        assert_eq!(config.segment_bytes, 32 << 20);
        let config = configured("-l unix:/run/beanstalkd.sock -p nonsense -bx -F -V");
        assert_eq!(config.listen[0].to_string(), "beanstalkd+unix:///run/beanstalkd.sock");
        assert_eq!((config.fsync, config.log_level), (Fsync::Never, LogLevel::Info));
        assert_eq!(configured("-bx").fsync, Fsync::Always);
    }

    #[test]
    fn a_job_of_the_largest_size_finds_room_in_a_request_and_in_a_file() {
        for (line, body, segment) in [
            ("-b x -z 16777216", 16 << 20, 32 << 20),
            ("-b x -z 16777217", (16 << 20) + 1, 64 << 20),
            ("-b x -z 400000000", 400_000_000, 1 << 30),
            ("-b x -z 1073741824", 512 << 20, 1 << 30),
            ("-z 1073741824", 1 << 30, 1 << 30),
            ("-z 0", 1, 32 << 20),
        ] {
            let config = configured(line);
            assert_eq!((config.limits.body_bytes_max, config.segment_bytes), (body, segment), "{line}");
            config::check_input(&config.limits).unwrap();
        }
    }

    #[test]
    fn where_it_cannot_listen_is_said() {
        for line in ["-l unix:", "-p nonsense", "-p 65536", "-p -1"] {
            let words = line.split_whitespace().map(OsString::from);
            let Asked::Run(options) = options::parse(words, &mut |_| {}) else { panic!("{line}") };
            assert!(place(&options).is_err(), "{line}");
        }
        let empty = Options { listen: OsString::new(), ..Options::default() };
        assert!(place(&empty).is_err());
    }
}
