//! What beanstalkd left in a directory comes into the log, once. The plan is durable first, then the jobs are, then the plan
//! says so, then the files are renamed, then the plan goes. Whoever starts finds one of these moments and goes on from there,
//! or takes all of it back if beanstalkd has gone on meanwhile.

#[cfg(test)]
mod tests;

use anyhow::{Context, Result, anyhow, bail, ensure};
use jobyard_broker::{Clock, OpenError, Replay};
use jobyard_engine::{Again, By, ClientId, Command, Engine, JobRef, Limits, NewJob, Now, QueueName, Reply};
use jobyard_log::{Batch, Completion, Disk, FileLog, Log, Moment, Options, Position, ReadDisk, SyncMode};
use jobyard_protocols::beanstalkd::{DEFAULT_TUBE, HOLD, new_job, urgency};

use super::binlog::{self, Binlog, Facts, Job, Stands};
use super::plan::Plan;
use crate::serve::random_seed;

/// About so much of what is decided goes into one batch, or an eighth of a segment if that is less.
const BATCH_BYTES: u64 = 256 << 10;
/// About so much of the log is read back at once.
const PORTION_BYTES: usize = 1 << 20;
/// Ids from here on are not kept as numbers: those that follow must have room to count.
const KEPT_MAX: u64 = 1 << 60;
/// Who puts the jobs.
const IMPORTER: ClientId = ClientId(0);
/// What a file is called that was imported, behind its name; perhaps with a number behind that.
const IMPORTED: &str = ".imported";

/// Imports what there is, from a directory into the log in the same directory. Says what was done, if anything was.
/// `source` is the directory as it is read: files of beanstalkd may not be written to.
pub fn import<S: ReadDisk, D: Disk>(
    source: &mut S,
    mut disk: D,
    options: &Options,
    job_bytes_max: usize,
    clock: Clock,
) -> Result<Vec<String>> {
    let mut plan = Plan::read(source)?;
    let mut names = binlog::names(source)?;
    if plan.is_some() {
        // It may have been seen before it was durable, and all that is done now rests on it.
        disk.sync_directory().context("cannot sync the directory")?;
    }
    if let Some(done) = plan.take_if(|plan| plan.done) {
        match left_of(source, &done, &names)? {
            Left::Same => {
                let kept = rename(&mut disk, &names)?;
                Plan::remove(&mut disk)?;
                return Ok(vec![format!("finished an import that was interrupted{kept}")]);
            }
            Left::Another => Plan::remove(&mut disk)?,
            Left::WentOn(renamed) => {
                give_back(&mut disk, &renamed)?;
                names = binlog::names(source)?;
                plan = Some(Plan { files: Vec::new(), ..done });
            }
        }
    }
    if names.is_empty() {
        ensure!(
            plan.is_none(),
            "an import was begun, and what it was to import is gone: bring the files binlog.* back"
        );
        return Ok(Vec::new());
    }
    let binlog = binlog::read(source)?;
    check_sizes(&binlog, job_bytes_max)?;
    let mut said = binlog.notices.clone();
    let options = Options { sync: SyncMode::Always, ..options.clone() };
    let mut importer = Importer::open(FileLog::open(disk, options), clock)?;
    let files = binlog.files.clone();
    let (first, begun) = match plan {
        Some(plan) if plan.files == files => (plan.first, true),
        Some(plan) => {
            // beanstalkd went on after an import was interrupted. What had come with that one goes, for it comes anew. If this
            // is interrupted too, no files may be taken for those that had come.
            Plan { done: false, files: Vec::new(), ..plan }.write(importer.log.disk_mut())?;
            importer.undo(plan.first)?;
            (importer.engine.next_number(), false)
        }
        None => (importer.engine.next_number(), false),
    };
    let plan = Plan { first, done: false, files };
    if !begun {
        plan.write(importer.log.disk_mut())?;
    }
    let what = importer.put_all(binlog, first)?;
    let mut disk = importer.close()?;
    Plan { done: true, ..plan }.write(&mut disk)?;
    let kept = rename(&mut disk, &names)?;
    Plan::remove(&mut disk)?;
    said.push(format!("{what}{kept}"));
    Ok(said)
}

/// How many jobs a log holds, and how many bytes their bodies have.
///
/// # Panics
/// If what it holds is not sound.
pub fn look<D: Disk>(disk: D, options: &Options, clock: Clock) -> Result<(usize, usize)> {
    let importer = Importer::open(FileLog::open(disk, options.clone()), clock)?;
    importer.engine.check();
    let sizes: Vec<usize> = importer.engine.live_jobs().map(|live| live.job.body.len()).collect();
    importer.close()?;
    Ok((sizes.len(), sizes.iter().sum()))
}

fn check_sizes(binlog: &Binlog, job_bytes_max: usize) -> Result<()> {
    let Some((id, job)) = binlog.jobs.iter().max_by_key(|(_, job)| job.body.len()) else { return Ok(()) };
    let bytes = job.body.len();
    ensure!(
        bytes <= job_bytes_max,
        "job {id} of the binlog has {bytes} bytes, and {job_bytes_max} are allowed: say -z {bytes}"
    );
    Ok(())
}

