//! The codec alone: what it asks of the engine.

use jobyard_engine::{
    AttemptRule, Backoff, By, Choice, Command, DateRank, FailureRule, Hold, JobRef, LeaseRequest, Limits, Look, NewJob,
    OwnTime, QueueName, Start, UsedUp, Uuid, Wait, Which,
};

use super::{Workq, begins};
use crate::codec::{Codec, Context, Next};
use crate::input::Input;
use crate::options::Options;
use crate::table::Begins;
use crate::testing;

const ID: &str = "6ba7b810-9dad-11d1-80b4-00c04fd430c4";
const UUID: Uuid = Uuid(0x6ba7_b810_9dad_11d1_80b4_00c0_4fd4_30c4);
const WALL_MS: i64 = 1_471_830_651_000;

fn context(limits: &Limits) -> Context<'_> {
    Context { clients: 32, started_wall_ms: WALL_MS, ..testing::context(limits) }
}

/// What came of some bytes.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    /// The commands, as they are printed, and what was written, in the order in which they came.
    said: Vec<String>,
    closed: bool,
    unused: Vec<u8>,
}

/// Gives a codec the pieces one by one. Commands are not answered.
fn play<'a>(pieces: impl Iterator<Item = &'a [u8]>, limits: &Limits) -> Outcome {
    let mut codec = Workq::new(&Options::default());
    let mut input = Input::default();
    let mut outcome = Outcome::default();
    for piece in pieces {
        input.push(piece);
        loop {
            let mut out = Vec::new();
            match codec.decode(&mut input, &mut out, &context(limits)) {
                Next::More => break,
                Next::Command(command) => outcome.said.push(format!("{command:?}")),
                Next::Answered => {}
                Next::Close => outcome.closed = true,
            }
            if !out.is_empty() {
                outcome.said.push(String::from_utf8(out).unwrap());
            }
            if outcome.closed {
                return Outcome { unused: input.bytes().to_vec(), ..outcome };
            }
        }
    }
    Outcome { unused: input.bytes().to_vec(), ..outcome }
}

fn whole(text: &str) -> Outcome {
    play([text.as_bytes()].into_iter(), &Limits::default())
}

/// What is said to one request that needs no engine.
#[track_caller]
fn check_said(text: &str, expected: &str) {
    let outcome = whole(text);
    assert_eq!(outcome.said, [format!("-CLIENT-ERROR {expected}\r\n")], "{text:?}");
    assert!(!outcome.closed && outcome.unused.is_empty(), "{text:?}: {outcome:?}");
}

/// What is asked of the engine by one request.
fn asked(text: &str) -> Command {
    let mut input = Input::default();
    input.push(text.as_bytes());
    let mut out = Vec::new();
    let limits = Limits::default();
    let next = Workq::new(&Options::default()).decode(&mut input, &mut out, &context(&limits));
    assert!(input.is_empty() && out.is_empty(), "{text:?}: {out:?}");
    match next {
        Next::Command(command) => command,
        other => panic!("{text:?}: {other:?}"),
    }
}

fn job(body: &str) -> NewJob {
    NewJob {
        uuid: Some(UUID),
        own_time: OwnTime::Millis(1_000),
        lifetime_ms: Some(60_000),
        attempts: Some(AttemptRule { max: None }),
        failures: Some(FailureRule {
            allowed: None,
            backoff: Backoff::None,
            used_up: UsedUp::Keep,
            parting_counts: false,
        }),
        ..NewJob::plain(QueueName::new(b"ping"), body.as_bytes().into())
    }
}

#[track_caller]
fn check_job(text: &str, expected: &NewJob) {
    match asked(text) {
        Command::Enqueue(job) => assert_eq!(*job, *expected, "{text:?}"),
        other => panic!("{text:?}: {other:?}"),
    }
}

#[test]
fn add_puts_a_job() {
    check_job(&format!("add {ID} ping 1000 60000 4\r\npong\r\n"), &job("pong"));
    check_job(&format!("add {ID} ping 1000 60000 0\r\n\r\n"), &job(""));
    check_job(&format!("add {ID} ping 1000 60000 4\r\n\r\n\r\n\r\n"), &job("\r\n\r\n"));
}

