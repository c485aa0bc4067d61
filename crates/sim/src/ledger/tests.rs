use super::*;
use crate::clients::SPEAKERS;

const A: ClientId = ClientId(1);
const B: ClientId = ClientId(2);

fn at(turn: u64) -> When {
    When { turn, at_ms: turn * 1_000 }
}

fn body_of(entry: Entry) -> String {
    format!("{{\"j\":{entry},\"pad\":\"\"}}")
}

fn plain(entry: Entry) -> Put {
    Put {
        entry,
        queue: "a",
        body: body_of(entry),
        urgency: 0,
        own_time_s: None,
        delay_s: None,
        lifetime_s: None,
        failures: None,
        blockers: Vec::new(),
        dead_queue: None,
        runs: false,
    }
}

/// Jobs that were put and acknowledged in turn 1, each with its entry for a number.
fn ledger_of<const N: usize>(protocol: &'static str, puts: [Put; N]) -> Ledger {
    let mut ledger = Ledger::default();
    for put in puts {
        ledger.put_asked(&put, protocol, at(0));
        ledger.put_told(&[put.entry], &[put.entry as u64], at(1)).expect("numbers differ");
    }
    ledger
}

fn one(protocol: &'static str) -> Ledger {
    ledger_of(protocol, [plain(0)])
}

fn taker(client: ClientId, protocol: &str) -> Taker {
    let speaker = SPEAKERS.iter().find(|speaker| speaker.protocol == protocol).expect("it is spoken");
    Taker { client, speaker, gone: false }
}

fn take(ledger: &mut Ledger, entry: Entry, client: ClientId, protocol: &str, turn: u64) -> Result<Entry, Wrong> {
    ledger.took(body_of(entry).as_bytes(), &taker(client, protocol), at(turn), at(turn))
}

fn holds(ledger: &mut Ledger, client: ClientId, protocol: &str, turn: u64) {
    take(ledger, 0, client, protocol, turn).expect("nobody else has it");
}

#[track_caller]
fn refused(taken: Result<Entry, Wrong>, with: &str) {
    let wrong = taken.expect_err("that must not be");
    assert!(wrong.contains(with), "{wrong}");
}

#[test]
fn a_number_is_given_once() {
    let mut ledger = one("goqueue");
    ledger.put_asked(&plain(1), "goqueue", at(2));
    let wrong = ledger.put_told(&[1], &[0], at(2)).expect_err("it was given before");
    assert!(wrong.contains("given twice"), "{wrong}");
}

#[test]
fn a_body_is_known_whole() {
    let ledger = one("goqueue");
    assert_eq!(ledger.entry_of(body_of(0).as_bytes()), Ok(0));
    for other in ["{\"j\":0,\"pad\":\"x\"}", "{\"j\":1,\"pad\":\"\"}", "", "{\"j\":"] {
        ledger.entry_of(other.as_bytes()).expect_err(other);
    }
}

#[test]
fn what_was_refused_is_not_there() {
    let mut ledger = Ledger::default();
    ledger.put_asked(&plain(0), "goqueue", at(0));
    ledger.put_refused(&[0]);
    refused(take(&mut ledger, 0, A, "goqueue", 2), "was refused");
}

#[test]
fn what_has_ended_does_not_come_back() {
    let mut ledger = one("masenko");
    holds(&mut ledger, A, "masenko", 2);
    ledger.end_asked(0, at(3));
    ledger.settled(0, at(4));
    ledger.ended(0, false, at(4));
    // Whoever had asked before that may hear of it late.
    assert_eq!(ledger.took(body_of(0).as_bytes(), &taker(B, "masenko"), at(4), at(5)), Ok(0));
    refused(take(&mut ledger, 0, B, "masenko", 5), "came back");
}

#[test]
fn a_job_has_one_holder() {
    let mut ledger = one("takeanumber");
    holds(&mut ledger, A, "takeanumber", 2);
    refused(take(&mut ledger, 0, B, "takeanumber", 1_000_000), "given twice");

    let mut ledger = one("masenko");
    holds(&mut ledger, A, "masenko", 2);
    refused(take(&mut ledger, 0, B, "masenko", 3), "given twice");
    ledger.client_gone(B);
    refused(take(&mut ledger, 0, B, "masenko", 3), "given twice");
    ledger.client_gone(A);
    assert_eq!(take(&mut ledger, 0, B, "masenko", 3), Ok(0));
}

