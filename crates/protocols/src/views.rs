//! How a job put by one protocol looks through another.
