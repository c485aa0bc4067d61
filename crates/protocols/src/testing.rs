//! What the codecs' tests share: a quiet world, and a job as it is leased.

use jobyard_engine::{JobNumber, JobView, Limits, Now, OwnTime, QueueName, StateView, Tally, Uuid};

use crate::codec::{Context, Health};
use crate::surroundings::LogView;

/// The first moment of a server that has one client and is ready.
pub(crate) fn context(limits: &Limits) -> Context<'_> {
    Context {
        now: now(0),
        limits,
        clients: 1,
        clients_total: 1,
        client: 1,
        started_wall_ms: 0,
        health: Health::Ready,
        // A test has one world, and ends.
        tallies: Box::leak(Box::default()),
        host: Box::leak(Box::default()),
        log: LogView::default(),
    }
}

/// So much engine time on.
pub(crate) fn now(engine_ms: u64) -> Now {
    Now { engine_ms, wall_ms: 0, random: 0 }
}

/// A leased job that brought no rules.
pub(crate) fn leased<'a>(number: JobNumber, queue: &'a QueueName, body: &'a [u8]) -> JobView<'a> {
    JobView {
        number,
        uuid: Uuid::of_number(number),
        queue,
        name: None,
        body,
        urgency: 0,
        own_time: OwnTime::None,
        lifetime_ms: None,
        attempts: 0,
        attempts_max: None,
        failures: 0,
        failures_allowed: None,
        state: StateView::Leased,
        created_wall_ms: 0,
        date_wall_ms: None,
        delay_ms: 0,
        until: None,
        tally: Tally::default(),
    }
}
