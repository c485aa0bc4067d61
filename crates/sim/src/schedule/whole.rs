//! What the server says of itself and of all its queues, when nobody else is there: it must be what is known.

use std::collections::BTreeMap;

use jobyard_protocols::Dialect;

use super::{QUEUES, Schedule};
use crate::clients::{Ask, DEFAULT_TUBE, Heard, TALKS, date};
use crate::world::Wrong;

/// What was done with jobs.
#[derive(Debug, Default)]
pub struct Done {
    pub put: u64,
    pub taken: u64,
    /// As a job that is done, not by removing it.
    pub completed: u64,
}

/// Counters of masenko, by name.
pub type Metrics = BTreeMap<String, u64>;

impl Schedule {
    /// The list of all queues is what is said of each of them. Where memory is full, nothing is listed.
    pub fn check_queues(&mut self, counting: [usize; 4]) -> Result<(), Wrong> {
        let mut each = Vec::new();
        for queue in QUEUES.into_iter().chain([DEFAULT_TUBE]) {
            if let Heard::Count(counts) = self.ask_now(counting[0], Ask::Count(queue))? {
                each.push(format!("{queue} {} {}", counts.ready.unwrap_or(0), counts.delayed.unwrap_or(0)));
            }
        }
        for index in &counting[..2] {
            let Heard::Facts(mut listed) = self.ask_now(*index, Ask::Queues)? else { continue };
            // masenko lists them as they came to be.
            if self.people[*index].speaker.protocol == "masenko" {
                listed.sort_unstable();
            }
            if listed != each {
                return Err(format!(
                    "{:?} was told of the queues {listed:?}, and they are {each:?}",
                    self.people[*index]
                ));
            }
            self.count("audit: all queues are listed rightly", 1);
        }
        Ok(())
    }

    /// The server knows who is there and since when it runs.
    pub fn check_server(&mut self, index: usize, of_redis: usize) -> Result<(), Wrong> {
        let Heard::Facts(said) = self.ask_now(index, Ask::Server)? else {
            return Err("the server does not say how it is".to_owned());
        };
        let clients = format!("active-clients {}", self.world.open().len());
        let started = format!("started {}", date(self.world.started().0));
        if said.len() != 3 || !said.contains(&clients) || !said.contains(&started) {
            return Err(format!("the server says {said:?}, and not '{clients}' and '{started}'"));
        }
        let kind = TALKS.iter().position(|talk| talk.words == ["INFO"]).expect("it is said");
        let heard = self.ask_now(of_redis, Ask::SmallTalk(kind))?;
        let clients = format!("connected_clients:{}\r\n", self.world.open().len());
        if !matches!(&heard, Heard::Facts(said) if said.concat().contains(&clients)) {
            return Err(format!("the server says {heard:?}, and not '{clients}'"));
        }
        self.count("audit: the server says how it is", 1);
        Ok(())
    }

    /// What masenko counts since the start; nothing in a dialect that does not say, or where memory is full.
    pub fn metrics(&mut self, index: usize) -> Result<Metrics, Wrong> {
        let Heard::Facts(said) = self.ask_now(index, Ask::Server)? else { return Ok(Metrics::new()) };
        let metrics: Metrics = said
            .iter()
            .filter_map(|fact| fact.split_once(' '))
            .filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?)))
            .collect();
        let came = self.world.started().1;
        if self.told.dialect == Dialect::Document && metrics.get("clients") != Some(&came) {
            return Err(format!("{came} clients have come since the start, and masenko says {metrics:?}"));
        }
        Ok(metrics)
    }

    /// Between the two so many jobs were put, taken and completed; some may have been used up.
    pub fn check_metrics(&mut self, before: &Metrics, after: &Metrics, done: &Done) -> Result<(), Wrong> {
        if before.is_empty() || after.is_empty() {
            return Ok(());
        }
        let grown = |name: &str| after.get(name).zip(before.get(name)).map(|(after, before)| after - before);
        let expected = [("pushed", done.put), ("fetched", done.taken), ("acked", done.completed)];
        if expected.iter().any(|(name, count)| grown(name) != Some(*count)) {
            return Err(format!("{done:?} were jobs, and masenko says {before:?}, and then {after:?}"));
        }
        self.count("audit: what was done is counted rightly", 1);
        Ok(())
    }
}
