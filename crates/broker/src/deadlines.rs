//! What falls due: the engine's deadlines, and clients that were silent for too long.

use jobyard_log::Log;

use crate::Broker;

/// Engine times of the last looks at the sockets, the newest first.
///
/// Several turns may follow one look: those whose events are all answers to actions. So a turn is known to follow a
/// look of its own if the clock was read anew, or if nothing at all had happened.
#[derive(Debug)]
pub(crate) struct Looks([u64; 3]);

impl Looks {
    pub(crate) fn new(now_ms: u64) -> Self {
        Looks([now_ms; 3])
    }

    /// A turn begins.
    pub(crate) fn turn(&mut self, now_ms: u64, nothing_happened: bool) {
        if now_ms != self.0[0] || nothing_happened {
            self.0 = [now_ms, self.0[0], self.0[1]];
        }
    }

    /// Up to when all that had arrived was read, a turn's share from each client: later deadlines must wait, for what would
    /// keep them may have arrived in time.
    ///
    /// What had arrived by one look is known at the next, and read in the turn after that. So after a stall, wherever it
    /// struck, leases and heartbeats are looked at only when those who may have renewed them were heard.
    pub(crate) fn heard_until_ms(&self, unread: bool) -> u64 {
        if crate::broken("broker-deadlines-first") {
            return self.0[0];
        }
        let known = if crate::broken("broker-deadlines-before-looking") { 0 } else { 1 };
        self.0[if unread { 2 } else { known }]
    }
}

impl<L: Log> Broker<L> {
    /// Does what fell due, in order of time; at one moment the engine's answers come first, and count as a sign of life.
    pub(crate) fn pass_deadlines(&mut self, unread: bool) {
        // Before the log has been read back nobody knows what time it is, nor what there is to fall due.
        if self.recovery.is_some() || self.waits_for_log() {
            return;
        }
        // Who is still in the queue has sent something that this turn had no room for.
        let waits = self.clients.queue.front().and_then(|&id| self.clients.get(id));
        let heard_ms = self.looks.heard_until_ms(unread);
        let horizon_ms = waits.map_or(heard_ms, |client| client.heard_until_ms.min(heard_ms));
        loop {
            let silent = self.clients.next_silent(horizon_ms, &self.limits);
            let until_ms = silent.map_or(horizon_ms, |(at_ms, _)| at_ms);
            if !self.tick(until_ms) || silent.is_none() {
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
    }

    /// Gives the engine its tick, if something is due by `until_ms` on engine time or by now on the wall clock. False if it
    /// leaves some of it to the next turn, for which that is due at once.
    fn tick(&mut self, until_ms: u64) -> bool {
        let next = self.engine.next_deadline();
        let due = next.engine_ms.is_some_and(|ms| ms <= until_ms);
        let date_due = next.wall_ms.is_some_and(|ms| ms <= self.now.wall_ms);
        let mut is_done = true;
        if (due || date_due) && !crate::broken("broker-no-tick") {
            self.call(self.now, |engine, now, answers| is_done = engine.tick(now, until_ms, answers));
        }
        is_done
    }
}
