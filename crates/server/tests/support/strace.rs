//! System calls that fail as they are told to, and the order in which they were made: the binary under `strace`.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{clean, until};

/// The binary under strace, which writes to this file. `-D` keeps the server our own child; `-yy` shows what files are.
pub fn jobyard_under_strace(trace: &Path, expressions: &[&str], arguments: &[&str]) -> Command {
    under_strace(trace, expressions, Path::new(env!("CARGO_BIN_EXE_jobyard")), arguments)
}

/// The same, started by this path.
pub fn under_strace(trace: &Path, expressions: &[&str], program: &Path, arguments: &[&str]) -> Command {
    let there = Command::new("strace").arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status();
    assert!(there.is_ok_and(|status| status.success()), "strace is missing: on Debian, apt-get install strace");
    let mut command = Command::new("strace");
    command.args(["-D", "-f", "-yy", "-s", "16", "-o"]).arg(trace);
    for expression in expressions {
        command.args(["-e", expression]);
    }
    command.arg(program).args(arguments);
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

/// What shows how answers and syncs follow each other.
pub const ANSWERS_AND_SYNCS: &str = "trace=pwrite64,fdatasync,write,writev,sendto,sendmsg";

/// Whether this was done to a segment of the log.
pub fn is_segment(call: &Call) -> bool {
    call.target.ends_with(".log")
}

/// How many answers left while something that was written to a segment was not synced, or before there were as many syncs as
/// answers; and how many left at all.
pub fn answers(calls: &[Call]) -> (usize, usize) {
    let (mut unsynced, mut syncs, mut early, mut all) = (false, 0, 0, 0);
    for call in calls {
        match call.name.as_str() {
            "pwrite64" if is_segment(call) => unsynced = true,
            "fdatasync" if is_segment(call) && call.outcome == "0" => {
                syncs += 1;
                unsynced = false;
            }
            "write" | "writev" | "sendto" | "sendmsg" if call.target.starts_with("TCP:") => {
                all += 1;
                early += usize::from(unsynced || syncs < all);
            }
            _ => {}
        }
    }
    (early, all)
}

/// Where the trace of a test goes.
pub fn trace_in(directory: &super::Directory) -> PathBuf {
    directory.join("trace")
}
