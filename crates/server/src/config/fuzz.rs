//! Any bytes as settings, for fuzzing: whatever they say is understood or refused in words, and an address that is understood
//! is understood again as it is shown.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use anyhow::Result;
use clap::Parser;

use super::{Config, Layer, check_input, layer, limits, put_together, read_text};
use crate::address::Address;
use crate::cli::{Cli, Command};

/// Reads settings from bytes: lines that begin with `$ ` are arguments, those that begin with `@ ` variables, all others
/// the file. No file is opened, whichever the settings name.
///
/// # Panics
/// If what was understood is not understood again.
pub fn check_settings(data: &[u8]) {
    let (mut arguments, mut variables, mut file) = (vec!["jobyard".into(), "serve".into()], Vec::new(), Vec::new());
    for line in data.split_inclusive(|byte| *byte == b'\n') {
        let said = line.strip_suffix(b"\n").unwrap_or(line);
        if let Some(argument) = said.strip_prefix(b"$ ") {
            arguments.push(text(argument));
        } else if let Some(variable) = said.strip_prefix(b"@ ") {
            let at = variable.iter().position(|byte| *byte == b'=').unwrap_or(variable.len());
            let (name, value) = variable.split_at(at);
            variables.push((text(name), text(value.get(1..).unwrap_or_default())));
        } else {
            file.extend_from_slice(line);
        }
    }
    match understand(arguments, variables, &String::from_utf8_lossy(&file)) {
        Ok(config) => check(&config),
        // Also what is said to a person is made of what a person wrote.
        Err(error) => drop(format!("{error:#}")),
    }
}

fn text(bytes: &[u8]) -> OsString {
    std::ffi::OsStr::from_bytes(bytes).to_owned()
}

fn understand(arguments: Vec<OsString>, variables: Vec<(OsString, OsString)>, file: &str) -> Result<Config> {
    let cli = Cli::try_parse_from(arguments)?;
    let flags = if let Command::Serve(serve) = cli.command { serve.settings } else { Layer::default() };
    let (variables, _) = layer::from_environment(variables)?;
    put_together(flags, variables, read_text(file, Path::new("jobyard.toml"))?)
}

fn check(config: &Config) {
    assert!(!config.listen.is_empty(), "a server listens somewhere");
    for address in &config.listen {
        let shown = address.to_string();
        let again: Address =
            shown.parse().unwrap_or_else(|error| panic!("{shown} is shown and not understood: {error:#}"));
        assert_eq!((again.to_string(), &again.place, &again.options), (shown, &address.place, &address.options));
    }
    limits::check(&config.limits).expect("limits that were refused are not settings");
    // Whether they fit together depends on the machine too.
    drop(check_input(&config.limits));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_goes_where_it_belongs() {
        let understood = understand(
            vec!["jobyard".into(), "serve".into(), "--drain-timeout".into(), "7s".into()],
            vec![("JOBYARD_FSYNC".into(), "never".into())],
            "listen = ['workq://127.0.0.1']",
        );
        let config = understood.unwrap();
        assert_eq!((config.drain_timeout_ms, config.listen[0].to_string()), (7_000, "workq://127.0.0.1:9922".into()));
        check_settings(b"$ --drain-timeout\n$ 7s\n@ JOBYARD_FSYNC=never\nlisten = ['workq://127.0.0.1']\n");
        check_settings(b"\xff\n$ \xff\n@ JOBYARD_\xff\n@ JOBYARD_CONFIG=/dev/zero\n");
    }

    #[test]
    fn every_input_that_was_kept_holds() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/config");
        let inputs: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(!inputs.is_empty());
        for input in inputs {
            check_settings(&std::fs::read(input).unwrap());
        }
    }
}
