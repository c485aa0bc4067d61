//! How far an import has come, on one line of a terminal.

use std::io::{IsTerminal, Write, stderr};
use std::time::{Duration, Instant};

/// The line changes so often at most.
const EVERY: Duration = Duration::from_millis(100);

const BAR_WIDTH: u64 = 20;

/// A line that is written over and over, if there is a terminal to write it on.
#[derive(Debug)]
pub struct Progress {
    total: u64,
    begun: Instant,
    shown: Option<Instant>,
    is_terminal: bool,
}

impl Progress {
    pub fn new() -> Progress {
        Progress { total: 0, begun: Instant::now(), shown: None, is_terminal: stderr().is_terminal() }
    }

    /// So much there is to do in all, as far as one can see.
    pub fn expect(&mut self, total: u64) {
        self.total = total;
    }

    /// So much is done.
    pub fn show(&mut self, done: u64) {
        if self.is_terminal && self.shown.is_none_or(|shown| shown.elapsed() >= EVERY) {
            self.shown = Some(Instant::now());
            let _ = write!(stderr(), "\r\x1b[K{}", line(done, self.total, self.begun.elapsed()));
        }
    }

    /// Leaves nothing of the line.
    pub fn clear(&mut self) {
        if self.shown.take().is_some() {
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }
}

/// More may come than there were when it began.
fn line(done: u64, total: u64, elapsed: Duration) -> String {
    let total = total.max(done).max(1);
    let bar: String = (0..BAR_WIDTH).map(|nth| if nth < done * BAR_WIDTH / total { '#' } else { '.' }).collect();
    let rate = done as f64 / elapsed.as_secs_f64().max(0.001);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is shown")]
    let rate = grouped(rate as u64);
    format!("[{bar}] {:3} %  {} of {}, {rate}/s", done * 100 / total, grouped(done), grouped(total))
}

/// A number with commas.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
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

    #[test]
    fn numbers_have_commas() {
        for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (12_345_678, "12,345,678")] {
            assert_eq!(grouped(number), text);
        }
    }
}
