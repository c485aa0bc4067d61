//! Every place at which a life could have been cut off, every way of cutting, and what must hold then.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use jobyard_log::{Log, Options, Position};
use jobyard_sim::disk::{Crash, Operation, SimDisk, Walk};
use jobyard_sim::random::splitmix;

use crate::demand;
use crate::ledger::{Ledger, When};
use crate::recover::{Recovered, recover};
use crate::speak::{Speaks, goqueue};
use crate::truth::{Truth, digest, digest_of_image};
use crate::world::{Life, World};

/// How much is tried.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    /// One in so many places.
    pub places: u64,
    /// So many seeds for each kind of crash that is left to chance.
    pub seeds: u64,
    /// One in so many starts is itself cut off everywhere, and followed by a whole server.
    pub again: u64,
}

/// What was gone through.
#[derive(Debug, Default)]
pub struct Tally {
    boundaries: usize,
    images: usize,
    /// From how many of them, all different, a server was started.
    starts: usize,
    /// How many starts were made from what a cut in a start had left.
    starts_after_cut_starts: usize,
    /// Starts that found more than anyone was told, and those that found no more.
    ahead: usize,
    even: usize,
    crashes: BTreeMap<usize, usize>,
    operations: BTreeMap<usize, usize>,
}

impl Tally {
    /// Fails unless every kind of crash was met.
    pub fn check_crashes(&self) {
        for (kind, name) in Crash::KINDS.iter().enumerate() {
            demand(self.crashes.contains_key(&kind), &format_args!("no crash was of the kind '{name}'"));
        }
        demand(self.ahead > 0 && self.even > 0 && self.starts_after_cut_starts > 0, self);
    }

    /// Fails unless every operation was met that a server does when nothing fails.
    pub fn check_operations(&self) {
        for (kind, name) in Operation::KINDS.iter().enumerate().filter(|(_, name)| **name != "failed sync") {
            demand(self.operations.contains_key(&kind), &format_args!("no crash came after the operation '{name}'"));
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { boundaries, images, starts, starts_after_cut_starts, ahead, even, crashes, operations } = self;
        writeln!(f, "{boundaries} boundaries, {images} images, {starts} starts from those that differ")?;
        writeln!(f, "  {ahead} found more than anyone was told, {even} did not")?;
        writeln!(f, "  {starts_after_cut_starts} starts after one that was cut off")?;
        for (kind, count) in crashes {
            writeln!(f, "  {count} images: {}", Crash::KINDS[*kind])?;
        }
        for (kind, count) in operations {
            writeln!(f, "  {count} boundaries after: {}", Operation::KINDS[*kind])?;
        }
        Ok(())
    }
}

/// One life, and what is known of it.
pub struct Cutter<'a> {
    pub life: &'a Life,
    /// Which life this is.
    pub index: usize,
    pub truth: Truth,
    pub ledger: &'a Ledger,
    pub options: &'a Options,
    pub share: Share,
    pub tally: &'a mut Tally,
}

/// What a start must find.
#[derive(Clone, Copy, Debug)]
struct Expected {
    when: When,
    /// At least so much of the log.
    tail_min: Position,
    /// Whether clients' promises hold.
    promised: bool,
    /// At least so much of the log if the power is cut in this start.
    synced: Position,
}

