//! Every transcript holds over real TCP, against the built binary.

mod support;
#[path = "support/tcp_world.rs"]
mod tcp_world;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use jobyard_sim::transcript::{Cut, Step, Transcript, play};

use tcp_world::TcpWorld;

/// How many are played at once: each has a process of its own.
const PLAYERS: usize = 4;

#[test]
fn transcripts_hold_over_tcp() {
    let paths = transcript_paths();
    assert!(!paths.is_empty(), "there are no transcripts in {}", root().display());
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..PLAYERS {
            scope.spawn(|| {
                while let Some(path) = paths.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let transcript = read(path);
                    if let Err(failure) = play(&transcript, &mut TcpWorld::new(&transcript.setup), Cut::Whole) {
                        failures.lock().unwrap().push(failure.to_string());
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    let (failed, all) = (failures.len(), paths.len());
    assert!(failed == 0, "{failed} of {all} transcripts do not hold:\n\n{}", failures.join("\n"));
}

#[test]
fn a_transcript_that_expects_something_else_fails() {
    let text = "# A wrong expectation.\nalice> LEN q\nalice< :1\n";
    let transcript = Transcript::parse("takeanumber/wrong.txt", text).unwrap();
    let failure = play(&transcript, &mut TcpWorld::new(&transcript.setup), Cut::Whole).unwrap_err();
    assert_eq!(failure.line, 3, "{failure}");

    let text = "# An answer that nobody expects.\nalice> LEN q\nwait 1s\n";
    let transcript = Transcript::parse("takeanumber/wrong.txt", text).unwrap();
    let failure = play(&transcript, &mut TcpWorld::new(&transcript.setup), Cut::Whole).unwrap_err();
    assert!(failure.what.contains("nobody expected"), "{failure}");
}

fn read(path: &Path) -> Transcript {
    let text = fs::read_to_string(path).unwrap();
    let transcript = Transcript::parse(&path.to_string_lossy(), &text).unwrap_or_else(|error| panic!("{error}"));
    assert!(transcript.lines.iter().any(|line| matches!(line.step, Step::Expect { .. } | Step::Closed(_))));
    transcript
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../transcripts")
}

fn transcript_paths() -> Vec<PathBuf> {
    let mut paths = Vec::new();
    for folder in fs::read_dir(root()).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()) {
        let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        paths.extend(files.filter(|path| path.extension().is_some_and(|extension| extension == "txt")));
    }
    // The list of all texts that a protocol can say is no transcript.
    paths.retain(|path| path.file_name().is_some_and(|name| name != "texts.txt"));
    paths.sort();
    paths
}
