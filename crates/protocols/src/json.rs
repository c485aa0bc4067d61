//! JSON on the wire: the fields of an object as their raw text, and strings written out.
//!
//! The grammar is read once, by [`fields`]; what its callers then do with a field's text takes it as valid.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// Why some text is no JSON object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Malformed {
    /// It is no JSON at all.
    NotJson,
    /// It is some other value.
    NotObject,
}

/// How the keys of an object are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keys {
    /// Byte by byte.
    Exact,
    /// Without regard to the case of ASCII letters.
    AnyCase,
}

/// The raw text of those values of an object that have one of `names` as their key, in the order of
/// `names`. Of duplicates the last counts; other keys are ignored.
pub(crate) fn fields<'a, const N: usize>(
    text: &'a str,
    keys: Keys,
    names: &[&str; N],
) -> Result<[Option<&'a str>; N], Malformed> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let fields = deserializer.deserialize_map(FieldsVisitor { keys, names }).map_err(|error| malformed(&error))?;
    deserializer.end().map_err(|error| malformed(&error))?;
    Ok(fields)
}

fn malformed(error: &serde_json::Error) -> Malformed {
    if error.is_data() { Malformed::NotObject } else { Malformed::NotJson }
}

struct FieldsVisitor<'n, const N: usize> {
    keys: Keys,
    names: &'n [&'n str; N],
}

impl<'de, const N: usize> Visitor<'de> for FieldsVisitor<'_, N> {
    type Value = [Option<&'de str>; N];

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = [None; N];
        while let Some(key) = map.next_key::<&'de RawValue>()? {
            // A key that is no Unicode is none of the names.
            let key = string(key.get()).ok();
            let found = self.names.iter().position(|name| match self.keys {
                Keys::Exact => key.as_deref() == Some(*name),
                Keys::AnyCase => key.as_deref().is_some_and(|key| name.eq_ignore_ascii_case(key)),
            });
            match found {
                Some(at) => fields[at] = Some(map.next_value::<&'de RawValue>()?.get()),
                None => _ = map.next_value::<IgnoredAny>()?,
            }
        }
        Ok(fields)
    }
}

/// Why a field's text is no string of characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoString {
    /// It is another value.
    OtherValue,
    /// It holds half a surrogate pair: JSON can write that, Unicode has no such character.
    HalfPair,
}

/// The string that a field's text is.
pub(crate) fn string(field: &str) -> Result<Cow<'_, str>, NoString> {
    let inside = field.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).ok_or(NoString::OtherValue)?;
    if !inside.contains('\\') {
        return Ok(Cow::Borrowed(inside));
    }
    // The grammar is known to be right.
    serde_json::from_str(field).map(Cow::Owned).map_err(|_| NoString::HalfPair)
}

/// The string that a field's text is, U+FFFD in the place of half a surrogate pair. `None` if it is another value.
pub(crate) fn string_lossy(field: &str) -> Option<Cow<'_, str>> {
    match string(field) {
        Ok(text) => Some(text),
        Err(NoString::OtherValue) => None,
        Err(NoString::HalfPair) => {
            serde_json::Deserializer::from_str(field).deserialize_bytes(HalfPairsVisitor).ok().map(Cow::Owned)
        }
    }
}

/// Takes the bytes of a string in which half a surrogate pair is encoded as if it were a character.
struct HalfPairsVisitor;

impl Visitor<'_> for HalfPairsVisitor {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Self::Value, E> {
        let mut text = String::new();
        for chunk in bytes.utf8_chunks() {
            text.push_str(chunk.valid());
            // The three bytes of a half pair are three chunks; only the first of them begins with this.
            if chunk.invalid().first() == Some(&0xed) {
                text.push(char::REPLACEMENT_CHARACTER);
            }
        }
        Ok(text)
    }
}

/// Some bytes as text, U+FFFD in the place of each byte that is no part of a character, as Go reads them.
pub(crate) fn text_lossy(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    Cow::Owned(text)
}

/// The items of the array that a field's text is, each made by `item` from its text, or what `item` says
/// of the first that it makes nothing of. `None` if the field is another value. Items beyond `max` + 1 are
/// not kept: that many are enough to see that there are too many.
pub(crate) fn list<T, E>(field: &str, max: usize, item: impl FnMut(&str) -> Result<T, E>) -> Option<Result<Vec<T>, E>> {
    let mut deserializer = serde_json::Deserializer::from_str(field);
    deserializer.deserialize_seq(ListVisitor { max, item }).ok()
}

struct ListVisitor<F> {
    max: usize,
    item: F,
}

impl<'de, T, E, F: FnMut(&str) -> Result<T, E>> Visitor<'de> for ListVisitor<F> {
    type Value = Result<Vec<T>, E>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut array: A) -> Result<Self::Value, A::Error> {
        let mut items = Ok(Vec::new());
        while let Some(text) = array.next_element::<&'de RawValue>()? {
            if let Ok(kept) = &mut items
                && kept.len() <= self.max
            {
                match (self.item)(text.get()) {
                    Ok(item) => kept.push(item),
                    Err(why) => items = Err(why),
                }
            }
        }
        Ok(items)
    }
}

