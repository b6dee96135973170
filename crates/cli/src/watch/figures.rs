//! Numbers in few characters, and names that cannot harm a terminal.

/// A count in at most five characters: `9,999`, `12.3k`, `1.23M`.
#[must_use]
pub fn short(count: f64) -> String {
    if !count.is_finite() {
        return "-".to_owned();
    }
    if count < 9.95 && count.fract() > 0.0 {
        // A rate below ten: a digit more says whether anything happens at all.
        return format!("{count:.1}");
    }
    if count < 9999.5 {
        let count = count.round() as u64;
        return crate::report::thousands(count);
    }
    let mut value = count;
    let units = ["k", "M", "G", "T", "P", "E"];
    let mut unit = None;
    for next in units {
        if value < 999.5 {
            break;
        }
        value /= 1000.0;
        unit = Some(next);
    }
    let unit = unit.unwrap_or_default();
    if value < 9.995 {
        format!("{value:.2}{unit}")
    } else if value < 99.95 {
        format!("{value:.1}{unit}")
    } else {
        format!("{value:.0}{unit}")
    }
}

/// Bytes in at most five characters: `512`, `64.0M`, `1.50G`; powers of 1024.
#[must_use]
pub fn short_bytes(bytes: f64) -> String {
    let units = ["", "K", "M", "G", "T", "P", "E"];
    let mut value = bytes.max(0.0);
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 {
        format!("{value:.0}")
    } else if value < 9.995 {
        format!("{value:.2}{}", units[unit])
    } else if value < 99.95 {
        format!("{value:.1}{}", units[unit])
    } else {
        format!("{value:.0}{}", units[unit])
    }
}

/// A share in at most five characters: `99.9%`, `100%`. Only what is all of it is 100%, and only what is
/// nothing is 0%.
#[must_use]
pub fn percent(share: f64) -> String {
    match share * 100.0 {
        _ if share.is_nan() => "-".to_owned(),
        0.0 => "0%".to_owned(),
        p if p < 0.05 => "<0.1%".to_owned(),
        p if share < 1.0 && p >= 99.95 => "99.9%".to_owned(),
        p if p >= 99.95 => format!("{p:.0}%"),
        p => format!("{p:.1}%"),
    }
}

/// A part of a whole; nothing of nothing is no number.
#[must_use]
pub fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// A time in two units at most: `12 s`, `3 min 5 s`, `3 h 12 min`, `5 d 2 h`.
#[must_use]
pub fn span(seconds: f64) -> String {
    let s = seconds.max(0.0) as u64;
    let (minute, hour, day) = (60, 3600, 86_400);
    let both = |large: u64, a: &str, small: u64, b: &str| match small {
        0 => format!("{large} {a}"),
        _ => format!("{large} {a} {small} {b}"),
    };
    match s {
        s if s < minute => format!("{s} s"),
        s if s < hour => both(s / minute, "min", s % minute, "s"),
        s if s < day => both(s / hour, "h", s % hour / minute, "min"),
        s => both(s / day, "d", s % day / hour, "h"),
    }
}

/// A name as it may be shown: processes and files are named by whoever likes to, escape sequences and marks
/// that turn the direction of writing included.
#[must_use]
pub fn printable(name: &str) -> String {
    let harmful = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
    };
    name.replace(harmful, "?")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn counts_are_short() {
        for (count, text) in [
            (0.0, "0"),
            (0.26, "0.3"),
            (9.96, "10"),
            (12.0, "12"),
            (999.7, "1,000"),
            (9999.4, "9,999"),
            (9999.6, "10.0k"),
            (12_345.0, "12.3k"),
            (999_600.0, "1.00M"),
            (1_234_567.0, "1.23M"),
            (u64::MAX as f64, "18.4E"),
            (f64::NAN, "-"),
        ] {
            assert_eq!(short(count), text);
        }
    }

    #[test]
    fn bytes_are_short() {
        let texts = [0.0, 512.0, 1000.0, 65536.0, (64 << 20) as f64, 1.61e9, f64::from(u32::MAX) * 1e9];
        assert_eq!(texts.map(short_bytes), ["0", "512", "0.98K", "64.0K", "64.0M", "1.50G", "3.73E"]);
    }

    #[test]
    fn shares_do_not_round_to_what_they_are_not() {
        let texts = [0.0, 0.0001, 0.5, 0.99999, 1.0, 1.5].map(percent);
        assert_eq!(texts, ["0%", "<0.1%", "50.0%", "99.9%", "100%", "150%"]);
        assert_eq!((share(1, 4), share(0, 0)), (Some(0.25), None));
    }

    #[test]
    fn spans_have_two_units() {
        let texts = [0.4, 59.9, 185.0, 3600.0, 11_520.0, 439_200.0].map(span);
        assert_eq!(texts, ["0 s", "59 s", "3 min 5 s", "1 h", "3 h 12 min", "5 d 2 h"]);
    }

    #[test]
    fn names_are_harmless() {
        assert_eq!(printable("a\x1b[31m\nb\u{202e}c\u{9b}"), "a?[31m?b?c?");
        assert_eq!(printable("größe 図"), "größe 図");
    }

    proptest! {
        #[test]
        fn nothing_is_longer_than_its_column(count in 0_u64.., part in 0.0..100.0_f64) {
            prop_assert!(short(count as f64).len() <= 5);
            prop_assert!(short_bytes(count as f64).len() <= 5);
            prop_assert!(percent(part).len() <= 6);
        }
    }
}
