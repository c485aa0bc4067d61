//! Moves jobs, each in this order: it is taken there, put here with its origin, deleted there, and its origin is closed here.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::origin::{Open, Source, Traits, all_open, open};
use super::peer::{Job, Peer, fields};
use super::progress::Progress;
use super::tubes;

/// So many jobs are moved together at most, and so many bytes of bodies, unless one has more.
const BATCH_JOBS_MAX: usize = 64;
const BATCH_BYTES_MAX: usize = 4 << 20;

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
}

/// Where a job stands that is looked at and not taken, and how it is found.
#[derive(Clone, Copy, Debug)]
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
    priority: u64,
    ttr: u64,
    /// What is left of its delay.
    delay: u64,
    is_buried: bool,
}

/// The two servers, and what was done so far.
#[derive(Debug)]
pub struct Mover {
    there: Peer,
    here: Peer,
    source: Source,
    progress: Progress,
    rate: Option<u32>,
    begun: Instant,
    moved: Moved,
    /// The tube that is watched there.
    watched: String,
    /// The largest body of the last batch.
    largest: usize,
}

impl Mover {
    pub fn new(there: Peer, here: Peer, source: Source, progress: Progress, rate: Option<u32>) -> Mover {
        let (begun, moved, watched) = (Instant::now(), Moved::default(), "default".to_owned());
        Mover { there, here, source, progress, rate, begun, moved, watched, largest: BATCH_BYTES_MAX / 8 }
    }