/// The one JSON value that some bytes are, without the white space around it.
pub(crate) fn value(bytes: &[u8]) -> Option<&str> {
    serde_json::from_slice::<&RawValue>(bytes).ok().map(RawValue::get)
}

/// Which characters a string is written with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Escapes {
    /// As they are, but for those that JSON forbids.
    Fewest,
    /// `<`, `>`, `&`, U+2028 and U+2029 by their numbers too, as Go does.
    Html,
}

/// Writes a string, with its quotes.
pub(crate) fn write_string(out: &mut Vec<u8>, text: &str, escapes: Escapes) {
    let bytes = text.as_bytes();
    let mut written = 0;
    out.push(b'"');
    for (at, &byte) in bytes.iter().enumerate() {
        let Some((escape, length)) = escape(&bytes[at..], byte, escapes) else { continue };
        out.extend_from_slice(&bytes[written..at]);
        match escape {
            Escape::Short(letter) => out.extend_from_slice(&[b'\\', letter]),
            Escape::Number(number) => write_number_escape(out, number),
        }
        written = at + length;
    }
    out.extend_from_slice(&bytes[written..]);
    out.push(b'"');
}

enum Escape {
    Short(u8),
    Number(u16),
}

/// How the character that `rest` begins with, its first byte being `byte`, is to be escaped, and its
/// length in bytes.
fn escape(rest: &[u8], byte: u8, escapes: Escapes) -> Option<(Escape, usize)> {
    let escape = match byte {
        b'"' | b'\\' => Escape::Short(byte),
        b'\n' => Escape::Short(b'n'),
        b'\r' => Escape::Short(b'r'),
        b'\t' => Escape::Short(b't'),
        0x08 => Escape::Short(b'b'),
        0x0c => Escape::Short(b'f'),
        0..0x20 => Escape::Number(u16::from(byte)),
        _ if escapes == Escapes::Html => {
            return html_escape(rest).map(|(number, length)| (Escape::Number(number), length));
        }
        _ => return None,
    };
    Some((escape, 1))
}

/// The number of the character that `rest` begins with and its length in bytes, if [`Escapes::Html`] escapes it.
fn html_escape(rest: &[u8]) -> Option<(u16, usize)> {
    match rest {
        [byte @ (b'<' | b'>' | b'&'), ..] => Some((u16::from(*byte), 1)),
        [0xe2, 0x80, 0xa8, ..] => Some((0x2028, 3)),
        [0xe2, 0x80, 0xa9, ..] => Some((0x2029, 3)),
        _ => None,
    }
}

fn write_number_escape(out: &mut Vec<u8>, number: u16) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.extend_from_slice(b"\\u");
    for shift in [12, 8, 4, 0] {
        out.push(HEX[usize::from(number >> shift & 0xf)]);
    }
}

/// Writes a JSON value without white space between its parts, its strings escaped as [`Escapes::Html`] says.
pub(crate) fn write_compact(out: &mut Vec<u8>, value: &str) {
    let bytes = value.as_bytes();
    let (mut at, mut written, mut in_string) = (0, 0, false);
    while at < bytes.len() {
        let length = match bytes[at] {
            b'"' => {
                in_string = !in_string;
                at += 1;
                continue;
            }
            b'\\' => {
                at += 2;
                continue;
            }
            b' ' | b'\t' | b'\n' | b'\r' if !in_string => {
                out.extend_from_slice(&bytes[written..at]);
                1
            }
            _ => {
                let Some((number, length)) = html_escape(&bytes[at..]) else {
                    at += 1;
                    continue;
                };
                out.extend_from_slice(&bytes[written..at]);
                write_number_escape(out, number);
                length
            }
        };
        at += length;
        written = at;
    }
    out.extend_from_slice(&bytes[written..]);
}

