//! What falls due: the engine's deadlines, and clients that were silent for too long.

use jobyard_engine::Now;
use jobyard_log::Log;

use crate::Broker;

impl<L: Log> Broker<L> {
    /// Does what fell due, in order of time; at one moment the engine's answers come first, and count as a sign of life.
    pub(crate) fn pass_deadlines(&mut self, unread: bool) {
        let horizon_ms = self.horizon_ms(unread);
        loop {
            let silent = self.clients.next_silent(horizon_ms, &self.limits);
            let until_ms = silent.map_or(horizon_ms, |(at_ms, _)| at_ms);
            self.tick(until_ms);
            if silent.is_none() {
                break;
            }
            while let Some((_, id)) = self.clients.next_silent(until_ms, &self.limits) {
                if let Some(client) = self.clients.get_mut(id) {
                    client.say_deadline_passed();
                }
                self.seal(id, 0);
                self.end_session(id);
            }
        }
        self.recent_ms = [self.now.engine_ms, self.recent_ms[0]];
    }

    /// Up to when all that had arrived was read, a turn's share from each client: later deadlines must wait, for what would
    /// keep them may have arrived in time.
    ///
    /// What had arrived by the time of one turn is known in the next, and read in the one after it. If nothing is known to be
    /// unread, then all that had arrived by the last turn is read. So after a stall, wherever it struck, leases
    /// and heartbeats are looked at only when those who may have renewed them were heard.
    fn horizon_ms(&self, unread: bool) -> u64 {
        self.recent_ms[usize::from(unread)]
    }

    fn tick(&mut self, until_ms: u64) {
        let next = self.engine.next_deadline();
        let due = next.engine_ms.is_some_and(|ms| ms <= until_ms);
        let date_due = next.wall_ms.is_some_and(|ms| ms <= self.now.wall_ms);
        if due || date_due {
            let now = Now { engine_ms: until_ms, ..self.now };
            self.call(now, |engine, now, answers| engine.tick(now, answers));
        }
    }
}
