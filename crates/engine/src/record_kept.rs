//! The record of a job that is kept when the log lets go of its beginning: the whole durable state.

use crate::bytes::{Damaged, Reader, bytes_len, date_len, number_len, put_bytes, put_number, put_signed};
use crate::job::{Due, Job, Rank, Rare, State, dated_rank};
use crate::names::LeaseId;
use crate::record_job::{Enqueued, Full};

/// All that is durable of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kept<'a> {
    /// What it was put with. Whether it is delayed, and its expiry, are said below.
    pub(crate) base: Enqueued<'a>,
    /// Never held: that is ready.
    pub(crate) state: State,
    pub(crate) expires_ms: Option<u64>,
    pub(crate) attempts: u64,
    pub(crate) failures: u64,
    pub(crate) result: Option<Box<[u8]>>,
    pub(crate) rank: Rank,
}

/// Which state, in the first byte's lower bits.
mod state {
    pub(super) const BITS: u8 = 7;
    pub(super) const BLOCKED: u8 = 0;
    pub(super) const DELAYED_TO_DATE: u8 = 1;
    pub(super) const DELAYED: u8 = 2;
    pub(super) const READY: u8 = 3;
    pub(super) const LEASED: u8 = 4;
    pub(super) const DONE: u8 = 5;
    pub(super) const FAILED: u8 = 6;
    pub(super) const BURIED: u8 = 7;
}

/// Which parts follow.
mod has {
    pub(super) const ATTEMPTS: u8 = 8;
    pub(super) const FAILURES: u8 = 16;
    pub(super) const RESULT: u8 = 32;
    pub(super) const EXPIRY: u8 = 64;
    /// Another rank than the one its date gave it.
    pub(super) const RANK: u8 = 128;
}

/// The same, as it is written.
pub(crate) struct KeptFull<'a> {
    base: Full<'a>,
    state: State,
    expires_ms: Option<u64>,
    attempts: u64,
    failures: u64,
    result: Option<&'a [u8]>,
    rank: Rank,
}

impl Job {
    /// Its whole durable state.
    pub(crate) fn kept<'a>(&'a self, queue: &'a [u8]) -> KeptFull<'a> {
        let rare = self.rare.as_deref();
        KeptFull {
            base: self.full(queue),
            state: self.state,
            expires_ms: rare.and_then(|rare| rare.expires_ms),
            attempts: rare.map_or(0, |rare| rare.attempts),
            failures: rare
                .filter(|_| !crate::broken("engine-compaction-forgets-failures"))
                .map_or(0, |rare| rare.failures),
            result: rare.and_then(|rare| rare.result.as_deref()),
            rank: self.rank(),
        }
    }

    /// How long that is when written, but for the queue's name.
    pub(crate) fn kept_len(&self) -> usize {
        1 + self.full_len() + state_len(self.state) + self.rare.as_deref().map_or(0, Rare::kept_len)
    }
}

impl KeptFull<'_> {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let part = |there: bool, bit: u8| if there { bit } else { 0 };
        let is_ranked = self.rank != dated_rank(self.base.date);
        out.push(
            state_kind(self.state)
                | part(self.attempts != 0, has::ATTEMPTS)
                | part(self.failures != 0, has::FAILURES)
                | part(self.result.is_some(), has::RESULT)
                | part(self.expires_ms.is_some(), has::EXPIRY)
                | part(is_ranked, has::RANK),
        );
        self.base.encode(out);
        match self.state {
            State::Delayed { due: Due::Engine(until_ms), shown_wall_ms } => {
                put_number(out, until_ms);
                put_signed(out, shown_wall_ms.into());
            }
            State::Leased { lease, until_ms } => {
                put_number(out, lease.0);
                put_number(out, until_ms);
            }
            State::Buried { order } => put_number(out, order),
            _ => {}
        }
        if self.attempts != 0 {
            put_number(out, self.attempts);
        }
        if self.failures != 0 {
            put_number(out, self.failures);
        }
        if let Some(result) = self.result {
            put_bytes(out, result);
        }
        if let Some(expires_ms) = self.expires_ms {
            put_number(out, expires_ms);
        }
        if is_ranked {
            put_rank(out, self.rank);
        }
    }
}

