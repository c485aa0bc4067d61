//! The files of a data directory.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| jobyard_sim::fuzz::check_log(data));
