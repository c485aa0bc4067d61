//! How a job put by one protocol looks through another: bodies that are no JSON, names that are no
//! text, priorities that a protocol cannot say.

use std::borrow::Cow;

use crate::json::{self, Escapes};

/// Writes a body as a JSON object: itself if it is one, as it is but for line ends; else
/// `{"data":<json>}`, `{"data":"text"}` or `{"data_base64":"…"}`.
pub(crate) fn write_as_object(out: &mut Vec<u8>, body: &[u8]) {
    match json::value(body) {
        Some(object) if object.starts_with('{') => json::write_in_one_line(out, object),
        Some(value) => {
            out.extend_from_slice(b"{\"data\":");
            json::write_in_one_line(out, value);
            out.push(b'}');
        }
        None => match std::str::from_utf8(body) {
            Ok(text) => {
                out.extend_from_slice(b"{\"data\":");
                json::write_string(out, text, Escapes::Fewest);
                out.push(b'}');
            }
            Err(_) => write_base64_object(out, body),
        },
    }
}

/// Writes a body as a JSON value, compact and with Go's escapes: itself if it is one; else a string, or
/// `{"data_base64":"…"}`.
pub(crate) fn write_as_value(out: &mut Vec<u8>, body: &[u8]) {
    match json::value(body) {
        Some(value) => json::write_compact(out, value),
        None => match std::str::from_utf8(body) {
            Ok(text) => json::write_string(out, text, Escapes::Html),
            Err(_) => write_base64_object(out, body),
        },
    }
}

/// A name as text. Bytes that are no UTF-8 would show as U+FFFD; a queue is shown to those who named it, and JSON
/// cannot name such a one, so this changes no name in practice.
pub(crate) fn text(name: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(name)
}

/// An urgency as a priority that knows no negative numbers.
pub(crate) fn priority_from_zero(urgency: i128) -> i128 {
    urgency.max(0)
}

/// An urgency as a priority of which the lowest number comes first.
pub(crate) fn priority_from_urgency(urgency: i128) -> u32 {
    u32::try_from(urgency.saturating_neg().max(0)).unwrap_or(u32::MAX)
}

fn write_base64_object(out: &mut Vec<u8>, body: &[u8]) {
    out.extend_from_slice(b"{\"data_base64\":\"");
    write_base64(out, body);
    out.extend_from_slice(b"\"}");
}

/// RFC 4648, section 4: the usual alphabet, padded.
fn write_base64(out: &mut Vec<u8>, bytes: &[u8]) {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    out.reserve(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for (at, shift) in [18, 12, 6, 0].into_iter().enumerate() {
            let digit = ALPHABET[(bits >> shift & 63) as usize];
            out.push(if at <= chunk.len() { digit } else { b'=' });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: fn(&mut Vec<u8>, &[u8]), body: &[u8]) -> String {
        let mut out = Vec::new();
        write(&mut out, body);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_body_is_an_object_to_those_who_need_one() {
        let view = |body| written(write_as_object, body);
        assert_eq!(view(b" {\"b\": 1.10,\n\"a\":2} "), "{\"b\": 1.10,\"a\":2}");
        assert_eq!(view(b"[1, 2]"), "{\"data\":[1, 2]}");
        assert_eq!(view(b"12345678901234567890123"), "{\"data\":12345678901234567890123}");
        assert_eq!(view(b"{broken\n<"), "{\"data\":\"{broken\\n<\"}");
        assert_eq!(view(b""), "{\"data\":\"\"}");
        assert_eq!(view(b"\xff\0"), "{\"data_base64\":\"/wA=\"}");
    }

    #[test]
    fn every_body_is_a_value_to_those_who_need_one() {
        let view = |body| written(write_as_value, body);
        assert_eq!(view(b"{ \"a\" : \"<\" }"), "{\"a\":\"\\u003c\"}");
        assert_eq!(view(b"null"), "null");
        assert_eq!(view(b"a < b"), "\"a \\u003c b\"");
        assert_eq!(view(b"\xff"), "{\"data_base64\":\"/w==\"}");
    }

    #[test]
    fn base64_is_that_of_the_rfc() {
        let expected = ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"];
        for (length, expected) in expected.into_iter().enumerate() {
            assert_eq!(written(write_base64, &b"foobar"[..length]), expected);
        }
        assert_eq!(written(write_base64, &[0xfb, 0xff, 0xfe]), "+//+");
    }

    #[test]
    fn names_and_priorities_are_shown_as_near_as_can_be() {
        assert_eq!(text("é".as_bytes()), "é");
        assert_eq!(text(b"a\xff"), "a\u{fffd}");
        assert_eq!((priority_from_zero(-5), priority_from_zero(7)), (0, 7));
    }

    #[test]
    fn of_a_priority_from_urgency_the_lowest_comes_first_and_none_is_below_zero() {
        for (urgency, shown) in [(0, 0), (7, 0), (-7, 7), (-4_294_967_296, u32::MAX), (i128::MIN, u32::MAX)] {
            assert_eq!(priority_from_urgency(urgency), shown, "{urgency}");
        }
    }
}
