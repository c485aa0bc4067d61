//! The naive model that the engine is compared with, and the simulated world.

pub mod model;
