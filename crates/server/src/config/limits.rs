//! The `[limits]` table of the configuration file: the fields of [`Limits`] under their own names.

use anyhow::{Result, ensure};
use jobyard_engine::Limits;
use serde::Deserialize;

macro_rules! limits_layer {
    ($($field:ident: $type:ty,)*) => {
        /// The limits that a configuration file names.
        #[derive(Clone, Debug, Default, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub struct LimitsLayer {
            $(
                #[allow(missing_docs, reason = "each is documented where it comes from")]
                pub $field: Option<$type>,
            )*
        }

        impl LimitsLayer {
            fn put(&self, limits: &mut Limits) {
                // A limit that this table forgot does not compile.
                let Limits { $($field),* } = limits;
                $( if let Some(value) = self.$field { *$field = value; } )*
            }
        }
    };
}

limits_layer! {
    body_bytes_max: usize,
    block_bytes_max: usize,
    line_extra_bytes_max: usize,
    input_bytes_max: usize,
    output_bytes_max: usize,
    group_steps_max: usize,
    group_bytes_max: usize,
    queues_named_max: usize,
    queues_max: usize,
    held_max: usize,
    clients_max: usize,
    turn_bytes_max: usize,
    turn_commands_max: usize,
    memory_bytes_max: usize,
    default_lease_ms: u64,
    vanished_rest_ms: u64,
}

impl LimitsLayer {
    /// Sets what the file names. With a zero here and there the server could do nothing at all.
    pub fn apply(&self, limits: &mut Limits) -> Result<()> {
        self.put(limits);
        for (name, value) in [
            ("body_bytes_max", limits.body_bytes_max),
            ("clients_max", limits.clients_max),
            ("input_bytes_max", limits.input_bytes_max),
            ("turn_bytes_max", limits.turn_bytes_max),
            ("turn_commands_max", limits.turn_commands_max),
        ] {
            ensure!(value > 0, "limits.{name} must be above 0");
        }
        ensure!(limits.default_lease_ms > 0, "limits.default_lease_ms must be above 0");
        Ok(())
    }
}
