//! Where a server is that speaks beanstalkd's protocol.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context, Result, ensure};

use crate::address::{ANY_PORT, host_and_port};

/// What an address may begin with, and the port that is meant if it names none.
const SCHEMES: [(&str, u16); 2] = [("beanstalkd://", 11_300), ("any://", ANY_PORT)];

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub host: String,
    pub port: u16,
}

impl FromStr for Place {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Place> {
        let found = SCHEMES.iter().find_map(|(scheme, port)| text.strip_prefix(scheme).map(|place| (place, *port)));
        let (place, usual) = found.context("expected beanstalkd://HOST[:PORT]")?;
        let place = place.strip_suffix('/').unwrap_or(place);
        ensure!(!place.is_empty(), "the host is missing");
        ensure!(!place.contains(['@', '?']), "an address has neither a user nor options here");
        let (host, port) = host_and_port(place)?;
        let port = port.unwrap_or(usual);
        ensure!(port != 0, "port 0 is no server's");
        ensure!(host.bytes().all(|byte| byte.is_ascii_graphic()), "'{host}' is no host");
        Ok(Place { host: host.to_ascii_lowercase(), port })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_has_one_name_however_it_is_written() {
        for (text, place) in [
            ("beanstalkd://Queue.Example.com", "queue.example.com:11300"),
            ("beanstalkd://queue.example.com:11300/", "queue.example.com:11300"),
            ("beanstalkd://[::1]:1", "[::1]:1"),
            ("any://localhost", "localhost:5627"),
        ] {
            assert_eq!(text.parse::<Place>().unwrap().to_string(), place);
        }
    }

    #[test]
    fn what_is_no_place_is_refused_with_the_reason() {
        for (text, reason) in [
            ("127.0.0.1:11300", "expected beanstalkd://"),
            ("workq://127.0.0.1", "expected beanstalkd://"),
            ("beanstalkd://127.0.0.1:0", "port 0"),
            ("beanstalkd://127.0.0.1:x", "'x' is no port"),
            ("beanstalkd://", "the host is missing"),
            ("beanstalkd://a b", "'a b' is no host"),
            ("beanstalkd://user:secret@host:1", "neither a user nor options"),
            ("beanstalkd://host:1?tube=a", "neither a user nor options"),
        ] {
            let error = format!("{:#}", text.parse::<Place>().unwrap_err());
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
