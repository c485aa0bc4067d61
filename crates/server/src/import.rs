//! `jobyard import`: moves the jobs of a running beanstalkd into a running Jobyard, each exactly once.
//!
//! A job is put here with its origin, deleted there, and only then is its origin closed here. Whoever is killed when, an origin
//! that is open says that its job is here already: a run begins with these.

mod mover;
mod origin;
mod peer;
mod place;
mod progress;
mod tubes;

use std::fmt::Write as _;
use std::io::{Write as _, stderr};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, bail};
use clap::Args;
use jobyard_protocols::beanstalkd::is_tube;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

use crate::failure::Failure;
use crate::progress::grouped;
use crate::serve::say;
use mover::{Moved, Mover};
use origin::Source;
use peer::Peer;
use place::Place;
use tubes::Counts;

/// What stands under the options in the help.
pub const NOTES: &str = "What is moved:
  Jobs that are ready, delayed or buried, as they stand. Reserved ones belong
  to somebody: they are counted, and left. Stop the workers there first.

  It goes on until nothing is left to move. At SIGINT and SIGTERM it finishes
  what it has begun, and ends. Whoever is killed, run it again, with the same
  addresses: it first settles what it had begun.

Examples:
  jobyard import beanstalkd://queue.example.com:11300 --dry-run
  jobyard import beanstalkd://queue.example.com:11300
  jobyard import beanstalkd://127.0.0.1 --tube mail --tube video --rate 500

Exit codes:
  0  everything was moved but what is reserved there
  1  something went wrong, or something was left: it says what
  2  the command line makes no sense";

/// What `jobyard import` can be told.
#[derive(Args, Debug)]
pub struct Arguments {
    /// Where the jobs are: beanstalkd://HOST[:PORT]
    #[arg(value_name = "URL")]
    from: Place,

    /// The Jobyard that gets them: beanstalkd://HOST[:PORT], or any://HOST[:PORT]
    #[arg(long, value_name = "URL", default_value = "beanstalkd://127.0.0.1:5627")]
    to: Place,

    /// Only this tube; can be given several times
    #[arg(long, value_name = "TUBE", value_parser = tube)]
    tube: Vec<String>,

    /// At most so many jobs a second
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rate: Option<u32>,

    /// Say what would be moved, and move nothing
    #[arg(long)]
    dry_run: bool,
}

fn tube(text: &str) -> Result<String, &'static str> {
    if is_tube(text.as_bytes()) { Ok(text.to_owned()) } else { Err("no tube can be called that") }
}

/// Runs it, and says what came of it.
pub fn import(arguments: &Arguments) -> Result<(), Failure> {
    let source = Source::new(&arguments.from).map_err(Failure::Usage)?;
    Ok(run(arguments, source)?)
}

fn run(arguments: &Arguments, source: Source) -> anyhow::Result<()> {
    let mut there = Peer::connect(&arguments.from).context("where the jobs are")?;
    let mut here = Peer::connect(&arguments.to).context("the Jobyard that is to get them (--to)")?;
    check_both(&mut there, &mut here)?;
    if arguments.dry_run {
        let counts = tubes::counted(&mut there, &arguments.tube)?;
        let open = origin::all_open(&mut here)?.iter().filter(|open| source.is_of(open)).count();
        say(&would_move(&counts, open));
        return Ok(());
    }
    let witness = Peer::connect(&arguments.to).context("the Jobyard that is to get them (--to)")?;
    let mut mover = Mover::new(there, here, witness, source, arguments.rate, stop_when_told()?)?;
    let outcome = mover.move_all(&arguments.tube);
    let moved = mover.end();
    // What was done is told also if it came to a bad end.
    say(&was_moved(&moved));
    outcome?;
    if let Some(rest) = rest(&moved) {
        bail!("not all was moved: {rest}");
    }
    Ok(())
}

/// Told to stop, it ends what it has begun first; told so again, it ends at once.
fn stop_when_told() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        flag::register_conditional_shutdown(signal, 1, Arc::clone(&stop))?;
        flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

/// Why not all was moved.
fn rest(moved: &Moved) -> Option<String> {
    let Moved { interrupted, still_open, too_large, behind_too_large, left, .. } = *moved;
    let mut why = Vec::new();
    if interrupted {
        why.push("it was told to stop; run it again, and it goes on".to_owned());
    }
    if too_large > 0 {
        let behind = if behind_too_large { ", and those behind in a tube are not shown" } else { "" };
        why.push(format!(
            "{} too large for Jobyard{behind}: raise its body_bytes_max, or take such jobs out there, and run it again",
            are(too_large)
        ));
    }
    if still_open > 0 {
        why.push(format!("{} here, and reserved there by a worker: run it again when that has ended", are(still_open)));
    }
    if left > 0 && behind_too_large {
        why.push(format!("{} left there", are(left)));
    } else if left > 0 && !interrupted {
        why.push(format!("{} left there; run it again", are(left)));
    }
    (!why.is_empty()).then(|| why.join("; "))
}

