//! What clients of beanstalkd do besides putting and taking: they use and watch queues, keep jobs for longer, put them aside
//! and let them back in, and look at all of that; and what must hold of it.

use super::person::{Pending, Person, SLACK_MS};
use super::{QUEUES, Schedule};
use crate::clients::{Ask, BEANSTALKD, Counts, DEFAULT_TUBE, Heard, Held, Standing};
use crate::ledger::{Aside, Kept, When};
use crate::world::Wrong;

/// What is said of a job that is not there, or that one may do nothing with.
const NOT_FOUND: &str = "NOT_FOUND";
/// The one queue that is watched cannot be ignored.
const NOT_IGNORED: &str = "NOT_IGNORED";
/// So many jobs are let back in at once, at most.
const KICKS_MAX: usize = 3;

impl Schedule {
    /// Has a client use and watch what this needs. Whether it can be asked now: what may be refused must be answered first.
    pub(super) fn attend_first(&mut self, index: usize, ask: &Ask) -> bool {
        let first = self.people[index].attends_before(ask);
        if !self.lacks_queues() && !self.is_short_of_memory() {
            first.into_iter().for_each(|attend| self.send(index, attend));
            return true;
        }
        let depends = matches!(ask, Ask::Put(_) | Ask::Take { .. } | Ask::Kick { .. } | Ask::PeekNext { .. });
        if depends && self.people[index].is_attending() {
            return false;
        }
        let attend = first.into_iter().next();
        let may_ask = attend.is_none();
        attend.into_iter().for_each(|attend| self.send(index, attend));
        may_ask
    }

    /// What a client does with a job that it has.
    pub(super) fn be_done_with(&mut self, index: usize, held: Held) -> Ask {
        let urgency = u32::try_from(self.below(5)).unwrap_or(0);
        match self.below(11) {
            0..3 => {
                self.people[index].buried.push(held.clone());
                Ask::Bury { held, urgency }
            }
            3 => Ask::PutBack { held, urgency, delay_s: 1 + u32::try_from(self.below(5)).unwrap_or(0) },
            4 => Ask::PutBack { held, urgency, delay_s: 0 },
            // For how long someone waits for what it has run, nobody could tell then.
            5..7 if !self.ledger.jobs[held.entry].put.runs => {
                self.people[index].holds.push(held.clone());
                Ask::Extend(held)
            }
            7 => Ask::Remove(held),
            _ => Ask::Complete(held),
        }
    }

    /// Something about jobs that were put aside.
    pub(super) fn let_back_in(&mut self, index: usize) -> Ask {
        if self.one_in(3)
            && let Some(origin) = self.some_origin()
        {
            return Ask::CloseOrigin(origin);
        }
        let aside = self.people[index].buried.len();
        if aside == 0 || self.one_in(4) {
            return Ask::Kick { queue: QUEUES[self.below(self.queues)], count: 1 + self.below(KICKS_MAX) };
        }
        let which = self.below(aside);
        let held = self.people[index].buried.swap_remove(which);
        if self.one_in(4) { Ask::Remove(held) } else { Ask::KickJob(held) }
    }

    /// Something that changes nothing.
    pub(super) fn look_at_tubes(&mut self, index: usize) -> Ask {
        let (used, watched) = self.people[index].attends();
        let queue = if self.coin() { used } else { QUEUES[self.below(QUEUES.len())] };
        // Where something is put, now and then.
        let busy = QUEUES[self.below(self.queues)];
        let aside = self.people[index].buried.last().map_or(queue, |held| held.queue);
        match self.below(13) {
            11 => Ask::Origins { after: self.coin().then(|| self.below(4)) },
            0 if self.faults.clients => Ask::Leave { politely: false },
            1 => Ask::Greet,
            2 => Ask::Queues,
            3 => Ask::Attended { watched: self.coin() },
            4 if let [only] = watched[..] => Ask::Ignore(only),
            5 => Ask::PeekNext { queue: busy, state: Standing::Ready },
            6 => Ask::PeekNext { queue: busy, state: Standing::Delayed },
            7 | 8 => Ask::PeekNext { queue: aside, state: Standing::Buried },
            9..11 => match self.some_job(index) {
                Some(held) if self.coin() => Ask::Peek(held),
                Some(held) => Ask::State(held),
                None => Ask::Count(queue),
            },
            _ if self.coin() => Ask::Count(busy),
            _ => Ask::Figures(if self.coin() { busy } else { queue }),
        }
    }

