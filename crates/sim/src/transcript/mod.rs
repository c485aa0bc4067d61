//! Transcripts: text files that say what clients send and what they must hear, and the player that
//! holds a server to them. The format is described in `docs/transcripts.md`.

mod escape;
#[cfg(test)]
mod fake_world;
mod limits;
mod parse;
mod player;
mod sim_log;
mod sim_world;
mod world;

pub use escape::{escape, unescape};
pub use parse::{Line, ListenerSetup, ParseError, Setup, Step, Transcript};
pub(crate) use player::pieces;
pub use player::{Cut, Failure, play};
pub use sim_log::Storage;
pub use sim_world::SimWorld;
pub use world::{Trouble, World};
