use super::*;
use crate::clients::{speaker, uuid_of_number};

pub(super) const A: ClientId = ClientId(1);
pub(super) const B: ClientId = ClientId(2);

pub(super) fn at(turn: u64) -> When {
    When { turn, at_ms: turn * 1_000 }
}

pub(super) fn body_of(entry: Entry) -> String {
    format!("{{\"j\":{entry},\"pad\":\"\"}}")
}

pub(super) fn plain(entry: Entry) -> Put {
    Put::plain(entry, "a", body_of(entry))
}

/// Jobs that were put and acknowledged in turn 1, each with its entry for a number.
pub(super) fn ledger_of<const N: usize>(protocol: &'static str, puts: [Put; N]) -> Ledger {
    let mut ledger = Ledger::default();
    for put in puts {
        ledger.put_asked(&put, protocol, at(0));
        ledger.put_told(&[put.entry], &[put.entry as u64], at(1)).expect("numbers differ");
    }
    ledger
}

pub(super) fn one(protocol: &'static str) -> Ledger {
    ledger_of(protocol, [plain(0)])
}

fn taker(client: ClientId, protocol: &str) -> Taker<'static> {
    Taker {
        queues: &["a"],
        id: "0",
        asked_turn: Some(0),
        unclear: false,
        client,
        speaker: speaker(protocol, false),
        gone: false,
    }
}

/// Whether the job is ready when all is at rest.
fn ready_at(ledger: &Ledger, at_ms: u64) -> bool {
    ledger.is_ready(0, 1_000, at_ms, Kept::UntilThen)
}

/// Whether the job was ready all the time, if it was told of in turn 1.
fn always_ready(ledger: &Ledger) -> bool {
    ledger.is_ready(0, 1, 1_000, Kept::Never)
}

pub(super) fn take(
    ledger: &mut Ledger,
    entry: Entry,
    client: ClientId,
    protocol: &str,
    turn: u64,
) -> Result<Entry, Wrong> {
    let by = Taker { id: &entry.to_string(), ..taker(client, protocol) };
    ledger.took(body_of(entry).as_bytes(), &by, at(turn), at(turn))
}

pub(super) fn holds(ledger: &mut Ledger, client: ClientId, protocol: &str, turn: u64) {
    take(ledger, 0, client, protocol, turn).expect("nobody else has it");
}

