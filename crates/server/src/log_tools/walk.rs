//! A log read from its first batch to its last, its records given to an engine: what all tools are made of.

use std::collections::HashSet;
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
        (count(self.engine.jobs() as u64, "job"), count(self.queues() as u64, "queue"))
    }

    /// How many queues there are, with those whose own record is lost but whose jobs are there.
    fn queues(&self) -> usize {
        let (mut queues, mut jobs) = (0, 0);
        for queue in self.engine.live_queues() {
            queues += 1;
            jobs += queue.jobs;
        }
        if jobs == self.engine.jobs() {
            return queues;
        }
        let of_their_own = self.engine.live_queues().map(|queue| queue.name);
        let of_jobs = self.engine.live_jobs().map(|job| job.job.queue);
        of_their_own.chain(of_jobs).collect::<HashSet<_>>().len()
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
    let place = || format!("in {}", path.display());
    let mut attempt = 1;
    loop {
        let mut made = begin();
        let mut directory = OsDirectory::open(path)?;
        let walked = walk(&mut directory, None, &mut |found, engine| each(&mut made, found, engine));
        match walked {
            Err(error) if attempt < ATTEMPTS && is_moved_on(&error) => {}
            Ok(walked) if attempt < ATTEMPTS && walked.may_be_wrong(&mut directory).with_context(place)? => {}
            walked => return Ok((made, walked.with_context(place)?)),
        }
        attempt += 1;
    }
}

impl Walked {
    /// Whether what looks damaged may just have been written while it was read.
    fn may_be_wrong<D: ReadDisk>(&self, disk: &mut D) -> Result<bool> {
        if self.holes.is_empty() || !self.manifest.is_some_and(|manifest| may_be_in_use(&manifest)) {
            return Ok(false);
        }
        // It is whole when it is read once more: damage it can only have been if something behind it was there already.
        match find_holes(disk) {
            Ok(found) => Ok(self.holes.iter().any(|hole| !found.contains(hole))),
            Err(LogError::MovedOn { .. }) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }
}

/// Whether a server may be writing to the log.
pub fn may_be_in_use(manifest: &Manifest) -> bool {
    !manifest.clean
}

/// All that is damaged in a log. Whether records make sense is not looked at, which takes a fraction of a walk's time.
pub fn find_holes<D: ReadDisk>(disk: &mut D) -> Result<Vec<Hole>, LogError> {
    let mut reader = Reader::open_damaged(disk, &[])?;
    let mut holes = Vec::new();
    while let Some(found) = reader.next()? {
        if let Found::Hole(hole) = found {
            holes.push(hole);
        }
    }
    Ok(holes)
}

/// Whether a server has dropped what was being read.
fn is_moved_on(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(LogError::MovedOn { .. }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log_tools::testing::{Place, jobs};

    /// How often a log was read before it was believed, and what was found in the end. `see` is called with each hole.
    fn walks(place: &Place, mut see: impl FnMut()) -> (u32, Walked) {
        let mut begun = 0;
        let ((), walked) = walk_directory(
            &place.0,
            || begun += 1,
            |(), found, _| {
                if matches!(found, Found::Hole(_)) {
                    see();
                }
                Ok(())
            },
        )
        .unwrap();
        (begun, walked)
    }

    #[test]
    fn damage_that_stays_is_believed_at_once_though_the_log_was_not_closed() {
        let place = Place::new("stays");
        drop(place.write_unclosed(&jobs(100)));
        place.flip_in_segment(2);
        let (begun, walked) = walks(&place, || ());
        assert_eq!((begun, walked.holes.len()), (1, 1));
        assert_eq!(walked.counts().0, "99 jobs");
    }

    #[test]
    fn damage_that_was_only_being_written_is_no_damage() {
        let place = Place::new("passes");
        let _log = place.write_unclosed(&jobs(100));
        place.flip_in_segment(2);
        let (begun, walked) = walks(&place, || place.flip_in_segment(2));
        assert_eq!((begun, walked.is_whole()), (2, true));
    }

    #[test]
    fn damage_of_a_closed_log_is_not_looked_at_again() {
        let place = Place::new("closed");
        place.write(&jobs(100));
        place.flip_in_segment(2);
        let (begun, walked) = walks(&place, || place.flip_in_segment(2));
        assert_eq!((begun, walked.is_whole()), (1, false));
    }

    #[test]
    fn a_queue_whose_record_is_lost_counts_if_it_has_jobs() {
        let place = Place::new("queue");
        place.write(&jobs(100));
        // The first batch: the only one that names the queue in a record of its own.
        place.flip_in_segment(1);
        let error = place.verified().unwrap_err().to_string();
        assert!(error.contains("would start with 99 jobs in 1 queue and"), "{error}");
    }
}