#[test]
fn a_server_that_ends_ends_what_connections_hold_and_nothing_else() {
    let mut ledger = one("masenko");
    holds(&mut ledger, A, "masenko", 2);
    ledger.server_gone();
    assert_eq!(take(&mut ledger, 0, B, "masenko", 3), Ok(0));

    let mut ledger = one("takeanumber");
    holds(&mut ledger, A, "takeanumber", 2);
    ledger.server_gone();
    refused(take(&mut ledger, 0, B, "takeanumber", 3), "given twice");
}

#[test]
fn a_lease_lasts_as_long_as_was_said() {
    let put = Put { own_time_s: Some(10), ..plain(0) };
    let mut ledger = ledger_of("goqueue", [put]);
    holds(&mut ledger, A, "goqueue", 2);
    refused(take(&mut ledger, 0, B, "goqueue", 11), "given twice");
    assert_eq!(take(&mut ledger, 0, B, "goqueue", 12), Ok(0));
}

#[test]
fn a_date_is_not_early_unless_the_clock_was_set() {
    let put = Put { delay_s: Some(10), ..plain(0) };
    let mut ledger = ledger_of("masenko", [put]);
    refused(take(&mut ledger, 0, A, "masenko", 8), "before its date");
    assert!(ledger.certainly_ready("a", 1, None).is_none(), "it is delayed");
    ledger.dates_lost();
    assert_eq!(take(&mut ledger, 0, A, "masenko", 8), Ok(0));
}

#[test]
fn a_blocked_job_comes_after_what_blocks_it() {
    let blocked = Put { blockers: vec![0], ..plain(1) };
    let mut ledger = ledger_of("masenko", [plain(0), blocked]);
    refused(take(&mut ledger, 1, A, "masenko", 2), "which blocks it");
    assert!(!ledger.is_owed(1, u64::MAX), "it is blocked");
    ledger.end_asked(0, at(3));
    assert_eq!(take(&mut ledger, 1, A, "masenko", 4), Ok(1));
}

#[test]
fn each_of_a_group_blocks_the_next() {
    let mut ledger = ledger_of("masenko", [plain(0), plain(1)]);
    ledger.groups.push((vec![0, 1], true));
    refused(take(&mut ledger, 1, A, "masenko", 2), "which blocks it");
    assert!(ledger.is_owed(0, at(2).at_ms));
    assert!(!ledger.is_owed(1, at(2).at_ms), "it is not the first");
}

#[test]
fn what_must_be_there_was_told_and_nobody_asked_for_its_end() {
    let mut ledger = Ledger::default();
    ledger.put_asked(&plain(0), "goqueue", at(0));
    assert!(!ledger.must_be_there(0), "nobody was told");
    ledger.put_told(&[0], &[], at(1)).expect("there are no numbers");
    assert!(ledger.must_be_there(0));
    ledger.end_asked(0, at(2));
    assert!(!ledger.must_be_there(0), "it may have ended");

    for mortal in [Put { lifetime_s: Some(1), ..plain(0) }, Put { runs: true, ..plain(0) }] {
        assert!(!ledger_of("workq", [mortal]).must_be_there(0), "it may be gone by itself");
    }
}

#[test]
fn a_job_that_may_fail_must_be_there_until_someone_had_it() {
    let put = Put { failures: Some(1), ..plain(0) };
    let mut ledger = ledger_of("masenko", [put.clone()]);
    assert!(ledger.must_be_there(0));
    ledger.take_lost(&["b"]);
    assert!(ledger.must_be_there(0), "it is not in that queue");
    ledger.take_lost(&["a"]);
    assert!(!ledger.must_be_there(0), "someone may have had it");

    // In its dead queue, someone must have it once more.
    let mut ledger = ledger_of("masenko", [Put { dead_queue: Some("d"), ..put }]);
    holds(&mut ledger, A, "masenko", 2);
    assert!(ledger.must_be_there(0));
    ledger.client_gone(A);
    holds(&mut ledger, B, "masenko", 3);
    assert!(!ledger.must_be_there(0));
}

