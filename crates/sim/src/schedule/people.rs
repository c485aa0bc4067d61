//! The clients of a schedule: who they are, what they ask, and how they go.

use jobyard_protocols::PROTOCOLS;

use super::person::{Pending, Person};
use super::{QUEUES, Schedule, Sent, listener_of};
use crate::clients::{Ask, BEANSTALKD, Entry, FOR_EVER_MS, Held, Put, SPEAKERS, Speaker, speaker, uuid_of_entry};
use crate::ledger::{Group, Id, Job, When};
use crate::world::{Manners, Parting, Wrong};

/// So much is asked without waiting for answers, at most.
const PENDING_MAX: usize = 3;
/// Answers to puts are held back for less, where there is little memory.
pub const HELD_BACK_MS: u64 = 3_000;
const WAITS_MS: [u64; 4] = [0, 0, 1_000, 3_000];

impl Schedule {
    /// One more client comes.
    pub fn invite(&mut self) {
        if !self.world.is_listening() {
            return;
        }
        // Where it is told of two wants in the same words, it could not know which of them is meant.
        let speakers = SPEAKERS.iter().filter(|speaker| speaker.protocol != BEANSTALKD || !self.has_two_wants());
        let speakers: Vec<_> = speakers.collect();
        let protocol = speakers[self.below(speakers.len())].protocol;
        let speaker = speaker(protocol, self.told.lease_ms.is_some());
        let listener = if self.one_in(3) { PROTOCOLS.len() } else { listener_of(speaker.protocol) };
        let manners = match self.below(3) {
            0 => Manners::PLAIN,
            1 => Manners { piece_bytes_max: 1 + self.below(40), delay: 1 + self.below(3), taken_bytes_max: 0 },
            _ => Manners { piece_bytes_max: 0, delay: 1 + self.below(4), taken_bytes_max: 1 + self.below(60) },
        };
        let (turned_away, untold) = (self.is_full_of_clients(), self.is_full_of_turned_away());
        let client = self.world.connect(listener, manners);
        let known = listener != PROTOCOLS.len();
        let now = self.now();
        self.turned_away.extend(turned_away.then_some(client));
        let cut_off = turned_away && untold;
        self.people.push(Person { known, for_all: !known, turned_away, cut_off, ..Person::new(client, speaker, now) });
        self.count(&format!("connected {}", speaker.protocol), 1);
    }

    pub fn someone_asks(&mut self) {
        if self.people.is_empty() {
            return self.invite();
        }
        let index = self.below(self.people.len());
        if self.people[index].gone || self.people[index].pending.len() >= PENDING_MAX {
            return;
        }
        if self.people[index].begun().is_some() {
            if self.faults.clients && self.one_in(3) {
                self.half_close(index);
            }
            return;
        }
        let ask = self.think_of_something(index);
        let ask = self.claim_first(index, ask);
        self.ask(index, ask);
    }

    /// Someone of masenko who has a job completes it with a group of others, and does not wait for the answer.
    pub fn someone_asks_at_last(&mut self) {
        let has =
            |person: &Person| person.speaker.protocol == "masenko" && person.may_ask() && !person.holds.is_empty();
        if let Some(index) = self.people.iter().position(has) {
            let completes = self.people[index].give_up();
            let ask = self.group(completes);
            self.ask(index, ask);
            for _ in 0..self.below(4) {
                self.world.turn();
            }
            self.world.part(self.people[index].client, Parting::Reset);
        }
    }

