//! What the tools print: lines of JSON, dates and sizes. What clients said is never printed as it is.

use std::fmt::{Display, Write as _};

/// A JSON object, in one line.
#[derive(Clone, Debug)]
pub struct Object(String);

impl Object {
    /// An object without fields.
    pub fn new() -> Object {
        Object("{".to_owned())
    }

    /// A field that holds a number or a truth value.
    pub fn value(&mut self, key: &str, value: impl Display) {
        self.key(key);
        let _ = write!(self.0, "{value}");
    }

    /// A field that holds a number, if there is one.
    pub fn optional(&mut self, key: &str, value: Option<impl Display>) {
        if let Some(value) = value {
            self.value(key, value);
        }
    }

    /// A field that holds a text.
    pub fn text(&mut self, key: &str, text: &str) {
        self.key(key);
        write_string(&mut self.0, text);
    }

    /// A field that holds bytes: as a text if they are one, else in base64 under another name.
    pub fn bytes(&mut self, key: &str, bytes: &[u8]) {
        match std::str::from_utf8(bytes) {
            Ok(text) => self.text(key, text),
            Err(_) => self.text(&format!("{key}_base64"), &base64(bytes)),
        }
    }

    /// A field that holds a date.
    pub fn date(&mut self, key: &str, wall_ms: i64) {
        self.text(key, &date(wall_ms));
    }

    /// A field that holds numbers.
    pub fn numbers(&mut self, key: &str, numbers: &[u64]) {
        let numbers: Vec<_> = numbers.iter().map(u64::to_string).collect();
        self.value(key, format_args!("[{}]", numbers.join(",")));
    }

    /// The line, without its end.
    pub fn finish(mut self) -> String {
        self.0.push('}');
        self.0
    }

    fn key(&mut self, key: &str) {
        if self.0.len() > 1 {
            self.0.push(',');
        }
        write_string(&mut self.0, key);
        self.0.push(':');
    }
}

/// Writes a JSON string that is safe to look at: all that a terminal would obey, or that turns text around, is escaped.
fn write_string(out: &mut String, text: &str) {
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            _ if is_unsafe(letter) => {
                for unit in letter.encode_utf16(&mut [0; 2]) {
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
            _ => out.push(letter),
        }
    }
    out.push('"');
}

fn is_unsafe(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |index: usize| u32::from(group.get(index).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for index in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * index) & 63) as usize];
            text.push(if index <= group.len() { char::from(letter) } else { '=' });
        }
    }
    text
}

/// A moment of the wall clock: `2026-01-31T23:59:59.123Z`.
pub fn date(wall_ms: i64) -> String {
    const DAY_MS: i64 = 86_400_000;
    let (year, month, day) = civil(wall_ms.div_euclid(DAY_MS));
    let ms = wall_ms.rem_euclid(DAY_MS);
    let (hour, minute, second) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1_000 % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", ms % 1_000)
}

/// Year, month and day of a number of days since 1970-01-01, in the calendar of today.
fn civil(days: i64) -> (i64, i64, i64) {
    // Years begin in March here, so that the odd day comes last.
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (400 * era + year_of_era + i64::from(month <= 2), month, day)
}

/// A number of bytes, as people say it: `512 bytes`, `1.5 MiB`.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return count(bytes, "byte");
    }
    let mut tenths = bytes.saturating_mul(10) / 1024;
    let mut unit = 0;
    while tenths >= 10_240 && unit + 1 < UNITS.len() {
        tenths /= 1024;
        unit += 1;
    }
    format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit])
}

/// How many of something there are, in words: `1 job`, `2 jobs`.
pub fn count(number: u64, what: &str) -> String {
    let plural = if what.ends_with("ch") { "es" } else { "s" };
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}{plural}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (wall_ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_767_225_599_123, "2025-12-31T23:59:59.123Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(date(wall_ms), text);
        }
        // Nothing that a log can hold makes it panic.
        date(i64::MIN);
        date(i64::MAX);
    }

    #[test]
    fn bytes_that_are_no_text_are_written_in_base64() {
        for (bytes, text) in
            [(&b"\xff"[..], "/w=="), (b"\xff\0", "/wA="), (b"\xff\0a", "/wBh"), (b"\xffjobs", "/2pvYnM=")]
        {
            let mut object = Object::new();
            object.bytes("body", bytes);
            assert_eq!(object.finish(), format!(r#"{{"body_base64":"{text}"}}"#));
        }
    }

    #[test]
    fn what_a_client_said_cannot_do_anything_to_a_terminal() {
        let hostile = "\u{1b}[2J\"\\\n\r\t\0\u{7f}\u{9b}\u{202e}\u{2028}\u{feff}\u{e0041}ä💼";
        let mut object = Object::new();
        object.text(hostile, hostile);
        object.value("number", 1);
        object.numbers("list", &[1, 2]);
        let line = object.finish();
        assert!(
            line.chars().all(|letter| letter == 'ä' || letter == '💼' || (' '..'\u{7f}').contains(&letter)),
            "{line}"
        );
        let read: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(read[hostile], hostile);
        assert_eq!(read["list"][1], 2);
    }

    #[test]
    fn sizes_are_said_as_people_say_them() {
        for (bytes, text) in [
            (0, "0 bytes"),
            (1, "1 byte"),
            (1023, "1023 bytes"),
            (1024, "1.0 KiB"),
            (1_600_000, "1.5 MiB"),
            (5 << 40, "5.0 TiB"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }

    #[test]
    fn things_are_counted_in_words() {
        assert_eq!(count(1, "batch"), "1 batch");
        assert_eq!(count(2, "batch"), "2 batches");
        assert_eq!(count(0, "job"), "0 jobs");
    }
}
