use jobyard_engine::{Counters, LeaseId, QueueCounts, QueueView};

use super::*;
use crate::testing;

struct Peer {
    codec: Takeanumber,
    input: Input,
    limits: Limits,
}

impl Peer {
    fn new(query: &str) -> Self {
        let options = Options::parse(query, &["dialect", "lease"]).unwrap();
        Peer { codec: Takeanumber::new(&options), input: Input::default(), limits: Limits::default() }
    }

    fn context(limits: &Limits) -> Context<'_> {
        Context { clients: 2, clients_total: 7, client: 7, ..testing::context(limits) }
    }

    fn next(&mut self, bytes: &[u8]) -> (Next, String) {
        self.input.push(bytes);
        let mut out = Vec::new();
        let next = self.codec.decode(&mut self.input, &mut out, &Self::context(&self.limits));
        (next, out.escape_ascii().to_string())
    }

    fn command(&mut self, bytes: &[u8]) -> Command {
        match self.next(bytes) {
            (Next::Command(command), out) if out.is_empty() => command,
            other => panic!("{other:?}"),
        }
    }

    fn said(&mut self, bytes: &[u8]) -> String {
        match self.next(bytes) {
            (Next::Answered, out) => out,
            other => panic!("{other:?}"),
        }
    }

    fn last_words(&mut self, bytes: &[u8]) -> String {
        match self.next(bytes) {
            (Next::Close, out) => out,
            other => panic!("{other:?}"),
        }
    }

    fn reply(&mut self, reply: &Reply<'_>) -> String {
        let mut out = Vec::new();
        self.codec.encode(reply, &mut out, &Self::context(&self.limits));
        out.escape_ascii().to_string()
    }
}

fn array(words: &[&str]) -> Vec<u8> {
    let words: String = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
    format!("*{}\r\n{words}", words.matches('$').count()).into_bytes()
}

#[test]
fn first_bytes_tell_the_protocol() {
    for (bytes, expected) in [
        (&b""[..], Begins::Maybe),
        (b"*", Begins::Yes),
        (b"L", Begins::Maybe),
        (b"LEN", Begins::Maybe),
        (b"LEN ", Begins::Yes),
        (b"ADD ", Begins::Yes),
        (b"ADD\0", Begins::No),
        (b"RE", Begins::Maybe),
        (b"RESERVE q", Begins::Yes),
        (b"RETRY ", Begins::Yes),
        (b"RETRO", Begins::No),
        (b"DONE ", Begins::Yes),
        (b"DONE\r", Begins::No),
        (b"CLOSE", Begins::Maybe),
        (b"CLOSE\r", Begins::Yes),
        (b"CLOSE\n", Begins::Yes),
        (b"CLOSE ", Begins::No),
        (b"len ", Begins::No),
        (b"+", Begins::No),
    ] {
        assert_eq!(begins(bytes), expected, "{}", bytes.escape_ascii());
    }
}

#[test]
fn a_job_that_is_added_brings_its_retries() {
    for (retries, allowed) in [("3", 3), ("0", 0), ("-7", 0), ("+2", 2), ("9223372036854775807", i64::MAX as u64)] {
        let Command::Enqueue(job) = Peer::new("").command(format!("ADD q {retries} x y\r\n").as_bytes()) else {
            panic!("not an enqueue");
        };
        let rule = FailureRule {
            allowed: Some(allowed),
            backoff: Backoff::None,
            used_up: UsedUp::Remove,
            parting_counts: true,
        };
        let expected = NewJob { failures: Some(rule), ..NewJob::plain(QueueName::new(b"q"), b"x y".as_slice().into()) };
        assert_eq!(*job, expected);
    }
    for retries in ["x", "", "1.5", "9223372036854775808", "1_0", "\u{661}"] {
        let said = Peer::new("").said(format!("ADD q {retries} x\r\n").as_bytes());
        assert_eq!(said, r"-ERR Invalid number of retries.\r\n", "{retries}");
    }
}

#[test]
fn a_line_takes_no_body_that_holds_its_end_and_an_array_takes_any() {
    let queue = QueueName::new(b"q");
    let request = |command| match command {
        Command::Lease(request) => *request,
        other => panic!("{other:?}"),
    };
    let mut peer = Peer::new("");
    let lease = request(peer.command(b"RESERVE q\r\n"));
    assert_eq!((lease.hold, lease.wait, lease.body_without), (Hold::Endless, Wait::No, Some(b'\n')));
    let job = testing::leased(1, &queue, b"a\rb");
    assert_eq!(
        peer.reply(&Reply::Leased { job, lease: LeaseId(1) }),
        r"+6a6f6279-6172-4640-8000-000000000001 a\rb\r\n"
    );
    let lease = request(peer.command(&array(&["RESERVE", "q"])));
    assert_eq!(lease.body_without, None);
    let job = testing::leased(1, &queue, b"a\rb");
    assert_eq!(
        peer.reply(&Reply::Leased { job, lease: LeaseId(2) }),
        r"$40\r\n6a6f6279-6172-4640-8000-000000000001 a\rb\r\n"
    );
    let lease = request(Peer::new("lease=5m").command(b"RESERVE q\r\n"));
    assert_eq!(lease.hold, Hold::For(300_000));
}

#[test]
fn an_empty_queue_is_told_as_the_dialect_has_it() {
    for (query, expected) in [("", r":-1\r\n"), ("dialect=original", r"-ERR No items available to reserve.\r\n")] {
        let mut peer = Peer::new(query);
        peer.command(b"RESERVE q\n");
        assert_eq!(peer.reply(&Reply::NoJob), expected);
    }
}