    fn think_of_something(&mut self, index: usize) -> Ask {
        let holds = self.people[index].holds.len();
        match self.below(22) {
            0..8 => {
                let put = self.job(self.ledger.next_entry());
                let is_workqs = self.people[index].speaker.protocol == "workq";
                let put = if is_workqs && self.one_in(4) { self.under_some_id(put) } else { put };
                Ask::Put(self.bring(put))
            }
            8 if self.people[index].speaker.protocol == "masenko" => {
                let completes = if self.coin() { self.people[index].give_up() } else { None };
                self.group(completes)
            }
            8 if self.people[index].speaker.protocol == BEANSTALKD => self.let_back_in(index),
            12..15 if self.people[index].speaker.protocol == BEANSTALKD => self.look_at_tubes(index),
            9..14 => self.take(index),
            14 => self.look(index),
            15 if self.people[index].known && self.leaves_things_undone() => {
                let most = if self.lacks_input() { 2 * self.world.setup().config.limits.input_bytes_max } else { 500 };
                Ask::Unfinished { kind: self.below(14), more: self.below(most) }
            }
            15 if self.people[index].known && self.faults.clients && self.one_in(3) => Ask::Blunder(self.below(18)),
            15 if self.people[index].known => Ask::Nonsense(self.below(self.people[index].speaker.nonsense.len())),
            20.. if self.people[index].speaker.protocol == BEANSTALKD && self.pauses => self.pause(index),
            20 if self.people[index].speaker.protocol == BEANSTALKD => self.take_this(index),
            _ if holds > 0 => {
                let which = self.below(holds);
                let held = self.people[index].holds.swap_remove(which);
                if self.people[index].speaker.protocol == BEANSTALKD {
                    return self.be_done_with(index, held);
                }
                match self.below(6) {
                    0 => Ask::Fail(held),
                    1 => Ask::Release(held),
                    2 => Ask::Remove(held),
                    _ => Ask::Complete(held),
                }
            }
            _ => self.take(index),
        }
    }

    /// Something that changes nothing, if the protocol has it.
    fn look(&mut self, index: usize) -> Ask {
        let queue = QUEUES[self.below(QUEUES.len())];
        match (self.people[index].speaker.protocol, self.below(8)) {
            ("workq", 0..3) => self.ask_for_result(),
            ("workq", 3 | 4) => Ask::List { queue, delayed: self.coin(), offset: self.below(4) },
            ("masenko", 0) if self.faults.clients => Ask::Leave { politely: true },
            ("takeanumber", 0) if self.faults.clients => Ask::Leave { politely: self.coin() },
            ("workq" | "masenko", 5) => Ask::Greet,
            ("takeanumber", 3..) => self.talk(index),
            _ => Ask::Count(queue),
        }
    }

    fn ask_for_result(&mut self) -> Ask {
        let entry = self.below(self.ledger.next_entry().max(1));
        let uuid = self.ledger.jobs.get(entry).and_then(Job::uuid).unwrap_or_else(|| uuid_of_entry(entry));
        Ask::Result { uuid, wait_ms: WAITS_MS[self.below(WAITS_MS.len())] }
    }

