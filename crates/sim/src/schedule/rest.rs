//! What must hold when all is at rest, and of what clients hear: of those who wait, who are told that there is nothing, who are
//! refused, who are silent, and who have gone; and of the server's memory.

use std::collections::BTreeSet;

use jobyard_engine::{Choice, ClientId, Limits};

use super::hearing::{DUPLICATE, NO_RETRIES, NOT_FOUND};
use super::person::SLACK_MS;
use super::wants::OUT_OF_MEMORY;
use super::{QUEUES, Schedule};
use crate::clients::{Ask, BEANSTALKD, Counts, DAY_MS, Entry, Heard, Held, Put, RUN_WAIT_MS};
use crate::ledger::{Kept, When};
use crate::world::Wrong;

/// What a client takes, with small buffers.
const MEMORY_PER_CLIENT: usize = 2 << 10;
/// What a client may take that does not read: a few jobs.
const UNREAD_BYTES_MAX: usize = 6 << 10;

impl Schedule {
    /// When all is at rest, nobody waits for what is there, nor longer than was said, and nobody is silent for too long.
    pub(super) fn check_at_rest(&mut self) -> Result<(), Wrong> {
        if !self.world.is_running() {
            return Ok(());
        }
        let now = self.now();
        let now_ms = now.at_ms;
        self.check_memory()?;
        // Who does not read may have been given a job and not know it.
        let puts_held_back = self.is_short_of_memory();
        let unclear = self.people.iter().flat_map(|person| self.may_have_taken(person, puts_held_back));
        let unclear: Vec<&str> = unclear.collect();
        for index in 0..self.people.len() {
            self.check_silence(index)?;
            self.check_turned_away(index)?;
            self.check_unfinished(index)?;
            self.check_seen_off(index)?;
            let Some((queues, until_ms)) = self.people[index].waits(now) else { continue };
            // Whoever took what was to be run has their time.
            let run_over_ms = self.people[index].runs().and_then(|put| self.ledger.own_time_over_ms(put.entry));
            if let Some(until_ms) = until_ms.max(run_over_ms)
                && until_ms < now_ms
                && !self.people[index].runs().is_some_and(|put| self.may_be_given(put))
            {
                let who = &self.people[index];
                return Err(format!("{who:?} should have been answered at {until_ms}, and it is {now_ms}"));
            }
            self.check_turn_of(index, &queues)?;
            if let Some(since_ms) = self.people[index].waits_since_ms() {
                self.check_not_soon(index, since_ms, now_ms.saturating_sub(SLACK_MS))?;
            }
            for queue in queues.into_iter().filter(|queue| !unclear.contains(queue)) {
                if let Some(entry) = self.owed(queue, now, now_ms, Kept::UntilThen) {
                    let who = &self.people[index];
                    return Err(format!("{who:?} waits for a job of '{queue}', and job {entry} is there"));
                }
            }
            self.count("checked: someone waits rightly", 1);
        }
        Ok(())
    }

    /// Someone waits for jobs of these queues: nobody who came later was given one. On a full disk that may be, for there are
    /// leases that are not written.
    fn check_turn_of(&mut self, index: usize, queues: &[&str]) -> Result<(), Wrong> {
        let who = &self.people[index];
        let Some(since_turn) = who.waits_since().filter(|_| !self.may_want_room(self.now())) else { return Ok(()) };
        for queue in queues {
            if let Some(entry) = self.ledger.given_to_later(queue, who.client, since_turn) {
                let job = &self.ledger.jobs[entry];
                return Err(format!("{who:?} has waited since turn {since_turn}, and was passed over: {job:?}"));
            }
        }
        self.count("checked: nobody was passed over", u64::from(!queues.is_empty()));
        Ok(())
    }

    /// Whether the server may come to the end of its memory.
    pub(super) fn is_short_of_memory(&self) -> bool {
        self.world.setup().config.limits.memory_bytes_max < usize::MAX
    }

    /// Whether there can be fewer queues than there are names for.
    pub(super) fn lacks_queues(&self) -> bool {
        self.world.setup().config.limits.queues_max < QUEUES.len()
    }

    /// Whether a client may hold a few jobs only, if it holds them as long as it is connected.
    pub(super) fn lacks_holds(&self) -> bool {
        self.world.setup().config.limits.held_max < Limits::default().held_max
    }

