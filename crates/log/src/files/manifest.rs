//! The manifest: which segments are the log, in a few lines of text that are replaced whole.

use std::fmt::Write as _;

use crc32c::crc32c;

use super::format::CURRENT;
use super::volume::{self, ReadDisk};
use crate::broken;
use crate::disk::Disk;
use crate::error::LogError;
use crate::frame::NUMBER_MAX;
use crate::log::Position;

/// The file it is in.
pub(crate) const NAME: &str = "manifest";
/// The file in which the next one is made. Between two it is the one before: its room is kept, so that a disk which others
/// have filled to the last block still takes the next.
pub(crate) const NEW_NAME: &str = "manifest.new";
/// How long the file is: longer than any text, and never longer than what a disk writes whole.
const FILE_BYTES: usize = 512;
/// Longer than any manifest: a file that is longer is none.
const BYTES_MAX: u64 = 4096;
/// How often one that cannot be trusted is read, while a server may be writing the next one to the same room.
const READS: u32 = 3;

/// What is the log, and what is known of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// The format of all its segments.
    pub format: u32,
    /// With what every frame begins.
    pub salt: u64,
    /// The largest epoch claimed.
    pub epoch: u64,
    /// The first segment's id.
    pub first: u64,
    /// The newest segment's id. All between the two are part of the log.
    pub newest: u64,
    /// All up to here was durable when this was written.
    pub proven: Position,
    /// Whether the server ended as it should, and nothing was written since.
    pub clean: bool,
    /// How long each segment's file is, but for those that had to be longer; nothing if it is not known.
    pub segment_bytes: Option<u64>,
    /// Segments that were salvaged, from and to: no part of the log, but to be kept aside.
    pub damaged: Option<(u64, u64)>,
}

impl Manifest {
    pub(crate) fn to_text(self) -> String {
        let Manifest { format, salt, epoch, first, newest, proven, clean, segment_bytes, damaged } = self;
        let clean = if clean { "yes" } else { "no" };
        let mut text = format!(
            "jobyard log\nformat {format}\nsalt {salt:016x}\nepoch {epoch}\nfirst {first}\nnewest {newest}\nproven {proven}\n\
             clean {clean}\n"
        );
        if let Some(bytes) = segment_bytes {
            writeln!(text, "segment {bytes}").expect("a string takes all");
        }
        if let Some((from, to)) = damaged {
            writeln!(text, "damaged {from} {to}").expect("a string takes all");
        }
        let crc = crc32c(text.as_bytes());
        writeln!(text, "crc {crc:08x}").expect("a string takes all");
        text
    }

    /// Reads it from the bytes of its file.
    ///
    /// # Errors
    /// If they cannot be trusted, or are of a newer format.
    pub fn parse(bytes: &[u8]) -> Result<Manifest, LogError> {
        Manifest::from_text(bytes, CURRENT.version)
    }

    /// Reads it from text. That the last line is the checksum, and the second the format, holds for every format there will
    /// be: of one that is not known no more is read.
    pub(crate) fn from_text(text: &[u8], format_known: u32) -> Result<Manifest, LogError> {
        let used = text.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        let text = std::str::from_utf8(&text[..used]).map_err(|_| untrusted("it is not text"))?;
        let crc_at = text.rfind("crc ").ok_or_else(|| untrusted("its last line is not a checksum"))?;
        let (before, crc) = text.split_at(crc_at);
        if crc != format!("crc {:08x}\n", crc32c(before.as_bytes())) {
            return Err(untrusted("it does not match its checksum"));
        }
        let mut lines = Lines(before.lines());
        if lines.0.next() != Some("jobyard log") {
            return Err(untrusted("it does not begin with \"jobyard log\""));
        }
        let format = lines.number("format")?;
        if format > format_known {
            return Err(LogError::FormatNewer { found: format, known: format_known });
        }
        let salt = u64::from_str_radix(lines.value("salt")?, 16).map_err(|_| untrusted("its salt is no number"))?;
        let (epoch, first, newest): (u64, u64, u64) =
            (lines.number("epoch")?, lines.number("first")?, lines.number("newest")?);
        let proven = lines.number("proven")?;
        let clean = match lines.value("clean")? {
            "yes" => true,
            "no" => false,
            _ => return Err(untrusted("\"clean\" is neither yes nor no")),
        };
        let segment_bytes = if lines.next_is("segment ") { Some(lines.number("segment")?) } else { None };
        let damaged = lines.range("damaged")?;
        let is_known = lines.0.next().is_none();
        let is_possible = first > 0 && first <= newest && newest.max(epoch).max(proven) < NUMBER_MAX;
        if !is_known || !is_possible || salt == 0 || damaged.is_some_and(|(from, to)| from > to || to >= first) {
            return Err(untrusted("it says what cannot be"));
        }
        Ok(Manifest { format, salt, epoch, first, newest, proven, clean, segment_bytes, damaged })
    }

