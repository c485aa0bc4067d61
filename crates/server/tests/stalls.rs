//! The process is stopped for longer than a lease or a heartbeat lasts: what clients sent before it went on counts before
//! what fell due meanwhile.

mod support;

use std::thread;
use std::time::Duration;

use support::process::stopped;
use support::{Directory, Peer, Server, Signal, jobyard, text, until};

/// Longer than any lease and heartbeat here.
const STALL: Duration = Duration::from_secs(3);
const WORKERS: usize = 10;
const ANYTHING: &str = "-CLIENT-ERROR Unknown command\r\n";

// Listeners by their number.
const WORKQ: usize = 0;
const GOQUEUE: usize = 1;
const TAKEANUMBER: usize = 2;
const MASENKO: usize = 3;
const BEANSTALKD: usize = 4;
/// Those whose leases end with time.
const LEASING: [usize; 4] = [WORKQ, GOQUEUE, TAKEANUMBER, BEANSTALKD];

/// Whoever appends to the log, if there is one, the same must hold.
const COMMITS: [Option<&str>; 3] = [None, Some("loop"), Some("thread")];

/// A server of these five, where a reservation ends, and a silent client is cut off, after two seconds. It keeps its jobs in
/// this directory, or in memory.
fn start(data: Option<&Directory>, commit: &str) -> Server {
    let names = ["workq", "goqueue", "takeanumber", "masenko", "beanstalkd"];
    let options = ["", "", "?lease=2s", "?heartbeat=2s", ""];
    let addresses: Vec<_> = names.iter().zip(options).map(|(name, o)| format!("{name}://127.0.0.1:0{o}")).collect();
    let arguments: Vec<_> = addresses.iter().flat_map(|address| ["--listen", address]).collect();
    match data {
        None => Server::start(&arguments),
        Some(directory) => {
            let kept = ["serve", "--data", text(&directory.0), "--commit", commit];
            Server::spawn(jobyard().args(kept).args(arguments))
        }
    }
}

/// Checks with a server of each kind, and each of these listeners; all at once, for most of it is waiting.
fn check_all(listeners: &[usize], check: impl Fn(Server, usize) + Copy + Send) {
    thread::scope(|scope| {
        for commit in COMMITS {
            for &listener in listeners {
                let name = format!("--commit {commit:?}, listener {listener}");
                let run = move || {
                    let directory = commit.map(|_| Directory::new());
                    check(start(directory.as_ref(), commit.unwrap_or_default()), listener);
                };
                thread::Builder::new().name(name).spawn_scoped(scope, run).unwrap();
            }
        }
    });
}

/// Stops the server, has something done, and lets the server go on when it has stood still for long.
fn stall(server: &mut Server, meanwhile: impl FnOnce()) {
    server.signal(Signal::STOP);
    until("it stands still", || stopped(server));
    meanwhile();
    // Who is stopped says nothing: this is the time that passes.
    server.check_silent(STALL);
    server.signal(Signal::CONT);
}

/// How a worker of a protocol gets a job that it may hold for two seconds, and what it finishes that with.
struct Worker {
    peer: Peer,
    id: String,
    finish: String,
    finished: &'static str,
}

