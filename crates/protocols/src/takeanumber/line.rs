//! takeanumber's own form: a line of words, each parted from the next by exactly one space.

use super::{Request, UNRECOGNIZED};

/// Reads a line, its LF taken off.
pub(super) fn parse(line: &[u8]) -> Request<'_> {
    let trimmed = trim_end(trim_start(line));
    let Some((word, rest)) = split(trimmed) else {
        return if trimmed == b"CLOSE" { Request::Close } else { Request::Wrong(UNRECOGNIZED) };
    };
    match word {
        b"LEN" => Request::Len { queue: rest },
        b"ADD" => parse_add(rest, trim_start(line).get(trimmed.len()) == Some(&b' ')),
        b"RESERVE" => Request::Reserve { queue: rest },
        b"RETRY" => {
            split(rest).map_or(Request::Wrong("Missing RETRY parameters."), |(queue, id)| Request::Retry { queue, id })
        }
        b"DONE" => {
            split(rest).map_or(Request::Wrong("Missing DONE parameters."), |(queue, id)| Request::Done { queue, id })
        }
        b"CLOSE" => Request::Close,
        _ => Request::Wrong(UNRECOGNIZED),
    }
}

/// `<queue> <retries> <body>`. Trimming has taken a blank body with it: the space that stood before
/// it tells it from one that was not there at all.
fn parse_add(rest: &[u8], space_was_trimmed: bool) -> Request<'_> {
    const MISSING: Request<'static> = Request::Wrong("Missing ADD parameters.");
    let Some((queue, rest)) = split(rest) else {
        return MISSING;
    };
    match split(rest) {
        Some((retries, body)) => Request::Add { queue, retries, body },
        None if space_was_trimmed => Request::Add { queue, retries: rest, body: b"" },
        None => MISSING,
    }
}

/// What stands before the first space, and after it.
fn split(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let space = memchr::memchr(b' ', text)?;
    Some((&text[..space], &text[space + 1..]))
}

fn trim_start(text: &[u8]) -> &[u8] {
    let start = text.iter().position(|byte| !is_blank(*byte)).unwrap_or(text.len());
    &text[start..]
}

fn trim_end(text: &[u8]) -> &[u8] {
    let end = text.iter().rposition(|byte| !is_blank(*byte)).map_or(0, |last| last + 1);
    &text[..end]
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add<'a>(queue: &'a str, retries: &'a str, body: &'a str) -> Request<'a> {
        Request::Add { queue: queue.as_bytes(), retries: retries.as_bytes(), body: body.as_bytes() }
    }

    fn check(line: &str, expected: &Request<'_>) {
        assert_eq!(&parse(line.as_bytes()), expected, "{line:?}");
    }

    #[test]
    fn words_are_parted_by_exactly_one_space() {
        check("ADD q 1 x", &add("q", "1", "x"));
        check("ADD q 1  x  y ", &add("q", "1", " x  y"));
        check("ADD  q 1 x", &add("", "q", "1 x"));
        check("ADD q  1 x", &add("q", "", "1 x"));
        check("LEN  a b ", &Request::Len { queue: b" a b" });
        check("RETRY q a b", &Request::Retry { queue: b"q", id: b"a b" });
        check("DONE  q", &Request::Done { queue: b"", id: b"q" });
    }

    #[test]
    fn a_line_is_trimmed_at_both_ends() {
        check(" \t\x0b\x0cADD q 1 x\r", &add("q", "1", "x"));
        check("CLOSE \r", &Request::Close);
        check("\rRESERVE q\t\r", &Request::Reserve { queue: b"q" });
    }

    #[test]
    fn a_blank_body_differs_from_one_that_is_missing() {
        const MISSING: Request<'static> = Request::Wrong("Missing ADD parameters.");
        for line in ["ADD q", "ADD q ", "ADD q  ", "ADD q 1", "ADD q 1\t", "ADD q 1\r", "ADD q x"] {
            check(line, &MISSING);
        }
        for line in ["ADD q 1 ", "ADD q 1 \r", "ADD q 1  ", "ADD q 1 \t", " ADD q 1 "] {
            check(line, &add("q", "1", ""));
        }
        check("ADD q x ", &add("q", "x", ""));
        check("ADD  1 ", &add("", "1", ""));
    }

    #[test]
    fn a_word_with_nothing_after_it_is_no_command() {
        for line in ["", " ", "\r", "ADD", "ADD ", "LEN", "LEN ", "RESERVE ", "RETRY ", "DONE", "add q 1 x", "CLOSED"] {
            check(line, &Request::Wrong(UNRECOGNIZED));
        }
        for line in ["LEN\tq", "ADD\tq 1 x", "PING"] {
            check(line, &Request::Wrong(UNRECOGNIZED));
        }
    }

    #[test]
    fn an_id_may_be_missing() {
        for line in ["RETRY q", "RETRY q "] {
            check(line, &Request::Wrong("Missing RETRY parameters."));
        }
        check("DONE q ", &Request::Wrong("Missing DONE parameters."));
    }
}