    /// Reads it from its file, if there is one.
    pub(crate) fn read<D: ReadDisk>(disk: &mut D, format_known: u32) -> Result<Option<Manifest>, LogError> {
        let mut reads = 1;
        loop {
            match Manifest::read_once(disk, format_known) {
                Err(LogError::Manifest { .. }) if reads < READS => reads += 1,
                read => return read,
            }
        }
    }

    fn read_once<D: ReadDisk>(disk: &mut D, format_known: u32) -> Result<Option<Manifest>, LogError> {
        let Some(file) = volume::open_if_there(disk, NAME)? else {
            return Ok(None);
        };
        if volume::bytes(&file, NAME)? > BYTES_MAX {
            return Err(untrusted("it is too long"));
        }
        let text = volume::read_rest(&file, NAME, 0)?;
        Manifest::from_text(&text, format_known).map(Some)
    }

    /// Makes it the one that counts, durably.
    pub(crate) fn write<D: Disk>(&self, disk: &mut D) -> Result<(), LogError> {
        let there = volume::open_if_there(disk, NAME)?.is_some();
        let mut file = match volume::open_if_there(disk, NEW_NAME)? {
            Some(file) if volume::bytes(&file, NEW_NAME)? <= FILE_BYTES as u64 => file,
            _ => volume::create(disk, NEW_NAME)?,
        };
        let mut text = self.to_text().into_bytes();
        text.resize(FILE_BYTES, 0);
        volume::write(&mut file, NEW_NAME, 0, &text)?;
        if !broken("log-no-manifest-sync") {
            volume::sync(&mut file, NEW_NAME)?;
        }
        if there {
            volume::exchange(disk, NEW_NAME, NAME)?;
        } else {
            volume::rename(disk, NEW_NAME, NAME)?;
        }
        volume::sync_directory(disk)
    }
}

fn untrusted(why: &str) -> LogError {
    LogError::Manifest { why: why.into() }
}

/// Lines of a word and its value.
struct Lines<'a>(std::str::Lines<'a>);

