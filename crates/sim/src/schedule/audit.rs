//! The end of a schedule: nothing goes wrong any more, and what is there is held against all that was said.

use std::collections::BTreeSet;

use jobyard_engine::ClientId;

use super::faults::SEGMENT_HEADER_BYTES;
use super::people::HELD_BACK_MS;
use super::person::Person;
use super::whole::Done;
use super::{QUEUES, Schedule, listener_of};
use crate::clients::{Ask, BEANSTALKD, Counts, DAY_MS, Entry, Found, Heard, Held, PAGE, SPEAKERS, speaker};
use crate::disk::Crash;
use crate::ledger::{Group, Job, Kept, Ledger};
use crate::world::{Manners, Parting, Wrong};

/// workq's states of jobs that are finished: done, and failed.
const FINISHED: [u32; 2] = [1, FAILED];
const FAILED: u32 = 2;

/// What the records of one job take beside its body.
const RECORD_BYTES_MAX: usize = 400;
/// So many files are kept for segments to come, at most.
const SPARES_MAX: u64 = 7;

/// Who says how many jobs are in a queue.
const COUNTING: [&str; 4] = ["workq", "masenko", "takeanumber", BEANSTALKD];

/// So many times what there is is taken: a job that waits for another comes in the next round.
const ROUNDS_MAX: usize = 400;
/// So many jobs are let back in at once, at most.
const KICKS_MAX: usize = 1_000;

impl Schedule {
    pub fn audit(&mut self) -> Result<(), Wrong> {
        self.free_disk();
        let is_limited = self.lacks_queues() || self.lacks_holds() || self.lacks_clients() || self.lacks_input();
        if self.world.is_running() && (self.draining || is_limited || self.coin()) {
            self.wake_all();
            self.world.rest()?;
            self.all_hear()?;
            self.world.crash(Crash::Kill);
        }
        if !self.world.is_running() {
            self.world.lift_limits();
            self.come_back()?;
        }
        self.see_all_off()?;
        self.find_out()?;
        self.inspect_all()?;
        self.check_aside()?;
        self.try_pauses()?;
        self.count_all()?;
        // Nothing keeps a job for so long, but who holds it for ever.
        self.world.pass(2 * DAY_MS)?;
        self.inspect_all()?;
        self.drain()?;
        self.examine()?;
        self.work_again()?;
        self.check_log_is_short()
    }

    fn see_all_off(&mut self) -> Result<(), Wrong> {
        let people = std::mem::take(&mut self.people);
        for person in &people {
            self.lose(person);
            self.world.part(person.client, Parting::Reset);
        }
        // Time enough for a full disk to be looked at again, and for what vanished workers had.
        self.world.pass(3_000)?;
        people.iter().for_each(|person| self.ledger.client_seen_off(person.client, self.world.elapsed_ms()));
        people.iter().for_each(|person| self.settle(person));
        if let Some(failure) = self.world.failure() {
            return Err(format!("the server ended although nothing went wrong: {failure}"));
        }
        if self.world.clients() > 0 {
            return Err(format!("{} clients have gone, and the server keeps them", self.world.clients()));
        }
        Ok(())
    }

    pub(super) fn visitor(&mut self, protocol: &str) -> usize {
        let speaker = speaker(protocol, self.told.lease_ms.is_some());
        let client = self.world.connect(listener_of(protocol), Manners::PLAIN);
        self.people.push(Person::new(client, speaker, self.now()));
        self.people.len() - 1
    }

    /// Asks, and hears the answer.
    pub(super) fn ask_now(&mut self, index: usize, ask: Ask) -> Result<Heard, Wrong> {
        for attend in self.people[index].attends_before(&ask) {
            self.ask_now(index, attend)?;
        }
        // There may be no memory for that.
        if !self.people[index].attends_before(&ask).is_empty() {
            return Ok(Heard::Refused(String::new()));
        }
        self.people[index].answer = None;
        self.ask(index, ask);
        self.world.rest()?;
        self.all_hear()?;
        // Where there is little memory, answers to puts are held back.
        if !self.people[index].is_answered() && self.is_short_of_memory() {
            self.world.pass(HELD_BACK_MS)?;
            self.all_hear()?;
        }
        let person = &mut self.people[index];
        person.answer.take().ok_or_else(|| format!("{person:?} is not answered"))
    }

