//! Data directories that earlier versions wrote, one for each format there has been: all that is in them is there, in
//! its state and its order. What they hold is said in their README.txt; `scripts/fixture` made them.

mod support;

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use support::{Directory, Peer, Server, Signal, jobyard, run, text, until};

/// Bulk jobs, of 1000 bytes each.
const BULK: usize = 120;
const TTL_MAX: u64 = u64::MAX;
const EXACT: &str = r#"{"n": 1.10, "big": 12345678901234567890123, "e": 1E+2, "\u2603": null}"#;

fn fixtures() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let paths = fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path());
    let is_fixture = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().starts_with("format-");
    let mut fixtures: Vec<PathBuf> = paths.filter(is_fixture).collect();
    fixtures.sort();
    assert!(!fixtures.is_empty(), "there are no fixtures in {}", directory.display());
    fixtures
}

fn start(data: &Path, segment_size: &str) -> Server {
    let listen = "any://127.0.0.1:0?dialect=original";
    Server::spawn(jobyard().args(["serve", "--data", text(data), "--segment-size", segment_size, "--listen", listen]))
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// Sends bytes; the answer must be these.
fn ask(peer: &mut Peer, question: impl AsRef<[u8]>, answer: impl AsRef<[u8]>) {
    use std::io::{Read, Write};
    let (question, answer) = (question.as_ref(), answer.as_ref());
    peer.stream.write_all(question).unwrap();
    let mut heard = vec![0; answer.len()];
    let mut len = 0;
    while len < heard.len() && heard[..len] == answer[..len] {
        let count = peer.stream.read(&mut heard[len..]).unwrap_or_else(|error| {
            panic!("{}: {error}; heard {}", question.escape_ascii(), heard[..len].escape_ascii());
        });
        assert_ne!(count, 0, "{}: closed after {}", question.escape_ascii(), heard[..len].escape_ascii());
        len += count;
    }
    assert!(
        heard == answer,
        "{}\nexpected {}\nheard    {}",
        question.escape_ascii(),
        answer.escape_ascii(),
        heard[..len].escape_ascii()
    );
}

/// One of the two sets of jobs: its name, and the number of its first job.
struct Set<'a> {
    server: &'a Server,
    name: &'a str,
    first: u64,
}

/// Which job of a set.
mod job {
    pub const COMPLETED: u64 = 0;
    pub const FINALLY_FAILED: u64 = 1;
    pub const FAILED_ONCE: u64 = 2;
    pub const LATER: u64 = 3;
    pub const SOON: u64 = 4;
    pub const PLAIN: u64 = 5;
    pub const RAN_OUT: u64 = 6;
    pub const LAST: u64 = 7;
    pub const RUN: u64 = 8;
    pub const FIVE: u64 = 9;
    pub const ZERO: u64 = 10;
    pub const EVERY_BYTE: u64 = 11;
    pub const ALSO_ZERO: u64 = 12;
    pub const HELD_FOR_EVER: u64 = 13;
    pub const ODD: u64 = 14;
    pub const RESTED: u64 = 15;
    pub const FIRST: u64 = 16;
    pub const SECOND: u64 = 17;
    pub const THIRD: u64 = 18;
    pub const TASK: u64 = 19;
    pub const WOKEN: u64 = 20;
    pub const DATED: u64 = 21;
    pub const HELD: u64 = 22;
    pub const FAILED: u64 = 23;
    pub const MOVED: u64 = 24;
    pub const BLOCKER: u64 = 25;
    pub const ANOTHER_BLOCKER: u64 = 26;
    pub const BLOCKED: u64 = 27;
    pub const UNBLOCKED: u64 = 29;
    pub const LOW: u64 = 30;
    pub const HIGH: u64 = 31;
}

