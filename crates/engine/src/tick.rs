//! What happens by itself, when its time has come.

use crate::engine::{Answers, Engine};
use crate::job::State;
use crate::time::Now;
use crate::timers::Timer;

impl Engine {
    /// Does what fell due up to `now`: dates first, then engine deadlines in order of time. At one
    /// time jobs come first, then the waiting are served, then the wait that began first ends; this may
    /// free a job, so that all of it begins again before the next wait ends.
    pub fn tick(&mut self, now: Now, answers: &mut Answers<'_>) {
        while let Some(number) = self.store.timers.due_date(now.wall_ms) {
            self.wake(now, number);
        }
        self.serve(now, answers);
        while let Some((at_ms, _)) = self.store.timers.due(now.engine_ms) {
            let then = Now { engine_ms: at_ms, ..now };
            self.jobs_fall_due(then, answers);
            self.serve(then, answers);
            if self.first_wait_ends(then, answers) {
                self.jobs_fall_due(then, answers);
                self.serve(then, answers);
            }
        }
    }

    fn jobs_fall_due(&mut self, then: Now, answers: &mut Answers<'_>) {
        while let Some((_, timer)) = self.store.timers.due(then.engine_ms) {
            match timer {
                Timer::Expiry(number) => self.expire(then, number, answers),
                Timer::LeaseEnd(number) => self.lease_over(then, number, answers),
                Timer::DelayEnd(number) => self.store.set_state(number, State::Ready),
                Timer::WaitEnd(_) => return,
            }
        }
    }

    fn first_wait_ends(&mut self, then: Now, answers: &mut Answers<'_>) -> bool {
        let Some((_, Timer::WaitEnd(ticket))) = self.store.timers.due(then.engine_ms) else {
            return false;
        };
        let client = self.waiting.client(ticket).expect("a wait that ends is known");
        let want = self.end_wait(client).expect("looked at above");
        self.time_out(then, client, &want, answers);
        true
    }
}
