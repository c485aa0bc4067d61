//! `jobyard bench` against the built server, in every protocol, and against servers that behave badly.

mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;

use support::beanstalkd::{Original, asked_for_text};
use support::redis::Redis;
use support::{Directory, Ended, PATIENCE, Server, run_with};

const PROTOCOLS: [&str; 6] = ["goqueue", "takeanumber", "masenko", "jobcentre", "workq", "beanstalkd"];

/// A server with a listener for each protocol, and one for all.
fn start() -> Server {
    let addresses: Vec<_> = PROTOCOLS.iter().map(|name| format!("{name}://127.0.0.1:0")).collect();
    let mut arguments: Vec<_> = addresses.iter().flat_map(|address| ["--listen", address]).collect();
    arguments.extend(["--listen", "any://127.0.0.1:0"]);
    Server::start(&arguments)
}

/// A figure of the line of JSON.
fn figure(ended: &Ended, name: &str) -> f64 {
    let (_, after) = ended.stdout.split_once(&format!("\"{name}\":")).unwrap_or_else(|| panic!("{}", ended.stdout));
    after.split([',', '}']).next().unwrap().parse().unwrap()
}

fn succeeded(ended: &Ended) {
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{}", ended.stdout);
}

/// The first of them, whose queues stay. Those of beanstalkd go when their last client has gone.
const KEEPING: usize = 5;

/// There are so many queues for each of so many protocols, and they are empty.
fn check_queues_are_empty(server: &Server, protocols: usize, each: usize) {
    let queues = empty_queues(server);
    assert!((each * protocols.min(KEEPING)..=each * protocols).contains(&queues), "{queues} queues");
}

/// How many queues there are, in none of which anything is ready, delayed or taken.
fn empty_queues(server: &Server) -> usize {
    let mut client = support::Peer::connect(server.place(PROTOCOLS.len()));
    client.send("INFO\n");
    let info = client.line();
    let count = |text: &str| info.matches(text).count();
    assert_eq!(count("\"ready\":0,\"delayed\":0,\"to_ack\":0}"), count("{\"name\":"), "{info}");
    count("{\"name\":\"bench-")
}

#[test]
fn every_protocol_is_measured_and_nothing_is_left_behind() {
    let server = start();
    for (index, address) in server.listening[..PROTOCOLS.len()].iter().enumerate() {
        for depth in ["1", "8"] {
            let ended =
                run_with(&["bench", address, "--connections", "3", "--depth", depth, "--jobs", "100", "--json"]);
            succeeded(&ended);
            assert_eq!(figure(&ended, "cycles"), 100.0, "{}", ended.stdout);
            assert_eq!(figure(&ended, "requests"), 300.0, "{}", ended.stdout);
            assert!(figure(&ended, "requests_per_second") > 0.0, "{}", ended.stdout);
            assert!(figure(&ended, "p99_us") >= figure(&ended, "p50_us"), "{}", ended.stdout);
            assert!(figure(&ended, "generator_us_per_request") > 0.0, "{}", ended.stdout);
        }
        check_queues_are_empty(&server, index + 1, 2);
    }
    server.stop();
}

#[test]
fn it_stops_when_the_time_is_over_with_every_job_finished() {
    let server = start();
    for address in &server.listening[..PROTOCOLS.len()] {
        let ended = run_with(&["bench", address, "--depth", "3", "--seconds", "0.05", "--queues", "2", "--json"]);
        succeeded(&ended);
        assert!(figure(&ended, "seconds") >= 0.05, "{}", ended.stdout);
        assert_eq!(figure(&ended, "requests"), 3.0 * figure(&ended, "cycles"), "{}", ended.stdout);
    }
    check_queues_are_empty(&server, PROTOCOLS.len(), 2);
    server.stop();
}

#[test]
fn more_connections_than_jobs_and_bodies_of_any_size() {
    let server = start();
    for (index, (address, least)) in server.listening.iter().zip(["0", "1", "2", "11", "0", "0"]).enumerate() {
        for body in [least, "100000"] {
            let ended = run_with(&["bench", address, "--depth", "4", "--jobs", "5", "--body", body, "--json"]);
            succeeded(&ended);
            assert_eq!(figure(&ended, "requests"), 15.0, "{}", ended.stdout);
        }
        check_queues_are_empty(&server, index + 1, 2);
    }
    server.stop();
}

#[test]
fn a_backlog_is_all_finished_and_is_not_in_the_figures() {
    let server = start();
    for (index, address) in server.listening[..PROTOCOLS.len()].iter().enumerate() {
        // Shares of different size, for several queues.
        let load = ["--connections", "3", "--queues", "2", "--depth", "4", "--jobs", "50", "--backlog", "100"];
        let ended = run_with(&[&["bench", address, "--json"], &load[..]].concat());
        succeeded(&ended);
        assert_eq!((figure(&ended, "cycles"), figure(&ended, "requests")), (50.0, 150.0), "{}", ended.stdout);
        assert_eq!(figure(&ended, "backlog"), 100.0, "{}", ended.stdout);
        check_queues_are_empty(&server, index + 1, 2);
    }
    server.stop();
}

