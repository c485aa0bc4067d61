//! Queues of which nobody who asks for the next job is given one for a while: what is certain of that.

use std::collections::BTreeMap;

use super::{Ledger, Requests, SECOND_MS, When};
use crate::clients::Entry;

/// All queues that were ever paused, since the server started.
pub(super) type Pauses = BTreeMap<&'static str, Pause>;

/// What is known of the pauses of one queue.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pause {
    requests: Requests,
    /// The last one, if nothing that was asked since may have ended it.
    last: Option<Told>,
    /// No pause is longer.
    over_ms: u64,
}

/// A pause of which someone was told.
#[derive(Clone, Copy, Debug)]
struct Told {
    asked: When,
    when: When,
    pause_s: u64,
    /// It ends at this time, at the soonest.
    until_ms: u64,
}

impl Pause {
    /// Something was answered. Whether nothing else was asked meanwhile.
    fn answered(&mut self, asked: When, turn: u64) -> bool {
        let mut others = self.requests;
        others.open -= 1;
        self.requests.answered(turn);
        !others.any_since(asked)
    }
}

impl Ledger {
    /// Someone asks to pause a queue, or to end that.
    pub fn pause_asked(&mut self, queue: &'static str) {
        let pause = self.pauses.entry(queue).or_default();
        pause.requests.open += 1;
        pause.last = None;
    }

    /// It was done.
    pub fn paused(&mut self, queue: &'static str, pause_s: u64, asked: When, when: When) {
        let Some(pause) = self.pauses.get_mut(queue) else { return };
        let pause_ms = pause_s * 1_000;
        // What takes no time is over at once.
        let over_ms = if pause_s == 0 { when.at_ms } else { when.at_ms + pause_ms + SECOND_MS };
        if pause.answered(asked, when.turn) {
            pause.last = Some(Told { asked, when, pause_s, until_ms: asked.at_ms + pause_ms });
            pause.over_ms = over_ms;
        } else {
            pause.over_ms = pause.over_ms.max(over_ms);
        }
    }

    /// There was no such queue, to one who asked and heard then. When it comes back it is not paused.
    pub fn pause_refused(&mut self, queue: &'static str, asked: When, when: When) {
        if let Some(pause) = self.pauses.get_mut(queue)
            && pause.answered(asked, when.turn)
        {
            pause.over_ms = when.at_ms;
        }
    }

    /// It was done by now, or never will be, and nobody hears which.
    pub fn pause_lost(&mut self, queue: &'static str, pause_s: u64, when: When) {
        if let Some(pause) = self.pauses.get_mut(queue) {
            pause.requests.answered(when.turn);
            pause.over_ms = pause.over_ms.max(when.at_ms + pause_s * 1_000 + SECOND_MS);
        }
    }

    /// The server has ended, and another one starts: it pauses nothing.
    pub fn pauses_gone(&mut self) {
        self.pauses.clear();
    }

    /// Whether a queue may be paused at any time since then.
    #[must_use]
    pub fn may_be_paused(&self, queue: &str, since: When) -> bool {
        self.pauses.get(queue).is_some_and(|pause| pause.requests.any_since(since) || pause.over_ms > since.at_ms)
    }

    /// For how many seconds a queue was paused before, if it is paused from then until that time for certain: it has been there
    /// all the time, because a job of it has, as this one if it was just given.
    #[must_use]
    pub fn is_paused(&self, queue: &str, since: When, at_ms: u64, given: Option<Entry>) -> Option<u64> {
        let last = self.pauses.get(queue)?.last?;
        let keeps = |entry: Entry| {
            let job = &self.jobs[entry];
            let was_there = job.put_told.is_some_and(|told| told.turn < last.asked.turn);
            let is_there = given == Some(entry) || self.must_be_there(entry, at_ms);
            job.put.queue == queue && job.put.dead_queue.is_none() && was_there && is_there
        };
        let lasts = last.when.turn < since.turn && at_ms < last.until_ms;
        (lasts && (0..self.jobs.len()).any(keeps)).then_some(last.pause_s)
    }

    /// Whether a queue was paused before, and that is over for certain.
    #[must_use]
    pub fn was_paused(&self, queue: &str, since: When) -> bool {
        self.pauses.get(queue).is_some_and(|pause| pause.over_ms > 0) && !self.may_be_paused(queue, since)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{at, one};
    use super::*;

    /// Paused for so many seconds by one who asked in turn 2, and was told in turn 3.
    fn paused(pause_s: u64) -> Ledger {
        let mut ledger = one("goqueue");
        ledger.pause_asked("a");
        assert!(ledger.may_be_paused("a", at(2)) && !ledger.may_be_paused("b", at(2)));
        ledger.paused("a", pause_s, at(2), at(3));
        ledger
    }

    fn is_paused(ledger: &Ledger, from: u64, to: u64) -> bool {
        ledger.is_paused("a", at(from), at(to).at_ms, None).is_some()
    }

    #[test]
    fn a_pause_lasts_as_long_as_was_said() {
        let ledger = paused(5);
        assert!(!is_paused(&ledger, 3, 4), "it may have been asked before");
        assert_eq!(ledger.is_paused("a", at(4), 6_999, None), Some(5));
        assert!(!is_paused(&ledger, 4, 7) && ledger.may_be_paused("a", at(8)) && !ledger.may_be_paused("a", at(9)));
        assert!(ledger.was_paused("a", at(9)) && !ledger.was_paused("b", at(9)));
        assert!(!is_paused(&paused(0), 4, 4) && !paused(0).may_be_paused("a", at(4)));
    }

    #[test]
    fn whoever_asks_again_may_have_ended_it() {
        let mut ledger = paused(50);
        ledger.pause_asked("a");
        assert!(!is_paused(&ledger, 4, 5) && ledger.may_be_paused("a", at(90)));
        ledger.paused("a", 0, at(4), at(5));
        assert!(!ledger.may_be_paused("a", at(6)));

        // Of two at the same time, nobody knows which came first.
        let mut ledger = paused(50);
        ledger.pause_asked("a");
        ledger.pause_asked("a");
        ledger.paused("a", 20, at(4), at(5));
        ledger.paused("a", 0, at(4), at(5));
        assert!(!is_paused(&ledger, 6, 7) && ledger.may_be_paused("a", at(53)) && !ledger.may_be_paused("a", at(54)));
    }

    #[test]
    fn what_nobody_was_told_of_may_be_so() {
        let mut ledger = one("goqueue");
        ledger.pause_asked("a");
        ledger.pause_lost("a", 5, at(3));
        assert!(!is_paused(&ledger, 4, 5) && ledger.may_be_paused("a", at(8)) && !ledger.may_be_paused("a", at(9)));
    }

    #[test]
    fn a_pause_goes_with_its_queue_or_its_server() {
        let mut ledger = paused(50);
        ledger.end_asked(0);
        assert!(!is_paused(&ledger, 4, 5), "the last job may be gone, and the queue with it");
        assert_eq!(ledger.is_paused("a", at(4), 5_000, Some(0)), Some(50), "unless it was just given");
        ledger.pause_asked("a");
        ledger.pause_refused("a", at(4), at(5));
        assert!(!ledger.may_be_paused("a", at(6)));

        let mut ledger = paused(50);
        ledger.pauses_gone();
        assert!(!is_paused(&ledger, 4, 5) && !ledger.may_be_paused("a", at(4)));
    }
}
