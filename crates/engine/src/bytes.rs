//! The small change of the record format: numbers of variable length, and bytes with their length.

/// Why bytes are no records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damaged;

impl std::fmt::Display for Damaged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("these bytes are no records of this version")
    }
}

impl std::error::Error for Damaged {}

/// Seven bits a byte, the lowest first; the upper bit says that more follow.
pub(crate) fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number > 0x7f {
        out.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    out.push((number & 0x7f) as u8);
}

/// How many bytes [`put_number`] takes.
pub(crate) fn number_len(number: u64) -> usize {
    (number | 1).ilog2() as usize / 7 + 1
}

pub(crate) fn put_wide(out: &mut Vec<u8>, mut number: u128) {
    if let Ok(number) = u64::try_from(number) {
        return put_number(out, number);
    }
    loop {
        let low = (number & 0x7f) as u8;
        number >>= 7;
        if number == 0 {
            out.push(low);
            return;
        }
        out.push(low | 0x80);
    }
}

/// The sign goes to the lowest bit, so that small negative numbers stay short.
pub(crate) fn put_signed(out: &mut Vec<u8>, number: i128) {
    put_wide(out, folded(number));
}

fn folded(number: i128) -> u128 {
    ((number << 1) ^ (number >> 127)).cast_unsigned()
}

/// How many bytes [`put_wide`] takes.
pub(crate) fn wide_len(number: u128) -> usize {
    (number | 1).ilog2() as usize / 7 + 1
}

/// How many bytes [`put_signed`] takes.
pub(crate) fn signed_len(number: i128) -> usize {
    wide_len(folded(number))
}

/// How many bytes [`put_signed`] takes for a date.
pub(crate) fn date_len(date: i64) -> usize {
    number_len(((date << 1) ^ (date >> 63)).cast_unsigned())
}

/// How many bytes [`put_bytes`] takes.
pub(crate) fn bytes_len(bytes: &[u8]) -> usize {
    number_len(bytes.len() as u64) + bytes.len()
}

pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Takes values off the front of a slice.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn byte(&mut self) -> Result<u8, Damaged> {
        let (&first, rest) = self.0.split_first().ok_or(Damaged)?;
        self.0 = rest;
        Ok(first)
    }

    pub(crate) fn flag(&mut self) -> Result<bool, Damaged> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Damaged),
        }
    }

    pub(crate) fn wide(&mut self) -> Result<u128, Damaged> {
        let mut number = 0u128;
        for shift in (0..128).step_by(7) {
            let byte = self.byte()?;
            let bits = u128::from(byte & 0x7f);
            if bits.leading_zeros() < shift {
                return Err(Damaged);
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Damaged)
    }

    pub(crate) fn number(&mut self) -> Result<u64, Damaged> {
        // Nine bytes hold all that is below 2^63, which is nearly everything.
        let mut number = 0_u64;
        for index in 0..self.0.len().min(9) {
            let byte = self.0[index];
            number |= u64::from(byte & 0x7f) << (7 * index);
            if byte < 0x80 {
                self.0 = &self.0[index + 1..];
                return Ok(number);
            }
        }
        u64::try_from(self.wide()?).map_err(|_| Damaged)
    }

    pub(crate) fn signed(&mut self) -> Result<i128, Damaged> {
        let wide = match self.0.first() {
            Some(&byte) if byte & 0x80 == 0 => u128::from(self.byte()?),
            _ => self.wide()?,
        };
        Ok((wide >> 1).cast_signed() ^ -((wide & 1).cast_signed()))
    }

    pub(crate) fn date(&mut self) -> Result<i64, Damaged> {
        // The sign is folded in as `put_signed` does, and a date fits 64 bits so folded.
        let folded = self.number()?;
        Ok((folded >> 1).cast_signed() ^ -((folded & 1).cast_signed()))
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], Damaged> {
        let length = usize::try_from(self.number()?).map_err(|_| Damaged)?;
        if length > self.0.len() {
            return Err(Damaged);
        }
        let (bytes, rest) = self.0.split_at(length);
        self.0 = rest;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        let signed = [0, 1, -1, 63, -64, 64, i128::from(i64::MIN), i128::MAX, i128::MIN];
        let mut out = Vec::new();
        for number in signed {
            put_signed(&mut out, number);
        }
        for number in [0, 127, 128, u64::MAX] {
            put_number(&mut out, number);
        }
        let mut reader = Reader(&out);
        for number in signed {
            assert_eq!(reader.signed(), Ok(number));
        }
        for number in [0, 127, 128, u64::MAX] {
            assert_eq!(reader.number(), Ok(number));
        }
        assert!(reader.is_empty());
    }

    #[test]
    fn dates_come_back() {
        for date in [0, 1, -1, 1_767_225_600_250, i64::MIN, i64::MAX] {
            let mut out = Vec::new();
            put_signed(&mut out, date.into());
            assert_eq!(date_len(date), out.len(), "{date}");
            assert_eq!(Reader(&out).date(), Ok(date));
        }
    }

    #[test]
    fn lengths_are_those_that_are_written() {
        for shift in 0..128 {
            for wide in [(1_u128 << shift) - 1, 1 << shift, u128::MAX >> shift] {
                let mut out = Vec::new();
                put_wide(&mut out, wide);
                assert_eq!(wide_len(wide), out.len(), "{wide}");
                if let Ok(number) = u64::try_from(wide) {
                    assert_eq!(number_len(number), out.len(), "{number}");
                    assert_eq!(Reader(&out).number(), Ok(number));
                }
                out.clear();
                put_signed(&mut out, wide.cast_signed());
                assert_eq!(signed_len(wide.cast_signed()), out.len(), "{wide}");
            }
        }
        assert_eq!(bytes_len(&[0; 200]), 202);
    }

    #[test]
    fn a_number_that_is_too_large_or_cut_short_is_damaged() {
        assert_eq!(Reader(&[0x80]).number(), Err(Damaged));
        assert_eq!(Reader(&[0xff; 30]).wide(), Err(Damaged));
        let mut over = Vec::new();
        put_wide(&mut over, u128::from(u64::MAX) + 1);
        assert_eq!(Reader(&over).number(), Err(Damaged));
    }

    #[test]
    fn bytes_longer_than_what_is_there_are_damaged() {
        assert_eq!(Reader(&[3, 1, 2]).bytes(), Err(Damaged));
        assert_eq!(Reader(&[2, 1, 2]).bytes(), Ok(&[1, 2][..]));
    }
}
