//! What single words mean: ids, names, numbers.

use jobyard_engine::{QueueName, Uuid};

use super::fault::Fault;
use crate::ids::parse_uuid;

/// Bytes in a name.
pub(super) const NAME_BYTES_MAX: usize = 255;

/// The longest lease, and the longest wait: a day.
pub(super) const DAY_MS: u64 = 86_400_000;

/// Jobs or queues in one listing.
const LIMIT_MAX: u64 = 100;

/// An id as text.
pub(super) fn id_text(word: &[u8]) -> Result<uuid::Uuid, Fault> {
    parse_uuid(word).ok_or(Fault::Id)
}

/// An id that a job can have: one of RFC 4122, in any version, and not the nil one (which is of
/// another variant).
pub(super) fn id_range(id: uuid::Uuid) -> Result<Uuid, Fault> {
    if id.get_variant() == uuid::Variant::RFC4122 { Ok(Uuid(id.as_u128())) } else { Err(Fault::Id) }
}

/// An id, as text and in its range.
pub(super) fn id(word: &[u8]) -> Result<Uuid, Fault> {
    id_range(id_text(word)?)
}

/// A queue's name.
pub(super) fn name(word: &[u8]) -> Result<QueueName, Fault> {
    if is_name(word) { Ok(QueueName::new(word)) } else { Err(Fault::Name) }
}

/// Whether a queue can be called that here.
pub(super) fn is_name(word: &[u8]) -> bool {
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"_.-".contains(byte);
    (1..=NAME_BYTES_MAX).contains(&word.len()) && word.iter().all(allowed)
}

/// The time that a lease lasts, as text.
pub(super) fn ttr_text(word: &[u8]) -> Result<u64, Fault> {
    number(word).filter(|&ttr| ttr <= u64::from(u32::MAX)).ok_or(Fault::Ttr)
}

/// The time that a lease can last.
pub(super) fn ttr_range(ttr: u64) -> Result<u64, Fault> {
    if (1..=DAY_MS).contains(&ttr) { Ok(ttr) } else { Err(Fault::Ttr) }
}

/// The time that a job lives, as text.
pub(super) fn ttl_text(word: &[u8]) -> Result<u64, Fault> {
    number(word).ok_or(Fault::Ttl)
}

/// The time that a job can live.
pub(super) fn ttl_range(ttl: u64) -> Result<u64, Fault> {
    if ttl > 0 { Ok(ttl) } else { Err(Fault::Ttl) }
}

/// How long to wait.
pub(super) fn wait_timeout(word: &[u8]) -> Result<u64, Fault> {
    number(word).filter(|&wait_ms| wait_ms <= DAY_MS).ok_or(Fault::WaitTimeout)
}

/// A flag's number of 0 to 255; 0 if it was not given.
pub(super) fn small(word: Option<&[u8]>, fault: Fault) -> Result<u8, Fault> {
    let Some(word) = word else {
        return Ok(0);
    };
    number(word).and_then(|count| u8::try_from(count).ok()).ok_or(fault)
}

/// A flag's signed 32-bit number; 0 if it was not given.
pub(super) fn priority(word: Option<&[u8]>) -> Result<i32, Fault> {
    let Some(word) = word else {
        return Ok(0);
    };
    std::str::from_utf8(word).ok().and_then(|text| text.parse().ok()).ok_or(Fault::Priority)
}

/// How many to pass over in a listing.
pub(super) fn cursor_offset(word: &[u8]) -> Result<usize, Fault> {
    number(word)
        .and_then(|offset| u32::try_from(offset).ok())
        .and_then(|offset| usize::try_from(offset).ok())
        .ok_or(Fault::CursorOffset)
}

/// How many to list.
pub(super) fn limit(word: &[u8]) -> Result<usize, Fault> {
    number(word)
        .filter(|limit| (1..=LIMIT_MAX).contains(limit))
        .and_then(|limit| usize::try_from(limit).ok())
        .ok_or(Fault::Limit)
}

/// What a block's size says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Size {
    /// So many bytes follow.
    Bytes(usize),
    /// More follow than are accepted.
    TooMany,
    /// It is no size.
    Invalid,
}

/// Reads a block's size.
pub(super) fn size(word: &[u8], max: usize) -> Size {
    let digits = word.strip_prefix(b"+").unwrap_or(word);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Size::Invalid;
    }
    match number(digits).and_then(|bytes| usize::try_from(bytes).ok()) {
        Some(bytes) if bytes <= max => Size::Bytes(bytes),
        _ => Size::TooMany,
    }
}

