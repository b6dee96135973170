//! How long the arm takes to move.
//!
//! A short seek accelerates half the way and brakes for the other half, so its time grows with the square
//! root of the distance; a long one coasts at full speed, so it grows linearly (Ruemmler and Wilkes 1994).
//! Every published curve of the drives here is a case of
//! `constant + sqrt_factor sqrt(d) + linear_factor d`, with one set of terms up to a distance and another
//! one beyond it.

use serde::Deserialize;

/// `constant_ms + sqrt_ms sqrt(d) + linear_ms d` for a distance of d cylinders.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeekTerms {
    /// Start, stop and settling, in ms.
    pub constant_ms: f64,
    /// ms for each square root of a cylinder.
    #[serde(default)]
    pub sqrt_ms: f64,
    /// ms for each cylinder.
    #[serde(default)]
    pub linear_ms: f64,
}

impl SeekTerms {
    fn at_ms(&self, distance: f64) -> f64 {
        self.constant_ms + self.sqrt_ms * distance.sqrt() + self.linear_ms * distance
    }
}

/// Seek time as a function of the distance in cylinders; 0 for distance 0.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeekCurve {
    /// The longest distance, in cylinders, that `short` holds for. Without `long` it holds for all.
    #[serde(default)]
    pub short_until_cylinders: Option<u32>,
    /// Seeks of up to that distance.
    pub short: SeekTerms,
    /// Longer seeks.
    #[serde(default)]
    pub long: Option<SeekTerms>,
    /// The seek to the next cylinder where it was measured apart, in ms.
    #[serde(default)]
    pub single_cylinder_ms: Option<f64>,
}

impl SeekCurve {
    /// Seek time over `distance` cylinders, in ms.
    #[must_use]
    pub fn at_ms(&self, distance: u32) -> f64 {
        match (distance, self.single_cylinder_ms) {
            (0, _) => return 0.0,
            (1, Some(ms)) => return ms,
            _ => {}
        }
        let terms = match (self.short_until_cylinders, &self.long) {
            (Some(until), Some(long)) if distance > until => long,
            _ => &self.short,
        };
        terms.at_ms(f64::from(distance))
    }

    /// Seek time over `distance` cylinders, in ns.
    #[must_use]
    pub fn at_ns(&self, distance: u32) -> u64 {
        (self.at_ms(distance) * 1e6 + 0.5) as u64
    }

    /// The mean over two cylinders drawn independently and uniformly from `cylinders`, in ms (seeks of
    /// distance 0 included).
    #[must_use]
    pub fn mean_ms(&self, cylinders: u32) -> f64 {
        let n = f64::from(cylinders);
        // 2 (n - d) of the n^2 ordered pairs are d > 0 apart.
        (1..cylinders).map(|d| 2.0 * (n - f64::from(d)) * self.at_ms(d)).sum::<f64>() / (n * n)
    }

    /// The first distance below `cylinders` at which the curve is negative, not a number or falls: no arm
    /// is faster to go further, and shortest-positioning-time scheduling relies on it.
    #[must_use]
    pub fn first_fall(&self, cylinders: u32) -> Option<u32> {
        let mut before = 0.0;
        for distance in 1..cylinders {
            let ms = self.at_ms(distance);
            if !ms.is_finite() || ms < before {
                return Some(distance);
            }
            before = ms;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hp97560() -> SeekCurve {
        SeekCurve {
            short_until_cylinders: Some(383),
            short: SeekTerms { constant_ms: 3.24, sqrt_ms: 0.4, linear_ms: 0.0 },
            long: Some(SeekTerms { constant_ms: 8.0, sqrt_ms: 0.0, linear_ms: 0.008 }),
            single_cylinder_ms: None,
        }
    }

    #[test]
    fn a_hundred_cylinders_take_7_24_ms() {
        assert_eq!(hp97560().at_ns(100), 7_240_000);
        assert_eq!(hp97560().at_ns(0), 0);
        assert_eq!(hp97560().at_ns(1), 3_640_000);
        assert_eq!(hp97560().at_ns(1000), 16_000_000);
    }

    #[test]
    fn the_long_branch_starts_after_383() {
        assert!((hp97560().at_ms(383) - (3.24 + 0.4 * 383f64.sqrt())).abs() < 1e-12);
        assert!((hp97560().at_ms(384) - (8.0 + 0.008 * 384.0)).abs() < 1e-12);
    }

    #[test]
    fn the_mean_seek_is_12_8_ms() {
        assert!((hp97560().mean_ms(1962) - 12.8).abs() < 0.1, "{}", hp97560().mean_ms(1962));
    }

    #[test]
    fn a_single_cylinder_can_be_set_apart() {
        let curve = SeekCurve { single_cylinder_ms: Some(0.5), ..hp97560() };
        assert_eq!((curve.at_ns(1), curve.at_ns(2)), (500_000, hp97560().at_ns(2)));
    }

    #[test]
    fn a_falling_curve_is_found() {
        assert_eq!(hp97560().first_fall(1962), None);
        let short = SeekTerms { constant_ms: 5.0, sqrt_ms: 0.0, linear_ms: -1.0 };
        let falling = SeekCurve { short, long: None, short_until_cylinders: None, single_cylinder_ms: None };
        assert_eq!(falling.first_fall(100), Some(2));
    }
}
