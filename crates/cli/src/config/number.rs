//! A number that the model may choose: `62` or `auto`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A number, or the model's choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "give a number from 0 to 4294967295 or \"auto\"")]
pub enum Number {
    /// This one.
    Is(u32),
    /// What the model of the device says.
    Chosen(Auto),
}

/// The word for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Auto {
    /// `auto`
    Auto,
}

impl Number {
    /// Chosen by the model.
    pub const AUTO: Number = Number::Chosen(Auto::Auto);

    /// The number, with what the model chose.
    #[must_use]
    pub fn or_chosen(self, chosen: u32) -> u32 {
        match self {
            Number::Is(number) => number,
            Number::Chosen(Auto::Auto) => chosen,
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Number::Is(number) => number.fmt(f),
            Number::Chosen(Auto::Auto) => f.write_str("auto"),
        }
    }
}

/// Neither a number nor the word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("neither a number nor 'auto'")]
pub struct NotANumber;

impl FromStr for Number {
    type Err = NotANumber;

    fn from_str(text: &str) -> Result<Number, NotANumber> {
        if text == "auto" {
            return Ok(Number::AUTO);
        }
        text.parse().map(Number::Is).map_err(|_| NotANumber)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_the_word() {
        assert_eq!(("62".parse(), "auto".parse()), (Ok(Number::Is(62)), Ok(Number::AUTO)));
        assert_eq!("-1".parse::<Number>(), Err(NotANumber));
        assert_eq!((Number::Is(3).or_chosen(7), Number::AUTO.or_chosen(7)), (3, 7));
        assert_eq!(Number::AUTO.to_string(), "auto");
    }
}
