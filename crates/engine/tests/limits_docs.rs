//! `docs/limits.md` against the code: every limit with its default, and every test that it names.

use std::fs;
use std::path::{Path, PathBuf};

use jobyard_engine::Limits;

const PROTOCOLS: [&str; 6] = ["goqueue", "takeanumber", "masenko", "jobcentre", "workq", "beanstalkd"];

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The rows of the table: limit, default, beyond it, tested by.
fn rows() -> Vec<[String; 4]> {
    let page = fs::read_to_string(top().join("docs/limits.md")).unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    let rows: Vec<[String; 4]> = rows
        .map(|row| {
            let cells: Vec<String> = row.split('|').map(|cell| cell.trim().to_owned()).collect();
            cells.try_into().unwrap_or_else(|cells| panic!("not four cells: {cells:?}"))
        })
        .collect();
    assert_eq!(rows[0], ["limit", "default", "beyond it", "tested by"]);
    rows[1..].to_vec()
}

/// As the page writes it: bytes in whole units, numbers in groups of three, times in seconds.
fn written(name: &str, value: usize) -> String {
    const UNITS: [(usize, &str); 2] = [(1 << 20, "MiB"), (1 << 10, "KiB")];
    if name == "memory_bytes_max" {
        return "three quarters of the machine or its cgroup".to_owned();
    }
    if name.ends_with("_ms") {
        return format!("{} s", value / 1_000);
    }
    let unit = UNITS.iter().find(|(unit, _)| name.contains("_bytes_") && value.is_multiple_of(*unit));
    if let Some((unit, unit_name)) = unit {
        return format!("{} {unit_name}", value / unit);
    }
    match value {
        1_000_000.. => format!("{},{:03},{:03}", value / 1_000_000, value / 1_000 % 1_000, value % 1_000),
        1_000.. => format!("{},{:03}", value / 1_000, value % 1_000),
        _ => value.to_string(),
    }
}

#[test]
fn the_page_names_every_limit_with_its_default() {
    let rows = rows();
    // What `Debug` says of a struct is the one list of its fields that nobody can forget to extend.
    let debug = format!("{:?}", Limits::default());
    let fields: Vec<_> = debug.split(['{', ',', '}']).filter_map(|part| part.trim().split_once(": ")).collect();
    assert!(fields.len() > 10, "{debug}");
    for (name, value) in fields {
        let row = rows.iter().find(|row| row[0] == format!("`{name}`"));
        let row = row.unwrap_or_else(|| panic!("docs/limits.md does not name {name}"));
        let expected = written(name, value.parse().unwrap());
        let first = row[1].split(", or ").next().and_then(|rest| rest.split(", and ").next());
        assert_eq!(first, Some(expected.as_str()), "{name}");
    }
}

#[test]
fn the_page_names_tests_that_exist() {
    let mut found = 0;
    for [limit, _, _, tests] in rows() {
        let names: Vec<&str> = tests.split('`').skip(1).step_by(2).collect();
        for (index, name) in names.iter().enumerate() {
            found += 1;
            let command = name.split(' ').next().unwrap_or_default();
            if let Some(transcript) = name.strip_prefix("<protocol>/") {
                for protocol in PROTOCOLS {
                    let path = top().join(format!("transcripts/{protocol}/{transcript}.txt"));
                    assert!(path.exists(), "{limit}: there is no transcript {protocol}/{transcript}");
                }
            } else if name.ends_with(".rs") || name.starts_with("bench/") {
                let crates = top().join("crates").join(command);
                assert!(crates.exists() || top().join(command).exists(), "{limit}: there is no {name}");
            } else if name.contains('/') {
                let path = top().join(format!("transcripts/{name}.txt"));
                assert!(path.exists(), "{limit}: there is no transcript {name}");
            } else if name.contains('_') {
                let file = names[index..].iter().find(|name| name.ends_with(".rs"));
                let file = file.unwrap_or_else(|| panic!("{limit}: {name} is in no file"));
                let text = fs::read_to_string(top().join("crates").join(file)).unwrap();
                assert!(text.contains(&format!("fn {name}()")), "{limit}: there is no {name} in {file}");
            } else {
                found -= 1;
            }
        }
    }
    assert!(found > 40, "{found} tests");
}
