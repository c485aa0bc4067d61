//! Every place at which a life could have been cut off, every way of cutting, and what must hold then.

use std::collections::{BTreeMap, BTreeSet};

use jobyard_log::{Options, SyncMode};
use jobyard_sim::disk::{Crash, Image, Operation, Walk};
use jobyard_sim::random::splitmix;

use crate::ledger::{Ledger, When};
use crate::record::Life;
use crate::recover::{Recovered, recover};
use crate::truth::{Truth, digest, digest_of_image};

/// Seeds tried for each kind of crash that is left to chance.
const SEEDS: u64 = 3;

/// How much is tried.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    /// One in so many places.
    pub places: u64,
    /// One in so many images is recovered from once more, and cut off during its recovery.
    pub again: u64,
}

/// What was gone through.
#[derive(Debug, Default)]
pub struct Tally {
    pub boundaries: usize,
    pub images: usize,
    /// Images that differ, and from which a server was started.
    pub starts: usize,
    /// Cuts during a start.
    pub cuts_of_starts: usize,
    pub crashes: BTreeMap<usize, usize>,
    pub operations: BTreeMap<usize, usize>,
    /// At how many starts something was lost that nobody was told of, and at how many something was found.
    pub behind: usize,
    pub ahead: usize,
}

impl Tally {
    /// Every kind of crash, and every kind of operation that a server makes, was met.
    pub fn check_kinds(&self) {
        let missing = |kinds: &[&'static str], seen: &BTreeMap<usize, usize>| -> Vec<&'static str> {
            kinds.iter().enumerate().filter(|(kind, _)| !seen.contains_key(kind)).map(|(_, name)| *name).collect()
        };
        assert!(missing(&Crash::KINDS, &self.crashes).is_empty(), "never: {:?}", missing(&Crash::KINDS, &self.crashes));
        let never = missing(&Operation::KINDS, &self.operations);
        assert_eq!(never, ["failed sync"], "no sync failed here, and all else was done");
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
    pub tally: &'a mut Tally,
}

impl Cutter<'_> {
    /// Cuts this life off everywhere.
    pub fn cut_everywhere(&mut self, share: Share) {
        let mut walk = self.life.history.walk();
        let mut seen = BTreeSet::new();
        for operations in 0.. {
            if splitmix(&mut (operations as u64)) % share.places == 0 {
                self.cut_here(&walk, operations, share, &mut seen);
            }
            let Some(operation) = walk.step() else { return };
            *self.tally.operations.entry(operation.kind()).or_default() += 1;
        }
    }

    fn cut_here(&mut self, walk: &Walk<'_>, operations: usize, share: Share, seen: &mut BTreeSet<(u64, u64)>) {
        self.tally.boundaries += 1;
        let durable = self.life.notes.durable_at(operations);
        for crash in crashes(walk, operations as u64) {
            self.tally.images += 1;
            *self.tally.crashes.entry(crash.kind()).or_default() += 1;
            let image = walk.crash(crash);
            let image_digest = digest_of_image(&image);
            if !seen.insert((image_digest, durable)) {
                continue;
            }
            self.tally.starts += 1;
            let outcome = self.check(&image, crash, (self.index, operations), image_digest % share.again == 0);
            outcome.unwrap_or_else(|what| {
                panic!("life {}, after {operations} operations, {crash:?}: {what}", self.index);
            });
        }
    }

    /// Starts from this image, and holds what is there against all that is known.
    fn check(&mut self, image: &Image, crash: Crash, when: When, again: bool) -> Result<(), String> {
        let mut recovered = recover(image, self.options)?;
        self.check_state(&recovered, crash, when)?;
        if again {
            self.check_again(&recovered)?;
        }
        let tail = recovered.tail();
        let number = recovered.go_on()?;
        if number <= self.truth.number_max_at(tail) || number <= self.ledger.number_max(when) && self.is_synced() {
            return Err(format!("number {number} was given before"));
        }
        if again {
            let after = digest(&recovered.engine.snapshot());
            let mut once_more = recover(&recovered.disk.crash(Crash::Kill), self.options)?;
            // Not everything is written: what follows from stored times is done again.
            once_more.engine.recover(recovered.now());
            if (once_more.tail(), digest(&once_more.engine.snapshot())) != (tail + 1, after) {
                return Err(format!("what came after a start is not there after the next one: {:?}", once_more.claim));
            }
        }
        Ok(())
    }

    /// Whether nothing is told before it is synced.
    fn is_synced(&self) -> bool {
        self.options.sync == SyncMode::Always
    }

    fn check_state(&mut self, recovered: &Recovered, crash: Crash, when: When) -> Result<(), String> {
        let tail = recovered.tail();
        let durable = self.life.notes.durable_at(when.1);
        let promised = self.is_synced() || crash == Crash::Kill;
        if promised && tail < durable {
            return Err(format!("batch {durable} was durable, and {tail} is the last: {:?}", recovered.claim));
        }
        self.tally.behind += usize::from(tail < self.truth.last().min(durable + 1));
        self.tally.ahead += usize::from(tail > durable);
        match self.truth.digest_at(tail) {
            None => return Err(format!("batch {tail} was never submitted: {:?}", recovered.claim)),
            Some(expected) if expected != recovered.digest => {
                return Err(format!("the state is not what it was at batch {tail}: {:?}", recovered.claim));
            }
            Some(_) => {}
        }
        if promised { self.ledger.check(&recovered.engine.snapshot(), when) } else { Ok(()) }
    }

    /// A start from what a start left, or from what was left when it was cut off itself, gives the same.
    fn check_again(&mut self, recovered: &Recovered) -> Result<(), String> {
        let history = recovered.disk.history();
        let mut walk = history.walk();
        let mut operations = 0;
        loop {
            let tears = walk.tears();
            let torn = tears.get(operations % tears.len().max(1)).map(|bytes| Crash::Torn(*bytes));
            let seed = operations as u64;
            let crashes = [Crash::Kill, Crash::Lost, Crash::Scattered(seed), Crash::Garbage(seed)];
            for crash in crashes.into_iter().chain(torn) {
                self.tally.cuts_of_starts += 1;
                let again = recover(&walk.crash(crash), self.options)
                    .map_err(|what| format!("cut off in its start after {operations} operations, {crash:?}: {what}"))?;
                if (again.tail(), again.digest) != (recovered.tail(), recovered.digest) {
                    return Err(format!(
                        "cut off in its start after {operations} operations, {crash:?}: {:?} instead of {:?}",
                        again.claim, recovered.claim
                    ));
                }
            }
            if walk.step().is_none() {
                return Ok(());
            }
            operations += 1;
        }
    }
}

/// Every way to crash here that may make a difference.
fn crashes(walk: &Walk<'_>, seed: u64) -> Vec<Crash> {
    let mut crashes = vec![Crash::Kill];
    if walk.is_settled() {
        return crashes;
    }
    crashes.extend([Crash::Lost, Crash::BytesLost, Crash::NamesLost]);
    crashes.extend(walk.tears().into_iter().map(Crash::Torn));
    for seed in (0..SEEDS).map(|nth| seed * SEEDS + nth) {
        crashes.extend([Crash::Names(seed), Crash::Scattered(seed), Crash::Garbage(seed)]);
    }
    crashes
}
