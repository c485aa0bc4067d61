//! Every protocol has its clients, wherever servers are tried; and dates.

use super::*;

#[test]
fn every_protocol_with_jobs_is_spoken() {
    for protocol in jobyard_protocols::PROTOCOLS.iter().filter(|protocol| protocol.name != "http") {
        let spoken = SPEAKERS.iter().any(|speaker| speaker.protocol == protocol.name);
        assert!(spoken, "no simulated client speaks {}", protocol.name);
    }
}

#[test]
fn every_protocol_with_jobs_takes_part_in_the_power_cuts() {
    let path = format!("{}/tests/crash/speak.rs", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).expect("it is there").to_lowercase();
    for speaker in SPEAKERS {
        assert!(text.contains(speaker.protocol), "nobody speaks {}", speaker.protocol);
    }
}

/// The loads of `scripts/kill9`, `scripts/chaos` and `bench/overload`, and each attack: whoever takes no part says why.
#[test]
fn every_protocol_with_jobs_takes_part_in_each_load_and_attack_or_says_why_not() {
    let path = format!("{}/../../bench/attackers.py", env!("CARGO_MANIFEST_DIR"));
    let ended = std::process::Command::new("python3").args([&path, "protocols"]).output().expect("python3 is there");
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let said = String::from_utf8(ended.stdout).expect("it is text");
    let said: Vec<_> = said.lines().filter_map(|line| line.split_once(": ")).collect();
    let attacks: std::collections::BTreeSet<_> = said.iter().map(|(attack, _)| *attack).collect();
    for attack in ["load", "idle silent", "idle spoke", "idle waits", "slow", "deaf", "flood", "waiters", "stream"] {
        assert!(attacks.contains(attack), "nothing is said of {attack}");
    }
    for attack in attacks {
        for speaker in SPEAKERS {
            let is_of_it = |rest: &str| {
                let rest = rest.strip_prefix(speaker.protocol);
                rest.is_some_and(|rest| rest == " takes part" || rest.starts_with(" is left out: "))
            };
            let times = said.iter().filter(|(of, rest)| *of == attack && is_of_it(rest)).count();
            assert_eq!(times, 1, "{attack}: {} takes part, or is left out and why", speaker.protocol);
        }
    }
}

#[test]
fn dates_are_written_as_they_are() {
    assert_eq!(date(1_767_225_600_000), "2026-01-01T00:00:00Z");
    assert_eq!(date(951_782_399_999), "2000-02-28T23:59:59Z");
    assert_eq!(date(-1), "1969-12-31T23:59:59Z");
}
