//! Panels as SVG, drawn with plotters.
//!
//! Colours are those of the page of `foretell sim` in daylight; a page replaces them by its variables, so
//! that they follow the reader's scheme. Widths of text are estimates, as no font is asked.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::panels::{Bar, Curve, Panel, Shown, Step, bytes, ms};

/// Width and height of a panel, in user units.
pub(crate) const PANEL: (u32, u32) = (600, 340);
/// Space between panels of a sheet, and above them for the heading.
const GAP: u32 = 16;
const HEADING: u32 = 64;

pub(crate) const CARD: RGBColor = RGBColor(0xff, 0xff, 0xff);
pub(crate) const INK: RGBColor = RGBColor(0x1d, 0x24, 0x30);
pub(crate) const SOFT: RGBColor = RGBColor(0x5b, 0x66, 0x75);
pub(crate) const LINE: RGBColor = RGBColor(0xdf, 0xe2, 0xe6);
pub(crate) const COMPUTE: RGBColor = RGBColor(0x3f, 0x6f, 0xa3);
pub(crate) const COMPUTED: RGBColor = RGBColor(0xc9, 0xd7, 0xe6);
pub(crate) const SAVED: RGBColor = RGBColor(0xe0, 0xa0, 0x30);
pub(crate) const WAIT: RGBColor = RGBColor(0xc4, 0x51, 0x3f);

/// Why nothing was drawn: only writing to memory can fail here.
pub(crate) type Drawn = Result<String, String>;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
pub(super) type Failure = Box<dyn std::error::Error>;

/// A panel without its title, for a page that has its own.
pub(crate) fn panel_svg(panel: &Panel) -> Drawn {
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, PANEL).into_drawing_area();
        draw(&root, panel).and_then(|()| Ok(root.present()?)).map_err(|e| e.to_string())?;
    }
    Ok(svg)
}

/// All panels on one sheet, two beside each other, under a heading.
pub(crate) fn sheet_svg(heading: &str, below: &str, panels: &[Panel]) -> Drawn {
    let columns = 2.min(panels.len() as u32).max(1);
    let rows = (panels.len() as u32).div_ceil(columns);
    let (width, height) = (PANEL.0, PANEL.1 + 30);
    let size = (GAP + columns * (width + GAP), HEADING + rows * (height + GAP));
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        sheet(&root, heading, below, panels, columns).map_err(|e| e.to_string())?;
    }
    Ok(svg)
}

fn sheet(root: &Area, heading: &str, below: &str, panels: &[Panel], columns: u32) -> Result<(), Failure> {
    root.fill(&CARD)?;
    root.draw(&Text::new(heading.to_owned(), (GAP as i32, 12), style(22, &INK).style_bold()))?;
    root.draw(&Text::new(below.to_owned(), (GAP as i32, 40), style(13, &SOFT)))?;
    let (width, height) = (PANEL.0, PANEL.1 + 30);
    for (i, panel) in panels.iter().enumerate() {
        let (column, row) = (i as u32 % columns, i as u32 / columns);
        let (x, y) = (GAP + column * (width + GAP), HEADING + row * (height + GAP));
        let cell = root.clone().shrink((x, y), (width, height));
        cell.draw(&Text::new(panel.title.clone(), (0, 6), style(15, &INK).style_bold()))?;
        draw(&cell.shrink((0, 30), PANEL), panel)?;
    }
    root.present()?;
    Ok(())
}

pub(super) trait Bold<'a> {
    fn style_bold(self) -> TextStyle<'a>;
}

impl<'a> Bold<'a> for TextStyle<'a> {
    fn style_bold(self) -> TextStyle<'a> {
        TextStyle { font: self.font.style(FontStyle::Bold), ..self }
    }
}

pub(super) fn style(size: i32, color: &RGBColor) -> TextStyle<'static> {
    TextStyle { color: color.to_backend_color(), ..TextStyle::from(("sans-serif", size).into_font()) }
}

fn placed(size: i32, color: &RGBColor, h: HPos, v: VPos) -> TextStyle<'static> {
    style(size, color).pos(Pos::new(h, v))
}

fn draw(area: &Area, panel: &Panel) -> Result<(), Failure> {
    match &panel.shown {
        Shown::Steps(steps) => draw_steps(area, steps),
        Shown::Bars(bars) => draw_bars(area, bars),
        Shown::Curve(curve) => draw_curve(area, curve),
    }
}

/// Sizes of bar charts.
const NAME_WIDTH: i32 = 168;
const VALUE_WIDTH: i32 = 92;
const LEGEND_HEIGHT: i32 = 30;
const MOST_BAR: i32 = 26;

/// Rows of bars from the left, with names before and values behind.
struct Rows {
    left: i32,
    width: i32,
    top: i32,
    pitch: i32,
    scale_ms: f64,
}