fn put_rank(out: &mut Vec<u8>, rank: Rank) {
    let (kind, wall_ms) = match rank {
        Rank::Ahead(wall_ms) => (0, wall_ms),
        Rank::Usual => (1, 0),
        Rank::Behind(wall_ms) => (2, wall_ms),
    };
    out.push(kind);
    put_signed(out, wall_ms.into());
}

fn state_kind(state: State) -> u8 {
    match state {
        State::Blocked => state::BLOCKED,
        State::Delayed { due: Due::Wall(_), .. } => state::DELAYED_TO_DATE,
        State::Delayed { due: Due::Engine(_), .. } => state::DELAYED,
        State::Ready | State::Held { .. } => state::READY,
        State::Leased { .. } => state::LEASED,
        State::Done => state::DONE,
        State::Failed => state::FAILED,
        State::Buried { .. } => state::BURIED,
    }
}

/// How much of a kept job's record is due to its state.
pub(crate) fn state_len(state: State) -> usize {
    match state {
        State::Delayed { due: Due::Engine(until_ms), shown_wall_ms } => number_len(until_ms) + date_len(shown_wall_ms),
        State::Leased { lease, until_ms } => number_len(lease.0) + number_len(until_ms),
        State::Buried { order } => number_len(order),
        _ => 0,
    }
}

impl Rare {
    fn kept_len(&self) -> usize {
        let rank = match self.rank {
            rank if rank == dated_rank(self.date) => 0,
            Rank::Usual => 2,
            Rank::Ahead(wall_ms) | Rank::Behind(wall_ms) => 1 + date_len(wall_ms),
        };
        let counted = |count: u64| if count == 0 { 0 } else { number_len(count) };
        counted(self.attempts)
            + counted(self.failures)
            + self.result.as_ref().map_or(0, |result| bytes_len(result))
            + self.expires_ms.map_or(0, number_len)
            + rank
    }
}

impl<'a> Kept<'a> {
    pub(crate) fn full(&self) -> KeptFull<'_> {
        KeptFull {
            base: self.base.full(),
            state: self.state,
            expires_ms: self.expires_ms,
            attempts: self.attempts,
            failures: self.failures,
            result: self.result.as_deref(),
            rank: self.rank,
        }
    }

    pub(crate) fn decode(reader: &mut Reader<'a>) -> Result<Self, Damaged> {
        let parts = reader.byte()?;
        let base = Enqueued::decode(reader)?;
        if base.expires_ms.is_some() {
            return Err(Damaged);
        }
        let state = decode_state(parts & state::BITS, &base, reader)?;
        let has = |bit: u8| parts & bit != 0;
        Ok(Kept {
            state,
            attempts: if has(has::ATTEMPTS) { reader.number()? } else { 0 },
            failures: if has(has::FAILURES) { reader.number()? } else { 0 },
            result: if has(has::RESULT) { Some(reader.bytes()?.into()) } else { None },
            expires_ms: if has(has::EXPIRY) { Some(reader.number()?) } else { None },
            rank: if has(has::RANK) { decode_rank(reader)? } else { dated_rank(base.date) },
            base,
        })
    }
}

fn decode_state(kind: u8, base: &Enqueued<'_>, reader: &mut Reader<'_>) -> Result<State, Damaged> {
    if (kind == state::BLOCKED) == base.blockers.is_empty() {
        return Err(Damaged);
    }
    Ok(match kind {
        state::BLOCKED => State::Blocked,
        state::DELAYED_TO_DATE => {
            let (wall_ms, _) = base.date.ok_or(Damaged)?;
            State::Delayed { due: Due::Wall(wall_ms), shown_wall_ms: wall_ms }
        }
        state::DELAYED => State::Delayed { due: Due::Engine(reader.number()?), shown_wall_ms: reader.date()? },
        state::READY => State::Ready,
        state::LEASED => State::Leased { lease: LeaseId(reader.number()?), until_ms: reader.number()? },
        state::DONE => State::Done,
        state::FAILED => State::Failed,
        state::BURIED => State::Buried { order: reader.number()? },
        _ => return Err(Damaged),
    })
}

fn decode_rank(reader: &mut Reader<'_>) -> Result<Rank, Damaged> {
    let (kind, wall_ms) = (reader.byte()?, reader.date()?);
    match kind {
        0 => Ok(Rank::Ahead(wall_ms)),
        1 => Ok(Rank::Usual),
        2 => Ok(Rank::Behind(wall_ms)),
        _ => Err(Damaged),
    }
}
