//! A server that is asked things in beanstalkd's protocol: several at once, and the answers one by one.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, BufWriter, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};

use super::place::Place;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A server that says nothing for so long is given up.
const SILENCE: Duration = Duration::from_secs(60);

/// What helps if one of the two is gone.
const AGAIN: &str = "; run it again when it is there";

/// No answer's line is longer.
const LINE_BYTES_MAX: u64 = 1_024;

/// No body is longer: the most that beanstalkd's `-z` takes.
const BODY_BYTES_MAX: usize = 1 << 30;

/// A connection.
#[derive(Debug)]
pub struct Peer {
    place: Place,
    reader: BufReader<TcpStream>,
    writer: BufWriter<TcpStream>,
}

/// A job, as it is shown.
#[derive(Debug)]
pub struct Job {
    pub id: u64,
    pub body: Vec<u8>,
}

impl Peer {
    /// Connects to the first address of its host that answers.
    pub fn connect(place: &Place) -> Result<Peer> {
        let addresses = (place.host.as_str(), place.port).to_socket_addrs();
        let addresses = addresses.with_context(|| format!("cannot find the host '{}'", place.host))?;
        let mut refusal = anyhow!("the host '{}' has no address", place.host);
        for address in addresses {
            match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
                Ok(stream) => return Peer::over(place, stream),
                Err(error) => refusal = error.into(),
            }
        }
        Err(refusal.context(format!("cannot connect to {place}")))
    }

    fn over(place: &Place, stream: TcpStream) -> Result<Peer> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(SILENCE))?;
        stream.set_write_timeout(Some(SILENCE))?;
        let writer = BufWriter::new(stream.try_clone()?);
        Ok(Peer { place: place.clone(), reader: BufReader::new(stream), writer })
    }

    /// What it is called.
    pub fn name(&self) -> String {
        self.place.to_string()
    }

    /// Says a line; the answer is still to be read.
    pub fn say(&mut self, line: &str) -> Result<()> {
        self.say_with_body(line, None)
    }

    /// Says a line, and the body that belongs to it.
    pub fn say_with_body(&mut self, line: &str, body: Option<&[u8]>) -> Result<()> {
        let mut write = || {
            self.writer.write_all(line.as_bytes())?;
            self.writer.write_all(b"\r\n")?;
            if let Some(body) = body {
                self.writer.write_all(body)?;
                self.writer.write_all(b"\r\n")?;
            }
            Ok::<_, std::io::Error>(())
        };
        write().with_context(|| format!("{} cannot be told anything", self.place))
    }

    /// The next answer's line. Whatever was said is sent first.
    pub fn hear(&mut self) -> Result<String> {
        self.writer.flush().with_context(|| format!("{} cannot be told anything", self.place))?;
        let mut line = Vec::new();
        let heard = (&mut self.reader).take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
        self.check(heard)?;
        ensure!(!line.is_empty(), "{} has ended the connection{AGAIN}", self.place);
        let text = line.strip_suffix(b"\r\n").and_then(|line| std::str::from_utf8(line).ok());
        let text = text.with_context(|| format!("{} answered no line: {}", self.place, line.escape_ascii()))?;
        Ok(text.to_owned())
    }

    /// What was heard, if it was.
    fn check<T>(&self, heard: std::io::Result<T>) -> Result<T> {
        heard.map_err(|error| match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                anyhow!("{} has not answered for {} seconds{AGAIN}", self.place, SILENCE.as_secs())
            }
            ErrorKind::UnexpectedEof => anyhow!("{} has ended the connection{AGAIN}", self.place),
            _ => anyhow!("{} cannot be heard: {error}{AGAIN}", self.place),
        })
    }

    /// Says a line and hears another.
    pub fn line(&mut self, line: &str) -> Result<String> {
        self.say(line)?;
        self.hear()
    }

    /// Says a line to which there is one right answer.
    pub fn ask(&mut self, line: &str, right: &str) -> Result<()> {
        let answer = self.line(line)?;
        if answer == right { Ok(()) } else { Err(self.wrong(line, &answer)) }
    }

    /// It answered this, and should not have.
    pub fn wrong(&self, line: &str, answer: &str) -> anyhow::Error {
        anyhow!("{} answered '{answer}' to '{line}'", self.place)
    }

    /// A job behind this word; none if the answer is one of the others.
    pub fn hear_job(&mut self, word: &str, others: &[&str]) -> Result<Result<Job, String>> {
        let line = self.hear()?;
        let mut words = line.split(' ');
        let numbers = (words.next(), words.next().map(str::parse), words.next().map(str::parse), words.next());
        match numbers {
            (Some(said), Some(Ok(id)), Some(Ok(size)), None) if said == word => {
                Ok(Ok(Job { id, body: self.body(size)? }))
            }
            _ if others.contains(&line.as_str()) => Ok(Err(line)),
            _ => bail!("{} answered '{line}' instead of a job", self.place),
        }
    }

    /// What statistics or a list say; nothing if there is no such thing.
    pub fn hear_page(&mut self) -> Result<Option<String>> {
        let line = self.hear()?;
        let page = self.page_behind(&line)?;
        ensure!(page.is_some() || line == "NOT_FOUND", "{} answered '{line}' instead of statistics", self.place);
        Ok(page)
    }

    /// Whether it knows a command that is answered with a page.
    pub fn knows(&mut self, line: &str) -> Result<bool> {
        let answer = self.line(line)?;
        Ok(self.page_behind(&answer)?.is_some())
    }

    fn page_behind(&mut self, line: &str) -> Result<Option<String>> {
        let Some(Ok(size)) = line.strip_prefix("OK ").map(str::parse) else { return Ok(None) };
        let page = self.body(size)?;
        Ok(Some(String::from_utf8_lossy(&page).into_owned()))
    }

    /// What statistics say, by name.
    pub fn page(&mut self, line: &str) -> Result<HashMap<String, String>> {
        self.say(line)?;
        let page = self.hear_page()?;
        Ok(page.as_deref().map(fields).unwrap_or_default())
    }

    fn body(&mut self, size: usize) -> Result<Vec<u8>> {
        ensure!(size <= BODY_BYTES_MAX, "{} speaks of {size} bytes", self.place);
        let mut body = vec![0; size + 2];
        let heard = self.reader.read_exact(&mut body);
        self.check(heard)?;
        ensure!(body.ends_with(b"\r\n"), "{} sent a body of another size than it said", self.place);
        body.truncate(size);
        Ok(body)
    }
}

/// What a page of statistics says: names and values, texts without their quotes.
pub fn fields(page: &str) -> HashMap<String, String> {
    let pairs = page.lines().filter_map(|line| line.split_once(": "));
    pairs.map(|(name, value)| (name.to_owned(), value.trim_matches('"').to_owned())).collect()
}

/// The entries of a page that is a list.
pub fn entries(page: &str) -> Vec<String> {
    page.lines().filter_map(|line| line.strip_prefix("- ")).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_are_read_with_and_without_quotes_and_lists_as_they_are() {
        let page = fields("---\nname: \"a\"\nid: 7\ntube: b\n");
        assert_eq!((&*page["name"], &*page["id"], &*page["tube"]), ("a", "7", "b"));
        assert_eq!(entries("---\n- default\n- b\"\n"), ["default", "b\""]);
    }
}
