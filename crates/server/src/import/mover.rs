//! Moves jobs, each in this order: it is taken there, put here with its origin, deleted there, and its origin is closed here.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::origin::{Mark, Open, Source, all_open};
use super::peer::{Job, Peer, fields};
use super::progress::Progress;
use super::tubes;

/// So many jobs are moved together at most, and so many bytes of bodies, unless one may have more.
const BATCH_JOBS_MAX: u64 = 64;
const BATCH_BYTES_MAX: u64 = 64 << 20;

/// An import that was killed is gone here when all that it had sent was carried out.
const CLAIM_WITHIN: Duration = Duration::from_secs(30);
const CLAIM_EVERY: Duration = Duration::from_millis(20);

/// So often jobs are looked for that are counted there and not found.
const PASSES_IN_VAIN: u32 = 3;

/// What was moved, and what was not.
#[derive(Clone, Copy, Debug, Default)]
pub struct Moved {
    pub ready: u64,
    pub delayed: u64,
    pub buried: u64,
    /// Of those that an earlier run had put here.
    pub settled: u64,
    /// Somebody has them there.
    pub reserved: u64,
    /// These too, and they are here.
    pub still_open: u64,
    /// Larger than what is taken here.
    pub too_large: u64,
    /// Whether one of these is the first that is buried, or delayed, in its tube: those behind it are not shown.
    pub behind_too_large: bool,
    /// Others that are left there, and that nobody has.
    pub left: u64,
    /// Whether it was told to stop before it was done.
    pub interrupted: bool,
}

/// Where a job stands that is looked at and not taken, and how it is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// In a tube that is paused: it is not given to those who ask for any.
    Ready,
    Delayed,
    Buried,
}

impl Standing {
    fn word(self) -> &'static str {
        match self {
            Standing::Ready => "ready",
            Standing::Delayed => "delayed",
            Standing::Buried => "buried",
        }
    }
}

/// A job that is to be put here.
#[derive(Debug)]
struct Taken {
    job: Job,
    priority: u32,
    ttr: u32,
    /// What is left of its delay.
    delay: u32,
    is_buried: bool,
}

/// What came of putting a job here.
#[derive(Debug, PartialEq, Eq)]
enum Put {
    Inserted,
    /// It was here before.
    Open,
    TooLarge,
    /// In other words.
    Refused(String),
}

/// The two servers, and what was done so far.
#[derive(Debug)]
pub struct Mover {
    there: Peer,
    here: Peer,
    /// A second connection here, which claims the server itself, whatever it is called.
    witness: Peer,
    source: Source,
    progress: Progress,
    rate: Option<u32>,
    /// When the next batch may come.
    next: Instant,
    moved: Moved,
    /// The tube that is watched there.
    watched: String,
    batch_max: u64,
    /// What stays there: it is larger than what is taken here.
    too_large: HashSet<u64>,
    /// What stays there: somebody has it, or the server will not say what it is.
    stuck: HashSet<u64>,
    /// What it has deleted.
    deleted: HashSet<u64>,
    /// Whether it is told to stop when the batch is done.
    stop: Arc<AtomicBool>,
}

impl Mover {
    pub fn new(
        mut there: Peer,
        here: Peer,
        witness: Peer,
        source: Source,
        rate: Option<u32>,
        stop: Arc<AtomicBool>,
    ) -> Result<Mover> {
        let largest = there.page("stats")?.get("max-job-size").and_then(|size| size.parse().ok()).unwrap_or(u64::MAX);
        let paced = rate.map_or(BATCH_JOBS_MAX, |rate| u64::from(rate / 10).max(1));
        let batch_max = (BATCH_BYTES_MAX / largest.max(1)).clamp(1, BATCH_JOBS_MAX).min(paced);
        let (progress, watched) = (Progress::new(), "default".to_owned());
        Ok(Mover {
            there,
            here,
            witness,
            source,
            progress,
            rate,
            next: Instant::now(),
            moved: Moved::default(),
            watched,
            batch_max,
            too_large: HashSet::new(),
            stuck: HashSet::new(),
            deleted: HashSet::new(),
            stop,
        })
    }

    /// Moves what there is, until there is no more, or it is told to stop; then looks what is left.
    pub fn move_all(&mut self, named: &[String]) -> Result<()> {
        self.claim()?;
        self.check_other_names()?;
        self.moved.settled = self.settle()?;
        let mut in_vain = 0;
        while !self.is_stopped() && in_vain < PASSES_IN_VAIN {
            let (before, counts) = (self.count(), tubes::counted(&mut self.there, named)?);
            let movable = counts.iter().fold(0, |sum: u64, (_, counts)| sum.saturating_add(counts.movable()));
            if movable == 0 {
                break;
            }
            self.progress.expect(before.saturating_add(movable));
            self.stuck.clear();
            for (tube, counts) in counts.into_iter().filter(|(_, counts)| counts.movable() > 0) {
                self.move_tube(&tube, counts.ready).with_context(|| format!("tube '{tube}'"))?;
            }
            // What falls due, or is given back, just then is seen in the next pass.
            in_vain = if self.count() == before { in_vain + 1 } else { 0 };
        }
        self.moved.interrupted = self.is_stopped();
        self.settle()?;
        self.look_what_is_left(named)
    }

