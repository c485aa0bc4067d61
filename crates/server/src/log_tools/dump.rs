//! `jobyard log dump`: the records of a log as lines of JSON, the oldest first.

use std::io::{BufWriter, Write as _};
use std::path::Path;

use anyhow::{Context, Result, bail};
use jobyard_engine::{Field, RecordView, records};
use jobyard_log::{Entry, Found, Hole, LogError, Position, Reader};

use super::Out;
use super::text::Object;
use super::walk::{find_holes, may_be_in_use};
use crate::disk::OsDirectory;

/// How often reading begins again when a running server has dropped what was being read, or has changed what was. More often
/// than elsewhere: whoever reads the lines may be slow, and what is printed is not printed again.
const ATTEMPTS: u32 = 100;

/// Prints every record there is. What is damaged is said in its place, and at the end.
pub fn dump(path: &Path, out: Out<'_>) -> Result<()> {
    OsDirectory::open(path)?;
    let is_whole = dump_all(&mut || OsDirectory::open(path), out).with_context(|| format!("in {}", path.display()))?;
    if !is_whole {
        bail!("the log is damaged: 'jobyard log verify {}' says more", path.display());
    }
    Ok(())
}

/// Whether all could be read. `open` opens the directory, each time that something is to be read from it.
fn dump_all(open: &mut dyn FnMut() -> Result<OsDirectory>, out: Out<'_>) -> Result<bool> {
    let mut dump = Dump { out: BufWriter::new(out), last: 0, holes: Vec::new(), certain: Vec::new(), is_whole: true };
    for _ in 0..ATTEMPTS {
        if dump.go_on(open)? {
            dump.out.flush()?;
            return Ok(dump.is_whole);
        }
    }
    dump.out.flush()?;
    bail!("the server dropped or changed what was to be read, {ATTEMPTS} times: make a backup, and dump that")
}

/// A dump that may have to begin again.
struct Dump<'a> {
    out: BufWriter<Out<'a>>,
    /// The last batch that was printed.
    last: Position,
    /// The damage that was printed.
    holes: Vec<Hole>,
    /// The damage that was there when it was last looked for.
    certain: Vec<Hole>,
    is_whole: bool,
}

impl Dump<'_> {
    /// Prints what was not printed yet. Whether that was all.
    fn go_on(&mut self, open: &mut dyn FnMut() -> Result<OsDirectory>) -> Result<bool> {
        let mut directory = open()?;
        let mut reader = Reader::open_damaged(&mut directory, &[])?;
        let in_use = reader.manifest().is_ok_and(may_be_in_use);
        self.is_whole &= reader.manifest().is_ok();
        let mut follows = self.last == 0;
        loop {
            let found = match reader.next() {
                Err(LogError::MovedOn { .. }) => return Ok(false),
                found => found?,
            };
            match found {
                None => return Ok(true),
                Some(Found::Batch(entry)) if entry.header.position > self.last => {
                    if !std::mem::replace(&mut follows, true) {
                        self.print_dropped(entry.header.position)?;
                    }
                    self.last = entry.header.position;
                    self.is_whole &= print_batch(&entry, &mut self.out)?;
                }
                Some(Found::Hole(hole)) if !self.holes.contains(&hole) => {
                    if in_use && !self.is_certain(&hole, open)? {
                        return Ok(false);
                    }
                    follows = true;
                    self.print_hole(hole)?;
                }
                Some(Found::Batch(_) | Found::Hole(_) | Found::Segment(_) | Found::Tail(_)) => {}
            }
        }
    }

    /// Whether this is there when the log is read once more. What was only being written is not.
    fn is_certain(&mut self, hole: &Hole, open: &mut dyn FnMut() -> Result<OsDirectory>) -> Result<bool> {
        if !self.certain.contains(hole) {
            self.certain = match find_holes(&mut open()?) {
                Err(LogError::MovedOn { .. }) => Vec::new(),
                holes => holes?,
            };
        }
        Ok(self.certain.contains(hole))
    }

    fn print_hole(&mut self, hole: Hole) -> Result<()> {
        let mut line = Object::new();
        line.text("damaged", &hole.error.to_string());
        line.text("file", &hole.file);
        line.value("offset", hole.offset);
        writeln!(self.out, "{}", line.finish())?;
        self.is_whole = false;
        self.holes.push(hole);
        Ok(())
    }

    /// What lay between the last batch that was printed and this one, if anything did, is not there any more.
    fn print_dropped(&mut self, next: Position) -> Result<()> {
        let (from, to) = (self.last + 1, next - 1);
        if from <= to {
            let mut line = Object::new();
            line.text("dropped", "the server dropped these batches before they were read: nothing needs them any more");
            line.value("from", from);
            line.value("to", to);
            writeln!(self.out, "{}", line.finish())?;
        }
        Ok(())
    }
}

