//! `foretell model --reproduce`: a paper's tables and claims beside what the model computes.

use std::fmt::Write;

use anyhow::{Result, anyhow};
use foretell_analytic::published::{self, Claim, Reproduction};
use foretell_analytic::response::Breakdown;
use foretell_nearest::nearest;

use crate::terminal::say;

/// What `--reproduce` knows.
const PAPERS: &[&str] = &["shriver99"];

/// Computes the tables of `paper` and prints them, as JSON if wanted.
pub(super) fn execute(paper: &str, json: bool) -> Result<()> {
    if !PAPERS.contains(&paper) {
        let hint = nearest(paper, PAPERS.iter().copied()).unwrap_or(PAPERS[0]);
        return Err(anyhow!("--reproduce: no paper '{paper}'; did you mean '{hint}'?"));
    }
    let reproduction = published::reproduce()?;
    if json {
        say(&format!("{}\n", serde_json::to_string_pretty(&reproduction.rows)?));
    } else {
        say(&reproduction_table(&reproduction));
    }
    Ok(())
}

/// The tables, row by row, and the claims.
fn reproduction_table(reproduction: &Reproduction) -> String {
    let mut out = String::from(
        "Shriver, Small and Smith 1999: mean time of one read, in ms\n\n\
         table files request   file prefetch  measured     paper     model   error against\n         \
              KB     KB                                  measured  paper    where the model's time goes\n",
    );
    for row in &reproduction.rows {
        let _ = writeln!(
            out,
            "{:>5} {:>5} {:>7} {:>6} {:>8} {:>9.2} {:>9.2} {:>9.2}   {:>+7.1}% {:>+5.1}%   {}",
            row.table,
            row.files,
            row.request_kb,
            row.file_kb,
            if row.prefetch { "on" } else { "off" },
            row.measured_ms,
            row.paper_ms,
            row.model_ms,
            100.0 * row.error_measured(),
            100.0 * row.error_paper(),
            shares(&row.parts),
        );
    }
    let _ = writeln!(
        out,
        "\nmean error against the measurements: model {:.1}%, the paper's own computation {:.1}%\n\nclaims",
        100.0 * reproduction.mean_error_measured(),
        100.0 * reproduction.mean_error_of_paper(),
    );
    for claim in &reproduction.claims {
        render_claim(&mut out, claim);
    }
    out
}

fn render_claim(out: &mut String, claim: &Claim) {
    let verdict = if claim.reproduced() { "reproduced" } else { "NOT reproduced" };
    let _ = writeln!(
        out,
        "  {}: {}\n    published {}, model {}: {verdict}",
        claim.id,
        claim.what,
        percent_range(claim.paper_percent),
        percent_range(claim.model_percent),
    );
    let _ = writeln!(out, "    without {:>8.2} ms  {}", claim.without.total_ms(), shares(&claim.without));
    let with_ms = claim.with.total_ms() - claim.hidden_ms;
    let hidden = if claim.hidden_ms > 0.0 {
        format!("; {:.2} ms of it hidden by computation", claim.hidden_ms)
    } else {
        String::new()
    };
    let _ =
        writeln!(out, "    with    {with_ms:>8.2} ms  {}{hidden}\n    {}", shares(&claim.with), claim.note);
}

fn percent_range([low, high]: [f64; 2]) -> String {
    if high - low < 0.5 { format!("{high:.0}%") } else { format!("{low:.0}-{high:.0}%") }
}

/// The parts of a time, in percent; parts below half a percent are left out.
fn shares(parts: &Breakdown) -> String {
    let total_ms = parts.total_ms();
    let named = [
        ("overhead", parts.overhead_ms),
        ("seek", parts.seek_ms),
        ("return", parts.return_ms),
        ("rotation", parts.rotation_ms),
        ("transfer", parts.transfer_ms),
        ("file system", parts.file_system_ms),
    ];
    let named = named.iter().filter(|(_, ms)| *ms >= 0.005 * total_ms);
    named.map(|(what, ms)| format!("{what} {:.0}%", 100.0 * ms / total_ms)).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_every_row_and_claim() {
        let text = reproduction_table(&published::reproduce().unwrap());
        assert_eq!(text.lines().filter(|line| line.contains("  on ") || line.contains(" off ")).count(), 36);
        assert_eq!(text.matches(": reproduced").count() + text.matches(": NOT reproduced").count(), 6);
        assert!(text.contains("mean error against the measurements: model 4.0%"), "{text}");
    }

    #[test]
    fn json_has_the_promised_fields() {
        let rows = serde_json::to_value(published::reproduce().unwrap().rows).unwrap();
        let mut fields: Vec<_> = rows[35].as_object().unwrap().keys().cloned().collect();
        fields.sort();
        let promised =
            ["file_kb", "files", "measured_ms", "model_ms", "paper_ms", "prefetch", "request_kb", "table"];
        assert_eq!(fields, promised);
        assert_eq!(rows.as_array().unwrap().len(), 36);
    }

    #[test]
    fn an_unknown_paper_is_refused() {
        let error = execute("shriver9", false).unwrap_err().to_string();
        assert_eq!(error, "--reproduce: no paper 'shriver9'; did you mean 'shriver99'?");
    }
}