impl Rows {
    fn new(area: &Area, rows: usize, scale_ms: f64) -> Rows {
        let (width, height) = area.dim_in_pixel();
        let pitch = ((height as i32 - LEGEND_HEIGHT - 8) / rows.max(1) as i32).min(56);
        Rows { left: NAME_WIDTH, width: width as i32 - NAME_WIDTH - VALUE_WIDTH, top: 4, pitch, scale_ms }
    }

    fn x(&self, ms: f64) -> i32 {
        self.left + (f64::from(self.width) * ms / self.scale_ms.max(f64::MIN_POSITIVE)).round() as i32
    }

    fn middle(&self, row: usize) -> i32 {
        self.top + row as i32 * self.pitch + self.pitch / 2
    }

    fn bar(
        &self,
        area: &Area,
        row: usize,
        from_ms: f64,
        to_ms: f64,
        color: &RGBColor,
    ) -> Result<(), Failure> {
        let half = (self.pitch * 3 / 5).min(MOST_BAR) / 2;
        let (a, b) =
            (self.x(from_ms.min(to_ms)), self.x(from_ms.max(to_ms)).max(self.x(from_ms.min(to_ms)) + 1));
        let y = self.middle(row);
        area.draw(&Rectangle::new([(a, y - half), (b, y + half)], color.filled()))?;
        Ok(())
    }

    fn label(
        &self,
        area: &Area,
        row: usize,
        name: &str,
        value: &str,
        value_at_ms: f64,
    ) -> Result<(), Failure> {
        let y = self.middle(row);
        let named = placed(13, &INK, HPos::Right, VPos::Center);
        area.draw(&Text::new(name.to_owned(), (self.left - 10, y), named))?;
        let valued = placed(13, &INK, HPos::Left, VPos::Center);
        area.draw(&Text::new(value.to_owned(), (self.x(value_at_ms) + 7, y), valued))?;
        Ok(())
    }
}

fn draw_steps(area: &Area, steps: &[Step]) -> Result<(), Failure> {
    let most_ms = steps.iter().map(|s| s.from_ms.max(s.to_ms)).fold(0.0, f64::max);
    let whole_ms = steps.first().map_or(0.0, |s| s.to_ms);
    let rows = Rows::new(area, steps.len(), most_ms);
    for (i, step) in steps.iter().enumerate() {
        let end_ms = step.from_ms.max(step.to_ms);
        let value = if let Some(computation_ms) = step.computation_ms {
            rows.bar(area, i, 0.0, step.to_ms, &WAIT)?;
            if computation_ms > 0.0 {
                rows.bar(area, i, 0.0, computation_ms, &COMPUTE)?;
            }
            ms(step.to_ms)
        } else {
            let color = if step.to_ms <= step.from_ms { &SAVED } else { &SOFT };
            rows.bar(area, i, step.from_ms, step.to_ms, color)?;
            format!("{:+.0}%", 100.0 * (step.to_ms - step.from_ms) / whole_ms.max(f64::MIN_POSITIVE))
        };
        if i + 1 < steps.len() {
            // Where the next one begins.
            let (x, y) = (rows.x(step.to_ms), rows.middle(i));
            area.draw(&PathElement::new([(x, y), (x, y + rows.pitch)], LINE))?;
        }
        rows.label(area, i, &step.name, &value, end_ms)?;
    }
    legend(area, &[("computation", COMPUTE), ("waiting", WAIT), ("saved", SAVED)])
}

fn draw_bars(area: &Area, bars: &[Bar]) -> Result<(), Failure> {
    let rows = Rows::new(area, bars.len(), bars.iter().map(|b| b.ms).fold(0.0, f64::max));
    for (i, bar) in bars.iter().enumerate() {
        rows.bar(area, i, 0.0, bar.ms, &WAIT)?;
        if bar.computation_ms > 0.0 {
            rows.bar(area, i, 0.0, bar.computation_ms, &COMPUTE)?;
        }
        rows.label(area, i, &bar.name, &ms(bar.ms), bar.ms)?;
    }
    legend(area, &[("computation", COMPUTE), ("waiting", WAIT)])
}

/// Keys along the lower edge.
fn legend(area: &Area, named: &[(&str, RGBColor)]) -> Result<(), Failure> {
    let (_, height) = area.dim_in_pixel();
    keys(area, NAME_WIDTH, height as i32 - 14, named)
}

