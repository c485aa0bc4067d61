//! Dates on the wire.
