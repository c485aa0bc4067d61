//! How connections end: hang-ups, sessions that are over, last answers, and leases of which nobody heard.

use jobyard_engine::ClientId;
use jobyard_log::Log;
use jobyard_protocols::Farewell;

use crate::Broker;
use crate::client::{Link, Phase};
use crate::drain::Stop;
use crate::event::Action;

/// For how long a client may go on sending after it was sent the last answer.
const LINGER_MS_MAX: u64 = 1_000;

impl<L: Log> Broker<L> {
    /// Clients are ending, ended or gone. What they wait for is answered as if its time had run out; then leases of which
    /// they cannot hear any more are undone. All of it before anyone's next command, so that these jobs go to others.
    pub(crate) fn hang_up(&mut self, ids: &[ClientId]) {
        for &id in ids {
            if self.clients.get(id).is_some_and(|client| client.waiting) {
                self.call(self.now, |engine, now, answers| engine.stop_waiting(now, id, answers));
            }
        }
        for &id in ids {
            if self.clients.get(id).is_some_and(|client| client.link == Link::Gone) {
                self.undo_unsent(id);
                // It may have been waiting for room to be answered in; now nothing keeps it.
                self.clients.queue_up(id, &self.limits);
            }
        }
    }

    /// Nothing more of what was written to the client can be sent: leases of which it did not hear never were.
    pub(crate) fn undo_unsent(&mut self, id: ClientId) {
        let Some(client) = self.clients.get_mut(id) else { return };
        for (number, lease) in client.output.drop_unsent() {
            self.undo_lease(number, lease);
        }
    }

    /// The server ends a session. What the client holds ends now, its connection when it has taken the last answer.
    pub(crate) fn end_session(&mut self, id: ClientId) {
        if let Some(client) = self.clients.get_mut(id) {
            client.end_session(self.now.engine_ms);
            self.clients.change(id);
            self.part(id);
        }
    }

    /// The server has to end a session, and says why.
    pub(crate) fn dismiss(&mut self, id: ClientId, why: Farewell) {
        if let Some(client) = self.clients.get_mut(id) {
            client.say_last_words(why);
            self.seal(id, 0);
            self.end_session(id);
        }
    }

    /// What the client holds ends by its protocol's rule. When the server stops it ends as at a crash: with the process.
    fn part(&mut self, id: ClientId) {
        let Some(client) = self.clients.get_mut(id) else { return };
        if !std::mem::replace(&mut client.parted, true)
            && (self.stop == Stop::No || crate::broken("broker-stop-fails-held"))
            && !crate::broken("broker-hold-outlives-client")
        {
            self.call(self.now, |engine, now, answers| engine.disconnect(now, id, answers));
        }
    }

    /// Moves clients whose session is over towards their end.
    pub(crate) fn end_clients(&mut self) {
        while let Some(id) = self.clients.next_farewell(self.now.engine_ms, &self.limits) {
            self.give_up(id);
        }
        let mut next = 0;
        // A client that parts may change others.
        while let Some(&id) = self.clients.changed.get(next) {
            next += 1;
            self.end_client(id);
        }
    }

    /// Nothing moves any more: the client is as good as gone.
    fn give_up(&mut self, id: ClientId) {
        if let Some(client) = self.clients.get_mut(id) {
            client.end_input(Link::Gone, self.now.engine_ms);
            self.clients.change(id);
            self.hang_up(&[id]);
        }
    }

    fn end_client(&mut self, id: ClientId) {
        if crate::broken("broker-open-for-ever") {
            return;
        }
        let Some(client) = self.clients.get(id) else { return };
        let open = client.link == Link::Open;
        match client.phase {
            Phase::Serving => {}
            Phase::Ending => {
                if client.output.is_empty() && !client.writing || client.link == Link::Gone {
                    self.part(id);
                    if open { self.linger(id) } else { self.close(id) }
                }
            }
            Phase::Lingering { bytes_left, .. } => {
                if !open || bytes_left == 0 {
                    self.close(id);
                }
            }
        }
    }

    /// All was sent. What the client is still sending is read and dropped: a body that was refused, say.
    fn linger(&mut self, id: ClientId) {
        let until_ms = self.now.engine_ms.saturating_add(LINGER_MS_MAX);
        let bytes_left = self.limits.line_bytes_max().saturating_mul(2);
        if let Some(client) = self.clients.get_mut(id) {
            client.phase = Phase::Lingering { until_ms, bytes_left };
            self.actions.push(Action::Finish(id));
        }
    }

    pub(crate) fn close(&mut self, id: ClientId) {
        self.clients.remove(id);
        self.actions.push(Action::Close(id));
    }
}
