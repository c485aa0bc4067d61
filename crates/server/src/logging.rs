//! Log lines, on stderr. Nothing that a client said is ever logged unescaped, bodies never.

use std::io::{IsTerminal, Write, stderr};
use std::str::FromStr;
use std::sync::OnceLock;

use anyhow::{Result, anyhow};
use clap::ValueEnum;
use tracing::level_filters::LevelFilter;

/// What log lines look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Coloured on a terminal, plain text elsewhere
    Auto,
    /// Coloured text
    Pretty,
    /// One JSON object a line
    Json,
}

/// What is worth a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogLevel {
    /// What ends the server
    Error,
    /// What somebody should look at
    Warn,
    /// Start and stop
    Info,
    /// Every connection
    Debug,
}

/// What log lines look like, once there can be any.
static STARTED: OnceLock<LogFormat> = OnceLock::new();

/// Log lines go to stderr from now on. They start once.
pub fn start(format: LogFormat, level: LogLevel) {
    if STARTED.set(format).is_err() {
        return;
    }
    let lines =
        tracing_subscriber::fmt().with_writer(stderr).with_max_level(LevelFilter::from(level)).with_target(false);
    match format {
        LogFormat::Json => lines.json().flatten_event(true).init(),
        LogFormat::Pretty => lines.with_ansi(true).init(),
        LogFormat::Auto => {
            let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
            lines.with_ansi(stderr().is_terminal() && !plain).init();
        }
    }
}

/// Says why the process ends: in a sentence for people, but where log lines are for machines, in one of these.
pub fn say_failure(error: &anyhow::Error) {
    match STARTED.get() {
        Some(LogFormat::Json) => tracing::error!("{error:#}"),
        _ => {
            let _ = writeln!(stderr(), "error: {error:#}");
        }
    }
}

impl From<LogLevel> for LevelFilter {
    fn from(level: LogLevel) -> LevelFilter {
        match level {
            LogLevel::Error => LevelFilter::ERROR,
            LogLevel::Warn => LevelFilter::WARN,
            LogLevel::Info => LevelFilter::INFO,
            LogLevel::Debug => LevelFilter::DEBUG,
        }
    }
}

impl FromStr for LogFormat {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<LogFormat> {
        choice(text)
    }
}

impl FromStr for LogLevel {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<LogLevel> {
        choice(text)
    }
}

/// Reads one of a few words, as the command line does.
fn choice<T: ValueEnum>(text: &str) -> Result<T> {
    T::from_str(text, false).map_err(|_| {
        let values = T::value_variants().iter().filter_map(ValueEnum::to_possible_value);
        let names: Vec<_> = values.map(|value| value.get_name().to_owned()).collect();
        anyhow!("'{text}' is none of {}", names.join(", "))
    })
}
