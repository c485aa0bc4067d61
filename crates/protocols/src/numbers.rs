//! Numbers as text in answers: written without the machinery of formatting, which costs more than all the rest of a short one.

/// Writes a number in decimal digits.
pub(crate) fn write_number(out: &mut Vec<u8>, number: impl itoa::Integer) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_they_are_shown() {
        for number in [0_i128, 7, -10, 18_446_744_073_709_551_616, i128::MIN] {
            let mut out = Vec::new();
            write_number(&mut out, number);
            assert_eq!(std::str::from_utf8(&out), Ok(number.to_string().as_str()));
        }
    }
}
