//! The limits that only the real process can show: what it takes of the machine's memory, whatever clients do; and some that
//! take many commands to meet at their usual values.

mod support;

use std::io::{ErrorKind, Write};
use std::time::{Duration, Instant};

use rustix::net::sockopt::set_socket_recv_buffer_size;
use support::process::memory;
use support::{Directory, Peer, Server, file, text, until};

const MIB: usize = 1 << 20;
const GOQUEUE: usize = 0;
const TAKEANUMBER: usize = 1;
const WORKQ: usize = 2;
const JOBCENTRE: usize = 3;
const MASENKO: usize = 4;
const BEANSTALKD: usize = 5;

fn start(more: &[&str]) -> Server {
    let names = ["goqueue", "takeanumber", "workq", "jobcentre", "masenko", "beanstalkd"];
    let listen = names.map(|name| format!("{name}://127.0.0.1:0"));
    let listen = listen.iter().flat_map(|address| ["--listen", address]);
    Server::start(&listen.chain(more.iter().copied()).collect::<Vec<_>>())
}

fn connect(server: &Server, listener: usize) -> Peer {
    Peer::connect(server.place(listener))
}

/// All that it was sent was read and looked at.
fn settle(server: &Server) {
    until("it sleeps", || support::process::sleeps(server));
}

/// It has slept for longer than it lets anybody rest who moves more than a share: nothing comes by itself any more.
fn settle_for_good(server: &Server) {
    const REST: Duration = Duration::from_millis(200);
    let mut seen = (support::process::switches(server), Instant::now());
    until("it goes on sleeping", || {
        let switches = support::process::switches(server);
        if seen.0 != switches {
            seen = (switches, Instant::now());
        }
        support::process::sleeps(server) && seen.1.elapsed() > REST
    });
}

