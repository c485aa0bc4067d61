//! One layer of settings: what the flags, the environment or the file say, each in its own way.

use std::ffi::OsString;
use std::fmt;
use std::marker::PhantomData;
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::Args;
use serde::de::value::{Error as ValueError, MapDeserializer};
use serde::de::{Deserializer, Error as _, SeqAccess, Visitor};
use serde::{Deserialize, de};

use super::commit::Commit;
use super::fsync::Fsync;
use super::limits::LimitsLayer;
use crate::address::Address;
use crate::logging::{LogFormat, LogLevel};
use crate::units::{Bytes, Millis};

/// What one source says; nothing where it is silent. A field is a flag, a variable and a key of the file at once.
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Layer {
    /// Where to listen; can be given several times [default: any://127.0.0.1:5627]
    ///
    /// PROTOCOL://HOST:PORT or PROTOCOL+unix://PATH, with ?OPTION=VALUE&… after it; see below. Port 0 picks a free
    /// one. A host name stands for all its addresses. A unix socket has mode 0660; one that nobody listens on any more
    /// is replaced.
    #[arg(long, value_name = "URL", help_heading = "Listening")]
    #[serde(deserialize_with = "addresses")]
    pub listen: Option<Vec<Address>>,

    /// Allow addresses that other machines can reach
    ///
    /// There is neither TLS nor authentication yet: whoever reaches the port can read and remove every job.
    #[arg(long, num_args = 0, default_missing_value = "true", help_heading = "Listening")]
    #[serde(deserialize_with = "text")]
    pub insecure_public: Option<bool>,

    /// The directory for jobs [default: ./jobyard-data]
    ///
    /// It is made if it is not there, but not the directory that it is in. One server at a time can use it.
    #[arg(long, value_name = "DIR", conflicts_with = "memory", help_heading = "Storage")]
    #[serde(deserialize_with = "text")]
    pub data: Option<PathBuf>,

    /// Keep jobs in memory only: they are gone when the server ends
    #[arg(long, num_args = 0, default_missing_value = "true", help_heading = "Storage")]
    #[serde(deserialize_with = "text")]
    pub memory: Option<bool>,

    /// When to sync the disk: always, interval, interval=TIME, never [default: always]
    ///
    /// With 'always' nothing is answered before what it depends on is on disk: no crash and no power cut loses what
    /// was acknowledged. With 'interval' it is synced within TIME (1s) of being written, with 'never' when the system
    /// likes: if the server dies nothing is lost, but a power cut or a crash of the machine takes what was not synced.
    #[arg(long, value_name = "WHEN", conflicts_with = "memory", help_heading = "Storage")]
    #[serde(deserialize_with = "text")]
    pub fsync: Option<Fsync>,

    /// Who appends to the log: loop, thread [default: loop]
    ///
    /// With 'loop' one thread does it all. With 'thread' a second one appends and syncs, and the first goes on meanwhile:
    /// better for few clients that keep many requests in flight, worse for those that wait for each answer. What is
    /// promised is the same.
    #[arg(long, value_name = "WHO", conflicts_with = "memory", help_heading = "Storage")]
    #[serde(deserialize_with = "text")]
    pub commit: Option<Commit>,

    /// How large the log's files are, 64KiB to 1GiB [default: 32MiB]
    ///
    /// For experts. Jobs take up to twice their size and two such files on disk; three or four more are kept ready.
    /// A body can be half as long as a file. Large files are written more evenly, small ones keep a small log
    /// smaller. A log is read whatever size it was written with.
    #[arg(long, value_name = "SIZE", conflicts_with = "memory", help_heading = "Storage")]
    #[serde(deserialize_with = "text")]
    pub segment_size: Option<Bytes>,

    /// Memory for jobs and connections [default: 3/4 of the machine's]
    ///
    /// Or of the cgroup's, if that has less. When it runs out, new jobs are refused.
    #[arg(long, value_name = "SIZE", help_heading = "Limits")]
    #[serde(deserialize_with = "text")]
    pub max_memory: Option<Bytes>,

    /// How long a lease lasts if neither job nor worker says [default: 60s]
    #[arg(long, value_name = "TIME", help_heading = "Limits")]
    #[serde(deserialize_with = "text")]
    pub default_lease: Option<Millis>,

    /// How long connections may take to end at a stop [default: 5s]
    #[arg(long, value_name = "TIME", help_heading = "Limits")]
    #[serde(deserialize_with = "text")]
    pub drain_timeout: Option<Millis>,

    /// What log lines on stderr look like [default: auto]
    #[arg(long, value_name = "FORMAT", help_heading = "Logging")]
    #[serde(deserialize_with = "text")]
    pub log_format: Option<LogFormat>,

    /// What is worth a log line [default: info]
    #[arg(long, value_name = "LEVEL", help_heading = "Logging")]
    #[serde(deserialize_with = "text")]
    pub log_level: Option<LogLevel>,

    /// The file's `[limits]`; neither flag nor variable.
    #[arg(skip)]
    pub limits: LimitsLayer,
}