/// Decimal digits and nothing else.
fn number(word: &[u8]) -> Option<u64> {
    if word.is_empty() {
        return None;
    }
    word.iter().try_fold(0_u64, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_in_any_usual_spelling() {
        for text in [
            "6ba7b810-9dad-11d1-80b4-00c04fd430c4",
            "6BA7B810-9DAD-11D1-80B4-00C04FD430C4",
            "6ba7b8109dad11d180b400c04fd430c4",
            "{6ba7b810-9dad-11d1-80b4-00c04fd430c4}",
            "{6BA7B8109DAD11D180B400C04FD430C4}",
            "urn:uuid:6ba7b810-9dad-11d1-80b4-00c04fd430c4",
            "URN:UUID:6ba7b8109dad11d180b400c04fd430c4",
        ] {
            assert_eq!(id(text.as_bytes()), Ok(Uuid(0x6ba7_b810_9dad_11d1_80b4_00c0_4fd4_30c4)), "{text}");
        }
    }

    #[test]
    fn an_id_may_have_any_version() {
        for version in "0123456789abcdef".chars() {
            let text = format!("6ba7b810-9dad-{version}1d1-80b4-00c04fd430c4");
            assert!(id(text.as_bytes()).is_ok(), "{text}");
        }
    }

    #[test]
    fn what_is_no_uuid_of_rfc_4122_is_no_id() {
        for text in [
            "",
            "1",
            "6ba7b810-9dad-11d1-80b4-00c04fd430c",
            "6ba7b810-9dad-11d1-80b4-00c04fd430c4a",
            "6ba7b810-9dad-11d1-80b4-00c04fd430cg",
            "6ba7b810_9dad_11d1_80b4_00c04fd430c4",
            "{6ba7b810-9dad-11d1-80b4-00c04fd430c4",
            "{6ba7b8109dad11d180b400c04fd430c}",
            "{{6ba7b8109dad11d180b400c04fd430c4}}",
            "{urn:uuid:6ba7b8109dad11d180b400c04fd430c4}",
            "urn:uuid:{6ba7b8109dad11d180b400c04fd430c4}",
            "urn:uuid:",
            "{}",
            "00000000-0000-0000-0000-000000000000",
            "6ba7b810-9dad-11d1-70b4-00c04fd430c4",
            "6ba7b810-9dad-11d1-c0b4-00c04fd430c4",
        ] {
            assert_eq!(id(text.as_bytes()), Err(Fault::Id), "{text}");
        }
    }

    #[test]
    fn a_name_has_1_to_255_of_its_letters() {
        assert!(is_name(b"Ping_1.a-b"));
        assert!(is_name(&[b'a'; 255]));
        assert!(!is_name(&[b'a'; 256]));
        assert!(!is_name(b""));
        for byte in *b" /:\0\n\xc3" {
            assert!(!is_name(&[b'a', byte]), "{byte:#x}");
        }
    }

    #[test]
    fn numbers_are_digits_within_their_range() {
        assert_eq!(ttr_text(b"0000000000000000000000086400000").and_then(ttr_range), Ok(DAY_MS));
        assert_eq!(ttr_text(b"86400001").and_then(ttr_range), Err(Fault::Ttr));
        assert_eq!(ttl_text(b"18446744073709551615").and_then(ttl_range), Ok(u64::MAX));
        assert_eq!(ttl_text(b"18446744073709551616"), Err(Fault::Ttl));
        assert_eq!(ttl_text(b"0").and_then(ttl_range), Err(Fault::Ttl));
        assert_eq!(wait_timeout(b"0"), Ok(0));
        assert_eq!(wait_timeout(b"86400000"), Ok(DAY_MS));
        assert_eq!(wait_timeout(b"86400001"), Err(Fault::WaitTimeout));
        for word in ["", "+1", "-1", "1.0", "0x1", "1_0", "١"] {
            assert_eq!(ttl_text(word.as_bytes()), Err(Fault::Ttl), "{word}");
        }
        assert_eq!(cursor_offset(b"4294967295"), Ok(4_294_967_295));
        assert_eq!(cursor_offset(b"4294967296"), Err(Fault::CursorOffset));
        assert_eq!((limit(b"1"), limit(b"100")), (Ok(1), Ok(100)));
        assert_eq!((limit(b"0"), limit(b"101")), (Err(Fault::Limit), Err(Fault::Limit)));
    }

    #[test]
    fn a_priority_has_32_bits_and_a_sign() {
        assert_eq!(priority(None), Ok(0));
        assert_eq!(priority(Some(b"+7")), Ok(7));
        assert_eq!(priority(Some(b"-2147483648")), Ok(i32::MIN));
        assert_eq!(priority(Some(b"2147483647")), Ok(i32::MAX));
        for word in ["2147483648", "-2147483649", "4294967295", "-", "1.5", "\u{ff11}"] {
            assert_eq!(priority(Some(word.as_bytes())), Err(Fault::Priority), "{word}");
        }
    }

    #[test]
    fn a_size_is_known_to_be_too_large_however_large_it_is() {
        assert_eq!(size(b"0", 4), Size::Bytes(0));
        assert_eq!(size(b"+4", 4), Size::Bytes(4));
        assert_eq!(size(b"5", 4), Size::TooMany);
        assert_eq!(size(b"99999999999999999999999999", 4), Size::TooMany);
        for word in ["", "+", "-1", "*", "4x", "++4"] {
            assert_eq!(size(word.as_bytes(), 4), Size::Invalid, "{word}");
        }
    }
}
