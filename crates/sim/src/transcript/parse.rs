//! Reads a transcript: one directive a line, into steps that say everything a player needs.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;

use jobyard_engine::Limits;
use jobyard_protocols::{Listener, Options, find};

use super::escape::{unescape, unescape_parts};
use super::limits;

/// A transcript, read and found to make sense.
#[derive(Debug)]
pub struct Transcript {
    /// Where it was read from.
    pub path: String,
    /// What it shows, in the words of its first comment.
    pub about: String,
    /// The server it is to be played against.
    pub setup: Setup,
    /// What happens, in order.
    pub lines: Vec<Line>,
}

/// The server that a transcript is played against.
#[derive(Debug, Default)]
pub struct Setup {
    /// Its limits.
    pub limits: Limits,
    /// Those that differ from the default, by the names of [`Limits`]' fields.
    pub limits_set: Vec<(String, u64)>,
    /// Where clients connect.
    pub listeners: Vec<ListenerSetup>,
}

/// One place where clients connect.
#[derive(Debug)]
pub struct ListenerSetup {
    /// What it speaks.
    pub listener: Listener,
    /// Its options as an address would say them, after the `?`; empty if there are none.
    pub query: String,
    /// The same, read.
    pub options: Options,
}

/// One directive.
#[derive(Debug, PartialEq, Eq)]
pub struct Line {
    /// Its number in the file, from 1.
    pub number: usize,
    /// What it says.
    pub step: Step,
}

/// What a directive says.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// A client connects.
    Open {
        /// Its name.
        client: String,
        /// The index of its listener in [`Setup::listeners`].
        listener: usize,
    },
    /// A client sends.
    Send {
        /// Its name.
        client: String,
        /// What it sends.
        bytes: Vec<u8>,
    },
    /// The next that a client hears.
    Expect {
        /// Its name.
        client: String,
        /// What it hears, in parts: between two of these stand any bytes, the fewest that will do.
        parts: Vec<Vec<u8>>,
    },
    /// The server has closed this client's connection.
    Closed(String),
    /// This client stops sending.
    Ends(String),
    /// This client closes its connection.
    Leaves(String),
    /// Time passes, in milliseconds.
    Wait(u64),
    /// The wall clock steps, by milliseconds.
    Clock(i64),
    /// The server is killed and started again.
    Restart,
    /// The power goes out; the machine and the server are started again.
    Crash,
    /// The disk is full but for the reserve, or has room again.
    Disk {
        /// Whether it is full.
        full: bool,
    },
    /// The server takes no more jobs.
    Drain,
    /// The server stops.
    Stop,
}

/// Where a transcript makes no sense, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// The file.
    pub path: String,
    /// The line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub message: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}

impl std::error::Error for ParseError {}

impl Transcript {
    /// Reads the text of a transcript. The folder in `path` says which protocol clients speak that are
    /// not opened.
    ///
    /// # Errors
    /// If a line makes no sense.
    pub fn parse(path: &str, text: &str) -> Result<Self, ParseError> {
        let folder = Path::new(path).parent().and_then(Path::file_name).and_then(|name| name.to_str());
        let mut parser = Parser {
            folder: folder.and_then(find),
            about: None,
            setup: Setup::default(),
            clients: HashMap::new(),
            number: 0,
            lines: Vec::new(),
        };
        for (index, line) in text.lines().enumerate() {
            parser.number = index + 1;
            let error = |message| ParseError { path: path.to_owned(), line: index + 1, message };
            parser.read_line(line).map_err(error)?;
        }
        let nothing = |message: &str| ParseError { path: path.to_owned(), line: 1, message: message.to_owned() };
        let about = parser.about.ok_or_else(|| nothing("no comment says what this transcript shows"))?;
        if parser.lines.is_empty() {
            return Err(nothing("nothing happens in this transcript"));
        }
        Ok(Transcript { path: path.to_owned(), about, setup: parser.setup, lines: parser.lines })
    }

    /// All that clients are expected to hear, part by part.
    pub fn expected(&self) -> impl Iterator<Item = &[u8]> {
        let parts = self.lines.iter().filter_map(|line| match &line.step {
            Step::Expect { parts, .. } => Some(parts),
            _ => None,
        });
        parts.flatten().map(Vec::as_slice)
    }
}

struct Parser {
    /// What clients speak that are not opened; none in a folder that is no protocol.
    folder: Option<Listener>,
    about: Option<String>,
    setup: Setup,
    clients: HashMap<String, Client>,
    number: usize,
    lines: Vec<Line>,
}