impl Layer {
    /// This layer, and where it is silent the one below.
    pub fn over(self, below: Layer) -> Layer {
        // Both say where jobs are kept, so a layer that has one of them is not silent about the other.
        let (data, memory) = match (self.data, self.memory) {
            (None, None) => (below.data, below.memory),
            own => own,
        };
        Layer {
            listen: self.listen.or(below.listen),
            insecure_public: self.insecure_public.or(below.insecure_public),
            data,
            memory,
            fsync: self.fsync.or(below.fsync),
            commit: self.commit.or(below.commit),
            segment_size: self.segment_size.or(below.segment_size),
            max_memory: self.max_memory.or(below.max_memory),
            default_lease: self.default_lease.or(below.default_lease),
            drain_timeout: self.drain_timeout.or(below.drain_timeout),
            log_format: self.log_format.or(below.log_format),
            log_level: self.log_level.or(below.log_level),
            limits: below.limits,
        }
    }

    /// One source cannot want both a directory and none.
    pub fn check_storage(&self, source: &str) -> Result<()> {
        ensure!(self.data.is_none() || self.memory != Some(true), "{source} says both 'data' and 'memory'");
        Ok(())
    }
}

const PREFIX: &str = "JOBYARD_";

/// What the variables say, and the configuration file that they name.
pub fn from_environment(
    environment: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<(Layer, Option<PathBuf>)> {
    let mut layer = Layer::default();
    let mut config = None;
    for (name, value) in environment {
        let Some(name) = name.to_str().filter(|name| name.starts_with(PREFIX)) else { continue };
        let setting = name[PREFIX.len()..].to_ascii_lowercase();
        if is_service_link(&setting) {
            continue;
        }
        if setting == "config" {
            config = Some(PathBuf::from(value));
            continue;
        }
        ensure!(settings().contains(&setting), unknown_variable(name, &setting));
        let value = value.into_string().map_err(|_| anyhow!("{name} is no valid UTF-8"))?;
        let said = Layer::deserialize(MapDeserializer::<_, ValueError>::new(std::iter::once((setting, value))))
            .with_context(|| name.to_owned())?;
        layer = layer.over(said);
    }
    Ok((layer, config))
}

/// Kubernetes gives every pod `<NAME>_SERVICE_HOST`, `<NAME>_PORT…` for each service beside it; one called "jobyard"
/// must not keep the server from starting.
fn is_service_link(setting: &str) -> bool {
    setting == "port" || ["service_host", "service_port", "port_"].iter().any(|start| setting.starts_with(start))
}

/// The settings that can be variables: those that are flags.
fn settings() -> Vec<String> {
    let command = Layer::augment_args(clap::Command::new("serve"));
    command.get_arguments().map(|argument| argument.get_id().to_string()).collect()
}

fn unknown_variable(name: &str, setting: &str) -> String {
    let known: Vec<_> = settings().into_iter().chain(["config".to_owned()]).collect();
    let closest = known.iter().min_by_key(|known| distance(known, setting));
    match closest {
        Some(closest) if distance(closest, setting) <= 1 + closest.len() / 4 => {
            format!("unknown variable {name}: did you mean {PREFIX}{}?", closest.to_ascii_uppercase())
        }
        _ => {
            let known: Vec<_> = known.iter().map(|known| format!("{PREFIX}{}", known.to_ascii_uppercase())).collect();
            format!("unknown variable {name}: there are {}", known.join(", "))
        }
    }
}

/// How many letters must be put in, left out or changed to make one word of the other.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.bytes().enumerate() {
            let changed = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

/// Reads a value from its text, or from a number or a boolean of TOML.
fn text<'de, D: Deserializer<'de>, T: FromStr<Err: fmt::Display>>(deserializer: D) -> Result<Option<T>, D::Error> {
    struct Text<T>(PhantomData<T>);

    impl<T: FromStr<Err: fmt::Display>> Visitor<'_> for Text<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a text")
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
            text.parse().map_err(E::custom)
        }

        fn visit_i64<E: de::Error>(self, number: i64) -> Result<T, E> {
            self.visit_str(&number.to_string())
        }

        fn visit_bool<E: de::Error>(self, value: bool) -> Result<T, E> {
            self.visit_str(if value { "true" } else { "false" })
        }
    }

    deserializer.deserialize_any(Text(PhantomData)).map(Some)
}

/// Reads a list of addresses, or one text in which they are separated by commas.
fn addresses<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<Address>>, D::Error> {
    struct Addresses;

    impl<'de> Visitor<'de> for Addresses {
        type Value = Vec<Address>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of addresses")
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<Vec<Address>, E> {
            text.split(',').map(|part| address(part.trim()).map_err(|error| E::custom(format!("{error:#}")))).collect()
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<Address>, A::Error> {
            let mut addresses = Vec::new();
            while let Some(text) = list.next_element::<String>()? {
                addresses.push(address(&text).map_err(|error| A::Error::custom(format!("{error:#}")))?);
            }
            Ok(addresses)
        }
    }

    deserializer.deserialize_any(Addresses).map(Some)
}

fn address(text: &str) -> Result<Address> {
    match text.parse() {
        Ok(address) => Ok(address),
        Err(error) => bail!("in '{text}': {error:#}"),
    }
}
