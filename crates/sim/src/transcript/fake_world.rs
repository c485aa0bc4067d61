//! A server simple enough to be believed, and the player's tests against it.

use std::collections::BTreeMap;

use super::world::{Trouble, World};
use super::{Cut, Failure, Transcript, play};

/// Answers `echo TEXT\n` with `TEXT\n`, `close\n` by closing, `later\n` with `now\n` when time passes; to the end of
/// input it answers with what was left of a line, and closes. The whole is counted.
#[derive(Default)]
struct FakeWorld {
    clients: BTreeMap<String, FakeClient>,
    pieces: usize,
    down: bool,
}

#[derive(Default)]
struct FakeClient {
    input: Vec<u8>,
    output: Vec<u8>,
    later: bool,
    closed: bool,
}

impl FakeWorld {
    fn client(&mut self, name: &str) -> Result<&mut FakeClient, Trouble> {
        self.clients.get_mut(name).ok_or_else(|| Trouble::new("who?"))
    }
}

impl FakeClient {
    fn work(&mut self) {
        while let Some(at) = self.input.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.input.drain(..=at).collect();
            match &line[..] {
                b"close\n" => self.closed = true,
                b"later\n" => self.later = true,
                line => self.output.extend_from_slice(line.strip_prefix(b"echo ").unwrap_or(b"what?\n")),
            }
        }
    }
}

impl World for FakeWorld {
    fn open(&mut self, client: &str, _listener: usize) -> Result<(), Trouble> {
        if self.down {
            return Err(Trouble::new("refused"));
        }
        self.clients.insert(client.to_owned(), FakeClient::default());
        Ok(())
    }

    fn send(&mut self, client: &str, bytes: &[u8]) -> Result<(), Trouble> {
        self.pieces += 1;
        let client = self.client(client)?;
        if !client.closed {
            client.input.extend_from_slice(bytes);
        }
        Ok(())
    }

    fn end(&mut self, client: &str) -> Result<(), Trouble> {
        let client = self.client(client)?;
        client.output.append(&mut client.input);
        client.closed = true;
        Ok(())
    }

    fn leave(&mut self, client: &str) -> Result<(), Trouble> {
        self.clients.remove(client).map(|_| ()).ok_or_else(|| Trouble::new("who?"))
    }

    fn settle(&mut self) -> Result<(), Trouble> {
        self.clients.values_mut().for_each(FakeClient::work);
        Ok(())
    }

    fn hear(&mut self, client: &str, heard: &mut Vec<u8>, _bytes_min: usize) -> Result<(), Trouble> {
        heard.append(&mut self.client(client)?.output);
        Ok(())
    }

    fn closed(&mut self, client: &str, _expected: bool) -> Result<bool, Trouble> {
        Ok(self.client(client)?.closed)
    }

    fn wait(&mut self, _ms: u64) -> Result<(), Trouble> {
        for client in self.clients.values_mut().filter(|client| client.later) {
            client.later = false;
            client.output.extend_from_slice(b"now\n");
        }
        Ok(())
    }

    fn step_clock(&mut self, _by_ms: i64) -> Result<(), Trouble> {
        Ok(())
    }

    fn restart(&mut self) -> Result<(), Trouble> {
        self.clients.clear();
        self.down = false;
        Ok(())
    }

    fn fill_disk(&mut self, _full: bool) -> Result<(), Trouble> {
        Ok(())
    }

    fn drain(&mut self) -> Result<(), Trouble> {
        Ok(())
    }

    fn stop(&mut self) -> Result<(), Trouble> {
        self.down = true;
        self.clients.values_mut().for_each(|client| client.closed = true);
        Ok(())
    }
}

fn play_in(world: &mut FakeWorld, body: &str, cut: Cut) -> Result<(), Box<Failure>> {
    let transcript = Transcript::parse("transcripts/masenko/x.txt", &format!("# Shows.\n{body}")).unwrap();
    play(&transcript, world, cut)
}

fn failure(body: &str) -> Failure {
    *play_in(&mut FakeWorld::default(), body, Cut::Whole).unwrap_err()
}

#[test]
fn what_is_as_expected_passes_in_every_cut() {
    let body = "a> echo one\na< one\nb>> echo two\\necho three\\n\nb< two\nb<< thr\nb<< ee\\n\n\
                a> later\nwait 1s\na< now\nc>> half\nc ends\nc<< half\na> close\na closed\nopen a masenko\na> echo x\n\
                a< x\nb leaves\nclock +1h\ndisk full\ndrain\nrestart\nb> echo again\nb< again\ncrash\nb> echo again\nb< again\nstop";
    for cut in [Cut::Whole, Cut::Bytes, Cut::Random(1), Cut::Random(2)] {
        play_in(&mut FakeWorld::default(), body, cut).unwrap();
    }
}

#[test]
fn a_cut_decides_in_how_many_pieces_bytes_arrive() {
    for (cut, pieces) in [(Cut::Whole, 1), (Cut::Bytes, 11)] {
        let mut world = FakeWorld::default();
        play_in(&mut world, "a> echo hello\na< hello", cut).unwrap();
        assert_eq!(world.pieces, pieces, "{cut:?}");
    }
}

#[test]
fn something_else_than_expected_fails() {
    let failure = failure("a> echo one\na< one\na> echo two\na< three");
    assert_eq!((failure.line, failure.path.as_str()), (5, "transcripts/masenko/x.txt"));
    let report = failure.to_string();
    let expected = "transcripts/masenko/x.txt:5: a expected\n    three\\n\n  and heard\n    two\\n\n  \
                    The first 1 bytes are as expected, then comes\n    wo\\n\n  so far:\n    open a masenko\n    \
                    a>> echo one\\n\n    a<< one\\n\n    a>> echo two\\n\n";
    assert_eq!(report, expected);
}

#[test]
fn less_than_expected_fails() {
    assert!(failure("a< x").what.contains("heard\n    (nothing)"));
    assert!(failure("a> echo x\na<< x\\ny").what.contains("then comes\n    (nothing)"));
}

#[test]
fn what_nobody_expected_fails_at_the_next_pause() {
    for (body, line) in [
        ("a> echo x", 2),
        ("a> echo x\nwait 1s", 3),
        ("a> echo x\nb> echo y\nrestart", 4),
        ("a> echo x\na leaves", 3),
        ("a> later\nwait 1s\na> echo y\na< y", 5),
        ("a> echo x\na<< x", 3),
    ] {
        let failure = failure(body);
        assert_eq!(failure.line, line, "{failure}");
    }
    assert!(failure("a> echo x").what.contains("what nobody expected:\n    x\\n"));
}

#[test]
fn an_end_that_did_not_come_or_that_nobody_expected_fails() {
    assert!(failure("a> echo x\na< x\na closed").what.contains("connected still"));
    assert!(failure("a> close").what.contains("nobody expected"));
    assert!(failure("a> close\na> echo x").what.contains("a cannot send"));
    assert!(failure("a>> close\\necho x\\n\na closed").what.contains("what nobody expected"));
    // In one line, the server may close before the last byte.
    play_in(&mut FakeWorld::default(), "a>> close\\nx\na closed", Cut::Bytes).unwrap();
}

#[test]
fn a_world_that_cannot_go_on_fails() {
    assert!(failure("stop\na> echo x").what.contains("refused"));
}
