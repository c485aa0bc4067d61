//! What the codec makes of bytes and replies; what a server answers is in the transcripts.

use jobyard_engine::{
    By, Command, Due, JobRef, JobView, LeaseId, Limits, NewJob, OwnTime, QueueName, Refusal, Reply, Role, Start,
    StateView, Tally,
};

use super::*;
use crate::testing;

/// A connection, and what it has said.
struct Client {
    codec: Beanstalkd,
    input: Input,
    out: Vec<u8>,
    limits: Limits,
}

impl Client {
    /// One that has told the engine that it is there.
    fn new() -> Self {
        let mut client = Client::fresh();
        let next = client.decode();
        assert!(matches!(next, Next::Command(Command::Attend { .. })), "{next:?}");
        client.hear(&Reply::Done);
        assert!(client.said().is_empty());
        client
    }

    fn fresh() -> Self {
        Client { codec: Beanstalkd::default(), input: Input::default(), out: Vec::new(), limits: Limits::default() }
    }

    fn decode(&mut self) -> Next {
        self.codec.decode(&mut self.input, &mut self.out, &testing::context(&self.limits))
    }

    fn send(&mut self, bytes: &str) -> Next {
        self.input.push(bytes.as_bytes());
        self.decode()
    }

    /// The command that a request becomes.
    fn asks(&mut self, bytes: &str) -> Command {
        match self.send(bytes) {
            Next::Command(command) => command,
            next => panic!("{bytes:?} became {next:?}"),
        }
    }

    fn hear(&mut self, reply: &Reply<'_>) {
        self.codec.encode(reply, &mut self.out, &testing::context(&self.limits));
    }

    /// What it has said since it was last asked.
    fn said(&mut self) -> String {
        String::from_utf8(std::mem::take(&mut self.out)).unwrap()
    }
}

#[test]
fn who_connects_attends_the_default_tube_in_both_ways_and_hears_nothing_of_it() {
    let mut client = Client::fresh();
    let Next::Command(Command::Attend { queue, role, keeps_queue }) = client.decode() else { panic!() };
    assert_eq!((queue.as_bytes(), role, keeps_queue), (DEFAULT_TUBE, Role::Both, true));
    // It goes on without: who cannot be counted can work all the same.
    client.hear(&Reply::Refused(Refusal::DiskFull));
    assert!(matches!(client.decode(), Next::More));
    assert_eq!(client.said(), "");
}

#[test]
fn a_put_becomes_a_job_of_the_tube_that_is_used() {
    let mut client = Client::new();
    client.asks("use mail\r\n");
    client.hear(&Reply::Done);
    assert_eq!(client.said(), "USING mail\r\n");
    let Command::Enqueue(job) = client.asks("put 7 2 0 3\r\na\0b\r\n") else { panic!() };
    let expected = NewJob {
        urgency: -7,
        own_time: OwnTime::Millis(1_000),
        start: Start::After(2_000),
        keeps_queue: false,
        ..NewJob::plain(QueueName::new(b"mail"), (*b"a\0b").into())
    };
    assert_eq!(*job, expected);
    client.hear(&Reply::Enqueued { number: 9, uuid: jobyard_engine::Uuid::of_number(9) });
    assert_eq!(client.said(), "INSERTED 9\r\n");
}

#[test]
fn a_body_that_is_too_big_is_skipped_and_never_kept() {
    let mut client = Client::new();
    client.limits.body_bytes_max = 10;
    assert!(matches!(client.send("put 0 0 60 4294967295\r\n"), Next::More));
    for _ in 0..3 {
        assert!(matches!(client.send(&"x".repeat(1 << 20)), Next::More));
        assert!(client.input.is_empty());
    }
    let mut client = Client { limits: client.limits, ..Client::new() };
    assert!(matches!(client.send("put 0 0 60 11\r\n0123456789"), Next::More));
    assert!(matches!(client.send("0xx"), Next::Answered));
    assert_eq!(client.said(), "JOB_TOO_BIG\r\n");
    assert!(client.input.is_empty());
}

#[test]
fn a_line_that_is_too_long_is_never_kept() {
    let mut client = Client::new();
    for _ in 0..3 {
        assert!(matches!(client.send(&"x".repeat(1 << 20)), Next::More));
        assert!(client.input.is_empty());
    }
    assert!(matches!(client.send("\r"), Next::More));
    assert!(matches!(client.send("\n"), Next::Answered));
    assert_eq!(client.said(), "BAD_FORMAT\r\n");
}

#[test]
fn what_is_watched_is_counted_as_long_as_it_is() {
    let mut client = Client::new();
    let before = client.codec.kept_bytes();
    client.asks("watch mail\r\n");
    client.hear(&Reply::Done);
    let with_one = client.codec.kept_bytes();
    assert!(with_one > before + 4, "{with_one} bytes, and {before} before");
    client.asks("watch mail\r\n");
    client.hear(&Reply::Done);
    assert_eq!(client.codec.kept_bytes(), with_one);
    client.asks("ignore mail\r\n");
    client.hear(&Reply::Done);
    assert_eq!(client.codec.kept_bytes(), before);
}

