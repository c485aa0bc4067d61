//! Makes the fuzz targets' first inputs anew, in the folder that is named: of the transcripts, of the fixture of a data
//! directory, of what beanstalkd left, and of the settings that the help shows. `scripts/fuzz --seed` runs it. Inputs of another origin are left alone.

use std::fs;
use std::path::Path;
use std::rc::Rc;

use jobyard_protocols::{ANY, PROTOCOLS};
use jobyard_sim::disk::Image;
use jobyard_sim::fuzz::{seed_of_directory, seed_of_transcript};
use jobyard_sim::transcript::Transcript;

/// How the names of these inputs begin.
const PREFIX: &str = "seed-";
/// A longer one would make a fuzzer slow, and shows nothing more.
const SEED_BYTES_MAX: usize = 8 << 10;
const TOGETHER: &str = "together";
const FIXTURE: &str = "crates/server/tests/fixtures/format-1/data";
const BINLOGS: [&str; 2] = ["beanstalkd-5", "beanstalkd-7"];
/// Between the files of a binlog, as its target reads them.
const NEXT_FILE: [u8; 4] = [0xff, 0xfe, 0xfd, 0xfc];

const SETTINGS: &[(&str, &str)] = &[
    (
        "file",
        "listen = [\"any://127.0.0.1:5627\", \"workq://[::1]:9922?dialect=original\"]\ndata = \"/var/lib/jobyard\"\n\
         fsync = \"interval=50ms\"\nsegment_size = \"64KiB\"\nmax_memory = \"4GiB\"\nlog_format = \"json\"\n\
         log_level = \"debug\"\ninsecure_public = true\n[limits]\nbody_bytes_max = 1048576\nheld_max = 7\n",
    ),
    (
        "arguments",
        "$ --listen\n$ masenko+unix:///run/jobyard.sock?heartbeat=10s&dialect=document\n$ --listen\n\
         $ takeanumber://localhost?lease=5m\n$ --memory\n$ --max-memory\n$ 1GiB\n$ --default-lease=90s\n$ --fsync\n$ never\n",
    ),
    (
        "variables",
        "@ JOBYARD_LISTEN=any://127.0.0.1:0, any://[::1]:0\n@ JOBYARD_DRAIN_TIMEOUT=5s\n@ JOBYARD_MEMORY=true\n\
         @ JOBYARD_SERVICE_HOST=10.0.0.1\n@ JOBYARD_LOG_LEVEL=warn\ndefault_lease = \"1m\"\n",
    ),
    (
        "limits",
        "[limits]\nqueues_max = 1\nclients_max = 16000000\ndefault_lease_ms = 1\nline_extra_bytes_max = 4294967295\n",
    ),
];

fn main() {
    let corpus = std::env::args().nth(1).expect("usage: fuzz_seeds FOLDER");
    let corpus = Path::new(&corpus);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for listener in PROTOCOLS.iter().map(|protocol| protocol.name).chain([ANY]) {
        let mut seeds = seeds_of(listener, &root, listener);
        seeds.extend(seeds_of(listener, &root, TOGETHER).into_iter().filter(|(name, _)| name.contains(listener)));
        write(&corpus.join(listener), &seeds);
    }
    let (mut logs, mut records) = (Vec::new(), Vec::new());
    for (number, (log, record)) in
        seed_of_directory(&image(&root.join(FIXTURE)), SEED_BYTES_MAX).into_iter().enumerate()
    {
        logs.push((format!("segment-{number}"), log));
        records.push((format!("segment-{number}"), record));
    }
    write(&corpus.join("log_reader"), &logs);
    write(&corpus.join("engine_records"), &records);
    write(&corpus.join("binlog"), &BINLOGS.map(|name| (name.to_owned(), binlog(&root, name))));
    let settings: Vec<_> = SETTINGS.iter().map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec())).collect();
    write(&corpus.join("config"), &settings);
}

/// What the transcripts of a folder become for a listener.
fn seeds_of(listener: &str, root: &Path, folder: &str) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(root.join("transcripts").join(folder)).expect("the folder of transcripts can be read");
    let mut seeds = Vec::new();
    for entry in entries {
        let path = entry.expect("an entry").path();
        let name = path.file_stem().expect("a transcript has a name").to_string_lossy().into_owned();
        if name == "texts" {
            continue;
        }
        let text = fs::read_to_string(&path).expect("a transcript can be read");
        let transcript = Transcript::parse(&format!("{folder}/{name}.txt"), &text).expect("a transcript makes sense");
        seeds.push((name, seed_of_transcript(listener, &transcript)));
    }
    seeds.retain(|(_, seed)| seed.len() <= SEED_BYTES_MAX);
    seeds.sort();
    seeds
}

/// The files of a binlog, without the zeros at their ends but for a few.
fn binlog(root: &Path, name: &str) -> Vec<u8> {
    let files = image(&root.join("crates/server/tests/fixtures").join(name));
    let mut files: Vec<_> = files.into_iter().filter(|(name, _)| name.starts_with("binlog.")).collect();
    files.sort();
    let used = |bytes: &[u8]| bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| (last + 64).min(bytes.len()));
    let files: Vec<&[u8]> = files.iter().map(|(_, bytes)| &bytes[..used(bytes)]).collect();
    files.join(&NEXT_FILE[..])
}

fn image(directory: &Path) -> Image {
    let entries = fs::read_dir(directory).expect("the fixture can be read").map(|entry| entry.expect("an entry"));
    let file = |entry: fs::DirEntry| {
        let bytes = fs::read(entry.path()).expect("a file of the fixture can be read");
        (entry.file_name().to_string_lossy().into_owned(), Rc::new(bytes))
    };
    entries.map(file).collect()
}

fn write(folder: &Path, seeds: &[(String, Vec<u8>)]) {
    fs::create_dir_all(folder).expect("the folder can be made");
    for entry in fs::read_dir(folder).expect("the folder can be read") {
        let path = entry.expect("an entry").path();
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX)) {
            fs::remove_file(path).expect("an old seed can be removed");
        }
    }
    for (name, seed) in seeds {
        fs::write(folder.join(format!("{PREFIX}{name}")), seed).expect("a seed can be written");
    }
}
