//! The little HTTP that a port of jobs speaks: `GET /healthz`, and a plain no to everything else.
//! One request, one answer, then the connection ends; a request's body is never read.

use std::io::Write;

use jobyard_engine::Reply;

use crate::any::begins_with;
use crate::codec::{Codec, Context, Farewell, Health, Next};
use crate::guard::begins_tls;
use crate::input::{Input, Line};
use crate::table::Begins;

/// What it is called in the table.
pub(crate) const NAME: &str = "http";

/// Bytes in a request line and its headers, line ends counted.
const HEAD_BYTES_MAX: usize = 8 << 10;

/// How long a request may take to arrive, from its first byte.
const HEAD_MS_MAX: u64 = 10_000;

/// One connection's only request.
#[derive(Debug, Default)]
pub(crate) struct Http {
    request: Option<Request>,
    hosts: usize,
    head_bytes: usize,
    deadline_ms: Option<u64>,
}

/// What a request line said.
#[derive(Debug)]
struct Request {
    /// It asks for the headers only.
    bodiless: bool,
    /// It asks for the one thing that is known here.
    known: bool,
    names_host: bool,
}

/// What goes into an answer's first line, and its body.
type Status = (&'static str, &'static str);

const OK: Status = ("200 OK", "ok");
const BAD_REQUEST: Status = ("400 Bad Request", "bad request");
const NOT_FOUND: Status = ("404 Not Found", "not found");
const TOO_SLOW: Status = ("408 Request Timeout", "request timeout");
const TOO_LARGE: Status = ("431 Request Header Fields Too Large", "request header fields too large");
const STARTING: Status = ("503 Service Unavailable", "starting");
const DRAINING: Status = ("503 Service Unavailable", "draining");
const OTHER_VERSION: Status = ("505 HTTP Version Not Supported", "http version not supported");

/// Whether the first bytes are those of an HTTP request.
pub(crate) fn begins(bytes: &[u8]) -> Begins {
    const OPENINGS: [&[u8]; 9] =
        [b"GET /", b"HEAD /", b"POST /", b"PUT /", b"DELETE /", b"OPTIONS /", b"PATCH /", b"TRACE /", b"CONNECT /"];
    begins_with(bytes, &OPENINGS)
}

impl Codec for Http {
    fn decode(&mut self, input: &mut Input, out: &mut Vec<u8>, context: &Context<'_>) -> Next {
        if self.deadline_ms.is_none() && !input.is_empty() {
            self.deadline_ms = Some(context.now.engine_ms.saturating_add(HEAD_MS_MAX));
        }
        if self.head_bytes == 0 && begins_tls(input.bytes()) == Begins::Yes {
            return Next::Close;
        }
        loop {
            // The LF is part of the head: a line may have one byte less than what is left.
            let Some(line_bytes_max) = HEAD_BYTES_MAX.checked_sub(self.head_bytes + 1) else {
                return self.close(out, TOO_LARGE);
            };
            let length = match input.line(line_bytes_max) {
                Line::More => return Next::More,
                Line::TooLong => return self.close(out, TOO_LARGE),
                Line::Whole(length) => length,
            };
            let line = &input.bytes()[..length];
            let status = self.read_line(line.strip_suffix(b"\r").unwrap_or(line), context.health);
            input.consume(length + 1);
            self.head_bytes += length + 1;
            if let Some(status) = status {
                return self.close(out, status);
            }
        }
    }

    fn encode(&mut self, _reply: &Reply<'_>, _out: &mut Vec<u8>, _context: &Context<'_>) {
        unreachable!("HTTP sends the engine no commands");
    }

    fn last_words(&mut self, why: Farewell, out: &mut Vec<u8>) {
        self.close(out, ("503 Service Unavailable", why.text()));
    }

    fn deadline_ms(&self) -> Option<u64> {
        self.deadline_ms
    }

    fn deadline_passed(&mut self, out: &mut Vec<u8>) {
        self.close(out, TOO_SLOW);
    }