    /// Something that is written, so that the last room of a disk is used up.
    pub(super) fn write_a_little(&mut self, index: usize) -> Ask {
        match self.people[index].give_up() {
            Some(held) if self.coin() => {
                self.people[index].buried.push(held.clone());
                Ask::Bury { held, urgency: 0 }
            }
            Some(held) => Ask::PutBack { held, urgency: 0, delay_s: 0 },
            None if self.coin() => self.let_back_in(index),
            None => self.take(index),
        }
    }

    /// A job whose number is known: one that the client has or has put aside, or any other.
    pub(super) fn some_job(&mut self, index: usize) -> Option<Held> {
        let person = &self.people[index];
        let mine: Vec<Held> = person.holds.iter().chain(&person.buried).cloned().collect();
        if !mine.is_empty() && self.coin() {
            return Some(mine[self.below(mine.len())].clone());
        }
        let latest = self.ledger.jobs.iter().rev().take(20);
        let known = latest.filter_map(|job| Some((job.known_number()?, &job.put)));
        let known: Vec<Held> =
            known.map(|(number, put)| Held { entry: put.entry, id: number.to_string(), queue: put.queue }).collect();
        if known.is_empty() { None } else { Some(known[self.below(known.len())].clone()) }
    }

    pub(super) fn note_asked_of_tubes(&mut self, ask: &Ask) {
        match ask {
            Ask::PutBack { held, .. } => self.ledger.aside_asked(held.entry, false),
            Ask::Bury { held, .. } => self.ledger.aside_asked(held.entry, true),
            Ask::Kick { queue, .. } => self.ledger.kick_asked(queue),
            Ask::KickJob(held) => self.ledger.kick_job_asked(held.entry),
            Ask::Extend(held) => self.ledger.extend_asked(held.entry),
            Ask::TakeThis(held) => self.ledger.take_this_asked(held.entry),
            Ask::Pause { queue, .. } => self.ledger.pause_asked(queue),
            _ => {}
        }
    }

    /// What a client asked was done by now, or never will be.
    pub(super) fn settle_tubes(&mut self, ask: &Ask, now: When) {
        match ask {
            Ask::PutBack { held, .. } | Ask::Bury { held, .. } => self.ledger.aside_lost(held.entry, now),
            Ask::Kick { queue, .. } => self.ledger.kick_lost(queue, now),
            Ask::KickJob(held) => self.ledger.kick_job_lost(held.entry, now),
            Ask::Extend(held) => self.ledger.extend_refused(held.entry),
            Ask::TakeThis(held) => self.ledger.take_this_settled(held.entry, now),
            Ask::Pause { queue, pause_s } => self.ledger.pause_lost(queue, *pause_s, now),
            _ => {}
        }
    }

    pub(super) fn note_refused_of_tubes(
        &mut self,
        ask: &Ask,
        words: &str,
        asked: When,
        when: When,
    ) -> Result<(), Wrong> {
        match ask {
            Ask::PutBack { held, .. } | Ask::Bury { held, .. } => self.ledger.aside_refused(held.entry),
            Ask::Kick { queue, .. } => self.ledger.kick_refused(queue),
            Ask::KickJob(held) => self.ledger.kick_job_refused(held.entry, words == NOT_FOUND, asked, when)?,
            Ask::Extend(held) => self.ledger.extend_refused(held.entry),
            Ask::TakeThis(held) => self.ledger.take_this_refused(held.entry),
            Ask::Pause { queue, .. } => self.ledger.pause_refused(queue, asked, when),
            _ => {}
        }
        Ok(())
    }