/// A square of each colour and its name.
fn keys(area: &Area, mut x: i32, y: i32, named: &[(&str, RGBColor)]) -> Result<(), Failure> {
    for (name, color) in named {
        area.draw(&Rectangle::new([(x, y - 6), (x + 12, y + 6)], color.filled()))?;
        area.draw(&Text::new((*name).to_owned(), (x + 18, y), placed(12, &SOFT, HPos::Left, VPos::Center)))?;
        x += 18 + 7 * name.len() as i32 + 20;
    }
    Ok(())
}

/// The times between which a curve is drawn, a little wider than it is.
fn reach(curve: &Curve) -> (f64, f64) {
    let times = curve.points.iter().map(|(_, ms, _)| *ms);
    let all = times.chain(curve.now.map(|n| n.1)).chain(curve.advised.map(|a| a.1));
    let (least, most) = all.fold((f64::INFINITY, 0.0_f64), |(least, most), ms| (least.min(ms), most.max(ms)));
    let most = most.max(least * 1.5).max(f64::MIN_POSITIVE);
    // Linear from 0 unless that would flatten the lower half.
    let low = if most / least.max(f64::MIN_POSITIVE) > 8.0 { least * 0.8 } else { 0.0 };
    (low, most * 1.12)
}

fn draw_curve(area: &Area, curve: &Curve) -> Result<(), Failure> {
    let (low, high) = reach(curve);
    let first = curve.points.first().map_or(1.0, |p| p.0).max(1.0);
    let last = curve.points.last().map_or(2.0, |p| p.0).max(first * 1.01);
    let x = (first..last).log_scale().with_key_points(powers(first, last, curve.bytes));
    let mut builder = ChartBuilder::on(area);
    let builder =
        builder.margin(8).margin_top(28).margin_right(26).x_label_area_size(44).y_label_area_size(72);
    if low > 0.0 {
        let chart =
            builder.build_cartesian_2d(x, (low..high).log_scale().with_key_points(round(low, high)))?;
        curve_on(chart, curve, low)
    } else {
        let chart = builder.build_cartesian_2d(x, low..high)?;
        curve_on(chart, curve, low)
    }?;
    keys(area, 8, 14, &[("time", WAIT), ("of it computation", COMPUTED)])
}

/// Powers of two from `low` to `high`, at most nine of them.
fn powers(low: f64, high: f64, bytes: bool) -> Vec<f64> {
    let (first, last) = (low.log2().ceil() as i32, high.log2().floor() as i32);
    let step = if bytes { 2 } else { 1 + (last - first) / 9 };
    (first..=last).filter(|k| (k - first) % step == 0).map(|k| 2f64.powi(k)).collect()
}

/// Round times from `low` to `high`: 1, 2 and 5 of each power of ten, or only 1 if they are many.
fn round(low: f64, high: f64) -> Vec<f64> {
    let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let parts: &[f64] = if high / low > 1e3 { &[1.0] } else { &[1.0, 2.0, 5.0] };
    let all = (first..=last).flat_map(|k| parts.iter().map(move |part| part * 10f64.powi(k)));
    all.filter(|at| (low..=high).contains(at)).collect()
}

fn curve_on<'a, X, Y>(
    mut chart: ChartContext<'a, SVGBackend<'a>, Cartesian2d<X, Y>>,
    curve: &Curve,
    low: f64,
) -> Result<(), Failure>
where
    X: plotters::coord::ranged1d::Ranged<ValueType = f64> + plotters::coord::ranged1d::ValueFormatter<f64>,
    Y: plotters::coord::ranged1d::Ranged<ValueType = f64> + plotters::coord::ranged1d::ValueFormatter<f64>,
{
    let setting = |v: &f64| if curve.bytes { bytes(*v) } else { format!("{v:.0}") };
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(LINE)
        .axis_style(SOFT)
        .x_desc(curve.axis)
        .axis_desc_style(style(13, &SOFT))
        .label_style(style(12, &SOFT))
        .x_labels(9)
        .y_labels(6)
        .x_label_formatter(&setting)
        .y_label_formatter(&|v| ms(*v))
        .draw()?;
    let computed = curve.points.iter().map(|&(v, _, computation_ms)| (v, computation_ms.max(low)));
    chart.draw_series(AreaSeries::new(computed, low, COMPUTED.filled()))?;
    let line = curve.points.iter().map(|&(v, ms, _)| (v, ms));
    chart.draw_series(LineSeries::new(line, WAIT.stroke_width(2)))?;
    for (at, name, color) in [(curve.now, "now", INK), (curve.advised, "advised", SAVED)] {
        let Some(at) = at else { continue };
        chart.draw_series([Circle::new(at, 6, color.filled())])?;
        // Above and to the right, where a falling curve leaves room.
        let text = placed(12, &INK, HPos::Left, VPos::Bottom);
        chart.draw_series([EmptyElement::at(at) + Text::new(name.to_owned(), (6, -7), text)])?;
    }
    Ok(())
}
