//! What a run of schedules demands is all that there is: every verb that transcripts say, every kind of record, every text.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use jobyard_engine::RECORD_KINDS;
use jobyard_sim::clients::{SPEAKERS, verb};
use jobyard_sim::schedule::{Tally, never_happened};
use jobyard_sim::transcript::{Cut, SimWorld, Step, Transcript, World, escape};

/// Verbs that transcripts say, that are not refused as unknown, and that no simulated client says; and why.
const NOT_SAID: &[(&str, &str, &str)] = &[
    ("beanstalkd", "pause-tubedefault", "pause-tube, whose blank may be missing"),
    ("beanstalkd", "pause-tubenope", "pause-tube, whose blank may be missing"),
    ("beanstalkd", "pause-tubes", "pause-tube, whose blank may be missing"),
    ("beanstalkd", "quitx", "quit: nobody looks at what is behind it"),
];

/// What is said of a verb that there is not, or of so little that nobody knows which is meant.
const UNKNOWN: &[(&str, &[&str])] = &[
    ("goqueue", &["Unknown Command"]),
    ("takeanumber", &["Unrecognized", "Missing CLIENT parameters"]),
    ("masenko", &["unknown verb"]),
    ("jobcentre", &["Unrecognised request type"]),
    ("workq", &["Unknown command", "Invalid command args", "Invalid command flags"]),
    ("beanstalkd", &["UNKNOWN_COMMAND", "BAD_FORMAT"]),
];

#[test]
fn every_verb_that_transcripts_say_is_said_in_schedules_and_demanded() {
    let demanded = never_happened(&Tally::new(), 1);
    let mut left_out = Vec::new();
    for speaker in SPEAKERS {
        let protocol = speaker.protocol;
        let known = verbs_of_transcripts(protocol);
        assert!(known.len() > 2, "{protocol} has the verbs {known:?}");
        for (verb, sent) in &known {
            let label = format!("{protocol} {verb}");
            let is_listed = NOT_SAID.iter().any(|(of, listed, _)| *of == protocol && listed == verb);
            let is_said = speaker.commands.contains(&&*label) && demanded.contains(&label);
            if is_said == is_listed {
                left_out.push(format!("{label}: {}, said: {is_said}, listed: {is_listed}", escape(sent)));
            }
        }
        for (_, listed, _) in NOT_SAID.iter().filter(|(of, ..)| *of == protocol) {
            assert!(known.contains_key(*listed), "no transcript of {protocol} says '{listed}'");
        }
    }
    assert!(left_out.is_empty(), "{}", left_out.join("\n"));
}

/// The verbs of a protocol's transcripts that a fresh server does not refuse as unknown, each with a request.
fn verbs_of_transcripts(protocol: &str) -> BTreeMap<String, Vec<u8>> {
    let mut verbs = BTreeMap::new();
    let mut tried = BTreeSet::new();
    for path in transcripts_of(protocol) {
        let text = fs::read_to_string(&path).expect("it can be read");
        let name = format!("transcripts/{protocol}/{}", path.file_name().unwrap_or_default().to_string_lossy());
        let transcript = Transcript::parse(&name, &text).expect("it is a transcript");
        for line in &transcript.lines {
            let Step::Send { bytes, .. } = &line.step else { continue };
            for request in requests(protocol, bytes) {
                let Some(verb) = verb(protocol, &request) else { continue };
                if request.len() < 1_000 && tried.insert(request.clone()) && is_known(protocol, &request) {
                    verbs.entry(verb).or_insert(request);
                }
            }
        }
    }
    verbs
}

/// What may be requests in what is sent at once: all of it, and what begins with any of its lines.
fn requests(protocol: &str, bytes: &[u8]) -> Vec<Vec<u8>> {
    if protocol == "goqueue" {
        return vec![bytes.to_vec()];
    }
    let ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
    let begins = [0].into_iter().chain(ends).filter(|begin| *begin < bytes.len());
    // A browser is no client of theirs: its connection ends at once.
    let is_http = |request: &Vec<u8>| request.split(|byte| *byte == b'\n').next().is_some_and(is_of_http);
    begins.map(|begin| bytes[begin..].to_vec()).filter(|request| !is_http(request)).collect()
}

fn is_of_http(line: &[u8]) -> bool {
    String::from_utf8_lossy(line).trim_end().ends_with(" HTTP/1.1")
}

/// Whether a fresh server does not say that there is no such verb.
fn is_known(protocol: &str, request: &[u8]) -> bool {
    let opens = format!("# One request.\nalice>> {}\n", escape(request));
    let setup = Transcript::parse(&format!("transcripts/{protocol}/one.txt"), &opens).expect("it is one").setup;
    let (mut world, mut heard) = (SimWorld::new(&setup, Cut::Whole, 0), Vec::new());
    world.open("alice", 0).expect("there is room");
    world.send("alice", request).expect("alice is there");
    world.settle().expect("the server comes to rest");
    world.hear("alice", &mut heard, 0).expect("alice hears");
    let first = heard.split(|byte| matches!(byte, b'\n')).next().unwrap_or_default();
    let said = String::from_utf8_lossy(first);
    let unknown = UNKNOWN.iter().filter(|(of, _)| *of == protocol).flat_map(|(_, texts)| *texts);
    !unknown.into_iter().any(|text| said.contains(text))
}

fn transcripts_of(protocol: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../transcripts").join(protocol);
    let entries = fs::read_dir(folder).expect("every protocol has transcripts");
    let mut files: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.retain(|path| path.file_name().is_some_and(|name| name != "texts.txt"));
    files.sort();
    files
}

#[test]
fn every_kind_of_record_is_demanded() {
    let demanded = never_happened(&Tally::new(), 1);
    assert!(RECORD_KINDS.len() >= 20);
    for kind in RECORD_KINDS {
        assert!(demanded.contains(&format!("record {kind}")), "no run has to write {kind}");
    }
}
