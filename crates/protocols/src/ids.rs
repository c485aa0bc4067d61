//! Job ids as text.

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
