//! From an address to listening sockets, or to a message that says what to do.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use mio::net::{TcpListener, UnixListener};
use rustix::fs::Mode;
use rustix::net::sockopt;

use crate::address::{Address, Place};
use crate::failure::Failure;

/// How many connections may wait to be accepted, if the system allows as many. With the usual 128 a fleet of workers that
/// connects at once waits for seconds, for what does not fit is tried again only after one.
const BACKLOG: i32 = 4096;

/// The kernel takes so much output of one connection that it cannot send yet.
#[cfg(target_os = "linux")]
const UNSENT_BYTES_MAX: u32 = 128 << 10;

/// A listening socket and the address that it really has.
#[derive(Debug)]
pub struct Bound {
    /// The address.
    pub address: Address,
    /// The socket.
    pub socket: Socket,
}

/// A listening socket.
#[derive(Debug)]
pub enum Socket {
    /// For TCP.
    Tcp(TcpListener),
    /// For a unix socket. Its file goes with it.
    Unix(UnixListener, #[allow(dead_code, reason = "it is there to be dropped")] SocketFile),
}

/// Listens on every address that this one stands for.
pub fn bind(address: &Address, insecure_public: bool) -> Result<Vec<Bound>, Failure> {
    match &address.place {
        Place::Tcp { host, port } => bind_tcp(address, host, *port, insecure_public),
        Place::Unix(path) => {
            let (listener, file) = bind_unix(path).with_context(|| format!("cannot listen on {address}"))?;
            Ok(vec![Bound { address: address.clone(), socket: Socket::Unix(listener, file) }])
        }
    }
}

/// Whether other machines can reach this address.
pub fn is_public(ip: IpAddr) -> bool {
    !ip.to_canonical().is_loopback()
}

fn bind_tcp(address: &Address, host: &str, port: u16, insecure_public: bool) -> Result<Vec<Bound>, Failure> {
    let mut places = resolve(host, port).with_context(|| format!("cannot listen on {address}"))?;
    if !insecure_public && let Some(public) = places.iter().find(|place| is_public(place.ip())) {
        return Err(Failure::Usage(anyhow!(
            "{address} can be reached from other machines ({}), and there is neither TLS nor authentication yet. \
             Listen on 127.0.0.1 or [::1], or say --insecure-public if the network keeps strangers out",
            public.ip()
        )));
    }
    if port == 0 {
        // Several addresses could not be sure to get the same free port.
        places.truncate(1);
    }
    let mut bound = Vec::new();
    for place in &places {
        match listen(*place) {
            Ok((listener, place)) => {
                let place = Place::Tcp { host: place.ip().to_string(), port: place.port() };
                bound.push(Bound { address: address.at(place), socket: Socket::Tcp(listener) });
            }
            // A name may stand for addresses that this machine does not have, such as ::1 where IPv6 is off.
            Err(error) if places.len() > 1 && is_missing(&error) => {
                tracing::debug!(%place, %error, "an address of {host} is left out");
            }
            Err(error) => return Err(explain(address, &error).into()),
        }
    }
    if bound.is_empty() {
        return Err(anyhow!("cannot listen on {address}: this machine has none of the addresses of {host}").into());
    }
    Ok(bound)
}

fn resolve(host: &str, port: u16) -> Result<Vec<SocketAddr>> {
    let found = (host, port).to_socket_addrs().with_context(|| format!("cannot find the host '{host}'"))?;
    let mut places: Vec<SocketAddr> = Vec::new();
    for place in found {
        if !places.contains(&place) {
            places.push(place);
        }
    }
    if places.is_empty() {
        bail!("the host '{host}' has no address");
    }
    Ok(places)
}

fn listen(place: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(place)?;
    rustix::net::listen(&listener, BACKLOG)?;
    // Every accepted connection takes these over from its listener, without a call of its own. A peer that vanished
    // without a word is noticed after two minutes, so that it does not hold jobs for ever.
    sockopt::set_tcp_nodelay(&listener, true)?;
    sockopt::set_socket_keepalive(&listener, true)?;
    #[cfg(target_os = "linux")]
    {
        use std::time::Duration;
        sockopt::set_tcp_keepidle(&listener, Duration::from_secs(60))?;
        sockopt::set_tcp_keepintvl(&listener, Duration::from_secs(10))?;
        sockopt::set_tcp_keepcnt(&listener, 6)?;
        // What a client does not read stays with the server, which counts it. The kernel would copy megabytes of it that
        // nobody counts.
        socket2::SockRef::from(&listener).set_tcp_notsent_lowat(UNSENT_BYTES_MAX)?;
    }
    let place = listener.local_addr()?;
    Ok((listener, place))
}

fn is_missing(error: &io::Error) -> bool {
    let family = rustix::io::Errno::AFNOSUPPORT.raw_os_error();
    error.kind() == ErrorKind::AddrNotAvailable || error.raw_os_error() == Some(family)
}

fn explain(address: &Address, error: &io::Error) -> anyhow::Error {
    match error.kind() {
        ErrorKind::AddrInUse => anyhow!(
            "cannot listen on {address}: the address is in use. Another server has it, perhaps another jobyard: \
             stop that one, or listen elsewhere (--listen; beanstalkd: -l, -p)"
        ),
        ErrorKind::AddrNotAvailable => {
            anyhow!("cannot listen on {address}: this machine does not have that address")
        }
        ErrorKind::PermissionDenied => anyhow!(
            "cannot listen on {address}: permission denied. Ports below 1024 need CAP_NET_BIND_SERVICE: \
             choose a higher one"
        ),
        _ => anyhow!("cannot listen on {address}: {error}"),
    }
}

fn bind_unix(path: &Path) -> Result<(UnixListener, SocketFile)> {
    make_room(path)?;
    // The file must never be open to everybody, not even for a moment: its mode comes from the umask. There is only
    // one thread yet.
    let umask = rustix::process::umask(Mode::from_raw_mode(0o117));
    let listener = UnixListener::bind(path);
    rustix::process::umask(umask);
    let listener = listener.map_err(|error| match error.kind() {
        ErrorKind::NotFound => anyhow!("its directory does not exist"),
        ErrorKind::InvalidInput => anyhow!("the path is too long for a unix socket"),
        _ => anyhow!(error),
    })?;
    rustix::net::listen(&listener, BACKLOG)?;
    Ok((listener, SocketFile::new(path)?))
}

/// Removes a socket that nobody listens on any more. Anything else in the way is an error.
fn make_room(path: &Path) -> Result<()> {
    let metadata = match path.symlink_metadata() {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    if !metadata.file_type().is_socket() {
        bail!("there is a file that is no socket: remove it, or choose another path");
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
            tracing::info!(path = %path.display(), "replacing a socket that nobody listens on");
            std::fs::remove_file(path).context("the old socket cannot be removed")
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            bail!("there is a socket that we may not open, so that we cannot tell whether it is in use")
        }
        _ => bail!("the address is in use. Another server listens there: stop that one, or choose another path"),
    }
}

/// The file of a unix socket, removed when we no longer listen, if it is still the one that we made.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
}

impl SocketFile {
    fn new(path: &Path) -> Result<SocketFile> {
        // The working directory may change, or not be ours to rely on.
        let path = std::path::absolute(path)?;
        let identity = identity(&path)?;
        Ok(SocketFile { path, identity })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|now| now == self.identity)
            && let Err(error) = std::fs::remove_file(&self.path)
        {
            tracing::warn!(path = %self.path.display(), %error, "the socket's file could not be removed");
        }
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let metadata = path.symlink_metadata()?;
    Ok((metadata.dev(), metadata.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepted_connections_take_over_no_delay_and_keepalive() {
        let (listener, place) = listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = std::net::TcpListener::from(listener);
        listener.set_nonblocking(false).unwrap();
        let _client = std::net::TcpStream::connect(place).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        assert!(accepted.nodelay().unwrap());
        assert!(sockopt::socket_keepalive(&accepted).unwrap());
        assert_eq!(sockopt::tcp_keepidle(&accepted).unwrap().as_secs(), 60);
    }
}