#[test]
fn an_id_is_read_in_any_usual_spelling() {
    for id in [
        "0269073f-f624-4cf9-8c53-ab3d194137b3",
        "0269073F-F624-4CF9-8C53-AB3D194137B3",
        "0269073ff6244cf98c53ab3d194137b3",
        "{0269073f-f624-4cf9-8c53-ab3d194137b3}",
        "urn:uuid:0269073f-f624-4cf9-8c53-ab3d194137b3",
    ] {
        let command = Peer::new("").command(format!("DONE q {id}\r\n").as_bytes());
        let Command::Complete { job, by: By::Anyone, .. } = command else { panic!("{command:?}") };
        let uuid = Uuid(0x0269_073f_f624_4cf9_8c53_ab3d_1941_37b3);
        assert_eq!(job, JobRef::InQueue(uuid, QueueName::new(b"q")));
    }
    assert_eq!(Peer::new("").said(b"DONE q 7\r\n"), r"-ERR No such Id.\r\n");
    assert_eq!(Peer::new("").said(b"RETRY q 7\r\n"), r"-ERR No retries remaining.\r\n");
}

#[test]
fn refusals_are_told_in_the_words_of_what_was_asked() {
    let id = "0269073f-f624-4cf9-8c53-ab3d194137b3";
    for refusal in [Refusal::NoSuchJob, Refusal::Finished] {
        let mut peer = Peer::new("");
        peer.command(format!("DONE q {id}\r\n").as_bytes());
        assert_eq!(peer.reply(&Reply::Refused(refusal)), r"-ERR No such Id.\r\n");
        peer.command(format!("RETRY q {id}\r\n").as_bytes());
        assert_eq!(peer.reply(&Reply::Refused(refusal)), r"-ERR No retries remaining.\r\n");
    }
    let mut peer = Peer::new("");
    peer.command(b"ADD q 1 x\r\n");
    assert_eq!(peer.reply(&Reply::Refused(Refusal::OutOfMemory)), r"-ERR Out of memory.\r\n");
    peer.command(b"RESERVE q\r\n");
    assert_eq!(peer.reply(&Reply::Refused(Refusal::BodyUnfit)), r"-ERR Body cannot be sent in a line.\r\n");
}

#[test]
fn a_length_counts_what_is_not_reserved() {
    let queue = QueueName::new(b"q");
    let mut peer = Peer::new("");
    peer.command(b"LEN q\r\n");
    let counts = QueueCounts { ready: 2, delayed: 3, leased: 5, buried: 4 };
    assert_eq!(peer.reply(&Reply::Queue(QueueView::plain(&queue, counts))), r":5\r\n");
    peer.command(b"LEN q\r\n");
    assert_eq!(peer.reply(&Reply::Refused(Refusal::NoSuchQueue)), r":0\r\n");
}

#[test]
fn a_line_over_the_limit_ends_the_connection() {
    let mut peer = Peer::new("");
    peer.limits = Limits { body_bytes_max: 4, line_extra_bytes_max: 16, ..Limits::default() };
    assert_eq!(peer.last_words(b"ADD q 1 5bytes\r\n"), r"-ERR Body is longer than 4 bytes.\r\n");
    assert_eq!(peer.last_words(&[b'x'; 21]), r"-ERR Line is longer than 20 bytes.\r\n");
}

#[test]
fn closing_is_silent() {
    assert_eq!(Peer::new("").last_words(b"CLOSE\r\n"), "");
    assert_eq!(Peer::new("").last_words(&array(&["CLOSE"])), "");
    assert_eq!(Peer::new("").last_words(&array(&["quit"])), r"+OK\r\n");
}

#[test]
fn a_greeting_settles_how_maps_are_written() {
    let mut peer = Peer::new("");
    let old = peer.said(&array(&["HELLO"]));
    assert!(old.starts_with(r"*14\r\n$6\r\nserver\r\n"), "{old}");
    assert!(old.contains(r"$5\r\nproto\r\n:2\r\n$2\r\nid\r\n:7\r\n"), "{old}");
    let new = peer.said(&array(&["hello", "3", "auth", "default", "x", "SETNAME", "me"]));
    assert!(new.starts_with(r"%7\r\n"), "{new}");
    assert_eq!(peer.said(&array(&["CLIENT", "GETNAME"])), r"$2\r\nme\r\n");
    assert!(peer.said(&array(&["INFO"])).starts_with("="));
    assert_eq!(peer.said(&array(&["RESET"])), r"+RESET\r\n");
    assert_eq!(peer.said(&array(&["CLIENT", "GETNAME"])), r"$-1\r\n");
    assert!(peer.said(&array(&["INFO"])).starts_with("$"));
    for bad in [&["HELLO", "4"][..], &["HELLO", "x"]] {
        assert!(peer.said(&array(bad)).starts_with("-NOPROTO"));
    }
    for bad in [&["HELLO", "3", "AUTH", "x"][..], &["HELLO", "3", "SETNAME"], &["HELLO", "3", "what"]] {
        assert_eq!(peer.said(&array(bad)), r"-ERR Syntax error in HELLO option.\r\n");
    }
    assert!(peer.said(&array(&["HELLO"])).starts_with("*14"), "a refused greeting changes nothing");
}

#[test]
fn a_refused_question_leaves_the_next_one_readable() {
    let mut peer = Peer::new("");
    peer.input.push(b"what\r\nLEN q\r\n");
    assert_eq!(peer.said(b""), r"-ERR Unrecognized command.\r\n");
    assert!(matches!(peer.command(b""), Command::Look(Look::Queue(_))));
}

#[test]
#[should_panic(expected = "was answered")]
fn a_reply_to_something_else_is_a_bug() {
    let mut peer = Peer::new("");
    peer.command(b"LEN q\r\n");
    peer.reply(&Reply::Server(Counters::default()));
}