    /// Moves what there is, until there is no more; then says what is left.
    pub fn move_all(&mut self, named: &[String]) -> Result<()> {
        self.check_other_names()?;
        self.settle()?;
        loop {
            let before = self.count();
            for tube in tubes::names(&mut self.there, named)? {
                self.move_tube(&tube).with_context(|| format!("tube '{tube}'"))?;
            }
            if self.count() == before {
                break;
            }
        }
        self.settle()?;
        let counts = tubes::counted(&mut self.there, named)?;
        self.moved.reserved = counts.iter().map(|(_, counts)| counts.reserved).sum();
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

    /// Whoever called the server something else before must settle that first: under another name its jobs would come again.
    fn check_other_names(&mut self) -> Result<()> {
        let own = open(&mut self.here, &self.source)?;
        for other in all_open(&mut self.here)?.into_iter().filter(|other| !own.contains(other)) {
            if self.is_there(other.traits)? {
                let Open { origin, .. } = other;
                let name = origin.split('/').next().unwrap_or_default();
                bail!(
                    "a job that is here already came from {origin}, and {} has one like it: if that is the same server, import \
                     from beanstalkd://{name} first; if not, close that origin (close-origin {origin})",
                    self.there.name()
                );
            }
        }
        Ok(())
    }

    /// Jobs that are here already, and may be there too, are deleted there.
    fn settle(&mut self) -> Result<()> {
        let open = open(&mut self.here, &self.source)?;
        self.moved.still_open = 0;
        for batch in open.chunks(BATCH_JOBS_MAX) {
            let mut gone = Vec::new();
            for Open { origin, traits } in batch {
                if !self.is_there(*traits)? || self.delete(&[*traits])?[0] {
                    gone.push(origin.clone());
                } else {
                    self.moved.still_open += 1;
                }
            }
            self.moved.settled += gone.len() as u64;
            self.close(&gone)?;
        }
        Ok(())
    }

    /// Whether it still has this job, and not another of its number.
    fn is_there(&mut self, traits: Traits) -> Result<bool> {
        self.there.say(&format!("peek {}", traits.id))?;
        let found = self.there.hear_job("FOUND", &["NOT_FOUND"])?;
        Ok(found.is_ok_and(|job| Traits::of(&job) == traits))
    }

    /// Deletes jobs there. Of each, whether it is gone: one that somebody else has reserved is not.
    fn delete(&mut self, jobs: &[Traits]) -> Result<Vec<bool>> {
        for traits in jobs {
            self.there.say(&format!("delete {}", traits.id))?;
        }
        let mut deleted = Vec::new();
        for traits in jobs {
            deleted.push(match self.there.hear()?.as_str() {
                "DELETED" => true,
                "NOT_FOUND" => false,
                answer => return Err(self.there.wrong(&format!("delete {}", traits.id), answer)),
            });
        }
        for (traits, is_gone) in jobs.iter().zip(&mut deleted) {
            *is_gone = *is_gone || !self.is_there(*traits)?;
        }
        Ok(deleted)
    }

    /// Closes origins here; one that somebody else closed meanwhile is closed, too.
    fn close(&mut self, origins: &[String]) -> Result<()> {
        for origin in origins {
            self.here.say(&format!("close-origin {origin}"))?;
        }
        for origin in origins {
            let answer = self.here.hear()?;
            if answer != "CLOSED" && answer != "NOT_FOUND" {
                return Err(self.here.wrong(&format!("close-origin {origin}"), &answer));
            }
        }
        Ok(())
    }

    fn move_tube(&mut self, tube: &str) -> Result<()> {
        self.there.ask(&format!("use {tube}"), &format!("USING {tube}"))?;
        self.here.ask(&format!("use {tube}"), &format!("USING {tube}"))?;
        if self.watched != tube {
            self.there.line(&format!("watch {tube}"))?;
            self.there.ask(&format!("ignore {}", self.watched), "WATCHING 1")?;
            tube.clone_into(&mut self.watched);
        }
        loop {
            let batch = self.reserve()?;
            if batch.is_empty() {
                break;
            }
            self.moved.ready += self.put_and_delete(&batch)?;
        }
        for standing in [Standing::Ready, Standing::Delayed, Standing::Buried] {
            while let Some(taken) = self.look_for(standing)? {
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

    /// Takes some jobs that are ready. They are ready again should this end here.
    fn reserve(&mut self) -> Result<Vec<Taken>> {
        let paced = self.rate.map_or(BATCH_JOBS_MAX, |rate| (rate / 10).max(1) as usize);
        let count = (BATCH_BYTES_MAX / self.largest.max(1)).clamp(1, BATCH_JOBS_MAX).min(paced);
        for _ in 0..count {
            self.there.say("reserve-with-timeout 0")?;
        }
        let mut jobs = Vec::new();
        for _ in 0..count {
            jobs.extend(self.there.hear_job("RESERVED", &["TIMED_OUT", "DEADLINE_SOON"])?.ok());
        }
        self.largest = jobs.iter().map(|job| job.body.len()).max().unwrap_or(self.largest);
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

    /// The next job that stands so; nothing if there is none, or it stands otherwise now. Nobody takes those that are buried but
    /// who means them, and whoever does has them.
    fn look_for(&mut self, standing: Standing) -> Result<Option<Vec<Taken>>> {
        self.there.say(&format!("peek-{}", standing.word()))?;
        let Ok(job) = self.there.hear_job("FOUND", &["NOT_FOUND"])? else { return Ok(None) };
        let is_ours = matches!(standing, Standing::Ready) && self.reserve_job(job.id)?;
        let page = self.there.page(&format!("stats-job {}", job.id))?;
        match page.get("state") {
            Some(state) if is_ours || state == standing.word() => Ok(Some(vec![taken(job, &page)?])),
            // It was taken, or its time has come: the next is another one.
            _ => Ok(Some(Vec::new())),
        }
    }

    /// Takes this job. False if that cannot be: older servers do not know how.
    fn reserve_job(&mut self, id: u64) -> Result<bool> {
        self.there.say(&format!("reserve-job {id}"))?;
        Ok(self.there.hear_job("RESERVED", &["NOT_FOUND", "UNKNOWN_COMMAND"])?.is_ok())
    }

    /// Puts jobs here, deletes them there, and closes their origins. How many are moved.
    fn put_and_delete(&mut self, batch: &[Taken]) -> Result<u64> {
        let mut origins = Vec::new();
        for Taken { job, priority, ttr, delay, is_buried } in batch {
            let origin = self.source.origin(job);
            let state = if *is_buried { "buried" } else { "ready" };
            let line = format!("put-origin {priority} {delay} {ttr} {} {state} {origin}", job.body.len());
            self.here.say_with_body(&line, Some(&job.body))?;
            origins.push(origin);
        }
        for Taken { job, .. } in batch {
            let answer = self.here.hear()?;
            // What is open is here already: it was put before, and is only to be deleted.
            if answer != "OPEN" && !answer.starts_with("INSERTED ") {
                bail!("{} does not take job {} of {} bytes: {answer}", self.here.name(), job.id, job.body.len());
            }
        }
        let jobs: Vec<Traits> = batch.iter().map(|taken| Traits::of(&taken.job)).collect();
        let is_gone = self.delete(&jobs)?;
        let gone = origins.into_iter().zip(&is_gone).filter_map(|(origin, is_gone)| is_gone.then_some(origin));
        self.close(&gone.collect::<Vec<_>>())?;
        let moved = batch.len() as u64;
        self.pace(moved);
        Ok(moved)
    }

    /// Shows how far it has come, and waits if it goes too fast.
    fn pace(&mut self, more: u64) {
        let done = self.count() + more;
        self.progress.show(done);
        if let Some(rate) = self.rate {
            let due = self.begun + Duration::from_secs_f64(done as f64 / f64::from(rate));
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
        }
    }
}

/// A job, and what its statistics say of it.
fn taken(job: Job, page: &HashMap<String, String>) -> Result<Taken> {
    let number = |name: &str| -> Result<u64> {
        let value = page.get(name).and_then(|value| value.parse().ok());
        value.with_context(|| format!("the statistics of job {} do not say its '{name}'", job.id))
    };
    let (priority, ttr) = (number("pri")?, number("ttr")?);
    let state = page.get("state").map(String::as_str);
    let delay = if state == Some("delayed") { number("time-left")? } else { 0 };
    Ok(Taken { priority, ttr, delay, is_buried: state == Some("buried"), job })
}
