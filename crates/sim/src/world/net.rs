//! A connection: what is under way in both directions, in which pieces it arrives, and how it ends.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use jobyard_broker::Event;
use jobyard_engine::ClientId;

use crate::random::below;

/// How a connection behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Manners {
    /// What is sent arrives in pieces of at most so many bytes. 0: as it was sent.
    pub piece_bytes_max: usize,
    /// Of what is under way, something arrives in one of so many turns.
    pub delay: usize,
    /// What the server writes is taken in pieces of at most so many bytes. 0: all of it.
    pub taken_bytes_max: usize,
}

impl Manners {
    /// All arrives at once, whole.
    pub const PLAIN: Manners = Manners { piece_bytes_max: 0, delay: 1, taken_bytes_max: 0 };
}

/// How a client goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parting {
    /// It sends nothing more, and still listens.
    HalfClose,
    /// It sends nothing more and listens no more; what it sent arrives first. With answers unread it is a reset.
    Close,
    /// Nothing that is under way arrives any more, in either direction.
    Reset,
}

/// Something that was heard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// In which turn it left the server.
    pub turn: u64,
    /// When, by the time that has passed.
    pub at_ms: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// What has happened to bytes between clients and the server, how often.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Troubles {
    /// What was sent at once arrived in pieces.
    pub cut: u64,
    /// What was sent had not arrived a turn later.
    pub late: u64,
    /// Not all of an answer was taken.
    pub taken_in_part: u64,
}

/// A connection, as the machines between two processes keep it.
#[derive(Debug)]
pub(super) struct Pipe {
    manners: Manners,
    /// Sent, and not arrived.
    under_way: VecDeque<Vec<u8>>,
    /// Arrived, and not read.
    arrived: VecDeque<Vec<u8>>,
    parting: Option<Parting>,
    /// Whether the server knows that the client sends nothing more.
    ending_told: bool,
    /// Whether the client reads.
    reading: bool,
    heard: Vec<Chunk>,
    /// How many bytes the server could write, heard or not.
    taken_bytes: usize,
    /// Whether the server has this connection.
    known: bool,
    /// Whether the server writes nothing more.
    finished: bool,
}

/// What the kernel takes for a client that does not read.
const WINDOW_BYTES: usize = 300;

impl Pipe {
    pub fn new(manners: Manners, known: bool) -> Self {
        Pipe {
            manners,
            under_way: VecDeque::new(),
            arrived: VecDeque::new(),
            parting: None,
            ending_told: false,
            reading: true,
            heard: Vec::new(),
            taken_bytes: 0,
            known,
            finished: !known,
        }
    }

    pub fn is_known(&self) -> bool {
        self.known
    }

    pub fn is_closed(&self) -> bool {
        self.finished
    }

    pub fn has_under_way(&self) -> bool {
        self.known && (!self.under_way.is_empty() || self.parting.is_some() && !self.ending_told)
    }

    pub fn has_unread(&self) -> bool {
        !self.reading && !self.heard.is_empty()
    }

    pub fn taken_bytes(&self) -> usize {
        self.taken_bytes
    }

    pub fn drop_under_way(&mut self) {
        self.under_way.clear();
        self.ending_told = true;
    }

    pub fn send(&mut self, bytes: &[u8]) {
        if self.known && self.parting.is_none() {
            self.under_way.push_back(bytes.to_vec());
        }
    }

    pub fn part(&mut self, parting: Parting) {
        self.parting = Some(parting);
        if parting == Parting::Reset {
            self.under_way.clear();
            self.arrived.clear();
            self.ending_told = true;
        }
        if parting != Parting::HalfClose {
            self.heard.clear();
        }
    }

    /// Whether the server can now write to it again.
    pub fn set_reading(&mut self, reading: bool) -> bool {
        let woken = reading && !self.reading;
        self.reading = reading;
        woken && self.known
    }

    pub fn hear(&mut self) -> Vec<Chunk> {
        if self.reading { std::mem::take(&mut self.heard) } else { Vec::new() }
    }

    /// Some of what is under way arrives, or all. Whether something did.
    pub fn deliver(&mut self, all: bool, random: &mut u64, troubles: &mut Troubles) -> bool {
        if !self.known || self.under_way.is_empty() {
            return false;
        }
        if !all && below(random, self.manners.delay.max(1)) > 0 {
            troubles.late += 1;
            return false;
        }
        let count = if all { self.under_way.len() } else { 1 };
        for bytes in self.under_way.drain(..count) {
            let piece =
                if self.manners.piece_bytes_max == 0 { bytes.len().max(1) } else { self.manners.piece_bytes_max };
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                let (one, more) = rest.split_at((1 + below(random, piece)).min(rest.len()));
                let one = if self.manners.piece_bytes_max == 0 { rest } else { one };
                self.arrived.push_back(one.to_vec());
                rest = if self.manners.piece_bytes_max == 0 { &[] } else { more };
                troubles.cut += u64::from(!rest.is_empty());
            }
        }
        true
    }

    /// What has arrived in pieces lies there as one.
    pub fn join_arrived(&mut self) {
        let joined: Vec<u8> = self.arrived.drain(..).flatten().collect();
        if !joined.is_empty() {
            self.arrived.push_back(joined);
        }
    }

    /// Whether the server learns now that the client sends nothing more.
    pub fn ending_arrives(&mut self) -> bool {
        let arrives = self.known && self.parting.is_some() && !self.ending_told && self.under_way.is_empty();
        self.ending_told |= arrives;
        arrives
    }

    pub fn read(&mut self, client: ClientId, at_most: usize) -> Event {
        if self.parting == Some(Parting::Reset) {
            return Event::Gone(client);
        }
        let ended = self.ending_told && self.parting.is_some();
        match self.arrived.pop_front() {
            Some(mut bytes) => {
                if bytes.len() > at_most {
                    self.arrived.push_front(bytes.split_off(at_most));
                }
                Event::Received { client, bytes, more: !self.arrived.is_empty() || ended }
            }
            None if ended => Event::Ended(client),
            None => Event::Received { client, bytes: Vec::new(), more: false },
        }
    }

    /// The server writes. How much is taken; nothing if nobody is there.
    pub fn write(
        &mut self,
        output: &[u8],
        (turn, at_ms): (u64, u64),
        random: &mut u64,
        troubles: &mut Troubles,
    ) -> Option<usize> {
        if self.parting.is_some_and(|parting| parting != Parting::HalfClose) && self.ending_told {
            return None;
        }
        let window = if self.reading { usize::MAX } else { WINDOW_BYTES.saturating_sub(self.unread_bytes()) };
        let piece = match self.manners.taken_bytes_max {
            0 => usize::MAX,
            most => 1 + below(random, most),
        };
        let count = output.len().min(window).min(piece);
        self.taken_bytes += count;
        troubles.taken_in_part += u64::from(count < output.len());
        if count > 0 {
            self.heard.push(Chunk { turn, at_ms, bytes: output[..count].to_vec() });
        }
        Some(count)
    }

    /// Whether it would take more now.
    pub fn takes(&self) -> bool {
        self.reading || self.unread_bytes() < WINDOW_BYTES
    }

    fn unread_bytes(&self) -> usize {
        self.heard.iter().map(|chunk| chunk.bytes.len()).sum()
    }

    pub fn finish(&mut self) {
        self.finished = true;
    }

    pub fn close(&mut self) {
        (self.finished, self.known) = (true, false);
        self.under_way.clear();
        self.arrived.clear();
    }

    /// The server is gone.
    pub fn cut_off(&mut self) {
        self.close();
    }
}
