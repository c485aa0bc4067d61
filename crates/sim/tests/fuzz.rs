//! Every protocol has its fuzz target, and whatever a fuzz target was given before still holds.

use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use jobyard_protocols::{ANY, PROTOCOLS};
use jobyard_sim::fuzz::{check_and_count, check_log, check_records};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

fn protocols() -> impl Iterator<Item = &'static str> {
    PROTOCOLS.iter().map(|protocol| protocol.name).chain([ANY])
}

/// The inputs that were kept for a target, by name.
fn inputs(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = root().join("corpus").join(target);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut inputs: Vec<_> = entries
        .map(|entry| {
            let path = entry.expect("an entry").path();
            let name = format!("{target}/{}", path.file_name().unwrap_or_default().to_string_lossy());
            (name, fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
        })
        .collect();
    inputs.sort();
    assert!(!inputs.is_empty(), "there are no inputs for {target}: run scripts/fuzz --seed");
    inputs
}

fn hold(target: &str, check: impl Fn(&[u8]) + std::panic::RefUnwindSafe) {
    let inputs = inputs(target);
    let failed: Vec<_> =
        inputs.iter().filter(|(_, input)| catch_unwind(|| check(input)).is_err()).map(|(name, _)| name).collect();
    assert!(failed.is_empty(), "of {} inputs of {target} fail (see above): {failed:?}", inputs.len());
}

#[test]
fn every_protocol_has_a_target() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).expect("the manifest of the targets can be read");
    for protocol in protocols() {
        let target = format!("fuzz_targets/{protocol}.rs");
        let text = fs::read_to_string(root().join(&target)).unwrap_or_else(|error| panic!("fuzz/{target}: {error}"));
        assert!(text.contains(&format!("check_protocol(\"{protocol}\", data)")), "fuzz/{target} is for another one");
        assert!(manifest.contains(&format!("path = \"{target}\"")), "fuzz/Cargo.toml does not name {target}");
    }
}

#[test]
fn inputs_of_protocols_hold() {
    for protocol in protocols() {
        let (compared, happened) = (AtomicUsize::new(0), AtomicUsize::new(0));
        hold(protocol, |input| {
            let counts = check_and_count(protocol, input);
            compared.fetch_add(counts.0, Ordering::Relaxed);
            happened.fetch_add(counts.1, Ordering::Relaxed);
        });
        // What cannot be compared is left to chance, or to memory: that must not be most of it.
        let (compared, happened) = (compared.into_inner(), happened.into_inner());
        assert!(compared * 10 > happened * 9, "{protocol}: {compared} of {happened} answers were compared");
    }
}

#[test]
fn inputs_of_the_log_hold() {
    hold("log_reader", check_log);
}

#[test]
fn inputs_of_records_hold() {
    hold("engine_records", check_records);
}