impl Worker {
    fn new(server: &Server, listener: usize, number: usize) -> Worker {
        let mut peer = Peer::connect(server.place(listener));
        let (id, finish, finished) = match listener {
            WORKQ => {
                let id = format!("6ba7b810-9dad-41d1-80b4-{number:012x}");
                peer.send(&format!("add {id} q{number} 2000 60000 4\r\nwork\r\nlease q{number} 0\r\n"));
                peer.expect(&format!("+OK\r\n+OK 1\r\n{id} q{number} 4\r\nwork\r\n"));
                (id.clone(), format!("complete {id} 0\r\n\r\n"), "+OK\r\n")
            }
            GOQUEUE => {
                let id = format!("{}\0\0\0\0\0\0\0", char::from(u8::try_from(number + 1).unwrap()));
                peer.send(&format!("ADD\0q{number}\0\0\0\0\0\x02\0\0\0\x04\0\0\0workRESERVE\0q{number}\0\x01\0\0\0"));
                let reserved = format!("RESERVED\0{id}\0\0\0\0\x02\0\0\0reserved\0\x04\0\0\0work");
                peer.expect(&format!("ADDED\0{id}{reserved}"));
                (id.clone(), format!("DELETE\0{id}"), "OK\0")
            }
            BEANSTALKD => {
                peer.send(&format!("use q{number}\r\nput 0 0 2 4\r\nwork\r\nwatch q{number}\r\nreserve\r\n"));
                peer.expect(&format!("USING q{number}\r\n"));
                let id = peer.line().split_off("INSERTED ".len());
                peer.expect(&format!("WATCHING 2\r\nRESERVED {id} 4\r\nwork\r\n"));
                (id.clone(), format!("delete {id}\r\n"), "DELETED\r\n")
            }
            _ => {
                peer.send(&format!("ADD q{number} 0 work\r\nRESERVE q{number}\r\n"));
                let id = peer.line().split_off("+".len());
                peer.expect(&format!("+{id} work\r\n"));
                (id.clone(), format!("DONE q{number} {id}\r\n"), "+OK\r\n")
            }
        };
        Worker { peer, id, finish, finished }
    }
}

/// Clients who are about to wait for the same jobs, and would get one whose lease ends.
fn heirs(server: &Server) -> Vec<Peer> {
    (0..WORKERS).map(|_| Peer::connect(server.place(WORKQ))).collect()
}

fn wait_all(heirs: &mut [Peer]) {
    for (number, heir) in heirs.iter_mut().enumerate() {
        // Both come in one piece, so when the first is answered the second was carried out.
        heir.send(&format!("inspect nothing\r\nlease q{number} 60000\r\n"));
    }
    for heir in heirs {
        heir.expect(ANYTHING);
    }
}

/// Stops the server, and checks that these have waited for nothing.
fn check_disinherited(mut server: Server, heirs: &mut [Peer]) {
    server.signal(Signal::TERM);
    for heir in heirs {
        assert_eq!(heir.rest(), "-TIMEOUT\r\n", "nobody else was given the job");
    }
    assert_eq!(server.wait().0, Some(0));
}

#[test]
fn no_lease_ends_whose_holder_answered_before_the_server_went_on() {
    check_all(&LEASING, |mut server, listener| {
        let mut heirs = heirs(&server);
        let mut workers: Vec<_> = (0..WORKERS).map(|number| Worker::new(&server, listener, number)).collect();
        wait_all(&mut heirs);
        // Whether what comes before the stall is read before or after it is a matter of luck.
        let (before, meanwhile) = workers.split_at_mut(WORKERS / 2);
        let answer = |workers: &mut [Worker]| workers.iter_mut().for_each(|worker| worker.peer.send(&worker.finish));
        answer(before);
        stall(&mut server, || answer(meanwhile));
        for worker in &mut workers {
            worker.peer.expect(worker.finished);
        }
        check_disinherited(server, &mut heirs);
    });
}

#[test]
fn a_touch_that_came_before_the_server_went_on_counts_from_then() {
    check_all(&[BEANSTALKD], |mut server, listener| {
        let mut heirs = heirs(&server);
        let mut workers: Vec<_> = (0..WORKERS).map(|number| Worker::new(&server, listener, number)).collect();
        wait_all(&mut heirs);
        stall(&mut server, || {
            for Worker { peer, id, .. } in &mut workers {
                peer.send(&format!("touch {id}\r\nstats-job {id}\r\n"));
            }
        });
        for worker in &mut workers {
            worker.peer.expect("TOUCHED\r\n");
            let stats: Vec<_> = std::iter::repeat_with(|| worker.peer.line()).take(16).collect();
            // Two seconds from now on, rounded down.
            for line in ["state: reserved", "time-left: 1", "timeouts: 0"] {
                assert!(stats.iter().any(|said| said == line), "no {line} in {stats:?}");
            }
            worker.peer.expect("\r\n");
            worker.peer.send(&worker.finish);
        }
        for worker in &mut workers {
            worker.peer.expect(worker.finished);
        }
        check_disinherited(server, &mut heirs);
    });
}

