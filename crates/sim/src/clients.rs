//! Simulated clients: what can be asked in no protocol's words, and for each protocol how it says that and what it hears.

mod beanstalkd;
mod goqueue;
mod jobcentre;
mod masenko;
mod nonsense;
mod redis;
mod takeanumber;
#[cfg(test)]
mod tests;
mod unfinished;
mod verbs;
mod workq;

use jobyard_engine::Choice;
pub use nonsense::Nonsense;
pub use redis::{Number, Session, TALKS};
pub use verbs::verb;

/// A job, as the one who put it counts.
pub type Entry = usize;

/// A job to be put.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Put {
    /// Which job it is. Its body tells.
    pub entry: Entry,
    /// Whose UUID it has, if the protocol lets a client choose one: its own, or that of another job.
    pub id_of: Entry,
    /// Where to.
    pub queue: &'static str,
    /// A JSON object without blanks, so that each protocol shows it as it was.
    pub body: String,
    /// The larger, the sooner.
    pub urgency: u32,
    /// How long a lease of it lasts, in seconds, if the protocol can say so.
    pub own_time_s: Option<u32>,
    /// For how many seconds it is delayed.
    pub delay_s: Option<u32>,
    /// How long it lives, in seconds, if the protocol can say so.
    pub lifetime_s: Option<u32>,
    /// How often it may fail; without, more often than it ever will.
    pub failures: Option<u32>,
    /// How often it may be taken; without, as often as anyone likes.
    pub attempts: Option<u32>,
    /// The numbers of the jobs that must be completed before it.
    pub blockers: Vec<u64>,
    /// Where it goes when it has failed too often, instead of away.
    pub dead_queue: Option<&'static str>,
    /// Whether the client waits for its result, and takes it along when it goes.
    pub runs: bool,
    /// Where it was before, if the protocol can say so: one of a few.
    pub origin: Option<usize>,
    /// Whether it was put aside there, and is so here.
    pub aside: bool,
}

impl Put {
    /// One that everybody can put.
    #[must_use]
    pub fn plain(entry: Entry, queue: &'static str, body: String) -> Self {
        Put {
            entry,
            id_of: entry,
            queue,
            body,
            urgency: 0,
            own_time_s: None,
            delay_s: None,
            lifetime_s: None,
            failures: None,
            attempts: None,
            blockers: Vec::new(),
            dead_queue: None,
            runs: false,
            origin: None,
            aside: false,
        }
    }

    /// The UUID that its client chose for it, if it can.
    #[must_use]
    pub fn uuid(&self) -> String {
        uuid_of_entry(self.id_of)
    }

    /// Whether nobody but masenko can say it.
    #[must_use]
    pub fn is_masenkos(&self) -> bool {
        !self.blockers.is_empty() || self.dead_queue.is_some()
    }

    /// Whether it can be in this queue.
    #[must_use]
    pub fn may_be_in(&self, queue: &str) -> bool {
        self.queue == queue || self.dead_queue == Some(queue)
    }
}

