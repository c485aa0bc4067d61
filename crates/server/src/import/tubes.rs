//! The tubes of a server, and how many jobs stand where.

use std::collections::{HashMap, HashSet};

use anyhow::{Result, bail};
use jobyard_protocols::beanstalkd::is_tube;

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
        self.ready.saturating_add(self.delayed).saturating_add(self.buried)
    }

    pub fn add(&mut self, other: &Counts) {
        for (sum, more) in [
            (&mut self.ready, other.ready),
            (&mut self.delayed, other.delayed),
            (&mut self.buried, other.buried),
            (&mut self.reserved, other.reserved),
        ] {
            *sum = sum.saturating_add(more);
        }
    }
}

/// All tubes that there are, or those that were named.
fn names(peer: &mut Peer, named: &[String]) -> Result<Vec<String>> {
    if !named.is_empty() {
        let mut seen = HashSet::new();
        return Ok(named.iter().filter(|name| seen.insert(*name)).cloned().collect());
    }
    peer.say("list-tubes")?;
    let names = peer.hear_page()?.as_deref().map(entries).unwrap_or_default();
    match names.iter().find(|name| !is_tube(name.as_bytes())) {
        Some(name) => bail!("{} lists a tube that none can be called: {}", peer.name(), name.escape_debug()),
        None => Ok(names),
    }
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