#[test]
fn a_length_of_four_gib_that_is_only_claimed_costs_nothing() {
    let directory = Directory::new();
    // As large as lengths can be, so that they are allowed and not refused.
    let limits = "[limits]\nbody_bytes_max = 4294967295\nblock_bytes_max = 4294967295\ninput_bytes_max = 5000000000\n";
    let config = file(&directory, "limits.toml", limits);
    let server = start(&["--config", text(&config)]);
    let before = memory(&server).0;
    let claims: [(usize, &[u8]); 4] = [
        (GOQUEUE, b"ADD\0q\0\0\0\0\0\0\0\0\0\xff\xff\xff\xffx"),
        (TAKEANUMBER, b"*4\r\n$3\r\nADD\r\n$1\r\nq\r\n$1\r\n1\r\n$4294967295\r\nx"),
        (WORKQ, b"add 6ba7b810-9dad-41d1-80b4-00c04fd43001 q 1000 60000 4294967295\r\nx"),
        (BEANSTALKD, b"put 0 0 60 4294967295\r\nx"),
    ];
    let mut clients = Vec::new();
    for (listener, claim) in claims {
        for _ in 0..20 {
            let mut client = connect(&server, listener);
            client.stream.write_all(claim).unwrap();
            clients.push(client);
        }
    }
    settle(&server);
    let taken = memory(&server).1 - before;
    assert!(taken < 4 * MIB, "{taken} bytes for {} clients", clients.len());
    for client in &clients {
        client.stream.set_nonblocking(true).unwrap();
        assert_eq!(client.stream.peek(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock, "nothing was refused");
    }
    drop(clients);
    server.stop();
}

/// How a protocol puts and takes a body of so many bytes, and refuses one of a byte more.
struct Largest {
    listener: usize,
    put: fn(usize) -> String,
    put_answer: &'static str,
    take: &'static str,
    taken: fn(&str) -> String,
    refusal: &'static str,
}

const LARGEST: [Largest; 3] = [
    Largest {
        listener: MASENKO,
        put: |bytes| format!("PUSH {{\"name\":\"n\",\"payload\":{}}}\n", quoted(bytes)),
        put_answer: "OK {\"id\":1}\n",
        take: "FETCH {\"queues\":[\"default\"]}\n",
        taken: |body| format!("OK {{\"id\":1,\"queue\":\"default\",\"name\":\"n\",\"payload\":{body}}}\n"),
        refusal: "ERR {\"msg\":\"payload is longer than 16777216 bytes\"}\n",
    },
    Largest {
        listener: JOBCENTRE,
        put: |bytes| format!("{{\"request\":\"put\",\"queue\":\"q\",\"pri\":0,\"job\":{}}}\n", object(bytes)),
        put_answer: "{\"status\":\"ok\",\"id\":1}\n",
        take: "{\"request\":\"get\",\"queues\":[\"q\"]}\n",
        taken: |body| format!("{{\"status\":\"ok\",\"id\":1,\"job\":{body},\"pri\":0,\"queue\":\"q\"}}\n"),
        refusal: "{\"status\":\"error\",\"error\":\"Field job is longer than 16777216 bytes.\"}\n",
    },
    Largest {
        listener: BEANSTALKD,
        put: |bytes| format!("put 0 0 60 {bytes}\r\n{}\r\n", "x".repeat(bytes)),
        put_answer: "INSERTED 1\r\n",
        take: "reserve\r\n",
        taken: |body| format!("RESERVED 1 {}\r\n{body}\r\n", body.len()),
        refusal: "JOB_TOO_BIG\r\n",
    },
];

/// A text of so many bytes with its quotes.
fn quoted(bytes: usize) -> String {
    format!("\"{}\"", "x".repeat(bytes - 2))
}

/// An object of so many bytes.
fn object(bytes: usize) -> String {
    format!("{{\"a\":{}}}", quoted(bytes - 6))
}

#[test]
fn a_body_has_16_mib_and_no_more() {
    for Largest { listener, put, put_answer, take, taken, refusal } in LARGEST {
        let server = start(&[]);
        let mut client = connect(&server, listener);
        client.send(&put(16 * MIB + 1));
        client.expect(refusal);
        client.send(&put(16 * MIB));
        client.expect(put_answer);
        client.send(take);
        let body = match listener {
            MASENKO => quoted(16 * MIB),
            JOBCENTRE => object(16 * MIB),
            _ => "x".repeat(16 * MIB),
        };
        client.expect(&taken(&body));
        server.stop();
    }
}

#[test]
fn one_client_holds_ten_thousand_jobs_and_no_more() {
    const HELD: usize = 10_000;
    let server = start(&[]);
    let mut client = connect(&server, JOBCENTRE);
    let mut ask_often = |request: &str, times: usize, begins: &str| {
        // A few at a time, so that neither side waits for the other to read.
        for sent in (0..times).step_by(500) {
            let count = (times - sent).min(500);
            client.send(&request.repeat(count));
            for _ in 0..count {
                let line = client.line();
                assert!(line.starts_with(begins), "after {sent}: {line}");
            }
        }
    };
    let get = "{\"request\":\"get\",\"queues\":[\"q\"]}\n";
    ask_often("{\"request\":\"put\",\"queue\":\"q\",\"job\":{},\"pri\":1}\n", HELD + 1, "{\"status\":\"ok\"");
    ask_often(get, HELD, "{\"status\":\"ok\"");
    ask_often(get, 1, "{\"status\":\"error\",\"error\":\"You are working on 10000 jobs already.\"}");
    ask_often("{\"request\":\"delete\",\"id\":1}\n", 1, "{\"status\":\"ok\"");
    ask_often(get, 1, "{\"status\":\"ok\"");
    ask_often(get, 1, "{\"status\":\"error\"");
    server.stop();
}

#[test]
fn a_lease_names_a_thousand_queues_and_a_transaction_has_payloads_of_16_mib() {
    let server = start(&[]);
    let mut client = connect(&server, WORKQ);
    client.send(&format!("lease{} 0\r\n", " q".repeat(1_000)));
    client.expect("-TIMEOUT\r\n");
    let mut client = connect(&server, MASENKO);
    // A payload of this length has two quotes as well.
    let transaction = |payload_bytes: usize| {
        let push = |bytes| format!("PUSH {{\"name\":\"n\",\"payload\":\"{}\"}}\n", "x".repeat(bytes - 2));
        format!("ATOMIC\n{}{}DONE\n", push(8 * MIB), push(payload_bytes - 8 * MIB))
    };
    client.send(&transaction(16 * MIB + 1));
    client.expect("ERR {\"msg\":\"transaction has payloads of more than 16777216 bytes\"}\n");
    client.send(&transaction(16 * MIB));
    assert!(client.line().starts_with("OK {\"ids\":["));
    server.stop();
}

#[test]
fn a_client_watches_a_thousand_tubes_and_no_more() {
    let server = start(&[]);
    let mut client = connect(&server, BEANSTALKD);
    // It watches one from the beginning.
    for number in 2..=1_000 {
        client.send(&format!("watch q{number}\r\n"));
        client.expect(&format!("WATCHING {number}\r\n"));
    }
    client.send("watch one-more\r\nwatch q1000\r\nignore default\r\nwatch one-more\r\n");
    client.expect("OUT_OF_MEMORY\r\nWATCHING 1000\r\nWATCHING 999\r\nWATCHING 1000\r\n");
    server.stop();
}

#[test]
fn a_hundred_thousand_jobs_are_revived_at_once_and_no_more() {
    const REVIVED: usize = 100_000;
    let server = start(&[]);
    let mut client = connect(&server, BEANSTALKD);
    // A few at a time, so that neither side waits for the other to read.
    for put in (0..=REVIVED).step_by(500) {
        let count = (REVIVED + 1 - put).min(500);
        client.send(&"put 0 3600 60 0\r\n\r\n".repeat(count));
        client.expect(&(put + 1..=put + count).map(|id| format!("INSERTED {id}\r\n")).collect::<String>());
    }
    client.send("kick 4294967295\r\nkick 4294967295\r\n");
    client.expect(&format!("KICKED {REVIVED}\r\nKICKED 1\r\n"));
    server.stop();
}

#[test]
fn there_are_a_million_queues_and_no_more() {
    let server = start(&[]);
    let mut client = connect(&server, WORKQ);
    // A lease makes the queues that it names.
    for thousand in 0..1_000 {
        let names: Vec<_> = (0..1_000).map(|index| format!("q{thousand}-{index}")).collect();
        client.send(&format!("lease {} 0\r\n", names.join(" ")));
        client.expect("-TIMEOUT\r\n");
    }
    client.send("lease one-more 0\r\n");
    client.expect("-SERVER-ERROR Too many queues\r\n");
    client.send("lease q999-999 0\r\n");
    client.expect("-TIMEOUT\r\n");
    server.stop();
}

#[test]
fn unfinished_input_of_all_clients_has_256_mib() {
    const CLIENTS: usize = 17;
    let server = start(&[]);
    let begun = format!("ADD q 1 {}", "x".repeat(15 * MIB + MIB / 2));
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| connect(&server, TAKEANUMBER)).collect();
    clients[1..].iter_mut().for_each(|client| client.send(&begun));
    settle(&server);
    let is_told = |client: &Peer| {
        client.stream.set_nonblocking(true).unwrap();
        let told = client.stream.peek(&mut [0]).is_ok();
        client.stream.set_nonblocking(false).unwrap();
        told
    };
    assert_eq!(clients.iter().filter(|client| is_told(client)).count(), 0, "16 of them have 248 MiB");
    clients[0].send(&begun);
    settle(&server);
    let told: Vec<_> =
        clients.iter().enumerate().filter(|(_, client)| is_told(client)).map(|(index, _)| index).collect();
    assert_eq!(told.len(), 1, "one goes, and there is room: {told:?}");
    assert_eq!(clients[told[0]].line(), "-ERR Too much unfinished input.");
    server.stop();
}