    /// Nobody is there who could still put or end a job: what was asked and not answered was done, or will never be.
    pub fn find_out(&mut self) -> Result<(), Wrong> {
        let index = self.visitor("workq");
        for entry in (0..self.ledger.jobs.len()).filter(|entry| self.ledger.is_open(*entry)).collect::<Vec<_>>() {
            let Some(uuid) = self.ledger.jobs[entry].uuid() else { continue };
            let heard = self.ask_now(index, Ask::Inspect(uuid))?;
            let now = self.now();
            match self.about(entry, heard) {
                // Which of the two it is, nobody can tell.
                Heard::Job(Some(found))
                    if self.is_aside(entry, &found) && self.ledger.jobs[entry].may_have_failed() => {}
                Heard::Job(Some(found)) if !FINISHED.contains(&found.state) || self.is_aside(entry, &found) => {
                    self.ledger.found_there(entry, now);
                    self.count("found out: it is there", 1);
                }
                Heard::Job(found) => {
                    self.ledger.ended(entry, found.is_some(), now);
                    self.count("found out: it is not there", 1);
                }
                _ => {}
            }
        }
        let visitor = self.people.remove(index);
        self.goes(visitor.client)
    }

    /// Whether a job that was found so may be put aside: it is shown as one that has failed.
    fn is_aside(&self, entry: Entry, found: &Found) -> bool {
        found.state == FAILED && self.ledger.may_be_buried(entry)
    }

    /// What was heard of a UUID, as it concerns this job: another one may have it.
    fn about(&self, entry: Entry, heard: Heard) -> Heard {
        match heard {
            Heard::Job(Some(found)) if self.ledger.is_of_namesake(entry, &found.body) => Heard::Job(None),
            heard => heard,
        }
    }

    /// Every job whose id is known is there, or is not, as it must be.
    fn inspect_all(&mut self) -> Result<(), Wrong> {
        let index = self.visitor("workq");
        for entry in 0..self.ledger.jobs.len() {
            let job = &self.ledger.jobs[entry];
            let Some(uuid) = job.uuid() else { continue };
            if let Some(success) = job.must_have_result() {
                let heard = self.ask_now(index, Ask::Result { uuid: uuid.clone(), wait_ms: 0 })?;
                if !matches!(heard, Heard::Result { success: told, .. } if told == success) {
                    return Err(format!("the result of job {entry} was lost: {:?}", self.ledger.jobs[entry]));
                }
                self.count(if success { "audit: a result is there" } else { "audit: a failure is there" }, 1);
            }
            let heard = self.ask_now(index, Ask::Inspect(uuid))?;
            let Heard::Job(found) = self.about(entry, heard) else {
                return Err("an inspection was refused".to_owned());
            };
            self.check_found(entry, found.as_ref())?;
        }
        Ok(())
    }

    fn check_found(&mut self, entry: Entry, found: Option<&Found>) -> Result<(), Wrong> {
        let now_ms = self.world.elapsed_ms();
        let must_be_there = self.ledger.must_be_there(entry, now_ms);
        let has_expired = self.ledger.has_expired(entry, now_ms);
        let job = &self.ledger.jobs[entry];
        match found {
            Some(_) if job.refused => Err(format!("job {entry} was refused, and is there: {job:?}")),
            Some(_) if has_expired => Err(format!("job {entry} is there, and its lifetime is over: {job:?}")),
            None if has_expired => {
                self.count("audit: a job has expired", 1);
                Ok(())
            }
            None if must_be_there => Err(format!("job {entry} was lost: {job:?}")),
            None => {
                self.count("audit: a job is gone rightly", 1);
                Ok(())
            }
            Some(found) if job.put.body.as_bytes() != found.body => {
                Err(format!("job {entry} has another body: {}", found.body.escape_ascii()))
            }
            Some(found) => {
                if let Some(fact) = job.facts().into_iter().find(|fact| !found.facts.contains(fact)) {
                    return Err(format!("job {entry} has no '{fact}': {found:?}, and {job:?}"));
                }
                let finished = FINISHED.contains(&found.state);
                if finished && must_be_there && !self.is_aside(entry, found) {
                    return Err(format!("job {entry} is finished, and nobody finished it: {job:?}"));
                }
                if !finished && job.ended.is_some() {
                    return Err(format!("job {entry} is back, although it had ended: {job:?}"));
                }
                if finished && job.ended.is_some_and(|(_, keeps)| !keeps) {
                    return Err(format!("job {entry} was removed, and its result is there: {job:?}"));
                }
                self.count("audit: a job is there rightly", 1);
                Ok(())
            }
        }
    }

