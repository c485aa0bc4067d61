//! What a client of a listener `beanstalkd` sends.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| jobyard_sim::fuzz::check_protocol("beanstalkd", data));
