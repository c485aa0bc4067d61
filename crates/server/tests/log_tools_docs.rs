//! docs/log-tools.md says all that the tools can print, and nothing that they cannot: it is held against a directory in which
//! every kind of record is.

mod support;

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;
use support::{run_with, text};

/// What no directory of ours has: a lease that was lost on its way, an empty batch, damage, what was dropped meanwhile, and what
/// was put aside, put back for later, or moved from elsewhere.
const NOT_THERE: [&str; 11] = [
    "undone",
    "none",
    "damaged",
    "dropped",
    "released",
    "buried",
    "revived",
    "delay_ms",
    "order",
    "origin",
    "origin_closed",
];

fn page() -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/log-tools.md")).unwrap()
}

/// The part of the page under this heading.
fn section<'a>(page: &'a str, heading: &str) -> &'a str {
    let begin = page.find(&format!("\n## {heading}\n")).unwrap_or_else(|| panic!("there is no heading {heading}"));
    let rest = &page[begin + 1..];
    &rest[..rest.find("\n## ").unwrap_or(rest.len())]
}

/// What stands in backticks.
fn quoted(text: &str) -> BTreeSet<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// What stands in backticks in the first cell of the tables' rows, their heads left out.
fn first_cells(section: &str) -> BTreeSet<&str> {
    let rows = section.lines().filter(|line| line.starts_with("| `") && !line.starts_with("| `record` | what"));
    rows.flat_map(|row| quoted(row.split('|').nth(1).unwrap())).collect()
}

fn dumped(more: &[&str]) -> Vec<Value> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/format-1/data");
    let ended = run_with(&[&["log", "dump", text(&data)], more].concat());
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The names of all fields.
fn fields(lines: &[Value]) -> BTreeSet<&str> {
    lines.iter().flat_map(|line| line.as_object().unwrap().keys().map(String::as_str)).collect()
}

fn kinds(lines: &[Value]) -> BTreeSet<&str> {
    lines.iter().filter_map(|line| line["record"].as_str()).collect()
}

#[test]
fn every_field_and_every_kind_of_record_is_on_the_page_and_no_other() {
    let (page, lines) = (page(), dumped(&[]));
    let section = section(&page, "`jobyard log dump`");
    let said = quoted(section);
    let printed: BTreeSet<_> = fields(&lines).union(&kinds(&lines)).copied().collect();
    let missing: Vec<_> = printed.difference(&said).collect();
    assert!(missing.is_empty(), "not on the page: {missing:?}");
    let kinds = kinds(&lines);
    assert_eq!(kinds.len(), 15, "all but 'undone', 'none' and what is done with buried jobs: {kinds:?}");
    let unknown: Vec<_> = first_cells(section).into_iter().filter(|name| !printed.contains(name)).collect();
    let unknown: Vec<_> = unknown.into_iter().filter(|name| !NOT_THERE.contains(name)).collect();
    assert!(unknown.is_empty(), "on the page, but never printed: {unknown:?}");
}

#[test]
fn every_field_of_a_job_and_every_reason_is_on_the_page() {
    let (page, lines) = (page(), dumped(&["--jobs"]));
    let section = section(&page, "`jobyard log dump --jobs`");
    let said = quoted(section);
    let printed = fields(&lines);
    for field in &printed {
        let plain = field.strip_suffix("_base64").unwrap_or(field);
        assert!(said.contains(plain), "not on the page: {field}");
    }
    let unknown: Vec<_> = first_cells(section).into_iter().filter(|name| !printed.contains(name)).collect();
    assert!(unknown.is_empty(), "on the page, but never printed: {unknown:?}");
    for line in &lines {
        let why = without_values(line["why"].as_str().unwrap());
        assert!(said.contains(why.as_str()), "not on the page: {why}");
    }
}

/// A reason with words in the place of dates and numbers.
fn without_values(why: &str) -> String {
    let word = |word: &str| {
        let value = word.trim_end_matches([',', ':']);
        let end = &word[value.len()..];
        match value.starts_with(|first: char| first.is_ascii_digit()) {
            true if value.ends_with('Z') => format!("DATE{end}"),
            true => format!("NUMBER{end}"),
            false if value == "time" => format!("times{end}"),
            false => word.to_owned(),
        }
    };
    why.split(' ').map(word).collect::<Vec<_>>().join(" ")
}
