//! What Redis clients ask before and beside their work: they are answered so that they go on.

use crate::codec::{Context, Health, Next};

use super::{UNRECOGNIZED, write_error, write_integer, write_simple, wrong};

/// The version of Redis whose opening this is: clients choose what they send by it.
const REDIS_VERSION: &str = "7.2.0";
const SERVER_NAME: &str = "jobyard";
/// A name is kept as long as its connection.
const NAME_BYTES_MAX: usize = 256;

const WRONG_COUNT: &str = "Wrong number of parameters.";

/// takeanumber's commands as `COMMAND` lists them: name, words, whether it changes something, what it does.
const COMMANDS: [(&str, i8, &str, &str); 6] = [
    ("add", 4, "write", "Puts a job into a queue"),
    ("close", 1, "fast", "Ends the connection"),
    ("done", 3, "write", "Completes a job"),
    ("len", 2, "readonly", "Counts the jobs of a queue that are not reserved"),
    ("reserve", 2, "write", "Takes the next job of a queue"),
    ("retry", 3, "write", "Puts a job back, or deletes it if no retries are left"),
];

/// What a connection has said about itself.
#[derive(Debug, Default)]
pub(super) struct Session {
    resp: Resp,
    id: Option<u64>,
    name: Vec<u8>,
}

/// Which replies the client can read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Resp {
    #[default]
    Two,
    Three,
}

impl Session {
    /// The connection's number.
    pub(super) fn arrive(&mut self, client: u64) {
        self.id.get_or_insert(client);
    }

    /// Answers an array that is none of takeanumber's own commands.
    pub(super) fn answer(&mut self, words: &[&[u8]], out: &mut Vec<u8>, context: &Context<'_>) -> Next {
        let Some((command, parameters)) = words.split_first() else {
            return wrong(UNRECOGNIZED, out);
        };
        match command.to_ascii_uppercase().as_slice() {
            b"AUTH" => auth(parameters, out),
            b"CLIENT" => self.client(parameters, out),
            b"COMMAND" => self.command(parameters, out),
            b"ECHO" => echo(parameters, out),
            b"HELLO" => self.hello(parameters, out),
            b"INFO" => self.info(out, context),
            b"PING" => ping(parameters, out),
            b"QUIT" => quit(out),
            b"RESET" => self.reset(out),
            b"SELECT" => select(parameters, out),
            _ => wrong(UNRECOGNIZED, out),
        }
    }

    /// `HELLO [<version> [AUTH <user> <password>] [SETNAME <name>]]`
    fn hello(&mut self, parameters: &[&[u8]], out: &mut Vec<u8>) -> Next {
        let (resp, mut options) = match parameters.split_first() {
            None => (self.resp, parameters),
            Some((&b"2", options)) => (Resp::Two, options),
            Some((&b"3", options)) => (Resp::Three, options),
            Some(_) => {
                out.extend_from_slice(b"-NOPROTO unsupported protocol version\r\n");
                return Next::Answered;
            }
        };
        let mut name = None;
        while let Some((option, rest)) = options.split_first() {
            options = match (option.to_ascii_uppercase().as_slice(), rest) {
                (b"AUTH", [_, _, rest @ ..]) => rest,
                (b"SETNAME", [text, rest @ ..]) if name_is_fit(text) => {
                    name = Some(text.to_vec());
                    rest
                }
                (b"SETNAME", [_, ..]) => return unfit_name(out),
                _ => return wrong("Syntax error in HELLO option.", out),
            };
        }
        self.resp = resp;
        self.name = name.unwrap_or_else(|| std::mem::take(&mut self.name));
        self.write_hello(out);
        Next::Answered
    }

