//! Dates on the wire: UTC, to the second, `2020-02-02T00:00:00Z`.

use std::io::Write;

use jiff::SignedDuration;
use jiff::civil::{DateTime, date};

const EPOCH: DateTime = date(1970, 1, 1).at(0, 0, 0, 0);

/// Writes a moment of the wall clock. A fraction of a second is left out; a year that four digits
/// cannot say is brought back to the nearest that they can.
pub(crate) fn write_utc(out: &mut Vec<u8>, wall_ms: i64) {
    let earliest = date(0, 1, 1).at(0, 0, 0, 0);
    let moment = EPOCH
        .checked_add(SignedDuration::from_millis(wall_ms))
        .unwrap_or(if wall_ms < 0 { earliest } else { DateTime::MAX })
        .max(earliest);
    write!(
        out,
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z",
        moment.year(),
        moment.month(),
        moment.day(),
        moment.hour(),
        moment.minute(),
        moment.second()
    )
    .expect("memory takes every write");
}

/// Reads `YYYY-MM-DDTHH:MM:SSZ`, with or without a fraction after the seconds; no offset but `Z`.
/// A fraction finer than a millisecond is rounded up: what is due then must not be early.
pub(crate) fn parse_utc(text: &[u8]) -> Option<i64> {
    let (whole, rest) = text.split_at_checked("YYYY-MM-DDTHH:MM:SS".len())?;
    let number = |at: usize, length: usize| digits(&whole[at..at + length]);
    let separated = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
    if separated.iter().any(|&(at, separator)| whole[at] != separator) {
        return None;
    }
    let second = DateTime::new(
        number(0, 4)?,
        i8::try_from(number(5, 2)?).ok()?,
        i8::try_from(number(8, 2)?).ok()?,
        i8::try_from(number(11, 2)?).ok()?,
        i8::try_from(number(14, 2)?).ok()?,
        i8::try_from(number(17, 2)?).ok()?,
        0,
    )
    .ok()?;
    let second_ms = i64::try_from(second.duration_since(EPOCH).as_millis()).ok()?;
    Some(second_ms + parse_fraction_ms(rest.strip_suffix(b"Z")?)?)
}

/// Reads at most four digits.
fn digits(text: &[u8]) -> Option<i16> {
    text.iter().try_fold(0, |number: i16, byte| byte.is_ascii_digit().then(|| number * 10 + i16::from(byte - b'0')))
}

/// Reads `.5` and the like as milliseconds, rounded up; nothing at all is 0.
fn parse_fraction_ms(text: &[u8]) -> Option<i64> {
    if text.is_empty() {
        return Some(0);
    }
    let fraction = text.strip_prefix(b".").filter(|fraction| !fraction.is_empty())?;
    if !fraction.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let (coarse, fine) = fraction.split_at(fraction.len().min(3));
    let padding = [1, 100, 10, 1][coarse.len()];
    let finer = fine.iter().any(|&digit| digit != b'0');
    Some(i64::from(digits(coarse)?) * padding + i64::from(finer))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(wall_ms: i64) -> String {
        let mut out = Vec::new();
        write_utc(&mut out, wall_ms);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_date_is_written_to_the_second() {
        assert_eq!(written(0), "1970-01-01T00:00:00Z");
        assert_eq!(written(1_471_830_651_999), "2016-08-22T01:50:51Z");
        assert_eq!(written(-1), "1969-12-31T23:59:59Z");
    }

    #[test]
    fn a_date_that_cannot_be_written_is_brought_back() {
        assert_eq!(written(i64::MAX), "9999-12-31T23:59:59Z");
        assert_eq!(written(i64::MIN), "0000-01-01T00:00:00Z");
        assert_eq!(written(-62_200_000_000_000), "0000-01-01T00:00:00Z");
    }

    #[test]
    fn what_was_written_is_read_back() {
        for text in ["0000-01-01T00:00:00Z", "1969-12-31T23:59:59Z", "2016-02-29T06:46:46Z", "9999-12-31T23:59:59Z"] {
            let wall_ms = parse_utc(text.as_bytes()).unwrap();
            assert_eq!(written(wall_ms), text);
        }
    }

    #[test]
    fn a_fraction_is_read_and_never_makes_a_date_earlier() {
        let whole = parse_utc(b"2026-01-01T00:00:00Z").unwrap();
        for (text, ms) in [
            ("0", 0),
            ("5", 500),
            ("05", 50),
            ("25", 250),
            ("001", 1),
            ("999", 999),
            ("0001", 1),
            ("1230", 123),
            ("123000001", 124),
            ("9990000000000000000001", 1_000),
        ] {
            let dated = format!("2026-01-01T00:00:00.{text}Z");
            assert_eq!(parse_utc(dated.as_bytes()), Some(whole + ms), "{dated}");
        }
    }

    #[test]
    fn another_layout_is_no_date() {
        for text in [
            "",
            "Z",
            "2026-01-01",
            "2026-01-01T00:00:00",
            "2026-01-01T00:00:00z",
            "2026-01-01t00:00:00Z",
            "2026-01-01 00:00:00Z",
            "2026-1-01T00:00:00Z",
            "26-01-01T00:00:00Z",
            "2026-01-01T00:00Z",
            "2026-01-01T00:00:00+00:00",
            "2026-01-01T00:00:00.Z",
            "2026-01-01T00:00:00.5",
            "2026-01-01T00:00:00,5Z",
            "2026-01-01T00:00:00.-5Z",
            "2026-13-01T00:00:00Z",
            "2026-02-29T00:00:00Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:60:00Z",
            "2026-01-01T00:00:60Z",
            "+026-01-01T00:00:00Z",
            "2026-01-01T00:00:00ZZ",
        ] {
            assert_eq!(parse_utc(text.as_bytes()), None, "{text}");
        }
    }
}
