//! A listener's address: `<protocol>://HOST:PORT[?option=value&…]` or `<protocol>+unix://PATH[?…]`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Context, Result, anyhow, bail, ensure};
use jobyard_protocols::{Listener, Options, PROTOCOLS, find};

/// The port of an `any` listener that names none: JOBS on a telephone's keys.
pub const ANY_PORT: u16 = 5627;

/// Protocols that are known by name but not spoken yet.
const LATER: &[&str] = &["faktory"];

/// Where a listener listens, and what it speaks there.
#[derive(Clone, Debug)]
pub struct Address {
    /// What it speaks.
    pub listener: Listener,
    /// How it speaks it.
    pub options: Options,
    /// Where.
    pub place: Place,
    /// The options as they were written, for showing the address again.
    query: String,
}

/// Where a listener listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// On a TCP port; 0 is any free one.
    Tcp {
        /// A name or an IP address, without brackets.
        host: String,
        /// The port.
        port: u16,
    },
    /// On a unix socket.
    Unix(PathBuf),
}

impl Address {
    /// The default: every protocol on one port, for this machine only.
    pub fn default_listen() -> Address {
        Address {
            listener: Listener::Any,
            options: Options::default(),
            place: Place::Tcp { host: "127.0.0.1".to_owned(), port: ANY_PORT },
            query: String::new(),
        }
    }

    /// The same address at another place: the one that a name or port 0 turned out to be.
    pub fn at(&self, place: Place) -> Address {
        Address { place, ..self.clone() }
    }
}

impl FromStr for Address {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Address> {
        let (scheme, rest) = text
            .split_once("://")
            .context("expected <protocol>://HOST:PORT or <protocol>+unix://PATH, such as any://127.0.0.1:5627")?;
        let (name, transport) = match scheme.split_once('+') {
            Some((name, transport)) => (name, Some(transport)),
            None => (scheme, None),
        };
        let listener = find_listener(name)?;
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let place = match transport {
            None => parse_host_and_port(place, listener)?,
            Some("unix") => {
                ensure!(!place.is_empty(), "a unix socket needs a path: {scheme}:///run/jobyard.sock");
                Place::Unix(PathBuf::from(place))
            }
            Some("tls") => bail!("TLS is not in this version"),
            Some(other) => bail!("unknown transport '+{other}': only '+unix' can follow the protocol"),
        };
        let options = Options::parse(query, &listener.options()).map_err(|error| explain(error, listener))?;
        Ok(Address { listener, options, place, query: query.to_owned() })
    }
}

fn find_listener(name: &str) -> Result<Listener> {
    ensure!(!LATER.contains(&name), "the protocol '{name}' is not in this version");
    find(name).ok_or_else(|| {
        let names: Vec<_> = PROTOCOLS.iter().map(|protocol| protocol.name).collect();
        anyhow!("unknown protocol '{name}': expected any, {}", names.join(", "))
    })
}

fn parse_host_and_port(text: &str, listener: Listener) -> Result<Place> {
    let (host, port) = host_and_port(text)?;
    let port = port.map_or_else(|| default_port(listener), Ok)?;
    Ok(Place::Tcp { host: host.to_owned(), port })
}

/// Reads `HOST[:PORT]`; an IPv6 address loses its brackets.
pub fn host_and_port(text: &str) -> Result<(&str, Option<u16>)> {
    ensure!(!text.contains('/'), "an address has no path after its port");
    let (host, port) = if let Some(bracketed) = text.strip_prefix('[') {
        let (host, after) = bracketed.split_once(']').context("the '[' of the IPv6 address is not closed")?;
        match after.strip_prefix(':') {
            Some(port) => (host, Some(port)),
            None if after.is_empty() => (host, None),
            None => bail!("expected ':PORT' after the IPv6 address, not '{after}'"),
        }
    } else if let Some((host, port)) = text.split_once(':') {
        ensure!(!port.contains(':'), "an IPv6 address is written in brackets: [::1]:{ANY_PORT}");
        (host, Some(port))
    } else {
        (text, None)
    };
    ensure!(!host.is_empty(), "the host is missing: say 127.0.0.1, or 0.0.0.0 for all addresses of this machine");
    let parse = |port: &str| port.parse().map_err(|_| anyhow!("'{port}' is no port: expected 0 to 65535"));
    Ok((host, port.map(parse).transpose()?))
}

