//! Every transcript holds, however its bytes are cut and however late its log; and every protocol has its transcripts.

use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

use jobyard_protocols::{ANY, PROTOCOLS};
use jobyard_sim::disk::Crash;
use jobyard_sim::transcript::{Cut, Line, SimWorld, Step, Storage, Transcript, escape, play, unescape};

/// After how many turns a batch of the log is durable.
const LATENESS: [u32; 3] = [0, 1, 5];
/// The smallest that the server allows.
const SMALL_SEGMENT_BYTES: u64 = 64 << 10;
/// The file in a protocol's folder that is no transcript.
const TEXTS: &str = "texts.txt";
const TOGETHER: &str = "together";
/// A protocol says at least so many different things.
const TEXTS_MIN: usize = 3;

#[test]
fn transcripts_hold_whole() {
    hold(Cut::Whole);
}

#[test]
fn transcripts_hold_byte_by_byte() {
    hold(Cut::Bytes);
}

#[test]
fn transcripts_hold_in_random_cuts() {
    for seed in 1..=3 {
        hold(Cut::Random(seed));
    }
}

#[test]
fn transcripts_hold_on_a_disk() {
    let (small, large): (Vec<_>, Vec<_>) =
        all_transcripts().into_iter().partition(|transcript| longest_text(transcript) < SMALL_SEGMENT_BYTES / 4);
    for (transcripts, segment_bytes) in [(&small, SMALL_SEGMENT_BYTES), (&large, 16 << 20)] {
        hold_on(transcripts, Cut::Whole, &[Storage::Disk { crash: Crash::Lost, segment_bytes }]);
    }
}

#[test]
fn transcripts_with_a_crash_hold_whatever_it_leaves() {
    let mut transcripts = all_transcripts();
    transcripts.retain(|transcript| transcript.lines.iter().any(|line| line.step == Step::Crash));
    for protocol in PROTOCOLS.iter().filter(|protocol| protocol.name != "http") {
        let shown = transcripts.iter().any(|transcript| transcript.path.contains(protocol.name));
        assert!(shown, "no transcript of {} has a crash", protocol.name);
    }
    let mut crashes = vec![Crash::Kill, Crash::Lost, Crash::BytesLost, Crash::NamesLost];
    crashes.extend((0..6).map(Crash::Torn));
    crashes.extend((0..12).flat_map(|seed| [Crash::Names(seed), Crash::Scattered(seed), Crash::Garbage(seed)]));
    let on_disk = |crash| Storage::Disk { crash, segment_bytes: SMALL_SEGMENT_BYTES };
    let storages: Vec<Storage> = crashes.into_iter().map(on_disk).collect();
    for cut in (1..=3).map(Cut::Random) {
        hold_on(&transcripts, cut, &storages);
    }
}

fn longest_text(transcript: &Transcript) -> u64 {
    let sent = transcript.lines.iter().map(|line| match &line.step {
        Step::Send { bytes, .. } => bytes.len() as u64,
        _ => 0,
    });
    sent.max().unwrap_or(0)
}

fn hold(cut: Cut) {
    hold_on(&all_transcripts(), cut, &LATENESS.map(|lateness| Storage::Memory { lateness }));
}

fn hold_on(transcripts: &[Transcript], cut: Cut, storages: &[Storage]) {
    let mut failures = Vec::new();
    for transcript in transcripts {
        for storage in storages {
            if let Err(failure) = play_once(transcript, cut, *storage) {
                failures.push(format!("{failure}  played: {cut:?}, {storage:?}\n"));
                break;
            }
        }
    }
    assert!(
        failures.is_empty(),
        "{} of {} transcripts do not hold:\n\n{}",
        failures.len(),
        transcripts.len(),
        failures.join("\n")
    );
}

/// A server that panics must not keep the other transcripts from being played, nor its own from being named.
fn play_once(transcript: &Transcript, cut: Cut, storage: Storage) -> Result<(), String> {
    let played = catch_unwind(|| {
        let mut world = SimWorld::with_storage(&transcript.setup, cut, storage);
        play(transcript, &mut world, cut)
    });
    match played {
        Ok(outcome) => outcome.map_err(|failure| failure.to_string()),
        Err(_) => Err(format!("{}: the server panicked (see above)\n", transcript.path)),
    }
}