fn are(count: u64) -> String {
    format!("{} {}", jobs(count), if count == 1 { "is" } else { "are" })
}

/// What a Jobyard does not tell in beanstalkd's protocol.
const NOT_TOLD: &str = "of jobs that clients of other protocols put, only body, priority and time to run are moved, and none whose \
                        queue no tube can be called; 'jobyard log backup' copies all";

/// Both can do what they are to do, and are not the same.
fn check_both(there: &mut Peer, here: &mut Peer) -> anyhow::Result<()> {
    // Known by its first words to a port of any protocol.
    here.ask("use default", "USING default")?;
    if !here.knows("list-origins")? {
        bail!("{} is no Jobyard, or an older one: it does not know list-origins", here.name());
    }
    let (one, other) = (there.page("stats")?, here.page("stats")?);
    if one.contains_key("id") && one.get("id") == other.get("id") {
        bail!("the server that has the jobs and the one that is to get them are the same");
    }
    if there.knows("list-origins")? {
        let _ = writeln!(stderr(), "note: {} is a Jobyard: {NOT_TOLD}", there.name());
    }
    Ok(())
}

fn jobs(count: u64) -> String {
    if count == 1 { "1 job".to_owned() } else { format!("{} jobs", grouped(count)) }
}

/// What `--dry-run` says.
fn would_move(counts: &[(String, Counts)], open: usize) -> String {
    let mut sum = Counts::default();
    let widest = counts.iter().map(|(tube, _)| tube.len()).chain([5]).max().unwrap_or_default();
    let mut text =
        format!("{:widest$} {:>12} {:>12} {:>12} {:>12}\n", "tube", "ready", "delayed", "buried", "reserved");
    let mut row = |name: &str, counts: &Counts| {
        let [ready, delayed, buried, reserved] =
            [counts.ready, counts.delayed, counts.buried, counts.reserved].map(grouped);
        writeln!(text, "{name:widest$} {ready:>12} {delayed:>12} {buried:>12} {reserved:>12}")
            .expect("a text takes all");
    };
    for (tube, counts) in counts {
        row(tube, counts);
        sum.add(counts);
    }
    row("(all)", &sum);
    writeln!(text, "\n{} would be moved, {} left there", jobs(sum.movable()), grouped(sum.reserved)).expect("as above");
    if open > 0 {
        let words = "of an earlier run would be settled first, those among them that are still there";
        writeln!(text, "{} {words}", jobs(open as u64)).expect("as above");
    }
    text
}

/// What is said in the end.
fn was_moved(moved: &Moved) -> String {
    let Moved { ready, delayed, buried, .. } = *moved;
    let states = format!("{} ready, {} delayed, {} buried", grouped(ready), grouped(delayed), grouped(buried));
    let mut text = format!("moved       {}: {states}\n", jobs(ready + delayed + buried));
    let mut more = |what: &str, count: u64, words: &str| {
        if count > 0 {
            writeln!(text, "{what:11} {} {words}", jobs(count)).expect("a text takes all");
        }
    };
    more("settled", moved.settled, "of an earlier run");
    more("left there", moved.reserved, "that somebody has reserved");
    more("still open", moved.still_open, "here already, and reserved there by somebody");
    more("too large", moved.too_large, "left there");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_be_moved_is_a_table() {
        let counts = |ready, reserved| Counts { ready, delayed: 2, buried: 3, reserved };
        let tubes = [("default".to_owned(), counts(1, 0)), ("a".to_owned(), counts(12_345, 7))];
        let said = would_move(&tubes, 0);
        let expected = "\
tube           ready      delayed       buried     reserved
default            1            2            3            0
a             12,345            2            3            7
(all)         12,346            4            6            7

12,356 jobs would be moved, 7 left there
";
        assert_eq!(said, expected);
        assert!(would_move(&tubes, 1).contains("\n1 job of an earlier run would be settled first,"));
    }

    #[test]
    fn what_was_moved_is_told_without_what_did_not_happen() {
        let moved = Moved { ready: 1_000, delayed: 1, ..Moved::default() };
        assert_eq!(was_moved(&moved), "moved       1,001 jobs: 1,000 ready, 1 delayed, 0 buried\n");
        let more = Moved { settled: 1, reserved: 2, still_open: 3, ..Moved::default() };
        let expected = "\
moved       0 jobs: 0 ready, 0 delayed, 0 buried
settled     1 job of an earlier run
left there  2 jobs that somebody has reserved
still open  3 jobs here already, and reserved there by somebody
";
        assert_eq!(was_moved(&more), expected);
    }
}
