//! What the cells amount to: a table, geometric means, those that are slower.

use std::collections::BTreeSet;

use comfy_table::{CellAlignment, Table, presets};

use super::nights::{Cell, KERNEL_CHANGED, KERNELS, NIGHTS, READ_AHEADS_KB, Run};
use super::wanted::Device;
use crate::outcome::{Outcome, Verdict};

/// A night may take this much of the plain kernel's time.
const MOST: f64 = 1.02;
/// The share of what is read for which there are targets, per cent.
const AIMED_AT: u64 = 50;

/// How much quicker the second nights of a device must be, than the plain kernel and than the best of three.
const fn targets(device: Device) -> (f64, Option<f64>) {
    match device {
        Device::Cloud => (2.5, Some(1.8)),
        Device::Disk => (1.8, Some(1.5)),
        Device::Own => (1.1, None),
    }
}

/// A cell, in medians.
#[derive(Debug)]
pub(super) struct Row<'c> {
    cell: &'c Cell,
    kernels_s: [f64; KERNELS.len()],
    changed_s: Option<f64>,
    nights_s: [Option<f64>; NIGHTS.len()],
    /// What the device read for the plain kernel, with the changed job, and on each night.
    plain_mib: f64,
    changed_mib: Option<f64>,
    nights_mib: [Option<f64>; NIGHTS.len()],
}

/// The cells that were measured.
pub(super) fn rows<'c>(cells: &'c [Cell], outcome: &Outcome) -> Vec<Row<'c>> {
    let row = |cell: &'c Cell| {
        let name = cell.name();
        let median = |metric: &str| outcome.median(&name, metric);
        let [first, second, third] = KERNELS.map(|run| median(run.seconds));
        Some(Row {
            cell,
            kernels_s: [first?, second?, third?],
            changed_s: median(KERNEL_CHANGED.seconds),
            nights_s: NIGHTS.map(|run| median(run.seconds)),
            plain_mib: median(KERNELS[0].mib)?,
            changed_mib: median(KERNEL_CHANGED.mib),
            nights_mib: NIGHTS.map(|run| median(run.mib)),
        })
    };
    cells.iter().filter_map(row).collect()
}

impl Row<'_> {
    fn plain_s(&self) -> f64 {
        self.kernels_s[0]
    }

    /// The quickest of the kernel's runs, and its readahead, KiB.
    fn best(&self) -> (f64, u32) {
        let runs = self.kernels_s.into_iter().zip(READ_AHEADS_KB);
        runs.min_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or((f64::NAN, 0))
    }

    /// How much quicker a night was than the plain kernel with the same job.
    fn gain(&self, night: usize) -> Option<f64> {
        let kernel_s = if night == 2 { self.changed_s? } else { self.plain_s() };
        Some(kernel_s / self.nights_s[night]?)
    }

    /// How much quicker the second night was than the best of the kernel's runs.
    fn gain_on_best(&self) -> Option<f64> {
        Some(self.best().0 / self.nights_s[1]?)
    }
}

/// A night that took too long.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slower<'c> {
    pub(super) cell: &'c Cell,
    pub(super) run: Run,
    /// Its time, of the plain kernel's.
    pub(super) share: f64,
    pub(super) kernel_mib: f64,
    pub(super) mib: f64,
}

/// Those that took more than [`MOST`] of the plain kernel's time.
pub(super) fn slower<'c>(rows: &[Row<'c>]) -> Vec<Slower<'c>> {
    let nights =
        rows.iter().flat_map(|row| NIGHTS.into_iter().enumerate().map(move |(night, run)| (row, night, run)));
    let slower = nights.filter_map(|(row, night, run)| {
        let (share, mib) = (1.0 / row.gain(night)?, row.nights_mib[night]?);
        let kernel_mib = if night == 2 { row.changed_mib? } else { row.plain_mib };
        (share > MOST).then_some(Slower { cell: row.cell, run, share, kernel_mib, mib })
    });
    slower.collect()
}

/// `None` of no values.
fn geometric_mean(values: &[f64]) -> Option<f64> {
    let sum: f64 = values.iter().map(|value| value.ln()).sum();
    (!values.is_empty()).then(|| (sum / values.len() as f64).exp())
}

/// How much quicker the second nights of a device and memory are than a kernel, in the mean.
struct Mean {
    what: String,
    value: f64,
    target: Option<f64>,
}

fn means(rows: &[Row]) -> Vec<Mean> {
    let mut means = Vec::new();
    let kinds: BTreeSet<_> = rows.iter().map(|row| (row.cell.device, row.cell.per_cent)).collect();
    for (device, per_cent) in kinds {
        let of_kind = || rows.iter().filter(|row| (row.cell.device, row.cell.per_cent) == (device, per_cent));
        let (plain, best) = targets(device);
        let gains: Vec<f64> = of_kind().filter_map(|row| row.gain(1)).collect();
        let on_best: Vec<f64> = of_kind().filter_map(Row::gain_on_best).collect();
        for (gains, kernel, target) in
            [(gains, "the plain kernel", Some(plain)), (on_best, "the best of three kernels", best)]
        {
            let Some(value) = geometric_mean(&gains) else { continue };
            let target = target.filter(|_| per_cent == AIMED_AT || device == Device::Own);
            let (device, programs) = (device.name(), gains.len());
            let what = format!(
                "{device}, {per_cent}%: night 2, geometric mean of {programs}, times as quick as {kernel}"
            );
            means.push(Mean { what, value, target });
        }
    }
    means
}

