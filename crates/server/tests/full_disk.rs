//! A disk without room: jobs are refused in each protocol's words, those that are there can be finished, and jobs are
//! taken again when there is room.

mod support;

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use support::storage::{Mount, add, remove, said, serve, state};
use support::{Peer, Server, until};

/// Larger than what a refusal could leave room for.
fn body(job: u32) -> String {
    format!("{job} {}", "x".repeat(4000))
}

/// Puts jobs until one is refused; how many were taken. Then smaller ones, until there is no room even for those.
fn fill(client: &mut Peer) -> u32 {
    let taken = (1..1000).take_while(|&job| add(client, job, &body(job))).count();
    let taken = u32::try_from(taken).unwrap();
    assert!(taken < 999, "the disk is never full");
    until("small jobs are refused too", || !add(client, 10_000 + next_id(), "x"));
    taken
}

/// A number that was not given before.
fn next_id() -> u32 {
    static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// All that each protocol says when a job finds no room.
fn check_refused_by_all(server: &Server) {
    let requests = [
        ("ADD q 3 body\r\n", "-ERR Disk full."),
        ("PUSH {\"name\":\"n\",\"queue\":\"q\"}\n", "ERR {\"msg\":\"no room on the disk\"}"),
        (
            "{\"request\":\"put\",\"queue\":\"q\",\"job\":{},\"pri\":0}\n",
            "{\"status\":\"error\",\"error\":\"There is no room on the disk.\"}",
        ),
        ("add 6ba7b810-9dad-41d1-80b4-ffffffffffff q 1000 1000 1\r\nx\r\n", "-SERVER-ERROR Disk full"),
    ];
    for (request, answer) in requests {
        assert_eq!(said(&mut server.connect(), request), answer, "{request}");
    }
    let mut goqueue = server.connect();
    goqueue.send("ADD\0q\0\0\0\0\0\0\0\0\0\x04\0\0\0body");
    goqueue.expect("ERROR\0The server's disk is full\0");
}

#[test]
fn jobs_are_refused_until_others_are_gone() {
    let mount = Mount::tmpfs("size=1m");
    let data = mount.path().join("data");
    let server = serve(&data);
    let mut client = server.connect();
    let taken = fill(&mut client);
    check_refused_by_all(&server);
    server.wait_for_log("the disk is full");
    // What is there can be taken and finished.
    assert_eq!(said(&mut client, "lease q 0\r\n"), "+OK 1");
    client.line();
    client.line();
    for job in 1..=taken {
        assert!(remove(&mut client, job), "job {job} of {taken}");
    }
    until("jobs are taken again", || add(&mut client, 1000, "again"));
    server.wait_for_log("room on the disk again");
    server.kill();
    let server = serve(&data);
    let mut client = server.connect();
    assert_eq!(state(&mut client, 1000, "again"), Some(0));
    assert_eq!(state(&mut client, 1, &body(1)), None);
    server.stop();
}

/// Someone else, who takes every block that is given back.
struct Glutton {
    path: std::path::PathBuf,
    full: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Glutton {
    fn begin(path: &Path) -> Glutton {
        let [full, stop] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        let mut file = fs::File::create(path).unwrap();
        let thread = std::thread::spawn({
            let (full, stop) = (Arc::clone(&full), Arc::clone(&stop));
            move || {
                while !stop.load(Ordering::Relaxed) {
                    if file.write(&[1; 4096]).is_err() {
                        full.store(true, Ordering::Relaxed);
                        // The others want the processors too.
                        std::thread::yield_now();
                    }
                }
            }
        });
        let glutton = Glutton { path: path.to_owned(), full, stop, thread: Some(thread) };
        until("the disk is full", || glutton.full.load(Ordering::Relaxed));
        glutton
    }

    fn end(mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
        fs::remove_file(&self.path).unwrap();
    }
}

#[test]
fn what_is_there_can_be_finished_although_others_take_every_block_there_is() {
    let mount = Mount::tmpfs("size=8m");
    let data = mount.path().join("data");
    let server = serve(&data);
    let mut client = server.connect();
    assert!((1..=300).all(|job| add(&mut client, job, &body(job))));
    let glutton = Glutton::begin(&mount.path().join("glutton"));
    // Where jobs come and go, the log's own files may do for long.
    for _ in 0..500 {
        assert!(!add(&mut client, 1000, &body(1000)) || remove(&mut client, 1000), "who is done is not refused");
    }
    let refused = (301..1000).find(|&job| !add(&mut client, job, &body(job)));
    let jobs = refused.expect("the disk is full") - 1;
    // A start needs no block more, after a kill or after a stop.
    server.kill();
    let server = serve(&data);
    server.stop();
    let server = serve(&data);
    let mut client = server.connect();
    for job in 1..=jobs {
        assert!(remove(&mut client, job), "job {job} of {jobs}");
    }
    glutton.end();
    until("jobs are taken again", || add(&mut client, 1001, "again"));
    server.stop();
}

#[test]
fn jobs_are_refused_until_the_disk_has_room_again_and_nothing_is_lost_meanwhile() {
    let mount = Mount::tmpfs("size=4m");
    let data = mount.path().join("data");
    let ballast = mount.path().join("ballast");
    fs::write(&ballast, vec![1; 3 << 20]).unwrap();
    let server = serve(&data);
    let mut client = server.connect();
    let taken = fill(&mut client);
    check_refused_by_all(&server);
    server.kill();

    // A full disk does not keep the server from starting with all it has.
    let server = serve(&data);
    let mut client = server.connect();
    for job in 1..=taken {
        assert_eq!(state(&mut client, job, &body(job)), Some(0), "job {job} of {taken}");
    }
    check_refused_by_all(&server);
    assert!(remove(&mut client, 1));
    fs::remove_file(&ballast).unwrap();
    until("jobs are taken again", || add(&mut client, 1000, "again"));
    server.stop();
}