struct Client {
    listener: usize,
    state: ClientState,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ClientState {
    Open,
    Ended,
    Gone,
}

impl Parser {
    fn read_line(&mut self, line: &str) -> Result<(), String> {
        if let Some(comment) = line.strip_prefix('#') {
            let comment = comment.trim();
            if self.about.is_none() && !comment.is_empty() {
                self.about = Some(comment.to_owned());
            }
            return Ok(());
        }
        if line.is_empty() {
            return Ok(());
        }
        match split_client(line) {
            Some((client, says)) if says.starts_with(['<', '>']) => self.read_says(client, says),
            _ => self.read_directive(line),
        }
    }

    /// `alice> text` and its kin. `says` begins with the arrow.
    fn read_says(&mut self, client: &str, says: &str) -> Result<(), String> {
        let text = says.trim_start_matches(&says[..1]);
        let arrow = &says[..says.len() - text.len()];
        let (sends, exact) = match arrow {
            ">" => (true, false),
            ">>" => (true, true),
            "<" => (false, false),
            "<<" => (false, true),
            _ => return Err(format!("unknown arrow '{arrow}'")),
        };
        let text = match text.strip_prefix(' ') {
            Some(text) => text,
            None if text.is_empty() => text,
            None => return Err(format!("a space must follow '{arrow}'")),
        };
        if text.ends_with([' ', '\t']) {
            return Err("a blank at the end of the line cannot be seen: write it as '\\x20' or '\\t'".to_owned());
        }
        let listener = self.listener_of(client, if sends { "send" } else { "hear" })?;
        let end = if exact { "" } else { self.setup.listeners[listener].listener.line_end() };
        let client = client.to_owned();
        self.push(if sends {
            let mut bytes = unescape(text)?;
            bytes.extend_from_slice(end.as_bytes());
            Step::Send { client, bytes }
        } else {
            let mut parts = unescape_parts(text)?;
            parts.last_mut().expect("a text has a part").extend_from_slice(end.as_bytes());
            Step::Expect { client, parts }
        });
        Ok(())
    }

    /// A line that holds no text of a client's; a comment may follow it.
    fn read_directive(&mut self, line: &str) -> Result<(), String> {
        let line = line.split_once(" #").map_or(line, |(line, _)| line);
        let words: Vec<_> = line.split_ascii_whitespace().collect();
        match words[..] {
            ["limits", ref fields @ ..] => self.read_limits(fields),
            ["open", client, listener] => self.read_open(client, listener),
            ["wait", duration] => {
                let ms = parse_duration_ms(duration)?;
                self.push(Step::Wait(ms));
                Ok(())
            }
            ["clock", step] => self.read_clock(step),
            [again @ ("restart" | "crash")] => {
                self.clients.clear();
                self.push(if again == "crash" { Step::Crash } else { Step::Restart });
                Ok(())
            }
            ["disk", state @ ("full" | "free")] => {
                self.push(Step::Disk { full: state == "full" });
                Ok(())
            }
            ["drain"] => {
                self.push(Step::Drain);
                Ok(())
            }
            ["stop"] => {
                self.push(Step::Stop);
                Ok(())
            }
            [client, does @ ("closed" | "ends" | "leaves")] => self.read_client_does(client, does),
            _ => Err(format!("'{line}' is no directive")),
        }
    }

    fn read_limits(&mut self, fields: &[&str]) -> Result<(), String> {
        if !self.lines.is_empty() {
            return Err("limits come before anything else".to_owned());
        }
        for field in fields {
            let (name, value) = field.split_once('=').ok_or_else(|| format!("'{field}' is not NAME=NUMBER"))?;
            let value = value.parse().map_err(|_| format!("'{value}' is no number"))?;
            limits::set(&mut self.setup.limits, name, value)?;
            self.setup.limits_set.push((name.to_owned(), value));
        }
        Ok(())
    }

    fn read_open(&mut self, client: &str, listener: &str) -> Result<(), String> {
        check_client_name(client)?;
        if self.clients.get(client).is_some_and(|client| client.state != ClientState::Gone) {
            return Err(format!("{client} is connected already"));
        }
        let (protocol, query) = listener.split_once('?').unwrap_or((listener, ""));
        let protocol = find(protocol).ok_or_else(|| format!("no protocol is called '{protocol}'"))?;
        self.open(client, protocol, query)?;
        Ok(())
    }

    /// Opens a client on the listener with this protocol and these options, which is there or made.
    fn open(&mut self, client: &str, listener: Listener, query: &str) -> Result<usize, String> {
        let same = |other: &ListenerSetup| other.listener.name() == listener.name() && other.query == query;
        let index = match self.setup.listeners.iter().position(same) {
            Some(index) => index,
            None => {
                let options = Options::parse(query, &listener.options()).map_err(|error| error.to_string())?;
                self.setup.listeners.push(ListenerSetup { listener, query: query.to_owned(), options });
                self.setup.listeners.len() - 1
            }
        };
        self.clients.insert(client.to_owned(), Client { listener: index, state: ClientState::Open });
        self.push(Step::Open { client: client.to_owned(), listener: index });
        Ok(index)
    }

