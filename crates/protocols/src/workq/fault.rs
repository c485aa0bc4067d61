//! What a client can do wrong, and what it is told.

/// Why a request was not understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// No such verb, or no such thing to inspect.
    Verb,
    /// Too few or too many words or flags.
    Arguments,
    /// A flag without a key or a value, or one that is given twice.
    Flags,
    /// A payload's size is no number, too large, or not what came.
    PayloadSize,
    /// A failure's result has no such size.
    ResultSize,
    /// No UUID.
    Id,
    /// No name of a queue.
    Name,
    /// Not 1 to 86,400,000.
    Ttr,
    /// Not 1 to 2⁶⁴−1.
    Ttl,
    /// Not `YYYY-MM-DDTHH:MM:SSZ`, or so long ago that the job would be gone.
    Time,
    /// Not 0 to 255.
    MaxAttempts,
    /// Not 0 to 255.
    MaxFails,
    /// No 32-bit number.
    Priority,
    /// Not 0 to 86,400,000.
    WaitTimeout,
    /// No 32-bit number.
    CursorOffset,
    /// Not 1 to 100.
    Limit,
    /// More queues than a command may name.
    TooManyNames,
    /// A line beyond all that a command needs.
    LineTooLong,
    /// A living job has that id.
    DuplicateJob,
    /// The job has its result.
    DuplicateResult,
}

impl Fault {
    /// Tells the client.
    pub(super) fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"-CLIENT-ERROR ");
        out.extend_from_slice(self.text().as_bytes());
        out.extend_from_slice(b"\r\n");
    }

    fn text(self) -> &'static str {
        match self {
            Fault::Verb => "Unknown command",
            Fault::Arguments => "Invalid command args",
            Fault::Flags => "Invalid command flags",
            Fault::PayloadSize => "Invalid payload size",
            Fault::ResultSize => "Invalid result size",
            Fault::Id => "Invalid ID",
            Fault::Name => "Invalid Name",
            Fault::Ttr => "Invalid TTR",
            Fault::Ttl => "Invalid TTL",
            Fault::Time => "Invalid Time",
            Fault::MaxAttempts => "Invalid Max Attempts",
            Fault::MaxFails => "Invalid Max Fails",
            Fault::Priority => "Invalid Priority",
            Fault::WaitTimeout => "Invalid wait timeout",
            Fault::CursorOffset => "Invalid cursor offset",
            Fault::Limit => "Invalid limit",
            Fault::TooManyNames => "Too many names",
            Fault::LineTooLong => "Line too long",
            Fault::DuplicateJob => "Duplicate job",
            Fault::DuplicateResult => "Duplicate result",
        }
    }
}
