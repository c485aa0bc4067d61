//! When all is over, beanstalkd's clients do a little of everything, one at a time: every number that they are told must be exact.

use std::collections::BTreeMap;

use super::figures::{check_bounds, number};
use super::person::Person;
use super::{QUEUES, Schedule};
use crate::clients::{Ask, BEANSTALKD, DEFAULT_TUBE, FOR_EVER_MS, Heard, Held, Put, Standing};
use crate::ledger::Bounds;
use crate::world::Wrong;

/// How the pages call what is there.
const COUNTS: [&str; 5] = [
    "current-jobs-urgent",
    "current-jobs-ready",
    "current-jobs-reserved",
    "current-jobs-delayed",
    "current-jobs-buried",
];
/// What is counted of all that is asked, behind `cmd-`.
const VERBS: [&str; 12] = [
    "put",
    "peek-buried",
    "peek-delayed",
    "peek-ready",
    "reserve-with-timeout",
    "delete",
    "release",
    "bury",
    "kick",
    "use",
    "watch",
    "stats-job",
];

/// What is said of a job that is not there.
const NOT_FOUND: &str = "NOT_FOUND";

/// A page of numbers, in lines.
type Page = Vec<String>;

/// What must be on a page, exactly.
fn exactly(numbers: &[(&str, u64)]) -> Vec<(String, Bounds)> {
    numbers.iter().map(|(name, count)| ((*name).to_owned(), (*count, *count))).collect()
}

impl Schedule {
    /// What is said of each tube adds up to what is said of all, and these are all there are.
    pub(super) fn check_sums(&mut self, index: usize) -> Result<(), Wrong> {
        let mut pages: BTreeMap<&str, Page> = BTreeMap::new();
        for queue in QUEUES.into_iter().chain([DEFAULT_TUBE]) {
            if let Heard::Facts(page) = self.ask_now(index, Ask::Figures(queue))? {
                pages.insert(queue, page);
            }
        }
        let Heard::Facts(mut tubes) = self.ask_now(index, Ask::Queues)? else { return Ok(()) };
        tubes.sort_unstable();
        if !pages.keys().eq(tubes.iter()) {
            return Err(format!("there are the tubes {:?}, and listed are {tubes:?}", pages.keys()));
        }
        let all = self.page_of_all(index)?;
        let sum = |name: &str| pages.values().filter_map(|page| number(page, name)).sum();
        let mut numbers: Vec<(&str, u64)> = COUNTS.iter().map(|name| (*name, sum(name))).collect();
        numbers.push(("current-tubes", pages.len() as u64));
        numbers.push(("current-connections", self.world.open().len() as u64));
        numbers.push(("total-connections", self.world.started().1));
        numbers.push(("current-waiting", self.people.iter().filter(|who| who.takes().count() > 0).count() as u64));
        check_bounds(&all, &exactly(&numbers))?;
        for (queue, page) in &pages {
            let attends = |is_so: fn(&Person, &str) -> bool| {
                let tubes = self.people.iter().filter(|who| who.speaker.protocol == BEANSTALKD);
                tubes.filter(|who| is_so(who, queue)).count() as u64
            };
            let numbers = [
                ("current-using", attends(|who, queue| who.uses == queue)),
                ("current-watching", attends(|who, queue| who.watches.contains(&queue))),
                ("current-waiting", attends(Person::asks_for)),
                ("pause", 0),
                ("pause-time-left", 0),
            ];
            check_bounds(page, &exactly(&numbers)).map_err(|wrong| format!("tube '{queue}': {wrong}"))?;
        }
        self.count("audit: what is said of tubes adds up", 1);
        Ok(())
    }

    fn page_of_all(&mut self, index: usize) -> Result<Page, Wrong> {
        match self.ask_now(index, Ask::Greet)? {
            Heard::Facts(page) => Ok(page),
            heard => Err(format!("the server does not say how it is: {heard:?}")),
        }
    }

    fn page_of_tube(&mut self, index: usize, queue: &'static str) -> Result<Page, Wrong> {
        match self.ask_now(index, Ask::Figures(queue))? {
            Heard::Facts(page) => Ok(page),
            heard => Err(format!("'{queue}' is not described: {heard:?}")),
        }
    }

    fn page_of_job(&mut self, index: usize, held: &Held) -> Result<Page, Wrong> {
        match self.ask_now(index, Ask::State(held.clone()))? {
            Heard::Facts(page) => Ok(page),
            heard => Err(format!("{held:?} is not described: {heard:?}")),
        }
    }

