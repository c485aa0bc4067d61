//! Reading a segment's frames one after the other, in large reads and without copying.

use super::format::Format;
use super::volume::{self, ReadFile};
use crate::error::LogError;
use crate::frame::{Damage, Frame};

/// How much is read at once, at least.
const WINDOW_BYTES: usize = 1024 * 1024;

/// A segment's file, and the part of it that was read.
#[derive(Debug)]
pub(crate) struct Scan<F> {
    pub file: F,
    pub name: String,
    /// How long the file was at the beginning.
    pub bytes: u64,
    format: Format,
    salt: u64,
    window: Vec<u8>,
    /// Where in the file the window begins.
    base: u64,
    /// Where in the window the next frame begins.
    at: usize,
    /// Whether what the disk cannot read is damage like any other.
    forgiving: bool,
}

impl<F: ReadFile> Scan<F> {
    pub fn new(file: F, name: String, offset: u64, format: Format, salt: u64) -> Result<Self, LogError> {
        let bytes = volume::bytes(&file, &name)?;
        Ok(Scan { file, name, bytes, format, salt, window: Vec::new(), base: offset, at: 0, forgiving: false })
    }

    /// What the disk cannot read is from now on damage like any other.
    pub fn forgiving(self) -> Self {
        Scan { forgiving: true, ..self }
    }

    /// Where in the file the next frame begins.
    pub fn offset(&self) -> u64 {
        self.base + self.at as u64
    }

    /// The next frame, or what is wrong with it. It stays the next one.
    pub fn frame(&mut self) -> Result<Result<Frame<'_>, Damage>, LogError> {
        self.fill(self.format.header_bytes)?;
        if let Some((_, len)) = (self.format.peek)(&self.window[self.at..], self.salt) {
            self.fill(len)?;
        }
        Ok((self.format.decode)(&self.window[self.at..], self.salt))
    }

    /// Goes on so many bytes ahead.
    pub fn pass(&mut self, len: usize) {
        let there = len.min(self.window.len() - self.at);
        self.at += there;
        if there < len {
            self.base = self.offset() + (len - there) as u64;
            self.at = 0;
            self.window.clear();
        }
    }

    /// The next so many bytes, which a frame was read from.
    pub fn ahead(&self, len: usize) -> &[u8] {
        &self.window[self.at..self.at + len]
    }

    /// Forgets what was read ahead: someone may have written it meanwhile.
    pub fn look_again(&mut self) -> Result<(), LogError> {
        self.base = self.offset();
        self.at = 0;
        self.window.clear();
        self.bytes = volume::bytes(&self.file, &self.name)?;
        Ok(())
    }

    /// What follows, to the end of the file.
    pub fn rest(&self) -> Result<Vec<u8>, LogError> {
        let left = usize::try_from(self.bytes.saturating_sub(self.offset())).unwrap_or(usize::MAX);
        let mut rest = vec![0; left];
        let there = self.read(self.offset(), &mut rest)?;
        rest.truncate(there);
        Ok(rest)
    }

    /// Has so many bytes in the window, unless the file ends before.
    fn fill(&mut self, wanted: usize) -> Result<(), LogError> {
        let there = self.window.len() - self.at;
        if there >= wanted {
            return Ok(());
        }
        self.window.copy_within(self.at.., 0);
        self.base += self.at as u64;
        self.at = 0;
        let left = usize::try_from(self.bytes.saturating_sub(self.base)).unwrap_or(usize::MAX);
        let target = wanted.max(WINDOW_BYTES).min(left).max(there);
        self.window.resize(target, 0);
        self.window.shrink_to(target.max(WINDOW_BYTES));
        let mut window = std::mem::take(&mut self.window);
        let more = self.read(self.base + there as u64, &mut window[there..])?;
        self.window = window;
        self.window.truncate(there + more);
        Ok(())
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<usize, LogError> {
        if self.forgiving {
            return Ok(volume::read_what_can_be(&self.file, offset, into));
        }
        volume::read(&self.file, &self.name, offset, into)
    }
}