    fn postpone(&mut self, by_ms: u64) {
        self.deadline_ms = self.deadline_ms.map(|deadline_ms| deadline_ms.saturating_add(by_ms));
    }
}

impl Http {
    /// A connection that the `any` port has found to be this: its time began with its first byte.
    pub(crate) fn with_deadline(deadline_ms: Option<u64>) -> Self {
        Http { deadline_ms, ..Http::default() }
    }

    /// Reads one line of the head. Once the answer is known, it is returned.
    fn read_line(&mut self, line: &[u8], health: Health) -> Option<Status> {
        let Some(request) = &self.request else {
            if line.is_empty() {
                return None;
            }
            match parse_request(line) {
                Ok(request) => self.request = Some(request),
                Err(status) => return Some(status),
            }
            return None;
        };
        if line.is_empty() {
            return Some(if request.names_host && self.hosts != 1 { BAD_REQUEST } else { request.status(health) });
        }
        match header_name(line) {
            None => return Some(BAD_REQUEST),
            Some(name) if name.eq_ignore_ascii_case(b"host") => self.hosts += 1,
            Some(_) => {}
        }
        None
    }

    fn close(&mut self, out: &mut Vec<u8>, (status, body): Status) -> Next {
        let bodiless = self.request.as_ref().is_some_and(|request| request.bodiless);
        write!(
            out,
            "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n\
             Cache-Control: no-store\r\nConnection: close\r\n\r\n{}",
            body.len(),
            if bodiless { "" } else { body }
        )
        .expect("memory takes every write");
        Next::Close
    }
}

impl Request {
    fn status(&self, health: Health) -> Status {
        match (self.known, health) {
            (false, _) => NOT_FOUND,
            (true, Health::Ready) => OK,
            (true, Health::Starting) => STARTING,
            (true, Health::Draining) => DRAINING,
        }
    }
}

/// Reads `GET /healthz HTTP/1.1`.
fn parse_request(line: &[u8]) -> Result<Request, Status> {
    let mut words = line.split(|&byte| byte == b' ');
    let (Some(verb), Some(target), Some(version), None) = (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(BAD_REQUEST);
    };
    if verb.is_empty() || !verb.iter().all(|&byte| is_token(byte)) || !target.iter().all(u8::is_ascii_graphic) {
        return Err(BAD_REQUEST);
    }
    let names_host = match version {
        b"HTTP/1.0" => false,
        [b'H', b'T', b'T', b'P', b'/', b'1', b'.', minor] if minor.is_ascii_digit() => true,
        [b'H', b'T', b'T', b'P', b'/', major, b'.', minor] if major.is_ascii_digit() && minor.is_ascii_digit() => {
            return Err(OTHER_VERSION);
        }
        _ => return Err(BAD_REQUEST),
    };
    let bodiless = verb == b"HEAD";
    let known = (bodiless || verb == b"GET") && path(target) == b"/healthz";
    Ok(Request { bodiless, known, names_host })
}

/// The path of a target, in origin form (`/path?query`) or absolute form (`http://host/path?query`).
fn path(target: &[u8]) -> &[u8] {
    let from_path = match target.strip_prefix(b"http://") {
        None => target,
        Some(rest) => {
            let slash = rest.iter().position(|&byte| byte == b'/').unwrap_or(rest.len());
            &rest[slash..]
        }
    };
    from_path.split(|&byte| byte == b'?').next().unwrap_or_default()
}

