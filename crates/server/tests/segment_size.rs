//! Another length of segments: a start writes the log anew, or says why it cannot and changes nothing.

mod support;

use std::fs;
use std::path::Path;

use support::storage::{Mount, add, segments, state};
use support::{Directory, Server, jobyard, run, run_with, text};

const JOBS: u32 = 200;

fn body(job: u32) -> String {
    format!("{job} {}", "x".repeat(1_000))
}

fn serving<'a>(data: &'a Path, size: &'a str) -> [&'a str; 7] {
    ["serve", "--listen", "any://127.0.0.1:0", "--data", text(data), "--segment-size", size]
}

fn serve(data: &Path, size: &str) -> Server {
    Server::spawn(jobyard().args(serving(data, size)))
}

/// Why a start with segments of this size fails. It changes no segment.
fn refused(data: &Path, size: &str) -> String {
    let contents =
        || segments(data).into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect::<Vec<_>>();
    let before = contents();
    let ended = run(jobyard().args(serving(data, size)));
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(contents() == before, "a start that was refused has changed a segment");
    ended.stderr
}

fn put_jobs(server: &Server) {
    let mut client = server.connect();
    assert!((1..=JOBS).all(|job| add(&mut client, job, &body(job))));
}

fn check_jobs(server: &Server) {
    let mut client = server.connect();
    for job in 1..=JOBS {
        assert_eq!(state(&mut client, job, &body(job)), Some(0), "job {job}");
    }
}

/// Every segment is of this length, and the log is whole.
fn check_lengths(data: &Path, bytes: u64) {
    let segments = segments(data);
    assert!(!segments.is_empty());
    for path in segments {
        assert_eq!(path.metadata().unwrap().len(), bytes, "{}", path.display());
    }
    let verified = run_with(&["log", "verify", text(data)]);
    assert_eq!(verified.code, Some(0), "{}{}", verified.stdout, verified.stderr);
}

#[test]
fn a_start_with_another_size_writes_the_log_anew_and_keeps_all_jobs() {
    let directory = Directory::new();
    let data = directory.join("data");
    let server = serve(&data, "64KiB");
    put_jobs(&server);
    server.kill();
    for (size, bytes) in [("1MiB", 1 << 20), ("128KiB", 128 << 10), ("4MiB", 4 << 20), ("64KiB", 64 << 10)] {
        let server = serve(&data, size);
        check_jobs(&server);
        server.kill();
        check_lengths(&data, bytes);
    }
}

#[test]
fn segments_too_short_for_what_is_there_are_refused() {
    let directory = Directory::new();
    let data = directory.join("data");
    let server = serve(&data, "1MiB");
    let long = "x".repeat(100_000);
    assert!(add(&mut server.connect(), 1, &long));
    server.stop();
    let why = refused(&data, "64KiB");
    let said =
        "the log cannot be written anew, with segments of 65536 bytes instead of 1048576: it holds batches that need ";
    let needed = why.split_once(said).unwrap_or_else(|| panic!("{why}")).1.split('.').next().unwrap();
    // What it says is enough, and the job is still there.
    let server = serve(&data, needed);
    assert_eq!(state(&mut server.connect(), 1, &long), Some(0));
    server.stop();
}

#[test]
fn without_room_for_another_log_the_old_one_is_kept() {
    let mount = Mount::tmpfs("size=2m");
    let data = mount.path().join("data");
    let server = serve(&data, "64KiB");
    put_jobs(&server);
    server.kill();
    let why = refused(&data, "1MiB");
    assert!(why.contains("the log cannot be written anew, with segments of 1048576 bytes instead of 65536"), "{why}");
    assert!(why.contains("Make room on the disk, or set the segment size back to 65536"), "{why}");
    let server = serve(&data, "64KiB");
    check_jobs(&server);
    server.stop();
}