#[test]
fn whoever_surely_has_a_job_was_given_it_last_and_undisturbed() {
    let put = Put { own_time_s: Some(10), ..plain(0) };
    let fresh = || {
        let mut ledger = ledger_of("workq", [put.clone()]);
        holds(&mut ledger, A, "workq", 2);
        ledger
    };
    let has = |ledger: &Ledger, client, turn| ledger.surely_has(0, client, at(turn).at_ms);
    let mut ledger = ledger_of("workq", [put.clone()]);
    assert!(!has(&ledger, A, 2), "nobody was given it");
    ledger = fresh();
    assert!(has(&ledger, A, 11));
    assert!(!has(&ledger, A, 12), "its time is over");
    assert!(!has(&ledger, B, 3), "it is not theirs");
    ledger.return_asked(0, false, at(3));
    assert!(!has(&ledger, A, 3), "someone may give it back");
    ledger.settled(0, at(4));
    assert!(!has(&ledger, A, 5), "someone may have given it back");
    ledger = fresh();
    ledger.end_asked(0, at(3));
    assert!(!has(&ledger, A, 3), "someone may remove it");
    ledger = fresh();
    ledger.time_lost();
    assert!(!has(&ledger, A, 3), "its time may be over");
    ledger = fresh();
    holds(&mut ledger, B, "workq", 13);
    assert!(has(&ledger, B, 13));
    assert!(!has(&ledger, A, 13), "another has it");

    for gone in [Put { lifetime_s: Some(60), ..put.clone() }, Put { runs: true, ..put.clone() }] {
        let mut ledger = ledger_of("workq", [gone]);
        holds(&mut ledger, A, "workq", 2);
        assert!(!has(&ledger, A, 3), "it may be gone");
    }
}

#[test]
fn nobody_else_asked_if_one_thing_alone_was_under_way() {
    let mut ledger = one("masenko");
    holds(&mut ledger, A, "masenko", 2);
    assert!(!ledger.nobody_else_asked(0, at(3)), "nobody asked");
    ledger.end_asked(0, at(3));
    assert!(ledger.nobody_else_asked(0, at(3)));
    ledger.return_asked(0, true, at(4));
    assert!(!ledger.nobody_else_asked(0, at(3)), "two did");
    ledger.settled(0, at(5));
    assert!(!ledger.nobody_else_asked(0, at(3)), "one was answered since");
    assert!(!ledger.nobody_else_asked(0, at(5)), "one was answered in that turn");
    assert!(ledger.nobody_else_asked(0, at(6)));
}

#[test]
fn a_job_is_certainly_ready_if_nobody_can_have_it() {
    let mut ledger = one("goqueue");
    assert_eq!(ledger.certainly_ready("a", 1, None), Some(0));
    assert_eq!(ledger.certainly_ready("a", 0, None), None, "it was told later");
    assert_eq!(ledger.certainly_ready("b", 1, None), None, "it is elsewhere");
    ledger.take_lost(&["a"]);
    assert_eq!(ledger.certainly_ready("a", 1, None), None, "someone may have it");

    let put = Put { own_time_s: Some(10), ..plain(0) };
    let mut ledger = ledger_of("goqueue", [put]);
    holds(&mut ledger, A, "goqueue", 2);
    assert_eq!(ledger.certainly_ready("a", 1, None), None, "someone has it");
    assert_eq!(ledger.certainly_ready("a", 1, Some(12_999)), None, "someone may still have it");
    assert_eq!(ledger.certainly_ready("a", 1, Some(13_000)), Some(0));
    ledger.time_lost();
    assert_eq!(ledger.certainly_ready("a", 1, Some(13_000)), None, "what time it is, is not known");
}

#[test]
fn a_job_is_owed_to_whoever_comes_last() {
    let mut ledger = one("jobcentre");
    holds(&mut ledger, A, "jobcentre", 2);
    assert!(ledger.is_owed(0, at(2).at_ms), "its holder is gone by then");

    let mut ledger = one("masenko");
    holds(&mut ledger, A, "masenko", 2);
    assert!(!ledger.is_owed(0, u64::MAX), "it rests when its holder goes");

    let mut ledger = one("takeanumber");
    holds(&mut ledger, A, "takeanumber", 2);
    assert!(!ledger.is_owed(0, u64::MAX), "it is held for ever");

    let put = Put { own_time_s: Some(10), ..plain(0) };
    let mut ledger = ledger_of("goqueue", [put]);
    holds(&mut ledger, A, "goqueue", 2);
    assert!(!ledger.is_owed(0, 12_999), "its lease may last");
    assert!(ledger.is_owed(0, 13_000));
    ledger.time_lost();
    assert!(!ledger.is_owed(0, 13_000), "what time it is, is not known");

    let mut ledger = one("goqueue");
    ledger.return_asked(0, true, at(2));
    assert!(!ledger.is_owed(0, u64::MAX), "it may rest");
}
