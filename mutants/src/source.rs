//! A file's text, in which places are known by line and column.

use std::ops::Range;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::Stretch;

/// A place as cargo-mutants says it: both count from 1, columns in characters.
#[derive(Debug, Deserialize, Clone, Copy)]
pub(crate) struct Place {
    line: usize,
    column: usize,
}

pub(crate) struct Source {
    text: String,
    /// Where each line begins.
    lines: Vec<usize>,
}

impl Source {
    pub(crate) fn new(text: String) -> Self {
        let ends = text.match_indices('\n').map(|(at, _)| at + 1);
        Self { lines: std::iter::once(0).chain(ends).collect(), text }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// From which byte to which.
    pub(crate) fn stretch(&self, stretch: &Stretch) -> Result<Range<usize>> {
        Ok(self.offset(stretch.start)?..self.offset(stretch.end)?)
    }

    fn offset(&self, place: Place) -> Result<usize> {
        let begin = *self.lines.get(place.line - 1).context("the list is of another state of the source")?;
        let within = self.text[begin..].char_indices().nth(place.column - 1).map(|(at, _)| at);
        Ok(begin + within.unwrap_or(self.text.len() - begin))
    }

    #[cfg(test)]
    pub(crate) fn place(&self, offset: usize) -> Place {
        let line = self.lines.partition_point(|begin| *begin <= offset);
        Place { line, column: 1 + self.text[self.lines[line - 1]..offset].chars().count() }
    }

    /// A stretch of it, with another stretch within replaced.
    pub(crate) fn with(&self, stretch: Range<usize>, within: Range<usize>, replacement: &str) -> String {
        format!("{}{replacement}{}", &self.text[stretch.start..within.start], &self.text[within.end..stretch.end])
    }
}
