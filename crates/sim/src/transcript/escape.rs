//! How bytes are written in a transcript: text with `\n \r \t \0 \\ \xNN` and `\*COUNT(TEXT)`.

/// Bytes that one text may stand for, so that a slip in a count is an error and not a full memory.
const UNESCAPED_BYTES_MAX: usize = 64 << 20;

/// The bytes that `text` stands for.
///
/// # Errors
/// If an escape is unknown or not finished. The error says which.
pub fn unescape(text: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        bytes.extend_from_slice(&rest.as_bytes()[..at]);
        let escaped = &rest[at + 1..];
        rest = match escaped.strip_prefix('*') {
            Some(repetition) => repeat(repetition, &mut bytes)?,
            None => {
                let (byte, after) = unescape_one(escaped)?;
                bytes.push(byte);
                after
            }
        };
    }
    bytes.extend_from_slice(rest.as_bytes());
    Ok(bytes)
}

/// The bytes that `text` stands for, which has any bytes, the fewest that will do, where it says `\?`: what comes between these.
///
/// # Errors
/// As [`unescape`].
pub fn unescape_parts(text: &str) -> Result<Vec<Vec<u8>>, String> {
    let mut parts = Vec::new();
    let (mut part, mut rest) = (0, 0);
    while let Some(at) = text[rest..].find('\\') {
        rest += at;
        if text[rest..].starts_with("\\?") {
            parts.push(unescape(&text[part..rest])?);
            part = rest + 2;
        }
        // What is escaped is one character, if there is one.
        let escaped = text[rest + 1..].chars().next();
        rest += 1 + escaped.map_or(0, char::len_utf8);
    }
    parts.push(unescape(&text[part..])?);
    Ok(parts)
}

/// Reads what follows a backslash: the byte it stands for, and the text after it.
fn unescape_one(text: &str) -> Result<(u8, &str), String> {
    let mut chars = text.chars();
    let byte = match chars.next() {
        Some('n') => b'\n',
        Some('r') => b'\r',
        Some('t') => b'\t',
        Some('0') => 0,
        Some('\\') => b'\\',
        Some('x') => {
            let digits = text.get(1..3).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
            let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
            return byte.map(|byte| (byte, &text[3..])).ok_or_else(|| "\\x needs two hexadecimal digits".to_owned());
        }
        Some(other) => return Err(format!("unknown escape '\\{other}'")),
        None => return Err("a backslash at the end: write '\\\\'".to_owned()),
    };
    Ok((byte, chars.as_str()))
}

/// Reads what follows `\*`, and gives the text after it.
fn repeat<'a>(text: &'a str, bytes: &mut Vec<u8>) -> Result<&'a str, String> {
    let malformed = || "a repetition is written '\\*COUNT(TEXT)'".to_owned();
    let (count, rest) = text.split_once('(').ok_or_else(malformed)?;
    let (repeated, rest) = rest.split_once(')').ok_or_else(malformed)?;
    let count: usize = count.parse().map_err(|_| malformed())?;
    if repeated.contains("\\*") {
        return Err("a repetition cannot hold another".to_owned());
    }
    let repeated = unescape(repeated)?;
    if count.saturating_mul(repeated.len()) > UNESCAPED_BYTES_MAX {
        return Err(format!("a text of more than {UNESCAPED_BYTES_MAX} bytes"));
    }
    bytes.extend(repeated.repeat(count));
    Ok(rest)
}

/// `bytes` as a transcript would write them. Long runs of one byte are written as a repetition.
#[must_use]
pub fn escape(bytes: &[u8]) -> String {
    const RUN_MIN: usize = 40;
    let mut text = String::with_capacity(bytes.len());
    let mut rest = bytes;
    while !rest.is_empty() {
        let run = rest.iter().take_while(|&&byte| byte == rest[0]).count();
        if run >= RUN_MIN {
            let repeated = match rest[0] {
                byte @ (b')' | 0x80..) => format!("\\x{byte:02x}"),
                byte => escape_char(char::from(byte)),
            };
            text.push_str(&format!("\\*{run}({repeated})"));
            rest = &rest[run..];
        } else {
            rest = escape_next(rest, &mut text);
        }
    }
    text
}

