//! What clients of Redis say before they work and beside that, and what takeanumber must answer.

/// One thing that can be said.
#[derive(Clone, Copy, Debug)]
pub struct Talk {
    /// In these words.
    pub words: &'static [&'static str],
    /// What it is called among the commands.
    pub label: &'static str,
    /// The client is called so from then on; nothing is no name.
    names: Option<&'static str>,
    /// From then on it is answered as clients of this version of Redis' protocol are.
    version: Option<u8>,
    answer: Answer,
}

#[derive(Clone, Copy, Debug)]
enum Answer {
    These(&'static str),
    Hello,
    Name,
    Id,
    Info,
    Commands,
    Docs,
}

/// What a connection has said of itself, as far as its client has heard that it was understood.
#[derive(Clone, Copy, Debug)]
pub struct Session {
    version: u8,
    name: &'static str,
}

impl Default for Session {
    fn default() -> Self {
        Session { version: 2, name: "" }
    }
}

/// A number that an answer brings along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// That of the connection.
    Id(u64),
    /// How many clients there are.
    Clients(u64),
    /// None.
    None,
}

/// takeanumber's commands: name, words, whether it changes something, what it does.
const COMMANDS: [(&str, u8, &str, &str); 6] = [
    ("add", 4, "write", "Puts a job into a queue"),
    ("close", 1, "fast", "Ends the connection"),
    ("done", 3, "write", "Completes a job"),
    ("len", 2, "readonly", "Counts the jobs of a queue that are not reserved"),
    ("reserve", 2, "write", "Takes the next job of a queue"),
    ("retry", 3, "write", "Puts a job back, or deletes it if no retries are left"),
];

const OK: Answer = Answer::These("+OK\r\n");
const SIX: Answer = Answer::These(":6\r\n");

const fn talk(words: &'static [&'static str], label: &'static str, answer: Answer) -> Talk {
    Talk { words, label, names: None, version: None, answer }
}

/// All of it.
pub const TALKS: &[Talk] = &[
    talk(&["PING"], "takeanumber PING", Answer::These("+PONG\r\n")),
    talk(&["PING", "are you\r\nthere"], "takeanumber PING", Answer::These("$14\r\nare you\r\nthere\r\n")),
    talk(&["ECHO", "text"], "takeanumber ECHO", Answer::These("$4\r\ntext\r\n")),
    talk(&["HELLO"], "takeanumber HELLO", Answer::Hello),
    Talk { version: Some(2), ..talk(&["HELLO", "2"], "takeanumber HELLO", Answer::Hello) },
    Talk { version: Some(3), ..talk(&["HELLO", "3"], "takeanumber HELLO", Answer::Hello) },
    Talk {
        version: Some(3),
        names: Some("worker-3"),
        ..talk(&["HELLO", "3", "SETNAME", "worker-3"], "takeanumber HELLO", Answer::Hello)
    },
    talk(&["CLIENT", "SETINFO", "LIB-NAME", "sim"], "takeanumber CLIENT SETINFO", OK),
    talk(&["CLIENT", "MAINT_NOTIFICATIONS", "ON"], "takeanumber CLIENT MAINT_NOTIFICATIONS", OK),
    talk(&["CLIENT", "NO-EVICT", "ON"], "takeanumber CLIENT NO-EVICT", OK),
    talk(&["CLIENT", "NO-TOUCH", "ON"], "takeanumber CLIENT NO-TOUCH", OK),
    Talk { names: Some("worker-1"), ..talk(&["CLIENT", "SETNAME", "worker-1"], "takeanumber CLIENT SETNAME", OK) },
    talk(&["CLIENT", "GETNAME"], "takeanumber CLIENT GETNAME", Answer::Name),
    talk(&["CLIENT", "ID"], "takeanumber CLIENT ID", Answer::Id),
    talk(&["SELECT", "0"], "takeanumber SELECT", OK),
    talk(&["AUTH", "secret"], "takeanumber AUTH", OK),
    talk(&["COMMAND"], "takeanumber COMMAND", Answer::Commands),
    talk(&["COMMAND", "COUNT"], "takeanumber COMMAND COUNT", SIX),
    talk(&["COMMAND", "DOCS"], "takeanumber COMMAND DOCS", Answer::Docs),
    talk(&["COMMAND", "DOCS", "len"], "takeanumber COMMAND DOCS", Answer::Docs),
    talk(&["INFO"], "takeanumber INFO", Answer::Info),
    Talk { version: Some(2), names: Some(""), ..talk(&["RESET"], "takeanumber RESET", Answer::These("+RESET\r\n")) },
];