    fn queue(&mut self) -> &'static str {
        QUEUES[self.below(self.queues)]
    }

    pub fn take(&mut self, index: usize) -> Ask {
        let speaker = self.people[index].speaker;
        // Now and then one to which nobody has put anything: it begins with this.
        let first = if self.one_in(15) { QUEUES[self.below(QUEUES.len())] } else { self.queue() };
        let mut queues = vec![first];
        if !matches!(speaker.protocol, "goqueue" | "takeanumber") && self.coin() {
            let other = self.queue();
            if other != queues[0] {
                queues.push(other);
            }
        }
        let wait_ms = match speaker.protocol {
            "goqueue" if self.one_in(6) => FOR_EVER_MS,
            "goqueue" => 1_000 + 1_000 * self.below(3) as u64,
            "jobcentre" if self.one_in(3) => FOR_EVER_MS,
            BEANSTALKD if self.one_in(if self.people[index].holds.is_empty() { 6 } else { 2 }) => FOR_EVER_MS,
            "jobcentre" | "takeanumber" => 0,
            _ => WAITS_MS[self.below(WAITS_MS.len())],
        };
        Ask::Take { queues, wait_ms }
    }

    /// A job of any kind. Whoever cannot say it leaves something out.
    pub(super) fn job(&mut self, entry: Entry) -> Put {
        let pad = self.below(self.pad_max + 1);
        let body = format!("{{\"j\":{entry},\"pad\":\"{}\"}}", "x".repeat(pad));
        let numbers: Vec<u64> = self.ledger.jobs.iter().rev().take(20).filter_map(|job| job.number).collect();
        let some = |schedule: &mut Self, n, most: usize| {
            schedule.one_in(n).then(|| 1 + u32::try_from(schedule.below(most)).unwrap_or(0))
        };
        let blocked = self.one_in(6) && !numbers.is_empty();
        let dead_queue = if self.one_in(6) { Some(self.queue()) } else { None };
        Put {
            entry,
            id_of: entry,
            queue: self.queue(),
            body,
            urgency: if self.one_in(3) { u32::try_from(self.below(5)).unwrap_or(0) } else { 0 },
            own_time_s: some(self, 2, 8),
            delay_s: some(self, 6, 6),
            lifetime_s: some(self, 8, 20),
            failures: if dead_queue.is_some() { Some(u32::from(self.coin())) } else { some(self, 6, 3) },
            attempts: some(self, 8, 3),
            blockers: if blocked { vec![numbers[self.below(numbers.len())]] } else { Vec::new() },
            dead_queue,
            runs: self.one_in(20),
            origin: None,
            aside: false,
        }
    }

    /// The same job, to be put under the UUID of another, if it is known what must come of that: it is taken, or free again
    /// and nobody knows the job that had it, or that job is being put as well.
    fn under_some_id(&mut self, put: Put) -> Put {
        let latest = if self.coin() { 6 } else { 60 };
        let back = 1 + self.below(latest);
        let Some(other) = put.entry.checked_sub(back).filter(|other| self.ledger.jobs[*other].protocol == "workq")
        else {
            return put;
        };
        let id_of = self.ledger.jobs[other].put.id_of;
        match self.ledger.id(id_of) {
            Id::Taken => Put { id_of, ..put },
            Id::Free if !self.people.iter().any(|person| self.knows_id(person, id_of)) => Put { id_of, ..put },
            // It has to be there when the other one is looked at.
            Id::Open if self.people.iter().any(|person| person.puts_under(id_of).next().is_some()) => {
                Put { id_of, runs: false, lifetime_s: None, ..put }
            }
            Id::Free | Id::Open | Id::Unclear => put,
        }
    }

    /// Whether someone may still ask something of the job that had this UUID.
    fn knows_id(&self, person: &Person, id_of: Entry) -> bool {
        let uuid = uuid_of_entry(id_of);
        let has_id = |entry: Entry| self.ledger.jobs[entry].put.id_of == id_of;
        // It may have been given the job before that was removed, and hear of it later.
        let may_have_taken = |queues: &[&str], asked: When| {
            let had_id = self.ledger.jobs.iter().filter(|job| has_id(job.put.entry));
            let was_there = |job: &Job| job.ended.is_some_and(|(ended, _)| asked.turn <= ended.turn);
            had_id.filter(|job| was_there(job)).any(|job| queues.iter().any(|queue| job.put.may_be_in(queue)))
        };
        let asks = |pending: &Pending| match &pending.ask {
            Ask::Result { uuid: asked, .. } => *asked == uuid,
            Ask::Take { queues, .. } => may_have_taken(queues, pending.asked),
            Ask::TakeThis(held) => has_id(held.entry),
            ask => ask.disturbs().is_some_and(has_id),
        };
        person.holds.iter().any(|held| has_id(held.entry))
            || person.pending.iter().any(asks)
            || person.puts_under(id_of).next().is_some()
    }

    /// Whether this would remove a job under whose UUID another is being put: nobody could tell which was there first.
    fn frees_contested_id(&self, speaker: &Speaker, ask: &Ask) -> bool {
        let Some(entry) = ask.removes(speaker) else { return false };
        let id_of = self.ledger.jobs[entry].put.id_of;
        self.people.iter().any(|person| person.puts_under(id_of).any(|other| other != entry))
    }

    /// A job that everybody can put, but for its dead queue.
    pub fn plain_job(&mut self, entry: Entry) -> Put {
        let Put { queue, body, dead_queue, .. } = self.job(entry);
        Put { dead_queue, ..Put::plain(entry, queue, body) }
    }

    /// Jobs that are put together, and what is completed with them.
    fn group(&mut self, completes: Option<Held>) -> Ask {
        let first = self.ledger.next_entry();
        let count = 2 + self.below(2);
        let puts = (first..first + count).map(|entry| self.plain_job(entry)).collect();
        Ask::Group { puts, completes }
    }

    /// Asks, if it can be said; else something simpler, or nothing. What has to be said before comes first.
    pub fn ask(&mut self, index: usize, ask: Ask) {
        if self.attend_first(index, &ask) {
            self.send(index, ask);
        }
    }

    /// Asks nothing but this.
    pub(super) fn send(&mut self, index: usize, mut ask: Ask) {
        if self.people[index].begun().is_some() {
            return;
        }
        let speaker = self.people[index].speaker;
        let wall_ms = self.world.clock.wall_ms;
        if let Ask::Put(put) = &mut ask {
            // Nobody else can say that.
            put.attempts = put.attempts.filter(|_| speaker.protocol == "workq" && !put.runs);
            put.origin = put.origin.filter(|_| speaker.protocol == BEANSTALKD);
            put.aside &= put.origin.is_some();
            // Whatever delay is said of a job that is put aside, it has none.
            put.delay_s = put.delay_s.filter(|_| !put.aside);
        }
        let (bytes, label) = loop {
            match speaker.says(&ask, wall_ms) {
                Some(said) => break said,
                None => match simpler(speaker, ask) {
                    Some(simple) => ask = simple,
                    None => return,
                },
            }
        };
        if self.frees_contested_id(speaker, &ask) {
            return;
        }
        assert!(speaker.calls_it_so(&ask, &bytes, label), "'{label}' says {}", bytes.escape_ascii());
        let now = self.now();
        let (sure, anothers) = (self.is_sure(index, &ask), self.is_anothers(index, &ask));
        self.note_asked(&ask, speaker, now);
        if self.people[index].turned_away {
            self.ledger.put_refused(&ask.puts());
        }
        self.count(label, 1);
        let person = &mut self.people[index];
        person.known |= !person.turned_away;
        // What has no end is no sign of life.
        if !matches!(ask, Ask::Unfinished { .. }) {
            person.sent.push(now);
        }
        let client = person.client;
        if matches!(ask, Ask::Leave { .. } | Ask::Blunder(_)) {
            (person.gone, person.heard_ms) = (true, now.at_ms);
            self.ledger.client_gone(client, now.at_ms);
        }
        if ask == (Ask::Leave { politely: false }) {
            return self.world.send(client, &bytes);
        }
        let sent = self.sent.len();
        self.sent.push(Sent::new(&ask, &bytes, now.turn));
        if speaker.protocol == BEANSTALKD {
            self.note_figures_asked(&bytes);
        }
        let figures = self.figures_now(&ask);
        let pending = Pending { ask, label, asked: now, undecided: now, oldest: None, sure, anothers, sent, figures };
        self.people[index].pending.push_back(pending);
        self.world.send(client, &bytes);
    }

    fn note_asked(&mut self, ask: &Ask, speaker: &Speaker, now: When) {
        let protocol = speaker.protocol;
        ask.removes(speaker).into_iter().for_each(|entry| self.ledger.removal_asked(entry));
        self.note_asked_of_origin(ask);
        match ask {
            Ask::Put(put) => self.ledger.put_asked(put, protocol, now),
            Ask::Group { puts, completes } => {
                puts.iter().for_each(|put| self.ledger.put_asked(put, protocol, now));
                let entries = puts.iter().map(|put| put.entry).collect();
                let completes = completes.as_ref().map(|held| held.entry);
                self.ledger.groups.push(Group { entries, completes, told: false });
                completes.into_iter().for_each(|entry| self.ledger.complete_asked(entry, false));
            }
            Ask::Complete(held) => self.ledger.complete_asked(held.entry, protocol == "workq"),
            Ask::Remove(held) => self.ledger.end_asked(held.entry),
            Ask::Fail(held) => self.ledger.fail_asked(held.entry),
            Ask::Release(held) => self.ledger.release_asked(held.entry),
            _ => self.note_asked_of_tubes(ask),
        }
    }

    /// A client is not heard of again.
    pub fn lose(&mut self, person: &Person) {
        let now_ms = self.world.elapsed_ms();
        self.ledger.client_gone(person.client, now_ms);
        if person.turned_away {
            return;
        }
        person.takes().for_each(|queues| self.ledger.take_lost(queues, person.speaker, now_ms));
        self.lose_these(person);
    }

    /// What a client asked that may end jobs or leases was done by now, or never will be.
    pub fn settle(&mut self, person: &Person) {
        let now = self.now();
        person.pending.iter().for_each(|pending| self.sent[pending.sent].until_turn = now.turn);
        let disturbed = person.pending.iter().filter_map(|pending| pending.ask.disturbs());
        disturbed.for_each(|entry| self.ledger.settled(entry, now));
        person.pending.iter().for_each(|pending| self.settle_tubes(&pending.ask, now));
        person.pending.iter().for_each(|pending| self.lose_origin(&pending.ask));
    }

    /// A client goes, in one of several ways.
    pub fn someone_goes(&mut self) -> Result<(), Wrong> {
        if self.people.is_empty() {
            return Ok(());
        }
        let index = self.below(self.people.len());
        // Some want two jobs, and do not wait for them.
        if self.people[index].may_ask() && self.one_in(3) {
            for _ in 0..2 {
                let ask = self.take(index);
                self.ask(index, ask);
            }
            for _ in 0..2 + self.below(4) {
                self.world.turn();
            }
        }
        let client = self.people[index].client;
        self.count("fault client goes with answers unread", u64::from(self.world.has_unread(client)));
        let parting = match self.below(3) {
            0 => Parting::Close,
            1 => Parting::Reset,
            _ => {
                self.half_close(index);
                return Ok(());
            }
        };
        self.count(&format!("fault client {parting:?}").to_lowercase(), 1);
        self.ledger.client_gone(client, self.world.elapsed_ms());
        self.world.part(client, parting);
        let person = self.people.swap_remove(index);
        // What it had sent may still be carried out.
        self.world.rest()?;
        if self.heard_all(&person) {
            self.ledger.client_gone(client, self.world.elapsed_ms());
            let unheard = person.takes().map(|queues| self.ledger.take_undone(queues, self.world.elapsed_ms())).count();
            person.takes_this().for_each(|entry| self.ledger.take_this_undone(entry, self.world.elapsed_ms()));
            self.count("checked: nobody has what nobody heard of", u64::from(unheard > 1));
        } else {
            self.lose(&person);
        }
        self.settle(&person);
        // Where there is little memory, the answer to its last put may be held back, and its session lasts until then.
        let held_back_ms = if self.is_short_of_memory() { HELD_BACK_MS } else { 0 };
        self.ledger.client_seen_off(person.client, self.world.elapsed_ms() + held_back_ms);
        Ok(())
    }

    /// A client sends nothing more, and still listens.
    fn half_close(&mut self, index: usize) {
        self.count("fault client halfclose", 1);
        let (now_ms, who) = (self.world.elapsed_ms(), &mut self.people[index]);
        who.half_closed |= !who.gone;
        (who.gone, who.heard_ms) = (true, now_ms);
        let client = who.client;
        self.ledger.client_gone(client, now_ms);
        self.world.part(client, Parting::HalfClose);
    }

    /// Whether no byte was written to a client that it has not heard, and none ever will be: then it was given nothing either.
    /// Where there is little room, that may take a while.
    fn heard_all(&self, person: &Person) -> bool {
        let is_bounded = self.is_short_of_memory() || self.may_want_room(self.now());
        !is_bounded && person.unheard.is_empty() && self.world.taken_bytes(person.client) == person.heard_bytes
    }

    /// A client stops reading, or reads again.
    pub fn someone_stops_reading(&mut self) {
        if self.people.is_empty() {
            return;
        }
        let index = self.below(self.people.len());
        let person = &mut self.people[index];
        person.reads = !person.reads;
        person.was_deaf = true;
        let (client, reads) = (person.client, person.reads);
        self.world.set_reading(client, reads);
        self.count(if reads { "fault client reads again" } else { "fault client stops reading" }, 1);
    }

    /// Everybody reads.
    pub fn wake_all(&mut self) {
        for index in 0..self.people.len() {
            self.people[index].reads = true;
            self.world.set_reading(self.people[index].client, true);
        }
    }

    /// Those whose connection has ended are seen off, and others come.
    pub fn mourn(&mut self) -> Result<(), Wrong> {
        let mut index = 0;
        while index < self.people.len() {
            let Person { client, gone, reads, cut_off, .. } = self.people[index];
            if !self.world.is_closed(client) || !reads {
                index += 1;
                continue;
            }
            // Who was silent for too long and does not take the words in which that is said is given up without them.
            let who = &self.people[index];
            let was_silent = who.speaker.heartbeat && who.was_silent(self.told.heartbeat_ms, self.now());
            let given_up = who.was_deaf && (was_silent || self.lacks_input());
            if self.world.is_running() && !gone && !cut_off && !given_up && !self.stopping {
                return Err(format!("{:?} was cut off, and nobody knows why", self.people[index]));
            }
            let has_blundered = who.pending.iter().any(|pending| matches!(pending.ask, Ask::Blunder(_)));
            let is_owed = (who.half_closed || has_blundered)
                && !who.was_deaf
                && !cut_off
                && self.world.is_running()
                && !self.stopping;
            if is_owed && !who.is_answered() {
                return Err(format!("{who:?} sends nothing more, and was not answered"));
            }
            let is_untold = who.turned_away && who.heard_bytes == 0;
            self.count("checked: who half-closes is answered", u64::from(is_owed));
            self.count("checked: of too many clients some are not told", u64::from(is_untold));
            self.world.forget(client);
            let person = self.people.swap_remove(index);
            self.lose(&person);
            self.settle(&person);
        }
        if self.people.len() < 3 {
            self.invite();
        }
        Ok(())
    }
}

