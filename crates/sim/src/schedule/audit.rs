//! The end of a schedule: nothing goes wrong any more, and what is there is held against all that was said.

use jobyard_engine::ClientId;

use super::person::Person;
use super::{QUEUES, Schedule, listener_of};
use crate::clients::{Ask, Entry, SPEAKERS, uuid_of_entry, uuid_of_number};
use crate::disk::Crash;
use crate::world::{Manners, Parting, Wrong};

/// workq's states of jobs that are finished: done, and failed.
const FINISHED: [u32; 2] = [1, 2];

impl Schedule {
    pub fn audit(&mut self) -> Result<(), Wrong> {
        self.free_disk();
        if self.world.is_running() && (self.draining || self.coin()) {
            self.wake_all();
            self.world.rest()?;
            self.all_hear()?;
            self.world.crash(Crash::Kill);
        }
        if !self.world.is_running() {
            self.come_back()?;
        }
        for person in std::mem::take(&mut self.people) {
            self.lose(&person);
            self.world.part(person.client, Parting::Reset);
        }
        // Time enough for a full disk to be looked at again, and for what vanished workers had.
        self.world.pass(3_000)?;
        if let Some(failure) = self.world.failure() {
            return Err(format!("the server ended although nothing went wrong: {failure}"));
        }
        if self.world.clients() > 0 {
            return Err(format!("{} clients have gone, and the server keeps them", self.world.clients()));
        }
        self.inspect_all()?;
        let now_ms = self.world.elapsed_ms();
        let owed: Vec<Entry> =
            (0..self.ledger.jobs.len()).filter(|entry| self.ledger.is_owed(*entry, now_ms)).collect();
        self.count_all()?;
        self.drain()?;
        match owed.iter().find(|entry| self.ledger.jobs[**entry].ended.is_none()) {
            Some(entry) => {
                Err(format!("nobody has job {entry}, and nobody is given it: {:?}", self.ledger.jobs[*entry]))
            }
            None => Ok(()),
        }
    }

    fn visitor(&mut self, protocol: &str) -> usize {
        let speaker = SPEAKERS.iter().find(|speaker| speaker.protocol == protocol).expect("it is spoken");
        let client = self.world.connect(listener_of(protocol), Manners::PLAIN);
        self.people.push(Person::new(client, speaker, self.now()));
        self.people.len() - 1
    }

    /// Asks, and hears the answer.
    fn ask_now(&mut self, index: usize, ask: Ask) -> Result<(), Wrong> {
        self.ask(index, ask);
        self.world.rest()?;
        self.all_hear()?;
        if self.people[index].is_answered() {
            return Ok(());
        }
        Err(format!("{:?} is not answered", self.people[index]))
    }

    /// Every job whose id is known is there, or is not, as it must be.
    fn inspect_all(&mut self) -> Result<(), Wrong> {
        let index = self.visitor("workq");
        for entry in 0..self.ledger.jobs.len() {
            let job = &self.ledger.jobs[entry];
            let uuid = match job.number {
                Some(number) => uuid_of_number(number),
                None if job.protocol == "workq" => uuid_of_entry(entry),
                None => continue,
            };
            self.inspected.clear();
            self.ask_now(index, Ask::Inspect(uuid))?;
            let Some((_, found)) = self.inspected.pop() else { return Err("an inspection was refused".to_owned()) };
            self.check_found(entry, found.as_ref())?;
        }
        Ok(())
    }

    fn check_found(&mut self, entry: Entry, found: Option<&(u32, Vec<u8>)>) -> Result<(), Wrong> {
        let must_be_there = self.ledger.must_be_there(entry);
        let job = &self.ledger.jobs[entry];
        match found {
            None if must_be_there => Err(format!("job {entry} was lost: {job:?}")),
            None => {
                self.count("audit: a job is gone rightly", 1);
                Ok(())
            }
            Some((_, body)) if job.put.body.as_bytes() != body => {
                Err(format!("job {entry} has another body: {}", body.escape_ascii()))
            }
            Some((state, _)) => {
                let finished = FINISHED.contains(state);
                if finished && must_be_there {
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

    /// What is said to be ready can be taken, all of it and no more.
    fn count_all(&mut self) -> Result<(), Wrong> {
        let (workq, masenko) = (self.visitor("workq"), self.visitor("masenko"));
        for queue in QUEUES {
            self.counted.clear();
            self.ask_now(workq, Ask::Count(queue))?;
            self.ask_now(masenko, Ask::Count(queue))?;
            let said: Vec<usize> = self.counted.iter().map(|(_, _, count)| *count).collect();
            let taker = self.visitor("jobcentre");
            let mut taken = 0;
            while self.takes_one(taker, queue)? {
                taken += 1;
            }
            // A queue that was never made is not counted by workq.
            if said.iter().any(|count| *count != taken) {
                return Err(format!("'{queue}' was said to have {said:?} ready jobs, and {taken} could be taken"));
            }
            self.count("audit: a queue is counted rightly", 1);
            let taker = self.people.remove(taker);
            self.goes(taker.client)?;
        }
        Ok(())
    }

    fn takes_one(&mut self, taker: usize, queue: &'static str) -> Result<bool, Wrong> {
        let before = self.people[taker].holds();
        self.ask_now(taker, Ask::Take { queues: vec![queue], wait_ms: 0 })?;
        Ok(self.people[taker].holds() > before)
    }

    fn goes(&mut self, client: ClientId) -> Result<(), Wrong> {
        self.ledger.client_gone(client);
        self.world.part(client, Parting::Close);
        self.world.rest().map(|_| ())
    }

    /// Takes and removes what there is. Of jobs that were put together, all have been seen then, or none.
    fn drain(&mut self) -> Result<(), Wrong> {
        for _ in 0..3 {
            let taker = self.visitor("jobcentre");
            for queue in QUEUES {
                while self.takes_one(taker, queue)? {
                    let held = self.people[taker].give_up().expect("it was just taken");
                    self.ask_now(taker, Ask::Remove(held))?;
                }
            }
            let taker = self.people.remove(taker);
            self.goes(taker.client)?;
            self.world.pass(2_000)?;
        }
        for (group, told) in &self.ledger.groups {
            let seen = group.iter().filter(|entry| self.ledger.jobs[**entry].was_taken).count();
            // Someone may still have one of them, and who waits for that one was not seen.
            let held = group.iter().any(|entry| self.ledger.is_held(*entry));
            if !held && !told && seen != 0 && seen != group.len() {
                let jobs: Vec<_> = group.iter().map(|entry| &self.ledger.jobs[*entry]).collect();
                return Err(format!("of jobs {group:?}, put together, {seen} were there: {jobs:?}"));
            }
        }
        Ok(())
    }
}
