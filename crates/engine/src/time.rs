//! The two clocks, as arguments. Nothing in this crate reads a clock or rolls dice.

/// What time it is, and one roll of the dice, for one call into the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Engine time: moves only forward. Durations (leases, lifetimes, back-off, waits) run on it.
    pub engine_ms: u64,
    /// The wall clock, milliseconds since 1970 UTC. May step either way. Dates run on it.
    pub wall_ms: i64,
    /// A uniformly random number, used to choose among queues at random.
    pub random: u64,
}

/// A moment that never comes.
pub const NEVER_MS: u64 = u64::MAX;

/// Earliest moments at which [`Engine::tick`](crate::Engine::tick) has something to do, one for each clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NextDeadline {
    /// On engine time.
    pub engine_ms: Option<u64>,
    /// On the wall clock.
    pub wall_ms: Option<i64>,
}