/// A job that a client was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// Which job.
    pub entry: Entry,
    /// What its protocol calls it.
    pub id: String,
    /// The queue that it came from.
    pub queue: &'static str,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Put a job.
    Put(Put),
    /// Put jobs and complete others, all or nothing. Each job but the first waits for the one before it.
    Group {
        /// The jobs.
        puts: Vec<Put>,
        /// What is completed along.
        completes: Option<Held>,
    },
    /// Take a job from one of these queues.
    Take {
        /// The queues.
        queues: Vec<&'static str>,
        /// For how long to wait for one; 0 is not at all.
        wait_ms: u64,
    },
    /// A job is done.
    Complete(Held),
    /// A job is to go, whoever has it.
    Remove(Held),
    /// A job has failed.
    Fail(Held),
    /// A job is given back.
    Release(Held),
    /// A job is given back with another urgency, to be taken after so many seconds.
    PutBack {
        /// The job.
        held: Held,
        /// The larger, the sooner.
        urgency: u32,
        /// For how long it is delayed.
        delay_s: u32,
    },
    /// A job is put aside.
    Bury {
        /// The job.
        held: Held,
        /// The larger, the sooner, when it is let back in.
        urgency: u32,
    },
    /// Jobs that were put aside are let back in, or delayed ones if there are none.
    Kick {
        /// Those of this queue.
        queue: &'static str,
        /// So many at most.
        count: usize,
    },
    /// A job that was put aside, or is delayed, is let back in.
    KickJob(Held),
    /// Take this job and no other, unless someone has it.
    TakeThis(Held),
    /// For so many seconds nobody who asks for the next job is given one of this queue.
    Pause {
        /// The queue.
        queue: &'static str,
        /// For how long; 0 ends what goes on.
        pause_s: u64,
    },
    /// The time for which a job is held begins anew.
    Extend(Held),
    /// How is a job?
    State(Held),
    /// What is in a job?
    Peek(Held),
    /// Which job would be the next of those in a queue that are in this state?
    PeekNext {
        /// The queue.
        queue: &'static str,
        /// The state.
        state: Standing,
    },
    /// From now on jobs are brought from elsewhere, and nobody else does so.
    ClaimOrigins,
    /// Where a job was before no longer has it.
    CloseOrigin(usize),
    /// Which jobs were elsewhere before, where that may still have them?
    Origins {
        /// Only those behind this one.
        after: Option<usize>,
    },
    /// From now on jobs are put there.
    Use(&'static str),
    /// From now on jobs are taken from there too.
    Watch(&'static str),
    /// From now on jobs are not taken from there.
    Ignore(&'static str),
    /// Where does one put jobs, or take them from?
    Attended {
        /// Whether it is asked where they are taken from.
        watched: bool,
    },
    /// How many jobs are in a queue?
    Count(&'static str),
    /// What is there to say of a queue?
    Figures(&'static str),
    /// What has become of the job of this UUID?
    Inspect(String),
    /// What is the result of the job of this UUID? Waits until there is one.
    Result {
        /// The job.
        uuid: String,
        /// For how long to wait for it.
        wait_ms: u64,
    },
    /// Which jobs are in a queue, in the order in which they would be taken?
    List {
        /// The queue.
        queue: &'static str,
        /// Whether those that wait for a date are meant, not those that are ready.
        delayed: bool,
        /// How many are passed over.
        offset: usize,
    },
    /// Which queues are there, with how many jobs?
    Queues,
    /// How is the server?
    Server,
    /// Is anyone there?
    Greet,
    /// Something that clients of Redis say beside their work: one of [`TALKS`].
    SmallTalk(usize),
    /// That was all: politely, or without waiting for an answer.
    Leave {
        /// Whether it wants to hear that this was understood.
        politely: bool,
    },
    /// Something that must be refused.
    Nonsense(usize),
    /// Something that must be refused, and is the last that is heard.
    Blunder(usize),
    /// The beginning of a request of some kind, with so many bytes more, of which the end never comes.
    Unfinished {
        /// Which beginning.
        kind: usize,
        /// How much follows.
        more: usize,
    },
}

impl Ask {
    /// The jobs that it puts.
    #[must_use]
    pub fn puts(&self) -> Vec<Entry> {
        match self {
            Ask::Put(put) => vec![put.entry],
            Ask::Group { puts, .. } => puts.iter().map(|put| put.entry).collect(),
            _ => Vec::new(),
        }
    }

    /// The job of which nothing is left if that is done for one who speaks so.
    #[must_use]
    pub fn removes(&self, speaker: &Speaker) -> Option<Entry> {
        match self {
            Ask::Remove(held) => Some(held.entry),
            Ask::Complete(held) if speaker.removes_what_is_done => Some(held.entry),
            _ => None,
        }
    }

    /// The job that it may end, or whose lease.
    #[must_use]
    pub fn disturbs(&self) -> Option<Entry> {
        match self {
            Ask::Complete(held) | Ask::Remove(held) | Ask::Fail(held) | Ask::Release(held) => Some(held.entry),
            Ask::PutBack { held, .. } | Ask::Bury { held, .. } => Some(held.entry),
            Ask::Group { completes, .. } => completes.as_ref().map(|held| held.entry),
            _ => None,
        }
    }
}

/// In which state a job is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It can be taken.
    Ready,
    /// It waits for a time.
    Delayed,
    /// It was put aside.
    Buried,
}

/// What is heard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// Jobs were put; these are their numbers, if the protocol tells.
    Put(Vec<u64>),
    /// A job was given.
    Took {
        /// What the protocol calls it.
        id: String,
        /// Its body.
        body: Vec<u8>,
        /// How often it has failed, if the protocol tells.
        failures: Option<usize>,
    },
    /// There is no job, or none came in time.
    Nothing,
    /// A job that is held has little time left.
    Soon,
    /// So many jobs were let back in.
    Kicked(usize),
    /// It was done.
    Done,
    /// It was not done, in these words.
    Refused(String),
    /// So many jobs are in a queue.
    Count(Counts),
    /// What has become of a job.
    Job(Fate),
    /// A result came.
    Result {
        /// Whether all went well.
        success: bool,
        /// Whether there is more to it than that.
        says: bool,
    },
    /// This job is the next one.
    Shown {
        /// What the protocol calls it.
        id: String,
        /// Its body.
        body: Vec<u8>,
    },
    /// So many queues are watched.
    Watching(usize),
    /// These are in a queue, by their bodies.
    List(Vec<Vec<u8>>),
    /// A queue with how many are ready and delayed, or a name and its value, in each line.
    Facts(Vec<String>),
}

/// How many jobs are in a queue, as far as the protocol says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Ready ones.
    pub ready: Option<usize>,
    /// Those that wait for a time.
    pub delayed: Option<usize>,
    /// Those that someone has.
    pub leased: Option<usize>,
    /// Those that nobody has.
    pub free: Option<usize>,
    /// Those that were put aside.
    pub buried: Option<usize>,
    /// For how many seconds the queue is paused; 0 is not at all.
    pub pause_s: Option<u64>,
}

/// The bytes that say something, and the command's label; nothing if it cannot be said.
pub type Said = Option<(Vec<u8>, &'static str)>;

/// What has become of a job, or that it is not there.
pub type Fate = Option<Found>;

/// A job, as workq shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its state, by workq's numbers.
    pub state: u32,
    /// Its body.
    pub body: Vec<u8>,
    /// A name and its value, in each line.
    pub facts: Vec<String>,
}

/// An answer, and how many bytes it takes; nothing while it is not whole. An error if it is none.
pub type Answer = Result<Option<(usize, Heard)>, String>;

/// How a protocol says and hears things.
#[derive(Clone, Copy, Debug)]
pub struct Speaker {
    /// What it is called in the table of protocols.
    pub protocol: &'static str,
    /// Whether what a client holds ends with its connection.
    pub holds_by_connection: bool,
    /// Whether a job is completed by removing it, so that nothing is kept of it.
    pub removes_what_is_done: bool,
    /// How a job is chosen among several queues.
    pub choice: Choice,
    /// Whether one that is silent for too long is cut off.
    pub heartbeat: bool,
    /// For how long a lease lasts, in milliseconds, if the job does not say; nothing: until it is ended.
    pub lease_ms: Option<u64>,
    /// No lease lasts longer, in milliseconds, whatever the job says.
    pub lease_ms_max: Option<u64>,
    /// What is said to those for whom there is no room.
    pub too_many_clients: &'static str,
    /// What is said to those who leave too much unfinished.
    pub too_much_input: &'static str,
    /// What is refused whatever the server's state is, and in which words.
    pub nonsense: &'static [Nonsense],
    /// What is refused so, and after which the server ends the connection.
    pub blunders: &'static [Nonsense],
    /// The beginnings of requests, and what is said when no more follows, if anything is.
    pub unfinished: &'static [Nonsense],
    /// The commands, by label.
    pub commands: &'static [&'static str],
    /// How to say it at this time of the wall clock.
    pub say: fn(&Ask, wall_ms: i64) -> Said,
    /// The first answer in these bytes, to this question.
    pub hear: fn(&Ask, &[u8]) -> Answer,
}

