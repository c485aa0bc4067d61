//! What the clients of a schedule hear, and what they make of it.

use super::Schedule;
use super::expected::{is_right_at_all, words_of};
use super::person::Pending;
use crate::clients::{Ask, BEANSTALKD, Entry, Heard, Held, Put};
use crate::ledger::{Taker, When};
use crate::world::{Chunk, Wrong};

/// What takeanumber says when it removes a job instead of trying it again.
pub const NO_RETRIES: &str = "No retries remaining";
/// What workq says of a job that is done.
const DUPLICATE_RESULT: &str = "-CLIENT-ERROR Duplicate result";
/// What workq says of a UUID that is taken.
pub const DUPLICATE: &str = "Duplicate job";
/// What workq says of a job that is not there, and what all say.
pub const NOT_FOUND: &str = "-NOT-FOUND";
const GONE: [&str; 3] = [NOT_FOUND, "already deleted", "no-job"];

impl Schedule {
    /// Everybody hears what has come.
    pub fn all_hear(&mut self) -> Result<(), Wrong> {
        self.world.changes()?;
        let mut chunks = Vec::new();
        for index in 0..self.people.len() {
            chunks.extend(self.world.hear(self.people[index].client).into_iter().map(|chunk| (index, chunk)));
        }
        // In the order in which they left the server.
        chunks.sort_by_key(|(_, chunk)| chunk.turn);
        chunks.into_iter().try_for_each(|(index, chunk)| self.hear(index, chunk))
    }

    fn hear(&mut self, index: usize, chunk: Chunk) -> Result<(), Wrong> {
        let when = When { turn: chunk.turn, at_ms: chunk.at_ms };
        self.people[index].marks.push_back((chunk.bytes.len(), when));
        self.people[index].heard_bytes += chunk.bytes.len();
        self.people[index].unheard.extend(chunk.bytes);
        self.people[index].heard_ms = chunk.at_ms;
        self.told_ms = self.told_ms.max(chunk.at_ms);
        let lacks_input = self.lacks_input();
        loop {
            let person = &mut self.people[index];
            if person.unheard.is_empty() {
                return Ok(());
            }
            if person.cut_off {
                return Err(format!("{person:?} was cut off, and heard more: {}", person.unheard.escape_ascii()));
            }
            if let Some(farewell) = person.farewell(lacks_input) {
                let words = farewell.words(person);
                if person.unheard.len() < words.len() {
                    return Ok(());
                }
                let when = person.pass(words.len());
                self.check_cut_off(index, farewell, when)?;
                continue;
            }
            if person.turned_away {
                return Err(format!("{person:?} came when there was no room: {}", person.unheard.escape_ascii()));
            }
            let Some(pending) = person.pending.front() else {
                // Why a connection ends may be said without being asked.
                if self.stopping || !self.world.is_running() {
                    return Ok(());
                }
                return Err(format!("{person:?} heard what it did not ask for: {}", person.unheard.escape_ascii()));
            };
            let answer = (person.speaker.hear)(&pending.ask, &person.unheard);
            let whole = answer.map_err(|wrong| format!("{person:?} heard {wrong}"))?;
            let Some((used, heard)) = whole else { return Ok(()) };
            let (protocol, answer) = (person.speaker.protocol, person.unheard[..used].to_vec());
            let when = person.pass(used);
            self.note_texts(protocol, &answer);
            let person = &mut self.people[index];
            let pending = person.pending.pop_front().expect("there is one");
            self.sent[pending.sent].until_turn = when.turn;
            self.note_heard(index, &pending, &heard, when)?;
            self.people[index].answer = Some(heard);
        }
    }