    fn write_hello(&self, out: &mut Vec<u8>) {
        self.write_map(7, out);
        for (key, value) in [("server", SERVER_NAME), ("version", REDIS_VERSION)] {
            write_bulk(key.as_bytes(), out);
            write_bulk(value.as_bytes(), out);
        }
        write_bulk(b"proto", out);
        write_integer(if self.resp == Resp::Three { 3 } else { 2 }, out);
        write_bulk(b"id", out);
        self.write_id(out);
        for (key, value) in [("mode", "standalone"), ("role", "master")] {
            write_bulk(key.as_bytes(), out);
            write_bulk(value.as_bytes(), out);
        }
        write_bulk(b"modules", out);
        write_array(0, out);
    }

    fn client(&mut self, parameters: &[&[u8]], out: &mut Vec<u8>) -> Next {
        let Some((subcommand, parameters)) = parameters.split_first() else {
            return wrong("Missing CLIENT parameters.", out);
        };
        match (subcommand.to_ascii_uppercase().as_slice(), parameters) {
            (b"SETINFO", [_, _]) | (b"MAINT_NOTIFICATIONS", [_, ..]) | (b"NO-EVICT" | b"NO-TOUCH", [_]) => ok(out),
            (b"SETNAME", [name]) => self.set_name(name, out),
            (b"GETNAME", []) => self.get_name(out),
            (b"ID", []) => {
                self.write_id(out);
                Next::Answered
            }
            (b"SETINFO" | b"MAINT_NOTIFICATIONS" | b"NO-EVICT" | b"NO-TOUCH" | b"SETNAME" | b"GETNAME" | b"ID", _) => {
                wrong(WRONG_COUNT, out)
            }
            _ => wrong("Unrecognized CLIENT subcommand.", out),
        }
    }

    fn set_name(&mut self, name: &[u8], out: &mut Vec<u8>) -> Next {
        if !name_is_fit(name) {
            return unfit_name(out);
        }
        if !crate::broken("protocols-name-forgotten") {
            self.name = name.to_vec();
        }
        ok(out)
    }

    fn get_name(&self, out: &mut Vec<u8>) -> Next {
        match (self.name.as_slice(), self.resp) {
            (b"", Resp::Two) => out.extend_from_slice(b"$-1\r\n"),
            (b"", Resp::Three) => out.extend_from_slice(b"_\r\n"),
            (name, _) => write_bulk(name, out),
        }
        Next::Answered
    }

    /// `COMMAND`, `COMMAND COUNT`, `COMMAND DOCS [<name> …]`
    fn command(&self, parameters: &[&[u8]], out: &mut Vec<u8>) -> Next {
        let Some((subcommand, names)) = parameters.split_first() else {
            write_commands(out);
            return Next::Answered;
        };
        match subcommand.to_ascii_uppercase().as_slice() {
            b"COUNT" if names.is_empty() => write_integer(COMMANDS.len(), out),
            b"COUNT" => return wrong(WRONG_COUNT, out),
            b"DOCS" => self.write_docs(names, out),
            _ => return wrong("Unrecognized COMMAND subcommand.", out),
        }
        Next::Answered
    }

    fn write_docs(&self, names: &[&[u8]], out: &mut Vec<u8>) {
        let is_asked =
            |name: &str| names.is_empty() || names.iter().any(|asked| asked.eq_ignore_ascii_case(name.as_bytes()));
        let asked: Vec<_> = COMMANDS.iter().filter(|(name, ..)| is_asked(name)).collect();
        self.write_map(asked.len(), out);
        for (name, _, _, summary) in asked {
            write_bulk(name.as_bytes(), out);
            self.write_map(2, out);
            for (key, value) in [("summary", *summary), ("group", "takeanumber")] {
                write_bulk(key.as_bytes(), out);
                write_bulk(value.as_bytes(), out);
            }
        }
    }

