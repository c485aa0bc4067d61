//! How far an import has come, on one line of a terminal.

use std::time::{Duration, Instant};

use crate::progress::{Line, bar, grouped};

/// What is shown of an import that goes on.
#[derive(Debug)]
pub struct Progress {
    total: u64,
    begun: Instant,
    line: Line,
}

impl Progress {
    pub fn new() -> Progress {
        Progress { total: 0, begun: Instant::now(), line: Line::new() }
    }

    /// So much there is to do in all, as far as one can see.
    pub fn expect(&mut self, total: u64) {
        self.total = total;
    }

    /// So much is done.
    pub fn show(&mut self, done: u64) {
        self.line.show(|| line(done, self.total, self.begun.elapsed()));
    }

    /// Leaves nothing of the line.
    pub fn clear(&mut self) {
        self.line.clear();
    }
}

/// More may come than there were when it began.
fn line(done: u64, total: u64, elapsed: Duration) -> String {
    let total = total.max(done).max(1);
    let rate = done as f64 / elapsed.as_secs_f64().max(0.001);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is shown")]
    let rate = grouped(rate as u64);
    format!("{}  {} of {}, {rate}/s", bar(done, total), grouped(done), grouped(total))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_how_much_of_how_much_and_how_fast() {
        let second = Duration::from_secs(2);
        let half = "[##########..........]  50 %  5,000 of 10,000, 2,500/s";
        assert_eq!(line(5_000, 10_000, second), half);
        assert!(line(0, 0, Duration::ZERO).ends_with("  0 %  0 of 1, 0/s"));
        assert!(line(7, 3, second).contains("100 %  7 of 7,"), "more came meanwhile");
    }

    #[test]
    fn the_line_fits_on_a_narrow_terminal() {
        assert!(line(9_999_999, 10_000_000, Duration::from_secs(100)).len() < 64);
    }
}
