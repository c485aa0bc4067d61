//! The names by which a transcript sets limits: one table, a row for each field of [`Limits`].

use jobyard_engine::Limits;

type Set = fn(&mut Limits, u64) -> Result<(), std::num::TryFromIntError>;

macro_rules! rows {
    ($($field:ident),* $(,)?) => {
        &[$((stringify!($field), |limits, value| {
            limits.$field = value.try_into()?;
            Ok(())
        })),*]
    };
}

#[allow(clippy::useless_conversion, reason = "some fields are as wide as what is read")]
const FIELDS: &[(&str, Set)] = rows![
    body_bytes_max,
    block_bytes_max,
    line_extra_bytes_max,
    input_bytes_max,
    output_bytes_max,
    group_steps_max,
    group_bytes_max,
    queue_name_bytes_max,
    queues_named_max,
    queues_max,
    held_max,
    revived_max,
    clients_max,
    turn_bytes_max,
    turn_commands_max,
    memory_bytes_max,
    default_lease_ms,
    vanished_rest_ms,
];

/// Sets one limit by name.
pub(super) fn set(limits: &mut Limits, name: &str, value: u64) -> Result<(), String> {
    let Some((_, set)) = FIELDS.iter().find(|(field, _)| *field == name) else {
        let names: Vec<_> = FIELDS.iter().map(|(field, _)| *field).collect();
        return Err(format!("no limit is called '{name}'; there are {}", names.join(", ")));
    };
    set(limits, value).map_err(|_| format!("{name} cannot be {value}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_limit_has_a_row() {
        let debug = format!("{:?}", Limits::default());
        let fields = debug.split(['{', ',']).skip(1).filter_map(|part| part.split_once(':'));
        let fields: Vec<_> = fields.map(|(name, _)| name.trim()).collect();
        let rows: Vec<_> = FIELDS.iter().map(|(name, _)| *name).collect();
        assert_eq!(fields, rows);
    }

    #[test]
    fn a_limit_is_set_by_its_name() {
        let mut limits = Limits::default();
        assert_eq!(set(&mut limits, "held_max", 2), Ok(()));
        assert_eq!(limits, Limits { held_max: 2, ..Limits::default() });
        assert!(set(&mut limits, "held", 2).is_err());
    }
}
