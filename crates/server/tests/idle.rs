//! A server with nothing to do does nothing: its thread sleeps, whoever waits and whoever was there.

mod support;

use std::net::Shutdown;
use std::time::Duration;

use support::process::{sleeps, sockets, switches};
use support::{Peer, Server, until};

const CLIENTS: usize = 30;
/// For how long it is watched. What spins shows within a millisecond, what wakes up by a timer within a second.
const WATCH: Duration = Duration::from_millis(1_200);

#[test]
fn it_sleeps_while_clients_wait_and_when_all_are_gone() {
    let server = Server::start(&["--listen", "any://127.0.0.1:0"]);
    let sockets_before = sockets(&server);
    check_sleeps(&server);

    let waiting: Vec<_> = (0..CLIENTS).map(|_| waiting(&server)).collect();
    check_sleeps(&server);

    // They go in each way there is: with a word, without, and with an answer that they never read.
    for (index, mut client) in waiting.into_iter().enumerate() {
        match index % 3 {
            0 => {
                client.stream.shutdown(Shutdown::Write).unwrap();
                assert_eq!(client.rest(), "-TIMEOUT\r\n");
            }
            1 => client.send("inspect server\r\n"),
            _ => {}
        }
    }
    until("their connections are closed", || sockets(&server) == sockets_before);
    check_sleeps(&server);
    server.stop();
}

/// A client that waits for a job that never comes.
fn waiting(server: &Server) -> Peer {
    let mut client = server.connect();
    // Both come in one piece, so when the first is answered the second was carried out.
    client.send("inspect nothing\r\nlease nothing-here 86400000\r\n");
    client.expect("-CLIENT-ERROR Unknown command\r\n");
    client
}

fn check_sleeps(server: &Server) {
    until("it sleeps", || sleeps(server));
    let before = switches(server);
    server.check_silent(WATCH);
    assert_eq!(switches(server), before, "it was awake: its threads went to sleep, or were made to, again");
}
