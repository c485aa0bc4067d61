//! Durations as Go writes them, and dates of RFC 3339.

use jiff::civil::DateTime;

pub(super) const NANOS_PER_MILLI: i128 = 1_000_000;

/// Reads a duration of Go: `2.5s`, `1h2m3.5s`, `-1us`, `0`. `None` if it is none, or too long for Go's 64 bits.
pub(super) fn parse_duration_ns(text: &str) -> Option<i128> {
    let (sign, unsigned) = match text.as_bytes() {
        [b'-', ..] => (-1, &text[1..]),
        [b'+', ..] => (1, &text[1..]),
        _ => (1, text),
    };
    if unsigned == "0" {
        return Some(0);
    }
    if unsigned.is_empty() {
        return None;
    }
    let mut total_ns: i128 = 0;
    let mut rest = unsigned;
    while !rest.is_empty() {
        let (part_ns, after) = parse_part_ns(rest)?;
        total_ns = total_ns.checked_add(part_ns)?;
        rest = after;
    }
    i64::try_from(sign * total_ns).ok().map(i128::from)
}

/// One number and its unit from the front of `text`, and what follows it.
fn parse_part_ns(text: &str) -> Option<(i128, &str)> {
    let (whole, rest) = split_digits(text);
    let (fraction, rest) = rest.strip_prefix('.').map_or(("", rest), split_digits);
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let unit_end = rest.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(rest.len());
    let (unit, rest) = rest.split_at(unit_end);
    let unit_ns: i64 = match unit {
        "ns" => 1,
        // The micro sign and the Greek letter.
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    };
    let whole: i64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let fraction_ns = fraction_of(fraction, i128::from(unit_ns));
    Some((i128::from(whole) * i128::from(unit_ns) + fraction_ns, rest))
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

/// The part of `unit` that the digits behind a decimal point stand for.
fn fraction_of(digits: &str, unit: i128) -> i128 {
    // Beyond 15 digits the longest unit has no nanosecond left to give.
    let (mut value, mut scale) = (0, 1);
    for digit in digits.bytes().take(15) {
        value = value * 10 + i128::from(digit - b'0');
        scale *= 10;
    }
    value * unit / scale
}

/// Milliseconds that are not less than these nanoseconds.
pub(super) fn millis_up(nanos: i128) -> u64 {
    let millis = (nanos + NANOS_PER_MILLI - 1).div_euclid(NANOS_PER_MILLI);
    u64::try_from(millis.max(0)).unwrap_or(u64::MAX)
}

/// Writes a duration as Go does: `45s`, `1m30s`, `1h0m0s`, `1.5s`, `500ms`.
pub(super) fn show_duration(millis: u64) -> String {
    if millis == 0 {
        return "0s".to_owned();
    }
    if millis < 1_000 {
        return format!("{millis}ms");
    }
    let (seconds, millis) = (millis / 1_000, millis % 1_000);
    let fraction = if millis == 0 { String::new() } else { format!(".{millis:03}") };
    let (hours, minutes, seconds) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    let seconds = format!("{seconds}{}s", fraction.trim_end_matches('0'));
    match (hours, minutes) {
        (0, 0) => seconds,
        (0, _) => format!("{minutes}m{seconds}"),
        _ => format!("{hours}h{minutes}m{seconds}"),
    }
}

/// Reads a date of RFC 3339, in milliseconds since 1970 UTC, rounded up so that nothing happens before it.
/// A missing zone is UTC; `t`, `z` and a blank for the `T` are understood.
pub(super) fn parse_date_ms(text: &str) -> Option<i64> {
    let (day, rest) = text.split_at_checked(10)?;
    let (time, rest) = rest.strip_prefix(['T', 't', ' '])?.split_at_checked(8)?;
    let (fraction, zone) = match rest.strip_prefix('.') {
        Some(rest) => {
            let (fraction, zone) = split_digits(rest);
            (Some(fraction).filter(|digits| !digits.is_empty())?, zone)
        }
        None => ("", rest),
    };
    let [year, month, day] = numbers(day, '-', [4, 2, 2])?;
    let [hour, minute, second] = numbers(time, ':', [2, 2, 2])?;
    let small = |number: i16| i8::try_from(number).ok();
    let date = DateTime::new(year, small(month)?, small(day)?, small(hour)?, small(minute)?, small(second)?, 0).ok()?;
    let seconds = date.duration_since(DateTime::constant(1970, 1, 1, 0, 0, 0, 0)).as_secs() - zone_seconds(zone)?;
    // What is cut off a long fraction must not be lost to the rounding.
    let cut_off = fraction.bytes().skip(9).any(|digit| digit != b'0');
    let nanos = fraction_of(&fraction[..fraction.len().min(9)], 1_000_000_000) + i128::from(cut_off);
    Some(seconds * 1_000 + i64::try_from(millis_up(nanos)).ok()?)
}

/// Numbers of so many digits with `separator` between them, and nothing else.
fn numbers<const N: usize>(text: &str, separator: char, digits: [usize; N]) -> Option<[i16; N]> {
    let mut numbers = [0; N];
    let mut parts = text.split(separator);
    for (number, digits) in numbers.iter_mut().zip(digits) {
        let part = parts.next()?;
        if part.len() != digits || !part.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        *number = part.parse().ok()?;
    }
    parts.next().is_none().then_some(numbers)
}

/// How far a zone (`Z`, `+02:00` or nothing) is ahead of UTC.
fn zone_seconds(zone: &str) -> Option<i64> {
    let (sign, offset) = match zone.as_bytes() {
        [] | [b'Z' | b'z'] => return Some(0),
        [b'+', ..] => (1, &zone[1..]),
        [b'-', ..] => (-1, &zone[1..]),
        _ => return None,
    };
    let [hours, minutes] = numbers(offset, ':', [2, 2])?;
    (hours < 24 && minutes < 60).then(|| sign * (i64::from(hours) * 3_600 + i64::from(minutes) * 60))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        let cases = [
            ("0", 0),
            ("-0", 0),
            ("2.5s", 2_500_000_000),
            ("123ms", 123_000_000),
            ("1h2m3.5s", 3_723_500_000_000),
            ("1us", 1_000),
            ("1\u{b5}s", 1_000),
            ("1\u{3bc}s", 1_000),
            ("15ns", 15),
            (".5s", 500_000_000),
            ("5.s", 5_000_000_000),
            ("+1s", 1_000_000_000),
            ("-1.5h", -5_400_000_000_000),
            ("0.0000000000000000001h", 0),
            ("9223372036854775807ns", i128::from(i64::MAX)),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_duration_ns(text), Some(expected), "{text}");
        }
        let wrong = ["", "+", "-", "1", "s", ".s", ".", "1 s", "1S", "1d", "s1", "1s2", "1..5s", "--1s"];
        let too_long = ["9223372036854775808ns", "99999999999999999999h", "2562048h", "9223372036854775807h"];
        for text in wrong.into_iter().chain(too_long) {
            assert_eq!(parse_duration_ns(text), None, "{text}");
        }
    }

    #[test]
    fn nanoseconds_are_rounded_up() {
        assert_eq!([0, 1, 999_999, 1_000_000, 1_000_001].map(millis_up), [0, 1, 1, 1, 2]);
    }

    #[test]
    fn durations_are_written_as_go_writes_them() {
        let cases = [
            (0, "0s"),
            (500, "500ms"),
            (1_500, "1.5s"),
            (1_050, "1.05s"),
            (45_000, "45s"),
            (90_000, "1m30s"),
            (3_600_000, "1h0m0s"),
            (3_723_004, "1h2m3.004s"),
        ];
        for (millis, expected) in cases {
            assert_eq!(show_duration(millis), expected);
        }
    }

    #[test]
    fn dates_are_read_with_and_without_a_zone() {
        let cases = [
            ("1970-01-01T00:00:00Z", 0),
            ("2026-01-01T00:00:10Z", 1_767_225_610_000),
            ("2026-01-01T00:00:10", 1_767_225_610_000),
            ("2026-01-01t00:00:10z", 1_767_225_610_000),
            ("2026-01-01 00:00:10Z", 1_767_225_610_000),
            ("2026-01-01T02:00:10+02:00", 1_767_225_610_000),
            ("2025-12-31T18:30:10-05:30", 1_767_225_610_000),
            ("2026-01-01T00:00:10.5Z", 1_767_225_610_500),
            ("2026-01-01T00:00:10.000000001Z", 1_767_225_610_001),
            ("2026-01-01T00:00:10.0000000000001Z", 1_767_225_610_001),
            ("2026-01-01T00:00:10.9999Z", 1_767_225_611_000),
            ("1969-12-31T23:59:59.5Z", -500),
            ("2024-02-29T00:00:00Z", 1_709_164_800_000),
            ("9999-12-31T23:59:59Z", 253_402_300_799_000),
            ("0000-01-01T00:00:00Z", -62_167_219_200_000),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_date_ms(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_date_is_none() {
        let wrong = [
            "",
            "tomorrow",
            "2026-01-01",
            "2026-1-1T00:00:00Z",
            "2026-02-29T00:00:00Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:00:60Z",
            "2026-01-01T00:00Z",
            "2026-01-01T00:00:00.Z",
            "2026-01-01T00:00:00+2:00",
            "2026-01-01T00:00:00+24:00",
            "2026-01-01T00:00:00 Z",
            "2026-01-01T00:00:00Z ",
            "+026-01-01T00:00:00Z",
            "2026-01-01T00:00:0\u{661}",
            "é026-01-01T00:00:00Z",
        ];
        for text in wrong {
            assert_eq!(parse_date_ms(text), None, "{text}");
        }
    }
}
