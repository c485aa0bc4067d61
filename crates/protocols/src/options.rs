//! What a listener's address may say after its `?`.

/// The options of one listener. A protocol reads those it knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// `dialect=document|original`: whether replies follow the document or the original server.
    pub dialect: Dialect,
    /// `heartbeat=3s`: how long a masenko client may be silent.
    pub heartbeat_ms: u64,
    /// `lease=5m`: how long a takeanumber reservation lasts; endless if not said.
    pub lease_ms: Option<u64>,
}

impl Default for Options {
    fn default() -> Self {
        Options { dialect: Dialect::Document, heartbeat_ms: 45_000, lease_ms: None }
    }
}

/// Which form a reply takes where a published client needs another than the document's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// As documented.
    Document,
    /// As the original server wrote it.
    Original,
}

/// Why a listener's options cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OptionError {
    /// No protocol of this listener knows it.
    Unknown(String),
    /// Its value makes no sense.
    Invalid {
        /// The option.
        name: String,
        /// What was said.
        value: String,
        /// What can be said.
        expected: &'static str,
    },
}

impl std::fmt::Display for OptionError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            OptionError::Unknown(name) => write!(f, "unknown option '{name}'"),
            OptionError::Invalid { name, value, expected } => {
                write!(f, "option '{name}' cannot be '{value}': expected {expected}")
            }
        }
    }
}

impl std::error::Error for OptionError {}

impl Options {
    /// Reads the text after `?`. `known` are the names that the listener's protocols know.
    ///
    /// # Errors
    /// If an option is unknown or its value makes no sense.
    pub fn parse(query: &str, known: &[&str]) -> Result<Self, OptionError> {
        let mut options = Options::default();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            if !known.contains(&name) {
                return Err(OptionError::Unknown(name.to_owned()));
            }
            let invalid = |expected| OptionError::Invalid { name: name.to_owned(), value: value.to_owned(), expected };
            match name {
                "dialect" => {
                    options.dialect = match value {
                        "document" => Dialect::Document,
                        "original" => Dialect::Original,
                        _ => return Err(invalid("'document' or 'original'")),
                    }
                }
                "heartbeat" => {
                    options.heartbeat_ms =
                        parse_duration_ms(value).ok_or_else(|| invalid("a time such as '3s', '500ms' or '2m'"))?;
                }
                "lease" => {
                    let lease_ms = parse_duration_ms(value).ok_or_else(|| invalid("a time such as '30s' or '5m'"))?;
                    options.lease_ms = Some(lease_ms);
                }
                _ => return Err(OptionError::Unknown(name.to_owned())),
            }
        }
        Ok(options)
    }
}

/// Reads `500ms`, `3s`, `5m`, `1h`: a whole number above zero and a unit.
#[must_use]
pub fn parse_duration_ms(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let count: u64 = text[..digits].parse().ok()?;
    let unit_ms = match &text[digits..] {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    count.checked_mul(unit_ms).filter(|&ms| ms > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read() {
        let options = Options::parse("dialect=original&heartbeat=3s&lease=5m", &["dialect", "heartbeat", "lease"]);
        let expected = Options { dialect: Dialect::Original, heartbeat_ms: 3_000, lease_ms: Some(300_000) };
        assert_eq!(options, Ok(expected));
    }

    #[test]
    fn an_option_that_no_protocol_of_the_listener_knows_is_an_error() {
        assert_eq!(Options::parse("heartbeat=3s", &["dialect"]), Err(OptionError::Unknown("heartbeat".into())));
    }

    #[test]
    fn a_value_that_makes_no_sense_is_an_error() {
        for query in ["dialect=", "dialect=other", "heartbeat=3", "heartbeat=0s", "lease=5 m", "lease=99999999999999h"]
        {
            let error = Options::parse(query, &["dialect", "heartbeat", "lease"]).unwrap_err();
            assert!(matches!(error, OptionError::Invalid { .. }), "{query}: {error}");
        }
    }
}
