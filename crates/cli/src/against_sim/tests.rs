//! Model and simulator at all points.

use super::*;

#[test]
fn model_and_simulator_agree_everywhere() {
    let points = points().unwrap();
    assert!(points.len() >= 200);
    let compared: Vec<Compared> = points.iter().map(|point| compare(point).unwrap()).collect();
    for c in &compared {
        assert!(c.error().abs() <= 0.10, "{c:?}: {:+.1}%", 100.0 * c.error());
    }
    let mean = compared.iter().map(|c| c.error().abs()).sum::<f64>() / compared.len() as f64;
    assert!(mean <= 0.04, "mean error {:.1}%", 100.0 * mean);
    let text = table(&compared);
    assert!(text.contains("furthest apart"), "{text}");
    // All points are in the table, in the column before the mean error.
    let listed =
        text.lines().filter(|line| line.ends_with('%') && line.contains("  ") && !line.contains("ms,"));
    let points_of = |line: &str| line.split_whitespace().rev().nth(2).and_then(|n| n.parse::<usize>().ok());
    assert_eq!(listed.filter_map(points_of).sum::<usize>(), compared.len(), "{text}");
}