impl<'a> Lines<'a> {
    fn value(&mut self, word: &str) -> Result<&'a str, LogError> {
        let line = self.0.next().unwrap_or_default();
        let value = line.strip_prefix(word).and_then(|rest| rest.strip_prefix(' '));
        value.ok_or_else(|| untrusted(&format!("it has no line \"{word}\" where it must be")))
    }

    fn number<N: std::str::FromStr>(&mut self, word: &str) -> Result<N, LogError> {
        self.value(word)?.parse().map_err(|_| untrusted(&format!("\"{word}\" is not followed by a number")))
    }

    fn next_is(&self, beginning: &str) -> bool {
        self.0.clone().next().is_some_and(|line| line.starts_with(beginning))
    }

    /// Two numbers, if there is one more line.
    fn range(&mut self, word: &str) -> Result<Option<(u64, u64)>, LogError> {
        if self.0.clone().next().is_none() {
            return Ok(None);
        }
        let range =
            self.value(word)?.split_once(' ').and_then(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?)));
        range.map(Some).ok_or_else(|| untrusted(&format!("\"{word}\" is not followed by two numbers")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::test_disk::{TestDisk, TestFile};

    fn manifest() -> Manifest {
        let (segment_bytes, damaged) = (Some(9), Some((1, 2)));
        Manifest {
            format: 1,
            salt: 0xab,
            epoch: 2,
            first: 3,
            newest: 4,
            proven: 5,
            clean: true,
            segment_bytes,
            damaged,
        }
    }

    #[test]
    fn it_comes_back_as_it_was() {
        let cases =
            [(true, None, None), (false, None, Some((1, 2))), (true, Some(5096), None), (false, Some(1), Some((1, 2)))];
        for (clean, segment_bytes, damaged) in cases {
            let manifest = Manifest { clean, segment_bytes, damaged, ..manifest() };
            assert_eq!(Manifest::from_text(manifest.to_text().as_bytes(), 1), Ok(manifest));
        }
        assert!(
            manifest()
                .to_text()
                .starts_with("jobyard log\nformat 1\nsalt 00000000000000ab\nepoch 2\nfirst 3\nnewest 4\n")
        );
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_noticed() {
        let text = manifest().to_text().into_bytes();
        for bit in 0..text.len() * 8 {
            let mut text = text.clone();
            text[bit / 8] ^= 1 << (bit % 8);
            assert!(matches!(Manifest::from_text(&text, 1), Err(LogError::Manifest { .. })), "bit {bit}");
        }
        for len in 0..text.len() {
            assert!(matches!(Manifest::from_text(&text[..len], 1), Err(LogError::Manifest { .. })), "{len} bytes");
        }
    }

    #[test]
    fn a_newer_format_is_named_although_the_rest_is_not_understood() {
        let before = "jobyard log\nformat 7\nmoon full\n";
        let text = format!("{before}crc {:08x}\n", crc32c(before.as_bytes()));
        let error = LogError::FormatNewer { found: 7, known: 1 };
        assert_eq!(Manifest::from_text(text.as_bytes(), 1), Err(error));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let impossible = [
            Manifest { salt: 0, ..manifest() },
            Manifest { first: 0, ..manifest() },
            Manifest { first: 5, ..manifest() },
            Manifest { newest: u64::MAX, ..manifest() },
            Manifest { epoch: u64::MAX, ..manifest() },
            Manifest { proven: u64::MAX, ..manifest() },
            Manifest { damaged: Some((2, 1)), ..manifest() },
            Manifest { damaged: Some((1, 3)), ..manifest() },
        ];
        for manifest in impossible {
            assert!(Manifest::from_text(manifest.to_text().as_bytes(), 1).is_err(), "{manifest:?}");
        }
    }

    #[test]
    fn what_can_just_be_is_read_and_what_is_one_beyond_it_is_refused() {
        let undamaged = Manifest { damaged: None, ..manifest() };
        let most = NUMBER_MAX - 1;
        let possible = [
            Manifest { first: 1, newest: 1, ..undamaged },
            Manifest { newest: most, epoch: most, proven: most, ..undamaged },
            Manifest { damaged: Some((2, 2)), ..undamaged },
        ];
        let impossible = [
            Manifest { first: 0, ..undamaged },
            Manifest { newest: NUMBER_MAX, ..undamaged },
            Manifest { epoch: NUMBER_MAX, ..undamaged },
            Manifest { proven: NUMBER_MAX, ..undamaged },
        ];
        for manifest in possible {
            assert_eq!(Manifest::parse(manifest.to_text().as_bytes()), Ok(manifest));
        }
        for manifest in impossible {
            let refused = Err(untrusted("it says what cannot be"));
            assert_eq!(Manifest::parse(manifest.to_text().as_bytes()), refused, "{manifest:?}");
        }
    }

    #[test]
    fn a_file_that_is_longer_than_any_manifest_is_none() {
        for (bytes, is_read) in [(4095, true), (4096, true), (4097, false), (9000, false)] {
            let mut disk = TestDisk::new();
            let mut text = manifest().to_text().into_bytes();
            text.resize(bytes, 0);
            disk.put(NAME, &text);
            let read = if is_read { Ok(Some(manifest())) } else { Err(untrusted("it is too long")) };
            assert_eq!(Manifest::read(&mut disk, 1), read, "{bytes} bytes");
        }
    }

    /// A directory in which a server is writing the manifest: so many times it is found half written.
    struct BeingWritten {
        disk: TestDisk,
        times: u32,
    }

    impl ReadDisk for BeingWritten {
        type File = TestFile;

        fn names(&self) -> std::io::Result<Vec<String>> {
            ReadDisk::names(&self.disk)
        }

        fn open_to_read(&mut self, name: &str) -> std::io::Result<TestFile> {
            let is_half = self.times > 0;
            self.times = self.times.saturating_sub(1);
            self.disk.open_to_read(if is_half { "half" } else { name })
        }
    }

    #[test]
    fn one_that_is_half_written_is_read_three_times_and_no_more() {
        let disk = TestDisk::new();
        let text = manifest().to_text();
        disk.put(NAME, text.as_bytes());
        disk.put("half", &text.as_bytes()[..50]);
        for (times, is_read) in [(0, true), (1, true), (2, true), (3, false), (4, false)] {
            let mut disk = BeingWritten { disk: disk.clone(), times };
            assert_eq!(Manifest::read(&mut disk, 1).is_ok(), is_read, "half written {times} times");
        }
    }

    #[test]
    fn whatever_is_where_the_next_one_is_made_it_is_as_long_as_any_other() {
        for bytes in [0, 9, 512, 513, 9000] {
            let mut disk = TestDisk::new();
            disk.put(NEW_NAME, &vec![b'x'; bytes]);
            manifest().write(&mut disk).unwrap();
            assert_eq!(Manifest::read(&mut disk, 1), Ok(Some(manifest())), "{bytes} bytes");
            assert_eq!(disk.get(NAME).len(), FILE_BYTES);
        }
    }
}
