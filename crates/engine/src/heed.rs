//! Waiting for a job while the time of another runs out: who waits so is told in time.

use crate::engine::Engine;
use crate::fail::lease_end_ms;
use crate::names::ClientId;
use crate::time::NEVER_MS;
use crate::waiting::{Heed, Want};

/// When the wait of one who heeds the jobs that it holds is over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    /// When one of these has little time left.
    pub(crate) soon_ms: u64,
    /// When it has waited long enough.
    pub(crate) wait_ms: u64,
}

impl Ends {
    pub(crate) fn at_ms(self) -> u64 {
        self.soon_ms.min(self.wait_ms)
    }
}

impl Engine {
    /// When the first of the jobs that a client holds will have no more than so long left.
    pub(crate) fn lease_ends_soon_ms(&mut self, client: ClientId, left_ms: u64) -> u64 {
        let Some(held) = self.store.held.get(&client).filter(|_| !crate::broken("engine-heed-ignored")) else {
            return NEVER_MS;
        };
        self.work += held.len() as u64;
        let ends = held.numbers().filter_map(|number| lease_end_ms(self.store.job(number).state));
        let first = ends.filter(|&until_ms| until_ms != NEVER_MS).min();
        let left_ms = if crate::broken("engine-heed-hasty") { 2 * left_ms } else { left_ms };
        first.map_or(NEVER_MS, |until_ms| until_ms.saturating_sub(left_ms))
    }

    /// When the wait of a client is over that heeds the jobs that it holds.
    pub(crate) fn heeded(&mut self, client: ClientId) -> Option<Ends> {
        let Want::Lease(want) = &self.waiting.get(client)?.want else {
            return None;
        };
        let Heed { left_ms, wait_until_ms: wait_ms } = want.heed?;
        Some(Ends { soon_ms: self.lease_ends_soon_ms(client, left_ms), wait_ms })
    }
}
