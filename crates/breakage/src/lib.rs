//! Deliberate faults, so that the tests can show that they would notice them. They exist only where a crate is built with
//! its feature `breakages`, and then only the one that the variable `JOBYARD_BREAKAGE` names.

use std::sync::OnceLock;

/// Every deliberate fault: its name, and what is wrong.
pub const BREAKAGES: &[(&str, &str)] = &[
    ("log-no-sync", "a batch is said to be durable before it was synced"),
    ("log-no-directory-sync", "a new segment's name is not synced"),
    ("log-no-manifest-sync", "a manifest takes its place before its bytes are synced"),
    ("log-no-payload-checksum", "a torn batch is taken for a whole one"),
    ("log-short-write", "a write that was cut short is taken for a whole one"),
    ("log-drops-too-much", "letting go of a segment takes the next one along"),
    ("log-tail-is-damage", "an end that was never finished is taken for damage"),
    ("log-reuses-position", "after a start the last batch is written over"),
    ("broker-early-answer", "an answer leaves before its batch is durable"),
    ("broker-lost-answer", "the end of an output is forgotten when a client reads slowly"),
    ("broker-no-tick", "deadlines never pass"),
    ("broker-ignores-full-disk", "jobs are taken although there is no room for them"),
    ("broker-clocks-untold", "no batch tells that the machine was booted, or its clock set"),
    ("broker-hold-outlives-client", "what a connection held is not given back when it ends"),
    ("broker-nobody-waits", "who wants to wait for a job is told at once that there is none"),
    ("broker-no-heartbeat", "nobody is ever silent for too long"),
    ("broker-sleeps-badly", "as long as something is to fall due, every millisecond is looked at"),
    ("broker-hasty-heartbeat", "after half its time a client is silent for too long"),
    ("broker-deadlines-first", "after a stall, deadlines pass before what had arrived is read"),
    ("broker-open-for-ever", "a session that is over keeps its connection"),
    ("broker-memory-ignored", "jobs are taken although there is no memory for them"),
    ("broker-full-for-nothing", "jobs are refused for a full disk that has room"),
    ("broker-makes-no-one-wait", "on a full disk nobody waits while room is made"),
    ("broker-log-grows", "nothing of the log is ever written anew and let go of"),
    ("broker-sleeps-past-steps", "a server that sleeps does not see that its clock was set"),
    ("broker-sleeps-past-dates", "nobody wakes up when a date has come"),
    ("broker-sleeps-past-farewells", "nobody wakes up for clients that have to be given up"),
    ("broker-sleeps-past-answers", "nobody wakes up for answers that are held back"),
    ("broker-sleeps-past-syncs", "nobody wakes up to sync what was written"),
    ("broker-stop-fails-held", "when the server stops, what clients hold has failed"),
    ("broker-undoes-one-lease", "of several leases that their client never heard of, one is undone"),
    ("broker-time-from-clock-set-back", "a clock that was set back while the server was down moves time on"),
    ("broker-deadlines-before-looking", "after a stall, deadlines pass before it is looked for what has arrived"),
    ("broker-early-look", "who looks is answered before what they see is durable"),
    ("broker-half-is-whole", "who has ended its half of a connection is taken for one that is gone"),
    ("broker-takes-everyone", "more clients are let in than may come"),
    ("broker-turned-away-take-room", "who came when there was no room takes some until its connection is closed"),
    ("broker-deaf-start", "what clients said while the server started is not looked at"),
    ("protocols-retries-short", "a task may fail once less than it may"),
    ("protocols-best-in-order", "who asks for the best job of several queues is given one of the first"),
    ("protocols-result-lost", "a job is completed without its result"),
    ("engine-waiters-leak", "the memory of those who waited is counted for ever"),
    ("engine-lifetime-late", "jobs expire a minute late"),
    ("engine-run-outlives-server", "what was to be run for a client is there after a restart"),
    ("engine-enqueue-unwritten", "a job is put and not written"),
    ("engine-removal-unwritten", "a job is done and that is not written"),
    ("engine-lease-unwritten", "a lease that outlives its connection is not written"),
    ("engine-forgets-waiter", "a client that waits is passed over when a job comes"),
    ("engine-last-waiter-first", "who began to wait last is served first"),
    ("engine-lease-leaves-ready", "a leased job can be leased again"),
    ("engine-lease-reused", "every lease of a life has the same id"),
    ("engine-lease-too-short", "a lease ends at half its time"),
    ("engine-lease-never-ends", "a lease does not end by itself"),
    ("engine-dates-never-come", "a job with a date stays delayed"),
    ("engine-delay-ignored", "a job with a date is ready at once"),
    ("engine-block-ignored", "a blocked job is ready at once"),
    ("engine-blocked-leaks", "a job is not unblocked when its last blocker goes"),
    ("engine-group-by-halves", "the last job of a group is left out"),
    ("engine-group-completes-nothing", "what a group completes is not completed"),
    ("engine-order-ignored", "jobs are taken without regard to urgency"),
    ("engine-backoff-off-by-one", "a job rests for the failures it had before"),
    ("engine-failures-off-by-one", "a job may fail once more than it may"),
    ("engine-attempts-forgotten", "attempts are not counted"),
    ("engine-lifetime-ignored", "jobs do not expire"),
    ("engine-id-given-twice", "a job is put under the UUID of another"),
    ("engine-id-taken-for-ever", "the UUID of a job that is gone is refused"),
    ("engine-number-reused", "a number is given again after a start"),
    ("engine-compaction-forgets", "what is written anew leaves some jobs out"),
    ("engine-compaction-forgets-failures", "what is written anew leaves out how often a job has failed"),
    ("engine-count-wrong", "a queue counts a ready job too few"),
];

/// Whether this is broken on purpose.
#[must_use]
pub fn broken(what: &str) -> bool {
    static NAMED: OnceLock<Option<String>> = OnceLock::new();
    let named = NAMED.get_or_init(|| std::env::var("JOBYARD_BREAKAGE").ok());
    debug_assert!(BREAKAGES.iter().any(|(name, _)| *name == what), "{what} is in the list");
    named.as_deref() == Some(what)
}