#[track_caller]
pub(super) fn refused(taken: Result<Entry, Wrong>, with: &str) {
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
fn a_job_comes_by_its_own_name_from_its_own_queue() {
    let taken = |id: &str, queues: &[&'static str], put: Put| {
        let mut ledger = ledger_of("masenko", [put]);
        ledger.took(body_of(0).as_bytes(), &Taker { id, queues, ..taker(A, "masenko") }, at(2), at(2))
    };
    let dead = Put { dead_queue: Some("d"), failures: Some(0), ..plain(0) };
    assert_eq!(taken(&uuid_of_number(0), &["b", "a"], plain(0)), Ok(0));
    refused(taken("1", &["a"], plain(0)), "was given as '1'");
    refused(taken(&uuid_of_number(1), &["a"], plain(0)), "was given as");
    refused(taken("0", &["b"], plain(0)), "asked for");
    refused(taken("0", &["d"], dead.clone()), "asked for");
    let by = Taker { queues: &["d"], unclear: true, ..taker(A, "masenko") };
    let mut ledger = ledger_of("masenko", [dead.clone()]);
    assert_eq!(ledger.took(body_of(0).as_bytes(), &by, at(2), at(2)), Ok(0), "someone may have had it");
    let mut ledger = ledger_of("masenko", [dead]);
    holds(&mut ledger, A, "masenko", 2);
    ledger.client_gone(A, 2_000);
    let by = Taker { queues: &["d"], ..taker(B, "masenko") };
    assert_eq!(ledger.took(body_of(0).as_bytes(), &by, at(3), at(3)), Ok(0));
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
    ledger.end_asked(0);
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
    ledger.client_gone(B, 2_000);
    refused(take(&mut ledger, 0, B, "masenko", 3), "given twice");
    ledger.client_gone(A, 2_000);
    assert_eq!(take(&mut ledger, 0, B, "masenko", 3), Ok(0));
}

#[test]
fn a_server_that_ends_ends_what_connections_hold_and_nothing_else() {
    let mut ledger = one("masenko");
    holds(&mut ledger, A, "masenko", 2);
    ledger.server_gone(at(2));
    assert_eq!(take(&mut ledger, 0, B, "masenko", 3), Ok(0));

    let mut ledger = one("takeanumber");
    holds(&mut ledger, A, "takeanumber", 2);
    ledger.server_gone(at(2));
    refused(take(&mut ledger, 0, B, "takeanumber", 3), "given twice");

    let mut ledger = ledger_of("workq", [Put { runs: true, ..plain(0) }]);
    ledger.server_gone(at(2));
    refused(take(&mut ledger, 0, B, "workq", 3), "came back");
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
fn a_date_is_not_early_and_not_late_unless_the_clock_was_set() {
    let put = Put { delay_s: Some(10), ..plain(0) };
    let mut ledger = ledger_of("masenko", [put]);
    refused(take(&mut ledger, 0, A, "masenko", 8), "before its date");
    assert!(!always_ready(&ledger), "it is delayed");
    assert!(!ready_at(&ledger, 10_999), "it may be late");
    assert!(ready_at(&ledger, 11_000));
    assert!(ledger.comes_in_the_end(0, 11_000));
    ledger.dates_lost(1);
    assert!(!ready_at(&ledger, 11_000) && !ledger.comes_in_the_end(0, u64::MAX), "its date may never come");
    assert_eq!(take(&mut ledger, 0, A, "masenko", 8), Ok(0));

    ledger.put_asked(&Put { delay_s: Some(10), ..plain(1) }, "masenko", at(2));
    refused(take(&mut ledger, 1, A, "masenko", 8), "before its date");
}

#[test]
fn a_blocked_job_comes_after_what_blocks_it() {
    let blocked = Put { blockers: vec![0], ..plain(1) };
    let mut ledger = ledger_of("masenko", [plain(0), blocked]);
    refused(take(&mut ledger, 1, A, "masenko", 2), "which blocks it");
    let is_ready = |ledger: &Ledger| ledger.is_ready(1, 5, 5_000, Kept::UntilThen);
    assert!(!is_ready(&ledger), "it is blocked");
    assert!(ledger.comes_in_the_end(1, 5_000));
    ledger.end_asked(0);
    assert!(!is_ready(&ledger), "it may be blocked");
    ledger.ended(0, false, at(5));
    assert!(is_ready(&ledger));
    assert!(!ledger.is_ready(1, 4, 5_000, Kept::UntilThen), "it may have been blocked then");
    assert_eq!(take(&mut ledger, 1, A, "masenko", 6), Ok(1));
}

#[test]
fn what_waits_for_one_that_is_held_for_ever_never_comes() {
    let blocked = Put { blockers: vec![0], ..plain(1) };
    let mut ledger = ledger_of("masenko", [plain(0), blocked]);
    holds(&mut ledger, A, "takeanumber", 2);
    assert!(!ledger.comes_in_the_end(0, u64::MAX) && !ledger.comes_in_the_end(1, u64::MAX));
}

#[test]
fn each_of_a_group_blocks_the_next() {
    let mut ledger = ledger_of("masenko", [plain(0), plain(1)]);
    ledger.groups.push(Group { entries: vec![0, 1], completes: None, told: true });
    refused(take(&mut ledger, 1, A, "masenko", 2), "which blocks it");
    assert!(ready_at(&ledger, 2_000));
    assert!(!ledger.is_ready(1, 2, 2_000, Kept::UntilThen), "it is not the first");
}

#[test]
fn what_must_be_there_was_told_and_nobody_asked_for_its_end() {
    let mut ledger = Ledger::default();
    ledger.put_asked(&plain(0), "goqueue", at(0));
    assert!(!ledger.must_be_there(0, 0), "nobody was told");
    ledger.put_told(&[0], &[], at(1)).expect("there are no numbers");
    assert!(ledger.must_be_there(0, 1_000));
    ledger.end_asked(0);
    assert!(!ledger.must_be_there(0, 2_000), "it may have ended");
    assert!(ledger.hangs_on_one_request(0, 2_000));
    ledger.end_asked(0);
    assert!(!ledger.hangs_on_one_request(0, 2_000), "on two");
    ledger.end_refused(0);
    ledger.end_refused(0);
    assert!(ledger.must_be_there(0, 2_000), "both were refused");
    assert!(!ledger_of("workq", [Put { runs: true, ..plain(0) }]).must_be_there(0, 0), "its client may be gone");
}

#[test]
fn a_failure_ends_what_may_not_fail_and_nothing_if_it_is_refused() {
    let mut ledger = one("workq");
    ledger.fail_asked(0);
    assert!(!ledger.must_be_there(0, 0) && !ready_at(&ledger, 2_000));
    ledger.fail_refused(0);
    assert!(ledger.must_be_there(0, 0) && ready_at(&ledger, 2_000));

    let mut ledger = one("masenko");
    ledger.fail_asked(0);
    assert!(ledger.must_be_there(0, 0), "it may fail more often than it ever will");
    assert!(!ready_at(&ledger, 2_000), "it may rest");
    assert!(ledger.comes_in_the_end(0, 2_000));
}

#[test]
fn a_job_comes_back_as_often_as_it_may_fail_and_not_too_soon() {
    let failed = |protocol, allowed, times| {
        let mut ledger = ledger_of(protocol, [Put { failures: allowed, ..plain(0) }]);
        (0..times).for_each(|_| ledger.failed(0, at(2), at(3)));
        ledger
    };
    refused(take(&mut failed("workq", Some(1), 2), 0, A, "workq", 100), "has failed 2 times");
    assert_eq!(take(&mut failed("workq", Some(2), 2), 0, A, "workq", 4), Ok(0));
    assert_eq!(take(&mut failed("workq", Some(1), 2), 0, A, "workq", 3), Ok(0), "it may have been given before");
    // Sixteen seconds, to a whole one.
    refused(take(&mut failed("masenko", None, 2), 0, A, "masenko", 16), "too soon");
    assert_eq!(take(&mut failed("masenko", None, 2), 0, A, "masenko", 17), Ok(0));
}

#[test]
fn a_job_is_there_as_long_as_it_lives() {
    let put = Put { lifetime_s: Some(10), ..plain(0) };
    let mut ledger = ledger_of("workq", [put.clone()]);
    assert!(ledger.must_be_there(0, 9_999));
    assert!(!ledger.must_be_there(0, 10_000));
    assert!(!ledger.has_expired(0, 11_999) && ledger.has_expired(0, 12_000));
    ledger.time_lost(5_000);
    assert!(!ledger.must_be_there(0, 0), "what time it is, is not known");
    assert!(!ledger.has_expired(0, 15_999) && ledger.has_expired(0, 16_000), "its lifetime may have begun anew");

    let mut ledger = ledger_of("workq", [Put { delay_s: Some(5), ..put }]);
    assert!(ledger.must_be_there(0, 14_000) && !ledger.must_be_there(0, 14_001));
    ledger.dates_lost(1);
    assert!(!ledger.must_be_there(0, 0) && !ledger.has_expired(0, u64::MAX), "its date is not known");
}

#[test]
fn a_job_that_may_fail_must_be_there_until_it_may_have_failed_too_often() {
    let put = Put { failures: Some(1), ..plain(0) };
    let mut ledger = ledger_of("masenko", [put.clone()]);
    assert!(ledger.must_be_there(0, 0));
    ledger.take_lost(&["b"], speaker("masenko", false), 0);
    assert!(ledger.must_be_there(0, 0), "it is not in that queue");
    ledger.take_lost(&["a"], speaker("workq", false), 0);
    assert!(ledger.must_be_there(0, 0), "who vanishes with it does not make it fail");
    ledger.take_lost(&["a"], speaker("masenko", false), 0);
    assert!(!ledger.must_be_there(0, 0), "nobody knows how often someone may have had it");

    let mut ledger = ledger_of("masenko", [put.clone()]);
    holds(&mut ledger, A, "masenko", 2);
    ledger.client_gone(A, 2_000);
    assert_eq!(ledger.jobs[0].failures_most(), Some(1));
    assert!(ledger.must_be_there(0, 0), "it may fail once");
    ledger.fail_asked(0);
    assert_eq!(ledger.jobs[0].failures_most(), Some(2));
    assert!(!ledger.must_be_there(0, 0));

    let mut ledger = ledger_of("workq", [put]);
    holds(&mut ledger, A, "masenko", 2);
    ledger.client_gone(A, 2_000);
    assert_eq!(ledger.jobs[0].failures_most(), Some(0), "who vanishes with workq's puts it back");
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
    ledger.release_asked(0);
    assert!(!has(&ledger, A, 3), "someone may give it back");
    ledger.settled(0, at(4));
    assert!(!has(&ledger, A, 5), "someone may have given it back");
    ledger = fresh();
    ledger.end_asked(0);
    assert!(!has(&ledger, A, 3), "someone may remove it");
    ledger = fresh();
    ledger.time_lost(2_000);
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
    ledger.end_asked(0);
    assert!(ledger.nobody_else_asked(0, at(3)));
    ledger.fail_asked(0);
    assert!(!ledger.nobody_else_asked(0, at(3)), "two did");
    ledger.settled(0, at(5));
    assert!(!ledger.nobody_else_asked(0, at(3)), "one was answered since");
    assert!(!ledger.nobody_else_asked(0, at(5)), "one was answered in that turn");
    assert!(ledger.nobody_else_asked(0, at(6)));
}

#[test]
fn a_job_is_ready_if_nobody_can_have_it() {
    let mut ledger = one("goqueue");
    assert!(always_ready(&ledger));
    assert!(!ledger.is_ready(0, 0, 1_000, Kept::Never), "it was told later");
    let all_of = |queue| ledger.all_ready(queue, 1, 1_000, Kept::Never).collect::<Vec<_>>();
    assert_eq!((all_of("a"), all_of("b")), (vec![0], vec![]));
    ledger.take_lost(&["a"], speaker("workq", false), 2_000);
    assert!(!always_ready(&ledger) && !ready_at(&ledger, 63_999), "someone may have it");
    assert!(ready_at(&ledger, 64_000), "for a minute");
    ledger.take_lost(&["a"], speaker("takeanumber", true), 100_000);
    assert!(!ready_at(&ledger, 121_999) && ready_at(&ledger, 122_000), "its listener ends leases after 20 s");
    ledger.take_lost(&["a"], speaker("takeanumber", false), 2_000);
    assert!(!ready_at(&ledger, u64::MAX - 1), "for ever");
}

#[test]
fn a_job_is_ready_when_its_lease_is_over() {
    let put = Put { own_time_s: Some(10), ..plain(0) };
    let mut ledger = ledger_of("goqueue", [put]);
    holds(&mut ledger, A, "goqueue", 2);
    assert!(!always_ready(&ledger), "someone has it");
    assert!(!ready_at(&ledger, 13_999), "someone may still have it");
    assert!(ready_at(&ledger, 14_000));
    assert_eq!(ledger.own_time_over_ms(0), Some(14_000));
    ledger.time_lost(3_000);
    assert!(!ready_at(&ledger, 14_000), "what time it is, is not known");
    assert!(ledger.comes_in_the_end(0, 14_000));
    ledger.jobs[0].leases.clear();
    holds(&mut ledger, A, "goqueue", 4);
    assert!(ready_at(&ledger, 16_000), "it is known of what began since");
}

#[test]
fn a_job_is_ready_when_its_holder_is_seen_off_or_gives_it_back() {
    let mut ledger = one("jobcentre");
    holds(&mut ledger, A, "jobcentre", 2);
    assert!(!ready_at(&ledger, u64::MAX - 1), "its holder is there");
    ledger.client_gone(A, 2_000);
    assert!(!ready_at(&ledger, u64::MAX - 1), "its holder may be there");
    ledger.client_seen_off(A, 5_000);
    assert!(!ready_at(&ledger, 4_999) && ready_at(&ledger, 5_000));

    ledger.client_seen_off(A, 0);
    assert!(ready_at(&ledger, 0) && !always_ready(&ledger), "someone had it, if only for a moment");

    let mut ledger = one("jobcentre");
    holds(&mut ledger, A, "jobcentre", 2);
    ledger.released(0, A, at(4));
    assert!(!ready_at(&ledger, 3_999) && ready_at(&ledger, 4_000));

    let mut ledger = one("masenko");
    holds(&mut ledger, A, "masenko", 2);
    ledger.client_seen_off(A, 5_000);
    assert!(!ready_at(&ledger, u64::MAX - 1), "it rests, nobody knows for how long");
    assert!(ledger.comes_in_the_end(0, 5_000));

    let mut ledger = one("masenko");
    holds(&mut ledger, A, "masenko", 2);
    ledger.server_gone(at(5));
    ledger.time_lost(6_000);
    assert!(ready_at(&ledger, 5_000), "it does not rest then");

    let put = Put { own_time_s: Some(10), ..plain(0) };
    let mut ledger = ledger_of("goqueue", [put]);
    holds(&mut ledger, A, "masenko", 2);
    ledger.client_gone(A, 2_000);
    assert!(!ready_at(&ledger, 13_999) && ready_at(&ledger, 14_000));
    ledger.client_gone(A, 20_000);
    assert!(!ready_at(&ledger, 21_999) && ready_at(&ledger, 22_000), "nobody had looked at its time");
    ledger.time_lost(6_000);
    assert!(!ready_at(&ledger, 1_000_000), "nobody knows what the server takes for a second");
}

#[test]
fn the_more_urgent_comes_first_and_of_equals_the_one_that_was_there_before() {
    let urgent = |entry, urgency| Put { urgency, ..plain(entry) };
    let given = |puts: [Put; 2], entry: Entry, protocol: &'static str| {
        let mut ledger = Ledger::default();
        for (turn, put) in (1..).zip(&puts) {
            ledger.put_asked(put, protocol, at(2 * turn));
            ledger.put_told(&[put.entry], &[put.entry as u64], at(2 * turn + 1)).expect("numbers differ");
        }
        take(&mut ledger, entry, A, protocol, 10).expect("nobody else has it");
        ledger.overtaken_by(entry, ledger.jobs[entry].put.queue, 10, 10_000)
    };
    assert_eq!(given([urgent(0, 1), urgent(1, 2)], 0, "workq"), Some(1));
    assert_eq!(given([urgent(0, 1), urgent(1, 2)], 1, "workq"), None);
    assert_eq!(given([plain(0), plain(1)], 1, "takeanumber"), Some(0));
    assert_eq!(given([plain(0), plain(1)], 0, "takeanumber"), None);
    let blocked = Put { blockers: vec![9], ..plain(0) };
    assert_eq!(given([blocked, plain(1)], 1, "masenko"), Some(0), "nobody has heard of what should block it");
    assert_eq!(given([plain(0), Put { delay_s: Some(1), ..plain(1) }], 1, "masenko"), None, "its place is another");
    assert_eq!(given([Put { queue: "b", ..plain(0) }, plain(1)], 1, "masenko"), None, "it is in another queue");
    assert_eq!(given([urgent(0, 1), Put { runs: true, ..plain(1) }], 1, "workq"), None, "it has no urgency");
}

#[test]
fn who_waits_is_not_passed_over() {
    let mut ledger = one("goqueue");
    let by = Taker { asked_turn: Some(5), ..taker(A, "goqueue") };
    ledger.took(body_of(0).as_bytes(), &by, at(7), at(8)).expect("nobody else has it");
    assert_eq!(ledger.given_to_later("a", B, 4), Some(0));
    assert_eq!(ledger.given_to_later("a", B, 5), None, "they may have come at the same time");
    assert_eq!(ledger.given_to_later("a", A, 4), None, "it is theirs");
    assert_eq!(ledger.given_to_later("b", B, 4), None, "it is of another queue");
}

#[test]
fn what_may_be_in_a_queue_was_asked_for_and_not_refused_or_ended() {
    let mut ledger = ledger_of("masenko", [plain(0), Put { dead_queue: Some("d"), ..plain(1) }]);
    ledger.put_asked(&plain(2), "masenko", at(3));
    let count = |ledger: &Ledger, queue, asked, heard| ledger.may_be_in(queue, at(asked), at(heard)).count();
    assert_eq!((count(&ledger, "a", 2, 2), count(&ledger, "a", 2, 3)), (2, 3));
    assert_eq!((count(&ledger, "d", 2, 2), count(&ledger, "b", 2, 2)), (1, 0));
    ledger.put_refused(&[2]);
    ledger.ended(0, false, at(5));
    assert_eq!((count(&ledger, "a", 5, 5), count(&ledger, "a", 6, 6)), (2, 1));
}

#[test]
fn what_is_listed_as_delayed_has_a_reason_and_what_is_ready_has_none() {
    let mut ledger = ledger_of("masenko", [plain(0), Put { delay_s: Some(10), ..plain(1) }]);
    assert!(ledger.may_be(0, false, 1_000) && !ledger.may_be(0, true, 1_000));
    assert!(!ledger.may_be(1, false, 9_000) && ledger.may_be(1, false, 9_001) && ledger.may_be(1, true, 1_000));
    holds(&mut ledger, A, "masenko", 2);
    assert!(ledger.may_be(0, true, 2_000), "its holder may vanish");
    ledger.dates_lost(0);
    assert!(ledger.may_be(1, false, 1_000), "its date is not known");
}

#[test]
fn a_result_needs_someone_who_gave_it() {
    let mut ledger = one("workq");
    assert!(!ledger.may_have_result(0, true, true), "nobody had it");
    holds(&mut ledger, A, "workq", 2);
    assert!(!ledger.may_have_result(0, true, true), "nobody completed it");
    ledger.complete_asked(0, true);
    assert!(ledger.may_have_result(0, true, true) && !ledger.may_have_result(0, true, false));
    assert_eq!(ledger.jobs[0].must_have_result(), None, "nobody was told");
    ledger.ended(0, true, at(3));
    assert_eq!(ledger.jobs[0].must_have_result(), Some(true));
    ledger.end_asked(0);
    assert_eq!(ledger.jobs[0].must_have_result(), None, "someone may have removed it");
    assert_eq!(ledger.find_under(&uuid_of_number(0), |_| true), Some(0));
    assert_eq!(ledger.find_under(&uuid_of_number(1), |_| true), None);
}

#[test]
fn what_a_crash_left_open_is_found_out_for_good() {
    let mut ledger = Ledger::default();
    ledger.put_asked(&plain(0), "goqueue", at(0));
    assert!(ledger.is_open(0), "nobody was told that it was put");
    ledger.found_there(0, at(1));
    assert!(!ledger.is_open(0) && ledger.must_be_there(0, 2_000));
    ledger.put_asked(&plain(1), "masenko", at(1));
    ledger.groups.push(Group { entries: vec![1], completes: Some(0), told: false });
    ledger.end_asked(0);
    assert!(ledger.is_open(0) && !ledger.must_be_there(0, 2_000), "nobody was told that it was completed");
    ledger.found_there(0, at(2));
    assert!(ledger.must_be_there(0, 2_000));
    refused(take(&mut ledger, 1, A, "masenko", 3), "was refused");
    ledger.end_asked(0);
    ledger.ended(0, false, at(3));
    assert!(!ledger.is_open(0));
    refused(take(&mut ledger, 0, A, "goqueue", 4), "came back");
}

#[test]
fn of_a_uuid_it_is_known_whether_a_job_has_it() {
    let mut ledger = ledger_of("workq", [plain(0)]);
    ledger.jobs[0].put_told = None;
    assert_eq!(ledger.id(0), Id::Open);
    ledger.put_told(&[0], &[], at(1)).unwrap();
    assert_eq!(ledger.id(0), Id::Taken);
    ledger.complete_asked(0, true);
    ledger.ended(0, true, at(2));
    assert_eq!(ledger.id(0), Id::Taken, "its result has it");
    ledger.removal_asked(0);
    assert_eq!(ledger.id(0), Id::Unclear);
    ledger.jobs[0].ended = Some((at(3), false));
    assert_eq!(ledger.id(0), Id::Free);
    let mut mortal = ledger_of("workq", [Put { lifetime_s: Some(1), ..plain(0) }]);
    assert_eq!(mortal.id(0), Id::Unclear);
    mortal.put_refused(&[0]);
    assert_eq!(mortal.id(0), Id::Free);
}

#[test]
fn one_job_at_a_time_has_a_uuid() {
    let namesake = |entry| Put { id_of: 0, ..plain(entry) };
    let mut ledger = ledger_of("workq", [plain(0)]);
    ledger.put_asked(&namesake(1), "workq", at(2));
    assert!(ledger.jobs[1].refused && ledger.may_be_duplicate(1) && !ledger.may_be_duplicate(0));
    assert!(ledger.put_told(&[1], &[], at(3)).is_err());
    assert!(ledger.is_of_namesake(1, body_of(0).as_bytes()) && !ledger.is_of_namesake(1, body_of(1).as_bytes()));
    ledger.put_asked(&namesake(2), "goqueue", at(4));
    assert!(!ledger.jobs[2].refused && !ledger.may_be_duplicate(2), "it has a number");

    let mut ledger = ledger_of("workq", [plain(0)]);
    ledger.jobs[0].put_told = None;
    ledger.put_asked(&namesake(1), "workq", at(2));
    assert!(!ledger.jobs[1].refused && ledger.may_be_duplicate(0) && ledger.may_be_duplicate(1));
    take(&mut ledger, 0, A, "workq", 3).unwrap();
    assert!(ledger.jobs[1].refused, "the other one has it");
}
