//! A line's words: the verb, the arguments, the flags.

use super::fault::Fault;

/// A line, taken apart at its spaces.
#[derive(Debug)]
pub(super) struct Words<'a> {
    /// Everything before the first space.
    pub(super) verb: &'a [u8],
    arguments: Vec<&'a [u8]>,
    flags: Vec<(&'a [u8], &'a [u8])>,
}

impl<'a> Words<'a> {
    /// Takes `line` apart. Flags may stand anywhere, and a bad one is found before the verb is looked at: a line may even
    /// begin with one, though no flag is a verb.
    pub(super) fn split(line: &'a [u8]) -> Result<Self, Fault> {
        let split = || line.split(|&byte| byte == b' ');
        let mut arguments = Vec::new();
        let mut flags = Vec::new();
        for (place, word) in split().enumerate() {
            match split_flag(word) {
                Some((b"", _) | (_, b"")) => return Err(Fault::Flags),
                Some(flag) => flags.push(flag),
                None if place == 0 || word.is_empty() => {}
                None => arguments.push(word),
            }
        }
        let mut keys: Vec<_> = flags.iter().map(|&(key, _)| key).collect();
        keys.sort_unstable();
        if keys.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(Fault::Flags);
        }
        Ok(Words { verb: split().next().unwrap_or_default(), arguments, flags })
    }

    /// The arguments, of which there must be `N`.
    pub(super) fn exactly<const N: usize>(&self) -> Result<[&'a [u8]; N], Fault> {
        self.arguments.as_slice().try_into().map_err(|_| Fault::Arguments)
    }

    /// The first arguments and the last, of which there must be one each at least.
    pub(super) fn all_and_last(&self) -> Result<(&[&'a [u8]], &'a [u8]), Fault> {
        match self.arguments.as_slice() {
            [all @ .., last] if !all.is_empty() => Ok((all, last)),
            _ => Err(Fault::Arguments),
        }
    }

    /// The first argument.
    pub(super) fn first(&self) -> Result<&'a [u8], Fault> {
        self.arguments.first().copied().ok_or(Fault::Arguments)
    }

    /// Refuses more flags than the verb knows.
    pub(super) fn flags_at_most(&self, count: usize) -> Result<(), Fault> {
        if self.flags.len() <= count { Ok(()) } else { Err(Fault::Arguments) }
    }

    /// A flag's value.
    pub(super) fn flag(&self, key: &[u8]) -> Option<&'a [u8]> {
        self.flags.iter().find(|flag| flag.0 == key).map(|flag| flag.1)
    }
}

/// Takes `-key=value` apart; `None` if the word is no flag. A value ends where another `=` begins, as it does for the
/// original: what follows is dropped.
fn split_flag(word: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut parts = word.strip_prefix(b"-")?.split(|&byte| byte == b'=');
    let (key, value) = (parts.next()?, parts.next()?);
    Some((key, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_at_spaces_and_empty_ones_skipped() {
        let words = Words::split(b"lease  a   b 10 ").unwrap();
        assert_eq!(words.verb, b"lease");
        assert_eq!(words.exactly(), Ok([b"a" as &[u8], b"b", b"10"]));
        assert_eq!(words.exactly::<2>(), Err(Fault::Arguments));
    }

    #[test]
    fn a_verb_is_what_stands_before_the_first_space() {
        assert_eq!(Words::split(b" add").unwrap().verb, b"");
        assert_eq!(Words::split(b"").unwrap().verb, b"");
        assert_eq!(Words::split(b"-a=1 add").unwrap().verb, b"-a=1");
    }

    #[test]
    fn flags_stand_anywhere_and_are_no_arguments() {
        let words = Words::split(b"add -x=1 id -max-fails=2 name -y --z=3=4").unwrap();
        assert_eq!(words.exactly(), Ok([b"id" as &[u8], b"name", b"-y"]));
        assert_eq!(words.flag(b"max-fails"), Some(b"2" as &[u8]));
        assert_eq!(words.flag(b"-z"), Some(b"3" as &[u8]), "a value ends at the second '='");
        assert_eq!(words.flag(b"y"), None);
        assert_eq!(words.flags_at_most(3), Ok(()));
        assert_eq!(words.flags_at_most(2), Err(Fault::Arguments));
    }

    #[test]
    fn a_flag_needs_a_key_and_a_value_once() {
        for line in [
            "add -=1",
            "add -a=",
            "add -=",
            "add -a==",
            "add -a==1",
            "add -==1",
            "add -a=1 -b=2 -a=3",
            "-a=",
            "-a= add",
            "-=1 add",
            "-a=1 -a=1",
        ] {
            assert_eq!(Words::split(line.as_bytes()).unwrap_err(), Fault::Flags, "{line}");
        }
    }
}