#[test]
fn jobs_are_handed_over_to_those_who_wait() {
    let server = start();
    for address in [0, 2, 3, 4, 5].map(|index| &server.listening[index]) {
        for (connections, pin) in [("2", &[][..]), ("10", &["--pin", "0"][..])] {
            let load = ["bench", address, "--workload", "handover", "--connections", connections, "--jobs", "100"];
            let ended = run_with(&[&load[..], pin, &["--json"]].concat());
            succeeded(&ended);
            assert_eq!((figure(&ended, "cycles"), figure(&ended, "requests")), (100.0, 300.0), "{}", ended.stdout);
            assert!(figure(&ended, "p50_us") > 1.0, "{}", ended.stdout);
            assert!(figure(&ended, "p99_9_us") >= figure(&ended, "p99_us"), "{}", ended.stdout);
        }
    }
    assert!(empty_queues(&server) >= 4 * (1 + 5));
    let timed = ["bench", &server.listening[5], "--workload", "handover", "--connections", "4", "--seconds", "0.05"];
    let ended = run_with(&[&timed[..], &["--json"]].concat());
    succeeded(&ended);
    assert_eq!(figure(&ended, "requests"), 3.0 * figure(&ended, "cycles"), "{}", ended.stdout);
    server.stop();
}

#[test]
fn the_rivals_are_measured_too() {
    let directory = Directory::new();
    let beanstalkd = Original::start(&directory.0, &[]);
    let redis = Redis::start();
    for address in [beanstalkd.url(), format!("redis://{}", redis.place)] {
        for workload in ["cycle", "handover"] {
            let load = ["bench", &address, "--connections", "4", "--workload", workload, "--jobs", "200", "--json"];
            let ended = run_with(&load);
            succeeded(&ended);
            assert_eq!((figure(&ended, "cycles"), figure(&ended, "requests")), (200.0, 600.0), "{}", ended.stdout);
        }
    }
    let deep = ["bench", &format!("redis://{}", redis.place), "--depth", "16", "--jobs", "2000", "--backlog", "100"];
    succeeded(&run_with(&deep));
    let mut client = support::Peer::connect(redis.place);
    client.send("DBSIZE\r\n");
    client.expect(":0\r\n");
    beanstalkd.kill();
}

#[test]
fn what_echoes_is_measured_as_a_limit() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("echo://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || std::io::copy(&mut &stream, &mut &stream));
        }
    });
    let ended = run_with(&["bench", &address, "--connections", "3", "--depth", "4", "--jobs", "100", "--json"]);
    succeeded(&ended);
    assert_eq!((figure(&ended, "cycles"), figure(&ended, "requests")), (100.0, 300.0), "{}", ended.stdout);
}

#[test]
fn jobs_of_many_priorities_are_put_and_taken() {
    let server = start();
    for index in [0, 3, 4, 5] {
        let load = ["--priorities", "7", "--jobs", "200", "--depth", "8", "--backlog", "30", "--json"];
        let ended = run_with(&[&["bench", &server.listening[index]], &load[..]].concat());
        succeeded(&ended);
        assert_eq!((figure(&ended, "cycles"), figure(&ended, "priorities")), (200.0, 7.0), "{}", ended.stdout);
    }
    // The most urgent is taken first, whichever was put first.
    let put =
        run_with(&["bench", &server.listening[5], "--priorities", "7", "--jobs", "200", "--workload", "put", "--json"]);
    succeeded(&put);
    let (_, rest) = put.stdout.split_once("\"queue\":\"").unwrap();
    let (queue, _) = rest.split_once('"').unwrap();
    let mut client = support::Peer::connect(server.place(5));
    client.send(&format!("watch {queue}\r\n"));
    client.expect("WATCHING 2\r\n");
    let mut priorities = Vec::new();
    for _ in 0..200 {
        let (reserved, _) = asked_for_text(&mut client, "reserve");
        let id = reserved.split(' ').nth(1).unwrap();
        let (_, facts) = asked_for_text(&mut client, &format!("stats-job {id}"));
        priorities.push(facts.lines().find_map(|line| line.strip_prefix("pri: ")).unwrap().parse::<u32>().unwrap());
    }
    assert!(priorities.is_sorted(), "{priorities:?}");
    priorities.dedup();
    assert_eq!(priorities, [0, 1, 2, 3, 4, 5, 6]);
    server.stop();
}