impl Speaker {
    /// How to say it at this time of the wall clock, whole or not.
    #[must_use]
    pub fn says(&self, ask: &Ask, wall_ms: i64) -> Said {
        let label = |end: &str| self.commands.iter().find(|label| label.ends_with(end));
        match ask {
            Ask::Unfinished { kind, more } => {
                Some((unfinished::bytes(self.unfinished, *kind, *more), label(" unfinished")?))
            }
            Ask::Blunder(kind) => {
                let label = label(" blunder")?;
                Some((self.blunders[kind % self.blunders.len()].0.as_bytes().to_vec(), label))
            }
            _ => (self.say)(ask, wall_ms),
        }
    }

    /// Whether what is said is one of the commands, and that one, as far as it is a request.
    #[must_use]
    pub fn calls_it_so(&self, ask: &Ask, bytes: &[u8], label: &str) -> bool {
        let is_none = matches!(ask, Ask::Nonsense(_) | Ask::Blunder(_) | Ask::Unfinished { .. });
        let is_of = |verb: String| label.strip_prefix(self.protocol).is_some_and(|rest| rest.trim_start() == verb);
        self.commands.contains(&label) && (is_none || verb(self.protocol, bytes).is_some_and(is_of))
    }

    /// What is said to one who sends nothing more, and has begun a request of this kind; nothing is empty.
    #[must_use]
    pub fn says_of_end(&self, kind: usize) -> &'static str {
        self.unfinished[kind % self.unfinished.len()].1
    }
}

