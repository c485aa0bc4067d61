//! The codec by itself: what lines become, and what replies become.

use jobyard_engine::{
    Backoff, Blocker, By, Choice, Counters, DateRank, FailureRule, Hold, JobNumber, JobRef, JobView, LeaseId, Limits,
    NewJob, OwnTime, Parting, QueueCounts, QueueName, QueueView, Refusal, Start, StateView, Step, Tally, UsedUp, Uuid,
    Wait,
};

use super::*;
use crate::testing;

/// One connection, and all it was given to write.
struct Client {
    codec: Masenko,
    input: Input,
    limits: Limits,
    engine_ms: u64,
    out: Vec<u8>,
}

impl Client {
    fn new() -> Self {
        Client::with(&Options::default(), Limits::default())
    }

    fn with(options: &Options, limits: Limits) -> Self {
        let codec = Masenko::new(options, Now { engine_ms: 0, wall_ms: 0, random: 0 });
        Client { codec, input: Input::default(), limits, engine_ms: 0, out: Vec::new() }
    }

    fn context(limits: &Limits, engine_ms: u64) -> Context<'_> {
        Context { now: testing::now(engine_ms), clients_total: 3, client: 3, ..testing::context(limits) }
    }

    fn decode(&mut self, bytes: &[u8]) -> Next {
        self.input.push(bytes);
        self.codec.decode(&mut self.input, &mut self.out, &Client::context(&self.limits, self.engine_ms))
    }

    fn encode(&mut self, reply: &Reply<'_>) -> String {
        self.codec.encode(reply, &mut self.out, &Client::context(&self.limits, self.engine_ms));
        self.heard()
    }

    fn heard(&mut self) -> String {
        String::from_utf8(std::mem::take(&mut self.out)).unwrap()
    }

    /// The command that a line is.
    #[track_caller]
    fn command(&mut self, line: &str) -> Command {
        match self.decode(format!("{line}\n").as_bytes()) {
            Next::Command(command) => command,
            other => panic!("{line}: {other:?} {}", self.heard()),
        }
    }

    /// The answer to a line that needs no engine.
    #[track_caller]
    fn answer(&mut self, line: &str) -> String {
        let next = self.decode(format!("{line}\n").as_bytes());
        assert!(matches!(next, Next::Answered), "{line}: {next:?}");
        self.heard()
    }
}

#[track_caller]
fn pushed(json: &str) -> NewJob {
    match Client::new().command(&format!("PUSH {json}")) {
        Command::Enqueue(job) => *job,
        other => panic!("{json}: {other:?}"),
    }
}

#[track_caller]
fn error(line: &str, text: &str) {
    assert_eq!(Client::new().answer(line), format!("ERR {{\"msg\":\"{text}\"}}\n"), "{line}");
}

