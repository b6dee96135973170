//! The paper's stacked bars as SVG: one panel an array, one bar a policy, divided into compute, driver and
//! stall time, all on one scale; a line marks the lower bound.

use std::fmt::Write;

use foretell_sim::Outcome;

use super::page::escape;
use super::seconds;

/// Sizes in user units of the SVG (CSS pixels unless scaled).
const LABEL_WIDTH: f64 = 172.0;
const BAR_WIDTH: f64 = 300.0;
const VALUE_WIDTH: f64 = 62.0;
const ROW_HEIGHT: f64 = 24.0;
const BAR_HEIGHT: f64 = 15.0;
const AXIS_HEIGHT: f64 = 22.0;

/// A panel for the results of one array. `scale_s` is the elapsed time that fills the width.
#[must_use]
pub fn panel(outcomes: &[&Outcome], scale_s: f64) -> String {
    let rows = outcomes.len() as f64;
    let (width, height) = (LABEL_WIDTH + BAR_WIDTH + VALUE_WIDTH, rows * ROW_HEIGHT + AXIS_HEIGHT);
    let disks = outcomes.first().map_or(0, |o| o.disks);
    let mut svg = format!(
        "<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"Elapsed time on {disks} disks\">\n"
    );
    let x = |s: f64| LABEL_WIDTH + BAR_WIDTH * s / scale_s;
    let bottom = rows * ROW_HEIGHT;
    for tick in ticks(scale_s) {
        let at = x(tick);
        let _ = writeln!(
            svg,
            "<line class=\"grid\" x1=\"{at:.1}\" y1=\"0\" x2=\"{at:.1}\" y2=\"{bottom:.1}\"/>\
             <text class=\"tick\" x=\"{at:.1}\" y=\"{:.1}\">{tick}</text>",
            bottom + 15.0
        );
    }
    let fastest = outcomes.iter().map(|o| o.elapsed_ns).min();
    for (i, o) in outcomes.iter().enumerate() {
        bar(&mut svg, o, i as f64 * ROW_HEIGHT, &x, fastest == Some(o.elapsed_ns));
    }
    if let Some(bound) = outcomes.iter().find_map(|o| o.lower_bound_s) {
        let at = x(bound);
        let _ = writeln!(
            svg,
            "<line class=\"bound\" x1=\"{at:.1}\" y1=\"0\" x2=\"{at:.1}\" y2=\"{bottom:.1}\">\
             <title>lower bound: {} s</title></line>",
            seconds(bound)
        );
    }
    svg + "</svg>\n"
}

fn bar(svg: &mut String, o: &Outcome, top: f64, x: &impl Fn(f64) -> f64, fastest: bool) {
    let (y, middle) = (top + (ROW_HEIGHT - BAR_HEIGHT) / 2.0, top + ROW_HEIGHT / 2.0 + 4.0);
    let emphasis = if fastest { " best" } else { "" };
    let of = match o.processors {
        1 => String::new(),
        processors => format!(" × {processors} processors"),
    };
    let _ = write!(
        svg,
        "<g><title>{}: {} s{of} = {} compute + {} driver + {} stall; {} fetches</title>\
         <text class=\"label{emphasis}\" x=\"{:.1}\" y=\"{middle:.1}\">{}</text>",
        o.policy,
        seconds(o.elapsed_s),
        seconds(o.compute_s),
        seconds(o.driver_s),
        seconds(o.stall_s),
        o.fetches,
        LABEL_WIDTH - 8.0,
        escape(&o.policy.to_string())
    );
    let mut from = 0.0;
    for (class, part_s) in [("compute", o.compute_s), ("driver", o.driver_s), ("stall", o.stall_s)] {
        // Its mean over the processors, so that the parts are as long as the elapsed time together.
        let part_s = part_s / f64::from(o.processors);
        let width = x(from + part_s) - x(from);
        if width > 0.05 {
            let _ = write!(
                svg,
                "<rect class=\"{class}\" x=\"{:.2}\" y=\"{y:.1}\" width=\"{width:.2}\" height=\"{BAR_HEIGHT}\"/>",
                x(from)
            );
        }
        from += part_s;
    }
    let _ = writeln!(
        svg,
        "<text class=\"value{emphasis}\" x=\"{:.1}\" y=\"{middle:.1}\">{}</text></g>",
        x(o.elapsed_s) + 6.0,
        seconds(o.elapsed_s)
    );
}

/// Round numbers along the axis, three to six of them.
pub(crate) fn ticks(scale_s: f64) -> Vec<f64> {
    if !(scale_s.is_finite() && scale_s > 0.0) {
        return Vec::new();
    }
    let rough = scale_s / 5.0;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().map(|m| m * power).find(|s| *s >= rough);
    let step = step.unwrap_or(rough);
    // Rounded, because sums of decimal fractions are not exact.
    (0..=10)
        .map(|i| (f64::from(i) * step * 1e6).round() / 1e6)
        .take_while(|tick| *tick <= scale_s * 1.0001)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round() {
        assert_eq!(ticks(200.0), [0.0, 50.0, 100.0, 150.0, 200.0]);
        assert_eq!(ticks(0.9), [0.0, 0.2, 0.4, 0.6, 0.8]);
        assert_eq!(ticks(404.0), [0.0, 100.0, 200.0, 300.0, 400.0]);
        assert!(ticks(0.0).is_empty() && ticks(f64::NAN).is_empty());
    }
}