    /// One puts jobs and looks, another takes them; nobody else does anything. Where there is little memory, or something may
    /// still fall due, nothing can be known so well.
    pub(super) fn examine(&mut self) -> Result<(), Wrong> {
        if self.is_short_of_memory() || self.ledger.are_dates_lost() {
            return Ok(());
        }
        let (boss, worker) = (self.visitor(BEANSTALKD), self.visitor(BEANSTALKD));
        let queue = QUEUES[self.below(self.queues)];
        self.ask_now(boss, Ask::Use(queue))?;
        let all = self.page_of_all(boss)?;
        let figures = self.figures.clone();
        let tube = self.page_of_tube(boss, queue)?;
        self.examine_life(boss, worker, queue)?;
        self.examine_order(boss, worker, queue)?;
        self.examine_wait(boss, worker, queue)?;
        self.examine_times(boss, worker, queue)?;
        self.examine_memory(worker, queue)?;
        self.examine_result(boss, worker, queue)?;
        let after = self.page_of_tube(boss, queue)?;
        let was = |name: &str| number(&tube, name).unwrap_or(0);
        let put = self.figures.put_since(&figures);
        // One was gone already.
        let deleted = self.figures.asked("delete") - figures.asked("delete") - 1;
        check_bounds(
            &after,
            &exactly(&[
                ("total-jobs", was("total-jobs") + put),
                ("cmd-delete", was("cmd-delete") + deleted),
                ("current-using", was("current-using")),
            ]),
        )?;
        let was = |name: &str| number(&all, name).unwrap_or(0);
        let after = self.page_of_all(boss)?;
        let verbs: Vec<(String, Bounds)> = VERBS
            .iter()
            .map(|verb| {
                let name = format!("cmd-{verb}");
                let count = was(&name) + self.figures.asked(verb) - figures.asked(verb);
                (name, (count, count))
            })
            .collect();
        check_bounds(&after, &verbs)?;
        check_bounds(
            &after,
            &exactly(&[
                ("total-jobs", was("total-jobs") + put),
                ("job-timeouts", was("job-timeouts") + 1),
                ("current-producers", 1),
                ("current-workers", 1),
            ]),
        )?;
        self.check_sums(boss)?;
        self.count("audit: every number was exact", 1);
        Ok(())
    }

    /// A job is put, and has its number.
    fn put_one(&mut self, boss: usize, queue: &'static str, delay_s: Option<u32>) -> Result<Held, Wrong> {
        let entry = self.ledger.next_entry();
        let put = self.plain_job(entry);
        let put = Put { queue, dead_queue: None, own_time_s: Some(2), delay_s, ..put };
        self.ask_now(boss, Ask::Put(put))?;
        let number = self.ledger.jobs[entry].number;
        let number = number.ok_or_else(|| "nothing is wrong any more, and a job cannot be put".to_owned())?;
        Ok(Held { entry, id: number.to_string(), queue })
    }

    /// The worker takes this job, or there is none.
    fn take_one(&mut self, worker: usize, held: Option<&Held>, queue: &'static str) -> Result<(), Wrong> {
        let heard = self.ask_now(worker, Ask::Take { queues: vec![queue], wait_ms: 0 })?;
        let taken = self.people[worker].give_up();
        if taken.as_ref() == held && (taken.is_some() || heard == Heard::Nothing) {
            return Ok(());
        }
        Err(format!("{held:?} is the next job of '{queue}', and the worker was told {heard:?}"))
    }

    fn is_done(&mut self, index: usize, ask: &Ask) -> Result<(), Wrong> {
        match self.ask_now(index, ask.clone())? {
            Heard::Done => Ok(()),
            heard => Err(format!("{ask:?} was asked when nothing was wrong, and answered {heard:?}")),
        }
    }