    /// What was asked was done. Whether nobody else can have meddled is known.
    pub(super) fn note_done_with_tubes(
        &mut self,
        index: usize,
        pending: &Pending,
        alone: bool,
        when: When,
    ) -> Result<(), Wrong> {
        let Pending { ask, asked, .. } = pending;
        self.check_not_anothers(index, pending, alone, when)?;
        let (client, speaker) = (self.people[index].client, self.people[index].speaker);
        match ask {
            Ask::PutBack { held, urgency, delay_s } => {
                let delay_s = Some(*delay_s);
                let aside = Aside { entry: held.entry, client, urgency: *urgency, delay_s, asked: *asked, alone };
                self.ledger.aside_done(&aside, when);
            }
            Ask::Bury { held, urgency } => {
                let aside = Aside { entry: held.entry, client, urgency: *urgency, delay_s: None, asked: *asked, alone };
                self.ledger.aside_done(&aside, when);
            }
            Ask::KickJob(held) => self.ledger.kick_job_done(held.entry, *asked, when),
            Ask::Extend(held) => self.ledger.extended(held.entry, client, speaker, *asked, when),
            Ask::Pause { queue, pause_s } => self.ledger.paused(queue, *pause_s, *asked, when),
            Ask::Use(_) | Ask::Watch(_) | Ask::Ignore(_) => self.people[index].attended(ask, when)?,
            Ask::ClaimOrigins => self.people[index].claims = true,
            Ask::CloseOrigin(_) => self.note_done_with_origin(index, ask, when)?,
            _ => {}
        }
        Ok(())
    }

    /// Something was done to a job, which another client had all the time for certain: only its holder may do that.
    fn check_not_anothers(&mut self, index: usize, pending: &Pending, alone: bool, when: When) -> Result<(), Wrong> {
        let Some(holder) = pending.anothers.filter(|_| alone) else { return Ok(()) };
        let Some(entry) = pending.ask.disturbs() else { return Ok(()) };
        let other = self.people.iter().position(|person| person.client == holder);
        let is_there = |other: usize| {
            let person = &self.people[other];
            !person.gone && !person.cut_off && !self.may_have_ended(other, self.now())
        };
        if other.is_some_and(is_there) && self.ledger.lasts(entry, when.at_ms) {
            let (who, job) = (&self.people[index], &self.ledger.jobs[entry]);
            return Err(format!("{who:?} asked {:?}, and it was done: {holder:?} has the job: {job:?}", pending.ask));
        }
        Ok(())
    }

    /// Someone was told that it may do nothing with a job that another one has: rightly.
    pub(super) fn count_anothers(&mut self, pending: &Pending, words: &str) {
        let is_anothers = pending.anothers.is_some() && words == NOT_FOUND;
        self.count("checked: a job is its holder's alone", u64::from(is_anothers));
    }

    /// Someone was told that a job that it has has little time left.
    pub(super) fn check_soon(&mut self, index: usize, asked: When, when: When) -> Result<(), Wrong> {
        let who = &self.people[index];
        if !self.ledger.may_end_soon(who.client, self.seen_by(asked).at_ms, when) {
            return Err(format!("{who:?} was told at {when:?} that a job's time is nearly over, and has no such job"));
        }
        self.count("checked: a job's time was nearly over", 1);
        Ok(())
    }

    /// Someone has waited since `since_ms`, and was not told up to now that a job has little time left, which it had then.
    pub(super) fn check_not_soon(&mut self, index: usize, since_ms: u64, now_ms: u64) -> Result<(), Wrong> {
        let who = &self.people[index];
        if who.speaker.protocol != BEANSTALKD {
            return Ok(());
        }
        let Some(soon_ms) = self.ledger.soon_by_ms(who.client, since_ms) else { return Ok(()) };
        if soon_ms < now_ms && self.stalled_until_ms + SLACK_MS < now_ms {
            return Err(format!("{who:?} has a job whose time is nearly over since {soon_ms}, and was not told so"));
        }
        self.count("checked: no job's time is nearly over", 1);
        Ok(())
    }

