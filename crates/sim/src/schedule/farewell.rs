//! Why the server ends connections by itself: what it says then, and when it may and must.

use super::Schedule;
use super::expected::words_of;
use super::person::{Person, SLACK_MS};
use super::wants::OUT_OF_MEMORY;
use jobyard_engine::Limits;

use crate::clients::{Ask, TOO_MANY_CLIENTS, TOO_MUCH_INPUT};
use crate::ledger::When;
use crate::world::Wrong;

/// Why the server ends a connection by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Farewell {
    /// Nothing was heard of the client for too long.
    Silent,
    /// There is no room for it.
    TooManyClients,
    /// Of what clients have sent and is no whole request, there is too much, and it has the most.
    TooMuchInput,
    /// The same, and nothing it sent was looked at, so that nobody knows what it speaks.
    TooMuchUndecided,
}

/// Something that was sent.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// What the server counts for it at least, as long as it is unfinished: a line may be done with before its block has come.
    pub bytes_least: usize,
    /// What the server may count for it at the most.
    pub bytes_most: usize,
    pub since_turn: u64,
    /// From then on the server has no need to keep it: it was answered, or its client is not heard of any more.
    pub until_turn: u64,
}

/// What a message of a transaction takes beside its bytes.
const MESSAGE_BYTES_MAX: usize = 600;

/// So many at once are told that there is no room for them.
const TURNED_AWAY_MAX: usize = 32;

/// What masenko says to those who are silent for too long.
const NO_HEARTBEAT: &str = "ERR {\"msg\":\"no heartbeat\"}\n";

impl Sent {
    /// These bytes, in that turn.
    pub fn new(ask: &Ask, bytes: &[u8], turn: u64) -> Self {
        // The messages of a transaction that is not whole are kept as what they mean.
        let is_group = matches!(ask, Ask::Group { .. } | Ask::Unfinished { .. });
        let messages = if is_group { bytes.iter().filter(|byte| **byte == b'\n').count() } else { 0 };
        let bytes_most = bytes.len() + messages * MESSAGE_BYTES_MAX;
        let bytes_least = if let Ask::Unfinished { more, .. } = ask { bytes.len().min(*more) } else { 0 };
        Sent { bytes_least, bytes_most, since_turn: turn, until_turn: u64::MAX }
    }
}

impl Farewell {
    /// In which words this client is told.
    pub fn words(self, who: &Person) -> &'static str {
        match self {
            Farewell::Silent => NO_HEARTBEAT,
            Farewell::TooManyClients if who.known => who.speaker.too_many_clients,
            Farewell::TooManyClients => TOO_MANY_CLIENTS,
            Farewell::TooMuchInput => who.speaker.too_much_input,
            Farewell::TooMuchUndecided => TOO_MUCH_INPUT,
        }
    }
}

impl Person {
    /// Why its connection ends, if what it hears begins to say so.
    pub fn farewell(&self, lacks_input: bool) -> Option<Farewell> {
        let mine = [
            (Farewell::Silent, self.speaker.heartbeat),
            (Farewell::TooManyClients, self.turned_away),
            (Farewell::TooMuchInput, lacks_input),
            (Farewell::TooMuchUndecided, lacks_input && self.for_all && self.unheard.len() == self.heard_bytes),
        ];
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
        self.world.setup().config.limits.clients_max < Limits::default().clients_max
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
        let is_too_much = matches!(farewell, Farewell::TooMuchInput | Farewell::TooMuchUndecided);
        if is_too_much && !self.may_be_too_much(index, when) {
            let who = &self.people[index];
            return Err(format!("{who:?} was told at {when:?} of too much input, and there was not so much"));
        }
        let who = &mut self.people[index];
        who.cut_off = true;
        let (client, port) = (who.client, if who.known { who.speaker.protocol } else { "any" });
        let words = farewell.words(who).trim_end_matches(['\0', '\r', '\n']);
        let words = words.strip_prefix("ERROR\0").unwrap_or(words);
        let words = words.strip_prefix('-').filter(|words| words.starts_with("ERR ")).unwrap_or(words);
        let mut said = format!("{port} cut off: {}", words_of(words));
        if words == OUT_OF_MEMORY {
            said = format!("{said}, for {}", farewell.reason());
        }
        self.ledger.client_gone(client, self.world.elapsed_ms());
        self.count(&said, 1);
        Ok(())
    }

    /// Whether one who hears that something is wanting could not tell whether its connection ends for that.
    pub(super) fn has_two_wants(&self) -> bool {
        let wants = self.faults.full || self.faults.disk || self.lacks_queues() || self.lacks_holds();
        self.lacks_input() && (wants || self.is_short_of_memory())
    }