/// Requests whose answers are long. Those of jobcentre are short, but for jobs that are taken, and a client takes each once.
fn long_answers(server: &Server) -> Vec<(usize, String)> {
    const JOBS: usize = 100;
    const BODY: usize = 1_000;
    const WORD: usize = 60_000;
    let mut producer = connect(server, WORKQ);
    for number in 0..JOBS {
        let id = format!("6ba7b810-9dad-41d1-80b4-{number:012x}");
        producer.send(&format!("add {id} q 1000 600000 {BODY}\r\n{}\r\n", "x".repeat(BODY)));
        producer.expect("+OK\r\n");
    }
    // Queues with long names make a long list.
    let names: Vec<_> = (0..JOBS).map(|number| format!("{}-{number}", "q".repeat(240))).collect();
    producer.send(&format!("lease {} 0\r\n", names.join(" ")));
    producer.expect("-TIMEOUT\r\n");
    let mut producer = connect(server, BEANSTALKD);
    producer.send(&format!("put 0 0 60 {LONG_ANSWER}\r\n{}\r\n", "x".repeat(LONG_ANSWER)));
    producer.expect(&format!("INSERTED {}\r\n", JOBS + 1));
    // A word that is none is said again.
    let word = "X".repeat(WORD);
    let requests: [_; LONG_ANSWERS] = [
        (WORKQ, format!("inspect jobs q 0 {JOBS}\r\n")),
        (BEANSTALKD, format!("peek {}\r\n", JOBS + 1)),
        (GOQUEUE, format!("{word}\0")),
        (TAKEANUMBER, format!("*2\r\n$4\r\nPING\r\n${WORD}\r\n{word}\r\n")),
        (MASENKO, "INFO {}\n".to_owned()),
    ];
    requests.into()
}

