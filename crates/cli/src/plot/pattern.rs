//! Access patterns as SVG: a panel a file, time to the right, the place in the file upwards. Reads and writes have a
//! colour each; it is the darker the more references a cell has, in [`SHADES`] steps of a logarithmic scale.

use foretell_trace::{Cell, FilePattern, Pattern, PatternShape};
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::prelude::*;

use super::braille::{end_of, rest, said};
use super::draw::{Bold, CARD, COMPUTE, Drawn, Failure, INK, LINE, SOFT, WAIT, style};
use super::panels::{bytes, ms};

/// Width of the picture, in user units.
const WIDTH: u32 = 960;
/// Height of a panel with its heading.
const PANEL_HEIGHT: u32 = 210;
/// Height of its heading.
const TITLE_HEIGHT: u32 = 26;
/// Space around the panels, above them for the heading, and below them for the files without one.
const GAP: u32 = 16;
const HEADING: u32 = 64;
const FOOT: u32 = 30;
/// Characters that fit beside each other at the size of the small text.
const LINE_CHARS: usize = 130;
/// Steps of a colour. Fewer could not show how often; more cannot be told from each other.
const SHADES: u32 = 3;
/// How much of its colour a cell with one reference has.
const LIGHTEST: f64 = 0.65;
/// References of a cell that may have the full colour, even if none has more.
const FULL: u32 = 16;

/// The grids of a picture: a cell is three units wide and one and a half high.
#[must_use]
pub fn picture_shape(files: usize) -> PatternShape {
    PatternShape { files, columns: 280, rows: 100 }
}

/// Draws a pattern that was counted with [`picture_shape`].
///
/// # Errors
/// Internal ones of the drawing library.
pub fn picture(pattern: &Pattern) -> Drawn {
    let panels = pattern.files.len() as u32;
    let size = (WIDTH, HEADING + panels * PANEL_HEIGHT + FOOT + GAP);
    let mut svg = String::new();
    draw(&mut svg, size, pattern).map_err(|e| e.to_string())?;
    Ok(svg)
}

fn draw(svg: &mut String, size: (u32, u32), pattern: &Pattern) -> Result<(), Failure> {
    let root = SVGBackend::with_string(svg, size).into_drawing_area();
    root.fill(&CARD)?;
    let left = GAP as i32;
    root.draw(&Text::new(end_of(&pattern.source, 80), (left, 12), style(22, &INK).style_bold()))?;
    let length = match pattern.clock_ns {
        Some((from, to)) => ms(to.saturating_sub(from) as f64 / 1e6),
        None => "time counted in references".to_owned(),
    };
    let below = format!("{} references, {length}", pattern.references);
    root.draw(&Text::new(below, (left, 40), style(13, &SOFT)))?;
    let mut x = WIDTH as i32 - 140;
    for (name, color) in [("read", COMPUTE), ("written", WAIT)] {
        root.draw(&Rectangle::new([(x, 40), (x + 12, 52)], color.filled()))?;
        root.draw(&Text::new(name, (x + 18, 40), style(13, &SOFT)))?;
        x += 62;
    }
    for (n, file) in pattern.files.iter().enumerate() {
        let top = HEADING + n as u32 * PANEL_HEIGHT;
        let cell = root.clone().shrink((GAP, top), (WIDTH - 2 * GAP, PANEL_HEIGHT));
        let title = end_of(&file.name, 70);
        cell.draw(&Text::new(title, (0, 6), style(15, &INK).style_bold()))?;
        let count = style(13, &SOFT).pos(plotters::style::text_anchor::Pos::new(
            plotters::style::text_anchor::HPos::Right,
            plotters::style::text_anchor::VPos::Top,
        ));
        cell.draw(&Text::new(said(file), ((WIDTH - 2 * GAP) as i32, 7), count))?;
        let area = cell.shrink((0, TITLE_HEIGHT), (WIDTH - 2 * GAP, PANEL_HEIGHT - TITLE_HEIGHT));
        panel(&area, file, pattern)?;
    }
    if let Some(rest) = rest(pattern, LINE_CHARS) {
        let y = HEADING + pattern.files.len() as u32 * PANEL_HEIGHT + 8;
        root.draw(&Text::new(rest, (left, y as i32), style(13, &SOFT)))?;
    }
    root.present()?;
    Ok(())
}

fn panel(
    area: &DrawingArea<SVGBackend, plotters::coord::Shift>,
    file: &FilePattern,
    pattern: &Pattern,
) -> Result<(), Failure> {
    // Of the axis: milliseconds, or references.
    let length = match pattern.clock_ns {
        Some((from, to)) => (to.saturating_sub(from).max(1)) as f64 / 1e6,
        None => pattern.ranges.max(1) as f64,
    };
    let (low, high) = (file.from_byte as f64, file.to_byte.max(file.from_byte + 1) as f64);
    let mut chart = ChartBuilder::on(area)
        .margin_right(8)
        .x_label_area_size(26)
        .y_label_area_size(72)
        .build_cartesian_2d(0.0..length, Upwards { from: low, to: high, labels: places(file) })?;
    let time = |at: &f64| if pattern.clock_ns.is_some() { ms(*at) } else { format!("{at:.0}") };
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(LINE)
        .axis_style(SOFT)
        .label_style(style(12, &SOFT))
        .x_labels(8)
        .y_labels(4)
        .x_label_formatter(&time)
        .y_label_formatter(&|at| bytes(*at))
        .draw()?;
    let columns = file.columns.max(1);
    let rows = file.cells.len() / columns;
    let most = file.cells.iter().map(|cell| cell.reads.max(cell.writes)).max().unwrap_or(1);
    let (width, height) = (length / columns as f64, (high - low) / rows.max(1) as f64);
    for (row, cells) in file.cells.chunks(columns).enumerate() {
        let (bottom, top) = (low + row as f64 * height, low + (row + 1) as f64 * height);
        let boxes = runs(cells, most).into_iter().map(|run| {
            let (from, to) = (run.from as f64 * width, run.to as f64 * width);
            Rectangle::new([(from, top), (to, bottom)], run.color.filled())
        });
        chart.draw_series(boxes)?;
    }
    Ok(())
}

