//! STUB

use jobyard_engine::Reply;

use crate::codec::{Codec, Context, Next};
use crate::input::Input;
use crate::options::Options;

#[derive(Debug, Default)]
pub(crate) struct Any;

impl Any {
    pub(crate) fn new(_options: &Options) -> Self {
        Any
    }
}

impl Codec for Any {
    fn decode(&mut self, _input: &mut Input, _out: &mut Vec<u8>, _context: &Context<'_>) -> Next {
        Next::Close
    }

    fn encode(&mut self, _reply: &Reply<'_>, _out: &mut Vec<u8>, _context: &Context<'_>) {}
}
