//! Writing a log anew, in segments behind those that are there. They count once the manifest names them.

use super::format::CURRENT;
use super::segment::{HEADER_BYTES, SegmentHeader, name_of};
use super::{Manifest, volume};
use crate::disk::{Disk, DiskFile};
use crate::error::LogError;
use crate::frame::{self, FRAME_HEADER_BYTES, Header};
use crate::log::{Batch, Position};

/// How much is written at once.
const PORTION_BYTES: usize = 1024 * 1024;

/// New segments that are being written.
pub(super) struct Rewrite<F> {
    segment_bytes: u64,
    salt: u64,
    first: u64,
    /// The segment being written.
    id: u64,
    file: F,
    /// How long that one is to be, up to where it was written, and what is to be written there.
    bytes: u64,
    written: u64,
    buffer: Vec<u8>,
    /// What the next frame follows.
    last: Header,
}

impl<F: DiskFile> Rewrite<F> {
    /// Begins with segment `id`, whose first batch follows `before`.
    pub fn begin<D: Disk<File = F>>(
        disk: &mut D,
        id: u64,
        (segment_bytes, salt): (u64, u64),
        before: Header,
    ) -> Result<Self, LogError> {
        let mut buffer = Vec::new();
        let file = begin_segment(disk, id, salt, &before, &mut buffer)?;
        Ok(Rewrite { segment_bytes, salt, first: id, id, file, bytes: segment_bytes, written: 0, buffer, last: before })
    }

    /// Appends the next batch.
    pub fn append<D: Disk<File = F>>(
        &mut self,
        disk: &mut D,
        (epoch, proven): (u64, Position),
        batch: &Batch<'_>,
    ) -> Result<(), LogError> {
        let len = FRAME_HEADER_BYTES as u64 + batch.payload.len() as u64;
        if self.used() + len > self.bytes {
            let oversized = HEADER_BYTES + len;
            if self.used() > HEADER_BYTES {
                self.end_segment()?;
                self.id += 1;
                self.file = begin_segment(disk, self.id, self.salt, &self.last, &mut self.buffer)?;
                self.written = 0;
            }
            self.bytes = oversized.max(self.segment_bytes);
        }
        let position = self.last.position + 1;
        let header = Header { epoch, position, proven, previous_crc: self.last.previous_crc };
        let crc = frame::encode(&header, batch, self.salt, &mut self.buffer);
        self.last = Header { previous_crc: crc, ..header };
        if self.buffer.len() >= PORTION_BYTES { self.write() } else { Ok(()) }
    }

    /// Makes all of it durable. Returns a manifest that would make it the log.
    pub fn finish<D: Disk<File = F>>(mut self, disk: &mut D) -> Result<Manifest, LogError> {
        self.end_segment()?;
        volume::sync_directory(disk)?;
        Ok(Manifest {
            format: CURRENT.version,
            salt: self.salt,
            epoch: self.last.epoch,
            first: self.first,
            newest: self.id,
            proven: self.last.position,
            clean: true,
            segment_bytes: Some(self.segment_bytes),
            damaged: None,
        })
    }

    fn used(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    fn write(&mut self) -> Result<(), LogError> {
        volume::write(&mut self.file, &name_of(self.id), self.written, &self.buffer)?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    fn end_segment(&mut self) -> Result<(), LogError> {
        self.write()?;
        let name = name_of(self.id);
        volume::write_zeros(&mut self.file, &name, self.written, self.bytes)?;
        volume::sync(&mut self.file, &name)
    }
}

/// Makes a segment's file; its header is left to be written.
fn begin_segment<D: Disk>(
    disk: &mut D,
    id: u64,
    salt: u64,
    before: &Header,
    buffer: &mut Vec<u8>,
) -> Result<D::File, LogError> {
    let header = SegmentHeader::behind(before, salt, id, false);
    buffer.extend_from_slice(&header.to_block());
    volume::create(disk, &name_of(id))
}
