//! Why the server ends connections by itself: what it says then, and when it may and must.

use super::Schedule;
use super::expected::words_of;
use super::person::{Person, SLACK_MS};
use crate::clients::TOO_MANY_CLIENTS;
use crate::ledger::When;
use crate::world::Wrong;

/// Why the server ends a connection by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Farewell {
    /// Nothing was heard of the client for too long.
    Silent,
    /// There is no room for it.
    TooManyClients,
}

/// So many at once are told that there is no room for them.
const TURNED_AWAY_MAX: usize = 32;

/// What masenko says to those who are silent for too long.
const NO_HEARTBEAT: &str = "ERR {\"msg\":\"no heartbeat\"}\n";

impl Farewell {
    /// In which words this client is told.
    pub fn words(self, who: &Person) -> &'static str {
        match self {
            Farewell::Silent => NO_HEARTBEAT,
            Farewell::TooManyClients if who.known => who.speaker.too_many_clients,
            Farewell::TooManyClients => TOO_MANY_CLIENTS,
        }
    }
}

impl Person {
    /// Why its connection ends, if what it hears begins to say so.
    pub fn farewell(&self) -> Option<Farewell> {
        let mine = [(Farewell::Silent, self.speaker.heartbeat), (Farewell::TooManyClients, self.turned_away)];
        let begins = |farewell: &Farewell| {
            let words = farewell.words(self).as_bytes();
            self.unheard.starts_with(words) || words.starts_with(&self.unheard)
        };
        mine.into_iter().filter_map(|(farewell, may_be)| may_be.then_some(farewell)).find(begins)
    }
}

impl Schedule {
    /// Whether few clients may come.
    pub(super) fn lacks_clients(&self) -> bool {
        self.world.setup().config.limits.clients_max < jobyard_engine::Limits::default().clients_max
    }

    /// Whether there is no room for one more client: those for whom there was none take none.
    pub(super) fn is_full_of_clients(&self) -> bool {
        let welcome = self.world.open().difference(&self.turned_away).count();
        welcome >= self.world.setup().config.limits.clients_max
    }

    /// Whether so many were turned away that others are closed without a word.
    pub(super) fn is_full_of_turned_away(&self) -> bool {
        self.world.open().intersection(&self.turned_away).count() >= TURNED_AWAY_MAX
    }

    /// Someone was told why its connection ends.
    pub(super) fn check_cut_off(&mut self, index: usize, farewell: Farewell, when: When) -> Result<(), Wrong> {
        let who = &mut self.people[index];
        // It may have gone on sending, if it did not hear so at once.
        if farewell == Farewell::Silent && !who.was_silent(self.told.heartbeat_ms, when) {
            return Err(format!("{who:?} was cut off at {when:?}, and was never silent for so long"));
        }
        who.cut_off = true;
        let (client, port) = (who.client, if who.known { who.speaker.protocol } else { "any" });
        let words = farewell.words(who).trim_end_matches(['\0', '\r', '\n']);
        let words = words.strip_prefix("ERROR\0").unwrap_or(words);
        let words = words.strip_prefix('-').filter(|words| words.starts_with("ERR ")).unwrap_or(words);
        let said = format!("{port} cut off: {}", words_of(words));
        self.ledger.client_gone(client, self.world.elapsed_ms());
        self.count(&said, 1);
        Ok(())
    }

    /// When all is at rest, whoever came when there was no room has been told so.
    pub(super) fn check_turned_away(&mut self, index: usize) -> Result<(), Wrong> {
        let who = &self.people[index];
        if who.turned_away && who.reads && !who.cut_off {
            return Err(format!("{who:?} came when there was no room, and was not told so"));
        }
        self.count("checked: there was room for a client", u64::from(self.lacks_clients() && !who.turned_away));
        Ok(())
    }

    /// Who has been silent for too long must have been told so: all that it sent was answered.
    pub(super) fn check_silence(&mut self, index: usize) -> Result<(), Wrong> {
        let now_ms = self.world.elapsed_ms();
        let who = &mut self.people[index];
        let since_ms = (*who.welcomed_ms.get_or_insert(now_ms)).max(who.heard_ms);
        // A server that stands still does not see that its answer was taken, for which it waits.
        let since_ms = since_ms.max(self.stalled_until_ms);
        // On the port for all, one that never said anything has no heartbeat.
        let may_be_cut_off = who.speaker.heartbeat && who.known && !who.gone && !who.cut_off;
        let silent = may_be_cut_off && who.reads && who.is_answered();
        if silent && since_ms.saturating_add(self.told.heartbeat_ms + SLACK_MS) < now_ms {
            return Err(format!("{who:?} has been silent since {since_ms}, and was not cut off"));
        }
        Ok(())
    }

    /// Who sends nothing more and was answered, or was told why, must have been seen off.
    pub(super) fn check_seen_off(&self, index: usize) -> Result<(), Wrong> {
        let who = &self.people[index];
        let done = who.cut_off || who.gone && who.is_answered();
        let done = done && who.reads && !self.world.is_closed(who.client);
        if done && who.heard_ms + SLACK_MS < self.world.elapsed_ms() {
            return Err(format!("{who:?} has nothing more to hear, and its connection is open"));
        }
        Ok(())
    }
}
