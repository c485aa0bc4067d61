//! When what is written is synced, as people say it.

use std::fmt;
use std::str::FromStr;

use anyhow::{Result, anyhow, bail};

use crate::units::Millis;

/// When what is written is synced to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fsync {
    /// Before anything that depends on it is answered.
    Always,
    /// So long after it was written, at the latest.
    Interval {
        /// How long.
        ms: u64,
    },
    /// When the system likes.
    Never,
}

/// What `interval` alone means.
const DEFAULT_INTERVAL_MS: u64 = 1_000;

impl fmt::Display for Fsync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fsync::Always => write!(f, "synced before each answer"),
            Fsync::Interval { ms } => {
                write!(f, "synced every {}: a power cut may take what was answered since", in_words(*ms))
            }
            Fsync::Never => write!(f, "synced when the system likes: a power cut may take what was answered since"),
        }
    }
}

/// A time as one would give it: `1h`, `50ms`.
fn in_words(ms: u64) -> String {
    let units = [(3_600_000, "h"), (60_000, "m"), (1_000, "s"), (1, "ms")];
    let fits = units.into_iter().find(|(unit, _)| ms.is_multiple_of(*unit));
    let (unit, name) = fits.unwrap_or((1, "ms"));
    format!("{}{name}", ms / unit)
}

impl FromStr for Fsync {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Fsync> {
        Ok(match text.split_once('=') {
            None if text == "always" => Fsync::Always,
            None if text == "interval" => Fsync::Interval { ms: DEFAULT_INTERVAL_MS },
            None if text == "never" => Fsync::Never,
            Some(("interval", time)) => {
                let Millis(ms) = time.parse().map_err(|error| anyhow!("in '{text}': {error}"))?;
                Fsync::Interval { ms }
            }
            _ => bail!("'{text}' is none of always, interval, interval=TIME, never"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_say_it_is_read() {
        for (text, expected) in [
            ("always", Fsync::Always),
            ("interval", Fsync::Interval { ms: 1_000 }),
            ("interval=50ms", Fsync::Interval { ms: 50 }),
            ("interval=2m", Fsync::Interval { ms: 120_000 }),
            ("never", Fsync::Never),
        ] {
            assert_eq!(text.parse::<Fsync>().unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn an_interval_is_said_as_it_was_given() {
        for time in ["1h", "90m", "2m", "90s", "1s", "1500ms", "50ms"] {
            let said = format!("interval={time}").parse::<Fsync>().unwrap().to_string();
            assert_eq!(said, format!("synced every {time}: a power cut may take what was answered since"));
        }
    }

    #[test]
    fn what_is_none_of_them_is_refused() {
        for text in ["", "Always", "interval=", "interval=0s", "interval=5", "always=1s", "never=", "no"] {
            assert!(text.parse::<Fsync>().is_err(), "{text}");
        }
        let error = format!("{:#}", "interval=soon".parse::<Fsync>().unwrap_err());
        assert_eq!(error, "in 'interval=soon': 'soon' is no time: expected one such as 500ms, 5s, 2m or 1h");
    }
}
