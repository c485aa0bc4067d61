//! What beanstalkd's clients are told of a tube and of the whole server, in numbers: no less than must be, and no more than may be.

use std::collections::BTreeMap;

use super::person::Person;
use super::{QUEUES, Schedule};
use crate::clients::{Ask, BEANSTALKD, Counts, DEFAULT_TUBE, Entry};
use crate::ledger::{Bounds, Kept, When};
use crate::world::Wrong;

/// What is counted in one life of the server, as its clients know it.
#[derive(Clone, Debug, Default)]
pub(super) struct Figures {
    /// How often a command was asked, by its verb: what may be counted.
    asked: BTreeMap<String, u64>,
    /// How often it was answered: what must be counted.
    answered: BTreeMap<String, u64>,
    /// The first job that may have been put since the start.
    first_entry: Entry,
    /// How many jobs were said to be put since.
    put: u64,
    /// How many clients had come when this was noted.
    came: u64,
    /// Whether the server took no more jobs then.
    draining: bool,
}

/// What is counted of the commands, behind `cmd-`.
const VERBS: [&str; 22] = [
    "put",
    "peek",
    "peek-ready",
    "peek-delayed",
    "peek-buried",
    "reserve",
    "reserve-with-timeout",
    "delete",
    "release",
    "use",
    "watch",
    "ignore",
    "bury",
    "kick",
    "touch",
    "stats",
    "stats-job",
    "stats-tube",
    "list-tubes",
    "list-tube-used",
    "list-tubes-watched",
    "pause-tube",
];

/// The states that a page counts, and how the page calls them.
const STATES: [&str; 4] =
    ["current-jobs-ready", "current-jobs-reserved", "current-jobs-delayed", "current-jobs-buried"];

/// A number on a page.
pub(super) fn number(facts: &[String], name: &str) -> Option<u64> {
    facts.iter().find_map(|fact| fact.strip_prefix(name)?.strip_prefix(": ")?.parse().ok())
}

impl Figures {
    /// A server has begun to count.
    pub(super) fn begin(first_entry: Entry) -> Self {
        Figures { first_entry, ..Figures::default() }
    }

    /// How many jobs were said to be put since then.
    pub(super) fn put_since(&self, then: &Figures) -> u64 {
        self.put - then.put
    }

    /// How often this was asked, if all that was asked was answered.
    pub(super) fn asked(&self, verb: &str) -> u64 {
        self.asked.get(verb).copied().unwrap_or(0)
    }
}

impl Schedule {
    /// Someone asks something in these bytes.
    pub(super) fn note_figures_asked(&mut self, bytes: &[u8]) {
        // What makes no sense may be well formed as well, and what has no end may have a line that has one.
        let verb = bytes.split(|byte| matches!(byte, b' ' | b'\r')).next().unwrap_or_default();
        let verb = String::from_utf8_lossy(verb).into_owned();
        *self.figures.asked.entry(verb).or_default() += 1;
    }

    /// What is known now, if someone is to be told how the server is.
    pub(super) fn figures_now(&self, ask: &Ask) -> Option<Box<Figures>> {
        let draining = self.draining && !self.stopping;
        let known = || Figures { came: self.world.started().1, draining, ..self.figures.clone() };
        matches!(ask, Ask::Greet).then(|| Box::new(known()))
    }

    /// Someone was answered what it had asked as this.
    pub(super) fn note_figures_answered(&mut self, label: &str) {
        if let Some(verb) = label.strip_prefix("beanstalkd ") {
            *self.figures.answered.entry(verb.to_owned()).or_default() += 1;
        }
    }

    /// So many jobs were said to be put.
    pub(super) fn note_figures_put(&mut self, entries: &[Entry]) {
        let first = self.figures.first_entry;
        self.figures.put += entries.iter().filter(|entry| **entry >= first).count() as u64;
    }