    /// All that can befall a job, once each.
    fn examine_life(&mut self, boss: usize, worker: usize, queue: &'static str) -> Result<(), Wrong> {
        let held = self.put_one(boss, queue, None)?;
        let job = Some(&held);
        let (urgency, delay_s) = (0, 0);
        self.take_one(worker, None, DEFAULT_TUBE)?;
        self.take_one(worker, job, queue)?;
        self.is_done(worker, &Ask::PutBack { held: held.clone(), urgency, delay_s })?;
        self.take_one(worker, job, queue)?;
        self.is_done(worker, &Ask::Bury { held: held.clone(), urgency })?;
        let page = self.page_of_job(boss, &held)?;
        check_bounds(
            &page,
            &exactly(&[("reserves", 2), ("releases", 1), ("buries", 1), ("kicks", 0), ("time-left", 0)]),
        )?;
        self.kick(boss, queue, 1, 1)?;
        self.take_one(worker, job, queue)?;
        let page = self.page_of_job(boss, &held)?;
        check_bounds(&page, &exactly(&[("reserves", 3), ("kicks", 1), ("time-left", 1), ("ttr", 2), ("timeouts", 0)]))?;
        self.world.pass(3_000)?;
        let page = self.page_of_job(boss, &held)?;
        check_bounds(&page, &exactly(&[("reserves", 3), ("timeouts", 1), ("age", 3), ("time-left", 0), ("delay", 0)]))?;
        if !page.contains(&"state: ready".to_owned()) {
            return Err(format!("the time of job {} is over, and it is not ready: {page:?}", held.entry));
        }
        self.is_done(boss, &Ask::Remove(held.clone()))?;
        self.is_gone(boss, &held)?;
        match self.ask_now(boss, Ask::Remove(held))? {
            Heard::Refused(words) if words == NOT_FOUND => Ok(()),
            heard => Err(format!("a job was removed twice: {heard:?}")),
        }
    }

    /// A job that is over is not there, whoever looks.
    fn is_gone(&mut self, boss: usize, held: &Held) -> Result<(), Wrong> {
        for ask in [Ask::Peek(held.clone()), Ask::State(held.clone()), Ask::KickJob(held.clone())] {
            match self.ask_now(boss, ask.clone())? {
                Heard::Refused(words) if words == NOT_FOUND => {}
                heard => return Err(format!("{ask:?} was asked of a job that is gone, and answered {heard:?}")),
            }
        }
        Ok(())
    }

    /// One of workq's jobs is done, and its result is kept: there is no such job for beanstalkd's clients.
    fn examine_result(&mut self, boss: usize, worker: usize, queue: &'static str) -> Result<(), Wrong> {
        let (other, entry) = (self.visitor("workq"), self.ledger.next_entry());
        let put = self.plain_job(entry);
        self.ask_now(other, Ask::Put(Put { queue, dead_queue: None, ..put }))?;
        self.ask_now(worker, Ask::Take { queues: vec![queue], wait_ms: 0 })?;
        let Some(held) = self.people[worker].give_up().filter(|held| held.entry == entry) else {
            return Err(format!("job {entry} was put into '{queue}', and the worker does not get it"));
        };
        self.is_done(worker, &Ask::PutBack { held: held.clone(), urgency: 0, delay_s: 0 })?;
        self.ask_now(other, Ask::Take { queues: vec![queue], wait_ms: 0 })?;
        if let Some(held) = self.people[other].give_up() {
            self.is_done(other, &Ask::Complete(held))?;
        }
        self.is_gone(boss, &held)
    }

    fn kick(&mut self, boss: usize, queue: &'static str, count: usize, kicked: usize) -> Result<(), Wrong> {
        match self.ask_now(boss, Ask::Kick { queue, count })? {
            Heard::Kicked(said) if said == kicked => Ok(()),
            heard => Err(format!("{kicked} jobs of '{queue}' are to be let back in, and the answer is {heard:?}")),
        }
    }

    fn is_next(&mut self, boss: usize, queue: &'static str, state: Standing, held: Option<&Held>) -> Result<(), Wrong> {
        let heard = self.ask_now(boss, Ask::PeekNext { queue, state })?;
        let is_right = match (&heard, held) {
            (Heard::Shown { id, .. }, Some(held)) => *id == held.id,
            (Heard::Refused(words), None) => words == NOT_FOUND,
            _ => false,
        };
        if is_right { Ok(()) } else { Err(format!("{held:?} is the next {state:?} job, and not {heard:?}")) }
    }