/// The axis of places in a file, with labels of our own choice.
struct Upwards {
    from: f64,
    to: f64,
    labels: Vec<f64>,
}

impl Ranged for Upwards {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let share = (value - self.from) / (self.to - self.from).max(f64::MIN_POSITIVE);
        limit.0 + (share * f64::from(limit.1 - limit.0)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        // The finer ones have no lines.
        if hint.weight().allow_light_points() { Vec::new() } else { self.labels.clone() }
    }

    fn range(&self) -> std::ops::Range<f64> {
        self.from..self.to
    }
}

/// Round places in a file to be labelled, at most five: multiples of a power of two.
fn places(file: &FilePattern) -> Vec<f64> {
    let length = file.to_byte.saturating_sub(file.from_byte);
    let step = length.div_ceil(4).checked_next_power_of_two().unwrap_or(1 << 63).max(1);
    let first = file.from_byte.div_ceil(step);
    (first..=file.to_byte / step).map(|n| n as f64 * step as f64).collect()
}

/// Cells beside each other of one colour.
struct Run {
    from: usize,
    to: usize,
    color: RGBColor,
}

/// A row of cells as runs, so that a picture of many full cells stays small.
fn runs(cells: &[Cell], most: u32) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (at, cell) in cells.iter().enumerate() {
        let Some(color) = color(cell, most) else { continue };
        match runs.last_mut() {
            Some(last) if last.to == at && last.color == color => last.to = at + 1,
            _ => runs.push(Run { from: at, to: at + 1, color }),
        }
    }
    runs
}

/// The colour of a cell: that of what there is more of, writes where there are as many.
fn color(cell: &Cell, most: u32) -> Option<RGBColor> {
    let count = cell.reads.max(cell.writes);
    if count == 0 {
        return None;
    }
    let full = if cell.writes >= cell.reads { WAIT } else { COMPUTE };
    // One and two look the same: blocks that do not fall on whole cells make one of the other.
    let share = f64::from(count).ln() / f64::from(most.max(FULL)).ln();
    let step = (share * f64::from(SHADES)).floor().min(f64::from(SHADES - 1));
    Some(shade(full, step))
}

fn strength(step: f64) -> f64 {
    LIGHTEST + (1.0 - LIGHTEST) * step / f64::from(SHADES - 1)
}

fn shade(full: RGBColor, step: f64) -> RGBColor {
    let mix = |part: u8| (255.0 - (255.0 - f64::from(part)) * strength(step)).round() as u8;
    RGBColor(mix(full.0), mix(full.1), mix(full.2))
}

/// The colours between the full ones and the paper: each with the page's variable that it is made of, and how much.
pub(super) fn shades() -> Vec<(RGBColor, &'static str, f64)> {
    let steps = || (0..SHADES - 1).map(f64::from);
    let of = |full: RGBColor, name: &'static str| {
        steps().map(move |step| (shade(full, step), name, (1000.0 * strength(step)).round() / 10.0))
    };
    of(COMPUTE, "compute").chain(of(WAIT, "stall")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(counts: &[(u32, u32)]) -> Vec<Cell> {
        counts.iter().map(|&(reads, writes)| Cell { reads, writes }).collect()
    }

    #[test]
    fn equal_neighbours_are_one_run() {
        let row = cells(&[(1, 0), (1, 0), (0, 0), (1, 0), (9, 0), (0, 1)]);
        let runs: Vec<(usize, usize)> = runs(&row, 9).iter().map(|run| (run.from, run.to)).collect();
        assert_eq!(runs, [(0, 2), (3, 4), (4, 5), (5, 6)]);
    }

    #[test]
    fn labels_are_round_and_few() {
        let places = |from_byte, to_byte| {
            let (name, references, writes) = (String::new(), 0, 0);
            places(&FilePattern {
                name,
                references,
                writes,
                from_byte,
                to_byte,
                columns: 1,
                cells: Vec::new(),
            })
        };
        let kb = |n: &[u32]| n.iter().map(|n| f64::from(*n) * 1024.0).collect::<Vec<_>>();
        assert_eq!(places(0, 256 << 10), kb(&[0, 64, 128, 192, 256]));
        assert_eq!(places(100 << 10, 300 << 10), kb(&[128, 192, 256]));
        assert_eq!(places(5, 6), [5.0, 6.0]);
        assert!(places(0, u64::MAX).len() <= 5);
    }

    #[test]
    fn more_references_are_darker_and_the_most_have_the_full_colour() {
        let of = |reads, most| color(&Cell { reads, writes: 0 }, most).unwrap();
        assert_eq!((of(16, 16), of(100, 100)), (COMPUTE, COMPUTE));
        assert_eq!(of(1, 1), of(2, 2));
        let [light, middle, full] = [of(1, 100), of(10, 100), of(100, 100)];
        assert!(light.0 > middle.0 && middle.0 > full.0);
        assert_eq!(color(&Cell { reads: 1, writes: 1 }, 1), color(&Cell { reads: 0, writes: 1 }, 1));
        assert_eq!(color(&Cell { reads: 16, writes: 16 }, 1), Some(WAIT));
        assert_eq!(color(&Cell::default(), 1), None);
    }
}