#[test]
fn whoever_holds_a_job_or_anyone_if_nobody_does_may_delete_it() {
    let command = Client::new().asks("delete 7\r\n");
    assert!(matches!(command, Command::Remove { job: JobRef::Number(7), by: By::HolderOrNobody }), "{command:?}");
}

#[test]
fn every_refusal_has_its_words() {
    let cases = [
        (Refusal::NoSuchJob, "NOT_FOUND"),
        (Refusal::NotHeld, "NOT_FOUND"),
        (Refusal::Finished, "NOT_FOUND"),
        (Refusal::WrongState, "NOT_FOUND"),
        (Refusal::NoSuchQueue, "NOT_FOUND"),
        (Refusal::Draining, "DRAINING"),
        (Refusal::OutOfMemory, "OUT_OF_MEMORY"),
        (Refusal::DiskFull, "OUT_OF_MEMORY"),
        (Refusal::TooManyHeld, "OUT_OF_MEMORY"),
        (Refusal::TooManyNamed, "OUT_OF_MEMORY"),
        (Refusal::TooManyQueues, "OUT_OF_MEMORY"),
        (Refusal::QueueNameTooLong, "OUT_OF_MEMORY"),
    ];
    for (refusal, words) in cases {
        let mut client = Client::new();
        client.asks("reserve-job 1\r\n");
        client.hear(&Reply::Refused(refusal));
        assert_eq!(client.said(), format!("{words}\r\n"), "{refusal:?}");
    }
}

#[test]
fn a_job_that_is_there_and_cannot_be_given_is_not_said_to_be_gone() {
    let mut client = Client::new();
    client.asks("reserve-job 1\r\n");
    client.hear(&Reply::NoJob);
    assert_eq!(client.said(), "OUT_OF_MEMORY\r\n");
    client.asks("reserve\r\n");
    client.hear(&Reply::NoJob);
    assert_eq!(client.said(), "TIMED_OUT\r\n");
    client.asks("reserve\r\n");
    let queue = QueueName::new(b"q");
    client.hear(&Reply::Leased { job: testing::leased(3, &queue, b"\r\n"), lease: LeaseId(1) });
    assert_eq!(client.said(), "RESERVED 3 2\r\n\r\n\r\n");
}

#[test]
fn a_job_of_another_protocol_is_shown_as_well_as_can_be() {
    let queue = QueueName::new(b"a\"\\\n\xff\xc2\x85");
    let view = JobView {
        urgency: 5,
        own_time: OwnTime::Millis(1_500),
        state: StateView::Blocked,
        until: Some(Due::Wall(2_001)),
        tally: Tally { leases: 1, timeouts: 2, releases: 3, burials: 4, revivals: 5 },
        ..testing::leased(3, &queue, b"")
    };
    let mut client = Client::new();
    client.asks("stats-job 3\r\n");
    client.hear(&Reply::Job(view.clone()));
    let page = "---\nid: 3\ntube: \"a\\\"\\\\\\u000a\\xff\\u0085\"\nstate: delayed\npri: 0\nage: 0\ndelay: 0\nttr: 2\n\
        time-left: 2\nfile: 0\nreserves: 1\ntimeouts: 2\nreleases: 3\nburies: 4\nkicks: 5\n";
    assert_eq!(client.said(), format!("OK {}\r\n{page}\r\n", page.len()));
    for state in [StateView::Done, StateView::Failed] {
        for line in ["stats-job 3\r\n", "peek 3\r\n"] {
            client.asks(line);
            client.hear(&Reply::Job(JobView { state, ..view.clone() }));
            assert_eq!(client.said(), "NOT_FOUND\r\n", "{state:?}");
        }
    }
}

#[test]
fn first_bytes_are_told_from_those_of_others() {
    for bytes in ["put 1", "use a", "reserve\r\n", "reserve-job 1", "peek-ready", "peek 1", "stats", "list-tubes"] {
        assert_eq!(begins(bytes.as_bytes()), Begins::Yes, "{bytes}");
    }
    for bytes in ["delete 7\r\n", "delete   18446744073709551615\r\n", "quit\r\n", "pause-tube a 1", "kick-job 1"] {
        assert_eq!(begins(bytes.as_bytes()), Begins::Yes, "{bytes}");
    }
    for bytes in ["p", "pu", "re", "quit", "quit\r", "delete ", "delete 7", "delete 7\r", "list-", "kick"] {
        assert_eq!(begins(bytes.as_bytes()), Begins::Maybe, "{bytes}");
    }
    for bytes in ["PUT 1", "putx", "quit\n", "delete \r\n", "delete 7a", "delete 7\rx", "add 1", "lease a"] {
        assert_eq!(begins(bytes.as_bytes()), Begins::No, "{bytes}");
    }
}
