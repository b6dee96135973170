//! `foretell model --against-sim`: the model and the simulator at the same points.

use anyhow::Result;
use indicatif::ProgressBar;
use serde::Serialize;

use crate::against_sim::{Compared, compare, points, table};
use crate::terminal::say;

/// A point as JSON.
#[derive(Serialize)]
struct Row<'a> {
    #[serde(flatten)]
    compared: &'a Compared,
    error: f64,
}

/// Compares and prints.
pub(super) fn execute(json: bool) -> Result<()> {
    let points = points()?;
    let progress = ProgressBar::new(points.len() as u64);
    let compared = points.iter().map(compare).inspect(|_| progress.inc(1)).collect::<Result<Vec<_>>>()?;
    progress.finish_and_clear();
    if json {
        let rows: Vec<Row> =
            compared.iter().map(|compared| Row { error: compared.error(), compared }).collect();
        say(&format!("{}\n", serde_json::to_string_pretty(&rows)?));
    } else {
        say(&table(&compared));
    }
    Ok(())
}
