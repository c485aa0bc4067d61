//! Files that are damaged: a torn end is cut off and told, anything else is refused, named, and can be salvaged.

mod support;

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use support::storage::{add, segments, serve, serving, state};
use support::strace::{jobyard_under_strace, trace_in};
use support::{Directory, Ended, Server, jobyard, run, text};

/// So many jobs fill several segments.
const JOBS: u32 = 200;
/// Bytes before a segment's first batch.
const HEADER: u64 = 4096;

fn body(job: u32) -> String {
    format!("{job} {}", "x".repeat(1000))
}

/// A directory with jobs, whose server was killed.
fn killed(directory: &Directory) -> PathBuf {
    let data = directory.join("data");
    let server = serve(&data);
    let mut client = server.connect();
    for job in 1..=JOBS {
        assert!(add(&mut client, job, &body(job)));
    }
    server.kill();
    assert!(segments(&data).len() > 2);
    data
}

/// How many of the first so many jobs a server has.
fn found(server: &Server, jobs: u32) -> usize {
    let mut client = server.connect();
    (1..=jobs).filter(|&job| state(&mut client, job, &body(job)).is_some()).count()
}

/// Up to where a file holds anything.
fn used(path: &Path) -> u64 {
    let bytes = fs::read(path).unwrap();
    bytes.iter().rposition(|&byte| byte != 0).unwrap() as u64 + 1
}

fn flip(path: &Path, offset: u64) {
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset).unwrap();
    file.write_all_at(&[byte[0] ^ 0x10], offset).unwrap();
}

fn name(path: &Path) -> &str {
    path.file_name().unwrap().to_str().unwrap()
}

