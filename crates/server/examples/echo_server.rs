//! A server that says again what it hears, with as little work as can be: one thread, one wait for all sockets, one read and one
//! write for each that has something to say. What it reaches is what the machine and the load allow; `bench/compare` holds
//! the others against it.
//!
//! Usage: echo_server       It says where it listens, and goes on until it is killed.

use std::io::{self, ErrorKind, Read, Write};

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};

const LISTENER: Token = Token(usize::MAX);
const BUFFER_BYTES: usize = 64 << 10;

struct Client {
    stream: TcpStream,
    /// What the socket has not taken yet.
    left: Vec<u8>,
}

fn main() -> io::Result<()> {
    let mut poll = Poll::new()?;
    let mut listener = TcpListener::bind("127.0.0.1:0".parse().expect("an address"))?;
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
    writeln!(io::stdout(), "listening on echo://{}", listener.local_addr()?)?;
    let (mut events, mut buffer) = (Events::with_capacity(1024), vec![0; BUFFER_BYTES]);
    let mut clients: Vec<Option<Client>> = Vec::new();
    loop {
        match poll.poll(&mut events, None) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            other => other?,
        }
        for event in &events {
            if event.token() == LISTENER {
                accept(&listener, &poll, &mut clients)?;
                continue;
            }
            let Token(index) = event.token();
            let Some(client) = &mut clients[index] else { continue };
            if client.echo(&mut buffer).is_err() || event.is_read_closed() {
                clients[index] = None;
            }
        }
    }
}

fn accept(listener: &TcpListener, poll: &Poll, clients: &mut Vec<Option<Client>>) -> io::Result<()> {
    loop {
        let mut stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        };
        stream.set_nodelay(true)?;
        let index = clients.iter().position(Option::is_none).unwrap_or(clients.len());
        if index == clients.len() {
            clients.push(None);
        }
        poll.registry().register(&mut stream, Token(index), Interest::READABLE | Interest::WRITABLE)?;
        clients[index] = Some(Client { stream, left: Vec::new() });
    }
}

impl Client {
    /// Fails when the client has gone.
    fn echo(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        loop {
            let left = std::mem::take(&mut self.left);
            if !self.write(&left)? {
                return Ok(());
            }
            let len = match self.stream.read(buffer) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(len) => len,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            };
            if !self.write(&buffer[..len])? || len < buffer.len() {
                return Ok(());
            }
        }
    }

    /// Says whether the socket took all of it.
    fn write(&mut self, bytes: &[u8]) -> io::Result<bool> {
        let mut written = 0;
        while written < bytes.len() {
            match self.stream.write(&bytes[written..]) {
                Ok(len) => written += len,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.left = bytes[written..].to_vec();
                    return Ok(false);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}