impl Talk {
    /// Hears the answer, in a session that is different from then on. The number that it brings along.
    ///
    /// # Errors
    /// If that is not what must be answered.
    pub fn hears(&self, session: &mut Session, said: &str) -> Result<Number, String> {
        session.version = self.version.unwrap_or(session.version);
        session.name = self.names.unwrap_or(session.name);
        let mark = match self.answer {
            Answer::Hello => "\r\nid\r\n:",
            Answer::Info => "connected_clients:",
            _ => ":",
        };
        let number = super::number_after(said, mark).unwrap_or(0);
        let expected = self.expected(*session, number);
        if said != expected {
            return Err(format!("{said:?} to {:?}, and not {expected:?}", self.words));
        }
        Ok(match self.answer {
            Answer::Hello | Answer::Id => Number::Id(number),
            Answer::Info => Number::Clients(number),
            _ => Number::None,
        })
    }

    fn expected(&self, Session { version, name }: Session, number: u64) -> String {
        let map = |pairs: usize| if version == 3 { format!("%{pairs}\r\n") } else { format!("*{}\r\n", 2 * pairs) };
        match self.answer {
            Answer::These(text) => text.to_owned(),
            Answer::Name if name.is_empty() => if version == 3 { "_\r\n" } else { "$-1\r\n" }.to_owned(),
            Answer::Name => bulk(name),
            Answer::Id => format!(":{number}\r\n"),
            Answer::Hello => {
                let texts = |texts: &[&str]| texts.iter().map(|text| bulk(text)).collect::<String>();
                let (before, after) = (["server", "jobyard", "version", "7.2.0", "proto"], ["mode", "standalone"]);
                let (before, after) = (texts(&before), texts(&after) + &texts(&["role", "master", "modules"]));
                format!("{}{before}:{version}\r\n{}:{number}\r\n{after}*0\r\n", map(7), bulk("id"))
            }
            Answer::Info => {
                let text = format!(
                    "# Server\r\nserver_name:jobyard\r\nredis_version:7.2.0\r\nredis_mode:standalone\r\n\r\n\
                     # Clients\r\nconnected_clients:{number}\r\n\r\n# Persistence\r\nloading:0\r\n\r\n\
                     # Replication\r\nrole:master\r\n"
                );
                if version == 3 { format!("={}\r\ntxt:{text}\r\n", text.len() + 4) } else { bulk(&text) }
            }
            Answer::Commands => {
                let about = |(name, words, kind, _): &(&str, u8, &str, &str)| {
                    let key = u8::from(*words > 1);
                    format!("*6\r\n{}:{words}\r\n*1\r\n+{kind}\r\n:{key}\r\n:{key}\r\n:{key}\r\n", bulk(name))
                };
                format!("*{}\r\n{}", COMMANDS.len(), COMMANDS.iter().map(about).collect::<String>())
            }
            Answer::Docs => {
                let asked = &self.words[2..];
                let named: Vec<_> = COMMANDS.iter().filter(|(name, ..)| asked.is_empty() || asked == [*name]).collect();
                let about = |(name, .., summary): &&(&str, u8, &str, &str)| {
                    let texts = [*name, "summary", *summary, "group", "takeanumber"].map(bulk);
                    format!("{}{}{}", texts[0], map(2), texts[1..].concat())
                };
                format!("{}{}", map(named.len()), named.iter().map(about).collect::<String>())
            }
        }
    }
}

fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(word: &str) -> Talk {
        *TALKS.iter().find(|talk| talk.words.contains(&word)).expect("it is said")
    }

    #[test]
    fn an_answer_is_what_the_session_makes_it() {
        let mut session = Session::default();
        assert_eq!(to("GETNAME").hears(&mut session, "$-1\r\n"), Ok(Number::None));
        assert_eq!(to("SETNAME").hears(&mut session, "+OK\r\n").ok(), None, "that is said with HELLO first");
        assert_eq!(to("GETNAME").hears(&mut session, "$8\r\nworker-3\r\n"), Ok(Number::None));
        to("GETNAME").hears(&mut session, "_\r\n").expect_err("it has a name");
        to("RESET").hears(&mut session, "+RESET\r\n").expect("it is so");
        assert_eq!(to("ID").hears(&mut session, ":7\r\n"), Ok(Number::Id(7)));
        to("ID").hears(&mut session, ":x\r\n").expect_err("that is no number");
        to("COUNT").hears(&mut session, ":7\r\n").expect_err("there are six");
    }
}
