//! The server that is measured: what it speaks, where it is, and the connections to it.

use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};

use super::protocol::Protocol;
use crate::address::host_and_port;

/// How long a connection may take to come about.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A server's address.
#[derive(Clone, Debug)]
pub struct Target {
    protocol: Protocol,
    host: String,
    port: u16,
}

impl Target {
    /// What it speaks.
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Opens this many connections, all to the same address: the first of its host's that answers.
    pub fn connect(&self, connections: usize) -> Result<(SocketAddr, Vec<TcpStream>)> {
        let Target { host, port, .. } = self;
        let places =
            (host.as_str(), *port).to_socket_addrs().with_context(|| format!("cannot find the host '{host}'"))?;
        let mut refusal = anyhow!("the host '{host}' has no address");
        for place in places {
            match open(place) {
                Ok(first) => {
                    let mut streams = vec![first];
                    for number in 2..=connections {
                        streams.push(open(place).with_context(|| format!("connection {number} of {connections}"))?);
                    }
                    return Ok((place, streams));
                }
                Err(error) => refusal = error,
            }
        }
        Err(refusal)
    }
}

fn open(place: SocketAddr) -> Result<TcpStream> {
    let open = || {
        let stream = TcpStream::connect_timeout(&place, CONNECT_TIMEOUT)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok::<_, std::io::Error>(stream)
    };
    open().with_context(|| format!("cannot connect to {place}"))
}

impl FromStr for Target {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Target> {
        let (scheme, place) =
            text.split_once("://").context("expected <protocol>://HOST:PORT, such as jobcentre://127.0.0.1:5627")?;
        let (name, transport) = scheme.split_once('+').unwrap_or((scheme, ""));
        let Some(protocol) = Protocol::ALL.into_iter().find(|protocol| protocol.name() == name) else {
            let names: Vec<_> = Protocol::ALL.iter().map(|protocol| protocol.name()).collect();
            bail!("unknown protocol '{name}': expected {}", names.join(", "));
        };
        ensure!(transport.is_empty(), "a server is measured over plain TCP, not '+{transport}'");
        ensure!(!place.contains('?'), "the address of a server to measure has no options");
        let (host, port) = host_and_port(place)?;
        let port = port.unwrap_or(protocol.port());
        ensure!(port != 0, "port 0 is no server's: say the one that it printed when it started");
        Ok(Target { protocol, host: host.to_owned(), port })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> (&'static str, String, u16) {
        let target: Target = text.parse().unwrap_or_else(|error| panic!("{text}: {error:#}"));
        (target.protocol.name(), target.host, target.port)
    }

    #[test]
    fn a_target_names_protocol_host_and_port() {
        assert_eq!(parsed("goqueue://127.0.0.1:1"), ("goqueue", "127.0.0.1".to_owned(), 1));
        assert_eq!(parsed("masenko://[::1]:12"), ("masenko", "::1".to_owned(), 12));
    }

    #[test]
    fn a_missing_port_is_the_usual_one_of_the_server() {
        let port = |text| parsed(text).2;
        assert_eq!(port("beanstalkd://localhost"), 11300);
        assert_eq!(port("workq://localhost"), 9922);
        // Job Centre has none of its own: Jobyard's port for everything.
        assert_eq!(port("jobcentre://localhost"), 5627);
    }

    #[test]
    fn what_is_no_target_is_refused_with_the_reason() {
        for (text, reason) in [
            ("127.0.0.1:5627", "expected <protocol>://HOST:PORT"),
            ("any://127.0.0.1:5627", "unknown protocol 'any': expected goqueue"),
            ("workq+unix:///run/x.sock", "not '+unix'"),
            ("workq://localhost:1?dialect=original", "no options"),
            ("workq://localhost:0", "port 0"),
            ("workq://localhost:65536", "'65536' is no port"),
            ("workq://:9922", "the host is missing"),
            ("workq://::1:9922", "written in brackets"),
        ] {
            let error = format!("{:#}", text.parse::<Target>().unwrap_err());
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
