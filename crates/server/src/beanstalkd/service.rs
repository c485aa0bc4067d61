//! `-p`: a port's number, or the name of the service that has it.

use std::ffi::OsStr;
use std::fs;

use anyhow::{Context, Result, anyhow};

/// Where the machine's services are.
const SERVICES: &str = "/etc/services";

/// The port.
pub fn port(text: &OsStr) -> Result<u16> {
    let text = text.to_str().with_context(|| format!("'{}' is no port", text.display()))?;
    let number = text.trim_start();
    if number.bytes().next().is_some_and(|byte| byte.is_ascii_digit() || b"+-".contains(&byte)) {
        return number.parse().map_err(|_| anyhow!("'{text}' is no port: expected 0 to 65535"));
    }
    let services = fs::read_to_string(SERVICES).unwrap_or_default();
    find(&services, text).with_context(|| format!("'{text}' is no port, and no service of {SERVICES}"))
}

/// Finds `name port/tcp other-names…`; what follows a `#` is for people.
fn find(services: &str, name: &str) -> Option<u16> {
    services.lines().find_map(|line| {
        let mut words = line.split('#').next()?.split_whitespace();
        let (first, place) = (words.next()?, words.next()?);
        let port = place.strip_suffix("/tcp")?;
        if first == name || words.any(|other| other == name) { port.parse().ok() } else { None }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_a_port() {
        for (text, expected) in [("11300", 11_300), ("0", 0), ("65535", 65_535), (" 7", 7), ("+7", 7)] {
            assert_eq!(port(OsStr::new(text)).unwrap(), expected, "{text:?}");
        }
        for text in ["", " ", "65536", "-1", "7x", "+", "no-such-service"] {
            assert!(port(OsStr::new(text)).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_service_is_found_by_any_of_its_names() {
        let services = "# all\nhttp\t80/tcp www # web\nudp-only 9/udp\nbeans 11300/tcp\nbad x/tcp\n";
        for (name, expected) in [
            ("http", Some(80)),
            ("www", Some(80)),
            ("beans", Some(11_300)),
            ("web", None),
            ("udp-only", None),
            ("bad", None),
            ("all", None),
        ] {
            assert_eq!(find(services, name), expected, "{name}");
        }
    }
}