    /// Whether little may be left unfinished.
    pub(super) fn lacks_input(&self) -> bool {
        self.input_bytes_max() < Limits::default().input_bytes_max
    }

    fn input_bytes_max(&self) -> usize {
        self.world.setup().config.limits.input_bytes_max
    }

    /// Whether in this schedule, now and then, someone begins a request and does not end it.
    pub(super) fn leaves_things_undone(&mut self) -> bool {
        (self.lacks_input() || self.faults.clients) && self.one_in(3)
    }

    /// Whether since this client asked for what it has not heard of, there was a time at which more than may be was
    /// unfinished, by all that was sent and not answered. On a full disk requests lie there that are whole.
    pub(super) fn may_be_too_much(&self, index: usize, when: When) -> bool {
        let Some(first) = self.people[index].pending.front() else { return false };
        let unfinished = |turn: u64| {
            let then = self.sent.iter().filter(|sent| sent.since_turn <= turn && turn <= sent.until_turn);
            then.map(|sent| sent.bytes_most).sum::<usize>()
        };
        let turns = self.sent.iter().map(|sent| sent.since_turn);
        let mut turns = turns.filter(|turn| (first.asked.turn..=when.turn).contains(turn));
        self.may_want_room(when) || turns.any(|turn| unfinished(turn) > self.input_bytes_max())
    }

    /// When all is at rest, whoever alone has left more unfinished than may be has been told so.
    pub(super) fn check_unfinished(&mut self, index: usize) -> Result<(), Wrong> {
        let who = &self.people[index];
        let Some((_, begun)) = who.begun().filter(|_| who.reads && !who.gone && !who.cut_off) else { return Ok(()) };
        let bytes = self.sent[begun.sent].bytes_least;
        let is_read = begun.asked.at_ms.max(self.stalled_until_ms) + SLACK_MS < self.world.elapsed_ms();
        if is_read && bytes > self.input_bytes_max() && !who.turned_away {
            return Err(format!("{who:?} has left {bytes} bytes unfinished, and was not told that this is too much"));
        }
        self.count("checked: what is unfinished may be so", u64::from(is_read && self.lacks_input()));
        Ok(())
    }

    /// Someone was told that the end of its request is missing: it had said that no more follows.
    pub(super) fn check_cut_short(&mut self, index: usize, kind: usize, words: &str) -> Result<(), Wrong> {
        let who = &self.people[index];
        if !who.gone || words != who.speaker.says_of_end(kind) {
            return Err(format!("{who:?} was told of a request without an end: {words}"));
        }
        Ok(())
    }

    /// When all is at rest, whoever came when there was no room has been told so.
    pub(super) fn check_turned_away(&mut self, index: usize) -> Result<(), Wrong> {
        let who = &self.people[index];
        if who.turned_away && who.reads && !who.cut_off {
            return Err(format!("{who:?} came when there was no room, and was not told so"));
        }
        let is_served = who.heard_bytes > 0 && !who.turned_away;
        self.count("checked: there was room for a client", u64::from(self.lacks_clients() && is_served));
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
        // The first line of a transaction is a sign of life, although no more follows.
        let since_ms = since_ms.max(who.begun().map_or(0, |(_, begun)| begun.asked.at_ms));
        let silent = may_be_cut_off && who.reads && who.is_answered();
        if silent && since_ms.saturating_add(self.told.heartbeat_ms + SLACK_MS) < now_ms {
            return Err(format!("{who:?} has been silent since {since_ms}, and was not cut off"));
        }
        Ok(())
    }

    /// Who sends nothing more must have been answered, and then, or when it was told why, have been seen off.
    pub(super) fn check_seen_off(&self, index: usize) -> Result<(), Wrong> {
        let who = &self.people[index];
        // What ends a connection may stand behind something that waits; who has ended its half waits for nothing.
        let may_wait = !who.half_closed && who.may_wait();
        let is_owed = who.gone && who.hears() && !who.turned_away && !may_wait && !who.is_answered();
        let since_ms = who.heard_ms.max(self.stalled_until_ms);
        if is_owed && !self.may_keep_waiting() && since_ms + SLACK_MS < self.world.elapsed_ms() {
            return Err(format!("{who:?} sends nothing more, and was not answered"));
        }
        let done = who.cut_off || who.gone && who.is_answered();
        let done = done && who.reads && !self.world.is_closed(who.client);
        if done && who.heard_ms + SLACK_MS < self.world.elapsed_ms() {
            return Err(format!("{who:?} has nothing more to hear, and its connection is open"));
        }
        Ok(())
    }
}