    /// `INFO [<section> …]`: little enough that every section is shown.
    fn info(&self, out: &mut Vec<u8>, context: &Context<'_>) -> Next {
        let loading = u8::from(context.health == Health::Starting);
        let text = format!(
            "# Server\r\nserver_name:{SERVER_NAME}\r\nredis_version:{REDIS_VERSION}\r\nredis_mode:standalone\r\n\r\n\
             # Clients\r\nconnected_clients:{}\r\n\r\n\
             # Persistence\r\nloading:{loading}\r\n\r\n\
             # Replication\r\nrole:master\r\n",
            context.clients
        );
        match self.resp {
            Resp::Two => write_bulk(text.as_bytes(), out),
            Resp::Three => out.extend_from_slice(format!("={}\r\ntxt:{text}\r\n", text.len() + 4).as_bytes()),
        }
        Next::Answered
    }

    fn reset(&mut self, out: &mut Vec<u8>) -> Next {
        if !crate::broken("protocols-reset-ignored") {
            self.resp = Resp::Two;
            self.name.clear();
        }
        write_simple(b"RESET", out);
        Next::Answered
    }

    fn write_id(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(format!(":{}\r\n", self.id.unwrap_or_default()).as_bytes());
    }

    /// A map's head: clients of the older version read it as keys and values in turn.
    fn write_map(&self, pairs: usize, out: &mut Vec<u8>) {
        match self.resp {
            Resp::Two => write_array(2 * pairs, out),
            Resp::Three => out.extend_from_slice(format!("%{pairs}\r\n").as_bytes()),
        }
    }
}

/// There are no passwords here, so any will do, as for a Redis user without one.
fn auth(parameters: &[&[u8]], out: &mut Vec<u8>) -> Next {
    match parameters.len() {
        0 => wrong("Missing AUTH parameters.", out),
        1 | 2 => ok(out),
        _ => wrong(WRONG_COUNT, out),
    }
}

fn echo(parameters: &[&[u8]], out: &mut Vec<u8>) -> Next {
    match parameters {
        [] => return wrong("Missing ECHO parameters.", out),
        [text] => write_bulk(text, out),
        _ => return wrong(WRONG_COUNT, out),
    }
    Next::Answered
}

fn ping(parameters: &[&[u8]], out: &mut Vec<u8>) -> Next {
    match parameters {
        [] => write_simple(b"PONG", out),
        [text] => write_bulk(text, out),
        _ => return wrong(WRONG_COUNT, out),
    }
    Next::Answered
}

fn quit(out: &mut Vec<u8>) -> Next {
    write_simple(b"OK", out);
    Next::Close
}

/// There is one set of queues. To say so is safer than to let a client believe that it has its own.
fn select(parameters: &[&[u8]], out: &mut Vec<u8>) -> Next {
    match parameters {
        [] => wrong("Missing SELECT parameters.", out),
        [b"0"] => ok(out),
        [_] => wrong("DB index is out of range: there is only 0.", out),
        _ => wrong(WRONG_COUNT, out),
    }
}

fn ok(out: &mut Vec<u8>) -> Next {
    write_simple(b"OK", out);
    Next::Answered
}

/// As in Redis, where names stand in lists that are parted by blanks.
fn name_is_fit(name: &[u8]) -> bool {
    name.len() <= NAME_BYTES_MAX && name.iter().all(u8::is_ascii_graphic)
}

fn unfit_name(out: &mut Vec<u8>) -> Next {
    write_error(&format!("Client name must be at most {NAME_BYTES_MAX} visible ASCII characters."), out);
    Next::Answered
}

/// For each command: name, words, flags, and that its first parameter is its only key.
fn write_commands(out: &mut Vec<u8>) {
    write_array(COMMANDS.len(), out);
    for (name, words, flag, _) in COMMANDS {
        let key = usize::from(words > 1);
        write_array(6, out);
        write_bulk(name.as_bytes(), out);
        out.extend_from_slice(format!(":{words}\r\n").as_bytes());
        write_array(1, out);
        write_simple(flag.as_bytes(), out);
        for position in [key, key, key] {
            write_integer(position, out);
        }
    }
}

fn write_array(count: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(format!("*{count}\r\n").as_bytes());
}

fn write_bulk(text: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(format!("${}\r\n", text.len()).as_bytes());
    out.extend_from_slice(text);
    out.extend_from_slice(b"\r\n");
}