    /// Whether this may need a queue for which there is no room: one of which nobody knows that it is there.
    pub(super) fn may_name_new_queues(&self, ask: &Ask, asked: When) -> bool {
        let named: Vec<&str> = match ask {
            Ask::Put(put) => vec![put.queue],
            Ask::Group { puts, .. } => puts.iter().map(|put| put.queue).collect(),
            Ask::Take { queues, .. } => queues.clone(),
            Ask::Use(queue) | Ask::Watch(queue) => vec![queue],
            Ask::Nonsense(_) => vec!["default"],
            _ => Vec::new(),
        };
        let is_there = |queue: &str| {
            self.ledger.all_ready(queue, asked.turn, self.world.elapsed_ms(), Kept::UntilThen).next().is_some()
        };
        self.lacks_queues() && named.iter().any(|queue| !is_there(queue))
    }

    /// What is not refused takes little: what is taken beyond the limit is bounded.
    fn check_memory(&mut self) -> Result<(), Wrong> {
        let (limit, taken) = (self.world.setup().config.limits.memory_bytes_max, self.world.memory_bytes());
        // Nobody is turned away for want of memory, and what nobody reads is kept.
        let unread = self.people.iter().filter(|person| !person.reads).count() * UNREAD_BYTES_MAX;
        let kept = MEMORY_PER_CLIENT * self.world.clients() + unread;
        // A batch may be as long as a segment. It is written into a buffer that grows by doubling, and that is kept.
        let batch = usize::try_from(self.world.setup().log.segment_bytes).unwrap_or(usize::MAX);
        let over = kept.saturating_add(batch.saturating_mul(2));
        if taken > limit.saturating_add(over) {
            let clients = self.world.clients();
            return Err(format!(
                "the server takes {taken} bytes of memory with {clients} clients, and may take {limit}"
            ));
        }
        if taken > limit / 100 * 95 {
            self.count("checked: full memory", 1);
        }
        Ok(())
    }

