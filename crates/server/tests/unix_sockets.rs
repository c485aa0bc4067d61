//! Unix sockets: their files are ours to make and remove, and nothing else's is.

mod support;

use std::io::{Read, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use support::{Directory, PATIENCE, Server, Signal, run_with, text};

fn address(path: &Path) -> String {
    format!("workq+unix://{}", text(path))
}

fn speaks_workq(path: &Path) {
    let mut client = UnixStream::connect(path).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client.write_all(b"inspect nothing\r\n").unwrap();
    let mut heard = [0; 31];
    client.read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"-CLIENT-ERROR Unknown command\r\n");
}

fn is_socket(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|metadata| metadata.file_type().is_socket())
}

#[test]
fn a_socket_is_for_its_owner_and_group_and_goes_with_the_server() {
    let directory = Directory::new();
    let path = directory.join("jobs.sock");
    let server = Server::start(&["--listen", &address(&path)]);
    assert_eq!(server.listening, [address(&path)]);
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o7777, 0o660);
    speaks_workq(&path);
    server.stop();
    assert!(!path.exists());
}

/// So many requests are many turns' worth.
const LAST_WORDS: usize = 4_000;

#[test]
fn what_a_client_had_sent_is_carried_out_though_it_closed_before_its_answers_came() {
    let directory = Directory::new();
    let path = directory.join("jobs.sock");
    let config = directory.join("jobyard.toml");
    std::fs::write(&config, "[limits]\nturn_bytes_max = 1024\n").unwrap();
    let address = format!("beanstalkd+unix://{}", text(&path));
    let mut server = Server::start(&["--config", text(&config), "--listen", &address]);
    let mut witness = UnixStream::connect(&path).unwrap();
    witness.set_read_timeout(Some(PATIENCE)).unwrap();
    server.signal(Signal::STOP);
    let mut client = UnixStream::connect(&path).unwrap();
    let puts = "put 0 0 60 5\r\nhello\r\n".repeat(LAST_WORDS);
    client.write_all(format!("{puts}use last\r\nput 0 0 60 1\r\nx\r\n").as_bytes()).unwrap();
    drop(client);
    server.signal(Signal::CONT);
    witness.write_all(b"watch last\r\nignore default\r\nreserve\r\nstats-tube default\r\n").unwrap();
    let mut heard = String::new();
    while !heard.contains("current-jobs-delayed") {
        let mut bytes = [0; 4096];
        let count = witness.read(&mut bytes).unwrap();
        heard.push_str(std::str::from_utf8(&bytes[..count]).unwrap());
    }
    assert!(heard.contains(&format!("RESERVED {} 1\r\nx\r\n", LAST_WORDS + 1)), "{heard}");
    assert!(heard.contains(&format!("current-jobs-ready: {LAST_WORDS}\n")), "{heard}");
    server.stop();
}

#[test]
fn a_socket_that_nobody_listens_on_is_replaced() {
    let directory = Directory::new();
    let path = directory.join("jobs.sock");
    drop(UnixListener::bind(&path).unwrap());
    assert!(is_socket(&path));
    let server = Server::start(&["--listen", &address(&path)]);
    speaks_workq(&path);
    server.stop();
}

#[test]
fn a_server_that_was_killed_leaves_a_socket_that_the_next_one_replaces() {
    let directory = Directory::new();
    let path = directory.join("jobs.sock");
    let mut server = Server::start(&["--listen", &address(&path)]);
    server.signal(Signal::KILL);
    assert_eq!(server.wait().0, None);
    assert!(is_socket(&path));
    let server = Server::start(&["--listen", &address(&path)]);
    speaks_workq(&path);
    server.stop();
}

#[test]
fn a_socket_that_somebody_listens_on_is_refused_and_left_alone() {
    let directory = Directory::new();
    let path = directory.join("jobs.sock");
    let first = Server::start(&["--listen", &address(&path)]);
    let second = run_with(&["serve", "--memory", "--listen", &address(&path)]);
    assert_eq!(second.code, Some(1), "{}", second.stderr);
    assert!(second.stderr.contains(&format!("cannot listen on {}: the address is in use", address(&path))));
    speaks_workq(&path);
    first.stop();
}

#[test]
fn a_file_that_is_no_socket_is_never_deleted() {
    let directory = Directory::new();
    let path = support::file(&directory, "precious", "do not lose me");
    let ended = run_with(&["serve", "--memory", "--listen", &address(&path)]);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("a file that is no socket"), "{}", ended.stderr);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "do not lose me");
}

#[test]
fn a_socket_that_another_server_made_in_our_place_is_not_removed_at_the_end() {
    let directory = Directory::new();
    let path = directory.join("jobs.sock");
    let first = Server::start(&["--listen", &address(&path)]);
    std::fs::remove_file(&path).unwrap();
    let second = Server::start(&["--listen", &address(&path)]);
    first.stop();
    speaks_workq(&path);
    second.stop();
    assert!(!path.exists());
}

#[test]
fn a_path_that_cannot_be_is_refused() {
    let directory = Directory::new();
    for (path, message) in [
        (directory.join("nowhere/jobs.sock"), "its directory does not exist"),
        (directory.join(&"long".repeat(40)), "the path is too long"),
    ] {
        let ended = run_with(&["serve", "--memory", "--listen", &address(&path)]);
        assert_eq!(ended.code, Some(1), "{}", ended.stderr);
        assert!(ended.stderr.contains(message), "{}", ended.stderr);
    }
}
