//! Signals as events: SIGTERM, SIGINT and SIGHUP stop the server, SIGUSR1 drains it. SIGPIPE needs no word: Rust
//! ignores it from the start.

use std::fs::read_to_string;

use anyhow::{Context, Result};
use jobyard_broker::Event;
use mio::{Registry, Token};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook_mio::v1_0::Signals as Source;

/// The signals that the server listens to.
pub struct Signals(Source);

impl Signals {
    /// From now on signals are events of `token`.
    pub fn register(registry: &Registry, token: Token) -> Result<Signals> {
        let mut wanted = vec![SIGTERM, SIGINT, SIGUSR1];
        // Whoever closes the terminal wants the server to end, unless it was started to outlive it (nohup).
        if !is_ignored(SIGHUP) {
            wanted.push(SIGHUP);
        }
        let mut source = Source::new(wanted).context("cannot listen to signals")?;
        registry.register(&mut source, token, mio::Interest::READABLE).context("cannot wait for signals")?;
        Ok(Signals(source))
    }

    /// What has come since the last call.
    pub fn take(&mut self, events: &mut Vec<Event>) {
        for signal in self.0.pending() {
            let (name, event) = match signal {
                SIGUSR1 => ("SIGUSR1", Event::Drain),
                SIGINT => ("SIGINT", Event::Stop),
                SIGHUP => ("SIGHUP", Event::Stop),
                _ => ("SIGTERM", Event::Stop),
            };
            match event {
                Event::Drain => tracing::info!(signal = name, "draining: no more jobs are taken"),
                _ => tracing::info!(signal = name, "stopping; the same signal again ends at once"),
            }
            events.push(event);
        }
    }
}

/// Whether the process was started with this signal ignored.
fn is_ignored(signal: i32) -> bool {
    let Ok(status) = read_to_string("/proc/self/status") else { return false };
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}
