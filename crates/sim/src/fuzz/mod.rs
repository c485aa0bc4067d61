//! What the fuzz targets do with their bytes. It stands here so that the tests can do the same with every input that was kept:
//! the targets in `fuzz/` only hand over what the fuzzer makes up.

mod image;
mod log;
mod protocol;
mod records;
mod script;

pub use log::{check_log, seed_of_directory};
pub use protocol::{check_and_count, check_protocol};
pub use records::check_records;
pub use script::seed_of_transcript;
