//! Files made ahead of need, so that appending never waits for the disk to find room, and room is known before it is needed.

use super::FileLog;
use super::segment::{HEADER_BYTES, spare_name_of};
use super::volume;
use crate::disk::Disk;
use crate::error::{Doing, LogError};
use crate::log::RESERVE_SEGMENTS;

/// How long to wait before a spare that could not be made is tried again.
const RETRY_MS: u64 = 1000;

/// So often is looked whether a spare is ready, while nothing else happens.
const LOOK_MS: u64 = 20;

/// So many are kept back even when room is short: for what is written anew of a segment that then becomes a spare, and for
/// what else has no room yet.
const HELD_BACK: u64 = 1;

/// So many are wanted: the reserve, one that is held back, and one for the batch that finds out that there will be no more.
const WANTED: u64 = RESERVE_SEGMENTS + HELD_BACK + 1;

/// A file as long as a segment that is none yet.
#[derive(Debug)]
pub(super) struct Spare {
    pub name: String,
    /// Whether it may hold what a segment held.
    pub recycled: bool,
    /// Whether that might be taken for something still to come. It is emptied before it is used.
    pub stale: bool,
}

impl Spare {
    /// One that holds zeros.
    pub fn new(name: String) -> Self {
        Spare { name, recycled: false, stale: false }
    }
}

/// Those there are, and those to come.
#[derive(Debug)]
pub(super) struct Spares {
    segment_bytes: u64,
    ready: Vec<Spare>,
    /// The newest segment's old file, when a start has copied it. Its room is kept until there are enough others; it is the
    /// last to be used, for it may be that the server had ended because of it.
    aside: Option<Spare>,
    /// The one being made, as it will be called.
    coming: Option<String>,
    next_number: u64,
    /// Why the last one could not be made, or had to be given up.
    shortage: Option<Shortage>,
}

/// No more room could be found.
#[derive(Debug)]
struct Shortage {
    error: LogError,
    /// When to look again, in engine time.
    retry_at: u64,
}

impl Spares {
    pub fn new(segment_bytes: u64) -> Self {
        Spares { segment_bytes, ready: Vec::new(), aside: None, coming: None, next_number: 1, shortage: None }
    }

    /// Begins anew, with numbers from this one on.
    pub fn reset(&mut self, next_number: u64) {
        *self = Spares { next_number, ..Spares::new(self.segment_bytes) };
    }

    fn ready_count(&self) -> u64 {
        self.ready.len() as u64
    }

    /// What a spare's segment holds.
    pub fn capacity(&self) -> u64 {
        self.segment_bytes - HEADER_BYTES
    }

    /// Whether no more room could be found.
    pub fn short(&self) -> bool {
        self.shortage.is_some()
    }

    /// Why no more room could be found.
    pub fn shortage(&self) -> Option<&LogError> {
        self.shortage.as_ref().map(|shortage| &shortage.error)
    }

    /// When to look for room again.
    fn retry_at(&self) -> Option<u64> {
        self.shortage.as_ref().map(|shortage| shortage.retry_at)
    }

    /// How much is sure to find room in spares. Unless no more could be found, those to come are as good as there. If none
    /// could, one spare is held back.
    pub fn room(&self) -> u64 {
        let spares = if self.short() { self.there().saturating_sub(HELD_BACK) } else { WANTED };
        spares * self.capacity()
    }

    /// How many are there, the one held back too.
    pub fn there(&self) -> u64 {
        self.ready_count() + u64::from(self.aside.is_some())
    }

    /// When it is to be looked whether the spare that is being made is there, or when to try again.
    pub fn due(&self, engine_ms: u64) -> Option<u64> {
        if self.coming.is_some() { Some(engine_ms.saturating_add(LOOK_MS)) } else { self.retry_at() }
    }

    /// A name that no spare has.
    pub fn new_name(&mut self) -> String {
        let name = spare_name_of(self.next_number);
        self.next_number += 1;
        name
    }

    /// Whether a file that is no longer needed should become one. One more than is wanted is kept: in a log that lets go of
    /// segments as fast as it begins them, the next one then needs no new file.
    pub fn wants_old(&self) -> bool {
        self.ready_count() <= WANTED
    }

    /// Whether one has to be made, if none is being made.
    fn wants_new(&self) -> bool {
        self.ready_count() < WANTED
    }

    pub fn add(&mut self, spare: Spare) {
        self.ready.push(spare);
        if self.ready_count() >= WANTED {
            self.shortage = None;
        }
    }

    pub fn pop(&mut self) -> Option<Spare> {
        self.ready.pop().or_else(|| self.aside.take())
    }

