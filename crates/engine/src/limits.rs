//! The limits of the server, in one place. What a protocol's grammar allows is said in that protocol's files.

/// What the server accepts at most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes in a job's body or result.
    pub body_bytes_max: usize,
    /// Bytes in a body or result where its protocol promises a block of less than a body's length.
    pub block_bytes_max: usize,
    /// Bytes that a line may hold beside a body.
    pub line_extra_bytes_max: usize,
    /// Unfinished input over all clients, if that is no more than a quarter of the memory.
    pub input_bytes_max: usize,
    /// Output that waits for one client; beyond it the client is no longer read.
    pub output_bytes_max: usize,
    /// Steps in one atomic group.
    pub group_steps_max: usize,
    /// Bytes of bodies in one atomic group.
    pub group_bytes_max: usize,
    /// Bytes in a new queue's name.
    pub queue_name_bytes_max: usize,
    /// Queues named in one lease command.
    pub queues_named_max: usize,
    /// Queues in all.
    pub queues_max: usize,
    /// Jobs that one client may hold until its connection ends.
    pub held_max: usize,
    /// Jobs of a queue that one command may revive.
    pub revived_max: usize,
    /// Clients connected at once.
    pub clients_max: usize,
    /// Bytes read from one client in one turn, and written for it before the next has its own.
    pub turn_bytes_max: usize,
    /// Commands carried out for one client in one turn.
    pub turn_commands_max: usize,
    /// Memory that jobs, sessions and buffers may take.
    pub memory_bytes_max: usize,
    /// How long a lease lasts where neither the job nor its taker says.
    pub default_lease_ms: u64,
    /// How long a job that has no rules of its own rests after its holder vanished.
    pub vanished_rest_ms: u64,
}

impl Limits {
    /// Bytes in one line of a text protocol.
    #[must_use]
    pub fn line_bytes_max(&self) -> usize {
        self.body_bytes_max + self.line_extra_bytes_max
    }

    /// Unfinished input over all clients: a quarter of the memory at most, so that jobs and it together stay within
    /// that, but always enough for one line.
    #[must_use]
    pub fn unfinished_bytes_max(&self) -> usize {
        self.input_bytes_max.min((self.memory_bytes_max / 4).max(self.line_bytes_max()))
    }
}

impl Default for Limits {
    fn default() -> Self {
        const MIB: usize = 1 << 20;
        Limits {
            body_bytes_max: 16 * MIB,
            block_bytes_max: MIB,
            line_extra_bytes_max: 64 << 10,
            input_bytes_max: 256 * MIB,
            output_bytes_max: MIB,
            group_steps_max: 1_000,
            group_bytes_max: 16 * MIB,
            queue_name_bytes_max: MIB,
            queues_named_max: 1_000,
            queues_max: 1_000_000,
            held_max: 10_000,
            revived_max: 100_000,
            clients_max: 20_000,
            turn_bytes_max: 64 << 10,
            turn_commands_max: 64,
            memory_bytes_max: usize::MAX,
            default_lease_ms: 60_000,
            vanished_rest_ms: 1_000,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unfinished_input_has_a_quarter_of_the_memory_or_room_for_a_line() {
        let bytes_max = |memory_bytes_max| Limits { memory_bytes_max, ..Limits::default() }.unfinished_bytes_max();
        assert_eq!(bytes_max(usize::MAX), 256 << 20);
        assert_eq!(bytes_max(1 << 30), 256 << 20);
        assert_eq!(bytes_max(200 << 20), 50 << 20);
        assert_eq!(bytes_max(1), Limits::default().line_bytes_max());
        let small = Limits { input_bytes_max: 10, ..Limits::default() };
        assert_eq!(small.unfinished_bytes_max(), 10);
    }

    /// Written out: a default that changes must be changed here and in `docs/limits.md` too.
    #[test]
    fn the_defaults_are_those_that_were_promised() {
        let promised = Limits {
            body_bytes_max: 16_777_216,
            block_bytes_max: 1_048_576,
            line_extra_bytes_max: 65_536,
            input_bytes_max: 268_435_456,
            output_bytes_max: 1_048_576,
            group_steps_max: 1_000,
            group_bytes_max: 16_777_216,
            queue_name_bytes_max: 1_048_576,
            queues_named_max: 1_000,
            queues_max: 1_000_000,
            held_max: 10_000,
            revived_max: 100_000,
            clients_max: 20_000,
            turn_bytes_max: 65_536,
            turn_commands_max: 64,
            // The server sets it.
            memory_bytes_max: usize::MAX,
            default_lease_ms: 60_000,
            vanished_rest_ms: 1_000,
        };
        assert_eq!(Limits::default(), promised);
        assert_eq!(promised.line_bytes_max(), 16_842_752);
    }
}