/// Writes the next character or byte of `bytes`, which are not empty, and gives the rest.
fn escape_next<'a>(bytes: &'a [u8], text: &mut String) -> &'a [u8] {
    let char_bytes = (1..=bytes.len().min(4)).find_map(|count| std::str::from_utf8(&bytes[..count]).ok());
    match char_bytes.and_then(|valid| valid.chars().next()) {
        Some(character) => {
            text.push_str(&escape_char(character));
            &bytes[character.len_utf8()..]
        }
        None => {
            text.push_str(&format!("\\x{:02x}", bytes[0]));
            &bytes[1..]
        }
    }
}

fn escape_char(character: char) -> String {
    match character {
        '\n' => "\\n".to_owned(),
        '\r' => "\\r".to_owned(),
        '\t' => "\\t".to_owned(),
        '\0' => "\\0".to_owned(),
        '\\' => "\\\\".to_owned(),
        control if control.is_control() => {
            let mut buffer = [0; 4];
            control.encode_utf8(&mut buffer).bytes().map(|byte| format!("\\x{byte:02x}")).collect()
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_stand_for_bytes() {
        assert_eq!(unescape(r"a\n\r\t\0\\\x00\xfFb"), Ok(b"a\n\r\t\0\\\0\xffb".to_vec()));
        assert_eq!(unescape("ü"), Ok("ü".as_bytes().to_vec()));
        assert_eq!(unescape(""), Ok(Vec::new()));
    }

    #[test]
    fn a_repetition_repeats() {
        assert_eq!(unescape(r"<\*3(ab)>"), Ok(b"<ababab>".to_vec()));
        assert_eq!(unescape(r"\*2(\r\n)"), Ok(b"\r\n\r\n".to_vec()));
        assert_eq!(unescape(r"\*0(x)"), Ok(Vec::new()));
    }

    #[test]
    fn what_cannot_be_read_is_an_error() {
        for text in [r"\", r"\q", r"\x", r"\x1", r"\xg0", r"\x+1", r"\xü", r"\*3", r"\*3(", r"\*x(y)", r"\*(x)"] {
            assert!(unescape(text).is_err(), "{text}");
        }
        assert!(unescape(r"\*99999999999(x)").is_err(), "more than any memory");
        assert!(unescape(r"\*2(\*2(x))").is_err(), "a repetition in a repetition");
    }

    #[test]
    fn what_is_escaped_can_be_read_again() {
        let all_bytes: Vec<u8> = (0..=255).collect();
        let run = [&b"("[..], &[b')'; 100], &[0; 100], "日本".as_bytes(), &[0xe6, 0x97], &[b'x'; 100]].concat();
        for bytes in [&all_bytes[..], &run, b"", "\u{85}".as_bytes()] {
            assert_eq!(unescape(&escape(bytes)).as_deref(), Ok(bytes), "{}", escape(bytes));
        }
        assert_eq!(escape(&[b'x'; 100]), r"\*100(x)");
    }

    #[test]
    fn a_text_may_have_anything_in_between() {
        let parts = |text: &str| unescape_parts(text).unwrap();
        assert_eq!(parts("a?b"), [b"a?b".to_vec()]);
        assert_eq!(parts("a\\?b\\n\\?"), [b"a".to_vec(), b"b\n".to_vec(), Vec::new()]);
        assert_eq!(parts("a\\\\?b"), [b"a\\?b".to_vec()]);
        assert_eq!(unescape_parts("\\"), unescape("\\").map(|bytes| vec![bytes]));
        assert!(unescape_parts("\\?\\q").is_err());
    }
}