/// Something that more protocols can say.
fn simpler(speaker: &Speaker, ask: Ask) -> Option<Ask> {
    let simple = match ask {
        Ask::Put(put) if put.runs && speaker.protocol == "workq" => {
            let (delay_s, lifetime_s, failures) = (None, None, None);
            Ask::Put(Put { delay_s, lifetime_s, failures, blockers: Vec::new(), dead_queue: None, ..put })
        }
        Ask::Put(put) => Ask::Put(Put {
            own_time_s: if matches!(speaker.protocol, "goqueue" | "workq" | BEANSTALKD) {
                put.own_time_s
            } else {
                None
            },
            lifetime_s: if speaker.protocol == "workq" { put.lifetime_s } else { None },
            delay_s: if matches!(speaker.protocol, "masenko" | "workq" | BEANSTALKD) { put.delay_s } else { None },
            failures: if matches!(speaker.protocol, "masenko" | "workq" | "takeanumber") { put.failures } else { None },
            blockers: if speaker.protocol == "masenko" { put.blockers.clone() } else { Vec::new() },
            dead_queue: if speaker.protocol == "masenko" { put.dead_queue } else { None },
            urgency: if matches!(speaker.protocol, "masenko" | "takeanumber") { 0 } else { put.urgency },
            runs: false,
            ..put
        }),
        Ask::Fail(held) | Ask::Release(held) | Ask::Remove(held) => Ask::Complete(held),
        _ => return None,
    };
    (speaker.say)(&simple, 0).is_some().then_some(simple)
}