/// Whether all of its records could be read.
fn print_batch(entry: &Entry<'_>, out: Out<'_>) -> Result<bool> {
    let mut line = Object::new();
    line.value("position", entry.header.position);
    line.date("time", entry.batch.at.wall_ms);
    line.value("engine_ms", entry.batch.at.engine_ms);
    line.value("epoch", entry.header.epoch);
    for record in records(entry.batch.payload) {
        let mut line = line.clone();
        let Ok(record) = record else {
            line.text("damaged", "what follows in this batch is no record");
            writeln!(out, "{}", line.finish())?;
            return Ok(false);
        };
        put_record(&mut line, &record);
        writeln!(out, "{}", line.finish())?;
    }
    if entry.batch.payload.is_empty() {
        // The first start after a boot writes one of these.
        line.text("record", "none");
        writeln!(out, "{}", line.finish())?;
    }
    Ok(true)
}

fn put_record(line: &mut Object, record: &RecordView) {
    line.text("record", record.kind);
    line.optional("job", record.number);
    if let Some(queue) = &record.queue {
        line.bytes("queue", queue.as_bytes());
    }
    for (name, field) in &record.fields {
        match field {
            Field::Number(number) => line.value(name, number),
            Field::Signed(number) => line.value(name, number),
            Field::Flag(flag) => line.value(name, flag),
            Field::Text(text) => line.text(name, text),
            Field::Bytes(bytes) => line.bytes(name, bytes),
            Field::Numbers(numbers) => line.numbers(name, numbers),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use jobyard_log::{Batch, Completion, Log as _, Moment};
    use serde_json::Value;

    use super::*;
    use crate::log_tools::testing::{Place, jobs};

    /// Dumps; whether all could be read, and the lines. `before` is called with how often the directory was opened before.
    fn dumped(place: &Place, out: Out<'_>, mut before: impl FnMut(u32)) -> (bool, u32) {
        let mut opened = 0;
        let mut open = || {
            before(opened);
            opened += 1;
            OsDirectory::open(&place.0)
        };
        let is_whole = dump_all(&mut open, out).unwrap();
        (is_whole, opened)
    }

    fn lines(out: &[u8]) -> Vec<Value> {
        let text = std::str::from_utf8(out).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The jobs that were said to be put.
    fn put(lines: &[Value]) -> Vec<u64> {
        lines.iter().filter(|line| line["record"] == "enqueued").map(|line| line["job"].as_u64().unwrap()).collect()
    }

    #[test]
    fn damage_that_was_only_being_written_is_not_said() {
        let place = Place::new("dump-passes");
        let _log = place.write_unclosed(&jobs(100));
        place.flip_in_segment(2);
        let mut out = Vec::new();
        let found = dumped(&place, &mut out, |opened| {
            if opened == 1 {
                place.flip_in_segment(2);
            }
        });
        assert_eq!(found, (true, 3), "read, looked at again, read on");
        let lines = lines(&out);
        assert_eq!(put(&lines), (1..=100).collect::<Vec<_>>(), "each once");
        assert!(lines.iter().all(|line| line.get("damaged").is_none()));
    }

    #[test]
    fn damage_that_stays_is_said_once_and_all_else_printed() {
        let place = Place::new("dump-stays");
        drop(place.write_unclosed(&jobs(100)));
        place.flip_in_segment(2);
        place.flip_in_segment(3);
        let mut out = Vec::new();
        assert_eq!(dumped(&place, &mut out, |_| ()), (false, 2), "looked for once more, not for each");
        let lines = lines(&out);
        assert_eq!(put(&lines).len(), 98);
        let damaged: Vec<_> = lines.iter().filter(|line| line.get("damaged").is_some()).collect();
        assert_eq!(damaged.len(), 2);
        assert_eq!((&damaged[0]["file"], &damaged[0]["offset"]), (&"00000000000000000002.log".into(), &4096.into()));
    }

    /// Does something when it is first written to.
    struct Meanwhile<F>(Vec<u8>, Option<F>);

    impl<F: FnOnce()> io::Write for Meanwhile<F> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if let Some(happens) = self.1.take() {
                happens();
            }
            self.0.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_a_server_drops_meanwhile_is_said_and_nothing_is_printed_twice() {
        let place = Place::new("dump-dropped");
        let mut log = place.write_unclosed(&jobs(100));
        let epoch = 1;
        let drop_some = || {
            log.truncate_before(80);
            log.submit(epoch, 101, Batch { at: Moment::default(), payload: &[] });
            while log.completed() != Some(Completion::Durable(101)) {}
        };
        let mut out = Meanwhile(Vec::new(), Some(drop_some));
        let (is_whole, opened) = dumped(&place, &mut out, |_| ());
        assert_eq!((is_whole, opened), (true, 2));
        let lines = lines(&out.0);
        let gap = lines.iter().position(|line| line.get("dropped").is_some()).unwrap();
        let (from, to) = (lines[gap]["from"].as_u64().unwrap(), lines[gap]["to"].as_u64().unwrap());
        let expected: Vec<u64> = (1..from).chain(to + 1..=100).collect();
        assert!(from > 1 && to < 80, "{from} {to}");
        assert_eq!(put(&lines), expected);
    }
}