/// Writes a JSON value as it is, but in one line. Line ends stand only between its parts, where they mean nothing.
pub(crate) fn write_in_one_line(out: &mut Vec<u8>, value: &str) {
    for part in value.as_bytes().split(|&byte| byte == b'\n') {
        out.extend_from_slice(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<[Option<&str>; 2], Malformed> {
        fields(text, Keys::Exact, &["a", "b"])
    }

    #[test]
    fn fields_are_found_as_their_raw_text() {
        assert_eq!(
            read(r#" { "a" : {"x": 1.10 }, "c":[1], "b" : 1E+2 } "#),
            Ok([Some(r#"{"x": 1.10 }"#), Some("1E+2")])
        );
        assert_eq!(read("{}"), Ok([None, None]));
    }

    #[test]
    fn of_duplicates_the_last_counts_and_escapes_in_keys_are_understood() {
        assert_eq!(read(r#"{"a":1,"b":2,"\u0061":3}"#), Ok([Some("3"), Some("2")]));
    }

    #[test]
    fn a_key_that_is_no_unicode_is_ignored_and_one_that_is_no_json_is_not() {
        assert_eq!(read(r#"{"\ud800":1,"a":2,"a\udc00":3}"#), Ok([Some("2"), None]));
        for text in [r#"{"\ud80":1}"#, r#"{"\x":1}"#, "{\"\t\":1}", "{\"a:1}"] {
            assert_eq!(read(text), Err(Malformed::NotJson), "{text}");
        }
    }

    #[test]
    fn keys_are_compared_as_asked() {
        assert_eq!(read(r#"{"A":1}"#), Ok([None, None]));
        assert_eq!(fields(r#"{"A":1}"#, Keys::AnyCase, &["a"]), Ok([Some("1")]));
    }

    #[test]
    fn what_is_no_object_is_told_from_what_is_no_json() {
        for text in ["[]", "1", "\"a\"", "null", "true"] {
            assert_eq!(read(text), Err(Malformed::NotObject), "{text}");
        }
        for text in ["", " ", "x", "{", "{\"a\":}", "{\"a\":1,}", "{} {}", "{1:2}", "{\"a\":01}", "{\"a\":\"\t\"}"] {
            assert_eq!(read(text), Err(Malformed::NotJson), "{text}");
        }
    }

    #[test]
    fn depth_costs_no_stack() {
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(1_000_000), "]".repeat(1_000_000));
        assert!(read(&deep).is_ok());
        assert_eq!(read(&deep[..deep.len() - 2]), Err(Malformed::NotJson));
    }

    #[test]
    fn a_string_is_unescaped() {
        assert_eq!(string(r#""plain""#).as_deref(), Ok("plain"));
        assert_eq!(string(r#""\u00e9\n\ud83d\ude00""#).as_deref(), Ok("é\n😀"));
        for field in ["1", "null", "[\"a\"]"] {
            assert_eq!((string(field), string_lossy(field)), (Err(NoString::OtherValue), None), "{field}");
        }
    }

    #[test]
    fn half_a_surrogate_pair_is_no_character() {
        for (field, lossy) in [
            (r#""\ud800""#, "\u{fffd}"),
            (r#""a\udc00b""#, "a\u{fffd}b"),
            (r#""\ud83d\ud83d\ude00""#, "\u{fffd}😀"),
            (r#""é\ud800\u0041\ud800\n""#, "é\u{fffd}A\u{fffd}\n"),
        ] {
            assert_eq!(string(field), Err(NoString::HalfPair), "{field}");
            assert_eq!(string_lossy(field).as_deref(), Some(lossy), "{field}");
        }
    }

    #[test]
    fn each_byte_that_is_no_text_is_replaced() {
        assert_eq!(text_lossy("é".as_bytes()), "é");
        assert_eq!(text_lossy(b"a\xffb\xe2\x80c\xed\xa0\x80"), "a\u{fffd}b\u{fffd}\u{fffd}c\u{fffd}\u{fffd}\u{fffd}");
    }

    #[test]
    fn a_list_keeps_no_more_than_shows_that_it_is_too_long() {
        let numbers = |text| list(text, 2, |item| item.parse::<u8>().map_err(|_| item.len()));
        assert_eq!(numbers("[ 1 , 2 ]"), Some(Ok(vec![1, 2])));
        assert_eq!(numbers("[1,2,3,4,5]"), Some(Ok(vec![1, 2, 3])));
        assert_eq!(numbers("[]"), Some(Ok(vec![])));
        assert_eq!(numbers("[1,\"2\",null]"), Some(Err(3)));
        for text in ["1", "null", "{}"] {
            assert_eq!(numbers(text), None, "{text}");
        }
    }

    fn written(text: &str, escapes: Escapes) -> String {
        let mut out = Vec::new();
        write_string(&mut out, text, escapes);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn strings_are_written_with_the_escapes_asked_for() {
        let text = "a\"\\\n\r\t\u{8}\u{c}\0\u{1f}\u{7f}é😀<>&\u{2028}\u{2029}\u{2027}";
        assert_eq!(
            written(text, Escapes::Fewest),
            "\"a\\\"\\\\\\n\\r\\t\\b\\f\\u0000\\u001f\u{7f}é😀<>&\u{2028}\u{2029}\u{2027}\""
        );
        assert!(written(text, Escapes::Html).ends_with("é😀\\u003c\\u003e\\u0026\\u2028\\u2029\u{2027}\""));
        for escapes in [Escapes::Fewest, Escapes::Html] {
            assert_eq!(string(&written(text, escapes)).as_deref(), Ok(text));
        }
    }

    #[test]
    fn compacting_changes_nothing_but_white_space_and_five_characters() {
        let mut out = Vec::new();
        write_compact(&mut out, "{ \"z\\\" <\" :\t[ 1.10 , 1E+2 ,\r\n\"a  b\\\\\" , \"\u{2028}é\" ], \"a\":null }");
        assert_eq!(String::from_utf8(out).unwrap(), r#"{"z\" \u003c":[1.10,1E+2,"a  b\\","\u2028é"],"a":null}"#);
    }

    #[test]
    fn a_value_is_written_in_one_line() {
        let mut out = Vec::new();
        write_in_one_line(&mut out, "{\n \"a\":\r\n1 }");
        assert_eq!(out, b"{ \"a\":\r1 }");
    }
}
