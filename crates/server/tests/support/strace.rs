//! System calls that fail as they are told to, and the order in which they were made: the binary under `strace`.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{clean, until};

/// The binary under strace, which writes to this file. `-D` keeps the server our own child; `-yy` shows what files are.
pub fn jobyard_under_strace(trace: &Path, expressions: &[&str], arguments: &[&str]) -> Command {
    let there = Command::new("strace").arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status();
    assert!(there.is_ok_and(|status| status.success()), "strace is missing: on Debian, apt-get install strace");
    let mut command = Command::new("strace");
    command.args(["-D", "-f", "-yy", "-s", "16", "-o"]).arg(trace);
    for expression in expressions {
        command.args(["-e", expression]);
    }
    command.arg(env!("CARGO_BIN_EXE_jobyard")).args(arguments);
    clean(command)
}

/// A finished system call.
#[derive(Debug)]
pub struct Call {
    pub thread: String,
    pub name: String,
    /// What it was done to: a path, or `TCP:[…]`.
    pub target: String,
    pub outcome: String,
}

/// The calls of a server that has ended, in the order in which they were finished.
pub fn calls(trace: &Path, server_pid: &str) -> Vec<Call> {
    // The numbers of threads are padded with blanks.
    let is_end = |line: &str| line.split_whitespace().take(2).eq([server_pid, "+++"]);
    let mut text = String::new();
    until("the trace is whole", || {
        text = fs::read_to_string(trace).unwrap_or_default();
        text.lines().any(is_end)
    });
    let mut begun = HashMap::new();
    text.lines().filter_map(|line| call(line, &mut begun)).collect()
}

/// Reads one line. One that another thread interrupted comes in two: `begun` has what the first said.
fn call(line: &str, begun: &mut HashMap<String, (String, String)>) -> Option<Call> {
    let (thread, rest) = line.split_once(' ')?;
    let (thread, rest) = (thread.to_owned(), rest.trim_start());
    let outcome = |text: &str| Some(text.rsplit_once(") ")?.1.trim_start().strip_prefix("= ")?.to_owned());
    if rest.starts_with("<... ") {
        let (name, target) = begun.remove(&thread)?;
        return Some(Call { thread, name, target, outcome: outcome(rest)? });
    }
    let (name, arguments) = rest.split_once('(')?;
    let target = arguments.split_once('<').and_then(|(_, target)| target.split_once('>'));
    let (name, target) = (name.to_owned(), target.map_or(String::new(), |(target, _)| target.to_owned()));
    if rest.ends_with("<unfinished ...>") {
        begun.insert(thread, (name, target));
        return None;
    }
    Some(Call { thread, name, target, outcome: outcome(rest)? })
}

/// Where the trace of a test goes.
pub fn trace_in(directory: &super::Directory) -> PathBuf {
    directory.join("trace")
}
