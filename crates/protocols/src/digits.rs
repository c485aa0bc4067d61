//! Numbers and ids as text, in every answer: written without the machinery of formatting, which costs more than all the rest of
//! a short answer.

use jobyard_engine::Uuid;

/// Writes a number in decimal digits.
pub(crate) fn write_number(out: &mut Vec<u8>, number: impl itoa::Integer) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Writes an id in lower case, with hyphens.
pub(crate) fn write_uuid(out: &mut Vec<u8>, id: Uuid) {
    let mut letters = [0; uuid::fmt::Hyphenated::LENGTH];
    let text = uuid::Uuid::from_u128(id.0).hyphenated().encode_lower(&mut letters);
    out.extend_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_ids_are_written_as_they_are_shown() {
        let mut out = Vec::new();
        for number in [0_i128, 7, -10, 18_446_744_073_709_551_616, i128::MIN] {
            write_number(&mut out, number);
            assert_eq!(std::str::from_utf8(&out), Ok(number.to_string().as_str()));
            out.clear();
        }
        for id in [0, 0x6a6f_6279_6172_4640_8000_0000_0000_000f, u128::MAX].map(Uuid) {
            write_uuid(&mut out, id);
            assert_eq!(std::str::from_utf8(&out), Ok(id.to_string().as_str()));
            out.clear();
        }
    }
}
