//! A log that says what it was told to say, and notes what it is asked.

use std::collections::VecDeque;

use jobyard_log::{Batch, Claim, Completion, Extent, Log, LogError, Moment, Position, Replayed};

pub(crate) struct ToldLog {
    pub(crate) claim: Claim,
    /// The payloads there are to replay, one at a time: each begins a segment.
    pub(crate) payloads: Vec<Vec<u8>>,
    /// What becomes of batches, the next one first. All others are durable at once.
    pub(crate) completions: VecDeque<Option<Completion>>,
    pub(crate) extent: Extent,
    pub(crate) trouble: Option<&'static str>,
    pub(crate) shortage: Option<&'static str>,
    pub(crate) due_ms: Option<u64>,
    pub(crate) wakes: bool,
    pub(crate) submitted: Vec<Position>,
    /// How long each batch's payload was.
    pub(crate) lengths: Vec<usize>,
    /// Where it was told to begin.
    pub(crate) truncated: Vec<Position>,
    pub(crate) closed: u32,
}

impl ToldLog {
    /// One that holds nothing, and has room for all.
    pub(crate) fn new() -> Self {
        ToldLog {
            claim: Claim { epoch: 1, first: 1, tail: 0, bytes: 0, notices: Vec::new() },
            payloads: Vec::new(),
            completions: VecDeque::new(),
            extent: Extent::BOUNDLESS,
            trouble: None,
            shortage: None,
            due_ms: None,
            wakes: false,
            submitted: Vec::new(),
            lengths: Vec::new(),
            truncated: Vec::new(),
            closed: 0,
        }
    }
}

impl Log for ToldLog {
    fn claim(&mut self, _seen_epoch: u64) -> Result<Claim, LogError> {
        Ok(self.claim.clone())
    }

    fn replay(
        &mut self,
        from: Position,
        _bytes: usize,
        each: &mut dyn FnMut(Replayed<'_>),
    ) -> Result<Option<Position>, LogError> {
        let Some(payload) = usize::try_from(from - 1).ok().and_then(|index| self.payloads.get(index)) else {
            return Ok(None);
        };
        let batch = Batch { at: Moment::default(), payload };
        each(Replayed { position: from, begins_segment: true, batch });
        Ok((from < self.payloads.len() as u64).then_some(from + 1))
    }

    fn submit(&mut self, _epoch: u64, expected_position: Position, batch: Batch<'_>) {
        self.submitted.push(expected_position);
        self.lengths.push(batch.payload.len());
    }

    fn completed(&mut self) -> Option<Completion> {
        let durable = || self.submitted.last().copied().map(Completion::Durable);
        self.completions.pop_front().unwrap_or_else(durable)
    }

    fn wakes(&self) -> bool {
        self.wakes
    }

    fn truncate_before(&mut self, position: Position) {
        self.truncated.push(position);
    }

    fn extent(&self) -> Extent {
        self.extent
    }

    fn tend(&mut self, _engine_ms: u64) -> Option<u64> {
        self.due_ms
    }

    fn close(&mut self) {
        self.closed += 1;
    }

    fn shortage(&self) -> Option<String> {
        self.shortage.map(str::to_owned)
    }

    fn trouble(&self) -> Option<String> {
        self.trouble.map(str::to_owned)
    }
}
