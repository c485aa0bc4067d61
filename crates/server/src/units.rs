//! Times and sizes as people write them: `5s`, `512MiB`.

use std::str::FromStr;

use anyhow::{Context, Result, anyhow};
use jobyard_protocols::parse_duration_ms;

/// A time in milliseconds, written `500ms`, `5s`, `2m` or `1h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Millis(pub u64);

impl FromStr for Millis {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Millis> {
        let millis = parse_duration_ms(text);
        millis.map(Millis).ok_or_else(|| anyhow!("'{text}' is no time: expected one such as 500ms, 5s, 2m or 1h"))
    }
}

/// A number of bytes, written `65536`, `512MiB`, `16M` (the same as MiB) or `4GB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes(pub usize);

impl FromStr for Bytes {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Bytes> {
        parse_bytes(text)
            .map(Bytes)
            .with_context(|| format!("'{text}' is no size: expected one such as 512MiB or 4GiB"))
    }
}

fn parse_bytes(text: &str) -> Option<usize> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let count: usize = text[..digits].parse().ok()?;
    let unit: usize = match text[digits..].trim_start().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return None,
    };
    count.checked_mul(unit).filter(|&bytes| bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        for (text, bytes) in
            [("1", 1), ("65536", 65_536), ("512MiB", 512 << 20), ("4 GiB", 4 << 30), ("3kb", 3_000), ("16M", 16 << 20)]
        {
            assert_eq!(text.parse::<Bytes>().unwrap(), Bytes(bytes), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_or_no_time_is_refused() {
        for text in ["", "0", "-1", "1.5GiB", "GiB", "1 potato", "99999999999TiB"] {
            assert!(text.parse::<Bytes>().is_err(), "{text}");
        }
        for text in ["", "5", "0s", "-1s", "1.5s", "s"] {
            assert!(text.parse::<Millis>().is_err(), "{text}");
        }
    }
}