    /// The listener of a client that is about to do something, after opening it at its first use.
    fn listener_of(&mut self, client: &str, does: &str) -> Result<usize, String> {
        check_client_name(client)?;
        match self.clients.get(client) {
            None => {
                let folder =
                    self.folder.ok_or_else(|| format!("{client} was not opened, and this is no protocol's folder"))?;
                self.open(client, folder, "")
            }
            Some(Client { state: ClientState::Gone, .. }) => Err(format!("{client} is gone: open it again first")),
            Some(Client { state: ClientState::Ended, .. }) if does == "send" => {
                Err(format!("{client} has stopped sending"))
            }
            Some(client) => Ok(client.listener),
        }
    }

    fn read_client_does(&mut self, client: &str, does: &str) -> Result<(), String> {
        self.listener_of(client, if does == "ends" { "send" } else { does })?;
        let name = client.to_owned();
        let (step, state) = match does {
            "closed" => (Step::Closed(name), ClientState::Gone),
            "ends" => (Step::Ends(name), ClientState::Ended),
            _ => (Step::Leaves(name), ClientState::Gone),
        };
        if let Some(client) = self.clients.get_mut(client) {
            client.state = state;
        }
        self.push(step);
        Ok(())
    }

    fn read_clock(&mut self, step: &str) -> Result<(), String> {
        let (sign, duration) = match (step.strip_prefix('+'), step.strip_prefix('-')) {
            (Some(duration), _) => (1, duration),
            (_, Some(duration)) => (-1, duration),
            _ => return Err("a clock steps by '+TIME' or '-TIME'".to_owned()),
        };
        let ms = i64::try_from(parse_duration_ms(duration)?).map_err(|_| format!("'{duration}' is too long"))?;
        self.push(Step::Clock(sign * ms));
        Ok(())
    }

    fn push(&mut self, step: Step) {
        self.lines.push(Line { number: self.number, step });
    }
}

/// The client's name at the start of a line, and what follows it.
fn split_client(line: &str) -> Option<(&str, &str)> {
    let end = line.find(|c: char| !is_name_char(c))?;
    (end > 0).then(|| line.split_at(end))
}

fn is_name_char(c: char) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-')
}

fn check_client_name(name: &str) -> Result<(), String> {
    if name.chars().all(is_name_char) { Ok(()) } else { Err(format!("'{name}' is no name for a client")) }
}