/// The means for which there are no targets, a line each.
pub(super) fn further_means(rows: &[Row]) -> Vec<String> {
    let further = means(rows).into_iter().filter(|mean| mean.target.is_none());
    further.map(|mean| format!("{}: {:.2}", mean.what, mean.value)).collect()
}

/// The means for which there are targets, and how many nights are slower.
pub(super) fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let aimed = means(rows).into_iter();
    let aimed = aimed.filter_map(|mean| Some(Verdict::at_least(mean.what, mean.value, mean.target?)));
    let mut verdicts: Vec<Verdict> = aimed.collect();
    let nights = rows.iter().flat_map(|row| (0..NIGHTS.len()).filter_map(|night| row.gain(night))).count();
    let slower = slower(rows).len() as f64;
    verdicts.push(Verdict::at_most(
        format!("nights of {nights} slower than the plain kernel by more than 2%"),
        slower,
        0.0,
    ));
    verdicts
}

/// A row each cell: seconds of the kernel, how much quicker the nights were, MiB that the device read.
pub(super) fn table(rows: &[Row]) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    let mut header =
        vec!["program: device, memory".to_owned(), "kernel s".to_owned(), "best s (KiB)".to_owned()];
    header.extend(NIGHTS.map(|run| run.name.to_owned()));
    header.extend(["on best", "kernel MiB", "night 1", "night 2", "night 3"].map(str::to_owned));
    table.set_header(header);
    let times = |gain: Option<f64>| match gain {
        Some(gain) => format!("{gain:.2}x{}", if 1.0 / gain > MOST { " !" } else { "" }),
        None => "-".to_owned(),
    };
    for row in rows {
        let (best_s, best_kb) = row.best();
        let mut cells =
            vec![row.cell.name(), format!("{:.2}", row.plain_s()), format!("{best_s:.2} ({best_kb})")];
        cells.extend((0..NIGHTS.len()).map(|night| times(row.gain(night))));
        cells.push(row.gain_on_best().map_or("-".to_owned(), |gain| format!("{gain:.2}x")));
        cells.push(format!("{:.0}", row.plain_mib));
        cells.extend(row.nights_mib.map(|mib| mib.map_or("-".to_owned(), |mib| format!("{mib:.0}"))));
        table.add_row(cells);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    format!("{table}\n  x: times as quick as the plain kernel with the same job; !: slower by more than 2%")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::suite::programs::PROGRAMS;

    fn cell(at: usize) -> Cell {
        Cell { program: &PROGRAMS[at], device: Device::Cloud, per_cent: 50 }
    }

    /// A cell with 4 s of the plain kernel, 2 s of the best one, and 3 s of the changed job.
    fn row(cell: &Cell, nights_s: [Option<f64>; 3]) -> Row<'_> {
        let nights_mib = [Some(100.0), Some(50.0), Some(80.0)];
        Row {
            cell,
            kernels_s: [4.0, 2.0, 2.5],
            changed_s: Some(3.0),
            nights_s,
            plain_mib: 100.0,
            changed_mib: Some(90.0),
            nights_mib,
        }
    }

    #[test]
    fn means_are_geometric() {
        assert!((geometric_mean(&[1.0, 4.0]).unwrap() - 2.0).abs() < 1e-12);
        assert!((geometric_mean(&[0.5, 2.0, 8.0]).unwrap() - 2.0).abs() < 1e-12);
        assert_eq!(geometric_mean(&[]), None);
    }

    #[test]
    fn each_night_is_compared_with_the_same_job() {
        let cell = cell(0);
        let row = row(&cell, [Some(4.0), Some(1.0), Some(1.5)]);
        assert_eq!(row.best(), (2.0, 1024));
        assert_eq!([row.gain(0), row.gain(1), row.gain(2)], [Some(1.0), Some(4.0), Some(2.0)]);
        assert_eq!(row.gain_on_best(), Some(2.0));
    }

    #[test]
    fn only_more_than_two_per_cent_is_slower() {
        let (first, second) = (cell(0), cell(1));
        let rows =
            [row(&first, [Some(4.07), Some(4.09), Some(3.0)]), row(&second, [Some(1.0), None, Some(3.3)])];
        let found: Vec<_> =
            slower(&rows).iter().map(|slower| (slower.cell.name(), slower.run.name)).collect();
        assert_eq!(found, [(first.name(), "night 2"), (second.name(), "night 3")]);
        let text = table(&rows);
        assert_eq!(text.matches("x !").count(), 2, "{text}");
    }

    #[test]
    fn targets_are_met_or_not() {
        let (first, second) = (cell(0), cell(1));
        let quick = [row(&first, [Some(4.0), Some(1.0), None]), row(&second, [Some(4.0), Some(1.0), None])];
        let met: Vec<(f64, bool)> =
            verdicts(&quick).iter().map(|verdict| (verdict.value, verdict.met)).collect();
        assert_eq!(met, [(4.0, true), (2.0, true), (0.0, true)]);
        let slow = [row(&first, [Some(4.0), Some(2.0), Some(4.0)])];
        let met: Vec<bool> = verdicts(&slow).iter().map(|verdict| verdict.met).collect();
        assert_eq!(met, [false, false, false]);
        assert!(further_means(&slow).is_empty());
    }

    #[test]
    fn what_is_not_aimed_at_is_neither_met_nor_missed() {
        let cell = Cell { per_cent: 25, ..cell(0) };
        let rows = [row(&cell, [Some(4.0), Some(1.0), None])];
        assert_eq!(verdicts(&rows).len(), 1);
        assert_eq!(further_means(&rows).len(), 2);
    }
}
