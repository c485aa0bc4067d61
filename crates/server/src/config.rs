//! The settings. Flags win over `JOBYARD_*` variables, these over the TOML file, this over the defaults.

mod commit;
mod fsync;
mod fuzz;
mod layer;
mod limits;

use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use jobyard_engine::Limits;

pub use commit::Commit;
pub use fsync::Fsync;
pub use fuzz::check_settings;
pub use layer::Layer;
pub use limits::{check_input, help as limits_help};

use crate::address::Address;
use crate::logging::{LogFormat, LogLevel};
use crate::machine;
use crate::units::Bytes;

/// Where jobs are kept if nothing is said.
pub const DEFAULT_DATA: &str = "./jobyard-data";

const DEFAULT_SEGMENT_SIZE: Bytes = Bytes(32 << 20);
const SEGMENT_SIZES: RangeInclusive<usize> = 64 << 10..=1 << 30;

/// Everything that was decided before the start.
#[derive(Debug)]
pub struct Config {
    /// Where to listen.
    pub listen: Vec<Address>,
    /// Whether addresses that other machines can reach are allowed.
    pub insecure_public: bool,
    /// Where jobs are kept.
    pub storage: Storage,
    /// When what is written is synced.
    pub fsync: Fsync,
    /// Who appends to the log.
    pub commit: Commit,
    /// How large the log's files are.
    pub segment_bytes: u64,
    /// How long connections may take to end when the server stops.
    pub drain_timeout_ms: u64,
    /// What the server accepts at most.
    pub limits: Limits,
    /// What log lines look like.
    pub log_format: LogFormat,
    /// What is worth a log line.
    pub log_level: LogLevel,
}

/// Where jobs are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Storage {
    /// Nowhere: they end with the process, and this is meant.
    Memory,
    /// In this directory.
    Data(PathBuf),
}

/// Puts the layers together: the flags, the variables of the environment, and the file that either names.
pub fn load(
    config: Option<PathBuf>,
    flags: Layer,
    environment: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<Config> {
    let (variables, config_variable) = layer::from_environment(environment)?;
    let file = match config.or(config_variable) {
        Some(path) => read_file(&path)?,
        None => Layer::default(),
    };
    put_together(flags, variables, file)
}

fn put_together(flags: Layer, variables: Layer, file: Layer) -> Result<Config> {
    flags.check_storage("the command line")?;
    variables.check_storage("the environment")?;
    file.check_storage("the configuration file")?;
    resolve(flags.over(variables).over(file))
}

/// What log lines should look like as far as it can be known without the file: for those that say why the rest cannot
/// be read.
pub fn log_format(flags: &Layer, environment: impl IntoIterator<Item = (OsString, OsString)>) -> LogFormat {
    let variable = environment.into_iter().find(|(name, _)| name == "JOBYARD_LOG_FORMAT");
    let said = variable.and_then(|(_, value)| value.to_str()?.parse().ok());
    flags.log_format.or(said).unwrap_or(LogFormat::Auto)
}

fn read_file(path: &Path) -> Result<Layer> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    read_text(&text, path)
}

fn read_text(text: &str, path: &Path) -> Result<Layer> {
    toml::from_str(text).map_err(|error| anyhow::anyhow!("in {}: {}", path.display(), error.to_string().trim_end()))
}

fn resolve(layer: Layer) -> Result<Config> {
    ensure!(layer.max_memory.is_none() || layer.limits.memory_bytes_max.is_none(), SAME_MEMORY);
    ensure!(layer.default_lease.is_none() || layer.limits.default_lease_ms.is_none(), SAME_LEASE);
    let listen = layer.listen.unwrap_or_else(|| vec![Address::default_listen()]);
    ensure!(!listen.is_empty(), "there is no address to listen on: 'listen' is empty");
    let storage = match (layer.memory, layer.data) {
        (Some(true), _) => Storage::Memory,
        (_, data) => Storage::Data(check_directory(data.unwrap_or_else(|| PathBuf::from(DEFAULT_DATA)))?),
    };
    let mut limits = Limits { memory_bytes_max: machine::default_max_memory(), ..Limits::default() };
    layer.limits.apply(&mut limits);
    if let Some(bytes) = layer.max_memory {
        limits.memory_bytes_max = bytes.0;
    }
    if let Some(lease) = layer.default_lease {
        limits.default_lease_ms = lease.0;
    }
    limits::check(&limits)?;
    Ok(Config {
        listen,
        insecure_public: layer.insecure_public.unwrap_or(false),
        storage,
        fsync: layer.fsync.unwrap_or(Fsync::Always),
        commit: layer.commit.unwrap_or(Commit::Loop),
        segment_bytes: check_segment_size(layer.segment_size.unwrap_or(DEFAULT_SEGMENT_SIZE))?,
        drain_timeout_ms: layer.drain_timeout.map_or(5_000, |time| time.0),
        limits,
        log_format: layer.log_format.unwrap_or(LogFormat::Auto),
        log_level: layer.log_level.unwrap_or(LogLevel::Info),
    })
}

