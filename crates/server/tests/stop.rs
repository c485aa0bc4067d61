//! How the server stops and drains, by real signals and real time.

mod support;

use std::io::Read;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use support::{Peer, Server, Signal, jobyard_after};

const ANY: [&str; 2] = ["--listen", "any://127.0.0.1:0"];

fn healthz(server: &Server) -> String {
    let mut client = server.connect();
    client.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    client.rest()
}

/// A client that waits for a job that never comes.
fn waiting(server: &Server) -> Peer {
    let mut client = server.connect();
    // The second command is carried out after the first, so its answer shows that the first arrived.
    client.send("inspect nothing\r\nlease nothing-here 86400000\r\n");
    client.expect("-CLIENT-ERROR Unknown command\r\n");
    client
}

#[test]
fn sigterm_and_sigint_answer_those_who_wait_and_exit_with_0() {
    // What nohup starts ignores it, and so does what that starts.
    let hang_up = (!is_ignored(Signal::HUP)).then_some(Signal::HUP);
    for signal in [Signal::TERM, Signal::INT].into_iter().chain(hang_up) {
        let mut server = Server::start(&ANY);
        let place = server.place(0);
        let mut client = waiting(&server);
        server.signal(signal);
        assert_eq!(client.rest(), "-TIMEOUT\r\n");
        drop(client);
        let (code, log) = server.wait();
        assert_eq!(code, Some(0), "{log}");
        assert!(log.contains("stopped"), "{log}");
        assert!(TcpStream::connect(place).is_err());
    }
}

/// Whether this process, and so whatever it starts, ignores a signal.
fn is_ignored(signal: Signal) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    u64::from_str_radix(mask.trim(), 16).unwrap() >> (signal.as_raw() - 1) & 1 == 1
}

#[test]
fn sighup_is_ignored_if_it_was_at_the_start() {
    let arguments = ["serve", "--memory", "--listen", "any://127.0.0.1:0"];
    let mut server = Server::spawn(&mut jobyard_after("trap '' HUP", &arguments));
    server.signal(Signal::HUP);
    server.signal(Signal::USR1);
    server.wait_for_log("draining");
    assert!(healthz(&server).contains("503"));
    server.stop();
}

/// A client that has asked for far more than the kernel's buffers take, and does not read it.
struct Deaf {
    client: Peer,
    answer_bytes: usize,
}

impl Deaf {
    fn new(server: &Server) -> Deaf {
        let body = "x".repeat(15 << 20);
        let mut client = server.connect();
        client.send(&format!("ADD q 0 {body}\r\n"));
        let id = client.line();
        client.send("RESERVE q\r\n");
        // Once its first byte is here, the answer is on its way.
        client.stream.peek(&mut [0]).unwrap();
        Deaf { client, answer_bytes: id.len() + " \r\n".len() + body.len() }
    }

    /// What was there for it when the server ended was not all: the rest was still waiting.
    fn check_cut_short(mut self) {
        let mut heard = Vec::new();
        // The end may be a reset.
        let _ = self.client.stream.read_to_end(&mut heard);
        assert!(heard.len() < self.answer_bytes, "it heard all of its {} bytes", self.answer_bytes);
    }
}

#[test]
fn a_client_that_does_not_read_is_waited_for_only_so_long() {
    const DRAIN_TIMEOUT: Duration = Duration::from_millis(200);
    /// What it is if nothing is said.
    const DEFAULT: Duration = Duration::from_secs(5);
    let mut server = Server::start(&["--listen", "takeanumber://127.0.0.1:0", "--drain-timeout", "200ms"]);
    let deaf = Deaf::new(&server);
    let start = Instant::now();
    server.signal(Signal::TERM);
    let (code, log) = server.wait();
    let taken = start.elapsed();
    assert_eq!(code, Some(0), "{log}");
    assert!((DRAIN_TIMEOUT..DEFAULT).contains(&taken), "it took {taken:?}");
    deaf.check_cut_short();
}

#[test]
fn a_second_signal_does_not_wait() {
    let mut server = Server::start(&["--listen", "takeanumber://127.0.0.1:0", "--drain-timeout", "1h"]);
    let deaf = Deaf::new(&server);
    server.signal(Signal::TERM);
    server.wait_for_log("stopping");
    server.signal(Signal::TERM);
    assert_eq!(server.wait().0, Some(0));
    deaf.check_cut_short();
}

#[test]
fn health_is_told_on_an_any_port() {
    let mut server = Server::start(&ANY);
    let healthy = healthz(&server);
    assert!(healthy.starts_with("HTTP/1.1 200 ") && healthy.ends_with("\r\n\r\nok"), "{healthy}");
    server.signal(Signal::USR1);
    server.wait_for_log("draining");
    let draining = healthz(&server);
    assert!(draining.starts_with("HTTP/1.1 503 ") && draining.ends_with("\r\n\r\ndraining"), "{draining}");
    server.stop();
}

#[test]
fn draining_refuses_jobs_and_goes_on_with_the_rest() {
    let mut server = Server::start(&["--listen", "takeanumber://127.0.0.1:0"]);
    let mut client = server.connect();
    client.send("ADD q 0 work\r\n");
    let id = client.line();
    server.signal(Signal::USR1);
    server.wait_for_log("draining");
    client.send("ADD q 0 more\r\n");
    let refusal = client.line();
    assert!(refusal.starts_with("-ERR"), "{refusal}");
    client.send("RESERVE q\r\n");
    assert_eq!(client.line(), format!("{id} work"));
    server.stop();
}
