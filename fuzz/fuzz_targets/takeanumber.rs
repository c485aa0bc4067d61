//! What a client of a listener `takeanumber` sends.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| jobyard_sim::fuzz::check_protocol("takeanumber", data));
