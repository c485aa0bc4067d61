//! One client of a schedule: what it asked and was not answered, what it has, and what is known of it.

use std::collections::VecDeque;
use std::fmt;

use jobyard_engine::ClientId;

use super::figures::Figures;
use super::small_talk::Known;
use crate::clients::{Ask, DEFAULT_TUBE, Entry, FOR_EVER_MS, Heard, Held, Put, RUN_WAIT_MS, Speaker};
use crate::ledger::When;

/// A client.
pub struct Person {
    pub client: ClientId,
    pub speaker: &'static Speaker,
    /// What was asked and not answered yet, in order.
    pub(super) pending: VecDeque<Pending>,
    /// How many bytes it has heard.
    pub(super) heard_bytes: usize,
    /// What was heard and is no whole answer yet.
    pub(super) unheard: Vec<u8>,
    /// When what of that came: so many bytes each.
    pub(super) marks: VecDeque<(usize, When)>,
    pub(super) holds: Vec<Held>,
    /// What it has put aside, or asked to.
    pub(super) buried: Vec<Held>,
    /// Whether it brings jobs from elsewhere, and nobody else does.
    pub(super) claims: bool,
    /// What it knows of its connection, if it is a client of Redis.
    pub(super) redis: Known,
    /// Where it puts jobs, as far as it was told, if it speaks beanstalkd.
    pub(super) uses: &'static str,
    /// Where it takes them from.
    pub(super) watches: Vec<&'static str>,
    /// In which turn it was last told of that, if it ever was, and whether that was where it puts jobs.
    pub(super) attended_turn: Option<u64>,
    pub(super) has_used: bool,
    /// How many jobs it was given.
    pub(super) took: usize,
    /// Whether it sends nothing more.
    pub gone: bool,
    /// Whether it has only ended its half of the connection: all that it asked for is to be answered.
    pub half_closed: bool,
    pub reads: bool,
    /// Whether it did not read for a while.
    pub was_deaf: bool,
    /// Whether it came through the port for all.
    pub for_all: bool,
    /// Whether the server knows what it speaks.
    pub known: bool,
    /// When it came, and sent something.
    pub(super) sent: Vec<When>,
    /// What it was last answered.
    pub(super) answer: Option<Heard>,
    /// When what it last heard left the server, or it said that it sends nothing more.
    pub heard_ms: u64,
    /// When all was first at rest since it came: the server knows it.
    pub welcomed_ms: Option<u64>,
    /// It came when there was no room.
    pub turned_away: bool,
    /// The server has said why it ends the connection, or need not.
    pub cut_off: bool,
}

/// What was asked.
pub(super) struct Pending {
    pub ask: Ask,
    pub label: &'static str,
    pub asked: When,
    /// Nothing was decided of it before then.
    pub undecided: When,
    /// Since when it has been the oldest, and all it sent has arrived.
    pub oldest: Option<When>,
    /// It is about a job that the client has for certain.
    pub sure: bool,
    /// Who else has the job that it is about for certain, if only its holder may do that.
    pub anothers: Option<ClientId>,
    /// Its place among all that was sent.
    pub sent: usize,
    /// What was known when it asked how the server is.
    pub figures: Option<Box<Figures>>,
}

impl fmt::Debug for Person {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} ({})", self.client, self.speaker.protocol)?;
        if let Some(pending) = self.pending.front() {
            write!(f, ", who asked {:?} at {:?}", pending.ask, pending.asked)?;
        }
        Ok(())
    }
}

/// A client that waits longer than said by so much has been forgotten. goqueue counts whole seconds.
pub const SLACK_MS: u64 = 1_500;

impl Person {
    /// One that has just connected.
    pub fn new(client: ClientId, speaker: &'static Speaker, now: When) -> Self {
        Person {
            client,
            speaker,
            pending: VecDeque::new(),
            heard_bytes: 0,
            unheard: Vec::new(),
            marks: VecDeque::new(),
            holds: Vec::new(),
            buried: Vec::new(),
            claims: false,
            redis: Known::default(),
            uses: DEFAULT_TUBE,
            watches: vec![DEFAULT_TUBE],
            attended_turn: None,
            has_used: false,
            took: 0,
            gone: false,
            half_closed: false,
            reads: true,
            was_deaf: false,
            for_all: false,
            known: true,
            sent: vec![now],
            answer: None,
            heard_ms: now.at_ms,
            welcomed_ms: None,
            turned_away: false,
            cut_off: false,
        }
    }

    /// If it waits: for which queues, and until when it must have been answered. To be asked when all is at rest.
    pub fn waits(&mut self, now: When) -> Option<(Vec<&'static str>, Option<u64>)> {
        if self.gone || !self.reads || self.cut_off {
            return None;
        }
        let pending = self.pending.front_mut()?;
        let since_ms = pending.oldest.get_or_insert(now).at_ms;
        // What stands behind it is not even looked at.
        if matches!(pending.ask, Ask::Take { .. }) {
            self.pending.iter_mut().for_each(|pending| pending.undecided = now);
        }
        let pending = self.pending.front()?;
        match &pending.ask {
            Ask::Take { queues, wait_ms } if *wait_ms > 0 => {
                let until_ms = (*wait_ms != FOR_EVER_MS).then(|| since_ms + wait_ms + SLACK_MS);
                Some((queues.clone(), until_ms))
            }
            Ask::Result { wait_ms, .. } => Some((Vec::new(), Some(since_ms + wait_ms + SLACK_MS))),
            Ask::Unfinished { .. } => None,
            // If nobody takes it.
            Ask::Put(put) if put.runs => Some((Vec::new(), Some(since_ms + RUN_WAIT_MS + SLACK_MS))),
            _ => Some((Vec::new(), Some(since_ms + SLACK_MS))),
        }
    }

