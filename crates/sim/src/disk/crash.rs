//! What a crash leaves of a disk. Of what was not synced, anything may be there, in any order, sector by sector; what was
//! synced is there.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::state::{Change, Changed, File, FileId, Image, State, write};
use crate::random::{below, coin, splitmix};

/// What a disk writes whole or not at all.
pub const SECTOR_BYTES: usize = 512;

/// A way to crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// The process is killed; the machine goes on, and with it all that was written.
    Kill,
    /// Power cut: all that was not synced is lost.
    Lost,
    /// Power cut: all names are there, but of what was not synced no byte.
    BytesLost,
    /// Power cut: all bytes are there, but no name that was not synced.
    NamesLost,
    /// Power cut: all is there, but of the last write that was not synced only so many bytes.
    Torn(usize),
    /// Power cut: all bytes are there; each name that was not synced is or is not.
    Names(u64),
    /// Power cut: of what was not synced, each sector and each name is as it was at any moment since the sync.
    Scattered(u64),
    /// Power cut: the same, and what was written and not synced may be zeros or garbage.
    Garbage(u64),
}

impl Crash {
    /// What kinds of crashes there are, by name, in the order of [`Crash::kind`].
    pub const KINDS: [&str; 8] =
        ["kill", "lost", "bytes lost", "names lost", "torn", "names at random", "scattered", "garbage"];

    /// Which of [`Crash::KINDS`] this is.
    #[must_use]
    pub fn kind(self) -> usize {
        match self {
            Crash::Kill => 0,
            Crash::Lost => 1,
            Crash::BytesLost => 2,
            Crash::NamesLost => 3,
            Crash::Torn(_) => 4,
            Crash::Names(_) => 5,
            Crash::Scattered(_) => 6,
            Crash::Garbage(_) => 7,
        }
    }
}

impl State {
    /// What this crash leaves.
    pub fn crash(&self, crash: Crash) -> Image {
        let (Crash::Names(seed) | Crash::Scattered(seed) | Crash::Garbage(seed)) = crash else {
            return self.crash_for_certain(crash);
        };
        let mut random = seed;
        let names = self.some_names(&mut random);
        let bytes = |file: &File| match crash {
            Crash::Scattered(_) => file.scattered(&mut random, false),
            Crash::Garbage(_) => file.scattered(&mut random, true),
            _ => Rc::clone(&file.bytes),
        };
        self.image(&names, bytes)
    }

    fn crash_for_certain(&self, crash: Crash) -> Image {
        let names = match crash {
            Crash::Lost | Crash::NamesLost => &self.synced_names,
            _ => &self.names,
        };
        let torn = match crash {
            Crash::Torn(bytes) => self.last_write().map(|(file, change)| (file, self.files[file].torn(change, bytes))),
            _ => None,
        };
        let mut image = self.image(names, |file| match crash {
            Crash::Lost | Crash::BytesLost => Rc::clone(&file.synced),
            _ => Rc::clone(&file.bytes),
        });
        if let Some((torn, bytes)) = torn
            && let Some((name, _)) = names.iter().find(|(_, file)| **file == torn)
        {
            image.insert(name.clone(), bytes);
        }
        image
    }

    fn image(&self, names: &BTreeMap<String, FileId>, mut bytes: impl FnMut(&File) -> Rc<Vec<u8>>) -> Image {
        names.iter().map(|(name, &file)| (name.clone(), bytes(&self.files[file]))).collect()
    }

    /// Each renaming is or is not, but none without those before it that touch the same names.
    fn some_names(&self, random: &mut u64) -> BTreeMap<String, FileId> {
        let mut names = self.synced_names.clone();
        let mut lost = BTreeSet::new();
        for renaming in &self.renamings {
            let follows_lost = renaming.names().any(|name| lost.contains(name));
            if follows_lost || coin(random) {
                lost.extend(renaming.names());
            } else {
                renaming.apply(&mut names);
            }
        }
        names
    }

