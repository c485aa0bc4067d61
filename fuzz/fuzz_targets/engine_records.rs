//! Records, as a log gives them back.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| jobyard_sim::fuzz::check_records(data));
