//! What beanstalkd is told on its command line, read as that program reads it.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use crate::config::Fsync;

/// The largest job that there may be, whatever is asked for.
pub const JOB_BYTES_MAX: usize = 1 << 30;

/// What beanstalkd was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// `-l`: an address or a name, or `unix:` and a path.
    pub listen: OsString,
    /// `-p`: a number, or the name of a service.
    pub port: OsString,
    /// `-b`: where jobs are kept; without it, nowhere.
    pub directory: Option<PathBuf>,
    /// `-f`, `-F`: when what is written is synced.
    pub fsync: Fsync,
    /// `-z`: the largest job.
    pub job_bytes_max: usize,
    /// `-u`: whom to become.
    pub user: Option<OsString>,
    /// `-V`: how often it was said.
    pub verbose: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            listen: "0.0.0.0".into(),
            port: "11300".into(),
            directory: None,
            fsync: Fsync::Always,
            job_bytes_max: 65_535,
            user: None,
            verbose: 0,
        }
    }
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Run.
    Run(Options),
    /// Print the usage: `-h`.
    Usage,
    /// Print the version: `-v`.
    Version,
    /// Say what makes no sense, and print the usage.
    Senseless(String),
}

/// Printed by `-h`, and behind whatever makes no sense.
pub const USAGE: &str = "\
Use: beanstalkd [OPTIONS]

Options:
 -l ADDR   address to listen on, or unix:PATH (0.0.0.0)
 -p PORT   port to listen on, or a service's name (11300)
 -b DIR    directory to keep jobs in; without it they end with the process
 -f MS     sync at most every MS milliseconds; -f0, and neither -f nor -F:
           sync before each answer
 -F        never sync
 -z BYTES  largest job (65535, and at most 1073741824)
 -u USER   become this user, and its group
 -s BYTES  taken, without effect: files have a size of their own
 -c, -n    taken, without effect
 -V        say more; twice, more still
 -v        print the version
 -h        print this
";

/// The flags that have a value.
const WITH_VALUE: &[u8] = b"plubzsf";

/// Reads a command line, from left to right: the first word that ends the process is all that counts. What is worth a
/// warning on the way goes to `warn`.
pub fn parse(arguments: impl IntoIterator<Item = OsString>, warn: &mut dyn FnMut(String)) -> Asked {
    let mut options = Options::default();
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        let bytes = argument.as_bytes();
        if bytes.len() < 2 || bytes[0] != b'-' {
            return Asked::Senseless(format!("unknown argument: {}", argument.display()));
        }
        let mut at = 1;
        while at < bytes.len() {
            let flag = bytes[at];
            // What follows a flag in its word is its value; else the next word is.
            let takes_value = WITH_VALUE.contains(&flag);
            let value = if !takes_value {
                OsString::new()
            } else if at + 1 < bytes.len() {
                OsString::from_vec(bytes[at + 1..].to_vec())
            } else if let Some(next) = arguments.next() {
                next
            } else {
                return Asked::Senseless(format!("flag requires an argument: -{}", char::from(flag)));
            };
            match options.take(flag, value, warn) {
                Taken::Known if takes_value => break,
                Taken::Known => at += 1,
                Taken::Ends(asked) => return asked,
                Taken::Unknown => {
                    let rest = OsStr::from_bytes(&bytes[at - 1..]);
                    return Asked::Senseless(format!("unknown flag: {}", rest.display()));
                }
            }
        }
    }
    Asked::Run(options)
}

/// What became of a flag.
enum Taken {
    /// What it asks for is done.
    Known,
    /// Nothing after it counts.
    Ends(Asked),
    Unknown,
}