    /// After how many of its bytes the last write that is not synced may be torn: where a sector ends, and in places where no
    /// disk would.
    pub fn tears(&self) -> Vec<usize> {
        let Some((file, change)) = self.last_write() else { return Vec::new() };
        let Changed::Written { offset, bytes } = &self.files[file].changes[change].what else { return Vec::new() };
        let first = SECTOR_BYTES - offset % SECTOR_BYTES;
        let sectors = (first..bytes.len()).step_by(SECTOR_BYTES);
        let odd = [0, 1, (bytes.len() / 2) | 1, bytes.len().saturating_sub(1)];
        let tears: BTreeSet<usize> = sectors.chain(odd).filter(|&tear| tear < bytes.len()).collect();
        tears.into_iter().collect()
    }
}

impl File {
    /// As everybody sees it, but for the end of one write.
    fn torn(&self, torn: usize, kept_bytes: usize) -> Rc<Vec<u8>> {
        let mut content = Vec::clone(&self.synced);
        for (index, change) in self.changes.iter().enumerate() {
            match &change.what {
                Changed::Written { offset, bytes } if index == torn => {
                    let kept = &bytes[..kept_bytes.min(bytes.len())];
                    if !kept.is_empty() {
                        write(&mut content, *offset, kept);
                    }
                }
                what => what.apply(&mut content),
            }
        }
        Rc::new(content)
    }

    /// Its length and each of its sectors as at any moment since the last sync. What was written since may be garbage.
    fn scattered(&self, random: &mut u64, garbage: bool) -> Rc<Vec<u8>> {
        if self.changes.is_empty() {
            return Rc::clone(&self.bytes);
        }
        let mut lengths = vec![self.synced.len()];
        let mut content = Vec::clone(&self.synced);
        for change in &self.changes {
            change.what.apply(&mut content);
            lengths.push(content.len());
        }
        let longest = lengths.iter().copied().max().unwrap_or(0);
        // The last length is as likely as all others: else a long row of writes would nearly always be cut short.
        let len = if coin(random) { content.len() } else { lengths[below(random, lengths.len())] };
        let mut content = Vec::clone(&self.synced);
        content.resize(longest, 0);
        for start in (0..longest).step_by(SECTOR_BYTES) {
            let end = longest.min(start + SECTOR_BYTES);
            self.scatter_sector(&mut content[start..end], start, random, garbage);
        }
        content.truncate(len);
        Rc::new(content)
    }

    fn scatter_sector(&self, sector: &mut [u8], start: usize, random: &mut u64, garbage: bool) {
        let touching: Vec<_> =
            self.changes.iter().filter_map(|change| change.within(start, start + sector.len())).collect();
        if touching.is_empty() {
            return;
        }
        for within in &touching[..below(random, touching.len() + 1)] {
            match within {
                Within::Emptied => sector.fill(0),
                Within::Written { at, bytes } => sector[*at..*at + bytes.len()].copy_from_slice(bytes),
            }
        }
        let fill = if garbage { below(random, 4) } else { 0 };
        for within in touching.iter().filter(|_| fill >= 2) {
            let Within::Written { at, bytes } = within else { continue };
            for byte in &mut sector[*at..*at + bytes.len()] {
                *byte = if fill == 2 { 0 } else { splitmix(random).to_le_bytes()[0] };
            }
        }
    }
}

/// What a change means to one sector.
enum Within<'a> {
    Emptied,
    Written { at: usize, bytes: &'a [u8] },
}

impl Change {
    fn within(&self, start: usize, end: usize) -> Option<Within<'_>> {
        match &self.what {
            Changed::Emptied => Some(Within::Emptied),
            Changed::Written { offset, bytes } => {
                let (from, to) = (start.max(*offset), end.min(offset + bytes.len()));
                (from < to).then(|| Within::Written { at: from - start, bytes: &bytes[from - offset..to - offset] })
            }
        }
    }
}
