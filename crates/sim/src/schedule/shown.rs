//! What clients of beanstalkd are shown of jobs, and how many they let back in: never one that is over, and always the first.

use super::Schedule;
use crate::clients::{BEANSTALKD, Entry, Held, Standing};
use crate::ledger::{Kept, Kick, When};
use crate::world::Wrong;

impl Schedule {
    /// Someone was shown a job, or how it is: it may be there.
    fn check_is_there(&mut self, entry: Entry, asked: When) -> Result<(), Wrong> {
        let job = &self.ledger.jobs[entry];
        if job.refused || job.ended.is_some_and(|(ended, _)| ended.turn < asked.turn) {
            return Err(format!("job {entry} is over, and was shown to one who asked at {asked:?}: {job:?}"));
        }
        self.check_lives(entry, asked)
    }

    /// Someone was shown the job of that number.
    pub(super) fn check_peeked(&mut self, held: &Held, body: &[u8], asked: When, when: When) -> Result<(), Wrong> {
        let entry = self.ledger.entry_of(body)?;
        if entry != held.entry {
            return Err(format!("job {} was looked at, and job {entry} was shown", held.entry));
        }
        self.check_is_there(entry, asked)?;
        self.ledger.seen(entry, when)
    }

    /// Someone was shown the next job of a queue that stands so: there is none before it.
    pub(super) fn check_next(
        &mut self,
        index: usize,
        queue: &'static str,
        state: Standing,
        (id, body): (&str, &[u8]),
        asked: When,
        when: When,
    ) -> Result<(), Wrong> {
        let entry = self.ledger.entry_of(body)?;
        self.check_is_there(entry, asked)?;
        self.forget_silent(when);
        let job = &self.ledger.jobs[entry];
        if !job.put.may_be_in(queue) || job.number.is_some_and(|number| number.to_string() != id) {
            return Err(format!("job {entry} was shown as '{id}' of '{queue}': {job:?}"));
        }
        let (by_turn, at_ms) = (asked.turn, when.at_ms);
        let is_buried = self.ledger.is_buried(entry, by_turn, at_ms);
        let is_delayed = self.ledger.is_delayed(entry, by_turn, at_ms);
        let is_held = self.ledger.is_held(entry, by_turn, at_ms);
        let (may_be, before) = match state {
            Standing::Buried => {
                let may_be = job.may_have_been_buried_since(by_turn) && !is_delayed;
                (may_be, self.ledger.buried_before(entry, queue, by_turn, at_ms))
            }
            Standing::Delayed => {
                self.check_list(queue, true, &[body.to_vec()], asked, when)?;
                (!is_buried, self.ledger.due_before(entry, queue, by_turn, at_ms))
            }
            Standing::Ready => {
                self.check_list(queue, false, &[body.to_vec()], asked, when)?;
                let is_clear = !self.others_ask_for(index, queue);
                let before = || self.ledger.ready_before(entry, queue, by_turn, at_ms);
                (!is_buried && !is_delayed, if is_clear { before() } else { None })
            }
        };
        let job = &self.ledger.jobs[entry];
        if is_held || !may_be {
            return Err(format!("job {entry} was shown as the next of '{queue}' that is {state:?}: {job:?}"));
        }
        if let Some(other) = before {
            let rival = &self.ledger.jobs[other];
            return Err(format!(
                "job {entry} was shown as the first {state:?} before job {other}: {job:?}, and {rival:?}"
            ));
        }
        let rivals = match state {
            Standing::Buried => self.ledger.all_buried(queue, by_turn, at_ms).count(),
            Standing::Delayed => self.ledger.all_delayed(queue, by_turn, at_ms).count(),
            Standing::Ready => self.ledger.all_ready(queue, by_turn, at_ms, Kept::Never).count(),
        };
        let rule = match state {
            Standing::Buried => "checked: the job was shown that was put aside first",
            Standing::Delayed => "checked: the job was shown that falls due first",
            Standing::Ready => "checked: the job was shown that is taken first",
        };
        self.count(rule, u64::from(rivals > 1));
        self.ledger.seen(entry, when)
    }