    /// The jobs that it puts under this UUID, and has not heard of.
    pub fn puts_under(&self, id_of: Entry) -> impl Iterator<Item = Entry> {
        let is_workqs = self.speaker.protocol == "workq";
        self.pending.iter().filter_map(move |pending| match &pending.ask {
            Ask::Put(put) if is_workqs && put.id_of == id_of => Some(put.entry),
            _ => None,
        })
    }

    /// Since which turn it has waited for a job, as the server knows.
    pub fn waits_since(&self) -> Option<u64> {
        self.pending.front()?.oldest.map(|oldest| oldest.turn)
    }

    /// Since when it has waited for a job, as the server knows, if it does.
    pub fn waits_since_ms(&self) -> Option<u64> {
        let first = self.pending.front().filter(|pending| matches!(pending.ask, Ask::Take { .. }))?;
        first.oldest.map(|oldest| oldest.at_ms)
    }

    /// The queues of each job that it asked for and has not heard of.
    pub fn takes(&self) -> impl Iterator<Item = &[&'static str]> {
        self.pending.iter().filter_map(|pending| match &pending.ask {
            Ask::Take { queues, .. } => Some(&queues[..]),
            _ => None,
        })
    }

    /// The job that it has run, and for whose result it waits.
    pub fn runs(&self) -> Option<&Put> {
        match &self.pending.front()?.ask {
            Ask::Put(put) if put.runs => Some(put),
            _ => None,
        }
    }

    /// Takes so many bytes as heard. When the first of them came.
    pub fn pass(&mut self, mut bytes: usize) -> When {
        self.unheard.drain(..bytes);
        let when = self.marks.front().map_or_else(When::default, |(_, when)| *when);
        while let Some((len, _)) = self.marks.front_mut() {
            if *len > bytes {
                *len -= bytes;
                break;
            }
            bytes -= *len;
            self.marks.pop_front();
        }
        when
    }

    /// What it asked for and may have been given without having read so: it does not read, or the answer to a put
    /// before it is held back.
    pub fn unread(&self, puts_held_back: bool) -> impl Iterator<Item = &Ask> {
        let asks = self.pending.iter().map(|pending| &pending.ask);
        let is_heard = |ask: &&Ask| !matches!(ask, Ask::Put(_) | Ask::Group { .. }) || !puts_held_back;
        let heard = if self.reads && !self.gone { asks.clone().take_while(is_heard).count() } else { 0 };
        asks.skip(heard)
    }

    /// Whether it asked for a job of this queue and was not answered yet.
    pub fn asks_for(&self, queue: &str) -> bool {
        self.pending.iter().any(|pending| matches!(&pending.ask, Ask::Take { queues, .. } if queues.contains(&queue)))
    }

    /// Whether until then it was ever silent for so long: it may have sent something after that, and not know.
    pub fn was_silent(&self, ms: u64, until: When) -> bool {
        let moments: Vec<u64> = self.sent.iter().chain([&until]).map(|when| when.at_ms).collect();
        moments.windows(2).any(|pair| pair[0] + ms <= pair[1])
    }

    /// Whether it was given this job, and has not let go of it.
    pub fn has(&self, entry: Entry) -> bool {
        self.holds.iter().any(|held| held.entry == entry)
    }

    /// Whether it was given these jobs and no others, in this order.
    pub fn holds_in_order(&self, entries: &[Entry]) -> bool {
        self.holds.iter().map(|held| held.entry).eq(entries.iter().copied())
    }

    /// The job that it was given last.
    pub fn holding(&self) -> Option<Held> {
        self.holds.last().cloned()
    }

    /// Lets go of the job that it was given last.
    pub fn give_up(&mut self) -> Option<Held> {
        self.holds.pop()
    }

    /// Whether it can ask, and hears the answer.
    pub fn may_ask(&self) -> bool {
        !self.gone && self.reads && !self.cut_off && self.pending.is_empty()
    }

    /// What it has begun to ask, if the end of that is still to come: which beginning, and when that was.
    pub(super) fn begun(&self) -> Option<(usize, &Pending)> {
        let last = self.pending.back()?;
        if let Ask::Unfinished { kind, .. } = last.ask { Some((kind, last)) } else { None }
    }

    /// Whether it waits for the first thing that it asked for, if there is nothing yet.
    pub fn may_wait(&self) -> bool {
        self.pending.front().is_some_and(|pending| match &pending.ask {
            Ask::Take { wait_ms, .. } | Ask::Result { wait_ms, .. } => *wait_ms > 0,
            Ask::Put(put) => put.runs,
            _ => false,
        })
    }

    /// Whether it has always read what it was sent, and was not cut off.
    pub fn hears(&self) -> bool {
        self.reads && !self.was_deaf && !self.cut_off
    }

    /// Whether it has heard all it asked for. Of what it has only begun it hears when it says that no more follows, if at all.
    pub fn is_answered(&self) -> bool {
        let says_nothing = |kind: usize| !self.gone || self.speaker.says_of_end(kind).is_empty();
        match self.begun() {
            Some((kind, _)) => self.pending.len() == 1 && says_nothing(kind),
            None => self.pending.is_empty(),
        }
    }
}