/// A header's name; `None` if the line is no header.
fn header_name(line: &[u8]) -> Option<&[u8]> {
    let colon = line.iter().position(|&byte| byte == b':')?;
    let (name, value) = line.split_at(colon);
    let printable = |byte: &u8| *byte == b'\t' || !byte.is_ascii_control();
    (!name.is_empty() && name.iter().all(|&byte| is_token(byte)) && value.iter().all(printable)).then_some(name)
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use jobyard_engine::Limits;

    use super::*;
    use crate::table::PROTOCOLS;
    use crate::testing;

    /// Gives the pieces to a new connection. What it says, if it has closed.
    fn said<'a>(pieces: impl Iterator<Item = &'a [u8]>, health: Health) -> Option<String> {
        let limits = Limits::default();
        let context = Context { now: testing::now(5_000), health, ..testing::context(&limits) };
        let (mut http, mut input, mut out) = (Http::default(), Input::default(), Vec::new());
        for piece in pieces {
            input.push(piece);
            match http.decode(&mut input, &mut out, &context) {
                Next::More => assert!(out.is_empty()),
                Next::Close => return Some(String::from_utf8(out).unwrap()),
                next @ (Next::Command(_) | Next::Answered) => panic!("{next:?}"),
            }
        }
        None
    }

    fn whole(request: &str) -> Option<String> {
        said([request.as_bytes()].into_iter(), Health::Ready)
    }

    #[track_caller]
    fn check_status(request: &str, status: &str) {
        let answer = whole(request).unwrap_or_else(|| panic!("{request:?} is not answered"));
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{request:?}: {answer}");
    }

    #[test]
    fn health_is_told_with_every_header() {
        let expected = "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 2\r\n\
                        Cache-Control: no-store\r\nConnection: close\r\n\r\nok";
        assert_eq!(whole("GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n").unwrap(), expected);
    }

    #[test]
    fn health_follows_the_server() {
        let request = b"GET /healthz HTTP/1.0\r\n\r\n";
        for (health, status, body) in [
            (Health::Ready, "200", "\r\n\r\nok"),
            (Health::Starting, "503", "\r\n\r\nstarting"),
            (Health::Draining, "503", "\r\n\r\ndraining"),
        ] {
            let answer = said([&request[..]].into_iter(), health).unwrap();
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")) && answer.ends_with(body), "{answer}");
        }
    }

    #[test]
    fn head_gets_the_same_without_the_body() {
        let get = whole("GET /healthz HTTP/1.0\r\n\r\n").unwrap();
        let head = whole("HEAD /healthz HTTP/1.0\r\n\r\n").unwrap();
        assert_eq!(format!("{head}ok"), get);
        assert!(whole("HEAD /other HTTP/1.0\r\n\r\n").unwrap().ends_with("\r\n\r\n"));
    }

    #[test]
    fn paths_and_methods_get_their_status() {
        for target in ["/healthz", "/healthz?", "/healthz?verbose=1", "http://a:1/healthz", "http://a/healthz?b"] {
            check_status(&format!("GET {target} HTTP/1.0\r\n\r\n"), "200 OK");
        }
        for target in ["/", "/healthz/", "/Healthz", "//healthz", "/x/healthz", "*", "http://a", "https://a/healthz"] {
            check_status(&format!("GET {target} HTTP/1.0\r\n\r\n"), "404 Not Found");
        }
        for method in ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT", "get", "FOO"] {
            check_status(&format!("{method} /healthz HTTP/1.0\r\n\r\n"), "404 Not Found");
            check_status(&format!("{method} / HTTP/1.0\r\n\r\n"), "404 Not Found");
        }
    }

    #[test]
    fn a_head_that_is_none_is_refused_as_soon_as_that_is_known() {
        for head in [
            "GET /healthz\r\n",
            "GET  /healthz HTTP/1.1\r\n",
            "GET /healthz HTTP/1.1 \r\n",
            "GET /heal\tthz HTTP/1.1\r\n",
            " /healthz HTTP/1.1\r\n",
            "G(T /healthz HTTP/1.1\r\n",
            "GET /healthz HTTP/11\r\n",
            "GET /healthz http/1.1\r\n",
            "GET /healthz HTTP/1.1\r\nHost a\r\n",
            "GET /healthz HTTP/1.1\r\nHost : a\r\n",
            "GET /healthz HTTP/1.1\r\n: a\r\n",
            "GET /healthz HTTP/1.1\r\nHost: a\r\n folded\r\n",
            "GET /healthz HTTP/1.1\r\nHost: a\0\r\n",
            "GET /healthz HTTP/1.1\r\n\r\n",
            "GET /healthz HTTP/1.1\r\nHost: a\r\nhost: b\r\n\r\n",
        ] {
            check_status(head, "400 Bad Request");
        }
        for version in ["HTTP/2.0", "HTTP/0.9", "HTTP/3.1"] {
            check_status(&format!("GET /healthz {version}\r\n"), "505 HTTP Version Not Supported");
        }
    }

    #[test]
    fn empty_lines_before_the_request_and_bare_line_feeds_are_let_pass() {
        check_status("\r\n\r\nGET /healthz HTTP/1.0\n\n", "200 OK");
    }

    #[test]
    fn a_head_has_at_most_8_kib() {
        let head = |filler: usize| {
            let start = "GET /healthz HTTP/1.0\r\nX: ";
            format!("{start}{}\r\n\r\n", "x".repeat(filler - start.len() - 4))
        };
        check_status(&head(8_192), "200 OK");
        check_status(&head(8_193), "431 Request Header Fields Too Large");
        let endless = "x".repeat(8_192);
        check_status(&endless, "431 Request Header Fields Too Large");
        let lines = format!("GET / HTTP/1.0\r\n{}", "A: b\r\n".repeat(2_000));
        check_status(&lines, "431 Request Header Fields Too Large");
        for end in ["\n", "\r\n"] {
            let blank_lines = end.repeat(8_192 / end.len());
            check_status(&format!("{blank_lines}GET /healthz HTTP/1.0\n\n"), "431 Request Header Fields Too Large");
            check_status(&format!("{}\n\n", &blank_lines[..8_190]), "431 Request Header Fields Too Large");
        }
    }

    #[test]
    fn a_tls_hello_is_told_nothing() {
        assert_eq!(whole("\x16"), None);
        assert_eq!(whole("\x16\x03").as_deref(), Some(""));
        check_status("\x16\n", "400 Bad Request");
        check_status("\n\x16\x03\n", "400 Bad Request");
    }

    #[test]
    fn a_request_may_come_in_pieces() {
        let request = b"GET /healthz HTTP/1.1\r\nHost: a\r\nAccept: */*\r\n\r\n";
        let expected = whole(std::str::from_utf8(request).unwrap());
        assert_eq!(said(request.chunks(1), Health::Ready), expected);
        assert_eq!(said(request[..request.len() - 1].chunks(1), Health::Ready), None);
    }

    #[test]
    fn a_request_that_takes_too_long_is_told_so() {
        let limits = Limits::default();
        let context = Context { now: testing::now(5_000), ..testing::context(&limits) };
        let (mut http, mut input, mut out) = (Http::default(), Input::default(), Vec::new());
        assert!(matches!(http.decode(&mut input, &mut out, &context), Next::More));
        assert_eq!(http.deadline_ms(), None);
        input.push(b"GET");
        assert!(matches!(http.decode(&mut input, &mut out, &context), Next::More));
        assert_eq!(http.deadline_ms(), Some(15_000));
        http.postpone(100);
        assert_eq!(http.deadline_ms(), Some(15_100));
        http.deadline_passed(&mut out);
        assert!(out.starts_with(b"HTTP/1.1 408 Request Timeout\r\n"));
    }

    #[test]
    fn the_first_bytes_are_known() {
        for method in ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT"] {
            let opening = format!("{method} /");
            for end in 0..opening.len() {
                assert_eq!(begins(&opening.as_bytes()[..end]), Begins::Maybe, "{}", &opening[..end]);
            }
            assert_eq!(begins(format!("{opening}x").as_bytes()), Begins::Yes, "{opening}");
        }
        for text in ["get /", "GET  /", "GET x", "PUSH", "PUT\0", "DELETE\0", "\r", "CONNECT\0", "GETS"] {
            assert_eq!(begins(text.as_bytes()), Begins::No, "{text:?}");
        }
    }

    #[test]
    fn the_table_calls_it_by_its_name() {
        assert!(PROTOCOLS.iter().any(|protocol| protocol.name == NAME));
    }
}