    /// Someone was told how the server is, and had asked when that much was known.
    pub(super) fn check_server_figures(
        &mut self,
        index: usize,
        facts: &[String],
        known: &Figures,
        asked: When,
        when: When,
    ) -> Result<(), Wrong> {
        let mut bounds: Vec<(String, Bounds)> = Vec::new();
        for verb in VERBS {
            let least = known.answered.get(verb).copied().unwrap_or(0) + u64::from(verb == "stats");
            bounds.push((format!("cmd-{verb}"), (least, self.figures.asked(verb))));
        }
        let put_most = self.ledger.put_since(known.first_entry, None).filter(|job| !job.refused).count() as u64;
        bounds.push(("total-jobs".to_owned(), (known.put, put_most)));
        let came = self.world.started().1;
        bounds.push(("total-connections".to_owned(), (if self.lacks_clients() { 1 } else { known.came }, came)));
        let said = |name: &str| number(facts, name).unwrap_or(u64::MAX);
        let total = said("total-connections");
        bounds.push(("current-connections".to_owned(), (1, total)));
        // A server that stops sees those off that have heard all, and keeps what they had until its end.
        let attending = if self.stopping { total } else { said("current-connections") };
        bounds.push(("current-workers".to_owned(), (0, attending)));
        bounds.push(("current-producers".to_owned(), (0, attending)));
        bounds.push(("current-jobs-urgent".to_owned(), (0, said("current-jobs-ready"))));
        bounds.push(("current-tubes".to_owned(), (self.tubes_at_least(index), QUEUES.len() as u64 + 1)));
        bounds.extend(self.job_bounds(index, &QUEUES, asked, when));
        check_bounds(facts, &bounds)?;
        let draining = facts.iter().find_map(|fact| fact.strip_prefix("draining: "));
        let may_be = draining == Some("true") && self.draining || draining == Some("false") && !known.draining;
        if !may_be {
            return Err(format!("the server is said to be draining: {draining:?}, and is: {}", self.draining));
        }
        self.count("checked: the server's figures can be right", 1);
        Ok(())
    }

    /// Someone was told all there is to say of a tube.
    pub(super) fn check_tube_figures(
        &mut self,
        index: usize,
        queue: &'static str,
        facts: &[String],
        asked: When,
        when: When,
    ) -> Result<(), Wrong> {
        let name = format!("name: \"{queue}\"");
        if facts.first() != Some(&name) {
            return Err(format!("tube '{queue}' was asked for, and {facts:?} was said"));
        }
        let of_state = |state: usize| number(facts, STATES[state]).and_then(|count| usize::try_from(count).ok());
        let counts = Counts {
            ready: of_state(0),
            delayed: of_state(2),
            leased: of_state(1),
            buried: of_state(3),
            ..Counts::default()
        };
        self.check_buried_count(queue, counts, asked, when)?;
        self.check_counts(index, queue, counts, asked, when)?;
        let mut bounds = self.job_bounds(index, &[queue], asked, when);
        let (using, watching) = self.attend_at_least(queue, asked);
        bounds.push(("current-using".to_owned(), (using, u64::MAX)));
        bounds.push(("current-watching".to_owned(), (watching, u64::MAX)));
        let said = |name: &str| number(facts, name).unwrap_or(u64::MAX);
        bounds.push(("current-jobs-urgent".to_owned(), (0, said("current-jobs-ready"))));
        let first = self.figures.first_entry;
        let put = || self.ledger.put_since(first, Some(queue)).filter(|job| !job.refused);
        let is_there = |entry: Entry| self.ledger.is_counted(entry, asked.turn, when.at_ms);
        let put_least = put().filter(|job| is_there(job.put.entry)).count() as u64;
        bounds.push(("total-jobs".to_owned(), (put_least, put().count() as u64)));
        let removals =
            self.ledger.jobs.iter().filter(|job| job.put.may_be_in(queue) && job.may_be_over()).count() as u64;
        bounds.push(("cmd-delete".to_owned(), (0, removals)));
        check_bounds(facts, &bounds)?;
        self.count("checked: a tube's figures can be right", 1);
        Ok(())
    }

