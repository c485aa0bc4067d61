//! The broker as a whole, with a protocol of lines, sockets of vectors and a clock that stands still.

mod codec;
mod commits;
mod deadlines;
mod endings;
mod flow;
mod pacing;
mod starts;
mod stops;
pub(crate) mod told_log;
mod world;