impl Cutter<'_> {
    /// Cuts this life off everywhere.
    pub fn cut_everywhere(&mut self) {
        let mut walk = self.life.history.walk();
        let mut seen = BTreeSet::new();
        let mut last = None;
        for operations in 0.. {
            // A share of all places, and the first of each kind: some operations are rare.
            let is_first = last.is_some_and(|kind| !self.tally.operations.contains_key(&kind));
            if is_first || splitmix(&mut (operations as u64)).is_multiple_of(self.share.places) {
                self.tally.boundaries += 1;
                last.into_iter().for_each(|kind| *self.tally.operations.entry(kind).or_default() += 1);
                self.cut_here(&walk, operations, &mut seen);
            }
            let Some(operation) = walk.step() else { return };
            last = Some(operation.kind());
        }
    }

    fn cut_here(&mut self, walk: &Walk<'_>, operations: usize, seen: &mut BTreeSet<(bool, u64, Position)>) {
        let (durable, synced) = (self.life.notes.durable_at(operations), self.life.notes.synced_at(operations));
        for crash in crashes(walk, operations as u64, self.share.seeds) {
            self.tally.images += 1;
            *self.tally.crashes.entry(crash.kind()).or_default() += 1;
            // When only the process dies, what was not synced is there, and is still not synced.
            let killed = crash == Crash::Kill;
            let tail_min = if killed { durable } else { synced };
            let image = walk.crash(crash);
            let image_digest = digest_of_image(&image);
            if !seen.insert((killed && !walk.is_settled(), image_digest, durable)) {
                continue;
            }
            self.tally.starts += 1;
            let disk = if killed { walk.disk() } else { SimDisk::from_image(&image) };
            let when = (self.index, operations);
            let expected = Expected { when, tail_min, promised: tail_min == durable, synced };
            // A start that finds names which are not durable must not rely on them: that shows only if it is cut off too.
            let names_unsynced = killed && walk.has_unsynced_names();
            let again = names_unsynced || image_digest.is_multiple_of(self.share.again);
            self.check(disk, expected, again).unwrap_or_else(|what| {
                panic!("life {}, cut off after {operations} operations, {crash:?}: {what}", self.index);
            });
        }
    }

    /// Starts from this disk, and holds what is there against all that is known.
    fn check(&mut self, disk: SimDisk, expected: Expected, again: bool) -> Result<(), String> {
        let mut recovered = recover(disk, self.options)?;
        self.check_state(&recovered, expected)?;
        let ahead = recovered.tail() > self.life.notes.durable_at(expected.when.1);
        self.tally.ahead += usize::from(ahead);
        self.tally.even += usize::from(!ahead);
        if again {
            self.check_cut_start(&recovered, expected)?;
            self.check_server(&recovered, expected)?;
        }
        let tail = recovered.tail();
        let number = recovered.go_on()?;
        self.check_number(number, tail, expected)?;
        if again {
            let after = digest(&recovered.engine.snapshot());
            let mut once_more = recover(SimDisk::from_image(&recovered.disk.crash(Crash::Lost)), self.options)?;
            if once_more.tail() < self.synced_tail(tail + 1, tail) {
                return Err(format!("what came after a start is not there after the next: {:?}", once_more.claim));
            }
            // Not everything is written: what follows from stored times is done again.
            once_more.engine.recover(recovered.now());
            if once_more.tail() == tail + 1 && digest(&once_more.engine.snapshot()) != after {
                return Err(format!("after the next start the state is another: {:?}", once_more.claim));
            }
        }
        Ok(())
    }

    /// One of two positions: the first if all that is told was synced.
    fn synced_tail(&self, always: Position, else_at_least: Position) -> Position {
        if self.options.sync == jobyard_log::SyncMode::Always { always } else { else_at_least }
    }

    fn check_state(&self, recovered: &Recovered, expected: Expected) -> Result<(), String> {
        let Recovered { claim, engine, digest, log, .. } = recovered;
        if claim.tail < expected.tail_min {
            return Err(format!("batch {} had to be there: {claim:?}", expected.tail_min));
        }
        match self.truth.digest_at(claim.tail) {
            None => return Err(format!("the last batch was never submitted: {claim:?}")),
            Some(truth) if truth != *digest => return Err(format!("the state is not what it was: {claim:?}")),
            Some(_) => {}
        }
        let (bytes, segment_bytes) = (log.extent().bytes, log.extent().segment_bytes);
        // One segment more than the bound: the server was cut off before it had caught up.
        let bytes_max = 2 * self.truth.live_bytes_max() + 3 * segment_bytes;
        if bytes > bytes_max {
            return Err(format!("the log holds {bytes} bytes, and {bytes_max} would do: {claim:?}"));
        }
        if expected.promised { self.ledger.check(&engine.snapshot(), expected.when) } else { Ok(()) }
    }

    fn check_number(&self, number: u64, tail: Position, expected: Expected) -> Result<(), String> {
        let told = if expected.promised { self.ledger.number_max(expected.when) } else { 0 };
        let given = self.truth.number_max_at(tail).max(told);
        if number > given { Ok(()) } else { Err(format!("the next job gets number {number}, and {given} was given")) }
    }

    /// A start that is itself cut off loses nothing that had to be there, and one that came to its end loses nothing at all.
    fn check_cut_start(&mut self, recovered: &Recovered, expected: Expected) -> Result<(), String> {
        let history = recovered.disk.history();
        let mut walk = history.walk();
        let operations = history.operations.len();
        for operation in 0..=operations {
            for crash in some_crashes(&walk, operation) {
                self.tally.starts_after_cut_starts += 1;
                let expected = match crash {
                    _ if operation == operations => Expected { tail_min: recovered.tail(), ..expected },
                    Crash::Kill => expected,
                    _ => Expected {
                        tail_min: expected.synced,
                        promised: expected.promised && expected.synced == expected.tail_min,
                        ..expected
                    },
                };
                let again = recover(SimDisk::from_image(&walk.crash(crash)), self.options)
                    .and_then(|again| self.check_state(&again, expected));
                again.map_err(|what| {
                    format!("its start was cut off after {operation} of {operations} operations, {crash:?}: {what}")
                })?;
            }
            walk.step();
        }
        Ok(())
    }

    /// A whole server starts from this too, serves, stops, and starts again.
    fn check_server(&self, recovered: &Recovered, expected: Expected) -> Result<(), String> {
        let mut world = World::new(SimDisk::from_image(&recovered.disk.crash(Crash::Kill)), self.options.clone());
        world.clock.wall_ms += 86_400_000;
        let mut given = recovered.tail();
        for _ in 0..2 {
            world.start()?;
            let client = world.connect(Speaks::Goqueue.listener());
            world.send(client, &goqueue::add("one more", 0, 0, "one more"));
            world.settle();
            let answer = world.hear(client);
            let number = *Speaks::Goqueue.put_numbers(&answer).first().ok_or("the server puts no job")?;
            self.check_number(number, recovered.tail(), expected)?;
            let position = world.notes().durable_at(world.disk.operations());
            if position <= given {
                return Err(format!("batch {position} was made durable twice"));
            }
            given = position;
            world.stop();
            world.end(Crash::Lost);
        }
        Ok(())
    }
}