#[test]
fn a_task_has_the_documented_defaults() {
    let failures =
        FailureRule { allowed: Some(20), backoff: Backoff::Quartic, used_up: UsedUp::Remove, parting_counts: true };
    let plain = NewJob {
        name: Some("n".into()),
        failures: Some(failures),
        ..NewJob::plain(QueueName::new(b"default"), Box::default())
    };
    let without = r#"{"name":"n"}"#;
    let nulls = r#"{"name":"n","queue":null,"deadqueue":null,"retry":null,"execute_at":null,"blocked_by":null}"#;
    let empty = r#"{"NAME":"x","unknown":{},"Name":"n","deadqueue":"","blocked_by":[]}"#;
    for json in [without, nulls, empty] {
        assert_eq!(pushed(json), plain, "{json}");
    }
    assert_eq!(pushed(r#"{"name":"n","payload": null }"#).body.as_ref(), b"null");
}

#[test]
fn a_task_has_what_was_asked_for() {
    let job = pushed(
        r#"{"name":"n","queue":"q","deadqueue":"d","payload":{ "b":1.10 },"retry":255,
            "execute_at":"2026-01-01T00:00:10.0001Z","blocked_by":[3,9223372036854775807]}"#
            .replace('\n', "")
            .as_str(),
    );
    assert_eq!(job.queue, QueueName::new(b"q"));
    assert_eq!(job.body.as_ref(), b"{ \"b\":1.10 }");
    assert_eq!(job.start, Start::At { wall_ms: 1_767_225_610_001, rank: DateRank::Ahead });
    assert_eq!(job.blockers, [Blocker::Number(3), Blocker::Number(i64::MAX.unsigned_abs())]);
    let failures = job.failures.unwrap();
    assert_eq!((failures.allowed, failures.used_up), (Some(255), UsedUp::MoveTo(QueueName::new(b"d"))));
}

#[test]
fn a_push_that_makes_no_sense_is_refused() {
    for json in [
        "",
        "{",
        "[]",
        "1",
        r#"{"name":1}"#,
        r#"{"name":"n","queue":1}"#,
        r#"{"name":"n","retry":256}"#,
        r#"{"name":"n","retry":-1}"#,
        r#"{"name":"n","retry":1.0}"#,
        r#"{"name":"n","retry":"1"}"#,
        r#"{"name":"n","execute_at":"tomorrow"}"#,
        r#"{"name":"n","execute_at":12}"#,
        r#"{"name":"n","blocked_by":1}"#,
        r#"{"name":"n","blocked_by":[1.0]}"#,
        r#"{"name":"n","blocked_by":[9223372036854775808]}"#,
        r#"{"name":"n"} x"#,
    ] {
        error(&format!("PUSH {json}"), "cannot unmarshal payload");
    }
    error("PUSH null", r#"invalid task name \"\""#);
    error("PUSH {}", r#"invalid task name \"\""#);
    error(r#"PUSH {"name":"n","queue":""}"#, r#"invalid queue name \"\""#);
    error(
        r#"PUSH {"name":"n","queue":"<\"\\\u0000\u2028\n>"}"#,
        r#"invalid queue name \"\u003c\\\"\\\\\\x00\\u2028\\n\u003e\""#,
    );
    let unprintable = r"\u007f\u0085\u00a0\u00ad\u200b\u2028\ufeff\ue000\uffff\udb40\udc01\udb80\udc00";
    let escaped = r"\\x7f\\u0085\\u00a0\\u00ad\\u200b\\u2028\\ufeff\\ue000\\uffff\\U000e0001\\U000f0000";
    error(&format!("PUSH {{\"name\":\"{unprintable}\"}}"), &format!(r#"invalid task name \"{escaped}\""#));
    let printable = "é\u{301} '€😀\u{fffd}";
    error(&format!("PUSH {{\"name\":\"{printable}\"}}"), &format!(r#"invalid task name \"{printable}\""#));
    error(r#"PUSH {"name":"n","deadqueue":"!"}"#, r#"invalid queue name \"!\""#);
    error(r#"PUSH {"name":"é"}"#, r#"invalid task name \"é\""#);
    error(r#"PUSH {"name":"n","blocked_by":[1,0]}"#, "cannot use relative blocked by outside of a transaction");
    error(r#"PUSH {"name":"n","blocked_by":[1,null]}"#, "cannot use relative blocked by outside of a transaction");
    error(r#"PUSH {"name":"n","blocked_by":[-1]}"#, "cannot use relative blocked by outside of a transaction");
    let ids = vec!["1"; 256].join(",");
    let text = "at most 255 blocked by task IDs can be provided";
    error(&format!("PUSH {{\"name\":\"n\",\"blocked_by\":[{ids}]}}"), text);
    assert_eq!(pushed(&format!("{{\"name\":\"n\",\"blocked_by\":[{}]}}", &ids[2..])).blockers.len(), 255);
}

#[test]
fn what_is_no_text_is_replaced_as_go_does() {
    let job = pushed(r#"{"\ud800":1,"name":"a\ud800","queue":"\udc00-","deadqueue":"d\ud83d\ud83d\ude00"}"#);
    assert_eq!((job.name.as_deref(), &job.queue), (Some("a\u{fffd}"), &QueueName::new("\u{fffd}-".as_bytes())));
    let deadqueue = QueueName::new("d\u{fffd}😀".as_bytes());
    assert_eq!(job.failures.unwrap().used_up, UsedUp::MoveTo(deadqueue));
    let next = Client::new().decode(b"PUSH {\"\xff\":1,\"name\":\"n\xe2\x80\",\"payload\":[\"\xff\"]}\n");
    let Next::Command(Command::Enqueue(job)) = next else { panic!("{next:?}") };
    assert_eq!((job.name.as_deref(), &*job.body), (Some("n\u{fffd}\u{fffd}"), "[\"\u{fffd}\"]".as_bytes()));
    let mut client = Client::new();
    assert!(matches!(client.decode(b"PUSH {\"name\":\"n\"}\xff\n"), Next::Answered));
    assert_eq!(client.heard(), "ERR {\"msg\":\"cannot unmarshal payload\"}\n");
}

#[test]
fn names_may_have_255_bytes() {
    let (longest, longer) = ("é".repeat(127) + "a", "a".repeat(256));
    for field in ["name", "queue", "deadqueue"] {
        pushed(&format!("{{\"name\":\"n\",\"{field}\":\"{longest}\"}}"));
        let kind = if field == "name" { "task" } else { "queue" };
        let line = format!("PUSH {{\"name\":\"n\",\"{field}\":\"{longer}\"}}");
        error(&line, &format!("{kind} name is longer than 255 bytes"));
    }
    assert!(requests::nameable(longest.as_bytes()));
    for name in [longer.as_bytes(), b"", b"!", "é".as_bytes(), b"a\xff"] {
        assert!(!requests::nameable(name), "{name:?}");
    }
}

#[test]
fn a_payload_over_the_limit_is_refused() {
    let limits = Limits { body_bytes_max: 5, ..Limits::default() };
    let mut client = Client::with(&Options::default(), limits);
    client.command(r#"PUSH {"name":"n","payload":12345}"#);
    let answer = client.answer(r#"PUSH {"name":"n","payload":123456}"#);
    assert_eq!(answer, "ERR {\"msg\":\"payload is longer than 5 bytes\"}\n");
}

#[track_caller]
fn fetched(line: &str) -> (Vec<QueueName>, Wait) {
    match Client::new().command(line) {
        Command::Lease(request) => {
            assert_eq!((request.choice, request.hold), (Choice::InOrder, Hold::Connection(Parting::Fail)));
            assert!(!request.creates_queues && request.body_without.is_none());
            (request.queues, request.wait)
        }
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn a_fetch_asks_the_default_queue_for_half_a_heartbeat() {
    for line in ["FETCH", "fetch", "FETCH ", "FETCH   ", "FETCH\r", "FETCH \r", "FETCH {}", "FETCH null"] {
        assert_eq!(fetched(line), (vec![QueueName::new(b"default")], Wait::Millis(22_500)), "{line}");
    }
}

#[test]
fn a_timeout_is_a_go_duration_or_nanoseconds() {
    for (timeout, wait_ms) in
        [("\"2.5s\"", 2_500), ("1", 1), ("1000001", 2), ("\"45s\"", 45_000), ("45000000000", 45_000)]
    {
        let (queues, wait) = fetched(&format!("FETCH {{\"queues\":[\"b\",\"\"],\"timeout\":{timeout}}}"));
        assert_eq!((queues.len(), wait), (2, Wait::Millis(wait_ms)), "{timeout}");
    }
    for timeout in ["0", "-1", "\"0\"", "\"-1s\"", "null"] {
        error(&format!("FETCH {{\"timeout\":{timeout}}}"), "timeout must be greater than zero");
    }
    for timeout in ["45000000001", "\"46s\"", "\"1h\""] {
        let text = "timeout must be smaller than the heartbeat frequency 45s";
        error(&format!("FETCH {{\"timeout\":{timeout}}}"), text);
    }
    for json in ["{", "[]", "{\"timeout\":1.5}", "{\"timeout\":\"5\"}", "{\"queues\":\"q\"}", "{\"queues\":[1]}"] {
        error(&format!("FETCH {json}"), "cannot unmarshal payload");
    }
}

#[test]
fn a_fetch_from_no_queue_finds_nothing() {
    assert_eq!(Client::new().answer("FETCH {\"queues\":[]}"), "EMPTY {}\n");
    assert_eq!(Client::new().answer("FETCH {\"queues\":null}"), "EMPTY {}\n");
    let queues = fetched("FETCH {\"queues\":[null,\"a\\ud800\"]}").0;
    assert_eq!(queues, [QueueName::new(b""), QueueName::new("a\u{fffd}".as_bytes())]);
}

#[test]
fn ack_and_nack_name_their_task() {
    let mut client = Client::new();
    assert!(matches!(
        client.command(r#"ACK {"id":18446744073709551615}"#),
        Command::Complete { job: JobRef::Number(JobNumber::MAX), by: By::Holder, .. }
    ));
    assert_eq!(client.encode(&Reply::Done), "OK {}\n");
    assert!(matches!(client.command(r#"nack {"ID":7}"#), Command::Fail { job: JobRef::Number(7), by: By::Holder, .. }));
    assert_eq!(client.encode(&Reply::Failed { finally: true }), "OK {}\n");
    for verb in ["ACK", "NACK"] {
        for json in ["{}", "null", "{\"id\":0}", "{\"id\":null}"] {
            error(&format!("{verb} {json}"), "missing id");
        }
        for json in ["", "{", "{}}"] {
            error(&format!("{verb} {json}"), "unmarshal payload: not valid JSON");
        }
        error(&format!("{verb} [1]"), "unmarshal payload: not a JSON object");
        for id in ["-1", "1.0", "1e2", "\"1\"", "18446744073709551616"] {
            error(&format!("{verb} {{\"id\":{id}}}"), "unmarshal payload: id is not an unsigned integer");
        }
    }
    for refusal in [Refusal::NoSuchJob, Refusal::NotHeld, Refusal::Finished] {
        assert_eq!(client.encode(&Reply::Refused(refusal)), "ERR {\"msg\":\"task not acquired\"}\n");
    }
}

#[test]
fn other_verbs_need_no_engine() {
    let mut client = Client::new();
    for line in ["PING", "ping", "PiNg {}", "PING whatever", "PING\r"] {
        assert_eq!(client.answer(line), "PONG {}\n", "{line}");
    }
    assert_eq!(client.answer("Foo<>\t{}"), "ERR {\"msg\":\"unknown verb Foo\\u003c\\u003e\\t{}\"}\n");
    assert_eq!(client.answer(""), "ERR {\"msg\":\"unknown verb \"}\n");
    assert_eq!(client.answer("DONE"), "ERR {\"msg\":\"unknown verb DONE\"}\n");
    assert!(matches!(client.decode(b"a\xffb\n"), Next::Answered));
    assert_eq!(client.heard(), "ERR {\"msg\":\"unknown verb a\u{fffd}b\"}\n");
    assert!(client.answer(&"x".repeat(10_000)).len() < 300);
    assert!(matches!(client.decode(b"quit {}\nPING\n"), Next::Close));
    assert_eq!(client.heard(), "OK {}\n");
}

#[test]
fn a_line_over_the_limit_ends_the_connection() {
    let limits = Limits { body_bytes_max: 10, line_extra_bytes_max: 10, ..Limits::default() };
    let mut client = Client::with(&Options::default(), limits);
    assert!(matches!(client.decode(b"PING 7890123456789012"), Next::Close));
    assert_eq!(client.heard(), "ERR {\"msg\":\"line is longer than 20 bytes\"}\n");
}

fn view<'a>(queue: &'a QueueName, name: Option<&'a str>, body: &'a [u8], failures: u64) -> Reply<'a> {
    let job = JobView {
        number: 5,
        uuid: Uuid::of_number(5),
        queue,
        name,
        body,
        urgency: 0,
        own_time: OwnTime::None,
        lifetime_ms: None,
        attempts: 0,
        attempts_max: None,
        failures,
        failures_allowed: None,
        state: StateView::Leased,
        created_wall_ms: 0,
        date_wall_ms: None,
        delay_ms: 0,
        until: None,
        tally: Tally::default(),
    };
    Reply::Leased { job, lease: LeaseId(1) }
}

#[test]
fn a_fetched_task_shows_what_there_is_of_it() {
    let (mut client, queue) = (Client::new(), QueueName::new(b"q<"));
    let answer = client.encode(&view(&queue, Some("n&"), b"", 0));
    assert_eq!(answer, "OK {\"id\":5,\"queue\":\"q\\u003c\",\"name\":\"n\\u0026\"}\n");
    let answer = client.encode(&view(&queue, None, b"{ \"b\": 1.10 }", 2));
    let expected = r#"OK {"id":5,"queue":"q\u003c","name":"q\u003c","payload":{"b":1.10},"failures":2}"#;
    assert_eq!(answer.trim_end(), expected);
    for failures in [255, 256, u64::MAX] {
        assert!(client.encode(&view(&queue, None, b"", failures)).ends_with(",\"failures\":255}\n"), "{failures}");
    }
}

#[test]
fn info_tells_of_queues_and_in_one_dialect_of_metrics() {
    let name = QueueName::new(b"q");
    let queue = QueueView::plain(&name, QueueCounts { ready: 1, delayed: 2, leased: 3, buried: 4 });
    let counters = Counters { enqueued: 4, leased: 5, completed: 6, failed: 7, dead: 8, evicted: 9, timed_out: 10 };
    let queues =
        r#"{"queues":[{"name":"q","ready":1,"delayed":2,"to_ack":3},{"name":"q","ready":1,"delayed":2,"to_ack":3}]"#;
    let metrics = r#"{"clients":3,"pushed":4,"fetched":5,"acked":6,"nacked":7,"dead":8}"#;
    let original = Options { dialect: Dialect::Original, ..Options::default() };
    let reply = Reply::Queues { queues: &[queue, queue], counters };
    assert_eq!(Client::new().encode(&reply), format!("OK {queues},\"metrics\":{metrics}}}\n"));
    assert_eq!(Client::with(&original, Limits::default()).encode(&reply), format!("OK {queues}}}\n"));
    let none = Reply::Queues { queues: &[], counters };
    assert_eq!(Client::with(&original, Limits::default()).encode(&none), "OK {\"queues\":[]}\n");
}

#[track_caller]
fn group(client: &mut Client, messages: &[&str]) -> Vec<Step> {
    match client.command(&format!("ATOMIC\n{}\nDONE", messages.join("\n"))) {
        Command::Group(steps) => steps,
        other => panic!("{messages:?}: {other:?}"),
    }
}

#[test]
fn a_transaction_is_one_command() {
    let mut client = Client::new();
    let steps = group(
        &mut client,
        &["push {\"name\":\"a\"}\r", "ACK {\"id\":9}", "PUSH {\"name\":\"b\",\"blocked_by\":[-1,4]}"],
    );
    let [Step::Enqueue(_), Step::Complete(JobRef::Number(9)), Step::Enqueue(last)] = steps.as_slice() else {
        panic!("{steps:?}")
    };
    assert_eq!(last.blockers, [Blocker::Previous(1), Blocker::Number(4)]);
    assert_eq!(client.encode(&Reply::Grouped { numbers: &[1, 2] }), "OK {\"ids\":[1,2]}\n");
    assert!(matches!(client.command("ATOMIC \r\ndone \r"), Command::Group(steps) if steps.is_empty()));
    assert_eq!(client.encode(&Reply::Grouped { numbers: &[] }), "OK {}\n");
}

#[test]
fn a_message_that_makes_no_sense_is_the_last_step() {
    let cases = [
        ("PUSH {}", "message 1: PUSH: invalid task name \\\"\\\""),
        ("PUSH {\"name\":\"n\",\"blocked_by\":[1,0]}", "message 1: PUSH: cannot self reference in blocked by"),
        ("PUSH", "message 1: PUSH: cannot unmarshal payload"),
        ("ACK {}", "message 1: ACK: missing id"),
        ("ACK x", "message 1: ACK: unmarshal payload: not valid JSON"),
        ("nack {\"id\":1}", "NACK is not allowed in transaction."),
        ("ATOMIC", "ATOMIC is not allowed in transaction."),
        ("", " is not allowed in transaction."),
        ("foo", "FOO is not allowed in transaction."),
    ];
    for (message, text) in cases {
        let mut client = Client::new();
        let steps = group(&mut client, &["PUSH {\"name\":\"a\"}", message, "more", &"x".repeat(1_000)]);
        assert!(matches!(steps.as_slice(), [Step::Enqueue(_), Step::Invalid]), "{message}: {steps:?}");
        let answer = client.encode(&Reply::GroupRefused { step: 1, refusal: Refusal::InvalidStep });
        assert_eq!(answer, format!("ERR {{\"msg\":\"{text}\"}}\n"), "{message}");
        assert_eq!(client.answer("PING"), "PONG {}\n");
    }
}

#[test]
fn the_engines_refusals_of_a_step_have_words() {
    let mut client = Client::new();
    let mut refused = |step, refusal| {
        group(&mut client, &["ACK {\"id\":77}", "PUSH {\"name\":\"a\"}", "FETCH"]);
        client.encode(&Reply::GroupRefused { step, refusal })
    };
    assert_eq!(refused(0, Refusal::NotHeld), "ERR {\"msg\":\"task 77 not acquired\"}\n");
    let text = "ERR {\"msg\":\"message 1: PUSH: invalid relative task position in blocked by\"}\n";
    assert_eq!(refused(1, Refusal::NoSuchPrevious), text);
    assert!(refused(1, Refusal::TooManyQueues).starts_with("ERR {\"msg\":\"message 1: PUSH: there are "));
}

#[test]
fn a_transaction_over_the_limits_is_refused_once() {
    let limits = Limits { group_steps_max: 2, group_bytes_max: 10, ..Limits::default() };
    let mut client = Client::with(&Options::default(), limits);
    let messages = ["ACK {\"id\":1}"; 4];
    let steps = group(&mut client, &messages);
    assert!(matches!(steps.as_slice(), [Step::Complete(_), Step::Complete(_), Step::Invalid]), "{steps:?}");
    let answer = client.encode(&Reply::GroupRefused { step: 2, refusal: Refusal::TooManySteps });
    assert_eq!(answer, "ERR {\"msg\":\"transaction has more than 2 messages\"}\n");
    assert_eq!(group(&mut client, &messages[2..]).len(), 2);

    let push = |payload: &str| format!("PUSH {{\"name\":\"n\",\"payload\":{payload}}}");
    let steps = group(&mut client, &[&push("12345"), &push("123456"), "more"]);
    assert!(matches!(steps.as_slice(), [Step::Enqueue(_), Step::Invalid]), "{steps:?}");
    let answer = client.encode(&Reply::GroupRefused { step: 1, refusal: Refusal::InvalidStep });
    assert_eq!(answer, "ERR {\"msg\":\"transaction has payloads of more than 10 bytes\"}\n");
    let steps = group(&mut client, &[&push("12345"), &push("12345")]);
    assert!(matches!(steps.as_slice(), [Step::Enqueue(_), Step::Enqueue(_)]), "{steps:?}");
    let steps = group(&mut client, &["PUSH {\"name\":\"n\"}", &push("12345678901")]);
    assert!(matches!(steps.as_slice(), [Step::Enqueue(_), Step::Enqueue(_)]), "alone with its payload: {steps:?}");
}

#[test]
fn what_follows_in_a_refused_transaction_is_not_kept_and_held_to_the_limit_of_a_line() {
    let limits = Limits { body_bytes_max: 100, line_extra_bytes_max: 100, ..Limits::default() };
    let refused = |line: &str, piece| {
        let mut client = Client::with(&Options::default(), limits.clone());
        assert!(matches!(client.decode(b"ATOMIC\nnonsense\n"), Next::More));
        let mut next = Next::More;
        for part in line.as_bytes().chunks(piece) {
            assert!(matches!(next, Next::More), "{line} in pieces of {piece}: {next:?}");
            next = client.decode(part);
            assert!(client.input.len() <= PASSED_OVER_BYTES_MAX, "{} bytes kept", client.input.len());
        }
        (next, client.heard())
    };
    for piece in [1, 7, usize::MAX] {
        for word in ["done ", "DONELY ", ""] {
            let (next, heard) = refused(&format!("{word:x<200}\n"), piece);
            let as_expected =
                if word == "done " { matches!(next, Next::Command(_)) } else { matches!(next, Next::More) };
            assert!(as_expected && heard.is_empty(), "{word} in pieces of {piece}: {next:?} {heard}");
            let (next, heard) = refused(&format!("{word:x<201}"), piece);
            assert!(matches!(next, Next::Close), "{word} in pieces of {piece}: {next:?}");
            assert_eq!(heard, "ERR {\"msg\":\"line is longer than 200 bytes\"}\n");
        }
    }
}

#[test]
fn an_open_transaction_counts_as_unfinished() {
    let mut client = Client::new();
    assert_eq!(client.codec.unfinished_bytes(), 0);
    assert!(matches!(client.decode(b"ATOMIC\nPUSH {\"name\":\"a\"}\n"), Next::More));
    let small = client.codec.unfinished_bytes();
    assert!(small > size_of::<NewJob>());
    let ids = vec!["1"; 255].join(",");
    let long = format!("PUSH {{\"name\":\"a\",\"blocked_by\":[{ids}],\"payload\":\"{}\"}}\n", "x".repeat(998));
    assert!(matches!(client.decode(long.as_bytes()), Next::More));
    assert!(client.codec.unfinished_bytes() >= 2 * small + 1_000 + 255 * size_of::<Blocker>());
}

#[test]
fn the_cut_of_the_input_makes_no_difference() {
    let text = b"ATOMIC\nPUSH {\"name\":\"a\"}\nACK {}\nPUSH {\"name\":\"b\", \"payload\":123456}\nDONE\n";
    let mut client = Client::new();
    for (at, byte) in text.iter().enumerate() {
        match client.decode(&[*byte]) {
            Next::More => assert!(at + 1 < text.len()),
            Next::Command(Command::Group(steps)) => {
                assert_eq!(at + 1, text.len());
                assert!(matches!(steps.as_slice(), [Step::Enqueue(_), Step::Invalid]));
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn whole_lines_outside_a_transaction_are_signs_of_life() {
    let options = Options { heartbeat_ms: 3_000, ..Options::default() };
    let mut client = Client::with(&options, Limits::default());
    let mut after = |engine_ms, bytes: &[u8]| {
        client.engine_ms = engine_ms;
        if let Next::Command(_) = client.decode(bytes) {
            client.encode(&Reply::Done);
        }
        client.codec.deadline_ms().unwrap()
    };
    assert_eq!(after(0, b""), 3_000);
    assert_eq!(after(100, b"PI"), 3_000);
    assert_eq!(after(200, b"NG\n"), 3_200);
    assert_eq!(after(300, b"nonsense\n"), 3_300);
    assert_eq!(after(400, b"ATOMIC\n"), 3_400);
    assert_eq!(after(500, b"PUSH {\"name\":\"n\"}\n"), 3_400);
    assert_eq!(after(600, b"DONE\n"), 3_600);
    assert_eq!(after(700, b"ATOMIC\nnonsense\n"), 3_700);
    assert_eq!(after(800, b"nonsense\n"), 3_700);
    assert_eq!(after(900, b"DONE\n"), 3_900);
}

#[test]
fn the_answer_to_a_fetch_is_a_sign_of_life_and_silence_has_last_words() {
    let mut client = Client::new();
    client.command("FETCH");
    client.engine_ms = 22_500;
    client.encode(&Reply::NoJob);
    assert_eq!(client.codec.deadline_ms(), Some(67_500));
    client.codec.postpone(500);
    assert_eq!(client.codec.deadline_ms(), Some(68_000));
    client.codec.deadline_passed(&mut client.out);
    assert_eq!(client.heard(), "ERR {\"msg\":\"no heartbeat\"}\n");
}

#[test]
fn its_verbs_begin_it() {
    for bytes in ["PUSH ", "push {", "Fetch\n", "ACK ", "NACK ", "PING\r", "INFO\n", "QUIT ", "ATOMIC "] {
        assert_eq!(begins(bytes.as_bytes()), Begins::Yes, "{bytes}");
    }
    for bytes in ["", "P", "pi", "PING", "aTOMi"] {
        assert_eq!(begins(bytes.as_bytes()), Begins::Maybe, "{bytes}");
    }
    for bytes in ["DONE\n", "D", "PINGS", "ADD ", "{", " ", "PING\0", "add x"] {
        assert_eq!(begins(bytes.as_bytes()), Begins::No, "{bytes}");
    }
}