    fn note_heard(&mut self, index: usize, pending: &Pending, heard: &Heard, when: When) -> Result<(), Wrong> {
        let Pending { ask, label, asked, sure, .. } = pending;
        let said = match heard {
            Heard::Refused(words) => format!("{label} refused: {}", words_of(words)),
            heard => format!("{label} answered: {}", kind_of(heard)),
        };
        self.count(&said, 1);
        if !is_right_at_all(self.people[index].speaker, ask, &said) {
            return Err(format!("{:?}, at {when:?}: {said}, which never comes", self.people[index]));
        }
        self.note_figures_answered(label);
        let disturbed = ask.disturbs();
        let alone = disturbed.is_some_and(|entry| self.ledger.nobody_else_asked(entry, *asked));
        disturbed.into_iter().for_each(|entry| self.ledger.settled(entry, when));
        let is_sure = *sure && (alone || self.nobody_meddled(index, ask, *asked, when));
        match ask {
            _ if let Heard::Refused(words) = heard => {
                self.check_refused(index, ask, words, is_sure, *asked)?;
                self.count_anothers(pending, words);
                self.note_refused(ask, words, when);
                self.note_refused_of_origin(index, ask, words, when)?;
                self.note_refused_of_tubes(ask, words, *asked, when)
            }
            Ask::Put(put) => self.note_put(index, put, heard, *asked, when),
            Ask::Group { puts, completes } => self.note_group(puts, completes.as_ref(), heard, when),
            Ask::Take { queues, wait_ms } => match heard {
                Heard::Took { id, body, failures } => {
                    let entry = self.note_took(index, pending, id, body, queues, when)?;
                    self.check_not_paused(index, entry, pending.undecided, when)?;
                    self.check_failures(entry, *failures, pending.undecided)?;
                    self.check_lives(entry, pending.undecided)?;
                    self.check_order(index, entry, queues, pending.undecided, when)
                }
                Heard::Soon => self.check_soon(index, *asked, when),
                _ => self.check_nothing(index, queues, *wait_ms, *asked, when),
            },
            Ask::TakeThis(_) => self.note_took_this(index, pending, heard, when),
            _ if *heard == Heard::Done && self.people[index].speaker.protocol == BEANSTALKD => {
                self.note_done_with_tubes(index, pending, alone, when)?;
                self.note_done(index, ask, *asked, when);
                Ok(())
            }
            Ask::Greet if let (Heard::Facts(facts), Some(known)) = (heard, &pending.figures) => {
                self.check_server_figures(index, facts, known, *asked, when)
            }
            _ if let Heard::Watching(count) = heard => {
                self.note_done_with_tubes(index, pending, alone, when)?;
                self.check_watching(index, *count)
            }
            Ask::Complete(_) | Ask::Remove(_) | Ask::Release(_) | Ask::Fail(_) => {
                self.note_done(index, ask, *asked, when);
                Ok(())
            }
            _ => self.note_look(index, ask, heard, *asked, when),
        }
    }

    fn note_refused(&mut self, ask: &Ask, words: &str, when: When) {
        match ask {
            // Someone has removed what was to be run.
            Ask::Put(put) if words == NOT_FOUND => self.ledger.ended(put.entry, false, when),
            Ask::Put(put) => self.ledger.put_refused(&[put.entry]),
            Ask::Group { puts, completes } => {
                let entries: Vec<_> = puts.iter().map(|put| put.entry).collect();
                self.ledger.put_refused(&entries);
                completes.iter().for_each(|held| self.ledger.end_refused(held.entry));
            }
            Ask::Complete(held) | Ask::Remove(held) => {
                self.ledger.end_refused(held.entry);
                self.note_over(held.entry, words, when);
            }
            // What is refused so has failed for the last time, by its own rule: workq's are kept, others may have a dead queue.
            Ask::Fail(held) if words.contains(NO_RETRIES) => {
                let job = &self.ledger.jobs[held.entry];
                let (is_over, keeps) = (job.put.dead_queue.is_none(), job.protocol == "workq");
                if is_over {
                    self.ledger.ended(held.entry, keeps, when);
                }
            }
            Ask::Fail(held) => {
                self.ledger.fail_refused(held.entry);
                self.note_over(held.entry, words, when);
            }
            _ => {}
        }
    }

    /// Something was refused because the job is done, or not there any more: it does not come back.
    fn note_over(&mut self, entry: Entry, words: &str, when: When) {
        let is_done = words == DUPLICATE_RESULT;
        if is_done || GONE.iter().any(|gone| words.contains(gone)) {
            self.ledger.ended(entry, is_done, when);
            self.count("checked: a job is over, as was said", 1);
        }
    }

