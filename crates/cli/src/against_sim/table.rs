//! The comparison as text: a line a disk and pattern, then the points that are furthest apart.

use std::fmt::Write;

use super::Compared;

/// Points listed one by one.
const WORST: usize = 10;

/// The table, the summary and the worst points.
#[must_use]
pub fn table(compared: &[Compared]) -> String {
    let mut out = format!(
        "{:<28}{:<30}{:>8}{:>8}{:>13}{:>9}\n",
        "disk", "reads", "streams", "points", "mean error", "worst"
    );
    let mut rest = compared;
    while let Some(first) = rest.first() {
        let alike =
            |c: &&Compared| c.disk == first.disk && c.pattern == first.pattern && c.streams == first.streams;
        if compared.iter().position(|c| alike(&c)) == Some(compared.len() - rest.len()) {
            let group: Vec<&Compared> = compared.iter().filter(alike).collect();
            let worst = group.iter().max_by(|a, b| a.error().abs().total_cmp(&b.error().abs()));
            let _ = writeln!(
                out,
                "{:<28}{:<30}{:>8}{:>8}{:>12.2}%{:>+8.1}%",
                first.disk,
                first.pattern,
                first.streams,
                group.len(),
                100.0 * mean_error(&group),
                100.0 * worst.map_or(0.0, |c| c.error()),
            );
        }
        rest = &rest[1..];
    }
    let all: Vec<&Compared> = compared.iter().collect();
    let mut by_error = all.clone();
    by_error.sort_by(|a, b| b.error().abs().total_cmp(&a.error().abs()));
    let _ = writeln!(
        out,
        "\n{} points: mean error {:.2}%, at most {:.1}%\n\nfurthest apart",
        all.len(),
        100.0 * mean_error(&all),
        100.0 * by_error.first().map_or(0.0, |c| c.error().abs()),
    );
    for c in by_error.iter().take(WORST) {
        let _ = writeln!(
            out,
            "  {:<28}{:<30} x{} {:>3} KB {:>3} ms: model {:>9.0} ms, simulated {:>9.0} ms, {:+.1}%",
            c.disk,
            c.pattern,
            c.streams,
            c.request_kb,
            c.think_ms,
            c.model_ms,
            c.simulated_ms,
            100.0 * c.error(),
        );
    }
    let took = |us: fn(&Compared) -> f64| compared.iter().map(us).sum::<f64>() / compared.len().max(1) as f64;
    let _ = writeln!(
        out,
        "\na point took the model {:.0} us on average and the simulator {:.0} us",
        took(|c| c.model_took_us),
        took(|c| c.simulator_took_us),
    );
    out
}

fn mean_error(compared: &[&Compared]) -> f64 {
    compared.iter().map(|c| c.error().abs()).sum::<f64>() / compared.len().max(1) as f64
}
