//! What beanstalkd left: the files of a binlog.
#![no_main]

use jobyard_sim::disk::SimDisk;

libfuzzer_sys::fuzz_target!(|data: &[u8]| jobyard::check_binlog(data, &SimDisk::default()));