    fn look_what_is_left(&mut self, named: &[String]) -> Result<()> {
        let mut sum = tubes::Counts::default();
        tubes::counted(&mut self.there, named)?.iter().for_each(|(_, counts)| sum.add(counts));
        // What is too large is ours there, or stands as it stood.
        self.moved.too_large = self.too_large.len() as u64;
        let (ours, not_ours) = (sum.reserved.min(self.moved.too_large), sum.movable());
        self.moved.reserved = sum.reserved - ours;
        self.moved.left = not_ours.saturating_sub(self.moved.too_large - ours);
        Ok(())
    }

    /// What was moved, in the end.
    pub fn end(mut self) -> Moved {
        self.progress.clear();
        self.moved
    }

    fn count(&self) -> u64 {
        self.moved.ready + self.moved.delayed + self.moved.buried
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Nobody else moves jobs of this server meanwhile, by whatever name, nor does what an earlier run has sent and was not read
    /// yet.
    fn claim(&mut self) -> Result<()> {
        let (there, stop) = (self.there.name(), Arc::clone(&self.stop));
        claim(&mut self.here, self.source.beginning(), &there, &stop)?;
        let id = self.there.page("stats")?.remove("id").filter(|id| is_id(id));
        // Known by its first words to a port of any protocol.
        self.witness.ask("use default", "USING default")?;
        id.map_or(Ok(()), |id| claim(&mut self.witness, &format!("id/{id}/"), &there, &stop))
    }

    /// Whoever called the server something else before must settle that first: under another name its jobs would come again.
    fn check_other_names(&mut self) -> Result<()> {
        let (open, source) = (all_open(&mut self.here)?, self.source.clone());
        for Open { origin, mark } in open.into_iter().filter(|open| !source.is_of(open)) {
            if self.is_there(mark)? {
                let name = origin.split('/').next().unwrap_or_default();
                bail!(
                    "{} has a job that came here from {origin} and is not settled, or one that is alike: finish 'jobyard import \
                     beanstalkd://{name}' first. If that server is gone for good, close the origin: docs/import.md says how",
                    self.there.name()
                );
            }
        }
        Ok(())
    }

    /// Jobs that are here already, and may be there too, are deleted there. How many are settled.
    fn settle(&mut self) -> Result<u64> {
        let (open, source) = (all_open(&mut self.here)?, self.source.clone());
        let mut settled = 0;
        self.moved.still_open = 0;
        for Open { origin, mark } in open.iter().filter(|open| source.is_of(open)) {
            if !self.is_there(*mark)? || self.delete(&[*mark])?[0] {
                self.close(std::slice::from_ref(origin))?;
                settled += 1;
            } else {
                self.moved.still_open += 1;
            }
        }
        Ok(settled)
    }

    /// Whether it still has this job, and not another of its number.
    fn is_there(&mut self, mark: Mark) -> Result<bool> {
        self.there.say(&format!("peek {}", mark.id))?;
        let found = self.there.hear_job("FOUND", &["NOT_FOUND"])?;
        Ok(found.is_ok_and(|job| Mark::of(&job) == mark))
    }

    /// Deletes jobs there. Of each, whether it is gone: one that somebody else has reserved is not.
    fn delete(&mut self, jobs: &[Mark]) -> Result<Vec<bool>> {
        for mark in jobs {
            self.there.say(&format!("delete {}", mark.id))?;
        }
        let mut deleted = Vec::new();
        for mark in jobs {
            deleted.push(match self.there.hear()?.as_str() {
                "DELETED" => true,
                "NOT_FOUND" => false,
                answer => return Err(self.there.wrong(&format!("delete {}", mark.id), answer)),
            });
        }
        for (mark, is_gone) in jobs.iter().zip(&mut deleted) {
            *is_gone = *is_gone || !self.is_there(*mark)?;
        }
        Ok(deleted)
    }

    fn close(&mut self, origins: &[String]) -> Result<()> {
        for origin in origins {
            self.here.say(&format!("close-origin {origin}"))?;
        }
        for origin in origins {
            let answer = self.here.hear()?;
            if answer != "CLOSED" {
                return Err(self.here.wrong(&format!("close-origin {origin}"), &answer));
            }
        }
        Ok(())
    }

    /// So many of its jobs were ready.
    fn move_tube(&mut self, tube: &str, ready: u64) -> Result<()> {
        self.there.ask(&format!("use {tube}"), &format!("USING {tube}"))?;
        self.here.ask(&format!("use {tube}"), &format!("USING {tube}"))?;
        if self.watched != tube {
            self.there.line(&format!("watch {tube}"))?;
            self.there.ask(&format!("ignore {}", self.watched), "WATCHING 1")?;
            tube.clone_into(&mut self.watched);
        }
        while ready > 0 && !self.is_stopped() {
            self.wait_for_rate();
            let batch = self.reserve(ready.min(self.batch_max))?;
            if batch.is_empty() {
                break;
            }
            self.moved.ready += self.put_and_delete(&batch)?;
        }
        for standing in [Standing::Ready, Standing::Delayed, Standing::Buried] {
            while !self.is_stopped() {
                self.wait_for_rate();
                let Some(taken) = self.look_for(standing)? else { break };
                let moved = self.put_and_delete(&taken)?;
                match standing {
                    Standing::Ready => self.moved.ready += moved,
                    Standing::Delayed => self.moved.delayed += moved,
                    Standing::Buried => self.moved.buried += moved,
                }
            }
        }
        Ok(())
    }

    /// Takes some jobs that are ready. They are ready again should this end here. Nothing if there are none that fit.
    fn reserve(&mut self, count: u64) -> Result<Vec<Taken>> {
        for _ in 0..count {
            self.there.say("reserve-with-timeout 0")?;
        }
        let mut jobs = Vec::new();
        for _ in 0..count {
            jobs.extend(self.there.hear_job("RESERVED", &["TIMED_OUT", "DEADLINE_SOON"])?.ok());
        }
        jobs.iter().try_for_each(|job| self.check_new(job.id))?;
        // Its time was over, and it came again.
        jobs.retain(|job| !self.stays(job.id));
        // Their time begins anew: so each is surely ours until it is put here.
        for Job { id, .. } in &jobs {
            self.there.say(&format!("touch {id}"))?;
            self.there.say(&format!("stats-job {id}"))?;
        }
        let mut batch = Vec::new();
        for job in jobs {
            let is_ours = self.there.hear()? == "TOUCHED";
            let page = self.there.hear_page()?.filter(|_| is_ours);
            batch.extend(page.map(|page| taken(job, &fields(&page))).transpose()?);
        }
        Ok(batch)
    }

    /// The next job that stands so; none of it if it stands otherwise now, and nothing if there is none. Those that are buried
    /// nobody takes but who means them.
    fn look_for(&mut self, standing: Standing) -> Result<Option<Vec<Taken>>> {
        self.there.say(&format!("peek-{}", standing.word()))?;
        let Ok(job) = self.there.hear_job("FOUND", &["NOT_FOUND"])? else { return Ok(None) };
        self.check_new(job.id)?;
        if self.stays(job.id) {
            self.moved.behind_too_large |= standing != Standing::Ready && self.too_large.contains(&job.id);
            return Ok(None);
        }
        let is_ours = match standing {
            Standing::Ready => self.reserve_job(job.id)?,
            Standing::Delayed | Standing::Buried => None,
        };
        let page = self.there.page(&format!("stats-job {}", job.id))?;
        let stands_so = page.get("state").is_some_and(|state| state == standing.word());
        if is_ours.unwrap_or(stands_so) {
            return Ok(Some(vec![taken(job, &page)?]));
        }
        // It is another's now, or its time has come: it comes in the next pass.
        self.stuck.insert(job.id);
        Ok(Some(Vec::new()))
    }

    /// Whether a job stays there for now, whoever shows it.
    fn stays(&self, id: u64) -> bool {
        self.too_large.contains(&id) || self.stuck.contains(&id)
    }

    fn check_new(&self, id: u64) -> Result<()> {
        if self.deleted.contains(&id) {
            bail!("{} gives job {id} again, which it has deleted", self.there.name());
        }
        Ok(())
    }

    /// Takes this job, if nobody else has it. Nothing if the server is so old that it does not know how.
    fn reserve_job(&mut self, id: u64) -> Result<Option<bool>> {
        self.there.say(&format!("reserve-job {id}"))?;
        match self.there.hear_job("RESERVED", &["NOT_FOUND", "UNKNOWN_COMMAND"])? {
            Ok(_) => Ok(Some(true)),
            Err(answer) => Ok((answer == "NOT_FOUND").then_some(false)),
        }
    }

    /// Puts jobs here, deletes them there, and closes their origins. How many came here.
    fn put_and_delete(&mut self, batch: &[Taken]) -> Result<u64> {
        let (mut here, mut inserted, mut refused) = (Vec::new(), 0, None);
        for (Taken { job, .. }, put) in batch.iter().zip(self.put(batch)?) {
            inserted += u64::from(put == Put::Inserted);
            match put {
                Put::Inserted | Put::Open => here.push((Mark::of(job), self.source.origin(job))),
                Put::TooLarge => drop(self.too_large.insert(job.id)),
                Put::Refused(answer) => refused = refused.or(Some((job.id, answer))),
            }
        }
        let marks: Vec<Mark> = here.iter().map(|(mark, _)| *mark).collect();
        let mut gone = Vec::new();
        for (is_gone, (mark, origin)) in self.delete(&marks)?.into_iter().zip(here) {
            if is_gone {
                self.deleted.insert(mark.id);
                gone.push(origin);
            } else {
                self.stuck.insert(mark.id);
            }
        }
        self.close(&gone)?;
        // Only when nothing of the batch is in both places.
        if let Some((id, answer)) = refused {
            bail!("{} does not take job {id}: {answer}", self.here.name());
        }
        self.progress.show(self.count() + inserted);
        if let Some(rate) = self.rate {
            self.next = self.next.max(Instant::now()) + Duration::from_secs_f64(inserted as f64 / f64::from(rate));
        }
        Ok(inserted)
    }

    fn put(&mut self, batch: &[Taken]) -> Result<Vec<Put>> {
        for Taken { job, priority, ttr, delay, is_buried } in batch {
            let (origin, length) = (self.source.origin(job), job.body.len());
            let state = if *is_buried { "buried" } else { "ready" };
            let line = format!("put-origin {priority} {delay} {ttr} {length} {state} {origin}");
            self.here.say_with_body(&line, Some(&job.body))?;
        }
        let mut puts = Vec::new();
        for _ in batch {
            puts.push(match self.here.hear()?.as_str() {
                "OPEN" => Put::Open,
                "JOB_TOO_BIG" => Put::TooLarge,
                answer if answer.starts_with("INSERTED ") => Put::Inserted,
                answer => Put::Refused(answer.to_owned()),
            });
        }
        Ok(puts)
    }

    /// Waits if it goes too fast: before it takes a job, whose time runs from then on.
    fn wait_for_rate(&self) {
        std::thread::sleep(self.next.saturating_duration_since(Instant::now()));
    }
}

/// Claims origins that begin so, as soon as nobody else does.
fn claim(here: &mut Peer, beginning: &str, there: &str, stop: &AtomicBool) -> Result<()> {
    let (line, begun) = (format!("claim-origins {beginning}"), Instant::now());
    loop {
        match here.line(&line)?.as_str() {
            "CLAIMED" => return Ok(()),
            "TAKEN" if begun.elapsed() < CLAIM_WITHIN && !stop.load(Ordering::Relaxed) => {
                std::thread::sleep(CLAIM_EVERY);
            }
            "TAKEN" => bail!("another import of {there} is running"),
            answer => return Err(here.wrong(&line, answer)),
        }
    }
}

/// Whether this can be what a server calls itself.
fn is_id(id: &str) -> bool {
    (1..=64).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// A job, and what its statistics say of it.
fn taken(job: Job, page: &HashMap<String, String>) -> Result<Taken> {
    let number = |name: &str| -> Result<u32> {
        let value = page.get(name).and_then(|value| value.parse::<u64>().ok());
        let value = value.with_context(|| format!("the statistics of job {} do not say its '{name}'", job.id))?;
        // What is more cannot be said.
        Ok(u32::try_from(value).unwrap_or(u32::MAX))
    };
    let (priority, ttr) = (number("pri")?, number("ttr")?);
    let state = page.get("state").map(String::as_str);
    // It says whole seconds, of which the last has begun.
    let delay = if state == Some("delayed") { number("time-left")?.saturating_add(1) } else { 0 };
    Ok(Taken { priority, ttr, delay, is_buried: state == Some("buried"), job })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delayed_job_never_comes_before_its_time() {
        let taken = |page: &str| taken(Job { id: 1, body: Vec::new() }, &fields(page)).unwrap();
        let delayed = taken("pri: 1\nttr: 2\nstate: delayed\ntime-left: 7\n");
        assert_eq!((delayed.priority, delayed.ttr, delayed.delay, delayed.is_buried), (1, 2, 8, false));
        let buried = taken("pri: 4294967296\nttr: 2\nstate: buried\ntime-left: 7\n");
        assert_eq!((buried.priority, buried.delay, buried.is_buried), (u32::MAX, 0, true));
    }

    #[test]
    fn an_id_is_what_cannot_be_taken_for_more() {
        assert!(is_id("f1d3a8b02c4e5f67"));
        for id in ["", "a b", "a/b", "a\r\nquit", &"a".repeat(65)] {
            assert!(!is_id(id), "{id:?}");
        }
    }
}