    fn note_put(&mut self, index: usize, put: &Put, heard: &Heard, asked: When, when: When) -> Result<(), Wrong> {
        self.check_id(index, put, heard)?;
        match heard {
            Heard::Put(numbers) => {
                self.note_done_with_origin(index, &Ask::Put(put.clone()), when)?;
                self.note_figures_put(&[put.entry]);
                self.ledger.put_told(&[put.entry], numbers, when)?;
                if let (true, [number]) = (put.aside, &numbers[..]) {
                    let held = Held { entry: put.entry, id: number.to_string(), queue: put.queue };
                    self.people[index].buried.push(held);
                }
                Ok(())
            }
            // What was run is gone when that was answered; but if its client leaves, whoever took it keeps it.
            Heard::Nothing => {
                self.check_given_up(index, put, asked, when)?;
                if !self.people[index].gone && !self.stopping {
                    self.ledger.ended(put.entry, false, when);
                }
                Ok(())
            }
            Heard::Result { success, says } => {
                self.check_result(&put.uuid(), (*success, *says), asked)?;
                self.ledger.ended(put.entry, false, when);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn note_group(&mut self, puts: &[Put], completes: Option<&Held>, heard: &Heard, when: When) -> Result<(), Wrong> {
        let Heard::Put(numbers) = heard else { return Ok(()) };
        let entries: Vec<_> = puts.iter().map(|put| put.entry).collect();
        if numbers.len() != entries.len() {
            return Err(format!("{} of {} jobs of a group were put", numbers.len(), entries.len()));
        }
        self.note_figures_put(&entries);
        self.ledger.put_told(&entries, numbers, when)?;
        let groups = self.ledger.groups.iter_mut();
        groups.filter(|group| group.entries == entries).for_each(|group| group.told = true);
        completes.into_iter().for_each(|held| self.ledger.ended(held.entry, true, when));
        Ok(())
    }

    pub(super) fn note_took(
        &mut self,
        index: usize,
        pending: &Pending,
        id: &str,
        body: &[u8],
        queues: &[&'static str],
        when: When,
    ) -> Result<Entry, Wrong> {
        self.forget_silent(when);
        let queue = self.ledger.jobs[self.ledger.entry_of(body)?].put.queue;
        let unclear = self.others_ask_for(index, queue);
        let who = &self.people[index];
        let by = Taker {
            client: who.client,
            speaker: who.speaker,
            queues,
            id,
            asked_turn: matches!(pending.ask, Ask::Take { .. }).then_some(pending.asked.turn),
            unclear,
            gone: who.gone || self.may_have_ended(index, self.now()),
        };
        let entry = self.ledger.took(body, &by, pending.undecided, when)?;
        let put = &self.ledger.jobs[entry].put;
        let of_job = [Some(put.queue), put.dead_queue].into_iter().flatten().find(|queue| queues.contains(queue));
        let queue = of_job.expect("it comes from one of its queues");
        self.people[index].took += 1;
        self.people[index].holds.push(Held { entry, id: id.to_owned(), queue });
        Ok(entry)
    }

    fn note_done(&mut self, index: usize, ask: &Ask, asked: When, when: When) {
        match ask {
            Ask::Complete(held) => {
                let removes = self.people[index].speaker.removes_what_is_done;
                self.ledger.ended(held.entry, !removes, when);
            }
            Ask::Remove(held) => self.ledger.ended(held.entry, false, when),
            Ask::Fail(held) => self.ledger.failed(held.entry, asked, when),
            Ask::Release(held) => self.ledger.released(held.entry, self.people[index].client, when),
            _ => {}
        }
    }

    fn note_look(&mut self, index: usize, ask: &Ask, heard: &Heard, asked: When, when: When) -> Result<(), Wrong> {
        match (ask, heard) {
            (Ask::Result { wait_ms, .. }, Heard::Nothing) => self.check_nothing(index, &[], *wait_ms, asked, when),
            (Ask::Result { uuid, .. }, Heard::Result { success, says }) => {
                let entry = self.check_result(uuid, (*success, *says), asked)?;
                // What has failed for the last time may have gone to its dead queue.
                if *success || self.ledger.jobs[entry].put.dead_queue.is_none() {
                    self.ledger.ended(entry, true, when);
                }
                Ok(())
            }
            (Ask::List { queue, delayed, .. }, Heard::List(bodies)) => {
                self.check_list(queue, *delayed, bodies, asked, when)
            }
            (Ask::Count(queue), Heard::Count(counts)) => {
                self.check_buried_count(queue, *counts, asked, when)?;
                self.check_pause_said(queue, *counts, asked, when)?;
                self.check_counts(index, queue, *counts, asked, when)
            }
            (Ask::SmallTalk(kind), _) => self.check_small_talk(index, *kind, heard),
            _ if self.people[index].speaker.protocol == BEANSTALKD => {
                self.check_look_at_tubes(index, ask, heard, asked, when)
            }
            _ => Ok(()),
        }
    }
}

fn kind_of(heard: &Heard) -> &'static str {
    match heard {
        Heard::Put(_) => "put",
        Heard::Took { .. } => "a job",
        Heard::Nothing => "nothing",
        Heard::Soon => "a job's time is nearly over",
        Heard::Kicked(0) => "none let back in",
        Heard::Kicked(_) => "some let back in",
        Heard::Done | Heard::Watching(_) => "done",
        Heard::Refused(_) => "refused",
        Heard::Count(_) => "a count",
        Heard::Job(Some(_)) => "a job's state",
        Heard::Job(None) => "no such job",
        Heard::List(_) | Heard::Shown { .. } => "a list",
        Heard::Facts(_) => "facts",
        Heard::Result { success: true, .. } => "a result",
        Heard::Result { success: false, .. } => "a failure",
    }
}
