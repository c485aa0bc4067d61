//! Reading the log back, portion by portion, each segment once.

use super::format::CURRENT;
use super::scan::Scan;
use super::segment::{self, HEADER_BYTES, name_of};
use super::{FileLog, Held};
use crate::disk::Disk;
use crate::error::{LogError, Loss};
use crate::frame::{self, Damage, Header};
use crate::log::{Position, Replayed};

/// Where reading goes on.
#[derive(Debug)]
pub(super) struct Cursor<F> {
    /// Which of the segments.
    index: usize,
    scan: Scan<F>,
    /// What the next frame must follow.
    previous: Header,
}

impl<D: Disk> FileLog<D> {
    pub(super) fn read_back(
        &mut self,
        from: Position,
        bytes: usize,
        each: &mut dyn FnMut(Replayed<'_>),
    ) -> Result<Option<Position>, LogError> {
        let Some(held) = &mut self.held else { return Ok(None) };
        let cursor = match self.cursor.take() {
            Some(cursor) if cursor.previous.position + 1 == from => cursor,
            _ => seek(&mut self.disk, held, from)?,
        };
        self.cursor = read_on(&mut self.disk, held, cursor, (from, bytes), each)?;
        Ok(self.cursor.as_ref().map(|cursor| cursor.previous.position + 1))
    }
}

/// The beginning of the segment that holds this position, or of the first.
fn seek<D: Disk>(disk: &mut D, held: &Held<D::File>, from: Position) -> Result<Cursor<D::File>, LogError> {
    let after = held.segments.partition_point(|segment| segment.header.first <= from);
    let index = after.saturating_sub(1);
    Ok(Cursor { index, scan: begin(disk, held, index)?, previous: held.segments[index].header.before() })
}

/// Begins to read a segment.
fn begin<D: Disk>(disk: &mut D, held: &Held<D::File>, index: usize) -> Result<Scan<D::File>, LogError> {
    let header = &held.segments[index].header;
    let (file, _) = segment::open(disk, (header.format, header.salt, header.id))?;
    Scan::new(file, name_of(header.id), HEADER_BYTES, CURRENT, header.salt)
}

/// Gives frames until there were enough. Returns where to go on, if there are more; else every segment follows the one before
/// it, also those without a frame: what is written from now on stands behind them.
fn read_on<D: Disk>(
    disk: &mut D,
    held: &mut Held<D::File>,
    mut cursor: Cursor<D::File>,
    (from, bytes): (Position, usize),
    each: &mut dyn FnMut(Replayed<'_>),
) -> Result<Option<Cursor<D::File>>, LogError> {
    let mut given = 0;
    loop {
        let first = held.segments[cursor.index].header.first;
        if let Some(next) = held.segments.get(cursor.index + 1).map(|next| next.header)
            && next.first <= cursor.previous.position + 1
        {
            next.follows(&cursor.previous).map_err(|damage| damaged(name_of(next.id), 0, damage, &cursor.previous))?;
            held.segments[cursor.index].used = cursor.scan.offset();
            held.recount();
            cursor.index += 1;
            cursor.scan = begin(disk, held, cursor.index)?;
            continue;
        }
        if cursor.previous.position >= held.last.position {
            return Ok(None);
        }
        if given >= bytes {
            return Ok(Some(cursor));
        }
        let offset = cursor.scan.offset();
        let frame = cursor.scan.frame()?.and_then(|frame| frame::follows(&frame, &cursor.previous).map(|()| frame));
        let frame = match frame {
            Ok(frame) => frame,
            Err(damage) => return Err(damaged(cursor.scan.name.clone(), offset, damage, &cursor.previous)),
        };
        let position = frame.header.position;
        if position >= from {
            each(Replayed { position, begins_segment: position == first, batch: frame.batch });
            given += frame.len;
        }
        cursor.previous = Header { previous_crc: frame.crc, ..frame.header };
        let len = frame.len;
        cursor.scan.pass(len);
    }
}

fn damaged(file: String, offset: u64, damage: Damage, previous: &Header) -> LogError {
    let from = previous.position + 1;
    LogError::Damaged { file, offset, damage, loss: Loss { from, to: from, batches: 1, bytes: 0, at_least: false } }
}
