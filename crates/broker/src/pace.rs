//! How much one client may move through its socket while others, who move little, are being served.
//!
//! What a large body costs grows with its bytes: reading it, writing it to the log, the sync, sending it. So whoever moves many
//! bytes rests while small requests are carried out, and goes as fast as it can when there are none.

use jobyard_engine::ClientId;

/// What one client may move in a millisecond, in both directions together.
const BYTES_PER_MS: u64 = 32 << 10;

/// Who owes no more than this does not rest: no client of small requests comes near it.
const FREE_BYTES: u64 = 256 << 10;

/// Nobody owes more than this: what was moved when nobody else was there is soon forgotten.
const OWED_BYTES_MAX: u64 = 2 << 20;

/// A client of small requests is being served until so long after its last one.
const COMPANY_MS: u64 = 20;

/// What one client has moved of late.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace {
    owed_bytes: u64,
    counted_ms: u64,
}

impl Pace {
    /// It has moved so much.
    pub(crate) fn moved(&mut self, count: usize, now_ms: u64) {
        let paid = now_ms.saturating_sub(self.counted_ms).saturating_mul(BYTES_PER_MS);
        let owed = self.owed_bytes.saturating_sub(paid).saturating_add(count as u64);
        *self = Pace { owed_bytes: owed.min(OWED_BYTES_MAX), counted_ms: now_ms };
    }

    /// Until when it moves more than its share.
    fn owes_until_ms(&self) -> u64 {
        self.counted_ms.saturating_add(self.owed_bytes.saturating_sub(FREE_BYTES).div_ceil(BYTES_PER_MS))
    }

    /// Whether it moves more than its share.
    pub(crate) fn owes(&self, now_ms: u64) -> bool {
        self.owes_until_ms() > now_ms
    }
}

/// Who carried out a small request last, and when.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Company(Option<(ClientId, u64)>);

impl Company {
    /// A client's request was carried out.
    pub(crate) fn served(&mut self, id: ClientId, pace: &Pace, now_ms: u64) {
        if !pace.owes(now_ms) {
            self.0 = Some((id, now_ms));
        }
    }

    /// Until when this client must rest for the others' sake, if it must.
    pub(crate) fn rests_until_ms(&self, id: ClientId, pace: &Pace, now_ms: u64) -> Option<u64> {
        let (_, served_ms) = self.0.filter(|&(other, _)| other != id)?;
        let until_ms = pace.owes_until_ms().min(served_ms.saturating_add(COMPANY_MS));
        (until_ms > now_ms).then_some(until_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: ClientId = ClientId(1);
    const LARGE: ClientId = ClientId(2);

    fn moved(count: u64, now_ms: u64) -> Pace {
        let mut pace = Pace::default();
        pace.moved(usize::try_from(count).unwrap(), now_ms);
        pace
    }

    #[test]
    fn who_moves_more_than_its_share_rests_until_that_is_made_up_for() {
        let mut company = Company::default();
        company.served(SMALL, &moved(FREE_BYTES, 0), 100);
        assert_eq!(company.rests_until_ms(LARGE, &moved(FREE_BYTES, 100), 100), None);
        let mut pace = moved(FREE_BYTES + 3 * BYTES_PER_MS, 100);
        assert_eq!(company.rests_until_ms(LARGE, &pace, 100), Some(103));
        assert_eq!(company.rests_until_ms(LARGE, &pace, 102), Some(103));
        assert_eq!(company.rests_until_ms(LARGE, &pace, 103), None);
        pace.moved(1, 102);
        assert_eq!(company.rests_until_ms(LARGE, &pace, 102), Some(104));
    }

    #[test]
    fn nobody_rests_alone_nor_for_itself_nor_for_those_who_move_as_much() {
        let (pace, mut company) = (moved(OWED_BYTES_MAX, 100), Company::default());
        assert_eq!(company.rests_until_ms(LARGE, &pace, 100), None);
        company.served(SMALL, &pace, 100);
        assert_eq!(company.rests_until_ms(LARGE, &pace, 100), None);
        company.served(LARGE, &Pace::default(), 100);
        assert_eq!(company.rests_until_ms(LARGE, &pace, 100), None);
        company.served(SMALL, &Pace::default(), 90);
        assert_eq!(company.rests_until_ms(LARGE, &pace, 100), Some(90 + COMPANY_MS));
        assert_eq!(company.rests_until_ms(LARGE, &pace, 90 + COMPANY_MS), None);
    }

    #[test]
    fn what_was_moved_long_ago_or_alone_is_forgotten() {
        let mut pace = moved(u64::MAX >> 1, 100);
        assert!(pace.owes_until_ms() <= 100 + OWED_BYTES_MAX / BYTES_PER_MS);
        pace.moved(1, 10_000);
        assert!(!pace.owes(10_000));
    }
}
