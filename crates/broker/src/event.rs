//! What the broker is told, and what it tells the world to do. Sockets, signals and clocks are
//! cables: whoever holds them turns what happens into events and carries out the actions.

use jobyard_engine::ClientId;

/// The two clocks, as the machine has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// Milliseconds since the machine was booted, or since any other moment; never goes back.
    pub monotonic_ms: u64,
    /// Which boot that was, the same in every process until the next; 0 if nobody knows.
    pub boot: u64,
    /// Milliseconds since 1970 UTC; may step.
    pub wall_ms: i64,
}

/// How many of a client's lowest bits are its slot: a number that no other client has while it is connected, and about as small
/// as can be. Clients are found by it.
pub const SLOT_BITS: u32 = 24;

/// A client's slot.
#[must_use]
pub fn slot(id: ClientId) -> usize {
    usize::try_from(id.0 & ((1 << SLOT_BITS) - 1)).expect("a slot is short")
}

/// Something that happened.
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    /// A client connected to a listener (by its index in the configuration).
    Accepted {
        /// Its id, never used before in this process, and with a slot ([`SLOT_BITS`]) that no other client has now.
        client: ClientId,
        /// The listener.
        listener: usize,
    },
    /// There may be something to read.
    Readable(ClientId),
    /// The answer to [`Action::Read`]: what was read.
    Received {
        /// From whom.
        client: ClientId,
        /// The bytes; may be none if there was nothing after all.
        bytes: Vec<u8>,
        /// Whether there may be more now. If not, a [`Event::Readable`] will tell.
        more: bool,
    },
    /// The client sends nothing beyond what has arrived; [`Event::Ended`] comes when all of that was read.
    Ending(ClientId),
    /// The answer to [`Action::Read`]: the client sends nothing more.
    Ended(ClientId),
    /// The connection is dead: nothing can be read from it or written to it.
    Gone(ClientId),
    /// Nothing can be written to the client any more. What had arrived from it can still be read, up to its end.
    Lost(ClientId),
    /// There is room to write again.
    Writable(ClientId),
    /// The answer to [`Action::Write`].
    Wrote {
        /// To whom.
        client: ClientId,
        /// How many bytes the kernel took.
        count: usize,
    },
    /// The process was told to stop (again).
    Stop,
    /// The process was told to take no more jobs.
    Drain,
}

/// Something to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Read once from this client, at most so many bytes; answer with [`Event::Received`], [`Event::Ended`] or
    /// [`Event::Gone`].
    Read {
        /// From whom.
        client: ClientId,
        /// How much.
        at_most: usize,
    },
    /// Write once what [`Broker::output`](crate::Broker::output) has for this client; answer with [`Event::Wrote`] or
    /// [`Event::Lost`]. If not all was taken, [`Event::Writable`] will tell.
    Write(ClientId),
    /// Write nothing more to this client: shut that direction down. Reading goes on.
    Finish(ClientId),
    /// Close the connection. The broker has forgotten the client.
    Close(ClientId),
    /// Accept no more clients.
    CloseListeners,
    /// All is done: end the process.
    Exit,
}

/// When the next turn is due if nothing happens before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sleep {
    /// At once.
    No,
    /// After this many milliseconds.
    Millis(u64),
    /// Not before something happens.
    Forever,
}
