//! Job ids as text.

use jobyard_engine::Uuid;

/// How long an id is, as it is written.
pub(crate) const UUID_LEN: usize = uuid::fmt::Hyphenated::LENGTH;

/// Writes an id in lower case, with hyphens.
pub(crate) fn write_uuid(out: &mut Vec<u8>, id: Uuid) {
    let mut letters = [0; UUID_LEN];
    let text = uuid::Uuid::from_u128(id.0).hyphenated().encode_lower(&mut letters);
    out.extend_from_slice(text.as_bytes());
}

/// A UUID in any usual spelling: with hyphens or without, bare, in braces or as a URN.
pub(crate) fn parse_uuid(word: &[u8]) -> Option<uuid::Uuid> {
    const BARE_BYTES: [usize; 2] = [32, 36];
    let bare = unwrapped(word);
    // What is wrapped twice is still longer.
    if !BARE_BYTES.contains(&bare.len()) {
        return None;
    }
    uuid::Uuid::try_parse_ascii(bare).ok()
}

/// An id without its braces or `urn:uuid:`.
fn unwrapped(word: &[u8]) -> &[u8] {
    const URN: &[u8] = b"urn:uuid:";
    match (word, word.split_at_checked(URN.len())) {
        ([b'{', bare @ .., b'}'], _) => bare,
        (_, Some((scheme, bare))) if scheme.eq_ignore_ascii_case(URN) => bare,
        _ => word,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_written_as_they_are_shown() {
        for id in [0, 0x6a6f_6279_6172_4640_8000_0000_0000_000f, u128::MAX].map(Uuid) {
            let mut out = Vec::new();
            write_uuid(&mut out, id);
            assert_eq!(std::str::from_utf8(&out), Ok(id.to_string().as_str()));
        }
    }
}
