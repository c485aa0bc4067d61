//! A log read from its first batch to its last, its records given to an engine: what all tools are made of.

use std::path::Path;

use anyhow::{Context, Result};
use jobyard_engine::{Engine, History, Limits};
use jobyard_log::{Entry, Found, Hole, LogError, Loss, Manifest, Moment, ReadDisk, Reader};

use super::text::count;
use crate::disk::OsDirectory;
use crate::serve::random_seed;

/// How often reading begins again when a running server has dropped what was being read, or has changed what was.
const ATTEMPTS: u32 = 10;

/// What is left when a log was read.
pub struct Walked {
    /// All its records, carried out.
    pub engine: Engine,
    /// The manifest; nothing if it is missing or cannot be trusted.
    pub manifest: Option<Manifest>,
    /// When the last batch was decided.
    pub last: Option<Moment>,
    /// What is wrong, in the order of the log.
    pub holes: Vec<Hole>,
    /// The batches that are whole but whose records make no sense: in which file, where in it, and which.
    pub senseless: Vec<(String, u64, u64)>,
}

impl Walked {
    /// Whether all could be read.
    pub fn is_whole(&self) -> bool {
        self.manifest.is_some() && self.holes.is_empty() && self.senseless.is_empty()
    }

    /// What salvage would make of it, as the end of a sentence.
    pub fn prospect(&self) -> String {
        let (jobs, queues) = self.counts();
        let loss = self.loss();
        let loss = if loss.is_empty() { "nothing".to_owned() } else { loss };
        format!("would start with {jobs} in {queues} and lose what is damaged: {loss}. {MAY_RETURN}")
    }

    /// How many jobs and queues there are, in words.
    pub fn counts(&self) -> (String, String) {
        let (jobs, queues) = (self.engine.jobs(), self.engine.live_queues().count());
        (count(jobs as u64, "job"), count(queues as u64, "queue"))
    }

    /// How many bytes cannot be read, as far as that is known.
    pub fn lost_bytes(&self) -> u64 {
        self.holes.iter().map(|hole| hole.loss.bytes).sum()
    }

    /// What cannot be read, in words.
    pub fn loss(&self) -> String {
        let mut losses = Vec::new();
        if self.manifest.is_none() {
            losses.push("the manifest".to_owned());
        }
        if !self.holes.is_empty() {
            losses.push(self.holes.iter().fold(Loss::default(), |loss, hole| loss.and(hole.loss)).to_string());
        }
        if !self.senseless.is_empty() {
            losses.push(format!("{} with records that make no sense", count(self.senseless.len() as u64, "batch")));
        }
        losses.join("; ")
    }
}

/// What nobody can rule out after salvage.
pub const MAY_RETURN: &str =
    "Jobs that were finished, and leases that had ended, may be back if it was in the damaged part that they were";

/// Reads a log that may be damaged. `each` is told of all that is found, before the engine is. Without a `history` records
/// must make sense until there is damage.
pub fn walk<D: ReadDisk>(
    disk: &mut D,
    history: Option<History>,
    each: &mut dyn FnMut(&Found<'_>, &Engine) -> Result<()>,
) -> Result<Walked> {
    let mut reader = Reader::open_damaged(disk, &[])?;
    let manifest = reader.manifest().ok().copied();
    let mut walked = Walked {
        engine: Engine::new(Limits::default(), 0, random_seed()),
        manifest,
        last: None,
        holes: Vec::new(),
        senseless: Vec::new(),
    };
    let mut history = history;
    while let Some(found) = reader.next()? {
        each(&found, &walked.engine)?;
        match found {
            Found::Segment(facts) => {
                walked.engine.begin_stretch();
                let fits = if facts.header.first > 1 { History::Rest } else { History::Whole };
                history.get_or_insert(fits);
            }
            Found::Batch(entry) => walked.replay(&entry, history.unwrap_or(History::Damaged)),
            Found::Hole(hole) => {
                walked.holes.push(hole);
                history = Some(History::Damaged);
            }
            Found::Tail(_) => {}
        }
    }
    Ok(walked)
}

impl Walked {
    fn replay(&mut self, entry: &Entry<'_>, history: History) {
        self.last = Some(entry.batch.at);
        if self.engine.stretches() == 0 {
            // A segment that has lost its header.
            self.engine.begin_stretch();
        }
        // Behind what makes no sense, nothing has to.
        let history = if self.senseless.is_empty() { history } else { History::Damaged };
        if self.engine.replay(entry.batch.payload, history).is_err() {
            self.senseless.push((entry.file.to_owned(), entry.offset, entry.header.position));
        }
    }
}

/// Reads a directory's log until it has been read in one piece: a running server may drop what is just being read. `begin`
/// is called whenever it begins; what it makes is told of all that is found.
pub fn walk_directory<T>(
    path: &Path,
    mut begin: impl FnMut() -> T,
    mut each: impl FnMut(&mut T, &Found<'_>, &Engine) -> Result<()>,
) -> Result<(T, Walked)> {
    let mut attempt = 1;
    loop {
        let mut made = begin();
        let mut directory = OsDirectory::open(path)?;
        let walked = walk(&mut directory, None, &mut |found, engine| each(&mut made, found, engine));
        match walked {
            Err(error) if attempt < ATTEMPTS && is_moved_on(&error) => {}
            // What looks damaged may just have been written while it was read. If the log was closed, it was not.
            Ok(walked) if attempt < ATTEMPTS && !walked.is_whole() && walked.may_be_written() => {}
            walked => return Ok((made, walked.with_context(|| format!("in {}", path.display()))?)),
        }
        attempt += 1;
    }
}

impl Walked {
    fn may_be_written(&self) -> bool {
        self.manifest.is_some_and(|manifest| !manifest.clean)
    }
}

/// Whether a server has dropped what was being read.
fn is_moved_on(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(LogError::MovedOn { .. }))
}
