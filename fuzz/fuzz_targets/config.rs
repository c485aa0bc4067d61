//! The settings: a file, variables and a command line.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| jobyard::check_settings(data));