/// Stands between one Job Centre client and a server. Returns what the client asks for, request by request.
fn overheard(place: SocketAddr) -> (SocketAddr, thread::JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let between = listener.local_addr().unwrap();
    let asked = thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let mut server = TcpStream::connect(place).unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        server.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut answers = BufReader::new(server.try_clone().unwrap());
        let mut asked = Vec::new();
        for request in BufReader::new(client.try_clone().unwrap()).lines().map_while(Result::ok) {
            server.write_all(format!("{request}\n").as_bytes()).unwrap();
            let mut answer = String::new();
            answers.read_line(&mut answer).unwrap();
            client.write_all(answer.as_bytes()).unwrap();
            asked.push(request.split('"').nth(3).unwrap().to_owned());
        }
        asked
    });
    (between, asked)
}

#[test]
fn a_backlog_waits_while_the_cycles_run() {
    let server = start();
    let (place, asked) = overheard(server.place(3));
    let address = format!("jobcentre://{place}");
    succeeded(&run_with(&["bench", &address, "--connections", "1", "--jobs", "2", "--backlog", "3"]));
    let cycles = "put get delete put get delete";
    let expected = format!("get put put put {cycles} get delete get delete get delete");
    assert_eq!(asked.join().unwrap().join(" "), expected);
    server.stop();
}

#[test]
fn jobs_that_are_only_put_stay_there() {
    let server = start();
    for (index, address) in server.listening[..PROTOCOLS.len()].iter().enumerate() {
        let load = ["--connections", "3", "--depth", "4", "--jobs", "50", "--workload", "put"];
        let ended = run_with(&[&["bench", address, "--json"], &load[..]].concat());
        succeeded(&ended);
        assert_eq!((figure(&ended, "cycles"), figure(&ended, "requests")), (0.0, 50.0), "{}", ended.stdout);
        let mut client = support::Peer::connect(server.place(PROTOCOLS.len()));
        client.send("INFO\n");
        let info = client.line();
        assert_eq!(info.matches("\"ready\":50,\"delayed\":0,\"to_ack\":0}").count(), index + 1, "{info}");
    }
    server.stop();
}

#[test]
fn jobs_that_were_left_are_taken_and_finished_by_another_run() {
    let server = start();
    for (index, address) in server.listening[..PROTOCOLS.len()].iter().enumerate() {
        let put = run_with(&["bench", address, "--jobs", "50", "--workload", "put", "--json"]);
        succeeded(&put);
        let (_, rest) = put.stdout.split_once("\"queue\":\"").unwrap();
        let (queue, _) = rest.split_once('"').unwrap();
        let take = ["bench", address, "--jobs", "50", "--workload", "take", "--queue", queue, "--json"];
        // Beside these, cycles come and go.
        succeeded(&run_with(&["bench", address, "--jobs", "70", "--queue", queue]));
        let taken = run_with(&take);
        succeeded(&taken);
        assert_eq!((figure(&taken, "cycles"), figure(&taken, "requests")), (50.0, 100.0), "{}", taken.stdout);
        check_queues_are_empty(&server, index + 1, 1);
        if index != 0 {
            // Goqueue's clients wait for a while.
            assert_eq!(run_with(&take).code, Some(1), "there was nothing left to take");
        }
    }
    server.stop();
}

#[test]
fn people_get_a_table() {
    let server = start();
    let ended = run_with(&["bench", &server.listening[3], "--connections", "2", "--jobs", "10"]);
    succeeded(&ended);
    let lines: Vec<_> = ended.stdout.lines().collect();
    assert_eq!(lines.len(), 2, "{}", ended.stdout);
    assert!(lines[0].trim_start().starts_with("protocol  workload  connections  depth"), "{}", lines[0]);
    assert!(lines[1].trim_start().starts_with("jobcentre     cycle            2      1  64 B"), "{}", lines[1]);
    server.stop();
}

fn refused(arguments: &[&str], code: i32, message: &str) {
    let ended = run_with(&[&["bench"], arguments].concat());
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(code), ""), "{}", ended.stderr);
    assert!(ended.stderr.starts_with("error: ") && ended.stderr.contains(message), "{message}: {}", ended.stderr);
}