#[test]
fn flags_become_the_jobs_rules() {
    let rules = |allowed| FailureRule { allowed, backoff: Backoff::None, used_up: UsedUp::Keep, parting_counts: false };
    let flagged = NewJob {
        urgency: 10,
        attempts: Some(AttemptRule { max: Some(3) }),
        failures: Some(rules(Some(0))),
        ..job("pong")
    };
    check_job(&format!("add {ID} ping 1000 60000 4 -priority=10 -max-attempts=3 -max-fails=1\r\npong\r\n"), &flagged);
    let unset = NewJob { urgency: -5, ..job("") };
    check_job(&format!("add -max-fails=0 {ID} ping 1000 60000 0 -priority=-5 -max-attempts=0\r\n\r\n"), &unset);
    let most = NewJob { attempts: Some(AttemptRule { max: Some(255) }), failures: Some(rules(Some(254))), ..job("") };
    check_job(&format!("add {ID} ping 1000 60000 0 -max-attempts=255 -max-fails=255\r\n\r\n"), &most);
    check_job(&format!("add {ID} ping 1000 60000 0 -colour=blue -a=b\r\n\r\n"), &job(""));
    let cut = NewJob { urgency: 5, ..job("") };
    check_job(&format!("add {ID} ping 1000 60000 0 -priority=5=x\r\n\r\n"), &cut);
}

#[test]
fn schedule_puts_a_job_for_a_date() {
    let start = |wall_ms| Start::At { wall_ms, rank: DateRank::Behind };
    let dated = NewJob { start: start(WALL_MS), ..job("pong") };
    check_job(&format!("schedule {ID} ping 1000 60000 2016-08-22T01:50:51Z 4\r\npong\r\n"), &dated);
    let rounded = NewJob { start: start(WALL_MS + 1), ..job("") };
    check_job(&format!("schedule {ID} ping 1000 60000 2016-08-22T01:50:51.0001Z 0\r\n\r\n"), &rounded);
}