/// Every way to crash here that may make a difference.
fn crashes(walk: &Walk<'_>, seed: u64, seeds: u64) -> Vec<Crash> {
    let mut crashes = vec![Crash::Kill];
    if walk.is_settled() {
        return crashes;
    }
    crashes.extend([Crash::Lost, Crash::BytesLost, Crash::NamesLost]);
    crashes.extend(walk.tears().into_iter().map(Crash::Torn));
    for seed in (0..seeds).map(|nth| seed * seeds + nth) {
        crashes.extend([Crash::Names(seed), Crash::Scattered(seed), Crash::Garbage(seed)]);
    }
    crashes
}

/// So often is left to chance which of the names that are not durable are there.
const NAMES_SEEDS: u64 = 4;

/// A few ways to crash here.
fn some_crashes(walk: &Walk<'_>, seed: usize) -> Vec<Crash> {
    let tears = walk.tears();
    let torn = tears.get(seed % tears.len().max(1)).map(|bytes| Crash::Torn(*bytes));
    let seed = seed as u64;
    let names =
        (0..NAMES_SEEDS).filter(|_| walk.has_unsynced_names()).map(|nth| Crash::Names(seed * NAMES_SEEDS + nth));
    let always = [Crash::Kill, Crash::Lost, Crash::Scattered(seed), Crash::Garbage(seed)];
    always.into_iter().chain(torn).chain(names).collect()
}