/// What became of the files of an import that only had to rename them.
enum Left {
    /// They are as they were, but for their names.
    Same,
    /// All of them have their new names. What is there now is another binlog.
    Another,
    /// beanstalkd went on with those that it found. These have new names; behind that, the old ones.
    WentOn(Vec<(String, String)>),
}

fn left_of<S: ReadDisk>(source: &mut S, plan: &Plan, names: &[String]) -> Result<Left> {
    let (mut in_place, mut others) = (Vec::new(), Vec::new());
    for name in names {
        let is_known = plan.files.contains(&binlog::facts(source, name)?);
        if is_known { in_place.push(name) } else { others.push(name) }
    }
    if others.is_empty() {
        return Ok(Left::Same);
    }
    let there = source.names().context("cannot list the directory")?;
    let mut renamed = Vec::new();
    for file in plan.files.iter().filter(|file| !in_place.contains(&&file.name)) {
        let begins = format!("{}{IMPORTED}", file.name);
        for new in there.iter().filter(|new| new.starts_with(&begins)) {
            if (Facts { name: file.name.clone(), ..binlog::facts(source, new)? }) == *file {
                renamed.push((new.clone(), file.name.clone()));
                break;
            }
        }
    }
    if renamed.len() == plan.files.len() {
        return Ok(Left::Another);
    }
    // They are renamed in their order, and beanstalkd counts on from the last that it finds: it gives no name twice.
    if let Some(name) = others.into_iter().find(|name| plan.files.iter().any(|file| file.name == **name)) {
        bail!("{name} is not the file that was imported before this was interrupted: bring that one back");
    }
    let is_gone = |file: &&Facts| !in_place.contains(&&file.name) && renamed.iter().all(|(_, old)| *old != file.name);
    if let (Some((new, _)), Some(gone)) = (renamed.first(), plan.files.iter().find(is_gone)) {
        bail!(
            "beanstalkd ran after this was interrupted, without {new}, and has removed {}: what is to be done with the jobs of \
             both cannot be told. Move the files binlog.* that have only a number to another directory: all that was imported \
             is here without them",
            gone.name
        );
    }
    Ok(Left::WentOn(renamed))
}

/// Gives files that were renamed their names back, the last one first.
fn give_back<D: Disk>(disk: &mut D, renamed: &[(String, String)]) -> Result<()> {
    for (new, old) in renamed.iter().rev() {
        rename_one(disk, new, old)?;
    }
    Ok(())
}

fn rename_one<D: Disk>(disk: &mut D, from: &str, to: &str) -> Result<()> {
    let renamed = disk.rename(from, to).and_then(|()| disk.sync_directory());
    renamed.with_context(|| format!("cannot rename {from} to {to}"))
}

/// Gives the files names that no binlog has, the first one first. Says which.
fn rename<D: Disk>(disk: &mut D, names: &[String]) -> Result<String> {
    let mut there = disk.list().context("cannot list the directory")?;
    let mut given = Vec::new();
    for name in names {
        let first = format!("{name}{IMPORTED}");
        let others = (2..).map(|nth| format!("{name}{IMPORTED}.{nth}"));
        let new =
            std::iter::once(first).chain(others).find(|new| !there.contains(new)).context("there is always one")?;
        rename_one(disk, name, &new)?;
        there.push(new.clone());
        given.push(new);
    }
    Ok(match &given[..] {
        [] => String::new(),
        [one] => format!("; the file is kept as {one}"),
        [one, .., last] => format!("; the files are kept as {one} to {last}"),
    })
}

/// An engine that knows all that the log holds, and puts jobs into both.
struct Importer<D: Disk> {
    log: FileLog<D>,
    epoch: u64,
    /// The last batch's.
    position: Position,
    engine: Engine,
    /// When the last batch was decided, which is when all of this is: how much time has passed since is for the next start to
    /// find out.
    at: Moment,
}

impl<D: Disk> Importer<D> {
    fn open(mut log: FileLog<D>, clock: Clock) -> Result<Self> {
        let claim = log.claim(0).map_err(OpenError::Log).context("cannot use the log")?;
        // What the server allows counts for those who come; these are there.
        let limits = Limits { queues_max: usize::MAX, ..Limits::default() };
        let mut engine = Engine::new(limits, claim.epoch, random_seed());
        let mut replay = Replay::new(&claim);
        while !replay
            .portion(&mut log, &mut engine, PORTION_BYTES, &mut |_, engine| engine.begin_stretch())
            .context("cannot use the log")?
        {}
        if engine.stretches() == 0 {
            engine.begin_stretch();
        }
        let Clock { monotonic_ms: boot_ms, boot, wall_ms } = clock;
        let at = replay.last().unwrap_or(Moment { engine_ms: 0, wall_ms, boot_ms, boot });
        let mut importer = Importer { log, epoch: claim.epoch, position: claim.tail, engine, at };
        while !importer.engine.recover(importer.now()) {}
        importer.append()?;
        Ok(importer)
    }