impl Options {
    fn take(&mut self, flag: u8, value: OsString, warn: &mut dyn FnMut(String)) -> Taken {
        match flag {
            b'p' => self.port = value,
            b'l' => self.listen = value,
            b'u' => self.user = Some(value),
            b'b' => self.directory = Some(value.into()),
            b'z' | b's' | b'f' => {
                let Some(size) = size(&value) else {
                    return Taken::Ends(Asked::Senseless(format!("invalid size: {}", value.display())));
                };
                self.take_size(flag, size, warn);
            }
            b'F' => self.fsync = Fsync::Never,
            b'V' => self.verbose += 1,
            b'c' | b'n' => warn(format!("-{} has no effect", char::from(flag))),
            b'h' => return Taken::Ends(Asked::Usage),
            b'v' => return Taken::Ends(Asked::Version),
            _ => return Taken::Unknown,
        }
        Taken::Known
    }

    fn take_size(&mut self, flag: u8, size: u64, warn: &mut dyn FnMut(String)) {
        match flag {
            b'z' => {
                self.job_bytes_max = usize::try_from(size).unwrap_or(usize::MAX).min(JOB_BYTES_MAX);
                if size > JOB_BYTES_MAX as u64 {
                    warn(format!("maximum job size was set to {JOB_BYTES_MAX}"));
                }
            }
            // Less than nothing is always due, too.
            b'f' if size.cast_signed() <= 0 => self.fsync = Fsync::Always,
            b'f' => self.fsync = Fsync::Interval { ms: size },
            _ => {}
        }
    }
}

