//! Reading a log without writing to it, damaged or not, even while a server appends to it: for tools.

mod walk;

use super::format::Format;
use super::manifest::Manifest;
use super::segment::SegmentHeader;
use super::tail::Cut;
use super::volume::ReadDisk;
use crate::error::{LogError, Loss};
use crate::frame::Header;
use crate::log::Batch;
pub(super) use walk::Walk;

/// What a [`Reader`] comes across, in the order of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found<'a> {
    /// A segment begins.
    Segment(SegmentFacts),
    /// A batch that is whole.
    Batch(Entry<'a>),
    /// Something that should be there and is not, or cannot be read.
    Hole(Hole),
    /// What was being written when the server ended, or is just being written: the end of the log.
    Tail(Cut),
}

/// A segment's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentFacts {
    /// The file's name.
    pub file: String,
    /// How long it is.
    pub bytes: u64,
    /// What it says of itself.
    pub header: SegmentHeader,
}

/// A batch, and where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The segment's id.
    pub segment: u64,
    /// The segment's file.
    pub file: &'a str,
    /// Where in the file its frame begins.
    pub offset: u64,
    /// How long its frame is.
    pub bytes: u64,
    /// Position, epoch, and up to where all was durable when it was written.
    pub header: Header,
    /// When it was submitted, and its payload.
    pub batch: Batch<'a>,
}

/// Damage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hole {
    /// The file it is in.
    pub file: String,
    /// Where it begins.
    pub offset: u64,
    /// In words, for whoever runs the server.
    pub error: LogError,
    /// What cannot be read because of it. There may be damage that takes no batch: between two that do not belong together.
    pub loss: Loss,
}

/// Reads a log from its first batch to its last.
///
/// It needs no lock and writes nothing. If a server appends meanwhile, it ends somewhere behind the batch that was the last
/// when it began; if the server drops what is just being read, that is [`LogError::MovedOn`], and one has to begin again.
#[derive(Debug)]
pub struct Reader<'d, D: ReadDisk> {
    disk: &'d mut D,
    walk: Walk<D::File>,
}

impl<'d, D: ReadDisk> Reader<'d, D> {
    /// Reads the log that the manifest names. `older` are the formats before the present one that can be read.
    ///
    /// # Errors
    /// If there is no manifest that can be trusted.
    pub fn open(disk: &'d mut D, older: &'static [Format]) -> Result<Self, LogError> {
        let reader = Self::open_damaged(disk, older)?;
        match reader.manifest() {
            Ok(_) => Ok(reader),
            Err(error) => Err(error.clone()),
        }
    }

    /// Reads the log that the manifest names; if there is none that can be trusted, all segments that are there.
    ///
    /// # Errors
    /// If there is nothing of a log, or it is of a format that is not known.
    pub fn open_damaged(disk: &'d mut D, older: &'static [Format]) -> Result<Self, LogError> {
        let walk = Walk::begin(disk, older)?;
        Ok(Reader { disk, walk })
    }

    /// The manifest.
    ///
    /// # Errors
    /// If it is missing or cannot be trusted.
    pub fn manifest(&self) -> Result<&Manifest, &LogError> {
        self.walk.manifest()
    }

    /// The next thing there is. Nothing at the end.
    ///
    /// # Errors
    /// If the disk fails, or the server has dropped what comes next. Damage is no error, but found.
    #[expect(clippy::should_implement_trait, reason = "what is found is borrowed from the reader")]
    pub fn next(&mut self) -> Result<Option<Found<'_>>, LogError> {
        self.walk.next(self.disk)
    }

    /// Reads all there is; returns what of it cannot be read.
    ///
    /// # Errors
    /// As [`Reader::next`].
    pub fn loss(mut self) -> Result<Loss, LogError> {
        let mut loss = Loss::default();
        while let Some(found) = self.next()? {
            if let Found::Hole(hole) = found {
                loss = loss.and(hole.loss);
            }
        }
        Ok(loss)
    }
}