    /// What is said to be ready can be taken, all of it and no more, and whatever must be ready is among it.
    fn count_all(&mut self) -> Result<(), Wrong> {
        let counting = COUNTING.map(|protocol| self.visitor(protocol));
        self.check_queues(counting)?;
        self.check_server(counting[0], counting[2])?;
        if !self.is_short_of_memory() {
            self.check_sums(counting[3])?;
        }
        let before = self.metrics(counting[1])?;
        let mut taken_in_all = 0;
        for queue in QUEUES {
            let now = self.now();
            let owed: Vec<Entry> = self.ledger.all_ready(queue, now.turn, now.at_ms, Kept::UntilThen).collect();
            let said = self.counts_of(counting, queue)?;
            let listed = self.list(counting[0], queue, said.iter().find_map(|counts| counts.ready))?;
            let taker = self.visitor("jobcentre");
            let mut taken = 0;
            while self.takes_one(taker, queue)? {
                taken += 1;
            }
            taken_in_all += taken as u64;
            let is_listed_rightly = self.people[taker].holds_in_order(&listed);
            let is_refused = listed.is_empty() && self.is_short_of_memory();
            if !is_listed_rightly && !is_refused {
                return Err(format!("'{queue}' was said to have {listed:?} ready, in this order"));
            }
            self.count("audit: a queue is listed rightly", u64::from(listed.len() > 1));
            let said_then = self.counts_of(counting, queue)?;
            // Where memory is full, nothing is listed.
            let is_listed = [&said, &said_then].iter().all(|said| said.iter().any(|counts| counts.leased.is_some()));
            if is_listed || !self.is_short_of_memory() {
                check_counts(&said, &said_then, taken).map_err(|wrong| format!("'{queue}': {wrong}"))?;
                self.count("audit: a queue is counted rightly", 1);
            }
            if let Some(entry) = owed.iter().find(|entry| !self.people[taker].has(**entry)) {
                let job = &self.ledger.jobs[*entry];
                return Err(format!("nobody has job {entry}, and nobody is given it: {job:?}"));
            }
            self.count("audit: a job was ready", owed.len() as u64);
            let taker = self.people.remove(taker);
            self.goes(taker.client)?;
        }
        let after = self.metrics(counting[1])?;
        self.check_metrics(&before, &after, &Done { taken: taken_in_all, ..Done::default() })
    }

    /// All that is ready in a queue, of which so many are said to be.
    fn list(&mut self, index: usize, queue: &'static str, ready: Option<usize>) -> Result<Vec<Entry>, Wrong> {
        let mut listed = Vec::new();
        for offset in (0..ready.unwrap_or(0)).step_by(PAGE) {
            if let Heard::List(bodies) = self.ask_now(index, Ask::List { queue, delayed: false, offset })? {
                listed.extend(bodies);
            }
        }
        listed.iter().map(|body| self.ledger.entry_of(body)).collect()
    }

    fn counts_of(&mut self, counting: [usize; 4], queue: &'static str) -> Result<Vec<Counts>, Wrong> {
        let mut counted = Vec::new();
        for index in counting {
            if let Heard::Count(counts) = self.ask_now(index, Ask::Count(queue))? {
                counted.push(counts);
            }
        }
        Ok(counted)
    }

    fn takes_one(&mut self, taker: usize, queue: &'static str) -> Result<bool, Wrong> {
        let heard = self.ask_now(taker, Ask::Take { queues: vec![queue], wait_ms: 0 })?;
        Ok(matches!(heard, Heard::Took { .. }))
    }

    pub(super) fn goes(&mut self, client: ClientId) -> Result<(), Wrong> {
        self.ledger.client_gone(client, self.world.elapsed_ms());
        self.world.part(client, Parting::Close);
        self.world.rest()?;
        self.ledger.client_seen_off(client, self.world.elapsed_ms());
        Ok(())
    }

    /// What was put aside is so still, and where jobs came from is open or closed as it was.
    fn check_aside(&mut self) -> Result<(), Wrong> {
        let (index, now) = (self.visitor(BEANSTALKD), self.now());
        self.ask_now(index, Ask::Origins { after: None })?;
        for entry in 0..self.ledger.jobs.len() {
            let job = &self.ledger.jobs[entry];
            let Some(number) = job.known_number() else { continue };
            if self.ledger.is_buried(entry, now.turn, now.at_ms) {
                let held = Held { entry, id: number.to_string(), queue: job.put.queue };
                self.ask_now(index, Ask::State(held))?;
                self.count("audit: a job is still put aside", 1);
            }
        }
        let visitor = self.people.remove(index);
        self.goes(visitor.client)
    }