fn contents(data: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let paths = fs::read_dir(data).unwrap().map(|entry| entry.unwrap().path());
    paths.filter(|path| name(path) != "lock").map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

fn start(data: &Path, more: &[&str]) -> Ended {
    run(jobyard().args(serving(data, more)))
}

/// The server does not start, says all this, and leaves the files as they are, but for the newest, which every start
/// writes anew.
fn check_refused(data: &Path, parts: &[&str]) {
    let mut closed = segments(data);
    closed.pop();
    let closed_ones = || closed.iter().map(|path| fs::read(path).unwrap()).collect::<Vec<_>>();
    let before = closed_ones();
    let ended = start(data, &[]);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let message = ended.stderr.lines().find(|line| line.starts_with("error: ")).unwrap_or_default();
    for part in parts {
        assert!(message.contains(part), "expected '{part}' in: {}", ended.stderr);
    }
    assert!(closed_ones() == before, "a refusal changes nothing");
}

/// As [`check_refused`], but it is refused before anything is written: all files are as they were.
fn check_refused_at_once(data: &Path, parts: &[&str]) {
    fs::write(data.join("spare-99.new"), "half made").unwrap();
    let before = contents(data);
    check_refused(data, parts);
    assert!(contents(data) == before, "a refusal changes nothing");
}

/// With `--salvage` it starts with all jobs but so many at most; then it starts as ever.
fn check_salvaged(data: &Path, lost_at_most: usize) {
    let jobs = JOBS as usize;
    let salvaging = Server::spawn(jobyard().args(serving(data, &["--salvage"])));
    let warning = salvaging.wait_for_log("salvaged");
    assert!(warning.contains("WARN") && warning.contains("damaged-"), "{warning}");
    let left = found(&salvaging, JOBS);
    assert!(left + lost_at_most >= jobs, "{left} jobs are left");
    assert!(add(&mut salvaging.connect(), JOBS + 1, &body(JOBS + 1)));
    salvaging.kill();
    assert!(contents(data).keys().any(|path| name(path).starts_with("damaged-")));
    let server = serve(data);
    assert_eq!(found(&server, JOBS + 1), left + 1);
    server.stop();
}

#[test]
fn a_torn_end_is_cut_off_and_told() {
    for tear in ["zeros", "flip", "cut"] {
        let directory = Directory::new();
        let data = killed(&directory);
        let newest = segments(&data).pop().unwrap();
        let end = used(&newest);
        let file = OpenOptions::new().write(true).open(&newest).unwrap();
        match tear {
            "zeros" => file.write_all_at(&[0; 10], end - 10).unwrap(),
            "flip" => flip(&newest, end - 10),
            _ => file.set_len(end - 10).unwrap(),
        }
        let server = serve(&data);
        let warning = server.wait_for_log("cut ");
        assert!(
            warning.contains("WARN") && warning.contains(name(&newest)) && warning.contains("at byte"),
            "{warning}"
        );
        assert_eq!(found(&server, JOBS), JOBS as usize - 1, "{tear}");
        server.kill();
        let server = serve(&data);
        assert_eq!(found(&server, JOBS), JOBS as usize - 1, "{tear}");
        server.stop();
    }
}

#[test]
fn a_flipped_bit_before_the_end_is_refused_and_can_be_salvaged() {
    for index in 0..3 {
        let directory = Directory::new();
        let data = killed(&directory);
        let segments = segments(&data);
        let damaged = if index < 2 { &segments[index] } else { segments.last().unwrap() };
        // In the first batch of it, which is there to be found again by what follows.
        flip(damaged, HEADER + 85);
        let at = format!("in {} at byte {HEADER}", name(damaged));
        check_refused(&data, &[&at, "is unreadable", "--salvage"]);
        check_salvaged(&data, 1);
    }
}

#[test]
fn a_salvage_that_fails_half_way_loses_nothing_more() {
    for (call, nth) in
        [("fdatasync", 1), ("fdatasync", 3), ("fdatasync", 4), ("fsync", 2), ("pwrite64", 3), ("rename", 1)]
    {
        let directory = Directory::new();
        let data = killed(&directory);
        flip(&segments(&data)[1], HEADER + 85);
        let (trace, inject) = (format!("trace={call}"), format!("inject={call}:error=EIO:when={nth}+"));
        let arguments = serving(&data, &["--salvage"]);
        let mut command = jobyard_under_strace(&trace_in(&directory), &[&trace, &inject], &arguments);
        match Server::attempt(&mut command) {
            Err(ended) => assert_eq!(ended.code, Some(1), "{call} {nth}: {}", ended.stderr),
            Ok(server) => server.kill(),
        }
        let server = Server::spawn(jobyard().args(serving(&data, &["--salvage"])));
        assert_eq!(found(&server, JOBS), JOBS as usize - 1, "{call} {nth}");
        server.stop();
        let server = serve(&data);
        assert_eq!(found(&server, JOBS), JOBS as usize - 1, "{call} {nth}");
        server.stop();
    }
}

#[test]
fn a_segment_that_is_cut_short_is_refused_and_can_be_salvaged() {
    let directory = Directory::new();
    let data = killed(&directory);
    let second = &segments(&data)[1];
    OpenOptions::new().write(true).open(second).unwrap().set_len(HEADER + 5000).unwrap();
    check_refused(&data, &[name(second), "at byte", "unreadable", "--salvage"]);
    check_salvaged(&data, 60);
}

#[test]
fn a_missing_segment_is_refused_and_the_rest_can_be_salvaged() {
    let directory = Directory::new();
    let data = killed(&directory);
    let second = segments(&data).remove(1);
    fs::remove_file(&second).unwrap();
    check_refused_at_once(&data, &[name(&second), "is missing", "--salvage"]);
    check_salvaged(&data, 70);
}

#[test]
fn segments_that_exchanged_their_names_are_refused_and_the_rest_can_be_salvaged() {
    // Two closed ones, and a closed one and the newest.
    for newest in [false, true] {
        let directory = Directory::new();
        let data = killed(&directory);
        let segments = segments(&data);
        let (one, other) = (&segments[0], if newest { segments.last().unwrap() } else { &segments[1] });
        let aside = data.join("aside");
        fs::rename(one, &aside).unwrap();
        fs::rename(other, one).unwrap();
        fs::rename(&aside, other).unwrap();
        let number = name(other).trim_start_matches('0').trim_end_matches(".log");
        check_refused_at_once(&data, &[name(one), &format!("has the header of segment {number}"), "--salvage"]);
        // What comes too late in the order of names is not read.
        check_salvaged(&data, 70);
    }
}

#[test]
fn a_segment_of_another_log_is_refused_and_the_rest_can_be_salvaged() {
    for newest in [false, true] {
        let (directory, elsewhere) = (Directory::new(), Directory::new());
        let (data, other) = (killed(&directory), killed(&elsewhere));
        let which = if newest { segments(&data).len() - 1 } else { 1 };
        let (ours, theirs) = (&segments(&data)[which], &segments(&other)[which]);
        assert_eq!(name(ours), name(theirs));
        fs::copy(theirs, ours).unwrap();
        check_refused_at_once(&data, &[name(ours), "belongs to another log", "--salvage"]);
        check_salvaged(&data, 70);
    }
}

#[test]
fn batches_of_another_log_are_refused_and_the_rest_can_be_salvaged() {
    let (directory, elsewhere) = (Directory::new(), Directory::new());
    let (data, other) = (killed(&directory), killed(&elsewhere));
    let ours = &segments(&data)[1];
    let mut bytes = fs::read(&segments(&other)[1]).unwrap();
    let header = usize::try_from(HEADER).unwrap();
    bytes[..header].copy_from_slice(&fs::read(ours).unwrap()[..header]);
    fs::write(ours, bytes).unwrap();
    check_refused(&data, &[&format!("in {} at byte {HEADER}", name(ours)), "--salvage"]);
    check_salvaged(&data, 70);
}

#[test]
fn a_missing_or_damaged_manifest_is_refused_and_everything_can_be_salvaged() {
    for missing in [true, false] {
        let directory = Directory::new();
        let data = killed(&directory);
        let manifest = data.join("manifest");
        if missing {
            fs::remove_file(&manifest).unwrap();
        } else {
            flip(&manifest, 30);
        }
        check_refused_at_once(&data, &["manifest", "--salvage"]);
        check_salvaged(&data, 0);
    }
}

#[test]
fn a_directory_of_a_newer_format_is_left_alone() {
    let directory = Directory::new();
    let data = killed(&directory);
    let manifest = data.join("manifest");
    let old = fs::read_to_string(&manifest).unwrap();
    let (lines, _) = old.split_once("crc ").unwrap();
    let lines = lines.replace("format 1\n", "format 9\n");
    fs::write(&manifest, format!("{lines}crc {:08x}\n", crc32c(lines.as_bytes()))).unwrap();
    check_refused_at_once(&data, &["format 9", "newer"]);
    let before = contents(&data);
    let ended = start(&data, &["--salvage"]);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("format 9"), "{}", ended.stderr);
    assert!(contents(&data) == before);
    fs::write(&manifest, old).unwrap();
    serve(&data).stop();
}

#[test]
fn where_nothing_is_damaged_salvage_changes_nothing() {
    let directory = Directory::new();
    let data = killed(&directory);
    let server = Server::spawn(jobyard().args(serving(&data, &["--salvage"])));
    server.wait_for_log("nothing to salvage");
    assert_eq!(found(&server, JOBS), JOBS as usize);
    server.stop();
    assert!(contents(&data).keys().all(|path| !text(path).contains("damaged-")));
}

/// The checksum in a manifest.
fn crc32c(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = crc >> 1 ^ (0x82f6_3b78 & (crc & 1).wrapping_neg());
        }
    }
    !crc
}
