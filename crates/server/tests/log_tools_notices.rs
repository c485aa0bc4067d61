//! What a server says at its start of the log that it found.

mod support;

use std::path::Path;

use support::storage::{add, serve, serving};
use support::{Directory, Server, Signal, jobyard, text};

const NEW: &str = "a new log in ";
const NOT_CLOSED: &str = "did not close the log";

/// All that a server logs from its start to its end, which is a clean one.
fn said(data: &Path) -> String {
    let mut server = serve(data);
    server.signal(Signal::TERM);
    let (code, logged) = server.wait();
    assert_eq!(code, Some(0), "{logged}");
    logged
}

#[test]
fn a_start_says_that_the_log_is_new_or_was_not_closed() {
    let directory = Directory::new();
    let data = directory.join("data");
    let first = said(&data);
    assert!(first.contains(&format!("{NEW}{}\n", text(&data))) && !first.contains(NOT_CLOSED), "{first}");
    let second = said(&data);
    assert!(!second.contains(NEW) && !second.contains(NOT_CLOSED), "{second}");
    let server = serve(&data);
    assert!(add(&mut server.connect(), 1, "job"));
    server.kill();
    let third = said(&data);
    assert!(third.contains(NOT_CLOSED) && !third.contains(NEW), "{third}");
    let fourth = said(&data);
    assert!(!fourth.contains(NOT_CLOSED), "{fourth}");
}

#[test]
fn an_interval_is_said_as_it_was_given() {
    let directory = Directory::new();
    let data = directory.join("data");
    let server = Server::spawn(jobyard().args(serving(&data, &["--fsync", "interval=1h"])));
    let expected =
        format!("storing in {} (synced every 1h: a power cut may take what was answered since)", text(&data));
    assert_eq!(server.storing, expected);
    server.stop();
}