    /// Someone was told that there is no job. It must have waited as long as it wanted to; and if there was one all the
    /// time that was never given to anyone, that was not true.
    pub(super) fn check_nothing(
        &mut self,
        index: usize,
        queues: &[&'static str],
        wait_ms: u64,
        asked: When,
        when: When,
    ) -> Result<(), Wrong> {
        let who = &self.people[index];
        // Who sends nothing more may not wait, and a server that is about to stop gives no jobs away.
        if who.gone || self.stopping {
            return Ok(());
        }
        if when.at_ms < asked.at_ms.saturating_add(wait_ms) {
            return Err(format!("{who:?} was told at {when:?} that there is no job, and asked at {asked:?} to wait"));
        }
        for queue in queues {
            if self.others_ask_for(index, queue) {
                continue;
            }
            if let Some(entry) = self.owed(queue, asked, when.at_ms, Kept::Never) {
                let who = &self.people[index];
                return Err(format!("{who:?} was told that there is no job in '{queue}', and job {entry} was there"));
            }
        }
        self.check_not_soon(index, when.at_ms, asked.at_ms + wait_ms)?;
        self.count("checked: someone was told of nothing rightly", 1);
        Ok(())
    }

    /// Someone who asked for these queues was given a job: none that comes before it was there all the time, if nobody else
    /// can have that one. Job Centre gives the best of all, masenko one of the first queue that has any.
    pub(super) fn check_order(
        &mut self,
        index: usize,
        entry: Entry,
        queues: &[&'static str],
        asked: When,
        when: When,
    ) -> Result<(), Wrong> {
        let Put { queue: own, dead_queue, .. } = self.ledger.jobs[entry].put;
        let choice = self.people[index].speaker.choice;
        let place = |queue| queues.iter().position(|other| *other == queue);
        for &queue in queues {
            // It may come from its dead queue.
            let is_before = choice == Choice::InOrder && dead_queue.is_none() && place(queue) < place(own);
            let is_asked = queue == own || is_before || choice == Choice::Best;
            let is_paused = queue != own && self.may_be_paused(queue, asked);
            if !is_asked || is_paused || self.others_ask_for(index, queue) {
                continue;
            }
            let overtaken = if is_before {
                self.ledger.all_ready(queue, asked.turn, when.at_ms, Kept::Never).next()
            } else {
                self.ledger.overtaken_by(entry, queue, asked.turn, when.at_ms)
            };
            if let Some(other) = overtaken {
                let (job, rival) = (&self.ledger.jobs[entry], &self.ledger.jobs[other]);
                return Err(format!("job {entry} was given before job {other}: {job:?}, and {rival:?}"));
            }
            let is_rival = self.ledger.all_ready(queue, asked.turn, when.at_ms, Kept::Never).next().is_some();
            let name =
                if queue == own { "checked: a job came in its order" } else { "checked: a queue came in its order" };
            self.count(name, u64::from(is_rival));
        }
        Ok(())
    }

    /// Someone who had asked then was given a job, and told how often it has failed: as often as was said so, and not more
    /// often than may be.
    pub(super) fn check_failures(&mut self, entry: Entry, said: Option<usize>, asked: When) -> Result<(), Wrong> {
        let Some(said) = said else { return Ok(()) };
        let job = &self.ledger.jobs[entry];
        let least = job.failures_least(asked);
        if said < least || job.failures_most().is_some_and(|most| said > most) {
            return Err(format!("job {entry} is said to have failed {said} times: {job:?}"));
        }
        self.count("checked: a job has failed as often as is said", u64::from(said > 0));
        Ok(())
    }

    /// Someone was told how many jobs are in a queue: no more than may be there, and no fewer than must be.
    pub(super) fn check_counts(
        &mut self,
        index: usize,
        queue: &str,
        counts: Counts,
        asked: When,
        when: When,
    ) -> Result<(), Wrong> {
        let Some(said) = counts.free.or(counts.ready) else { return Ok(()) };
        let who = &self.people[index];
        let most = self.ledger.may_be_in(queue, self.seen_by(asked), when).count();
        if said > most {
            return Err(format!("{who:?} was told of {said} jobs in '{queue}', and there are at most {most}"));
        }
        if self.others_ask_for(index, queue) {
            return Ok(());
        }
        let least = self.ledger.all_ready(queue, asked.turn, when.at_ms, Kept::Never).count();
        if said < least {
            return Err(format!("{who:?} was told of {said} jobs in '{queue}', and there are at least {least}"));
        }
        self.count("checked: a count can be right", u64::from(least > 0));
        Ok(())
    }

    /// Someone was told the result of a job.
    pub(super) fn check_result(&mut self, uuid: &str, heard: (bool, bool), asked: When) -> Result<Entry, Wrong> {
        let (success, says) = heard;
        // Whoever has not read that it was given the job may have used up its last attempt.
        let is_used_up =
            |put: &Put| put.attempts.is_some() && self.people.iter().any(|person| self.asks_for(person, put.queue));
        // The result of a job that was removed is gone, also if its UUID was given again.
        let is_removed = |entry: Entry| {
            self.ledger.jobs[entry].ended.is_some_and(|(ended, keeps)| !keeps && ended.turn < asked.turn)
        };
        let may_have = |entry: Entry| {
            if is_removed(entry) {
                return false;
            }
            let is_empty_failure = !success && !says && is_used_up(&self.ledger.jobs[entry].put);
            is_empty_failure || self.ledger.may_have_result(entry, success, says)
        };
        let Some(entry) = self.ledger.find_under(uuid, may_have) else {
            let job = self.ledger.find_under(uuid, |_| true).map(|entry| &self.ledger.jobs[entry]);
            return Err(format!("{uuid} has a result ({success}, {says}), and nobody gave it: {job:?}"));
        };
        self.count("checked: someone gave that result", 1);
        Ok(entry)
    }

    /// Someone was told that a job was put, or run: its UUID was not taken.
    pub(super) fn check_id(&mut self, index: usize, put: &Put, heard: &Heard) -> Result<(), Wrong> {
        let (who, job) = (&self.people[index], &self.ledger.jobs[put.entry]);
        // Who cannot wait for a result is told so at once.
        let says_nothing = *heard == Heard::Nothing && (who.gone || self.stopping);
        if job.refused && !says_nothing {
            return Err(format!("{who:?} was told {heard:?}, and another job has that id: {job:?}"));
        }
        let was_free = put.id_of != put.entry && !self.ledger.may_be_duplicate(put.entry);
        self.count("checked: an id was free again", u64::from(was_free));
        Ok(())
    }

    /// Someone was told which jobs are in a queue: each may be there, and is named once.
    pub(super) fn check_list(
        &mut self,
        queue: &str,
        delayed: bool,
        bodies: &[Vec<u8>],
        asked: When,
        when: When,
    ) -> Result<(), Wrong> {
        let mut seen = BTreeSet::new();
        for body in bodies {
            let entry = self.ledger.entry_of(body)?;
            let mut there = self.ledger.may_be_in(queue, self.seen_by(asked), when);
            let may_be_there =
                there.any(|job| job.put.entry == entry) && self.ledger.may_be(entry, delayed, when.at_ms);
            if !may_be_there || !seen.insert(entry) {
                let job = &self.ledger.jobs[entry];
                return Err(format!(
                    "job {entry} was listed as one of '{queue}', and cannot be, or was before: {job:?}"
                ));
            }
        }
        self.count("checked: a list can be right", u64::from(bodies.len() > 1));
        Ok(())
    }

    /// Someone was given a job, or told of it, who had asked then: its lifetime was not over.
    pub(super) fn check_lives(&mut self, entry: Entry, asked: When) -> Result<(), Wrong> {
        let job = &self.ledger.jobs[entry];
        if self.ledger.has_expired(entry, self.seen_by(asked).at_ms) {
            return Err(format!("job {entry} had expired, and was there at {asked:?}: {job:?}"));
        }
        self.count("checked: a job with a lifetime was not over", u64::from(job.put.lifetime_s.is_some()));
        Ok(())
    }

    /// Up to when the server has seen what ran out, for one who asked then: after a stall it reads first.
    pub(super) fn seen_by(&self, asked: When) -> When {
        let is_late = asked.at_ms <= self.stalled_until_ms + SLACK_MS;
        When { at_ms: if is_late { 0 } else { asked.at_ms }, ..asked }
    }

    /// Whether someone else asked for a job of this queue, and was not answered yet.
    pub(super) fn others_ask_for(&self, index: usize, queue: &str) -> bool {
        let others = self.people[..index].iter().chain(&self.people[index + 1..]);
        others.into_iter().any(|person| self.asks_for(person, queue))
    }

    /// Whether someone may have been given this job, and nobody knows.
    fn may_be_given(&self, put: &Put) -> bool {
        let is_unclear = self.people.iter().any(|person| self.asks_for(person, put.queue));
        is_unclear || self.ledger.jobs[put.entry].may_be_taken
    }

    /// Someone who had a job run was told that it is not done: nobody took it in time, or whoever did has had their time.
    pub(super) fn check_given_up(&mut self, index: usize, put: &Put, asked: When, when: When) -> Result<(), Wrong> {
        let who = &self.people[index];
        let least_ms = if self.ledger.jobs[put.entry].was_taken || self.may_be_given(put) {
            put.own_time_s.map_or(DAY_MS, |seconds| u64::from(seconds) * 1_000).min(RUN_WAIT_MS)
        } else {
            RUN_WAIT_MS
        };
        if who.gone || self.stopping {
            return Ok(());
        }
        if when.at_ms < asked.at_ms + least_ms {
            return Err(format!("{who:?} was told too soon that job {} is not done", put.entry));
        }
        // What someone else heard since may have been that it was given up.
        if self.ledger.jobs[put.entry].ended.is_some_and(|(ended, keeps)| keeps && ended.turn < when.turn) {
            return Err(format!("{who:?} was told that job {} is not done, and someone did it", put.entry));
        }
        self.count("checked: who had a job run gave up in time", 1);
        Ok(())
    }

    /// Whether this is about a job that the client has for certain, and will be heard at once.
    pub(super) fn is_sure(&self, index: usize, ask: &Ask) -> bool {
        if let Ask::TakeThis(held) = ask {
            return self.can_be_taken(index, held.entry);
        }
        let entry = if let Ask::Extend(held) = ask { Some(held.entry) } else { ask.disturbs() };
        let Some(entry) = entry.filter(|_| !matches!(ask, Ask::Group { .. })) else { return false };
        let (who, now) = (&self.people[index], self.now());
        let silent = who.speaker.heartbeat && who.was_silent(self.told.heartbeat_ms, now);
        // What stands behind something that waits may come too late, and so may what one turn does not read whole.
        let is_read_whole = self.world.setup().config.limits.turn_bytes_max >= Limits::default().turn_bytes_max;
        who.is_answered() && is_read_whole && !silent && self.ledger.surely_has(entry, who.client, now.at_ms)
    }

    /// Who else has the job for certain that this is about, and will be heard at once, if only its holder may do that.
    pub(super) fn is_anothers(&self, index: usize, ask: &Ask) -> Option<ClientId> {
        let who = &self.people[index];
        let is_tubes = who.speaker.protocol == BEANSTALKD && who.is_answered();
        let entry = ask.disturbs().filter(|_| is_tubes)?;
        self.ledger.surely_anothers(entry, who.client, self.now().at_ms)
    }

    /// Something was refused. For want of room, only where there is such a want; if it is about a job that the client has for
    /// certain, only for that, or by the job's own rules.
    pub(super) fn check_refused(
        &mut self,
        index: usize,
        ask: &Ask,
        words: &str,
        sure: bool,
        asked: When,
    ) -> Result<(), Wrong> {
        if let Ask::Unfinished { kind, .. } = ask {
            return self.check_cut_short(index, *kind, words);
        }
        let who = &self.people[index];
        // Whoever is done makes room, and is never refused; workq's results are kept.
        let is_done = match ask {
            Ask::Remove(_) => true,
            Ask::Complete(_) => who.speaker.protocol != "workq",
            _ => false,
        };
        let may_be_full = self.may_want_room(asked) && !is_done;
        let (is_take, is_duplicate) = match ask {
            Ask::Put(put) => (false, self.ledger.may_be_duplicate(put.entry)),
            _ => (matches!(ask, Ask::Take { .. } | Ask::TakeThis(_)), false),
        };
        let may_hold_no_more = is_take && self.lacks_holds() && who.took >= self.world.setup().config.limits.held_max;
        let (lacks_disk, lacks_queues) = (may_be_full || self.may_not_fit(ask), self.may_name_new_queues(ask, asked));
        let lacks_any = words == OUT_OF_MEMORY && self.may_be_wanting(index, ask, asked);
        let who = &self.people[index];
        let wants = [
            // A server that stops says so to those who ask for one job.
            ([OUT_OF_MEMORY; 2], lacks_any || self.stopping && matches!(ask, Ask::TakeThis(_))),
            (["DRAINING"; 2], self.draining),
            (["OPEN"; 2], matches!(ask, Ask::Put(put) if put.origin.is_some())),
            (["NOT_CLAIMED", "TAKEN"], !who.claims),
            (["disk", "Disk"], lacks_disk),
            (["memory", "no room for another"], self.is_short_of_memory()),
            (["about to stop", "Draining"], self.draining),
            (["many queues", "queues already"], lacks_queues),
            (["acquired at once", "You are working on"], may_hold_no_more),
            ([DUPLICATE, DUPLICATE], is_duplicate),
        ];
        self.check_not_found(index, ask, words, asked)?;
        self.check_no_queue(index, ask, words, asked)?;
        // Someone may have removed what was to be run, but not what never was there.
        if words == NOT_FOUND && matches!(ask, Ask::Put(put) if self.ledger.jobs[put.entry].refused) {
            return Err(format!("{who:?} asked {ask:?}, which was not put, and was told: {words}"));
        }
        let want = wants.iter().find(|(texts, _)| texts.iter().any(|text| words.contains(text)));
        let may_fail = |held: &Held| self.ledger.jobs[held.entry].may_have_failed();
        let own_rule = matches!(ask, Ask::Fail(held) if words.contains(NO_RETRIES) && may_fail(held));
        match want {
            Some((_, false)) => Err(format!("{who:?} asked {ask:?}, and was told without a reason: {words}")),
            None if sure && !own_rule => {
                Err(format!("{who:?} asked {ask:?}, which can be done, and was told: {words}"))
            }
            Some((_, true)) | None => {
                self.count("checked: a taken id was refused", u64::from(words.contains(DUPLICATE)));
                self.count("checked: what was refused could be", 1);
                Ok(())
            }
        }
    }

    /// Those whose connection the server may have ended, or who say no more, may have lost what they had, and what they were given
    /// and have not read.
    pub(super) fn forget_silent(&mut self, when: When) {
        let now_ms = self.world.elapsed_ms();
        for index in 0..self.people.len() {
            if self.may_have_ended(index, when) {
                let person = &self.people[index];
                self.ledger.client_gone(person.client, now_ms);
                person.takes().for_each(|queues| self.ledger.take_lost(queues, person.speaker, now_ms));
                let these: Vec<Entry> = person.takes_this().collect();
                these.into_iter().for_each(|entry| self.ledger.take_this_lost(entry, person.speaker, now_ms));
            }
        }
    }

    /// Whether the server may have ended this client's session, and the client does not know.
    pub(super) fn may_have_ended(&self, index: usize, when: When) -> bool {
        let who = &self.people[index];
        let is_silent = who.speaker.heartbeat && (who.gone || who.was_silent(self.told.heartbeat_ms, when));
        is_silent || self.lacks_input() && self.may_be_too_much(index, when)
    }
}
