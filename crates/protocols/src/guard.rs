//! On a port of one protocol, the first bytes of an HTTP request or a TLS hello end the connection:
//! a browser's request must not be run as commands.

use jobyard_engine::Reply;

use crate::codec::{Codec, Context, Farewell, Next};
use crate::http;
use crate::input::Input;
use crate::table::Begins;

/// A codec that is spoken only after the first bytes were seen to be no HTTP and no TLS.
pub(crate) struct Guard<C> {
    codec: C,
    passed: bool,
}

impl<C> Guard<C> {
    pub(crate) fn new(codec: C) -> Self {
        Guard { codec, passed: false }
    }
}

/// A TLS record of the handshake kind, any version.
pub(crate) fn begins_tls(bytes: &[u8]) -> Begins {
    match bytes {
        [0x16, 0x03, ..] => Begins::Yes,
        [] | [0x16] => Begins::Maybe,
        _ => Begins::No,
    }
}

impl<C: Codec> Codec for Guard<C> {
    fn decode(&mut self, input: &mut Input, out: &mut Vec<u8>, context: &Context<'_>) -> Next {
        // Where nothing has arrived, nothing can be wrong with it; but connecting may mean something.
        if !self.passed && (!input.is_empty() || input.ended()) {
            match (begins_tls(input.bytes()), http::begins(input.bytes())) {
                (Begins::Yes, _) | (_, Begins::Yes) => return Next::Close,
                (Begins::Maybe, _) | (_, Begins::Maybe) if !input.ended() => return Next::More,
                _ => self.passed = true,
            }
        }
        self.codec.decode(input, out, context)
    }

    fn encode(&mut self, reply: &Reply<'_>, out: &mut Vec<u8>, context: &Context<'_>) {
        self.codec.encode(reply, out, context);
    }

    fn end(&mut self, input: &Input, out: &mut Vec<u8>) {
        self.codec.end(input, out);
    }

    fn unfinished_bytes(&self) -> usize {
        self.codec.unfinished_bytes()
    }

    fn kept_bytes(&self) -> usize {
        self.codec.kept_bytes()
    }

    fn last_words(&mut self, why: Farewell, out: &mut Vec<u8>) {
        self.codec.last_words(why, out);
    }

    fn deadline_ms(&self) -> Option<u64> {
        self.codec.deadline_ms()
    }

    fn deadline_passed(&mut self, out: &mut Vec<u8>) {
        self.codec.deadline_passed(out);
    }

    fn postpone(&mut self, by_ms: u64) {
        self.codec.postpone(by_ms);
    }
}
