//! What a transcript can be played in: a server and its clients, time, and a way to look.

use std::fmt;

/// A server with clients. Clients are called by the names that the transcript gives them; a name is
/// opened before it is used, and can be opened again once its client is gone.
///
/// A world is made for one play of one transcript, from its [`Setup`](super::Setup): a fresh server
/// with those limits and listeners, at 2026-01-01T00:00:00Z, whose time stands still.
pub trait World {
    /// Connects a client to a listener, by its index in the setup.
    ///
    /// # Errors
    /// If the server takes no more clients.
    fn open(&mut self, client: &str, listener: usize) -> Result<(), Trouble>;

    /// Sends bytes, as one piece, and lets the server work a little. If the server has closed the connection
    /// meanwhile, they go nowhere.
    ///
    /// # Errors
    /// If the client never was.
    fn send(&mut self, client: &str, bytes: &[u8]) -> Result<(), Trouble>;

    /// The client sends nothing more, but still reads.
    ///
    /// # Errors
    /// If the client never was.
    fn end(&mut self, client: &str) -> Result<(), Trouble>;

    /// The client closes its connection altogether, also if the server has closed it before.
    ///
    /// # Errors
    /// If the client never was.
    fn leave(&mut self, client: &str) -> Result<(), Trouble>;

    /// Lets the server work until it has nothing to do: all that was sent is carried out, and the
    /// answers are on their way.
    ///
    /// # Errors
    /// If the server does not come to rest, or has died.
    fn settle(&mut self) -> Result<(), Trouble>;

    /// Appends all the output that this client has received and that was not given before. If this
    /// makes `heard` shorter than `bytes_min`, more is waited for, as long as this world's patience
    /// lasts or until the server closes the connection.
    ///
    /// # Errors
    /// If the connection broke.
    fn hear(&mut self, client: &str, heard: &mut Vec<u8>, bytes_min: usize) -> Result<(), Trouble>;

    /// Whether the server has closed this connection, after all the output that [`World::hear`] gave.
    /// With `expected`, that is waited for as long as this world's patience lasts.
    ///
    /// # Errors
    /// If the client never was.
    fn closed(&mut self, client: &str, expected: bool) -> Result<bool, Trouble>;

    /// Time passes on both clocks; what falls due is done at its time.
    ///
    /// # Errors
    /// If the server does not come to rest, or has died.
    fn wait(&mut self, ms: u64) -> Result<(), Trouble>;

    /// The wall clock steps; engine time stands still.
    ///
    /// # Errors
    /// If the server does not come to rest, or has died.
    fn step_clock(&mut self, by_ms: i64) -> Result<(), Trouble>;

    /// The server is killed, if it still runs, and started again from its log. All clients are gone.
    ///
    /// # Errors
    /// If it does not start.
    fn restart(&mut self) -> Result<(), Trouble>;

    /// The power goes out, and the machine and its server are started again from what its disk kept. All clients are gone.
    /// In a world without a disk of its own, this is a restart.
    ///
    /// # Errors
    /// If the server does not start.
    fn crash(&mut self) -> Result<(), Trouble> {
        self.restart()
    }

    /// The server's disk is full but for the reserve, or has room again.
    ///
    /// # Errors
    /// If it does not run.
    fn fill_disk(&mut self, full: bool) -> Result<(), Trouble>;

    /// The server is told to take no more jobs.
    ///
    /// # Errors
    /// If it does not run.
    fn drain(&mut self) -> Result<(), Trouble>;

    /// The server is told to stop, and ends.
    ///
    /// # Errors
    /// If it does not end, or not well.
    fn stop(&mut self) -> Result<(), Trouble>;
}

/// Why a world could not do what the transcript says. This is a failure of the play.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble(pub String);

impl Trouble {
    /// The trouble described by `text`.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Trouble(text.into())
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Trouble {}