/// One for each protocol that has jobs.
pub const SPEAKERS: &[Speaker] = &[
    goqueue::SPEAKER,
    takeanumber::SPEAKER,
    masenko::SPEAKER,
    jobcentre::SPEAKER,
    workq::SPEAKER,
    beanstalkd::SPEAKER,
];

/// The protocol whose clients use and watch queues, put jobs aside and let them back in.
pub const BEANSTALKD: &str = beanstalkd::SPEAKER.protocol;

/// The queue that a client of beanstalkd uses and watches before it names another.
pub const DEFAULT_TUBE: &str = "default";

/// The least that a client of beanstalkd says for a priority is 0: urgencies are counted down from here.
pub const URGENCY_MAX: u32 = 9;

/// What workq must say of a job that was put with it, and not only run: a name and its value each.
#[must_use]
pub fn facts_of(put: &Put) -> Vec<String> {
    workq::facts_of(put)
}

/// Who speaks this protocol, at listeners that end leases if they can.
#[must_use]
pub fn speaker(protocol: &str, with_leases: bool) -> &'static Speaker {
    if with_leases && protocol == takeanumber::LEASED.protocol {
        return &takeanumber::LEASED;
    }
    SPEAKERS.iter().find(|speaker| speaker.protocol == protocol).expect("every protocol is spoken")
}

/// What is said on the port for all to those for whom there is no room: nobody knows what they speak.
pub const TOO_MANY_CLIENTS: &str = takeanumber::SPEAKER.too_many_clients;

/// What is said there to those who sent too much before anyone looked at it.
pub const TOO_MUCH_INPUT: &str = takeanumber::SPEAKER.too_much_input;

/// Who waits for so long waits until there is a job.
pub const FOR_EVER_MS: u64 = u64::MAX;

/// No lease that has an end lasts longer.
pub const DAY_MS: u64 = 86_400_000;

/// For how long whoever has a job run waits for its result, in milliseconds.
pub const RUN_WAIT_MS: u64 = 5_000;

/// So many jobs are listed at once.
pub const PAGE: usize = 50;

/// The default lease of the server, in milliseconds.
pub const DEFAULT_LEASE_MS: u64 = 60_000;

/// How long a lease of takeanumber lasts at a listener that ends them, in milliseconds.
pub const TAKEANUMBER_LEASE_MS: u64 = 20_000;

/// The UUID of the job of this number, as every protocol makes it.
#[must_use]
pub fn uuid_of_number(number: u64) -> String {
    jobyard_engine::Uuid::of_number(number).to_string()
}

/// The UUID that a client chooses for a job.
#[must_use]
pub fn uuid_of_entry(entry: Entry) -> String {
    format!("6ba7b810-9dad-41d1-80b4-{entry:012x}")
}

/// The wall clock as masenko and workq write it, in whole seconds, of the twenty-first century and around it.
#[must_use]
pub fn date(wall_ms: i64) -> String {
    let seconds = wall_ms.div_euclid(1_000);
    let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Days since 0000-03-01, in eras of 400 years (Howard Hinnant's way).
    let z = days + 719_468;
    let (era, day_of_era) = (z.div_euclid(146_097), z.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", rest / 3_600, rest / 60 % 60, rest % 60)
}

/// A line and how many bytes it takes with its end.
fn line(bytes: &[u8]) -> Option<(&[u8], usize)> {
    let at = bytes.iter().position(|byte| *byte == b'\n')?;
    let line = &bytes[..at];
    Some((line.strip_suffix(b"\r").unwrap_or(line), at + 1))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What stands behind `mark`, up to the first byte that is no digit.
fn number_after(text: &str, mark: &str) -> Option<u64> {
    let rest = &text[text.find(mark)? + mark.len()..];
    let end = rest.find(|char: char| !char.is_ascii_digit()).unwrap_or(rest.len());
    rest[..end].parse().ok()
}

/// The JSON object that stands behind `mark`: its braces are counted, for no text in it holds any.
fn object_after<'a>(text: &'a str, mark: &str) -> Option<&'a str> {
    let from = text.find(mark)? + mark.len();
    let mut depth = 0;
    for (at, char) in text[from..].char_indices() {
        depth += match char {
            '{' => 1,
            '}' => -1,
            _ => 0,
        };
        if depth == 0 {
            return Some(&text[from..=from + at]);
        }
    }
    None
}

fn unexpected(what: &[u8]) -> Answer {
    Err(format!("an answer that is none: {}", what.escape_ascii()))
}