#[test]
fn what_makes_no_sense_is_refused() {
    refused(&["smtp://127.0.0.1:25"], 2, "unknown protocol 'smtp': expected goqueue, takeanumber");
    refused(&["127.0.0.1:5627"], 2, "expected <protocol>://HOST:PORT");
    refused(&["--connections", "0"], 2, "--connections");
    refused(&["--depth", "0"], 2, "--depth");
    refused(&["--seconds", "0"], 2, "expected 0.001 to 86400");
    refused(&["--seconds", "NaN"], 2, "expected 0.001 to 86400");
    refused(&["--seconds", "1", "--jobs", "1"], 2, "cannot be used with");
    refused(&["--workload", "put", "--backlog", "1"], 2, "nothing waits behind others");
    refused(&["--workload", "take"], 2, "--queue <QUEUE>");
    refused(&["--workload", "handover", "--queue", "q", "--connections", "2"], 2, "one for each two connections");
    refused(&["--workload", "take", "--queue", "q", "--queues", "2"], 2, "there is only --queue");
    refused(&["--workload", "handover", "--connections", "3"], 2, "there are two for each job");
    refused(&["--workload", "handover", "--depth", "2"], 2, "one job for each two connections");
    refused(&["--workload", "handover", "--backlog", "2"], 2, "nobody waits for a job where there are some");
    refused(&["--workload", "handover", "--queues", "2"], 2, "one for each two connections");
    refused(&["takeanumber://127.0.0.1:1", "--workload", "handover"], 2, "clients of takeanumber do not wait");
    refused(&["masenko://127.0.0.1:1", "--priorities", "2"], 2, "jobs of masenko have none");
    refused(&["--priorities", "1000", "--body", "2000000"], 2, "more than 1 GiB");
    refused(&["redis://127.0.0.1:1", "--body", "35"], 2, "a redis job has at least 36 bytes");
    refused(&["--pin", "100000"], 2, "--pin 100000");
    refused(&["--backlog", "1000000001"], 2, "--backlog");
    refused(&["--body", "3"], 2, "a jobcentre job has at least 11 bytes");
    refused(&["--body", "1000000", "--connections", "1000", "--depth", "100"], 2, "more than 1 GiB");
}

#[test]
fn a_server_that_is_not_there_is_named() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    refused(&[&format!("workq://{free}")], 1, &format!("cannot connect to {free}: Connection refused"));
    refused(&["workq://no-such-host.invalid:1"], 1, "cannot find the host 'no-such-host.invalid'");
}

/// A server that has these words for its first client, each when it has heard something, and then says no more.
fn saying(words: &'static [&'static str]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = listener.local_addr().unwrap();
    thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut heard = [0; 4096];
        for word in words {
            assert!(client.read(&mut heard).unwrap() > 0);
            client.write_all(word.as_bytes()).unwrap();
        }
        client.shutdown(Shutdown::Write).unwrap();
        while client.read(&mut heard).is_ok_and(|len| len > 0) {}
    });
    place
}

#[test]
fn an_answer_that_is_not_the_expected_one_ends_the_run_and_is_shown() {
    let address = |words| format!("workq://{}", saying(words));
    let one = |words, message| refused(&[&address(words), "--connections", "1"], 1, message);
    one(&["HTTP/1.1 400\r\n"], "the server's answer to a greeting was \"HTTP/1.1 400\\r\\n\"");
    one(&["-TIMEOUT\r\n", "-SERVER-ERROR full\r\n"], "the server's answer to a put was \"-SERVER-ERROR full\\r\\n\"");
    one(&["-TIMEOUT\r\n", "+OK\r\n", "-TIMEOUT\r\n"], "the server's answer to a take was \"-TIMEOUT\\r\\n\"");
    one(&["-TIMEOUT\r\n", "+OK\r\nbye\r\n"], "the server's answer to a take was \"bye\\r\\n\"");
    one(&["-TIMEOUT\r\nhello\r\n"], "something that nobody asked for: \"hello\\r\\n\"");
}

#[test]
fn a_server_that_hangs_up_ends_the_run() {
    let address = |words| format!("workq://{}", saying(words));
    let one = |words| refused(&[&address(words), "--connections", "1"], 1, "the server hung up with");
    one(&[]);
    one(&["-TIMEOUT\r\n"]);
    one(&["-TIMEOUT\r\n", "+O"]);
}

#[test]
fn a_client_of_one_protocol_is_not_fooled_by_another() {
    let server = start();
    let others = ["takeanumber", "masenko", "jobcentre", "workq", "beanstalkd", "workq"];
    for (index, other) in others.into_iter().enumerate() {
        let address = format!("{other}://{}", server.place(index));
        let ended = run_with(&["bench", &address, "--connections", "2", "--jobs", "2"]);
        assert_eq!(ended.code, Some(1), "{other} to {}: {}", PROTOCOLS[index], ended.stderr);
        assert!(ended.stderr.contains("answer to a greeting") || ended.stderr.contains("hung up"), "{}", ended.stderr);
    }
    // A word of goqueue's is no line, so a server of lines waits for more.
    let address = format!("goqueue://{}", server.place(4));
    refused(&[&address, "--connections", "2", "--timeout", "0.2"], 1, "no answer for 200ms: 2 connections wait");
    server.stop();
}
