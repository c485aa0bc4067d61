//! STUB

use jobyard_engine::Reply;

use crate::codec::{Codec, Context, Next};
use crate::input::Input;
use crate::options::Options;
use crate::table::Begins;

#[derive(Debug, Default)]
pub(crate) struct Takeanumber;

impl Takeanumber {
    pub(crate) fn new(_options: &Options) -> Self {
        Takeanumber
    }
}
pub(crate) fn begins(_bytes: &[u8]) -> Begins {
    Begins::No
}

impl Codec for Takeanumber {
    fn decode(&mut self, _input: &mut Input, _out: &mut Vec<u8>, _context: &Context<'_>) -> Next {
        Next::Close
    }

    fn encode(&mut self, _reply: &Reply<'_>, _out: &mut Vec<u8>, _context: &Context<'_>) {}
}