impl Set<'_> {
    fn number(&self, job: u64) -> u64 {
        self.first + job
    }

    /// What a workq job was called by its client.
    fn own_uuid(&self, job: u64) -> String {
        format!("{:08x}-9dad-11d1-80b4-00c04fd430c8", self.number(job))
    }

    fn made_uuid(&self, job: u64) -> String {
        format!("6a6f6279-6172-4640-8000-{:012x}", self.number(job))
    }

    /// Looks at all of it, and changes nothing.
    fn look(&self) {
        self.look_at_counts();
        self.look_at_results();
        let mut workq = self.server.connect();
        let work = format!("name work.{}\r\nttr 1000\r\nttl {TTL_MAX}\r\n", self.name);
        let rules = |attempts, max_fails, fails, priority, state| {
            format!(
                "max-attempts 0\r\nattempts {attempts}\r\nmax-fails {max_fails}\r\nfails {fails}\r\npriority {priority}\r\nstate {state}\r\n"
            )
        };
        let body = |body: &str| format!("payload-size {}\r\npayload {body}\r\n", body.len());
        let mut inspect = |uuid: String, shown: String| {
            let fields = if shown.contains("payload later") || shown.contains("payload soon") { 13 } else { 12 };
            ask(&mut workq, format!("inspect job {uuid}\r\n"), format!("+OK 1\r\n{uuid} {fields}\r\n{shown}created "));
            workq.line();
            (fields == 13).then(|| workq.line())
        };
        inspect(self.own_uuid(job::COMPLETED), format!("{work}{}{}", body("completed"), rules(0, 0, 0, 0, 1)));
        inspect(self.own_uuid(job::FAILED_ONCE), format!("{work}{}{}", body("failed once"), rules(0, 3, 1, 7, 3)));
        let time = inspect(self.own_uuid(job::LATER), format!("{work}{}{}", body("later"), rules(0, 0, 0, -3, 0)));
        assert_eq!(time.as_deref(), Some("time 9999-12-31T23:59:59Z"));
        inspect(self.own_uuid(job::SOON), format!("{work}{}{}", body("soon"), rules(0, 0, 0, 0, 0)));
        for (held, name, ttr, max_fails) in [(job::HELD_FOR_EVER, "hold", 60_000, 0), (job::FIRST, "number", 60_000, 4)]
        {
            let text = if held == job::FIRST { "first" } else { "held for ever" };
            let place = format!("name {name}.{}\r\nttr {ttr}\r\nttl 0\r\n", self.name);
            inspect(self.made_uuid(held), format!("{place}{}{}", body(text), rules(0, max_fails, 0, 0, 4)));
        }
        for gone in [self.own_uuid(job::RUN), self.made_uuid(job::THIRD)] {
            ask(&mut workq, format!("inspect job {gone}\r\n"), "-NOT-FOUND\r\n");
        }
        let uuid = self.own_uuid(job::COMPLETED);
        ask(&mut workq, format!("add {uuid} work.{} 1 1 1\r\nx\r\n", self.name), "-CLIENT-ERROR Duplicate job\r\n");
    }

    /// What masenko counts, queues in order of their age. (Of jobs that are blocked it says nothing.)
    fn counts(&self) -> String {
        let queue = |name: &str, [ready, delayed, to_ack]: [u32; 3]| {
            format!(r#"{{"name":"{name}{}","ready":{ready},"delayed":{delayed},"to_ack":{to_ack}}}"#, self.name)
        };
        [
            queue("work.", [3, 1, 0]),
            queue("tired.", [1, 0, 0]),
            queue("last.", [0, 0, 0]),
            queue("run.", [0, 0, 0]),
            queue("empty.", [0, 0, 0]),
            queue("go.", [4, 0, 0]),
            queue("hold.", [0, 0, 1]),
            queue("rest.", [1, 0, 0]),
            queue("number.", [1, 0, 1]),
            queue("task.", [2, 1, 0]),
            queue("fail.", [2, 0, 0]),
            queue("doomed.", [0, 0, 0]),
            queue("dead.", [1, 0, 0]),
            queue("block.", [2, 0, 0]),
            queue("blocked.", [1, 0, 0]),
            queue("gone.", [0, 0, 0]),
            queue(r"\u0000\n☃ ", [2, 0, 0]),
        ]
        .join(",")
    }

    fn look_at_counts(&self) {
        let counts = self.counts();
        let mut masenko = self.server.connect();
        let mut info = String::new();
        // On a machine whose clock is behind, the back-off goes on for some seconds.
        let failed = format!(r#"{{"name":"fail.{}","ready":1,"delayed":1,"#, self.name);
        until("the end of a back-off", || {
            masenko.send("INFO\n");
            info = masenko.line();
            !info.contains(&failed)
        });
        assert!(info.contains(&counts), "expected {counts}\nheard {info}");
    }

    fn look_at_results(&self) {
        let mut workq = self.server.connect();
        let results = [(job::COMPLETED, 1, "yes\0\r\n"), (job::FINALLY_FAILED, 0, "no"), (job::LAST, 0, "")];
        for (job, success, result) in results {
            let uuid = self.own_uuid(job);
            let answer = format!("+OK 1\r\n{uuid} {success} {}\r\n{result}\r\n", result.len());
            ask(&mut workq, format!("result {uuid} 0\r\n"), answer);
        }
    }

    /// Takes all of it, in the order that it must have.
    fn take(&self) {
        self.take_by_goqueue();
        self.take_by_takeanumber();
        self.take_by_masenko();
        self.take_by_jobcentre();
        self.take_by_workq();
    }

    fn take_by_goqueue(&self) {
        let mut goqueue = self.server.connect();
        let every_byte: Vec<u8> = (0..=255).collect();
        let odd: Vec<u8> = [b"\xff\x01 \n\"\\\xc3", self.name.as_bytes()].concat();
        let go = format!("go.{}", self.name).into_bytes();
        let rest = format!("rest.{}", self.name).into_bytes();
        let jobs: [(&[u8], u64, u32, &[u8]); 6] = [
            (&go, job::ZERO, 0, b"zero"),
            (&go, job::ALSO_ZERO, 0, b"also zero"),
            (&go, job::FIVE, 5, b"five"),
            (&go, job::EVERY_BYTE, u32::MAX, &every_byte),
            (&odd, job::ODD, 0, b"odd"),
            (&rest, job::RESTED, 0, b"rested"),
        ];
        for (queue, job, priority, body) in jobs {
            let number = self.number(job).to_le_bytes();
            let length = u32::try_from(body.len()).unwrap().to_le_bytes();
            let shown = [&number[..], &priority.to_le_bytes(), &10_u32.to_le_bytes(), b"reserved\0", &length, body];
            let reserve = [b"RESERVE\0", queue, b"\0", &30_u32.to_le_bytes()].concat();
            ask(&mut goqueue, reserve, [b"RESERVED\0", &shown.concat()[..]].concat());
            ask(&mut goqueue, [&b"DELETE\0"[..], &number].concat(), b"OK\0");
        }
        ask(&mut goqueue, [&b"DELETE\0"[..], &self.number(job::HELD_FOR_EVER).to_le_bytes()].concat(), b"OK\0");
    }

    fn take_by_takeanumber(&self) {
        let mut number = self.server.connect();
        let queue = format!("number.{}", self.name);
        let (first, second) = (self.made_uuid(job::FIRST), self.made_uuid(job::SECOND));
        ask(&mut number, format!("LEN {queue}\n"), ":1\r\n");
        ask(&mut number, format!("RESERVE {queue}\n"), format!("+{second} second\r\n"));
        ask(&mut number, format!("RESERVE {queue}\n"), "-ERR No items available to reserve.\r\n");
        // One of three retries was spent.
        ask(&mut number, format!("RETRY {queue} {second}\n"), "+OK\r\n");
        ask(&mut number, format!("RETRY {queue} {second}\n"), "+OK\r\n");
        ask(&mut number, format!("RETRY {queue} {second}\n"), "-ERR No retries remaining.\r\n");
        ask(&mut number, format!("DONE {queue} {first}\n"), "+OK\r\n");
    }

    fn take_by_masenko(&self) {
        let mut masenko = self.server.connect();
        let mut fetch = |queue: &str, job: u64, rest: &str| {
            let (queue, number) = (format!("{queue}.{}", self.name), self.number(job));
            let question = format!("FETCH {{\"queues\":[\"{queue}\"]}}\n");
            ask(&mut masenko, question, format!("OK {{\"id\":{number},\"queue\":\"{queue}\",{rest}}}\n"));
        };
        fetch("task", job::WOKEN, r#""name":"woken""#);
        fetch("task", job::TASK, r#""name":"plain","payload":{"a":1.10}"#);
        fetch("fail", job::FAILED, r#""name":"failed","payload":"again","failures":2"#);
        fetch("fail", job::HELD, r#""name":"held""#);
        fetch("dead", job::MOVED, r#""name":"moved","payload":[1]"#);
        fetch("blocked", job::UNBLOCKED, r#""name":"unblocked""#);
        fetch("block", job::BLOCKER, r#""name":"blocker""#);
        fetch("block", job::ANOTHER_BLOCKER, r#""name":"another blocker""#);
        for job in [job::WOKEN, job::TASK, job::FAILED, job::HELD, job::UNBLOCKED] {
            ask(&mut masenko, format!("ACK {{\"id\":{}}}\n", self.number(job)), "OK {}\n");
        }
        // It has no dead queue any more, and no retry is left.
        ask(&mut masenko, format!("NACK {{\"id\":{}}}\n", self.number(job::MOVED)), "OK {}\n");
        let fetch_blocked = format!("FETCH {{\"queues\":[\"blocked.{}\"],\"timeout\":\"1ms\"}}\n", self.name);
        for blocker in [job::BLOCKER, job::ANOTHER_BLOCKER] {
            ask(&mut masenko, &fetch_blocked, "EMPTY {}\n");
            ask(&mut masenko, format!("ACK {{\"id\":{}}}\n", self.number(blocker)), "OK {}\n");
        }
        let (blocked, name) = (self.number(job::BLOCKED), self.name);
        let answer = format!("OK {{\"id\":{blocked},\"queue\":\"blocked.{name}\",\"name\":\"blocked\"}}\n");
        ask(&mut masenko, &fetch_blocked, answer);
        ask(&mut masenko, format!("ACK {{\"id\":{blocked}}}\n"), "OK {}\n");
    }

    fn take_by_jobcentre(&self) {
        let mut centre = self.server.connect();
        let queue = format!(r#""\u0000\n☃ {}""#, self.name);
        let get = format!("{{\"request\":\"get\",\"queues\":[{queue}]}}\n");
        let high = "1000000000000000000000000000000";
        for (job, body, priority) in [(job::HIGH, EXACT, high), (job::LOW, r#"{"x":1}"#, "5")] {
            let number = self.number(job);
            let answer = format!(r#"{{"status":"ok","id":{number},"job":{body},"pri":{priority},"queue":{queue}}}"#);
            ask(&mut centre, &get, answer + "\n");
        }
        for job in [job::HIGH, job::LOW, job::DATED] {
            let delete = format!("{{\"request\":\"delete\",\"id\":{}}}\n", self.number(job));
            ask(&mut centre, &delete, "{\"status\":\"ok\"}\n");
        }
    }

    fn take_by_workq(&self) {
        let mut workq = self.server.connect();
        let name = self.name;
        let taken = [
            ("work", job::FAILED_ONCE, "1000 11", "failed once"),
            ("work", job::PLAIN, "1000 5", "plain"),
            ("work", job::SOON, "1000 4", "soon"),
            ("tired", job::RAN_OUT, "1 7", "ran out"),
        ];
        for (queue, job, shown, body) in taken {
            let uuid = self.own_uuid(job);
            let answer = format!("+OK 1\r\n{uuid} {queue}.{name} {shown}\r\n{body}\r\n");
            ask(&mut workq, format!("lease {queue}.{name} 0\r\n"), answer);
            ask(&mut workq, format!("complete {uuid} 2\r\nok\r\n"), "+OK\r\n");
            ask(&mut workq, format!("result {uuid} 0\r\n"), format!("+OK 1\r\n{uuid} 1 2\r\nok\r\n"));
        }
        let kept = [job::COMPLETED, job::FINALLY_FAILED, job::LAST, job::LATER];
        for job in kept.into_iter().chain(taken.map(|taken| taken.1)) {
            let uuid = self.own_uuid(job);
            ask(&mut workq, format!("delete {uuid}\r\n"), "+OK\r\n");
            ask(&mut workq, format!("inspect job {uuid}\r\n"), "-NOT-FOUND\r\n");
        }
    }
}

fn take_bulk(server: &Server) {
    let mut number = server.connect();
    ask(&mut number, "LEN bulk\n", format!(":{BULK}\r\n"));
    for index in 0..BULK {
        number.send("RESERVE bulk\n");
        let line = number.line();
        let (uuid, body) = line.split_once(' ').unwrap_or_else(|| panic!("bulk job {index}: {line}"));
        assert_eq!(body, format!("{index:04}.").repeat(200));
        ask(&mut number, format!("DONE bulk {}\n", &uuid[1..]), "+OK\r\n");
    }
}

/// The next job gets this number.
fn put_next(server: &Server, number: u64) {
    let mut centre = server.connect();
    let put = "{\"request\":\"put\",\"queue\":\"next\",\"job\":{},\"pri\":0}\n";
    ask(&mut centre, put, format!("{{\"status\":\"ok\",\"id\":{number}}}\n"));
}

fn facts(fixture: &Path) -> HashMap<String, u64> {
    let facts = fs::read_to_string(fixture.join("facts.txt")).unwrap();
    let fact = |line: &str| line.split_once(' ').map(|(name, number)| (name.to_owned(), number.parse().unwrap()));
    facts.lines().map(|line| fact(line).unwrap()).collect()
}

fn sets<'a>(server: &'a Server, facts: &HashMap<String, u64>) -> [Set<'a>; 2] {
    ["old", "new"].map(|name| Set { server, name, first: facts[name] })
}

#[test]
fn what_every_format_holds_is_read_and_stays() {
    for fixture in fixtures() {
        let facts = facts(&fixture);
        let directory = Directory::new();
        let data = directory.join("data");
        copy(&fixture.join("data"), &data);

        let server = start(&data, "64KiB");
        sets(&server, &facts).iter().for_each(Set::look);
        put_next(&server, facts["next"]);
        server.stop();

        let mut server = start(&data, "128KiB");
        sets(&server, &facts).iter().for_each(Set::look);
        put_next(&server, facts["next"] + 1);
        sets(&server, &facts).iter().for_each(Set::take);
        take_bulk(&server);
        server.signal(Signal::KILL);
        server.wait();

        let server = start(&data, "64KiB");
        let mut masenko = server.connect();
        masenko.send("INFO\n");
        let info = masenko.line();
        let (_, next) = info.split_once(r#"{"name":"next","ready":2,"delayed":0,"to_ack":0}"#).expect(&info);
        assert_eq!(next, "]}");
        assert_eq!(
            info.matches(r#""ready":0,"delayed":0,"to_ack":0"#).count() + 1,
            info.matches("name").count(),
            "{info}"
        );
        put_next(&server, facts["next"] + 2);
        server.stop();
    }
}

#[test]
fn a_reader_that_shares_no_code_with_the_server_reads_every_format() {
    let reader = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/read-log");
    let python = Command::new("python3").arg("--version").output();
    assert!(python.is_ok_and(|output| output.status.success()), "python3 is needed, to run scripts/read-log");
    for fixture in fixtures() {
        let data = fixture.join("data");
        let read = run(Command::new("python3").args([text(&reader), "--jobs", text(&data)]));
        assert_eq!((read.code, read.stderr.as_str()), (Some(0), ""), "{}", fixture.display());
        let expected = fs::read_to_string(fixture.join("jobs.txt")).unwrap();
        for (read, expected) in read.stdout.lines().zip(expected.lines()) {
            assert_eq!(read, expected, "{}", fixture.display());
        }
        assert_eq!(read.stdout.lines().count(), expected.lines().count(), "{}", fixture.display());
    }
}

#[test]
fn there_is_a_fixture_of_the_format_that_is_written() {
    let directory = Directory::new();
    let data = directory.join("data");
    start(&data, "64KiB").stop();
    let manifest = fs::read_to_string(data.join("manifest")).unwrap();
    let format = manifest.lines().find_map(|line| line.strip_prefix("format ")).unwrap();
    let name = format!("format-{format}");
    let is_there = fixtures().iter().any(|fixture| fixture.ends_with(&name));
    assert!(is_there, "make it: scripts/fixture crates/server/tests/fixtures/{name}");
}
