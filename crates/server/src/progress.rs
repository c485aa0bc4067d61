//! One line of a terminal that says how far something has come.

use std::io::{IsTerminal, Write, stderr};
use std::time::{Duration, Instant};

/// The line changes so often at most.
const EVERY: Duration = Duration::from_millis(100);

const BAR_WIDTH: u64 = 20;

/// A line that is written over and over, if there is a terminal to write it on.
#[derive(Debug)]
pub struct Line {
    shown: Option<Instant>,
    is_terminal: bool,
}

impl Line {
    /// Nothing is shown yet.
    pub fn new() -> Line {
        Line { shown: None, is_terminal: stderr().is_terminal() }
    }

    /// Shows this, unless something was shown just now.
    pub fn show(&mut self, text: impl FnOnce() -> String) {
        if self.is_terminal && self.shown.is_none_or(|shown| shown.elapsed() >= EVERY) {
            self.shown = Some(Instant::now());
            let _ = write!(stderr(), "\r\x1b[K{}", text());
        }
    }

    /// Leaves nothing of the line.
    pub fn clear(&mut self) {
        if self.shown.take().is_some() {
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }
}

/// So much of so much, as a bar and in per cent. Nothing of nothing is nothing yet.
pub fn bar(done: u64, total: u64) -> String {
    let (done, total) = (u128::from(done.min(total)), u128::from(total.max(1)));
    let filled = done * u128::from(BAR_WIDTH) / total;
    let bar: String = (0..u128::from(BAR_WIDTH)).map(|nth| if nth < filled { '#' } else { '.' }).collect();
    format!("[{bar}] {:3} %", done * 100 / total)
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
    fn the_bar_is_filled_as_far_as_it_has_come() {
        assert_eq!(bar(5, 10), "[##########..........]  50 %");
        assert_eq!(bar(0, 0), "[....................]   0 %");
        assert_eq!(bar(7, 3), "[####################] 100 %");
        assert_eq!(bar(u64::MAX - 1, u64::MAX), "[###################.]  99 %");
    }

    #[test]
    fn numbers_have_commas() {
        for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (12_345_678, "12,345,678")] {
            assert_eq!(grouped(number), text);
        }
    }
}
