//! What every protocol has to be able to do.

use jobyard_engine::{Command, Limits, Now, Reply};

use crate::input::Input;
use crate::surroundings::{Host, LogView, Tallies};

/// What a codec made of the input.
#[derive(Debug)]
pub enum Next {
    /// There is no whole request yet. Whatever was of no more use has been taken off the input.
    More,
    /// A whole command for the engine; its reply is to be given to [`Codec::encode`] before
    /// [`Codec::decode`] is called again.
    Command(Command),
    /// A whole request that needed no engine: the codec has written its answer, if it has one.
    Answered,
    /// Nothing more is to be read: what the codec has written goes out, then the connection ends.
    Close,
}

/// What a codec may know of the world around it.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// What time it is.
    pub now: Now,
    /// What the server accepts at most.
    pub limits: &'a Limits,
    /// Clients connected now.
    pub clients: usize,
    /// Clients that connected since the start.
    pub clients_total: u64,
    /// Which of these this one is, from 1.
    pub client: u64,
    /// When the server started, on the wall clock.
    pub started_wall_ms: i64,
    /// Whether the server is ready to work.
    pub health: Health,
    /// What is counted over all connections.
    pub tallies: &'a Tallies,
    /// The machine and the process.
    pub host: &'a Host,
    /// The log.
    pub log: LogView,
}

/// Whether the server is ready to work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// It is still reading its log.
    Starting,
    /// It is.
    Ready,
    /// It takes no more jobs, or is about to stop.
    Draining,
}

/// Why the server has to end a connection that did nothing wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Farewell {
    /// There is no room for one more client.
    TooManyClients,
    /// There is no room for what all clients have begun to send; this one had the most of it.
    TooMuchInput,
}

impl Farewell {
    /// In words, without a full stop.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Farewell::TooManyClients => "Too many clients",
            Farewell::TooMuchInput => "Too much unfinished input",
        }
    }
}

/// One connection's side of a protocol. It keeps what the next bytes or the next reply depend on:
/// there is never more than one command without a reply.
pub trait Codec: Send {
    /// Takes one whole request off the front of `input`, or says that more bytes are needed. It is called once before
    /// anything has arrived: connecting itself may be a request.
    /// Whatever can be answered without the engine is written to `out`.
    fn decode(&mut self, input: &mut Input, out: &mut Vec<u8>, context: &Context<'_>) -> Next;

    /// Writes the reply to the command that [`Codec::decode`] returned last.
    fn encode(&mut self, reply: &Reply<'_>, out: &mut Vec<u8>, context: &Context<'_>);

    /// The client has stopped sending, and `input` holds the beginning of a request at most.
    /// A protocol that has an answer to that writes it; the connection ends.
    fn end(&mut self, _input: &Input, _out: &mut Vec<u8>) {}

    /// Memory taken by a request that is not whole yet, beside what is still in the input.
    fn unfinished_bytes(&self) -> usize {
        0
    }

    /// Memory taken by what is kept from one request to the next.
    fn kept_bytes(&self) -> usize {
        0
    }

    /// The server has to end this connection, and says why, in the protocol's own form.
    fn last_words(&mut self, why: Farewell, out: &mut Vec<u8>);

    /// The engine time at which this connection has been silent for too long, if there is one.
    fn deadline_ms(&self) -> Option<u64> {
        None
    }

    /// The deadline has passed: last words are written to `out`; the connection ends.
    fn deadline_passed(&mut self, _out: &mut Vec<u8>) {}

    /// The server did not read this connection for so long: the deadline moves by as much.
    fn postpone(&mut self, _by_ms: u64) {}
}