/// Some wait with the job that they hold, and are silent; some have sent a `touch` behind that, which is read when they have
/// heard that their time is nearly over.
#[test]
fn who_waits_while_the_server_stands_still_hears_that_its_time_is_nearly_over() {
    check_all(&[BEANSTALKD], |mut server, listener| {
        let mut heirs = heirs(&server);
        let mut workers: Vec<_> = (0..WORKERS).map(|number| Worker::new(&server, listener, number)).collect();
        wait_all(&mut heirs);
        let (silent, touching) = workers.split_at_mut(WORKERS / 2);
        for worker in silent.iter_mut() {
            worker.peer.send("list-tube-used\r\nreserve\r\n");
        }
        for worker in touching.iter_mut() {
            worker.peer.send("list-tube-used\r\nreserve\r\n");
        }
        for (number, worker) in silent.iter_mut().chain(touching.iter_mut()).enumerate() {
            worker.peer.expect(&format!("USING q{number}\r\n"));
        }
        stall(&mut server, || {
            for Worker { peer, id, .. } in touching.iter_mut() {
                peer.send(&format!("touch {id}\r\n"));
            }
        });
        for worker in touching.iter_mut() {
            worker.peer.expect("DEADLINE_SOON\r\nTOUCHED\r\n");
            worker.peer.send(&worker.finish);
        }
        for worker in touching.iter_mut() {
            worker.peer.expect(worker.finished);
        }
        for (heir, worker) in heirs.iter_mut().zip(silent.iter_mut()) {
            worker.peer.expect("DEADLINE_SOON\r\n");
            assert_eq!(heir.line(), "+OK 1");
            assert!(heir.line().ends_with(" 4"));
            heir.expect("work\r\n");
            worker.peer.send(&worker.finish);
            worker.peer.expect("NOT_FOUND\r\n");
        }
        check_disinherited(server, &mut heirs[WORKERS / 2..]);
    });
}

#[test]
fn a_lease_whose_holder_was_silent_ends_when_the_server_goes_on() {
    check_all(&LEASING, |mut server, listener| {
        let mut heirs = heirs(&server);
        let workers: Vec<_> = (0..WORKERS).map(|number| Worker::new(&server, listener, number)).collect();
        wait_all(&mut heirs);
        stall(&mut server, || {});
        for (number, heir) in heirs.iter_mut().enumerate() {
            assert_eq!(heir.line(), "+OK 1");
            assert!(heir.line().ends_with(&format!(" q{number} 4")));
            heir.expect("work\r\n");
        }
        drop((workers, heirs));
        server.stop();
    });
}

#[test]
fn who_gave_a_sign_of_life_while_the_server_stood_still_is_not_cut_off() {
    check_all(&[MASENKO], |mut server, listener| {
        let clients = (0..WORKERS).map(|number| {
            let mut client = Peer::connect(server.place(listener));
            client.send(&format!("PUSH {{\"name\":\"n\",\"queue\":\"q{number}\"}}\n"));
            client.expect(&format!("OK {{\"id\":{}}}\n", number + 1));
            client.send(&format!("FETCH {{\"queues\":[\"q{number}\"]}}\n"));
            client.expect(&format!("OK {{\"id\":{},\"queue\":\"q{number}\",\"name\":\"n\"}}\n", number + 1));
            client
        });
        let mut clients: Vec<_> = clients.collect();
        let mut silent = Peer::connect(server.place(listener));
        silent.send("PING\n");
        silent.expect("PONG {}\n");
        stall(&mut server, || {
            for (number, client) in clients.iter_mut().enumerate() {
                // Any line is one, also one that makes no sense.
                client.send(if number % 2 == 0 { "PING\n" } else { "nonsense\n" });
            }
        });
        for (number, client) in clients.iter_mut().enumerate() {
            assert!(client.line().starts_with(if number % 2 == 0 { "PONG" } else { "ERR" }));
            client.send(&format!("ACK {{\"id\":{}}}\n", number + 1));
        }
        for client in &mut clients {
            client.expect("OK {}\n");
        }
        assert_eq!(silent.rest(), "ERR {\"msg\":\"no heartbeat\"}\n");
        drop(clients);
        server.stop();
    });
}
