//! The naive model that the engine is compared with, and the simulated world: what is plugged into the broker where
//! the server plugs in sockets, files and time.
//!
//! Absent here: the server, real clocks, real sockets.

pub mod clients;
pub mod disk;
pub mod fuzz;
pub mod ledger;
pub mod model;
pub mod random;
pub mod schedule;
pub mod transcript;
pub mod transitions;
pub mod world;
