//! The `[limits]` table of the configuration file: the fields of [`Limits`] under their own names.

use std::fmt::Write as _;

use anyhow::{Result, bail, ensure};
use jobyard_engine::Limits;
use serde::Deserialize;

/// More cannot be said in goqueue's field for the length of a body; two such numbers can be added without a thought.
const LENGTH_MAX: u64 = u32::MAX as u64;
/// Of what one turn reads from a client, room for one is there from the start.
const TURN_BYTES_MAX: u64 = 1 << 30;
/// `net.rs` can tell so many connections apart, and some more that are about to be closed.
const CLIENTS_MAX: u64 = 16_000_000;
/// A hundred years: dates that are made of them can still be written.
const TIME_MS_MAX: u64 = 100 * 365 * 86_400_000;
const ANY: u64 = u64::MAX;

macro_rules! limits {
    ($($field:ident: $type:ty, $min:literal to $max:ident, $what:literal;)*) => {
        /// The limits that a configuration file names.
        #[derive(Clone, Debug, Default, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub struct LimitsLayer {
            $(
                #[doc = $what]
                pub $field: Option<$type>,
            )*
        }

        impl LimitsLayer {
            /// Sets what the file names.
            pub fn apply(&self, limits: &mut Limits) {
                $( if let Some(value) = self.$field { limits.$field = value; } )*
            }
        }

        #[allow(trivial_numeric_casts, clippy::unnecessary_cast, reason = "some fields are as wide as a row's numbers")]
        fn rows(limits: &Limits) -> Vec<Row> {
            // A limit that the table forgot does not compile.
            let Limits { $($field),* } = limits;
            vec![$( Row { name: stringify!($field), value: *$field as u64, min: $min, max: $max, what: $what } ),*]
        }
    };
}

/// One limit: its value, what that can be, and what it means.
struct Row {
    name: &'static str,
    value: u64,
    min: u64,
    max: u64,
    what: &'static str,
}

limits! {
    body_bytes_max: usize, 1 to LENGTH_MAX, "a job's body, or a result";
    block_bytes_max: usize, 1 to LENGTH_MAX, "the same in workq, if that is less";
    line_extra_bytes_max: usize, 1 to LENGTH_MAX, "what a line may have beside a body";
    input_bytes_max: usize, 1 to ANY, "unfinished requests of all, or 1/4 of memory";
    output_bytes_max: usize, 0 to ANY, "unread answers, before a client is not read";
    group_steps_max: usize, 0 to ANY, "commands in one masenko transaction";
    group_bytes_max: usize, 0 to ANY, "one masenko transaction";
    queue_name_bytes_max: usize, 1 to LENGTH_MAX, "a queue's name";
    queues_named_max: usize, 1 to ANY, "queues in one request for a job";
    queues_max: usize, 1 to ANY, "queues in all";
    held_max: usize, 1 to ANY, "jobs that one connection may hold";
    revived_max: usize, 1 to ANY, "jobs of a queue that are revived at once";
    clients_max: usize, 1 to CLIENTS_MAX, "clients at once; open files may allow fewer";
    turn_bytes_max: usize, 1 to TURN_BYTES_MAX, "read or written for one client a turn";
    turn_commands_max: usize, 1 to ANY, "carried out for one client before the next";
    memory_bytes_max: usize, 1 to ANY, "is --max-memory";
    default_lease_ms: u64, 1 to TIME_MS_MAX, "is --default-lease";
    vanished_rest_ms: u64, 0 to TIME_MS_MAX, "a job's rest after its worker vanished";
}

/// Refuses limits with which the server would be of no use, or could not keep its word.
pub fn check(limits: &Limits) -> Result<()> {
    for Row { name, value, min, max, .. } in rows(limits) {
        if value < min {
            bail!("limits.{name} cannot be {value}: it must be {min} or more");
        }
        ensure!(value <= max, "limits.{name} cannot be {value}: it must be {max} or less");
    }
    Ok(())
}

/// Refuses limits by which a body could be allowed that can never arrive.
pub fn check_input(limits: &Limits) -> Result<()> {
    let (line, input) = (limits.line_bytes_max(), limits.input_bytes_max);
    ensure!(
        line <= input,
        "limits.input_bytes_max cannot be {input}: one request can have {line} bytes, which is limits.body_bytes_max and \
         limits.line_extra_bytes_max together"
    );
    Ok(())
}

/// What can be in `[limits]`, a line each: the name, the default and the meaning.
pub fn help() -> String {
    let mut text = String::new();
    for Row { name, value, what, .. } in rows(&Limits::default()) {
        let value = if value == ANY { "-".to_owned() } else { value.to_string() };
        let _ = writeln!(text, "  {name:<20} {value:>9}  {what}");
    }
    text
}
