//! What happens by itself, when its time has come.

use crate::changes::Why;
use crate::engine::{Answers, Engine};
use crate::heed::Ends;
use crate::job::State;
use crate::names::JobNumber;
use crate::reply::Reply;
use crate::time::{NEVER_MS, Now};
use crate::timers::Timer;

impl Engine {
    /// Does what fell due: first the dates up to now, then the engine deadlines up to `until_ms`, which may
    /// be before now, in order of time. At one time jobs come first, then the waiting are served, then the wait
    /// that began first ends; this may free a job, so that all of it begins again before the next wait ends.
    ///
    /// What this begins (a lease for one who waits, a lifetime) begins now, however late the tick is.
    ///
    /// Who hears that its time is nearly over is heard before it is over, if that has come as well: what it has sent behind
    /// its wait was not read so far, and may keep its job.
    ///
    /// False if there is more that fell due, for that reason or because a portion was decided: it is for the next tick, which
    /// is due at once.
    pub fn tick(&mut self, now: Now, until_ms: u64, answers: &mut Answers<'_>) -> bool {
        self.called("tick");
        self.pass(now, until_ms, answers)
    }

    /// What [`Engine::tick`] does, in whatever call.
    pub(crate) fn pass(&mut self, now: Now, until_ms: u64, answers: &mut Answers<'_>) -> bool {
        let is_done = self.fall_due(now, until_ms, answers);
        self.store.sweep();
        is_done
    }

    fn fall_due(&mut self, now: Now, until_ms: u64, answers: &mut Answers<'_>) -> bool {
        let end = self.portion_end();
        let mut unheard_ms = until_ms;
        while let Some(number) = self.due_date(now) {
            if self.records.len() >= end {
                break;
            }
            self.wake(now, number);
        }
        self.serve(now, answers);
        while let Some((at_ms, _)) = self.store.timers.due(unheard_ms) {
            if self.records.len() >= end {
                return false;
            }
            self.jobs_fall_due(now, at_ms, end, answers);
            self.serve(now, answers);
            if let Some(ms) = self.first_wait_ends(now, at_ms, answers) {
                unheard_ms = unheard_ms.min(ms);
                self.jobs_fall_due(now, at_ms, end, answers);
                self.serve(now, answers);
            }
        }
        self.due_date(now).is_none() && self.store.timers.due(until_ms).is_none()
    }

    /// A job whose date has come.
    fn due_date(&self, now: Now) -> Option<JobNumber> {
        self.store.timers.due_date(now.wall_ms).filter(|_| !crate::broken("engine-dates-never-come"))
    }

    fn jobs_fall_due(&mut self, now: Now, at_ms: u64, end: usize, answers: &mut Answers<'_>) {
        while let Some((_, timer)) = self.store.timers.due(at_ms) {
            if self.records.len() >= end {
                return;
            }
            match timer {
                Timer::Expiry(number) => self.expire(now, number, answers),
                Timer::LeaseEnd(number) => self.lease_over(now, number, answers),
                Timer::DelayEnd(number) => {
                    self.store.set_state(number, State::Ready);
                    self.note(Why::Rested);
                }
                Timer::PauseEnd(queue) => self.end_pause(queue),
                Timer::WaitEnd(_) => return,
            }
        }
    }

    /// Ends it, if it is over. Returns up to when deadlines may pass before who waited is heard.
    fn first_wait_ends(&mut self, now: Now, at_ms: u64, answers: &mut Answers<'_>) -> Option<u64> {
        let Some((_, Timer::WaitEnd(ticket))) = self.store.timers.due(at_ms) else {
            return None;
        };
        let client = self.waiting.client(ticket).expect("a wait that ends is known");
        match self.heeded(client) {
            // What it heeded is not there any more.
            Some(ends) if ends.at_ms() > at_ms => self.wait_until(client, ends.at_ms()),
            Some(Ends { soon_ms, .. }) if soon_ms <= at_ms => {
                self.end_wait(client);
                answers(client, Reply::LeaseEnding);
                if !crate::broken("engine-told-and-not-heard") {
                    return Some(self.lease_ends_soon_ms(client, 0).saturating_sub(1));
                }
            }
            _ => {
                let want = self.end_wait(client).expect("looked at above");
                self.time_out(now, client, &want, answers);
            }
        }
        Some(NEVER_MS)
    }
}
