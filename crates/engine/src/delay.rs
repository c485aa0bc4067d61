//! A while in which a job cannot be taken, as it is asked for and written.

use crate::bytes::{Damaged, Reader, date_len, number_len, put_number, put_signed};
use crate::job::{Due, State};
use crate::time::Now;

/// A job is not to be taken for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Delay {
    /// For so long, as it was asked for.
    pub(crate) ms: u64,
    /// Until then.
    pub(crate) until_ms: u64,
    /// When that is on the wall clock, as far as one can say.
    pub(crate) shown_wall_ms: i64,
}

impl Delay {
    /// One that begins now.
    pub(crate) fn from_now(now: Now, ms: u64) -> Self {
        let (until_ms, shown_wall_ms) = (now.engine_ms.saturating_add(ms), now.wall_ms.saturating_add_unsigned(ms));
        Delay { ms, until_ms, shown_wall_ms }
    }

    /// One of which only the length is known, if it has any.
    pub(crate) fn of_length(ms: u64) -> Option<Self> {
        (ms > 0).then_some(Delay { ms, until_ms: 0, shown_wall_ms: 0 })
    }

    /// The state of a job that waits for its end.
    pub(crate) fn state(self) -> State {
        State::Delayed { due: Due::Engine(self.until_ms), shown_wall_ms: self.shown_wall_ms }
    }

    pub(crate) fn encode(self, out: &mut Vec<u8>) {
        put_number(out, self.ms);
        put_number(out, self.until_ms);
        put_signed(out, self.shown_wall_ms.into());
    }

    /// How many bytes [`Delay::encode`] takes.
    pub(crate) fn len(self) -> usize {
        number_len(self.ms) + number_len(self.until_ms) + date_len(self.shown_wall_ms)
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, Damaged> {
        Ok(Delay { ms: reader.number()?, until_ms: reader.number()?, shown_wall_ms: reader.date()? })
    }

    /// Writes one that may be missing.
    pub(crate) fn put_optional(out: &mut Vec<u8>, delay: Option<Self>) {
        out.push(u8::from(delay.is_some()));
        if let Some(delay) = delay {
            delay.encode(out);
        }
    }

    pub(crate) fn optional(reader: &mut Reader<'_>) -> Result<Option<Self>, Damaged> {
        if reader.flag()? { Delay::decode(reader).map(Some) } else { Ok(None) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_length_is_no_delay() {
        assert_eq!(Delay::of_length(0), None);
        assert_eq!(Delay::of_length(1), Some(Delay { ms: 1, until_ms: 0, shown_wall_ms: 0 }));
    }
}