    /// Lets back in what was put aside, takes and removes what there is, until there is nothing. All that must be there and can be taken is among it.
    fn drain(&mut self) -> Result<(), Wrong> {
        let now_ms = self.world.elapsed_ms();
        let entries = 0..self.ledger.jobs.len();
        let owed =
            |ledger: &Ledger, entry| ledger.must_be_there(entry, now_ms) && ledger.comes_in_the_end(entry, now_ms);
        let owed: Vec<Entry> = entries.filter(|entry| owed(&self.ledger, *entry)).collect();
        let unsure = self.unsure_groups();
        let (taker, kicker) = (self.visitor("jobcentre"), self.visitor(BEANSTALKD));
        let (mut drained, mut may_be_aside) = (BTreeSet::new(), false);
        for round in 0.. {
            if round == ROUNDS_MAX {
                return Err(format!("there are more and more jobs: {} were removed", drained.len()));
            }
            let (before, mut kicked) = (drained.len(), 0);
            may_be_aside = false;
            for queue in QUEUES {
                while self.takes_one(taker, queue)? {
                    let held = self.people[taker].give_up().expect("it was just taken");
                    drained.insert(held.entry);
                    self.ask_now(taker, Ask::Remove(held))?;
                }
                match self.ask_now(kicker, Ask::Kick { queue, count: KICKS_MAX })? {
                    Heard::Kicked(count) => kicked += count,
                    _ => may_be_aside = true,
                }
            }
            if drained.len() == before && kicked == 0 {
                break;
            }
        }
        if may_be_aside && !self.is_short_of_memory() {
            return Err("nothing is wanting, and what was put aside cannot be let back in".to_owned());
        }
        let is_owed = |entry: &&Entry| !(may_be_aside && self.ledger.may_be_aside(**entry));
        if let Some(entry) = owed.iter().filter(is_owed).find(|entry| !drained.contains(entry)) {
            return Err(format!("nobody has job {entry}, and it never comes: {:?}", self.ledger.jobs[*entry]));
        }
        self.count("audit: a job came in the end", owed.len() as u64);
        self.check_drained()?;
        unsure.into_iter().try_for_each(|group| self.check_group(&group, &drained))
    }

    /// Nothing is left but what waits for a date that is lost, and what is held for ever.
    fn check_drained(&mut self) -> Result<(), Wrong> {
        let counting = COUNTING.map(|protocol| self.visitor(protocol));
        for queue in QUEUES {
            let held = self.ledger.may_be_held_for_ever(queue);
            for counts in self.counts_of(counting, queue)? {
                let delayed = counts.delayed.or(counts.free).unwrap_or(0);
                let too_many = counts.ready.unwrap_or(0) > 0
                    || delayed > 0 && !self.ledger.are_dates_lost()
                    || counts.leased.unwrap_or(0) > held;
                if too_many {
                    return Err(format!(
                        "'{queue}' was emptied, and there are {counts:?}, {held} of them held for ever"
                    ));
                }
                self.count("audit: a queue was emptied", 1);
            }
        }
        Ok(())
    }

    /// Groups of which nobody was told, whose jobs could all be taken if they were there; and of what they complete, what
    /// nothing else can have ended.
    fn unsure_groups(&self) -> Vec<Group> {
        let now_ms = self.world.elapsed_ms();
        let comes = |entry: &Entry| self.ledger.comes_in_the_end(*entry, now_ms);
        let is_aside = |entry: &Entry| self.ledger.may_be_aside(*entry);
        let may_be_there = |entry: &Entry| !self.ledger.jobs[*entry].refused && comes(entry) && !is_aside(entry);
        let hangs =
            |entry: &Entry| self.ledger.hangs_on_one_request(*entry, now_ms) && comes(entry) && !is_aside(entry);
        let unsure = self.ledger.groups.iter().filter(|group| !group.told && group.entries.iter().all(may_be_there));
        unsure.map(|group| Group { completes: group.completes.filter(hangs), ..group.clone() }).collect()
    }

    /// Of jobs that were put together, all have been seen, or none; and then what was completed with them is still there.
    fn check_group(&mut self, group: &Group, drained: &BTreeSet<Entry>) -> Result<(), Wrong> {
        let entries = &group.entries;
        let seen = entries.iter().filter(|entry| self.ledger.jobs[**entry].was_taken).count();
        if seen != 0 && seen != entries.len() {
            let jobs: Vec<_> = entries.iter().map(|entry| &self.ledger.jobs[*entry]).collect();
            return Err(format!("of jobs {entries:?}, put together, {seen} were there: {jobs:?}"));
        }
        self.count(if seen == 0 { "audit: a group is not there" } else { "audit: a group is there whole" }, 1);
        let Some(held) = group.completes else { return Ok(()) };
        if drained.contains(&held) == (seen > 0) {
            let job = &self.ledger.jobs[held];
            let there = if seen > 0 { "there, and so is" } else { "not there, and neither is" };
            return Err(format!("jobs {entries:?} are {there} job {held}, completed with them: {job:?}"));
        }
        self.count("audit: a group and what it completes", 1);
        Ok(())
    }