#[test]
fn run_puts_a_job_without_a_lifetime_and_waits() {
    match asked(&format!("run {ID} ping 1000 60000 4 -priority=7\r\nping\r\n")) {
        Command::Run { job: run, wait_ms: 60_000 } => {
            assert_eq!(*run, NewJob { urgency: 7, lifetime_ms: None, ..job("ping") });
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn lease_chooses_at_random_and_creates_the_queues() {
    let expected = LeaseRequest {
        queues: vec![QueueName::new(b"ping1"), QueueName::new(b"ping2")],
        choice: Choice::Random,
        hold: Hold::Timed { honours_unlimited: false },
        wait: Wait::Millis(60_000),
        creates_queues: true,
        body_without: None,
        heeds_ms: None,
    };
    match asked("lease ping1 ping2 60000\r\n") {
        Command::Lease(request) => assert_eq!(*request, expected),
        other => panic!("{other:?}"),
    }
}

#[test]
fn results_are_given_and_asked_for_by_anyone() {
    let by_id = JobRef::Uuid(UUID);
    let complete = asked(&format!("complete {ID} 4\r\npong\r\n"));
    assert!(
        matches!(&complete, Command::Complete { job, by: By::Anyone, result } if *job == by_id && **result == *b"pong"),
        "{complete:?}"
    );
    let fail = asked(&format!("fail {ID} 0\r\n\r\n"));
    assert!(
        matches!(&fail, Command::Fail { job, by: By::Anyone, result } if *job == by_id && result.is_empty()),
        "{fail:?}"
    );
    let result = asked(&format!("result {ID} 60000\r\n"));
    assert!(matches!(&result, Command::Await { job, wait_ms: 60_000 } if *job == by_id), "{result:?}");
    let delete = asked(&format!("delete {ID}\r\n"));
    assert!(matches!(&delete, Command::Remove { job, by: By::Anyone } if *job == by_id), "{delete:?}");
}

#[test]
fn inspect_looks_at_each_thing() {
    let look = |text: &str| match asked(text) {
        Command::Look(look) => look,
        other => panic!("{text:?}: {other:?}"),
    };
    let ping = QueueName::new(b"ping");
    assert!(matches!(look(&format!("inspect job {ID}\r\n")), Look::Job(JobRef::Uuid(UUID))));
    assert!(matches!(look("inspect queue ping\r\n"), Look::Queue(queue) if queue == ping));
    assert!(matches!(look("inspect server\r\n"), Look::Server));
    for (text, expected) in [("jobs", Which::Ready), ("scheduled-jobs", Which::Delayed)] {
        let look = look(&format!("inspect {text} ping 4294967295 100\r\n"));
        assert!(
            matches!(&look, Look::Jobs { queue, which, offset: 4_294_967_295, count_max: 100 }
                if *queue == ping && *which == expected),
            "{look:?}"
        );
    }
    match look("inspect queues 5 1\r\n") {
        Look::Queues { nameable, offset: 5, count_max: 1, .. } => {
            assert!(nameable(b"ping") && !nameable(b"p ng") && !nameable(b""));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_unknown_verb_is_said_to_be_one() {
    for line in
        ["", " ", "foo", " add", "ADD", "Add x", "-a=1 add", "inspect foo", "inspect foo -a=1", "add\tx", "quit"]
    {
        check_said(&format!("{line}\r\n"), "Unknown command");
    }
}

#[test]
fn the_number_of_words_and_flags_is_checked() {
    for line in [
        "add",
        "add 1 2 3 4",
        "add 1 2 3 4 5 6",
        "add 1 2 3 4 5 -max-attempts",
        "schedule 1 2 3 4 5",
        "run 1 2 3 4",
        "lease",
        "lease ping",
        "lease ping 1 -a=1",
        "complete 1",
        "complete 1 2 3",
        "fail 1",
        "result 1",
        "result 1 2 3",
        "result 1 2 -a=1",
        "delete",
        "delete 1 2",
        "delete 1 -a=1",
        "inspect",
        "inspect job",
        "inspect job 1 2",
        "inspect jobs ping 0",
        "inspect scheduled-jobs ping 0 1 2",
        "inspect queue",
        "inspect queues 0",
        "inspect server now",
        "inspect server -a=1",
        "inspect job 1 -a=1",
        "inspect jobs ping 0 1 -a=1",
        "inspect queue ping -a=1",
        "inspect queues 0 1 -a=1",
    ] {
        check_said(&format!("{line}\r\n"), "Invalid command args");
    }
    check_said(&format!("add {ID} ping 1 1 0 -a=1 -b=1 -c=1 -d=1\r\n\r\n"), "Invalid command args");
    check_said(
        &format!("schedule {ID} ping 1 1 2016-08-22T01:50:51Z 0 -a=1 -b=1 -c=1 -d=1\r\n\r\n"),
        "Invalid command args",
    );
    check_said(&format!("run {ID} ping 1 1 0 -a=1 -b=1\r\n\r\n"), "Invalid command args");
    check_said(&format!("complete {ID} 0 -a=1\r\n\r\n"), "Invalid command args");
    check_said(&format!("fail {ID} 0 -a=1\r\n\r\n"), "Invalid command args");
}

#[test]
fn a_bad_flag_comes_before_all_else() {
    for line in ["add -a=", "foo -=1", "delete -a=1 -a=1", "-x add -a=", "-a=", "-a= add", " -a=", "-a==1"] {
        check_said(&format!("{line}\r\n"), "Invalid command flags");
    }
}

#[test]
fn a_size_that_is_none_leaves_the_next_line_a_command() {
    for line in ["add 1 2 3 4 *", "add 1 2 3 4 -8", "schedule 1 2 3 4 5 x", "run 1 2 3 4 -1", "complete 1 -1"] {
        check_said(&format!("{line}\r\n"), "Invalid payload size");
    }
    for line in ["fail 1 *", "fail 1 -1"] {
        check_said(&format!("{line}\r\n"), "Invalid result size");
    }
    assert_eq!(
        whole("add 1 2 3 4 x\r\nab\r\n").said,
        ["-CLIENT-ERROR Invalid payload size\r\n", "-CLIENT-ERROR Unknown command\r\n"]
    );
}

#[test]
fn a_block_over_the_limit_is_refused_before_it_is_read() {
    for (line, text) in [
        ("add 1 2 3 4 1048577", "Invalid payload size"),
        ("run 1 2 3 4 99999999999999999999999", "Invalid payload size"),
        ("complete 1 1048577", "Invalid payload size"),
        ("fail 1 1048577", "Invalid result size"),
    ] {
        let outcome = whole(&format!("{line}\r\ninspect server\r\n"));
        assert_eq!(outcome.said, [format!("-CLIENT-ERROR {text}\r\n")], "{line}");
        assert!(outcome.closed, "{line}");
    }
    let limits = Limits { body_bytes_max: 3, ..Limits::default() };
    let text = format!("complete {ID} 4\r\n");
    assert!(play([text.as_bytes()].into_iter(), &limits).closed);
}

#[test]
fn a_block_that_does_not_end_where_it_should_is_passed_over() {
    for (text, rest) in [
        ("add 1 2 3 4 1\r\nab\r\n", "\n"),
        ("add 1 2 3 4 4\r\nab\r\ncd", ""),
        ("complete 1 0\r\na\r\n", "\n"),
        ("fail 1 2\r\nab\n\r", ""),
        ("run 1 2 3 4 2\r\nab\r\r", ""),
    ] {
        let outcome = whole(&format!("{text}inspect server\r\n"));
        assert_eq!(outcome.said[0], "-CLIENT-ERROR Invalid payload size\r\n", "{text:?}");
        if rest.is_empty() {
            assert_eq!(outcome.said[1], "Look(Server)", "{text:?}");
        } else {
            assert!(outcome.closed, "{text:?}: what is left begins with a bare LF");
        }
    }
}

#[test]
fn a_bad_argument_is_named_once_the_block_has_come() {
    let outcome = play([&b"add x ping 1000 60000 4\r\n"[..], b"po", b"ng\r"].into_iter(), &Limits::default());
    assert_eq!(outcome.said, [""; 0]);
    check_said("add x ping 1000 60000 4\r\npong\r\n", "Invalid ID");
    check_said("complete x 2\r\nab\r\n", "Invalid ID");
    check_said("fail x 2\r\nab\r\n", "Invalid ID");
}

#[test]
fn words_are_checked_as_text_in_order_and_then_their_ranges() {
    const NIL: &str = "00000000-0000-0000-0000-000000000000";
    // Every line but the last has one thing right that the line before had wrong.
    for (arguments, expected) in [
        ("x p/ng t t 0 -max-attempts=a -max-fails=a -priority=a", "Invalid ID"),
        ("NIL p/ng t t 0 -max-attempts=a -max-fails=a -priority=a", "Invalid TTR"),
        ("NIL p/ng 4294967296 t 0 -max-attempts=a -max-fails=a -priority=a", "Invalid TTR"),
        ("NIL p/ng 0 t 0 -max-attempts=a -max-fails=a -priority=a", "Invalid TTL"),
        ("NIL p/ng 0 0 0 -max-attempts=256 -max-fails=a -priority=a", "Invalid Max Attempts"),
        ("NIL p/ng 0 0 0 -max-attempts=1 -max-fails=-1 -priority=a", "Invalid Max Fails"),
        ("NIL p/ng 0 0 0 -max-attempts=1 -max-fails=1 -priority=2147483648", "Invalid Priority"),
        ("NIL p/ng 0 0 0 -max-attempts=1 -max-fails=1 -priority=1", "Invalid ID"),
        ("ID p/ng 0 0 0", "Invalid Name"),
        ("ID ping 0 0 0", "Invalid TTR"),
        ("ID ping 86400001 0 0", "Invalid TTR"),
        ("ID ping 86400000 0 0", "Invalid TTL"),
    ] {
        let arguments = arguments.replace("NIL", NIL).replace("ID", ID);
        check_said(&format!("add {arguments}\r\n\r\n"), expected);
    }
}

#[test]
fn a_date_is_checked_after_the_ttl_and_before_the_flags() {
    check_said(&format!("schedule {ID} ping 1 x y 0 -priority=a\r\n\r\n"), "Invalid TTL");
    check_said(&format!("schedule {ID} ping 1 1 y 0 -priority=a\r\n\r\n"), "Invalid Time");
    check_said(&format!("schedule {ID} ping 1 1 2026-01-01T00:00:00+01:00 0 -priority=a\r\n\r\n"), "Invalid Time");
    check_said(&format!("schedule {ID} p/ng 1 1 2026-01-01T00:00:00Z 0 -priority=a\r\n\r\n"), "Invalid Priority");
    check_said(&format!("schedule {ID} p/ng 1 1 2026-01-01T00:00:00Z 0\r\n\r\n"), "Invalid Name");
}

#[test]
fn the_other_commands_check_their_words() {
    check_said("run x p/ng t t 0\r\n\r\n", "Invalid ID");
    check_said(&format!("run {ID} p/ng t t 0 -priority=x\r\n\r\n"), "Invalid TTR");
    check_said(&format!("run {ID} p/ng 0 t 0 -priority=x\r\n\r\n"), "Invalid Priority");
    check_said(&format!("run {ID} p/ng 0 86400001 0\r\n\r\n"), "Invalid wait timeout");
    check_said(&format!("run {ID} p/ng 0 86400000 0\r\n\r\n"), "Invalid Name");
    check_said(&format!("run {ID} ping 0 1 0\r\n\r\n"), "Invalid TTR");
    check_said("lease p/ng -1\r\n", "Invalid wait timeout");
    check_said("lease ping p/ng 1\r\n", "Invalid Name");
    check_said("result x y\r\n", "Invalid ID");
    check_said(&format!("result {ID} y\r\n"), "Invalid wait timeout");
    check_said("delete x\r\n", "Invalid ID");
    check_said("inspect job x\r\n", "Invalid ID");
    check_said("inspect jobs p/ng x y\r\n", "Invalid Name");
    check_said("inspect jobs ping x y\r\n", "Invalid cursor offset");
    check_said("inspect scheduled-jobs ping 0 101\r\n", "Invalid limit");
    check_said("inspect queue p/ng\r\n", "Invalid Name");
    check_said("inspect queues 4294967296 0\r\n", "Invalid cursor offset");
    check_said("inspect queues 0 0\r\n", "Invalid limit");
}

#[test]
fn a_lease_names_at_most_so_many_queues() {
    let limits = Limits { queues_named_max: 2, ..Limits::default() };
    let three = play([&b"lease a b c 0\r\n"[..]].into_iter(), &limits);
    assert_eq!(three.said, ["-CLIENT-ERROR Too many names\r\n"]);
    let longest = format!("lease {} {} 0\r\n", "a".repeat(255), "b".repeat(255));
    let small = Limits { line_extra_bytes_max: 20, ..limits };
    assert!(play([longest.as_bytes()].into_iter(), &small).said[0].starts_with("Lease"));
}

#[test]
fn a_line_that_is_too_long_ends_the_connection_before_its_end_has_come() {
    let limits = Limits { queues_named_max: 0, line_extra_bytes_max: 20, ..Limits::default() };
    let fits = play([&b"inspect server    \r\n"[..]].into_iter(), &limits);
    assert_eq!(fits.said, ["Look(Server)"]);
    let outcome = play([&b"inspect server       "[..]].into_iter(), &limits);
    assert_eq!(outcome.said, ["-CLIENT-ERROR Line too long\r\n"]);
    assert!(outcome.closed);
}

#[test]
fn a_bare_lf_ends_the_connection_without_a_word() {
    for text in ["\n", "inspect server\n", "add 1 2 3 4 0\n\r\n"] {
        let outcome = whole(text);
        assert!(outcome.closed && outcome.said.is_empty(), "{text:?}: {outcome:?}");
    }
}

#[test]
fn it_does_not_matter_in_which_pieces_the_bytes_come() {
    let text = format!(
        "add {ID} ping 1000 60000 6 -priority=1\r\n\r\nab\r\n\r\nfoo\r\nadd x y 1 1 3\r\nabc\r\nfail {ID} 2\r\nabcd\
         lease a b 10\r\ncomplete {ID} 0\r\n\r\ninspect jobs ping 0 10\r\nadd 1 2 3 4 1048577\r\nxx"
    );
    let expected = whole(&text);
    assert_eq!(expected.said.len(), 8, "{expected:?}");
    for size in [1, 2, 3, 7, 64] {
        let outcome = play(text.as_bytes().chunks(size), &Limits::default());
        assert_eq!((&outcome.said, outcome.closed), (&expected.said, true), "pieces of {size}");
    }
}

#[test]
fn the_first_bytes_are_known() {
    for word in ["add ", "schedule ", "run ", "result ", "lease ", "complete ", "fail ", "inspect "] {
        assert_eq!(begins(word.as_bytes()), Begins::Yes, "{word}");
        for end in 0..word.len() {
            assert_eq!(begins(&word.as_bytes()[..end]), Begins::Maybe, "{}", &word[..end]);
        }
    }
    for text in ["Add ", "adds", "add\r", "add\t", "x", "leases ", "deleted"] {
        assert_eq!(begins(text.as_bytes()), Begins::No, "{text}");
    }
}

#[test]
fn delete_is_known_by_the_uuid_behind_it() {
    let digits = format!("delete {}", "1".repeat(32));
    for text in ["delete 6b", "delete 12345678-", "delete  F", "delete {", "delete u", &digits] {
        assert_eq!(begins(text.as_bytes()), Begins::Yes, "{text}");
    }
    for text in ["d", "delete", "delete ", "delete 1", &digits[..digits.len() - 1]] {
        assert_eq!(begins(text.as_bytes()), Begins::Maybe, "{text}");
    }
    for text in ["delete 1\r", "delete x", "delete \r", "delete -", "delete 12 ", "delete 1{"] {
        assert_eq!(begins(text.as_bytes()), Begins::No, "{text}");
    }
}