    fn now(&self) -> Now {
        Now { engine_ms: self.at.engine_ms, wall_ms: self.at.wall_ms, random: 0 }
    }

    /// Removes what came with an import.
    fn undo(&mut self, first: u64) -> Result<()> {
        let of_it = self.engine.live_jobs().map(|live| live.job.number).filter(|&number| number >= first);
        for number in of_it.collect::<Vec<_>>() {
            self.ask(self.now(), Command::Remove { job: JobRef::Number(number), by: By::Anyone })?;
            self.append_if_long()?;
        }
        self.append()
    }

    /// Puts all that is not there. Says what is there then.
    fn put_all(&mut self, binlog: Binlog, first: u64) -> Result<String> {
        let Binlog { files, jobs, last_id, .. } = binlog;
        let count = jobs.len() as u64;
        let kept = jobs.keys().next().is_none_or(|&id| id >= first) && last_id < KEPT_MAX;
        for ((id, job), number) in jobs.into_iter().zip(first..) {
            let number = if kept { id } else { number };
            // A batch is whole or not there, and so is all that is said of a job.
            if number >= self.engine.next_number() {
                self.put(number, job)?;
                self.append_if_long()?;
            }
        }
        if kept && last_id >= self.engine.next_number() {
            self.use_up(last_id)?;
        }
        self.append()?;
        let (from, to) = (&files[0].name, &files[files.len() - 1].name);
        let files = if from == to { from.clone() } else { format!("{from} to {to}") };
        let numbers = match count {
            0 => String::new(),
            _ if kept => ", each with its id".to_owned(),
            _ => format!(", with new ids from {first} to {}", first + count - 1),
        };
        Ok(format!("imported {count} {} from {files}{numbers}", if count == 1 { "job" } else { "jobs" }))
    }

    fn put(&mut self, number: u64, job: Job) -> Result<()> {
        let (urgency, now) = (urgency(job.priority), self.now());
        self.engine.skip_numbers(number - self.engine.next_number());
        let put = new_job(QueueName::new(&job.tube), job.priority, job.ttr_ms, job.body);
        self.ask(Now { wall_ms: job.created_wall_ms, ..now }, Command::Enqueue(Box::new(put)))?;
        let job_ref = JobRef::Number(number);
        let then = match job.stands {
            Stands::Ready => return Ok(()),
            Stands::Buried => Command::Bury { job: job_ref.clone(), urgency },
            Stands::Delayed { until_wall_ms } => {
                let delay_ms = u64::try_from(until_wall_ms.saturating_sub(now.wall_ms)).unwrap_or(0);
                if delay_ms == 0 {
                    return Ok(());
                }
                Command::Release { job: job_ref.clone(), again: Some(Again { urgency, delay_ms }) }
            }
        };
        self.ask(now, Command::LeaseJob { job: job_ref, hold: HOLD })?;
        self.ask(now, then)
    }

    /// Lets this number be given to nobody else: a job had it that is gone.
    fn use_up(&mut self, number: u64) -> Result<()> {
        self.engine.skip_numbers(number - self.engine.next_number());
        let put = NewJob::plain(QueueName::new(DEFAULT_TUBE), Box::from([]));
        self.ask(self.now(), Command::Enqueue(Box::new(put)))?;
        self.ask(self.now(), Command::Remove { job: JobRef::Number(number), by: By::Anyone })
    }

    fn ask(&mut self, now: Now, command: Command) -> Result<()> {
        let mut refused = None;
        self.engine.handle(now, IMPORTER, command, &mut |_, reply| {
            if let Reply::Refused(refusal) = reply {
                refused = Some(refusal);
            }
        });
        refused.map_or(Ok(()), |refusal| Err(anyhow!("a job cannot be imported: {refusal:?}")))
    }

    fn append_if_long(&mut self) -> Result<()> {
        let batch_bytes = BATCH_BYTES.min(self.log.extent().segment_bytes / 8);
        if self.engine.records().len() as u64 >= batch_bytes { self.append() } else { Ok(()) }
    }

    /// Makes durable what was decided.
    fn append(&mut self) -> Result<()> {
        if self.engine.records().is_empty() {
            return Ok(());
        }
        if self.log.extent().short {
            let why = self.log.shortage().unwrap_or_default();
            bail!("there is no room for what is to be imported: {why}. Nothing is lost: make room, and start again");
        }
        let batch = Batch { at: self.at, payload: self.engine.records() };
        self.log.submit(self.epoch, self.position + 1, batch);
        match self.log.completed() {
            Some(Completion::Durable(position)) => self.position = position,
            _ => bail!("cannot write to the log: {}", self.log.trouble().unwrap_or_default()),
        }
        self.engine.clear_records();
        self.log.tend(self.at.engine_ms);
        Ok(())
    }

    fn close(mut self) -> Result<D> {
        self.log.close();
        match self.log.trouble() {
            Some(trouble) => bail!("cannot close the log: {trouble}"),
            None => Ok(self.log.into_disk()),
        }
    }
}