    /// How many jobs of these queues are in each state at least, and how many at most.
    fn job_bounds(&mut self, index: usize, queues: &[&'static str], asked: When, when: When) -> Vec<(String, Bounds)> {
        let (seen, turn, at_ms) = (self.seen_by(asked), asked.turn, when.at_ms);
        self.forget_silent(when);
        let mut bounds = [(0_u64, 0_u64); STATES.len()];
        for queue in queues {
            let unclear = self.people.iter().any(|person| self.asks_for(person, queue));
            for job in self.ledger.may_be_in(queue, seen, when) {
                // One that may have gone to its dead queue is counted here or there.
                let of_another = job.put.queue != *queue && queues.contains(&job.put.queue);
                let may_be = [
                    true,
                    unclear || job.may_have_been_held_since(asked) || job.put.dead_queue.is_some(),
                    unclear || self.ledger.may_be(job.put.entry, true, at_ms),
                    job.may_have_been_buried_since(turn),
                ];
                for (bound, may_be) in bounds.iter_mut().zip(may_be) {
                    bound.1 += u64::from(may_be && !of_another);
                }
            }
            let is_clear = !self.others_ask_for(index, queue);
            let ready = self.ledger.all_ready(queue, turn, at_ms, Kept::Never).count() as u64;
            let of_queue = |entry: &Entry| self.ledger.jobs[*entry].put.dead_queue.is_none();
            let held = (0..self.ledger.jobs.len()).filter(|&entry| {
                self.ledger.jobs[entry].put.queue == *queue && self.ledger.is_held(entry, turn, at_ms)
            });
            bounds[0].0 += if is_clear { ready } else { 0 };
            bounds[1].0 += held.filter(of_queue).count() as u64;
            bounds[2].0 += self.ledger.all_delayed(queue, turn, at_ms).count() as u64;
            bounds[3].0 += self.ledger.all_buried(queue, turn, at_ms).count() as u64;
        }
        STATES.iter().map(|state| (*state).to_owned()).zip(bounds).collect()
    }

    /// How many clients use and watch a tube at least. Whoever asks is one of them.
    fn attend_at_least(&self, queue: &str, asked: When) -> Bounds {
        let attends = |who: &&Person| {
            let is_there = !who.gone && !who.cut_off && !who.turned_away && who.speaker.protocol == BEANSTALKD;
            is_there && who.attended_turn.is_some_and(|turn| turn <= asked.turn) && !who.is_attending()
        };
        let ended = |index: usize| self.may_have_ended(index, self.now());
        let sure: Vec<&Person> = self
            .people
            .iter()
            .enumerate()
            .filter(|(index, _)| !ended(*index))
            .map(|(_, who)| who)
            .filter(attends)
            .collect();
        let using = sure.iter().filter(|who| who.uses == queue && who.has_used).count();
        let watching = sure.iter().filter(|who| who.watches.contains(&queue) && queue != DEFAULT_TUBE).count();
        (using as u64, watching as u64)
    }

    /// How many tubes there are at least: those that one who asks attends.
    fn tubes_at_least(&self, index: usize) -> u64 {
        let who = &self.people[index];
        let attended = who.watches.iter().chain([&who.uses]);
        let named: std::collections::BTreeSet<_> = attended.filter(|name| **name != DEFAULT_TUBE).collect();
        named.len() as u64
    }
}

/// Whether each of these numbers is on the page, and within its bounds.
pub(super) fn check_bounds(facts: &[String], bounds: &[(String, Bounds)]) -> Result<(), Wrong> {
    let is_wrong = |(name, (least, most)): &&(String, Bounds)| {
        number(facts, name).is_none_or(|said| said < *least || said > *most)
    };
    match bounds.iter().find(is_wrong) {
        Some((name, (least, most))) => Err(format!("{name} is {least} to {most}, and was said: {facts:?}")),
        None => Ok(()),
    }
}