/// How many protocols have them, and more than any of them takes.
const LONG_ANSWERS: usize = 5;
const LONG_ANSWER: usize = 130_000;

/// A client for which the kernel keeps little.
fn deaf(server: &Server, listener: usize) -> Peer {
    let client = connect(server, listener);
    client.stream.set_nonblocking(true).unwrap();
    set_socket_recv_buffer_size(&client.stream, 4 << 10).unwrap();
    client
}

#[test]
fn answers_that_nobody_reads_take_their_limit_and_no_more() {
    const CLIENTS: usize = 20;
    for which in 0..LONG_ANSWERS {
        let server = start(&[]);
        let (listener, request) = long_answers(&server).swap_remove(which);
        let before = memory(&server).0;
        let requests = request.repeat(10_000.min(16 * MIB / request.len()));
        let mut clients: Vec<_> = (0..CLIENTS).map(|_| deaf(&server, listener)).collect();
        let mut sent = [0; CLIENTS];
        // Until nobody is read any more.
        let mut progress = true;
        while progress {
            let before = sent;
            for (client, sent) in clients.iter_mut().zip(&mut sent) {
                *sent += client.stream.write(&requests.as_bytes()[*sent..]).unwrap_or(0);
            }
            settle_for_good(&server);
            progress = sent != before;
        }
        // Twice, because a buffer of which half was sent is kept until more is.
        let bound = 2 * CLIENTS * (MIB + LONG_ANSWER + (64 << 10));
        let taken = memory(&server).1 - before;
        assert!(taken > CLIENTS * MIB / 2, "{}, {taken}: they read after all", server.listening[listener]);
        assert!(taken <= bound, "{}: {taken} bytes were taken, and {bound} may be", server.listening[listener]);
        drop(clients);
        server.stop();
    }
}

/// Fills a server with this memory by one client, and returns the most that it had as a share of its limit.
fn filled(listener: usize, max_bytes: usize, refusal: &str, put: impl FnMut(usize) -> String) -> f64 {
    let server = start(&["--max-memory", &max_bytes.to_string()]);
    fill(&mut connect(&server, listener), refusal, put);
    let most = memory(&server).1;
    server.stop();
    most as f64 / max_bytes as f64
}

/// Puts jobs until that is refused.
fn fill(client: &mut Peer, refusal: &str, mut put: impl FnMut(usize) -> String) {
    let mut number = 0;
    let mut full = false;
    while !full {
        let requests: Vec<_> = (0..200).map(|index| put(number + index)).collect();
        number += requests.len();
        client.send(&requests.concat());
        for _ in &requests {
            full |= client.line() == refusal;
        }
        assert!(number < 10_000_000, "nothing is refused");
    }
}

const MAX: usize = 64_000_000;

