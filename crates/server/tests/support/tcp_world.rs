//! A transcript's world: the built binary, real TCP connections, and time that only the transcript moves.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::process::Stdio;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use jobyard_sim::transcript::{Setup, Trouble, World};

use crate::support::{Directory, PATIENCE, Server, file, jobyard, text};

/// A server in its own process, and the clients connected to it.
pub struct TcpWorld {
    server: Server,
    /// The listeners' addresses, by their index in the setup.
    places: Vec<SocketAddr>,
    clients: BTreeMap<String, Client>,
    /// Clients that left since the server last came to rest.
    left: Vec<(String, u64)>,
    _directory: Directory,
}

/// One connection. A thread takes in whatever comes, so that neither side ever waits for the other to read.
struct Client {
    stream: TcpStream,
    /// What the server knows it by: the listener's index, and its own address, which another listener's client may have.
    name: String,
    sent: u64,
    ended: bool,
    inbox: Arc<Inbox>,
    reader: Option<JoinHandle<()>>,
    /// What the server says it has written.
    written: u64,
    /// Whether the server says that this is all.
    closed: bool,
}

#[derive(Default)]
struct Inbox {
    mail: Mutex<Mail>,
    changed: Condvar,
}

#[derive(Default)]
struct Mail {
    bytes: Vec<u8>,
    total: u64,
    /// Why nothing more will come, if so.
    end: Option<String>,
}

impl TcpWorld {
    /// Starts a fresh server.
    pub fn new(setup: &Setup) -> TcpWorld {
        let directory = Directory::new();
        let limits: String = setup.limits_set.iter().map(|(name, value)| format!("{name} = {value}\n")).collect();
        let config = file(&directory, "limits.toml", &format!("[limits]\n{limits}"));
        let mut command = jobyard();
        command.args(["serve", "--memory", "--clock", "stdin", "--log-level", "warn", "--config", text(&config)]);
        for listener in &setup.listeners {
            let query = if listener.query.is_empty() { String::new() } else { format!("?{}", listener.query) };
            command.args(["--listen", &format!("{}://127.0.0.1:0{query}", listener.listener.name())]);
        }
        let server = Server::spawn(command.stdin(Stdio::piped()));
        let places = (0..setup.listeners.len()).map(|index| server.place(index)).collect();
        TcpWorld { server, places, clients: BTreeMap::new(), left: Vec::new(), _directory: directory }
    }

    /// Says a line to the server, and hears its answer.
    fn tell(&mut self, line: &str) -> Result<String, Trouble> {
        let stdin = self.server.stdin.as_mut().ok_or_else(|| Trouble::new("there is no stdin"))?;
        let said = stdin.write_all(format!("{line}\n").as_bytes());
        match (said, self.server.try_line()) {
            (Ok(()), Some(answer)) if answer.starts_with("ok") => Ok(answer),
            (_, answer) => {
                Err(Trouble::new(format!("told '{line}', the server answered {answer:?}: {}", self.server.logged())))
            }
        }
    }

    fn tell_and_settle(&mut self, line: &str) -> Result<(), Trouble> {
        self.tell(line)?;
        self.settle()
    }

    fn client(&mut self, name: &str) -> Result<&mut Client, Trouble> {
        self.clients.get_mut(name).ok_or_else(|| Trouble::new(format!("{name} is not connected")))
    }
}

impl World for TcpWorld {
    fn open(&mut self, client: &str, listener: usize) -> Result<(), Trouble> {
        let opened = Client::open(listener, self.places[listener])
            .map_err(|error| Trouble::new(format!("{client} cannot connect: {error}")))?;
        self.clients.insert(client.to_owned(), opened);
        Ok(())
    }

    fn send(&mut self, client: &str, bytes: &[u8]) -> Result<(), Trouble> {
        let name = client;
        let client = self.client(name)?;
        match client.stream.write_all(bytes) {
            Ok(()) => client.sent += bytes.len() as u64,
            // The server closed while we were sending. The transcript says whether that is right.
            Err(error) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {}
            Err(error) => return Err(Trouble::new(format!("{name} cannot send: {error}"))),
        }
        Ok(())
    }

    fn end(&mut self, client: &str) -> Result<(), Trouble> {
        let name = client;
        let client = self.client(name)?;
        client.ended = true;
        match client.stream.shutdown(Shutdown::Write) {
            Err(error) if error.kind() != ErrorKind::NotConnected => {
                Err(Trouble::new(format!("{name} cannot end: {error}")))
            }
            _ => Ok(()),
        }
    }

