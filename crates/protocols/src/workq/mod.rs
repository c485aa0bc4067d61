//! workq: CRLF lines of words, and blocks whose size the line before them says.

mod fault;
mod parse;
mod values;
mod words;
mod write;

#[cfg(test)]
mod tests;

use jobyard_engine::{Limits, Reply};

use crate::any::begins_with;
use crate::codec::{Codec, Context, Farewell, Next};
use crate::input::{Input, Line};
use crate::options::{Dialect, Options};
use crate::table::Begins;

use fault::Fault;
use parse::{Block, Parsed};

/// One connection.
#[derive(Debug)]
pub(crate) struct Workq {
    dialect: Dialect,
    /// The block that is to come next.
    block: Option<Block>,
}

impl Workq {
    pub(crate) fn new(options: &Options) -> Self {
        Workq { dialect: options.dialect, block: None }
    }

    fn read_line(&mut self, input: &mut Input, out: &mut Vec<u8>, limits: &Limits) -> Next {
        let length = match input.line(line_bytes_max(limits)) {
            Line::More => return Next::More,
            Line::TooLong => {
                Fault::LineTooLong.write(out);
                return Next::Close;
            }
            Line::Whole(length) => length,
        };
        let Some(line) = input.bytes()[..length].strip_suffix(b"\r") else {
            return Next::Close;
        };
        let parsed = parse::parse(line, limits);
        input.consume(length + 1);
        match parsed {
            Ok(Parsed::Command(command)) => Next::Command(command),
            Ok(Parsed::Block(block)) => self.read_block(block, input, out),
            Ok(Parsed::TooLarge(fault)) => {
                fault.write(out);
                Next::Close
            }
            Err(fault) => answer(fault, out),
        }
    }

    fn read_block(&mut self, block: Block, input: &mut Input, out: &mut Vec<u8>) -> Next {
        let size = block.size;
        let Some(end) = input.bytes().get(size..size + 2) else {
            self.block = Some(block);
            return Next::More;
        };
        let whole = end == b"\r\n";
        let fault = match block.draft {
            Ok(draft) if whole => {
                let taken = input.take(0, size);
                input.consume(2);
                return Next::Command(draft.with_block(taken));
            }
            Ok(_) => Fault::PayloadSize,
            Err(_) if !whole => Fault::PayloadSize,
            Err(fault) => fault,
        };
        input.consume(size + 2);
        answer(fault, out)
    }
}

fn answer(fault: Fault, out: &mut Vec<u8>) -> Next {
    fault.write(out);
    Next::Answered
}

/// The longest line that makes sense: a lease of as many names as it may have, each as long as it may be.
fn line_bytes_max(limits: &Limits) -> usize {
    let names = limits.queues_named_max.saturating_mul(values::NAME_BYTES_MAX + 1);
    limits.line_extra_bytes_max.saturating_add(names)
}

impl Codec for Workq {
    fn decode(&mut self, input: &mut Input, out: &mut Vec<u8>, context: &Context<'_>) -> Next {
        match self.block.take() {
            Some(block) => self.read_block(block, input, out),
            None => self.read_line(input, out, context.limits),
        }
    }

    fn last_words(&mut self, why: Farewell, out: &mut Vec<u8>) {
        write::farewell(why, out);
    }

    fn encode(&mut self, reply: &Reply<'_>, out: &mut Vec<u8>, context: &Context<'_>) {
        write::reply(reply, self.dialect, out, context);
    }
}

/// Whether the first bytes are those of workq.
pub(crate) fn begins(bytes: &[u8]) -> Begins {
    const OPENINGS: [&[u8]; 8] =
        [b"add ", b"schedule ", b"run ", b"result ", b"lease ", b"complete ", b"fail ", b"inspect "];
    match bytes.strip_prefix(b"delete ") {
        Some(id) => begins_id(id),
        None => match (begins_with(bytes, &OPENINGS), begins_with(bytes, &[b"delete "])) {
            (Begins::No, delete) => delete,
            (opening, _) => opening,
        },
    }
}

/// Whether what is deleted goes by a UUID. What is only digits may still become a job's number in
/// another protocol, until it has as many as a UUID.
fn begins_id(id: &[u8]) -> Begins {
    const UUID_DIGITS: usize = 32;
    let spaces = id.iter().take_while(|&&byte| byte == b' ').count();
    let id = &id[spaces..];
    let digits = id.iter().take_while(|byte| byte.is_ascii_digit()).count();
    match id.get(digits) {
        _ if digits >= UUID_DIGITS => Begins::Yes,
        None => Begins::Maybe,
        Some(b'-') if digits > 0 => Begins::Yes,
        Some(b'{' | b'u') if digits == 0 => Begins::Yes,
        Some(byte) if byte.is_ascii_hexdigit() => Begins::Yes,
        Some(_) => Begins::No,
    }
}