fn check_filled(what: &str, listener: usize, refusal: &str, put: impl FnMut(usize) -> String) {
    let share = filled(listener, MAX, refusal, put);
    // Jobs are refused at 95 %, and what is counted for one may be a little more than it takes.
    assert!(share > 0.8, "{what}: refused at {share:.2} of --max-memory");
    assert!(share <= 1.3, "{what}: {share:.2} of --max-memory was taken");
}

#[test]
fn jobs_of_any_kind_take_1_3_times_the_memory_at_most() {
    let out = "-ERR Out of memory.";
    check_filled("small jobs", TAKEANUMBER, out, |_| "ADD q 0 x\r\n".to_owned());
    check_filled("jobs of 100 bytes", TAKEANUMBER, out, |_| format!("ADD q 0 {}\r\n", "x".repeat(100)));
    check_filled("jobs of 5,000 bytes", TAKEANUMBER, out, |_| format!("ADD q 0 {}\r\n", "x".repeat(5_000)));
}

#[test]
fn jobs_with_queues_or_times_of_their_own_take_1_3_times_the_memory_at_most() {
    let out = "-ERR Out of memory.";
    check_filled("a queue for each", TAKEANUMBER, out, |number| format!("ADD queue-{number} 0 x\r\n"));
    let put = |number| {
        let id = format!("6ba7b810-9dad-41d1-80b4-{number:012x}");
        format!("add {id} q 1000 {} 10\r\n0123456789\r\n", 600_000 + number)
    };
    check_filled("jobs with a TTL", WORKQ, "-SERVER-ERROR Out of memory", put);
}

/// Fills a server with jobs, and has each put aside until there is no memory for that.
fn put_aside(how: impl Fn(usize) -> String, done: &str) {
    const TOGETHER: usize = 100;
    let server = start(&["--max-memory", &MAX.to_string()]);
    let mut client = connect(&server, BEANSTALKD);
    fill(&mut client, "OUT_OF_MEMORY", |_| "put 0 0 600 0\r\n\r\n".to_owned());
    let (mut asked, mut refused) = (0, 0);
    while refused == 0 {
        client.send(&(asked + 1..=asked + TOGETHER).map(&how).collect::<String>());
        asked += TOGETHER;
        let mut answers = 0;
        while answers < TOGETHER {
            let line = client.line();
            refused += usize::from(line == "OUT_OF_MEMORY");
            answers += usize::from(line == done || line == "OUT_OF_MEMORY");
            assert!(!["TIMED_OUT", "NOT_FOUND"].contains(&line.as_str()), "{done}: nothing was refused of {asked}");
        }
    }
    let share = memory(&server).1 as f64 / MAX as f64;
    assert!(asked > 1_000 && share <= 1.3, "{done}: {share:.2} of --max-memory was taken by {asked}");
    client.send(&format!("delete {asked}\r\n"));
    client.expect("DELETED\r\n");
    server.stop();
}

#[test]
fn jobs_that_are_put_aside_take_1_3_times_the_memory_at_most() {
    put_aside(|id| format!("reserve-job {id}\r\nbury {id} 0\r\n"), "BURIED");
    put_aside(|id| format!("reserve-job {id}\r\nrelease {id} 0 600\r\n"), "RELEASED");
}

#[test]
fn unfinished_requests_take_1_3_times_the_memory_at_most() {
    let server = start(&["--max-memory", &MAX.to_string()]);
    let begun = format!("{{\"request\":\"put\",\"queue\":\"q\",\"job\":{{\"a\":\"{}", "x".repeat(12 * MIB));
    let mut clients = Vec::new();
    for _ in 0..15 {
        let mut client = connect(&server, JOBCENTRE);
        // The largest are told to go, which may be this one while it sends.
        let _ = client.stream.write_all(begun.as_bytes());
        clients.push(client);
    }
    settle(&server);
    let share = memory(&server).1 as f64 / MAX as f64;
    assert!(share <= 1.3, "{share:.2} of --max-memory was taken");
    let mut other = connect(&server, TAKEANUMBER);
    other.send("LEN q\r\n");
    other.expect(":0\r\n");
    drop(clients);
    server.stop();
}
