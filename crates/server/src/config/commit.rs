//! Who appends to the log, as people say it.

use std::str::FromStr;

use anyhow::{Error, Result, bail};

/// Who appends to the log, and syncs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commit {
    /// The one thread that does all else.
    Loop,
    /// Another one.
    Thread,
}

impl FromStr for Commit {
    type Err = Error;

    fn from_str(text: &str) -> Result<Commit> {
        Ok(match text {
            "loop" => Commit::Loop,
            "thread" => Commit::Thread,
            _ => bail!("'{text}' is none of loop, thread"),
        })
    }
}