    fn leave(&mut self, client: &str) -> Result<(), Trouble> {
        let client = self.clients.remove(client).ok_or_else(|| Trouble::new(format!("{client} is not connected")))?;
        self.left.push((client.name.clone(), client.sent));
        Ok(())
    }

    fn settle(&mut self) -> Result<(), Trouble> {
        let mut line = "settle".to_owned();
        for (name, sent) in self.left.drain(..) {
            line.push_str(&format!(" {name}={sent}e"));
        }
        for client in self.clients.values() {
            let end = if client.ended { "e" } else { "" };
            line.push_str(&format!(" {}={}{end}", client.name, client.sent));
        }
        let answer = self.tell(&line)?;
        for word in answer.split(' ').skip(1) {
            let (name, written) = word.split_once('=').ok_or_else(|| Trouble::new(answer.clone()))?;
            let Some(client) = self.clients.values_mut().find(|client| client.name == name) else {
                continue;
            };
            client.closed = written.ends_with('c');
            let written = written.trim_end_matches('c').parse();
            client.written = written.map_err(|_| Trouble::new(answer.clone()))?;
        }
        Ok(())
    }

    fn hear(&mut self, client: &str, heard: &mut Vec<u8>, _bytes_min: usize) -> Result<(), Trouble> {
        let name = client;
        // The server is at rest and has said how much it wrote: more than that will not come by waiting.
        self.client(name)?.take(heard).map_err(|why| Trouble::new(format!("{name}: {why}")))
    }

    fn closed(&mut self, client: &str, _expected: bool) -> Result<bool, Trouble> {
        Ok(self.client(client)?.closed)
    }

    fn wait(&mut self, ms: u64) -> Result<(), Trouble> {
        self.tell_and_settle(&format!("wait {ms}"))
    }

    fn step_clock(&mut self, by_ms: i64) -> Result<(), Trouble> {
        self.tell_and_settle(&format!("step {by_ms}"))
    }

    fn restart(&mut self) -> Result<(), Trouble> {
        self.tell("restart")?;
        self.clients.clear();
        self.left.clear();
        Ok(())
    }

    fn fill_disk(&mut self, full: bool) -> Result<(), Trouble> {
        self.tell(if full { "disk full" } else { "disk free" }).map(drop)
    }

    fn drain(&mut self) -> Result<(), Trouble> {
        self.tell_and_settle("drain")
    }

    fn stop(&mut self) -> Result<(), Trouble> {
        self.tell_and_settle("stop")
    }
}

impl Client {
    fn open(listener: usize, place: SocketAddr) -> std::io::Result<Client> {
        let stream = TcpStream::connect_timeout(&place, PATIENCE)?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let inbox = Arc::new(Inbox::default());
        let reader = thread::spawn({
            let (stream, inbox) = (stream.try_clone()?, Arc::clone(&inbox));
            move || inbox.fill(stream)
        });
        let name = format!("{listener}/{}", stream.local_addr()?);
        let reader = Some(reader);
        Ok(Client { stream, name, sent: 0, ended: false, inbox, reader, written: 0, closed: false })
    }

    /// Takes all that the server has written, for which it may have to wait a moment, and that it closed if it did.
    fn take(&mut self, heard: &mut Vec<u8>) -> Result<(), String> {
        let deadline = Instant::now() + PATIENCE;
        let mut mail = self.inbox.mail.lock().unwrap_or_else(PoisonError::into_inner);
        while mail.end.is_none() && (mail.total < self.written || self.closed) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(format!("{} of {} bytes arrived, and no more came", mail.total, self.written));
            }
            mail = self.inbox.changed.wait_timeout(mail, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        heard.append(&mut mail.bytes);
        match &mail.end {
            Some(why) if mail.total < self.written => {
                Err(format!("{} of {} bytes arrived, then {why}", mail.total, self.written))
            }
            _ => Ok(()),
        }
    }
}

impl Inbox {
    fn fill(&self, mut stream: TcpStream) {
        let mut bytes = vec![0; 64 << 10];
        loop {
            let read = stream.read(&mut bytes);
            let mut mail = self.mail.lock().unwrap_or_else(PoisonError::into_inner);
            match read {
                Ok(0) => mail.end = Some("the connection ended".to_owned()),
                Ok(count) => {
                    mail.bytes.extend_from_slice(&bytes[..count]);
                    mail.total += count as u64;
                }
                Err(error) => mail.end = Some(error.to_string()),
            }
            self.changed.notify_all();
            if mail.end.is_some() {
                return;
            }
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Both);
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}