    /// What is not needed any more leaves the disk: the log is hardly longer than it has to be.
    fn check_log_is_short(&mut self) -> Result<(), Wrong> {
        self.world.rest()?;
        // What is done takes room too, as long as its result is kept.
        let lives = |job: &Job| job.protocol == "workq" && job.put.lifetime_s.is_none();
        let is_kept = |job: &Job| lives(job) && job.ended.is_some_and(|(_, keeps)| keeps);
        let is_left = |job: &&Job| !job.refused && (job.ended.is_none() || is_kept(job));
        let may_be_there = self.ledger.jobs.iter().filter(is_left);
        let live_bytes: usize = may_be_there.map(|job| job.put.body.len() + RECORD_BYTES_MAX).sum();
        let (taken, segment_bytes) = (self.world.disk.bytes(), self.world.setup().log.segment_bytes);
        let held_bytes_max = live_bytes as u64 * 3 / 2 + segment_bytes;
        // With the newest, and the manifests, which take less than one.
        let segments_max = SPARES_MAX + 2 + held_bytes_max.div_ceil(segment_bytes - SEGMENT_HEADER_BYTES);
        let bytes_max = segments_max * segment_bytes;
        if taken > bytes_max {
            return Err(format!(
                "the log takes {taken} bytes in segments of {segment_bytes}, and jobs need {live_bytes} of them"
            ));
        }
        if taken > (SPARES_MAX + 2) * segment_bytes {
            self.count("audit: a long log is no longer than it may be", 1);
        }
        Ok(())
    }

    /// When all is over, every protocol can put a job, and have it back.
    fn work_again(&mut self) -> Result<(), Wrong> {
        let limited = self.is_short_of_memory();
        let counting = self.visitor("masenko");
        let (before, mut done) = (self.metrics(counting)?, Done::default());
        for speaker in SPEAKERS {
            let index = self.visitor(speaker.protocol);
            let put = self.plain_job(self.ledger.next_entry());
            let (entry, queue) = (put.entry, put.queue);
            self.ask_now(index, Ask::Put(put))?;
            if self.ledger.jobs.get(entry).is_none_or(|job| job.put_told.is_none()) {
                // What is held for ever, and results, may take all there is.
                if limited {
                    continue;
                }
                return Err(format!("nothing is wrong any more, and {:?} cannot put a job", self.people[index]));
            }
            done.put += 1;
            // goqueue always waits.
            let wait_ms = if speaker.protocol == "goqueue" { 1_000 } else { 0 };
            self.ask_now(index, Ask::Take { queues: vec![queue], wait_ms })?;
            let Some(held) = self.people[index].give_up().filter(|held| held.entry == entry) else {
                return Err(format!("{:?} put a job, and does not get it", self.people[index]));
            };
            done.taken += 1;
            self.ask_now(index, Ask::Complete(held))?;
            let is_over = self.ledger.jobs[entry].ended.is_some();
            done.completed += u64::from(is_over && !speaker.removes_what_is_done);
            if !is_over && !limited {
                return Err(format!("{:?} has a job, and cannot complete it", self.people[index]));
            }
        }
        self.count("audit: all work again", 1);
        // The other one may have been silent for too long, where answers are held back.
        let counting = self.visitor("masenko");
        let after = self.metrics(counting)?;
        self.check_metrics(&before, &after, &done)
    }
}

/// Whether all say the same of a queue, before what is ready was taken and after that.
fn check_counts(before: &[Counts], after: &[Counts], taken: usize) -> Result<(), Wrong> {
    // A queue that was never made is not counted by workq.
    let sure = *before.iter().find(|counts| counts.leased.is_some()).ok_or("masenko does not count it")?;
    let (delayed, leased) = (sure.delayed.unwrap_or(0), sure.leased.unwrap_or(0));
    let agrees = |counts: &Counts, ready: usize, leased: usize| {
        counts.ready.is_none_or(|said| said == ready)
            && counts.delayed.is_none_or(|said| said == delayed)
            && counts.leased.is_none_or(|said| said == leased)
            && counts.free.is_none_or(|said| said == ready + delayed)
    };
    let rightly = before.iter().all(|counts| agrees(counts, taken, leased));
    if rightly && after.iter().all(|counts| agrees(counts, 0, leased + taken)) {
        return Ok(());
    }
    Err(format!("{before:?} was said, {taken} jobs could be taken, and then {after:?} was said"))
}