    /// Two jobs are put aside and two are delayed: which is the first of them, and which are let back in.
    fn examine_order(&mut self, boss: usize, worker: usize, queue: &'static str) -> Result<(), Wrong> {
        let (late, soon) = (self.put_one(boss, queue, Some(9))?, self.put_one(boss, queue, Some(5))?);
        let (first, second) = (self.put_one(boss, queue, None)?, self.put_one(boss, queue, None)?);
        self.is_next(boss, queue, Standing::Ready, Some(&first))?;
        self.take_one(worker, Some(&first), queue)?;
        self.take_one(worker, Some(&second), queue)?;
        self.is_done(worker, &Ask::Bury { held: second.clone(), urgency: 0 })?;
        self.is_done(worker, &Ask::Bury { held: first.clone(), urgency: 0 })?;
        let page = self.page_of_tube(boss, queue)?;
        check_bounds(
            &page,
            &exactly(&[("current-jobs-ready", 0), ("current-jobs-delayed", 2), ("current-jobs-buried", 2)]),
        )?;
        self.is_next(boss, queue, Standing::Ready, None)?;
        self.is_next(boss, queue, Standing::Delayed, Some(&soon))?;
        self.is_next(boss, queue, Standing::Buried, Some(&second))?;
        self.kick(boss, queue, 1, 1)?;
        self.is_next(boss, queue, Standing::Ready, Some(&second))?;
        self.is_next(boss, queue, Standing::Buried, Some(&first))?;
        self.kick(boss, queue, 9, 1)?;
        self.is_next(boss, queue, Standing::Buried, None)?;
        self.kick(boss, queue, 1, 1)?;
        self.is_next(boss, queue, Standing::Delayed, Some(&late))?;
        let page = self.page_of_tube(boss, queue)?;
        check_bounds(
            &page,
            &exactly(&[("current-jobs-ready", 3), ("current-jobs-delayed", 1), ("current-jobs-buried", 0)]),
        )?;
        for held in [soon, first, second, late] {
            self.is_done(boss, &Ask::Remove(held))?;
        }
        Ok(())
    }

    /// Whoever keeps a job for longer has it for longer, and whoever waits meanwhile is told in time.
    fn examine_times(&mut self, boss: usize, worker: usize, queue: &'static str) -> Result<(), Wrong> {
        let held = self.put_one(boss, queue, None)?;
        self.take_one(worker, Some(&held), queue)?;
        self.world.pass(1_500)?;
        self.is_done(worker, &Ask::Extend(held.clone()))?;
        self.people[worker].answer = None;
        self.ask(worker, Ask::Take { queues: vec![queue], wait_ms: 5_000 });
        for (ms, heard) in [(900, None), (200, Some(Heard::Soon))] {
            self.world.pass(ms)?;
            self.all_hear()?;
            if self.people[worker].answer != heard {
                let answer = &self.people[worker].answer;
                return Err(format!(
                    "{held:?} is kept for longer by one who waits, and it heard {answer:?}, not {heard:?}"
                ));
            }
        }
        let page = self.page_of_job(boss, &held)?;
        check_bounds(&page, &exactly(&[("reserves", 1), ("timeouts", 0), ("time-left", 0), ("age", 2)]))?;
        if !page.contains(&"state: reserved".to_owned()) {
            return Err(format!("{held:?} was to be kept for longer, and is not: {page:?}"));
        }
        self.is_done(worker, &Ask::Remove(held))
    }

    /// Who waits in vain, over and over, takes no more memory than the first time.
    fn examine_memory(&mut self, worker: usize, queue: &'static str) -> Result<(), Wrong> {
        let mut taken = Vec::new();
        for _ in 0..4 {
            self.people[worker].answer = None;
            self.ask(worker, Ask::Take { queues: vec![queue], wait_ms: 1_000 });
            self.world.pass(1_100)?;
            self.all_hear()?;
            if self.people[worker].answer != Some(Heard::Nothing) {
                return Err(format!("the worker waited for a second, and heard {:?}", self.people[worker].answer));
            }
            taken.push(self.world.memory_bytes());
        }
        if taken[1] < taken[3] {
            return Err(format!("whoever waits takes more and more memory: {taken:?}"));
        }
        Ok(())
    }

    /// Someone waits, and is counted as long as it does.
    fn examine_wait(&mut self, boss: usize, worker: usize, queue: &'static str) -> Result<(), Wrong> {
        self.ask(worker, Ask::Take { queues: vec![queue], wait_ms: FOR_EVER_MS });
        self.world.rest()?;
        self.all_hear()?;
        self.check_sums(boss)?;
        let held = self.put_one(boss, queue, None)?;
        let taken = self.people[worker].give_up();
        if taken.as_ref() != Some(&held) {
            return Err(format!("the worker waited for {held:?}, and was given {taken:?}"));
        }
        self.is_done(worker, &Ask::Remove(held))?;
        self.check_sums(boss)
    }
}
