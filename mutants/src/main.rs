//! Builds many small changes of a source tree into it at once, each behind a switch: see `scripts/mutants`.
//!
//! Usage: jobyard-mutants LIST FROM TO all      every change that can be, chosen by the variable `MUTANT` when the code runs
//!        jobyard-mutants LIST FROM TO NUMBER   this one alone, as if it stood in the source
//!
//! LIST is what `cargo mutants --list --json` says; a change's number is its place in it, from 0. Numbers that are given on
//! standard input are left out. The files that the list names are read in FROM and written in TO; the numbers of the
//! changes that were built in are printed.

mod source;
mod weave;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::path::Path;
use std::{env, fs, io};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::source::{Place, Source};

/// One small change, as cargo-mutants lists it.
#[derive(Debug, Deserialize)]
pub(crate) struct Mutant {
    file: String,
    genre: Genre,
    span: Stretch,
    replacement: String,
}

/// What kind of thing is changed.
#[derive(Debug, Deserialize, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Genre {
    BinaryOperator,
    UnaryOperator,
    FnValue,
    MatchArm,
    MatchArmGuard,
    StructField,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Stretch {
    start: Place,
    end: Place,
}

fn main() -> Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [list, from, to, which] = arguments.as_slice() else {
        bail!("usage: jobyard-mutants LIST FROM TO (all|NUMBER)");
    };
    let mutants: Vec<Mutant> = serde_json::from_str(&read(list)?).with_context(|| format!("{list} is no list"))?;
    let alone: Option<usize> = if which == "all" { None } else { Some(which.parse()?) };
    let mut left_out = BTreeSet::new();
    if alone.is_none() {
        let mut said = String::new();
        io::stdin().read_to_string(&mut said)?;
        for number in said.split_whitespace() {
            left_out.insert(number.parse::<usize>()?);
        }
    }
    let mut files: BTreeMap<&str, Vec<(usize, &Mutant)>> = BTreeMap::new();
    let roots: BTreeSet<String> = mutants.iter().map(|mutant| root(&mutant.file)).collect();
    for root in &roots {
        // The switch stands there, whether there is a change in it or not.
        files.entry(root).or_default();
    }
    for (number, mutant) in mutants.iter().enumerate() {
        let chosen = files.entry(&mutant.file).or_default();
        if alone.map_or(!left_out.contains(&number), |alone| alone == number) {
            chosen.push((number, mutant));
        }
    }
    let mut built_in = Vec::new();
    for (file, chosen) in files {
        let source = Source::new(read(Path::new(from).join(file))?);
        let changed = match alone {
            Some(_) => plain(&source, &chosen)?,
            None => {
                let switch = if roots.contains(file) { weave::SWITCH } else { "" };
                weave::weave(&source, &chosen, &mut built_in).with_context(|| file.to_owned())? + switch
            }
        };
        write_if_changed(&Path::new(to).join(file), &changed)?;
    }
    let numbers: Vec<String> = built_in.iter().map(usize::to_string).collect();
    writeln!(io::stdout(), "{}", numbers.join(" "))?;
    Ok(())
}

/// The root of the crate that this file is in.
fn root(file: &str) -> String {
    let (package, _) = file.split_once("/src/").unwrap_or_default();
    format!("{package}/src/lib.rs")
}

/// The source with the one change in it, if it is in this file.
fn plain(source: &Source, chosen: &[(usize, &Mutant)]) -> Result<String> {
    let Some((_, mutant)) = chosen.first() else { return Ok(source.text().to_owned()) };
    let stretch = source.stretch(&mutant.span)?;
    Ok(source.with(0..source.text().len(), stretch, &mutant.replacement))
}

/// What is not touched need not be built again.
fn write_if_changed(path: &Path, text: &str) -> Result<()> {
    if fs::read_to_string(path).is_ok_and(|old| old == text) {
        return Ok(());
    }
    fs::write(path, text).with_context(|| format!("could not write {}", path.display()))
}

fn read(path: impl AsRef<Path>) -> Result<String> {
    let path = path.as_ref();
    fs::read_to_string(path).with_context(|| format!("could not read {}", path.display()))
}