    /// Someone was told something that changes nothing.
    pub(super) fn check_look_at_tubes(
        &mut self,
        index: usize,
        ask: &Ask,
        heard: &Heard,
        asked: When,
        when: When,
    ) -> Result<(), Wrong> {
        match (ask, heard) {
            (Ask::State(held), Heard::Facts(facts)) => self.check_state(index, held, facts, asked, when),
            (Ask::Peek(held), Heard::List(bodies)) => self.check_peeked(held, &bodies[0], asked, when),
            (Ask::PeekNext { queue, state }, Heard::Shown { id, body }) => {
                self.check_next(index, queue, *state, (id, body), asked, when)
            }
            (Ask::Figures(queue), Heard::Facts(facts)) => self.check_tube_figures(index, queue, facts, asked, when),
            (Ask::Attended { watched }, Heard::Facts(names)) => self.check_attended(index, *watched, names),
            (Ask::Origins { after }, Heard::Facts(names)) => self.check_origins(*after, names, asked),
            (Ask::Queues, Heard::Facts(names)) => self.check_names(index, names, asked, when),
            (Ask::Kick { queue, count }, Heard::Kicked(kicked)) => {
                self.check_kicked(queue, (*count, *kicked), asked, when)
            }
            _ => Ok(()),
        }
    }

    /// What one uses or watches is what it said.
    fn check_attended(&mut self, index: usize, watched: bool, names: &[String]) -> Result<(), Wrong> {
        let who = &self.people[index];
        let mut known = if watched { who.watches.clone() } else { vec![who.uses] };
        let mut said: Vec<&str> = names.iter().map(String::as_str).collect();
        known.sort_unstable();
        said.sort_unstable();
        if said != known {
            return Err(format!("{who:?} attends {known:?}, and was told {said:?}"));
        }
        self.count("checked: one attends what it said", 1);
        Ok(())
    }

    /// All queues that have jobs are there, and no others but those that someone may name.
    fn check_names(&mut self, index: usize, names: &[String], asked: When, when: When) -> Result<(), Wrong> {
        let is_there = |queue: &str| {
            self.ledger.all_ready(queue, asked.turn, when.at_ms, Kept::Never).next().is_some()
                || self.ledger.all_buried(queue, asked.turn, when.at_ms).next().is_some()
        };
        let missing = QUEUES.iter().find(|queue| is_there(queue) && !names.iter().any(|name| name == *queue));
        let strange = names.iter().find(|name| !QUEUES.iter().chain(&[DEFAULT_TUBE]).any(|queue| name == queue));
        if missing.is_some() && !QUEUES.iter().any(|queue| self.others_ask_for(index, queue)) || strange.is_some() {
            return Err(format!(
                "there are said to be the queues {names:?}: {missing:?} is missing, {strange:?} strange"
            ));
        }
        self.count("checked: queues are listed rightly", 1);
        Ok(())
    }

    /// Someone was told how many jobs of a queue are put aside.
    pub(super) fn check_buried_count(
        &mut self,
        queue: &str,
        counts: Counts,
        asked: When,
        when: When,
    ) -> Result<(), Wrong> {
        let Some(said) = counts.buried else { return Ok(()) };
        let least = self.ledger.all_buried(queue, asked.turn, when.at_ms).count();
        let may_be = self.ledger.may_be_in(queue, asked, when).filter(|job| job.may_have_been_buried()).count();
        if said < least || said > may_be {
            return Err(format!("{said} jobs of '{queue}' are said to be put aside, of {least} to {may_be}"));
        }
        self.count("checked: what was put aside is counted rightly", u64::from(least > 0));
        Ok(())
    }

