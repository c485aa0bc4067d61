//! The wire protocols: bytes to commands, replies to bytes, and one table of them all.
//!
//! Absent here: the engine itself (only its vocabulary is used), sockets, clocks.

mod any;
pub mod beanstalkd;
mod codec;
mod dates;
mod goqueue;
mod guard;
mod http;
mod ids;
mod input;
mod jobcentre;
mod json;
mod masenko;
mod numbers;
mod options;
mod surroundings;
mod table;
mod takeanumber;
#[cfg(test)]
mod testing;
mod views;
mod workq;

pub use codec::{Codec, Context, Farewell, Health, Next};
pub use input::{Input, Line};
pub use options::{Dialect, OptionError, Options, parse_duration_ms};
pub use surroundings::{CpuTime, Host, LogView, Tallies};
pub use table::{ANY, Begins, Listener, PROTOCOLS, Protocol, find};

/// Whether this is broken on purpose, for a test that must notice it.
#[cfg(not(feature = "breakages"))]
pub(crate) const fn broken(_what: &str) -> bool {
    false
}
#[cfg(feature = "breakages")]
pub(crate) use jobyard_breakage::broken;
