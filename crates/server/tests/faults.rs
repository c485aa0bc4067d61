//! Disks that fail: whatever happens to the server, nothing that it acknowledged is lost, and it says what is wrong.

mod support;

use std::path::Path;

use support::storage::{Mount, add, body, said, serve, serving, state};
use support::strace::{ANSWERS_AND_SYNCS, Call, answers, calls, is_segment, jobyard_under_strace, trace_in};
use support::{Directory, Ended, Peer, Server, jobyard, run, text};

/// More than are put before any of the faults below strikes.
const ENOUGH: u32 = 400;

/// Puts jobs until one is not acknowledged; how many were.
fn add_until_it_fails(client: &mut Peer) -> u32 {
    let acknowledged = (1..=ENOUGH).take_while(|&job| add(client, job, &body(job))).count();
    u32::try_from(acknowledged).unwrap()
}

/// After a start, every job that was acknowledged is there, and at most one more.
fn check_kept(data: &Path, acknowledged: u32) {
    let server = serve(data);
    let mut client = server.connect();
    for job in 1..=acknowledged {
        assert_eq!(state(&mut client, job, &body(job)), Some(0), "job {job} of {acknowledged}");
    }
    assert_eq!(state(&mut client, acknowledged + 2, ""), None);
    assert!(add(&mut client, ENOUGH + 1, "and it goes on"));
    server.stop();
}

/// Whoever appends to the log, the same must hold.
const COMMITS: [&str; 2] = ["loop", "thread"];

/// The server ends at the `nth` of these calls, and from then on all of them fail.
fn check_fault(call: &str, fault: &str, nth: u32) {
    COMMITS.iter().for_each(|commit| check_fault_with(commit, call, fault, nth));
}

fn check_fault_with(commit: &str, call: &str, fault: &str, nth: u32) {
    let what = format!("--commit {commit}, {call} {fault} from the {nth}th on");
    let directory = Directory::new();
    let data = directory.join("data");
    serve(&data).stop();
    let inject = format!("inject={call}:{fault}:when={nth}+");
    let trace = format!("trace={call}");
    let arguments = serving(&data, &["--commit", commit]);
    let mut acknowledged = 0;
    let ended = match Server::attempt(&mut jobyard_under_strace(&trace_in(&directory), &[&trace, &inject], &arguments))
    {
        Err(ended) => ended,
        Ok(server) => {
            let mut bystander = server.connect();
            let mut client = server.connect();
            acknowledged = add_until_it_fails(&mut client);
            assert_ne!(acknowledged, ENOUGH, "{what}: it never failed");
            assert_eq!(client.try_line(), None, "{what}: nothing more is said");
            assert_eq!(said(&mut bystander, "inspect server\r\n"), "", "{what}: not even to others");
            let (code, stderr) = server.wait();
            Ended { code, stdout: String::new(), stderr }
        }
    };
    assert_eq!(ended.code, Some(1), "{what}: {}", ended.stderr);
    let message = ended.stderr.lines().find(|line| line.starts_with("error: "));
    assert!(message.is_some_and(|line| line.contains("could not")), "{what}: {}", ended.stderr);
    check_kept(&data, acknowledged);
}

#[test]
fn a_sync_that_fails_ends_the_server() {
    for nth in [1, 2, 3, 4, 10, 50] {
        check_fault("fdatasync", "error=EIO", nth);
    }
}

#[test]
fn a_write_that_fails_ends_the_server() {
    for nth in [2, 3, 4, 5, 6, 20, 60] {
        check_fault("pwrite64", "error=EIO", nth);
    }
}

#[test]
fn a_write_without_room_ends_the_server() {
    for nth in [4, 5, 6, 30] {
        check_fault("pwrite64", "error=ENOSPC", nth);
    }
}

#[test]
fn a_write_of_nothing_ends_the_server() {
    for nth in [4, 5, 6, 30] {
        check_fault("pwrite64", "retval=0", nth);
    }
}

#[test]
fn a_sync_of_the_directory_that_fails_ends_the_server() {
    // Later ones are made in the background: then there is no room until they succeed.
    check_fault("fsync", "error=EIO", 1);
}

/// Runs a server with one client that puts so many jobs, one after the other; the calls that were made to answer it.
fn traced(commit: &str, fsync: &str, jobs: u32) -> Vec<Call> {
    let directory = Directory::new();
    let data = directory.join("data");
    let trace = trace_in(&directory);
    let arguments = serving(&data, &["--fsync", fsync, "--commit", commit]);
    let server = Server::spawn(&mut jobyard_under_strace(&trace, &[ANSWERS_AND_SYNCS], &arguments));
    let mut client = server.connect();
    for job in 1..=jobs {
        assert!(add(&mut client, job, &body(job)));
    }
    let pid = server.pid().as_raw_nonzero().to_string();
    server.stop();
    let mut calls = calls(&trace, &pid);
    // What another thread makes ahead of need is none of it until it has the name of a segment.
    calls.retain(|call| is_segment(call) || call.thread == pid);
    assert_eq!(calls.iter().all(|call| call.thread == pid), commit == "loop");
    calls
}

#[test]
fn no_answer_leaves_before_what_it_depends_on_is_synced() {
    let jobs = 300;
    for commit in COMMITS {
        let calls = traced(commit, "always", jobs);
        assert_eq!(answers(&calls), (0, jobs as usize), "{commit}");
        let synced = calls.iter().filter(|call| call.name == "fdatasync").count();
        assert!(synced >= jobs as usize, "{commit}: {synced} syncs for {jobs} answers");
    }
}

#[test]
fn with_interval_and_never_answers_leave_at_once() {
    // This also shows that the test above can fail.
    for commit in COMMITS {
        for fsync in ["interval", "never"] {
            let (early, all) = answers(&traced(commit, fsync, 50));
            assert_eq!(all, 50, "{commit}, {fsync}");
            assert!(early > 0, "{commit}, {fsync}");
        }
    }
}

fn refused(ended: &Ended, parts: &[&str]) {
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let message = ended.stderr.lines().find(|line| line.starts_with("error: ")).unwrap_or_default();
    for part in parts {
        assert!(message.contains(part), "expected '{part}' in: {}", ended.stderr);
    }
    assert_eq!(ended.stdout, "");
}

fn start(data: &Path) -> Ended {
    run(jobyard().args(serving(data, &[])))
}

#[test]
fn a_directory_that_cannot_be_written_to_is_refused() {
    let mount = Mount::tmpfs("ro");
    refused(&start(mount.path()), &[text(mount.path()), "Read-only file system"]);
    let deeper = mount.path().join("data");
    refused(&start(&deeper), &[text(&deeper), "Read-only file system"]);
}

#[test]
fn a_missing_parent_is_named() {
    let directory = Directory::new();
    let parent = directory.join("parent");
    refused(&start(&parent.join("data")), &["cannot make the directory", &format!("{} does not exist", text(&parent))]);
    assert!(!parent.exists());
}

#[test]
fn a_second_server_is_refused_and_the_first_goes_on() {
    let directory = Directory::new();
    let data = directory.join("data");
    let first = serve(&data);
    let pid = first.pid().as_raw_nonzero();
    refused(&start(&data), &[text(&data), &format!("another server is using it: process {pid}")]);
    assert!(add(&mut first.connect(), 1, &body(1)));
    first.stop();
    check_kept(&data, 1);
}