#[test]
fn no_transcript_holds_with_one_expectation_changed() {
    for mut transcript in all_transcripts() {
        let Some(line) = change_last_expectation(&mut transcript) else { continue };
        let failure = play(&transcript, &mut SimWorld::new(&transcript.setup, Cut::Whole, 0), Cut::Whole);
        let failed_at = failure.expect_err(&transcript.path).line;
        assert_eq!(failed_at, line, "{} should fail where it was changed", transcript.path);
    }
}

/// Changes the last byte that is expected to be heard; says in which line.
fn change_last_expectation(transcript: &mut Transcript) -> Option<usize> {
    let expected = |line: &mut Line| match &mut line.step {
        Step::Expect { parts, .. } => {
            parts.last_mut().and_then(|bytes| bytes.last_mut()).map(|byte| *byte ^= 1).map(|()| line.number)
        }
        _ => None,
    };
    transcript.lines.iter_mut().rev().find_map(expected)
}

#[test]
fn every_protocol_has_transcripts() {
    for protocol in protocols() {
        let files = files_of(protocol);
        assert!(!files.is_empty(), "there are no transcripts in transcripts/{protocol}");
    }
}

#[test]
fn every_folder_is_a_protocol_or_shows_them_together() {
    for folder in folders() {
        let known = folder == TOGETHER || protocols().any(|protocol| protocol == folder);
        assert!(known, "transcripts/{folder} is no protocol");
    }
}

#[test]
fn every_pair_of_putter_and_taker_is_shown() {
    let jobs = PROTOCOLS.iter().map(|protocol| protocol.name).filter(|&name| name != "http");
    for putter in jobs.clone() {
        for taker in jobs.clone() {
            let path = root().join(TOGETHER).join(format!("{putter}-to-{taker}.txt"));
            assert!(path.exists(), "{} is missing", path.display());
        }
    }
}

#[test]
fn every_text_that_a_protocol_can_say_is_heard() {
    let together = transcripts_of(TOGETHER);
    let mut unheard = Vec::new();
    for protocol in protocols() {
        let transcripts = transcripts_of(protocol);
        let texts = texts_of(protocol);
        assert!(texts.len() >= TEXTS_MIN, "transcripts/{protocol}/{TEXTS} lists {} texts", texts.len());
        for (line, text) in texts {
            let heard = transcripts.iter().chain(&together).flat_map(Transcript::expected);
            if !heard.into_iter().any(|heard| contains(heard, &text)) {
                unheard.push(format!("transcripts/{protocol}/{TEXTS}:{line}: {}", escape(&text)));
            }
        }
    }
    assert!(unheard.is_empty(), "no transcript expects to hear:\n{}", unheard.join("\n"));
}

fn contains(heard: &[u8], text: &[u8]) -> bool {
    heard.windows(text.len()).any(|window| window == text)
}

fn protocols() -> impl Iterator<Item = &'static str> {
    PROTOCOLS.iter().map(|protocol| protocol.name).chain([ANY])
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../transcripts")
}

fn folders() -> Vec<String> {
    let entries = fs::read_dir(root()).expect("the folder of transcripts can be read");
    let mut folders: Vec<_> =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    folders.sort();
    folders
}

/// The transcripts of a folder that need not exist, by name.
fn files_of(folder: &str) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(root().join(folder)) else { return Vec::new() };
    let mut files: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.retain(|path| path.file_name().is_some_and(|name| name != TEXTS));
    files.sort();
    files
}

fn transcripts_of(folder: &str) -> Vec<Transcript> {
    let read = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Transcript::parse(&format!("transcripts/{folder}/{name}"), &text).unwrap_or_else(|error| panic!("{error}"))
    };
    files_of(folder).iter().map(read).collect()
}

fn all_transcripts() -> Vec<Transcript> {
    let transcripts: Vec<_> = folders().iter().flat_map(|folder| transcripts_of(folder)).collect();
    assert!(!transcripts.is_empty(), "there are no transcripts");
    transcripts
}

/// The texts that a protocol can say, each with its line.
fn texts_of(protocol: &str) -> Vec<(usize, Vec<u8>)> {
    let path = root().join(protocol).join(TEXTS);
    let file = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let lines = file.lines().enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let text = |(index, line): (usize, &str)| {
        let text = unescape(line).unwrap_or_else(|error| panic!("{}:{}: {error}", path.display(), index + 1));
        (index + 1, text)
    };
    lines.map(text).collect()
}
