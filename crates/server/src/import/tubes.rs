//! The tubes of a server, and how many jobs stand where.

use std::collections::HashMap;

use anyhow::Result;

use super::peer::{Peer, entries, fields};

/// How many jobs of a tube stand where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub ready: u64,
    pub delayed: u64,
    pub buried: u64,
    pub reserved: u64,
}

impl Counts {
    fn of(fields: &HashMap<String, String>) -> Counts {
        let count = |state: &str| {
            fields.get(&format!("current-jobs-{state}")).and_then(|count| count.parse().ok()).unwrap_or_default()
        };
        Counts {
            ready: count("ready"),
            delayed: count("delayed"),
            buried: count("buried"),
            reserved: count("reserved"),
        }
    }

    /// Those that nobody has.
    pub fn movable(&self) -> u64 {
        self.ready + self.delayed + self.buried
    }

    pub fn add(&mut self, other: &Counts) {
        self.ready += other.ready;
        self.delayed += other.delayed;
        self.buried += other.buried;
        self.reserved += other.reserved;
    }
}

/// All tubes that there are, or those that were named.
pub fn names(peer: &mut Peer, named: &[String]) -> Result<Vec<String>> {
    if !named.is_empty() {
        return Ok(named.to_vec());
    }
    peer.say("list-tubes")?;
    Ok(peer.hear_page()?.as_deref().map(entries).unwrap_or_default())
}

/// The tubes and their counts; one that is not there has no jobs.
pub fn counted(peer: &mut Peer, named: &[String]) -> Result<Vec<(String, Counts)>> {
    let mut counted = Vec::new();
    for name in names(peer, named)? {
        peer.say(&format!("stats-tube {name}"))?;
        let page = peer.hear_page()?;
        let counts = page.map(|page| Counts::of(&fields(&page))).unwrap_or_default();
        counted.push((name, counts));
    }
    Ok(counted)
}
