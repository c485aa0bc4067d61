//! By what a request says what is asked.

/// The first word of a request in this protocol, and the second where the first alone does not say what is asked; nothing if
/// the bytes are none, or not enough. Where case does not matter, it stands there in capitals.
#[must_use]
pub fn verb(protocol: &str, bytes: &[u8]) -> Option<String> {
    match protocol {
        "goqueue" => {
            let end = bytes.iter().position(|byte| *byte == 0)?;
            with_second(&words_of(&bytes[..end])?, &[]).map(|verb| verb.to_ascii_uppercase())
        }
        "jobcentre" => {
            let text = std::str::from_utf8(bytes).ok()?;
            let value = text.split_once("\"request\"")?.1.trim_start().strip_prefix(':')?.trim_start();
            Some(value.strip_prefix('"')?.split_once('"')?.0.to_owned())
        }
        "takeanumber" => {
            let words = words_of_array(bytes).or_else(|| words_of(line(bytes)?));
            with_second(&words?, &["CLIENT", "COMMAND"]).map(|verb| verb.to_ascii_uppercase())
        }
        "masenko" => with_second(&words_of(line(bytes)?)?, &[]).map(|verb| verb.to_ascii_uppercase()),
        "workq" => with_second(&words_of(line(bytes)?)?, &["inspect"]),
        _ => with_second(&words_of(line(bytes)?)?, &[]),
    }
}

fn line(bytes: &[u8]) -> Option<&[u8]> {
    Some(&bytes[..bytes.iter().position(|byte| *byte == b'\n')?])
}

fn words_of(line: &[u8]) -> Option<Vec<String>> {
    Some(std::str::from_utf8(line).ok()?.split_ascii_whitespace().map(str::to_owned).collect())
}

/// The first of these words, if it can be a verb, and the second behind one of those that say too little.
fn with_second(words: &[String], too_little: &[&str]) -> Option<String> {
    let (first, rest) = words.split_first()?;
    let is_letter = |byte: u8| byte.is_ascii_alphabetic() || matches!(byte, b'-' | b'_');
    let is_short = too_little.iter().any(|word| word.eq_ignore_ascii_case(first));
    let second = rest.first().filter(|_| is_short).map(|second| format!(" {second}"));
    first.bytes().all(is_letter).then(|| format!("{first}{}", second.unwrap_or_default()))
}

/// Redis' way of sending words, each with its length.
fn words_of_array(bytes: &[u8]) -> Option<Vec<String>> {
    let mut rest = bytes.strip_prefix(b"*")?;
    let mut line = || {
        let end = rest.windows(2).position(|two| two == b"\r\n")?;
        let line = std::str::from_utf8(&rest[..end]).ok()?;
        rest = &rest[end + 2..];
        Some(line)
    };
    let count: usize = line()?.parse().ok()?;
    let mut words = Vec::new();
    for _ in 0..count.min(2) {
        let length = line()?.strip_prefix('$')?;
        let word = line()?;
        // Only bodies hold ends of lines, and they stand behind.
        if length.parse() != Ok(word.len()) {
            break;
        }
        words.push(word.to_owned());
    }
    Some(words).filter(|words| !words.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verb_is_found_in_every_form() {
        let is = |protocol, bytes: &[u8], expected: Option<&str>| {
            assert_eq!(verb(protocol, bytes).as_deref(), expected, "{}", bytes.escape_ascii());
        };
        is("goqueue", b"ADD\0a\0", Some("ADD"));
        is("goqueue", b"ADD", None);
        is("jobcentre", b"{\"request\":\"get\"}\n", Some("get"));
        is("jobcentre", b"{}\n", None);
        is("beanstalkd", b"put 0 0 1 1\r\nx\r\n", Some("put"));
        is("beanstalkd", b"\r\n", None);
        is("masenko", b"PING\n", Some("PING"));
        is("workq", b"inspect jobs a\r\n", Some("inspect jobs"));
        is("workq", b"add x\r\n", Some("add"));
        is("takeanumber", b"LEN q\r\n", Some("LEN"));
        is("takeanumber", b"*2\r\n$6\r\nclient\r\n$2\r\nid\r\n", Some("CLIENT ID"));
        is("takeanumber", b"*2\r\n$4\r\nPING\r\n$2\r\n\r\n\r\n", Some("PING"));
        is("takeanumber", b"*1\r\n$4\r\n", None);
    }
}