fn default_port(listener: Listener) -> Result<u16> {
    match listener {
        Listener::Any => Ok(ANY_PORT),
        Listener::One(protocol) => {
            protocol.port.with_context(|| format!("{} has no usual port: say HOST:PORT", protocol.name))
        }
    }
}

fn explain(error: jobyard_protocols::OptionError, listener: Listener) -> anyhow::Error {
    let known = listener.options();
    match error {
        jobyard_protocols::OptionError::Unknown(_) if known.is_empty() => {
            anyhow!("{error}: {} has no options", listener.name())
        }
        jobyard_protocols::OptionError::Unknown(_) => {
            anyhow!("{error}: {} knows {}", listener.name(), known.join(", "))
        }
        jobyard_protocols::OptionError::Invalid { .. } => error.into(),
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.listener.name();
        match &self.place {
            Place::Tcp { host, port } if host.contains(':') => write!(f, "{name}://[{host}]:{port}")?,
            Place::Tcp { host, port } => write!(f, "{name}://{host}:{port}")?,
            Place::Unix(path) => write!(f, "{name}+unix://{}", path.display())?,
        }
        if !self.query.is_empty() {
            write!(f, "?{}", self.query)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Address {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error:#}"))
    }

    fn refused(text: &str) -> String {
        match text.parse::<Address>() {
            Ok(address) => panic!("{text} was read as {address}"),
            Err(error) => format!("{error:#}"),
        }
    }

    #[test]
    fn addresses_are_shown_as_they_are_written() {
        for text in [
            "any://127.0.0.1:5627",
            "workq://localhost:0?dialect=original",
            "masenko://[::1]:12345?heartbeat=3s&dialect=original",
            "jobcentre+unix:///run/jobyard/jobs.sock",
            "takeanumber+unix://relative.sock?lease=5m",
        ] {
            assert_eq!(parsed(text).to_string(), text);
        }
    }

    #[test]
    fn a_missing_port_is_the_protocols_own() {
        assert_eq!(parsed("any://localhost").to_string(), "any://localhost:5627");
        assert_eq!(parsed("workq://[::1]").to_string(), "workq://[::1]:9922");
        assert_eq!(parsed("goqueue://10.0.0.1").to_string(), "goqueue://10.0.0.1:11223");
        assert_eq!(refused("jobcentre://localhost"), "jobcentre has no usual port: say HOST:PORT");
    }

    #[test]
    fn options_reach_their_listener() {
        let address = parsed("any://127.0.0.1:1?heartbeat=3s&lease=5m");
        assert_eq!((address.options.heartbeat_ms, address.options.lease_ms), (3_000, Some(300_000)));
        assert_eq!(refused("workq://localhost?lease=5m"), "unknown option 'lease': workq knows dialect");
        assert_eq!(refused("goqueue://localhost?x=1"), "unknown option 'x': goqueue has no options");
        assert!(refused("masenko://localhost?heartbeat=3").contains("option 'heartbeat' cannot be '3'"));
    }

    #[test]
    fn what_cannot_be_listened_on_is_refused_with_the_reason() {
        for (text, reason) in [
            ("127.0.0.1:5627", "expected <protocol>://HOST:PORT"),
            ("smtp://localhost:25", "unknown protocol 'smtp': expected any, goqueue"),
            ("faktory+unix:///x", "the protocol 'faktory' is not in this version"),
            ("any+tls://localhost", "TLS is not in this version"),
            ("any+udp://localhost", "unknown transport '+udp'"),
            ("any://", "the host is missing"),
            ("any://:5627", "the host is missing"),
            ("any://::1:5627", "written in brackets"),
            ("any://[::1", "not closed"),
            ("any://[::1]5627", "expected ':PORT'"),
            ("any://localhost:65536", "'65536' is no port"),
            ("any://localhost:", "'' is no port"),
            ("any://localhost:1/x", "no path"),
            ("any+unix://", "needs a path"),
        ] {
            let error = refused(text);
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
