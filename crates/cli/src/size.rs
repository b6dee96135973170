//! Sizes as people write them: `64M`, `1.5GiB`, `65536`, `50%`.
//!
//! All units are powers of 1024, with or without `iB` or `B`: memory is counted so. A percentage is of
//! the memory that this process may use (the machine's, or its memory cgroup's limit if that is less).

use std::fmt;

/// An amount of memory, absolute or as a share of what there is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Size {
    /// Bytes.
    Bytes(u64),
    /// Percent of the memory that may be used, above 0 and at most 100.
    Percent(f64),
}

/// Why a size was not understood. The message names the text and what would do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SizeError {
    /// Not a number with one of the units.
    #[error("'{0}' is not a size; write bytes or a unit as in 64M, 1.5G or 50%")]
    Syntax(String),
    /// Zero, above 2^64 bytes, or above 100 %.
    #[error("'{0}' is out of range; write a size above 0 (and at most 100%)")]
    Range(String),
}

impl Size {
    /// Reads a size.
    pub fn parse(text: &str) -> Result<Size, SizeError> {
        let trimmed = text.trim();
        let digits = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
        let (number, unit) = trimmed.split_at(digits);
        let syntax = || SizeError::Syntax(text.to_owned());
        let range = || SizeError::Range(text.to_owned());
        let unit = unit.trim_start();
        if unit == "%" {
            let percent: f64 = number.parse().map_err(|_| syntax())?;
            return if percent > 0.0 && percent <= 100.0 { Ok(Size::Percent(percent)) } else { Err(range()) };
        }
        let shift = match unit.to_ascii_lowercase().as_str() {
            "" | "b" => 0,
            "k" | "kb" | "kib" => 10,
            "m" | "mb" | "mib" => 20,
            "g" | "gb" | "gib" => 30,
            "t" | "tb" | "tib" => 40,
            _ => return Err(syntax()),
        };
        let bytes = if number.contains('.') {
            let value: f64 = number.parse().map_err(|_| syntax())?;
            let bytes = value * (1u64 << shift) as f64;
            if bytes >= u64::MAX as f64 {
                return Err(range());
            }
            bytes as u64
        } else {
            if number.is_empty() {
                return Err(syntax());
            }
            let value: u64 = number.parse().map_err(|_| range())?;
            value.checked_mul(1 << shift).ok_or_else(range)?
        };
        if bytes == 0 { Err(range()) } else { Ok(Size::Bytes(bytes)) }
    }

    /// The size in bytes where `memory_bytes` may be used.
    #[must_use]
    pub fn bytes(self, memory_bytes: u64) -> u64 {
        match self {
            Size::Bytes(bytes) => bytes,
            Size::Percent(percent) => (memory_bytes as f64 * percent / 100.0) as u64,
        }
    }
}

impl fmt::Display for Size {
    /// Exact: the largest unit that leaves a whole number, so that reading it back gives the same size.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Size::Percent(percent) => write!(f, "{percent}%"),
            Size::Bytes(bytes) => {
                let units = [(40, "T"), (30, "G"), (20, "M"), (10, "K")];
                match units.iter().find(|(shift, _)| bytes != 0 && bytes % (1 << shift) == 0) {
                    Some((shift, unit)) => write!(f, "{}{unit}", bytes >> shift),
                    None => write!(f, "{bytes}"),
                }
            }
        }
    }
}

/// Bytes for people: three significant digits and a unit, `1.50 GiB`.
#[must_use]
pub fn human_bytes(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 {
        format!("{bytes} B")
    } else if value < 9.995 {
        format!("{value:.2} {}", units[unit])
    } else if value < 99.95 {
        format!("{value:.1} {}", units[unit])
    } else {
        format!("{value:.0} {}", units[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_are_read() {
        assert_eq!(Size::parse("64M"), Ok(Size::Bytes(64 << 20)));
        assert_eq!(Size::parse("64 MiB"), Ok(Size::Bytes(64 << 20)));
        assert_eq!(Size::parse("1.5g"), Ok(Size::Bytes(3 << 29)));
        assert_eq!(Size::parse("8192"), Ok(Size::Bytes(8192)));
        assert_eq!(Size::parse("50%"), Ok(Size::Percent(50.0)));
        assert_eq!(Size::Percent(25.0).bytes(1000), 250);
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in ["", "M", "64X", "1.2.3M", "-5", "ten"] {
            assert_eq!(Size::parse(text), Err(SizeError::Syntax(text.into())), "{text}");
        }
        for text in ["0", "0.0M", "101%", "0%", "99999999999999999999", "20000000T"] {
            assert_eq!(Size::parse(text), Err(SizeError::Range(text.into())), "{text}");
        }
    }

    #[test]
    fn people_read_three_digits() {
        assert_eq!(human_bytes(512), "512 B");
        assert_eq!(human_bytes(3 << 29), "1.50 GiB");
        assert_eq!(human_bytes(64 << 20), "64.0 MiB");
        assert_eq!(human_bytes(1023 << 20), "1.00 GiB");
    }

    proptest! {
        #[test]
        fn written_sizes_read_back(bytes in 1u64..) {
            prop_assert_eq!(Size::parse(&Size::Bytes(bytes).to_string()), Ok(Size::Bytes(bytes)));
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,20}") {
            let _ = Size::parse(&text);
        }
    }
}