fn parse_duration_ms(text: &str) -> Result<u64, String> {
    let malformed = || format!("'{text}' is no time: write '500ms', '3s', '5m', '1h' or '1d'");
    let unit_at = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(malformed)?;
    let count: u64 = text[..unit_at].parse().map_err(|_| malformed())?;
    let unit_ms = match &text[unit_at..] {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(malformed()),
    };
    count.checked_mul(unit_ms).ok_or_else(|| format!("'{text}' is too long"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(path: &str, body: &str) -> Result<Transcript, ParseError> {
        Transcript::parse(path, &format!("# What it shows.\n{body}"))
    }

    fn steps(path: &str, body: &str) -> Vec<Step> {
        parse(path, body).unwrap().lines.into_iter().map(|line| line.step).collect()
    }

    fn error(body: &str) -> String {
        parse("transcripts/workq/x.txt", body).unwrap_err().to_string()
    }

    fn open(client: &str, listener: usize) -> Step {
        Step::Open { client: client.into(), listener }
    }

    fn send(client: &str, bytes: &[u8]) -> Step {
        Step::Send { client: client.into(), bytes: bytes.into() }
    }

    fn expect(client: &str, bytes: &[u8]) -> Step {
        Step::Expect { client: client.into(), parts: vec![bytes.into()] }
    }

    #[test]
    fn a_client_speaks_the_folders_protocol_and_its_line_end() {
        for (protocol, end) in [("takeanumber", "\r\n"), ("workq", "\r\n"), ("masenko", "\n"), ("jobcentre", "\n")] {
            let steps = steps(&format!("transcripts/{protocol}/x.txt"), "alice> a  b\nalice< c\nalice>> d\nalice<< e");
            let line = |text: &str| format!("{text}{end}").into_bytes();
            let expected = [
                open("alice", 0),
                send("alice", &line("a  b")),
                expect("alice", &line("c")),
                send("alice", b"d"),
                expect("alice", b"e"),
            ];
            assert_eq!(steps, expected, "{protocol}");
        }
        for protocol in ["goqueue", "http", "any"] {
            let steps = steps(&format!("{protocol}/x.txt"), "alice> A\\0\nalice<");
            assert_eq!(steps, [open("alice", 0), send("alice", b"A\0"), expect("alice", b"")], "{protocol}");
        }
    }

    #[test]
    fn only_one_space_is_dropped_after_the_arrow_and_the_rest_is_text() {
        let steps = steps("masenko/x.txt", "a>   x # y\\x20\na> <z");
        assert_eq!(steps, [open("a", 0), send("a", b"  x # y \n"), send("a", b"<z\n")]);
    }

    #[test]
    fn clients_with_the_same_options_share_a_listener() {
        let body = "open a masenko?heartbeat=3s  # three seconds\nopen b masenko?heartbeat=3s\nopen c any\nd> PING";
        let transcript = parse("transcripts/masenko/x.txt", body).unwrap();
        let listeners: Vec<_> = transcript.setup.listeners.iter().map(|l| (l.listener.name(), &l.query[..])).collect();
        assert_eq!(listeners, [("masenko", "heartbeat=3s"), ("any", ""), ("masenko", "")]);
        assert_eq!(transcript.setup.listeners[0].options.heartbeat_ms, 3_000);
        let steps: Vec<_> = transcript.lines.into_iter().map(|line| line.step).collect();
        assert_eq!(steps, [open("a", 0), open("b", 0), open("c", 1), open("d", 2), send("d", b"PING\n")]);
    }

    #[test]
    fn everything_that_happens_beside_talk() {
        let body = "a ends\nwait 1500ms\nwait 2d\nclock +1h\nclock -3s\na leaves\nb closed\ndisk full\ndisk free\ndrain\nstop\nrestart\na> x\ncrash\na> x";
        let expected = [
            open("a", 0),
            Step::Ends("a".into()),
            Step::Wait(1_500),
            Step::Wait(172_800_000),
            Step::Clock(3_600_000),
            Step::Clock(-3_000),
            Step::Leaves("a".into()),
            open("b", 0),
            Step::Closed("b".into()),
            Step::Disk { full: true },
            Step::Disk { full: false },
            Step::Drain,
            Step::Stop,
            Step::Restart,
            open("a", 0),
            send("a", b"x\n"),
            Step::Crash,
            open("a", 0),
            send("a", b"x\n"),
        ];
        assert_eq!(steps("transcripts/masenko/x.txt", body), expected);
    }

    #[test]
    fn lines_are_counted_and_the_first_comment_says_what_it_shows() {
        let text = "#\n# One.\n# Two.\nlimits held_max=2 body_bytes_max=100 # small\n\na> x\n";
        let transcript = Transcript::parse("transcripts/masenko/x.txt", text).unwrap();
        assert_eq!(transcript.about, "One.");
        assert_eq!(transcript.lines.iter().map(|line| line.number).collect::<Vec<_>>(), [6, 6]);
        let limits = Limits { held_max: 2, body_bytes_max: 100, ..Limits::default() };
        assert_eq!(transcript.setup.limits, limits);
        assert_eq!(transcript.setup.limits_set, [("held_max".into(), 2), ("body_bytes_max".into(), 100)]);
    }

    #[test]
    fn what_makes_no_sense_is_named_with_file_and_line() {
        assert_eq!(error("a> x\nnonsense"), "transcripts/workq/x.txt:3: 'nonsense' is no directive");
        for (body, message) in [
            ("a>x", "a space must follow '>'"),
            ("a>>> x", "unknown arrow '>>>'"),
            ("a> x ", "a blank at the end"),
            (r"a> \q", r"unknown escape '\q'"),
            ("open a nothing", "no protocol is called 'nothing'"),
            ("open a workq?heartbeat=3s", "unknown option 'heartbeat'"),
            ("open A workq", "'A' is no name"),
            ("a> x\nopen a workq", "a is connected already"),
            ("a leaves\na> x", "a is gone"),
            ("a ends\na> x", "a has stopped sending"),
            ("a ends\na ends", "a has stopped sending"),
            ("a> x\nlimits held_max=2", "limits come before"),
            ("limits held=2\na> x", "no limit is called 'held'"),
            ("limits held_max\na> x", "is not NAME=NUMBER"),
            ("limits held_max=x\na> x", "'x' is no number"),
            ("wait 5", "is no time"),
            ("wait s", "is no time"),
            ("wait 99999999999999999d", "is too long"),
            ("clock 5s", "a clock steps by"),
            (" wait 5s extra", "is no directive"),
            ("", "nothing happens"),
        ] {
            let error = error(body);
            assert!(error.contains(message), "{body:?}: {error}");
        }
        let no_comment = Transcript::parse("workq/x.txt", "a> x").unwrap_err();
        assert!(no_comment.message.contains("no comment"), "{no_comment}");
    }

    #[test]
    fn a_folder_that_is_no_protocol_opens_nobody() {
        let error = parse("transcripts/together/x.txt", "a> x").unwrap_err();
        assert!(error.message.contains("a was not opened"), "{error}");
    }
}