    /// Someone was told that a job is not there, or none of that kind, or that it must watch some queue.
    pub(super) fn check_not_found(&self, index: usize, ask: &Ask, words: &str, asked: When) -> Result<(), Wrong> {
        let (who, at_ms) = (&self.people[index], self.world.elapsed_ms());
        if words == NOT_IGNORED && !matches!(ask, Ask::Ignore(queue) if who.watches == [*queue]) {
            return Err(format!("{who:?} watches {:?}, asked {ask:?}, and was told: {words}", who.watches));
        }
        if words != NOT_FOUND {
            return Ok(());
        }
        let there = match ask {
            Ask::State(held) | Ask::Peek(held) => {
                Some(held.entry).filter(|entry| self.ledger.must_be_there(*entry, at_ms))
            }
            Ask::PeekNext { queue, state: Standing::Buried } => self.ledger.all_buried(queue, asked.turn, at_ms).next(),
            Ask::PeekNext { queue, state: Standing::Delayed } => {
                self.ledger.all_delayed(queue, asked.turn, at_ms).next()
            }
            Ask::PeekNext { queue, state: Standing::Ready } if !self.others_ask_for(index, queue) => {
                self.ledger.all_ready(queue, asked.turn, at_ms, Kept::Never).next()
            }
            Ask::Figures(queue) | Ask::Count(queue) => {
                let attends = who.uses == *queue || who.watches.contains(queue);
                if attends && *queue != DEFAULT_TUBE && !who.is_attending() {
                    return Err(format!("{who:?} attends '{queue}', and was told that there is no such tube"));
                }
                self.ledger.all_buried(queue, asked.turn, at_ms).next()
            }
            _ => None,
        };
        match there {
            Some(entry) => Err(format!("{who:?} was told that there is no such job, and job {entry} is there")),
            None => Ok(()),
        }
    }
}

impl Person {
    /// What it uses and watches when all that it asked was done.
    pub(super) fn attends(&self) -> (&'static str, Vec<&'static str>) {
        let (mut uses, mut watches) = (self.uses, self.watches.clone());
        self.pending.iter().for_each(|pending| attend(&pending.ask, &mut uses, &mut watches));
        (uses, watches)
    }

    /// What it has to say before it asks this.
    pub(super) fn attends_before(&self, ask: &Ask) -> Vec<Ask> {
        if self.speaker.protocol != BEANSTALKD {
            return Vec::new();
        }
        let (uses, watches) = self.attends();
        let wanted = match ask {
            Ask::Put(put) => put.queue,
            Ask::Kick { queue, .. } | Ask::PeekNext { queue, .. } => queue,
            Ask::Take { queues, .. } => {
                let watch = queues.iter().filter(|queue| !watches.contains(queue)).map(|queue| Ask::Watch(queue));
                let ignore = watches.iter().filter(|queue| !queues.contains(queue)).map(|queue| Ask::Ignore(queue));
                return watch.chain(ignore).collect();
            }
            _ => uses,
        };
        if wanted == uses { Vec::new() } else { vec![Ask::Use(wanted)] }
    }

    /// Whether it has not heard yet what it uses or watches.
    pub(super) fn is_attending(&self) -> bool {
        let attends = |pending: &Pending| matches!(pending.ask, Ask::Use(_) | Ask::Watch(_) | Ask::Ignore(_));
        self.pending.iter().any(attends)
    }

    /// It was told that this was done.
    fn attended(&mut self, ask: &Ask, when: When) -> Result<(), Wrong> {
        if matches!(ask, Ask::Ignore(queue) if self.watches == [*queue]) {
            return Err(format!("{self:?} ignores all that it watched: {ask:?}"));
        }
        attend(ask, &mut self.uses, &mut self.watches);
        self.attended_turn = self.attended_turn.max(Some(when.turn));
        self.has_used |= matches!(ask, Ask::Use(_));
        Ok(())
    }
}

fn attend(ask: &Ask, uses: &mut &'static str, watches: &mut Vec<&'static str>) {
    match ask {
        Ask::Use(queue) => *uses = queue,
        Ask::Watch(queue) if !watches.contains(queue) => watches.push(queue),
        Ask::Ignore(queue) if watches.len() > 1 => watches.retain(|watched| watched != queue),
        _ => {}
    }
}
