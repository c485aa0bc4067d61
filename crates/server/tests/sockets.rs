//! The loop and real sockets: pieces, half-closed and lost connections, big answers, many clients.

mod support;

use std::io::Write;
use std::net::Shutdown;
use std::thread;

use rustix::process::{Resource, Rlimit, prlimit};
use support::{Server, until};

fn takeanumber() -> Server {
    Server::start(&["--listen", "takeanumber://127.0.0.1:0"])
}

#[test]
fn requests_come_a_byte_at_a_time_or_many_at_once() {
    let server = takeanumber();
    let mut client = server.connect();
    for byte in b"LEN q\r\n" {
        client.stream.write_all(&[*byte]).unwrap();
    }
    client.expect(":0\r\n");
    client.send(&"LEN q\r\n".repeat(1_000));
    client.expect(&":0\r\n".repeat(1_000));
    server.stop();
}

#[test]
fn big_bodies_go_in_and_out_whole() {
    let server = takeanumber();
    let mut client = server.connect();
    let body: String = (0..8 << 20).map(|i| char::from(b'a' + u8::try_from(i % 26).unwrap())).collect();
    client.send(&format!("ADD q 0 {body}\r\n"));
    let id = client.line();
    // Eight megabytes do not fit into the kernel's buffers: writing must go on where it stopped.
    client.send("RESERVE q\r\n");
    client.expect(&format!("{id} {body}\r\n"));
    server.stop();
}

#[test]
fn what_a_client_does_not_read_stays_with_the_server_which_counts_it() {
    let server = takeanumber();
    let mut client = server.connect();
    client.send(&format!("ADD q 0 {}\r\n", "x".repeat(8 << 20)));
    client.line();
    client.send("RESERVE q\r\n");
    let unsent_bytes = || support::process::unsent_bytes(server.place(0), client.stream.local_addr().unwrap());
    until("the kernel takes no more", || unsent_bytes() > 0 && support::process::sleeps(&server));
    assert!(unsent_bytes() < 512 << 10, "the kernel has {} bytes", unsent_bytes());
    server.stop();
}

#[test]
fn a_client_that_stops_sending_gets_its_answers_and_is_closed() {
    let server = takeanumber();
    for _ in 0..50 {
        let mut client = server.connect();
        // The end may come with the last bytes, in one event, or after them.
        client.send("LEN q\r\nLEN q\r\n");
        client.stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(client.rest(), ":0\r\n:0\r\n");
    }
    server.stop();
}

#[test]
fn what_a_vanished_client_had_sent_is_carried_out() {
    let server = takeanumber();
    let mut watcher = server.connect();
    for count in 1..=20 {
        let mut client = server.connect();
        client.send("LEN q\r\nADD q 0 x\r\n");
        // The first answer is never read: closing then resets the connection instead of ending it.
        client.stream.peek(&mut [0]).unwrap();
        drop(client);
        until("its job is there", || {
            watcher.send("LEN q\r\n");
            watcher.line() == format!(":{count}")
        });
    }
    server.stop();
}

#[test]
fn many_clients_are_served_at_once() {
    let server = takeanumber();
    let place = server.place(0);
    let workers = (0..4).map(|_| {
        thread::spawn(move || {
            let mut clients: Vec<_> = (0..100).map(|_| support::Peer::connect(place)).collect();
            for client in &mut clients {
                client.send("ADD q 0 x\r\n");
            }
            for client in &mut clients {
                assert!(client.line().starts_with('+'));
            }
        })
    });
    for worker in workers.collect::<Vec<_>>() {
        worker.join().unwrap();
    }
    let mut client = server.connect();
    client.send("LEN q\r\n");
    client.expect(":400\r\n");
    server.stop();
}

#[test]
fn when_files_run_out_new_clients_wait_and_old_ones_go_on() {
    let server = takeanumber();
    let mut old = server.connect();
    old.send("LEN q\r\n");
    old.expect(":0\r\n");
    let limit_to = |files| {
        let limit = Rlimit { current: Some(files), maximum: prlimit_of(&server).maximum };
        prlimit(Some(server.pid()), Resource::Nofile, limit).unwrap();
    };
    let before = prlimit_of(&server).current.unwrap();
    limit_to(1);
    let mut new = server.connect();
    new.send("LEN q\r\n");
    server.wait_for_log("connections cannot be accepted for now");
    old.send("LEN q\r\n");
    old.expect(":0\r\n");
    limit_to(before);
    new.expect(":0\r\n");
    server.stop();
}

fn prlimit_of(server: &Server) -> Rlimit {
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", server.pid().as_raw_nonzero())).unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let mut numbers = line.split_whitespace().skip(3).map(|word| word.parse().ok());
    Rlimit { current: numbers.next().flatten(), maximum: numbers.next().flatten() }
}