    /// Someone has let jobs back in.
    pub(super) fn check_kicked(
        &mut self,
        queue: &'static str,
        (count, kicked): (usize, usize),
        asked: When,
        when: When,
    ) -> Result<(), Wrong> {
        let unclear = self.people.iter().any(|person| self.asks_for(person, queue));
        let kick = Kick { queue, count, kicked, asked, seen: self.seen_by(asked), unclear };
        self.ledger.kicked(&kick, when)?;
        self.count("checked: jobs were let back in", u64::from(kicked > 0));
        Ok(())
    }

    /// Someone was told how many queues it watches.
    pub(super) fn check_watching(&mut self, index: usize, count: usize) -> Result<(), Wrong> {
        let who = &self.people[index];
        if who.watches.len() != count {
            return Err(format!("{who:?} watches {:?}, and was told of {count}", who.watches));
        }
        self.count("checked: so many are watched as is said", 1);
        Ok(())
    }

    /// What is said of a job is what is known of it.
    pub(super) fn check_state(
        &mut self,
        index: usize,
        held: &Held,
        facts: &[String],
        asked: When,
        when: When,
    ) -> Result<(), Wrong> {
        self.check_is_there(held.entry, asked)?;
        self.forget_silent(when);
        let job = &self.ledger.jobs[held.entry];
        let mut known = vec![format!("id: {}", held.id), "file: 0".to_owned()];
        if job.put.dead_queue.is_none() {
            known.push(format!("tube: \"{}\"", job.put.queue));
        }
        if let Some(own_time_s) = job.put.own_time_s.filter(|_| job.protocol == BEANSTALKD) {
            known.push(format!("ttr: {own_time_s}"));
        }
        if let Some(urgency) = job.urgency_since(asked.turn) {
            known.push(format!("pri: {}", urgency.min(0).unsigned_abs()));
        }
        let state = self.state_of(index, held, asked, when);
        known.extend(state.map(|state| format!("state: {state}")));
        if let Some(fact) = known.iter().find(|fact| !facts.contains(fact)) {
            return Err(format!("job {} is not said to be '{fact}': {facts:?}, and {job:?}", held.entry));
        }
        let is_said = |fact: &str| facts.iter().any(|said| said == fact);
        let may_be_buried = job.may_have_been_buried_since(asked.turn);
        let may_be_held =
            job.may_have_been_held_since(asked) || self.people.iter().any(|who| self.asks_for(who, job.put.queue));
        let may_be_held = may_be_held || job.put.dead_queue.is_some();
        if is_said("state: buried") && !may_be_buried || is_said("state: reserved") && !may_be_held {
            return Err(format!("job {} is said to be what it cannot be: {facts:?}, and {job:?}", held.entry));
        }
        let unclear = self.people.iter().any(|who| self.asks_for(who, job.put.queue));
        let seen_ms = self.seen_by(asked).at_ms;
        for (name, (least, most)) in self.ledger.numbers_of(held.entry, unclear, seen_ms, asked, when) {
            let said = facts.iter().find_map(|fact| fact.strip_prefix(name)?.strip_prefix(": ")?.parse().ok());
            if said.is_none_or(|said: u64| said < least || said > most) {
                return Err(format!("{name} of job {} is {least} to {most}: {facts:?}, and {job:?}", held.entry));
            }
        }
        let was_aside = state == Some("buried") && job.put.aside && !job.was_taken;
        self.count("checked: a job is as is said", 1);
        self.count("checked: a job that was put aside elsewhere is so", u64::from(was_aside));
        if let Some(state) = state {
            self.count(&format!("checked: a job is {state}, as is said"), 1);
        }
        self.ledger.seen(held.entry, when)
    }

    /// How beanstalkd calls the state that a job was in all the time for certain.
    fn state_of(&self, index: usize, held: &Held, asked: When, when: When) -> Option<&'static str> {
        let (entry, by_turn, at_ms) = (held.entry, asked.turn, when.at_ms);
        let is_ready = || {
            let is_known = self.ledger.jobs[entry].put.queue == held.queue && !self.others_ask_for(index, held.queue);
            is_known && self.ledger.is_ready(entry, by_turn, at_ms, Kept::Never)
        };
        if self.ledger.is_buried(entry, by_turn, at_ms) {
            Some("buried")
        } else if self.ledger.surely_has(entry, self.people[index].client, at_ms)
            || self.ledger.is_held(entry, by_turn, at_ms)
        {
            Some("reserved")
        } else if self.ledger.is_delayed(entry, by_turn, at_ms) {
            Some("delayed")
        } else {
            is_ready().then_some("ready")
        }
    }
}