    /// Keeps the room of a file until there are enough spares.
    pub fn set_aside(&mut self, spare: Spare) {
        self.aside = Some(spare);
    }

    /// Removes a spare, so that something else finds room, for which there was none. Says whether there was a spare.
    pub fn give_up_one<D: Disk>(&mut self, disk: &mut D, error: &LogError) -> Result<bool, LogError> {
        let Some(spare) = self.aside.take().or_else(|| self.ready.pop()) else { return Ok(false) };
        volume::remove(disk, &spare.name)?;
        // What needed the room may have needed it for a moment only.
        self.shortage = Some(Shortage { error: error.clone(), retry_at: 0 });
        Ok(true)
    }
}

impl<D: Disk> FileLog<D> {
    /// Takes note of what became of the spare being made. If `wait`, waits until that is known.
    pub(super) fn collect_spare(&mut self, wait: bool, engine_ms: u64) {
        if self.spares.coming.is_none() {
            return;
        }
        let Some(done) = self.disk.prepared(wait) else { return };
        let Some(name) = self.spares.coming.take() else { return };
        // Under its own name a spare is whole: one that a crash left half made has the other name, and goes at a start.
        let made = half_made(&name);
        let done = done.map_err(|error| LogError::disk(Doing::Prepare, &name, &error));
        match done.and_then(|()| volume::rename(&mut self.disk, &made, &name)) {
            Ok(()) => {
                // There was room for one; whether there is for the others is looked at now.
                if let Some(shortage) = &mut self.spares.shortage {
                    shortage.retry_at = engine_ms;
                }
                self.spares.add(Spare::new(name));
            }
            Err(error) => {
                // Without its name it is of no use, and must not take the room of the next. If nothing was made, nothing is there.
                let _ = self.disk.remove(&made);
                let retry_at = engine_ms.saturating_add(RETRY_MS);
                self.spares.shortage = Some(Shortage { error, retry_at });
            }
        }
    }

    fn begin_spare(&mut self) {
        let name = self.spares.new_name();
        self.disk.prepare(&half_made(&name), self.spares.segment_bytes);
        self.spares.coming = Some(name);
    }

    /// Has spares made, one after the other, as many as are wanted.
    pub(super) fn keep_spares(&mut self, engine_ms: u64) {
        loop {
            self.collect_spare(false, engine_ms);
            if self.spares.coming.is_none() && !self.spares.wants_new() {
                self.spares.shortage = None;
                if let Some(spare) = self.spares.aside.take() {
                    // If it cannot be removed, it is a spare at the next start.
                    let _ = self.disk.remove(&spare.name);
                }
            }
            let due = self.spares.retry_at().is_none_or(|at| at <= engine_ms);
            if self.spares.coming.is_some() || !self.spares.wants_new() || !due {
                return;
            }
            self.begin_spare();
        }
    }

    /// Makes as many as are wanted, unless there is no room for them, and waits for them.
    pub(super) fn make_spares(&mut self, engine_ms: u64) {
        while !self.spares.short() && self.spares.ready_count() < WANTED {
            if self.spares.coming.is_none() {
                self.begin_spare();
            }
            self.collect_spare(true, engine_ms);
        }
    }

    /// Waits until there are spares for the batch in flight and for one that is decided meanwhile, or it is known that
    /// there is no room for them: nothing may be decided before.
    pub(super) fn wait_for_spares(&mut self, engine_ms: u64) {
        while self.spares.there() < 2 && !self.spares.short() {
            self.collect_spare(true, engine_ms);
            self.keep_spares(engine_ms);
        }
    }

    /// A spare, even if it has to be made now.
    pub(super) fn take_spare(&mut self, engine_ms: u64) -> Result<Spare, LogError> {
        // That there is no more room must be known while the reserve is there: it is not touched before. Soon after a start
        // it may have to be made first.
        self.make_spares(engine_ms);
        self.collect_spare(self.spares.ready.is_empty(), engine_ms);
        if let Some(spare) = self.spares.pop() {
            return if spare.stale { self.emptied(spare) } else { Ok(spare) };
        }
        // It is used at once, and renamed with its header: it never needs its name as a spare.
        let name = half_made(&self.spares.new_name());
        self.make_now(&name, self.spares.segment_bytes)?;
        Ok(Spare::new(name))
    }

