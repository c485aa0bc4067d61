//! `jobyard log dump`: the records of a log as lines of JSON, the oldest first.

use std::io::Write as _;
use std::path::Path;

use anyhow::{Context, Result, bail};
use jobyard_engine::{Field, RecordView, records};
use jobyard_log::{Entry, Found, Reader};

use super::Out;
use super::text::Object;
use crate::disk::OsDirectory;

/// Prints every record there is. What is damaged is said in its place, and at the end.
pub fn dump(path: &Path, out: Out<'_>) -> Result<()> {
    let mut directory = OsDirectory::open(path)?;
    let mut reader = Reader::open_damaged(&mut directory, &[]).with_context(|| format!("in {}", path.display()))?;
    let mut out = std::io::BufWriter::new(out);
    let mut damaged = reader.manifest().is_err();
    while let Some(found) = reader.next()? {
        match found {
            Found::Batch(entry) => damaged |= !print_batch(&entry, &mut out)?,
            Found::Hole(hole) => {
                damaged = true;
                let mut line = Object::new();
                line.text("damaged", &hole.error.to_string());
                line.text("file", &hole.file);
                line.value("offset", hole.offset);
                writeln!(out, "{}", line.finish())?;
            }
            Found::Segment(_) | Found::Tail(_) => {}
        }
    }
    out.flush()?;
    if damaged {
        bail!("the log is damaged: 'jobyard log verify {}' says more", path.display());
    }
    Ok(())
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
        // A start begins with one of these.
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
