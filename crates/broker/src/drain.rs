//! How the server stops.

use jobyard_log::Log;

use crate::Broker;
use crate::client::Link;
use crate::event::Action;

/// Where the server stands on its way to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// It was not told to stop.
    No,
    /// What was received is carried out, and output is written.
    Draining {
        /// For how long at most.
        until_ms: u64,
    },
    /// All clients are closed. What was decided becomes durable.
    Syncing,
    /// It was told twice: nothing but the batch in flight is waited for.
    Hurried,
    /// It has ended.
    Over,
}

impl Stop {
    pub(crate) fn until_ms(self) -> Option<u64> {
        match self {
            Stop::Draining { until_ms } => Some(until_ms),
            Stop::No | Stop::Syncing | Stop::Hurried | Stop::Over => None,
        }
    }
}

impl<L: Log> Broker<L> {
    /// The process was told to stop, so many times.
    pub(crate) fn stop(&mut self, times: u32) {
        for _ in 0..times {
            match self.stop {
                Stop::No => self.drain(),
                Stop::Draining { .. } | Stop::Syncing if crate::broken("broker-second-stop-ignored") => {}
                Stop::Draining { .. } | Stop::Syncing => self.stop = Stop::Hurried,
                Stop::Hurried | Stop::Over => {}
            }
        }
    }

    /// No more clients are taken in and no more is read; what waits is answered as if its time had run out.
    fn drain(&mut self) {
        let until_ms = self.now.engine_ms.saturating_add(self.drain_timeout_ms);
        self.stop = Stop::Draining { until_ms };
        self.actions.push(Action::CloseListeners);
        let ids = self.clients.ids();
        for &id in &ids {
            if self.clients.get(id).is_some_and(|client| client.waiting) && !crate::broken("broker-stop-answers-nobody")
            {
                self.call(self.now, |engine, now, answers| engine.stop_waiting(now, id, answers));
            }
        }
        for id in ids {
            let Some(client) = self.clients.get_mut(id).filter(|client| client.serving()) else { continue };
            if client.quiet() && client.link == Link::Open {
                self.close(id);
            } else {
                client.finish(self.now.engine_ms);
                self.clients.change(id);
                self.clients.queue_up(id, &self.limits);
            }
        }
    }

    /// Ends the drain when all clients have been served, or when its time is up.
    pub(crate) fn end_drain(&mut self) {
        let Stop::Draining { until_ms } = self.stop else { return };
        let until_ms = if crate::broken("broker-waits-for-the-deaf") { u64::MAX } else { until_ms };
        if !self.clients.is_empty() && self.now.engine_ms < until_ms {
            return;
        }
        for id in self.clients.ids() {
            self.undo_unsent(id);
            self.close(id);
        }
        self.clients.queue.clear();
        self.stop = Stop::Syncing;
    }

    /// The process ends when nothing is left to be made durable, or when it cannot be.
    pub(crate) fn exit_when_done(&mut self) {
        let done = match self.stop {
            Stop::Syncing => !self.commit.in_flight() && self.engine.records().is_empty(),
            Stop::Hurried => !self.commit.in_flight(),
            Stop::No | Stop::Draining { .. } | Stop::Over => false,
        };
        if done && self.recovery.is_none() {
            self.commit.close();
        }
        if done || self.commit.failure().is_some() {
            self.actions.push(Action::Exit);
            self.stop = Stop::Over;
        }
    }
}