    /// Fills a spare with zeros. Its first block stays as it is until it gets a header: as long as that tells that it is
    /// stale, it is, even if this is interrupted.
    fn emptied(&mut self, spare: Spare) -> Result<Spare, LogError> {
        let mut file = volume::open(&mut self.disk, &spare.name)?;
        volume::write_zeros(&mut file, &spare.name, HEADER_BYTES, self.spares.segment_bytes)?;
        volume::sync(&mut file, &spare.name)?;
        Ok(Spare::new(spare.name))
    }

    /// Makes a file of zeros and waits for it.
    pub(super) fn make_now(&mut self, name: &str, bytes: u64) -> Result<(), LogError> {
        self.collect_spare(true, 0);
        self.disk.prepare(name, bytes);
        let made = self.disk.prepared(true).unwrap_or_else(|| Err(std::io::Error::other("nothing came of it")));
        made.map_err(|error| LogError::disk(Doing::Prepare, name, &error))
    }
}

/// The name under which the spare of this name is made.
fn half_made(name: &str) -> String {
    name.replace(".log", ".new")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::test_disk::TestDisk;

    fn full() -> LogError {
        LogError::disk(Doing::Prepare, "spare-9.log", &std::io::ErrorKind::StorageFull.into())
    }

    /// So many spares, with room for 1000 bytes each.
    fn spares(count: u64) -> Spares {
        let mut spares = Spares::new(HEADER_BYTES + 1000);
        for _ in 0..count {
            let name = spares.new_name();
            spares.add(Spare::new(name));
        }
        spares
    }

    fn short(spares: Spares) -> Spares {
        Spares { shortage: Some(Shortage { error: full(), retry_at: 700 }), ..spares }
    }

    fn aside(mut spares: Spares) -> Spares {
        spares.set_aside(Spare::new("aside".into()));
        spares
    }

    #[test]
    fn room_is_what_is_there_but_one_or_what_will_be_if_there_is_no_shortage() {
        let cases = [
            (spares(0), 0, 4000),
            (spares(5), 5, 4000),
            (aside(spares(1)), 2, 4000),
            (short(spares(0)), 0, 0),
            (short(spares(1)), 1, 0),
            (short(spares(3)), 3, 2000),
            (short(aside(spares(0))), 1, 0),
            (short(aside(spares(3))), 4, 3000),
        ];
        for (spares, there, room) in cases {
            assert_eq!((spares.there(), spares.room()), (there, room), "{spares:?}");
        }
    }

    #[test]
    fn four_are_wanted_and_one_more_if_it_is_there_already() {
        for (count, wants_new, wants_old) in [(0, true, true), (3, true, true), (4, false, true), (5, false, false)] {
            let spares = spares(count);
            assert_eq!((spares.wants_new(), spares.wants_old()), (wants_new, wants_old), "{count}");
        }
    }

    #[test]
    fn a_shortage_is_over_when_there_are_as_many_as_are_wanted() {
        let mut spares = short(spares(0));
        for is_short in [true, true, true, false, false] {
            let name = spares.new_name();
            spares.add(Spare::new(name));
            assert_eq!((spares.short(), spares.shortage()), (is_short, is_short.then_some(&full())), "{spares:?}");
        }
    }

    #[test]
    fn one_that_is_made_is_looked_for_soon_and_one_that_could_not_be_made_is_tried_again_when_it_is_time() {
        let coming = |spares| Spares { coming: Some("spare-9.log".into()), ..spares };
        assert_eq!(spares(3).due(500), None);
        assert_eq!(short(spares(3)).due(500), Some(700));
        assert_eq!(coming(spares(3)).due(500), Some(520));
        assert_eq!(coming(short(spares(3))).due(500), Some(520));
        assert_eq!(coming(spares(3)).due(u64::MAX), Some(u64::MAX));
    }

    #[test]
    fn what_was_set_aside_is_the_last_to_be_used_and_the_first_to_be_given_up() {
        let names =
            |mut spares: Spares| std::iter::from_fn(move || spares.pop()).map(|spare| spare.name).collect::<Vec<_>>();
        assert_eq!(names(aside(spares(2))), ["spare-2.log", "spare-1.log", "aside"]);
        let mut disk = TestDisk::new();
        let mut spares = aside(spares(2));
        ["aside", "spare-1.log", "spare-2.log"].iter().for_each(|name| disk.put(name, &[]));
        for left in [&["spare-1.log", "spare-2.log"][..], &["spare-1.log"], &[]] {
            assert_eq!(spares.give_up_one(&mut disk, &full()), Ok(true));
            assert_eq!(disk.names(), left);
            assert_eq!((spares.shortage(), spares.due(500)), (Some(&full()), Some(0)), "it may be tried again at once");
        }
        assert_eq!(spares.give_up_one(&mut disk, &full()), Ok(false));
    }
}
