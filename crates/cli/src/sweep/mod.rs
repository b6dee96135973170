//! `foretell sim` apart from its flags: where references come from, and how results are shown.
//!
//! ```text
//! sources ──► Input or Survey ──► foretell_sim ──► Outcome ──► table | JSON | page (chart)
//! ```

pub mod baseline;
pub mod cache;
pub mod chart;
pub mod deployed;
pub(crate) mod flags;
pub mod page;
pub mod sources;
pub mod table;

/// Seconds with as many decimals as matter.
#[must_use]
pub fn seconds(s: f64) -> String {
    match s {
        s if s >= 1000.0 => format!("{s:.0}"),
        s if s >= 10.0 => format!("{s:.1}"),
        s if s >= 1.0 => format!("{s:.2}"),
        s if s > 0.0 => format!("{s:.3}"),
        _ => "0".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_can_be_read() {
        let shown: Vec<String> = [0.0, 0.1234, 1.234, 12.34, 1234.5].into_iter().map(seconds).collect();
        assert_eq!(shown, ["0", "0.123", "1.23", "12.3", "1234"]);
    }
}