/// A number as C reads it: blanks and a sign may come before it, nothing behind it. One that is too large is the largest.
fn size(text: &OsStr) -> Option<u64> {
    let text = text.to_str()?.trim_start_matches([' ', '\t', '\n', '\x0b', '\x0c', '\r']);
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(match digits.parse::<u64>() {
        Ok(size) if negative => size.wrapping_neg(),
        Ok(size) => size,
        Err(_) => u64::MAX,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> (Asked, Vec<String>) {
        let mut warnings = Vec::new();
        let words = line.split(' ').filter(|word| !word.is_empty()).map(OsString::from);
        (parse(words, &mut |warning| warnings.push(warning)), warnings)
    }

    fn options(line: &str) -> Options {
        match parsed(line) {
            (Asked::Run(options), warnings) if warnings.is_empty() => options,
            other => panic!("{line}: {other:?}"),
        }
    }

    fn senseless(line: &str) -> String {
        match parsed(line) {
            (Asked::Senseless(why), _) => why,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn nothing_is_its_defaults() {
        let options = options("");
        assert_eq!(options, Options::default());
        assert_eq!((options.listen, options.port), ("0.0.0.0".into(), "11300".into()));
        assert_eq!((options.directory, options.fsync, options.job_bytes_max), (None, Fsync::Always, 65_535));
    }

    #[test]
    fn each_option_is_taken_in_either_form() {
        let default = Options::default;
        for (line, expected) in [
            ("-p 11301", Options { port: "11301".into(), ..default() }),
            ("-p11301", Options { port: "11301".into(), ..default() }),
            ("-pbeans", Options { port: "beans".into(), ..default() }),
            ("-l 127.0.0.1", Options { listen: "127.0.0.1".into(), ..default() }),
            ("-l::1", Options { listen: "::1".into(), ..default() }),
            ("-l unix:/run/b.sock", Options { listen: "unix:/run/b.sock".into(), ..default() }),
            ("-b /var/lib/beanstalkd", Options { directory: Some("/var/lib/beanstalkd".into()), ..default() }),
            ("-bjobs", Options { directory: Some("jobs".into()), ..default() }),
            ("-f 50", Options { fsync: Fsync::Interval { ms: 50 }, ..default() }),
            ("-f0", default()),
            ("-f -1", default()),
            ("-F", Options { fsync: Fsync::Never, ..default() }),
            ("-z 1024", Options { job_bytes_max: 1_024, ..default() }),
            ("-z0", Options { job_bytes_max: 0, ..default() }),
            ("-z+5", Options { job_bytes_max: 5, ..default() }),
            ("-z 1073741824", Options { job_bytes_max: 1 << 30, ..default() }),
            ("-s 4096", default()),
            ("-s99999999999999999999", default()),
            ("-u nobody", Options { user: Some("nobody".into()), ..default() }),
            ("-V", Options { verbose: 1, ..default() }),
            ("-VVV", Options { verbose: 3, ..default() }),
            ("-V -V", Options { verbose: 2, ..default() }),
        ] {
            assert_eq!(options(line), expected, "{line}");
        }
    }

    #[test]
    fn flags_share_a_word_and_the_last_may_have_a_value() {
        let together = options("-VFp11399 -Vb jobs -l localhost");
        let expected = Options {
            verbose: 2,
            fsync: Fsync::Never,
            port: "11399".into(),
            directory: Some("jobs".into()),
            listen: "localhost".into(),
            ..Options::default()
        };
        assert_eq!(together, expected);
        assert_eq!(options("-p -V").port, "-V", "a value is whatever comes next");
    }

    #[test]
    fn of_what_is_said_twice_the_last_counts() {
        assert_eq!(options("-p1 -p2").port, "2");
        assert_eq!(options("-F -f5").fsync, Fsync::Interval { ms: 5 });
        assert_eq!(options("-f5 -F").fsync, Fsync::Never);
    }

    #[test]
    fn what_has_no_effect_or_less_is_warned_of() {
        let said = |warning: &str| vec![warning.to_owned()];
        assert_eq!(parsed("-c"), (Asked::Run(Options::default()), said("-c has no effect")));
        let asked = Asked::Run(Options { verbose: 1, ..Options::default() });
        assert_eq!(parsed("-Vn"), (asked, said("-n has no effect")));
        let asked = Asked::Run(Options { job_bytes_max: 1 << 30, ..Options::default() });
        for line in ["-z 1073741825", "-z-1", "-z 18446744073709551616"] {
            assert_eq!(parsed(line), (asked.clone(), said("maximum job size was set to 1073741824")), "{line}");
        }
    }

    #[test]
    fn the_first_word_that_ends_it_is_all_that_counts() {
        for (line, expected) in [
            ("-h", Asked::Usage),
            ("-Vh", Asked::Usage),
            ("-hx", Asked::Usage),
            ("-v", Asked::Version),
            ("-Vvx", Asked::Version),
            ("-v -h", Asked::Version),
            ("-p 1 -h -x", Asked::Usage),
        ] {
            assert_eq!(parsed(line).0, expected, "{line}");
        }
        assert_eq!(senseless("-x -h"), "unknown flag: -x");
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        for (line, why) in [
            ("-x", "unknown flag: -x"),
            ("-xV", "unknown flag: -xV"),
            ("-Vxy", "unknown flag: Vxy"),
            ("--", "unknown flag: --"),
            ("--help", "unknown flag: --help"),
            ("foo", "unknown argument: foo"),
            ("-", "unknown argument: -"),
            ("-p 1 foo", "unknown argument: foo"),
            ("-p", "flag requires an argument: -p"),
            ("-Vl", "flag requires an argument: -l"),
            ("-b", "flag requires an argument: -b"),
            ("-u", "flag requires an argument: -u"),
            ("-z", "flag requires an argument: -z"),
            ("-zabc", "invalid size: abc"),
            ("-z 5x", "invalid size: 5x"),
            ("-z -", "invalid size: -"),
            ("-f 1.5", "invalid size: 1.5"),
            ("-s 10M", "invalid size: 10M"),
        ] {
            assert_eq!(senseless(line), why, "{line}");
        }
        let empty = parse(["-z", ""].map(OsString::from), &mut |_| {});
        assert_eq!(empty, Asked::Senseless("invalid size: ".to_owned()));
        assert_eq!(parse([OsString::new()], &mut |_| {}), Asked::Senseless("unknown argument: ".to_owned()));
    }

    #[test]
    fn the_usage_fits_a_narrow_terminal_and_names_every_flag() {
        assert!(USAGE.lines().all(|line| line.len() <= 78));
        for flag in "lpbfFzuscnVvh".chars() {
            assert!(USAGE.contains(&format!("-{flag}")), "{flag}");
        }
    }
}
