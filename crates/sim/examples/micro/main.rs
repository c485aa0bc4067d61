//! What single parts of the server cost: `bench/micro` has callgrind count the instructions in `measured`, and in nothing else.
//!
//! Usage: `micro CASE COUNT`; without arguments it lists the cases. What a case counts is told with it.

mod disk;
mod engine;
mod log;
mod requests;
mod session;
mod stack;

use std::process::ExitCode;

/// What can be measured, and how often that is done for the count it is given.
struct Case {
    name: &'static str,
    run: fn(u64),
}

/// All of them. One operation is one request if nothing else is said.
const CASES: &[Case] = &[
    Case { name: "engine-plain", run: engine::plain },
    Case { name: "engine-urgent", run: engine::urgent },
    Case { name: "engine-handover", run: engine::handover },
    Case { name: "engine-replay", run: engine::replay },
    Case { name: "codec-goqueue", run: |count| session::codec("goqueue", count) },
    Case { name: "codec-takeanumber", run: |count| session::codec("takeanumber", count) },
    Case { name: "codec-masenko", run: |count| session::codec("masenko", count) },
    Case { name: "codec-jobcentre", run: |count| session::codec("jobcentre", count) },
    Case { name: "codec-workq", run: |count| session::codec("workq", count) },
    Case { name: "codec-beanstalkd", run: |count| session::codec("beanstalkd", count) },
    Case { name: "turn-goqueue", run: |count| stack::pipelined("goqueue", count) },
    Case { name: "turn-takeanumber", run: |count| stack::pipelined("takeanumber", count) },
    Case { name: "turn-masenko", run: |count| stack::pipelined("masenko", count) },
    Case { name: "turn-jobcentre", run: |count| stack::pipelined("jobcentre", count) },
    Case { name: "turn-workq", run: |count| stack::pipelined("workq", count) },
    Case { name: "turn-beanstalkd", run: |count| stack::pipelined("beanstalkd", count) },
    Case { name: "turn-each-alone", run: stack::one_at_a_time },
    Case { name: "log-commit-short", run: |count| log::commit(count, 1 << 10) },
    Case { name: "log-commit-long", run: |count| log::commit(count, 64 << 10) },
    Case { name: "log-replay", run: log::replay },
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let found = match &arguments[..] {
        [] => {
            list();
            return ExitCode::SUCCESS;
        }
        [name, count] => CASES.iter().find(|case| case.name == name).zip(count.parse().ok()),
        _ => None,
    };
    let Some((case, count)) = found else { return ExitCode::from(2) };
    (case.run)(count);
    ExitCode::SUCCESS
}

#[expect(clippy::print_stdout, reason = "that is what it is asked for")]
fn list() {
    for case in CASES {
        println!("{}", case.name);
    }
}

/// What is counted: callgrind collects inside this function only.
#[inline(never)]
fn measured<T>(what: impl FnOnce() -> T) -> T {
    what()
}