const SAME_MEMORY: &str = "max_memory and limits.memory_bytes_max are the same setting: say only one of them";
const SAME_LEASE: &str = "default_lease and limits.default_lease_ms are the same setting: say only one of them";

fn check_directory(path: PathBuf) -> Result<PathBuf> {
    match std::fs::metadata(&path) {
        Ok(metadata) if !metadata.is_dir() => bail!("{} is no directory: --data names one", path.display()),
        _ => Ok(path),
    }
}

fn check_segment_size(size: Bytes) -> Result<u64> {
    ensure!(SEGMENT_SIZES.contains(&size.0), "segment_size cannot be {} bytes: it must be 64KiB to 1GiB", size.0);
    Ok(size.0 as u64)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// A configuration file that goes away with the test.
    struct File(PathBuf);

    impl File {
        fn new(text: &str) -> File {
            static COUNT: AtomicU32 = AtomicU32::new(0);
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let path = std::env::temp_dir().join(format!("jobyard-config-{}-{count}.toml", std::process::id()));
            std::fs::write(&path, text).unwrap();
            File(path)
        }
    }

    impl Drop for File {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    fn loaded(flags: Layer, variables: &[(&str, &str)], file: Option<&str>) -> Result<Config> {
        let file = file.map(File::new);
        let variables = variables.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
        load(file.as_ref().map(|file| file.0.clone()), flags, variables)
    }

    fn refused(variables: &[(&str, &str)], file: Option<&str>) -> String {
        match loaded(Layer::default(), variables, file) {
            Ok(config) => panic!("loaded {config:?}"),
            Err(error) => format!("{error:#}"),
        }
    }

    fn listens(config: &Config) -> Vec<String> {
        config.listen.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_defaults_are_those_of_the_help() {
        let config = loaded(Layer::default(), &[("PATH", "/bin")], None).unwrap();
        assert_eq!(listens(&config), ["any://127.0.0.1:5627"]);
        assert_eq!(config.storage, Storage::Data(PathBuf::from("./jobyard-data")));
        assert_eq!((config.drain_timeout_ms, config.limits.default_lease_ms), (5_000, 60_000));
        assert!(!config.insecure_public);
        assert_eq!((config.fsync, config.segment_bytes), (Fsync::Always, 32 << 20));
    }

    #[test]
    fn when_to_sync_and_how_large_segments_are_is_said_alike_everywhere() {
        let file = "fsync = 'interval=200ms'\nsegment_size = '1MiB'";
        let config = loaded(Layer::default(), &[], Some(file)).unwrap();
        assert_eq!((config.fsync, config.segment_bytes), (Fsync::Interval { ms: 200 }, 1 << 20));
        let variables = [("JOBYARD_FSYNC", "interval"), ("JOBYARD_SEGMENT_SIZE", "64K")];
        let config = loaded(Layer::default(), &variables, Some(file)).unwrap();
        assert_eq!((config.fsync, config.segment_bytes), (Fsync::Interval { ms: 1_000 }, 64 << 10));
        let flags = Layer { fsync: Some(Fsync::Never), segment_size: Some(Bytes(1 << 30)), ..Layer::default() };
        let config = loaded(flags, &variables, Some(file)).unwrap();
        assert_eq!((config.fsync, config.segment_bytes), (Fsync::Never, 1 << 30));

        let error = refused(&[("JOBYARD_FSYNC", "sometimes")], None);
        assert_eq!(error, "JOBYARD_FSYNC: 'sometimes' is none of always, interval, interval=TIME, never");
        for size in ["65535", "1025MiB"] {
            let error = refused(&[("JOBYARD_SEGMENT_SIZE", size)], None);
            assert!(error.ends_with("it must be 64KiB to 1GiB"), "{error}");
        }
    }

    #[test]
    fn who_appends_to_the_log_is_said_alike_everywhere() {
        let commit = |flags, variables: &[_], file| loaded(flags, variables, file).unwrap().commit;
        let (file, variables) = (Some("commit = 'thread'"), [("JOBYARD_COMMIT", "loop")]);
        assert_eq!(commit(Layer::default(), &[], None), Commit::Loop);
        assert_eq!(commit(Layer::default(), &[], file), Commit::Thread);
        assert_eq!(commit(Layer::default(), &variables, file), Commit::Loop);
        let flags = Layer { commit: Some(Commit::Thread), ..Layer::default() };
        assert_eq!(commit(flags, &variables, None), Commit::Thread);
        assert_eq!(refused(&[("JOBYARD_COMMIT", "both")], None), "JOBYARD_COMMIT: 'both' is none of loop, thread");
    }

    #[test]
    fn flags_win_over_variables_and_these_over_the_file() {
        let file = r#"
            listen = ["any://127.0.0.1:1", "workq://127.0.0.1:2"]
            drain_timeout = "1s"
            default_lease = "1m"
            max_memory = 1000000
            memory = true
            [limits]
            held_max = 7
        "#;
        let config = loaded(Layer::default(), &[], Some(file)).unwrap();
        assert_eq!(listens(&config), ["any://127.0.0.1:1", "workq://127.0.0.1:2"]);
        assert_eq!((config.drain_timeout_ms, config.limits.held_max), (1_000, 7));
        assert_eq!(config.limits.memory_bytes_max, 1_000_000);
        assert_eq!(config.storage, Storage::Memory);

        let variables = [("JOBYARD_LISTEN", "any://[::1]:3, goqueue://[::1]:4"), ("JOBYARD_DRAIN_TIMEOUT", "2s")];
        let config = loaded(Layer::default(), &variables, Some(file)).unwrap();
        assert_eq!(config.storage, Storage::Memory);
        assert_eq!(listens(&config), ["any://[::1]:3", "goqueue://[::1]:4"]);
        assert_eq!((config.drain_timeout_ms, config.limits.default_lease_ms), (2_000, 60_000));

        let flags = Layer { drain_timeout: Some("3s".parse().unwrap()), ..Layer::default() };
        let config = loaded(flags, &variables, Some(file)).unwrap();
        assert_eq!(config.drain_timeout_ms, 3_000);
        assert_eq!(listens(&config), ["any://[::1]:3", "goqueue://[::1]:4"]);
    }

    #[test]
    fn a_layer_that_says_data_wins_over_a_lower_one_that_says_memory_and_the_other_way_round() {
        let data = Layer { data: Some(PathBuf::from("/nonexistent/jobs")), ..Layer::default() };
        let config = loaded(data, &[("JOBYARD_MEMORY", "true")], None).unwrap();
        assert_eq!(config.storage, Storage::Data(PathBuf::from("/nonexistent/jobs")));
        let config = loaded(Layer::default(), &[("JOBYARD_MEMORY", "true")], Some("data = '/nonexistent'")).unwrap();
        assert_eq!(config.storage, Storage::Memory);
        let config = loaded(Layer::default(), &[("JOBYARD_DATA", "/nonexistent")], Some("memory = true")).unwrap();
        assert_eq!(config.storage, Storage::Data(PathBuf::from("/nonexistent")));
        let error = refused(&[], Some("data = '/nonexistent'\nmemory = true"));
        assert!(error.contains("the configuration file says both 'data' and 'memory'"), "{error}");
    }

    #[test]
    fn an_unknown_key_is_an_error_that_names_it() {
        let error = refused(&[], Some("lisen = []"));
        assert!(error.contains("unknown field `lisen`") && error.contains("line 1"), "{error}");
        let error = refused(&[], Some("[limits]\nheld = 1"));
        assert!(error.contains("unknown field `held`") && error.contains("`held_max`"), "{error}");
        let error = refused(&[("JOBYARD_LISEN", "x")], None);
        assert_eq!(error, "unknown variable JOBYARD_LISEN: did you mean JOBYARD_LISTEN?");
        let error = refused(&[("JOBYARD_COLOUR_OF_THE_SKY", "blue")], None);
        assert!(error.contains("unknown variable JOBYARD_COLOUR_OF_THE_SKY: there are"), "{error}");
    }

    #[test]
    fn a_value_that_makes_no_sense_is_an_error_that_names_its_place() {
        let error = refused(&[("JOBYARD_DRAIN_TIMEOUT", "5")], None);
        assert!(error.starts_with("JOBYARD_DRAIN_TIMEOUT: '5' is no time"), "{error}");
        let error = refused(&[("JOBYARD_LISTEN", "smtp://localhost")], None);
        assert!(error.starts_with("JOBYARD_LISTEN: in 'smtp://localhost': unknown protocol"), "{error}");
        let error = refused(&[("JOBYARD_LOG_FORMAT", "xml")], None);
        assert!(error.starts_with("JOBYARD_LOG_FORMAT: 'xml' is none of auto, pretty, json"), "{error}");
        let error = refused(&[], Some("memory = true\ndefault_lease = 60"));
        assert!(error.contains("line 2") && error.contains("'60' is no time"), "{error}");
        let error = refused(&[], Some("listen = []"));
        assert!(error.contains("no address to listen on"), "{error}");
        let error = refused(&[], Some("max_memory = '1GiB'\n[limits]\nmemory_bytes_max = 5"));
        assert_eq!(error, SAME_MEMORY);
    }

    #[test]
    fn limits_that_make_the_server_useless_are_refused() {
        for (limits, expected) in [
            (
                "body_bytes_max = 4294967296",
                "limits.body_bytes_max cannot be 4294967296: it must be 4294967295 or less",
            ),
            ("block_bytes_max = 4294967296", "must be 4294967295 or less"),
            ("line_extra_bytes_max = 9223372036854775807", "must be 4294967295 or less"),
            ("turn_bytes_max = 9223372036854775807", "must be 1073741824 or less"),
            ("clients_max = 16777216", "must be 16000000 or less"),
            ("vanished_rest_ms = 9223372036854775807", "must be 3153600000000 or less"),
            ("held_max = -1", "-1"),
        ] {
            let error = refused(&[], Some(&format!("[limits]\n{limits}")));
            assert!(error.contains(expected), "{limits}: {error}");
        }
        for name in ["body_bytes_max", "block_bytes_max", "line_extra_bytes_max", "input_bytes_max", "queues_max"]
            .into_iter()
            .chain([
                "queue_name_bytes_max",
                "queues_named_max",
                "held_max",
                "clients_max",
                "turn_bytes_max",
                "turn_commands_max",
            ])
            .chain(["memory_bytes_max", "default_lease_ms"])
        {
            let error = refused(&[], Some(&format!("[limits]\n{name} = 0")));
            assert_eq!(error, format!("limits.{name} cannot be 0: it must be 1 or more"));
        }
        let error = refused(&[("JOBYARD_DEFAULT_LEASE", "5000000h")], None);
        assert!(error.starts_with("limits.default_lease_ms cannot be 18000000000000"), "{error}");
    }

    #[test]
    fn a_body_that_is_allowed_must_be_able_to_arrive() {
        for (limits, expected) in [
            ("input_bytes_max = 16777216", "limits.input_bytes_max cannot be 16777216: one request can have 16842752"),
            (
                "body_bytes_max = 268435456",
                "limits.input_bytes_max cannot be 268435456: one request can have 268500992",
            ),
        ] {
            let config = loaded(Layer::default(), &[], Some(&format!("[limits]\n{limits}"))).unwrap();
            let error = check_input(&config.limits).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn limits_at_their_bounds_are_taken() {
        let most = "body_bytes_max = 4294967295\ninput_bytes_max = 4294967296\nline_extra_bytes_max = 1";
        let config = loaded(Layer::default(), &[], Some(&format!("[limits]\n{most}"))).unwrap();
        assert_eq!(config.limits.line_bytes_max(), config.limits.input_bytes_max);
        assert!(check_input(&config.limits).is_ok());
        let least = "output_bytes_max = 0\ngroup_steps_max = 0\ngroup_bytes_max = 0\nvanished_rest_ms = 0";
        let config = loaded(Layer::default(), &[], Some(&format!("[limits]\n{least}"))).unwrap();
        assert_eq!((config.limits.output_bytes_max, config.limits.vanished_rest_ms), (0, 0));
    }

    #[test]
    fn variables_that_kubernetes_sets_for_a_service_of_our_name_are_no_settings() {
        let variables = [
            ("JOBYARD_SERVICE_HOST", "10.0.0.1"),
            ("JOBYARD_SERVICE_PORT_ANY", "5627"),
            ("JOBYARD_PORT", "tcp://10.0.0.1:5627"),
            ("JOBYARD_PORT_5627_TCP_ADDR", "10.0.0.1"),
        ];
        assert!(loaded(Layer::default(), &variables, None).is_ok());
    }

    #[test]
    fn data_that_is_no_directory_is_refused() {
        let file = File::new("");
        let flags = Layer { data: Some(file.0.clone()), ..Layer::default() };
        let error = load(None, flags, []).unwrap_err().to_string();
        assert!(error.contains("is no directory"), "{error}");
    }
}
