//! A frame: what the state looks like in a window of some size.
//!
//! ```text
//!  line 1      the service: version, process, uptime, sessions; how often it is asked
//!  line 2      the budget, and how much of it is in use
//!  lines 3, 4  what all together read, and what became of the prefetches
//!  line 5      the view, how it is sorted and filtered
//!  line 6      titles of the columns; below them the rows
//!  last but 1  the selected row in full
//!  last        keys, the filter being typed, or why the service does not answer
//! ```

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Clear, Paragraph, Widget};

use crate::report::thousands;
use crate::size::{Size, human_bytes};
use crate::watch::figures::{percent, printable, share, short, short_bytes, span};

use super::app::{App, Link};
use super::columns::{Cell, Column, Shown, View};
use super::rows::{Activity, Extent, Owner, Scene, Subject};

/// Lines above the titles of the columns.
const HEAD_LINES: u16 = 5;
/// Lines that are no rows: the head, the titles, the selected row, the keys.
const OTHER_LINES: u16 = HEAD_LINES + 3;
/// Characters of the bar that shows the use of the budget.
const BAR_CHARS: usize = 20;
/// Characters of the words at the beginning of the lines of the head.
const LABEL_CHARS: usize = 12;
/// From this share on wasted prefetches are shown as something bad: one in ten.
const MUCH_WASTED: f64 = 0.1;

const PLAIN: Style = Style::new();
const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
const DIM: Style = Style::new().add_modifier(Modifier::DIM);
const TITLE: Style = Style::new().fg(Color::Cyan).add_modifier(Modifier::BOLD);
const GOOD: Style = Style::new().fg(Color::Green);
const DOUBTFUL: Style = Style::new().fg(Color::Yellow);
const BAD: Style = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);
const REVERSED: Style = Style::new().add_modifier(Modifier::REVERSED);

/// Rows of a window of this height.
#[must_use]
pub(crate) fn rows_in(height: u16) -> usize {
    usize::from(height.saturating_sub(OTHER_LINES))
}

/// A frame as text, every row of it: for a pipe. Ends with a newline.
#[must_use]
pub fn as_text(app: &App, width: u16) -> String {
    let mut app = app.clone();
    // As many as a frame can have: a buffer's sides are 16 bits each.
    let rows = app.rows().len().min(usize::from(u16::MAX - OTHER_LINES) / usize::from(width.max(1)));
    let area = Rect::new(0, 0, width, OTHER_LINES + rows.max(1) as u16 - 2);
    app.fit(rows.max(1));
    let mut buffer = Buffer::empty(Rect { height: area.height + 2, ..area });
    draw(&app, buffer.area, &mut buffer);
    lines_of(&buffer, area.height)
}

/// The characters of the first lines of a buffer, without the blanks at their ends.
fn lines_of(buffer: &Buffer, lines: u16) -> String {
    let mut text = String::new();
    for y in 0..lines {
        let mut line = String::new();
        let mut x = 0;
        while x < buffer.area.width {
            let symbol = buffer[(x, y)].symbol();
            line.push_str(symbol);
            // A wide character stands in two cells, of which the second is blank.
            x += (Span::raw(symbol).width() as u16).max(1);
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Draws the state.
pub fn draw(app: &App, area: Rect, buffer: &mut Buffer) {
    if area.height < OTHER_LINES || area.width < 20 {
        Paragraph::new("The window is too small.").render(area, buffer);
        return;
    }
    let line = |at: u16| Rect { y: area.y + at, height: 1, ..area };
    Line::from(service_line(app)).render(line(0), buffer);
    right(&every(app), line(0), buffer);
    if let Some(scene) = &app.scene {
        budget_line(app, scene).render(line(1), buffer);
        right(&placeholders(scene), line(1), buffer);
        for (at, text) in activity_lines(app, scene).into_iter().enumerate() {
            text.render(line(2 + at as u16), buffer);
        }
        view_line(app, scene).render(line(4), buffer);
        right(&sorted_by(app), line(4), buffer);
        table(app, Rect { y: area.y + HEAD_LINES, height: area.height - HEAD_LINES - 2, ..area }, buffer);
        selected_line(app).render(line(area.height - 2), buffer);
    } else {
        Line::styled("Waiting for the service …", DIM).render(line(2), buffer);
    }
    last_line(app).render(line(area.height - 1), buffer);
    if app.help {
        help(app, area, buffer);
    }
}

/// At the right end of a line, over nothing that is there already.
fn right(text: &str, line: Rect, buffer: &mut Buffer) {
    let width = Span::raw(text).width() as u16;
    let Some(x) = line.width.checked_sub(width) else { return };
    let free = (x.saturating_sub(2)..line.width).all(|x| buffer[(line.x + x, line.y)].symbol() == " ");
    if free {
        buffer.set_string(line.x + x, line.y, text, DIM);
    }
}

fn service_line(app: &App) -> Vec<Span<'static>> {
    let mut spans = vec![Span::styled("foretell top", TITLE)];
    if let Some(scene) = &app.scene {
        let now = &scene.now;
        let sessions = match now.sessions_open {
            1 => "1 session".to_owned(),
            n => format!("{} sessions", thousands(n.into())),
        };
        let own = if app.sees_own_only() { " of yours" } else { "" };
        let text = format!(
            "  {}, process {}, up {}, {sessions}{own}",
            printable(&now.version),
            now.pid,
            span(now.uptime_s)
        );
        spans.push(Span::raw(text));
        if scene.hosts.len() > 1 {
            spans.push(Span::raw(format!(", in {} hosts", scene.hosts.len())));
        }
    }
    spans
}

fn every(app: &App) -> String {
    let seconds = app.interval.as_secs_f64();
    if app.paused { "PAUSED".to_owned() } else { format!("every {seconds} s") }
}

fn label(text: &str) -> Span<'static> {
    Span::styled(format!("{text:<LABEL_CHARS$}"), DIM)
}

fn budget_line(app: &App, scene: &Scene) -> Line<'static> {
    let cache = &scene.now.cache;
    let block = Size::Bytes(cache.block_bytes.into());
    let budget = cache.budget_bytes.checked_div(cache.block_bytes.into()).unwrap_or(0);
    // Others than root are not told how much is in use in all: what they own themselves they see.
    let own = app.sees_own_only();
    let used = if own {
        cache.managers.iter().map(|manager| u64::from(manager.owned_blocks)).sum()
    } else {
        u64::from(cache.used_blocks)
    };
    let part = share(used, budget).unwrap_or(0.0);
    // Any use at all is seen, and only a full budget fills the bar.
    let eighths = (part.min(1.0) * (BAR_CHARS * 8) as f64) as usize;
    let eighths = if used > 0 { eighths.max(1) } else { 0 };
    let partial = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"][eighths % 8];
    let full = "█".repeat(eighths / 8);
    let rest = "·".repeat(BAR_CHARS - eighths.div_ceil(8));
    let whose = if own { "blocks, yours".to_owned() } else { format!("blocks of {block}") };
    let text = format!(" {} of {} {whose}", thousands(used), thousands(budget));
    Line::from(vec![
        label("budget"),
        Span::styled(format!("{:<9} ", human_bytes(cache.budget_bytes)), BOLD),
        Span::styled(full + partial, GOOD),
        Span::styled(rest, DIM),
        Span::styled(format!(" {:>5}", percent(part)), BOLD),
        Span::raw(text),
    ])
}

fn placeholders(scene: &Scene) -> String {
    match scene.now.cache.placeholders {
        0 => String::new(),
        n => format!("{} placeholders", thousands(n.into())),
    }
}

fn activity_lines(app: &App, scene: &Scene) -> [Line<'static>; 2] {
    let (activity, seconds) =
        if app.totals { (Some(scene.total), 1.0) } else { (scene.recent, scene.seconds.unwrap_or(1.0)) };
    let Some(activity) = activity else {
        let text = "figures by the second come with the next snapshot; t: totals";
        return [Line::from(vec![label("references"), Span::styled(text, DIM)]), Line::default()];
    };
    let Activity { counts, wait_s, device_read_bytes } = activity;
    let number = |count: u64| {
        let text = short(count as f64 / seconds);
        Span::styled(format!("{:<8}", if app.totals { text } else { text + "/s" }), BOLD)
    };
    let bytes = short_bytes(device_read_bytes as f64 / seconds);
    let waited = if app.totals { format!("{} s", short(wait_s)) } else { percent(wait_s / seconds) };
    let part = |part: u64, whole: u64| share(part, whole).map_or("-".to_owned(), percent);
    let ended = counts.prefetches_useful + counts.prefetches_late + counts.prefetches_wasted;
    let fate = |what: &'static str, count: u64, style: Style| {
        let style = if count > 0 { style } else { PLAIN };
        [Span::raw(what), Span::styled(format!("{:<8}", part(count, ended)), style)]
    };
    let mut first = vec![label("references"), number(counts.references)];
    first.extend([
        Span::raw("hits "),
        Span::styled(format!("{:<8}", part(counts.hits, counts.references)), BOLD),
    ]);
    first.extend([Span::raw("demand "), number(counts.demand_fetches)]);
    first.extend([Span::raw("evictions "), number(counts.evictions)]);
    if !app.sees_own_only() {
        first.push(Span::raw(format!("waited {waited}")));
    }
    let mut second = vec![label("prefetches"), number(counts.prefetches)];
    second.extend(fate("useful ", counts.prefetches_useful, GOOD));
    second.extend(fate("late ", counts.prefetches_late, DOUBTFUL));
    let much = share(counts.prefetches_wasted, ended).is_some_and(|wasted| wasted > MUCH_WASTED);
    second.extend(fate("wasted ", counts.prefetches_wasted, if much { BAD } else { DOUBTFUL }));
    if !app.sees_own_only() {
        second.push(Span::raw(if app.totals {
            format!("device {bytes}")
        } else {
            format!("device {bytes}/s")
        }));
    }
    [Line::from(first), Line::from(second)]
}

fn view_line(app: &App, scene: &Scene) -> Line<'static> {
    let tab = |view: View, name: &str, count: usize| {
        let style = if app.view == view { REVERSED.add_modifier(Modifier::BOLD) } else { PLAIN };
        Span::styled(format!(" {name} {} ", thousands(count as u64)), style)
    };
    let mut spans = vec![
        tab(View::Processes, "Processes", scene.processes.len()),
        Span::raw(" "),
        tab(View::Files, "Files", scene.files.len()),
    ];
    if !app.filter.is_empty() {
        let found = app.rows().len();
        spans.push(Span::styled(
            format!("  {} with '{}'", thousands(found as u64), printable(&app.filter)),
            DOUBTFUL,
        ));
    }
    if scene.now.rows_omitted > 0 {
        let text = format!("  {} rows left out by the service", thousands(scene.now.rows_omitted));
        spans.push(Span::styled(text, DOUBTFUL));
    }
    Line::from(spans)
}

fn sorted_by(app: &App) -> String {
    let sort = app.sort();
    let order = if sort.descending { "▼" } else { "▲" };
    let counts = if app.totals { "since the start" } else { "per second" };
    format!("counts {counts}, by {} {order}", app.view.columns()[sort.column].title.to_lowercase())
}

fn table(app: &App, area: Rect, buffer: &mut Buffer) {
    let fitting = app.view.fitting(area.width);
    let columns = app.view.columns();
    let sort = app.sort();
    buffer.set_style(Rect { height: 1, ..area }, DIM);
    let mut x = area.x;
    for (index, width) in &fitting {
        let column = &columns[*index];
        let style = if *index == sort.column { TITLE.remove_modifier(Modifier::DIM) } else { DIM };
        put(column, column.title, *width, (x, area.y), style, buffer);
        x += width + 1;
    }
    let rows = app.rows();
    if rows.is_empty() && area.height > 1 {
        let line = Rect { y: area.y + 1, height: 1, ..area };
        Line::styled(nothing_to_show(app), DIM).render(line, buffer);
    }
    let faded = matches!(app.link, Link::Down { .. });
    for (at, shown) in rows.iter().skip(app.above()).take(usize::from(area.height) - 1).enumerate() {
        let y = area.y + 1 + at as u16;
        let selected = app.selected() == Some(&shown.row.identity);
        if selected {
            buffer.set_style(Rect { y, height: 1, ..area }, REVERSED);
        }
        let mut x = area.x;
        for (index, width) in &fitting {
            let column = &columns[*index];
            let cell = (column.cell)(shown);
            let style = match (selected, faded) {
                (true, _) => REVERSED,
                (false, true) => DIM,
                (false, false) => style_of(column, &cell),
            };
            put(column, &cell.text(), *width, (x, y), style, buffer);
            x += width + 1;
        }
    }
}

fn nothing_to_show(app: &App) -> &'static str {
    match (app.filter.is_empty(), app.view) {
        (false, _) => "Nothing has this in it; Esc shows all.",
        (true, View::Processes) => "No process is under control.",
        (true, View::Files) => "No file is under control.",
    }
}

/// Writes a cell: names from the left, all else from the right.
fn put(column: &Column, text: &str, width: u16, (x, y): (u16, u16), style: Style, buffer: &mut Buffer) {
    let text = if column.is_name() { fit_name(text, width, column.title == "FILE") } else { text.to_owned() };
    let chars = Span::raw(&text).width() as u16;
    let indent = if column.is_text() { 0 } else { width.saturating_sub(chars) };
    buffer.set_stringn(x + indent, y, text, usize::from(width), style);
}

/// A name that is too long loses its end; a path its middle, as its beginning and end say most.
fn fit_name(name: &str, width: u16, path: bool) -> String {
    let width = usize::from(width);
    if Span::raw(name).width() <= width {
        return name.to_owned();
    }
    let kept = width.saturating_sub(1);
    let begin = fill(name.chars(), if path { kept / 3 } else { kept });
    let rest = if path { kept - Span::raw(begin.iter().collect::<String>()).width() } else { 0 };
    let end = fill(name.chars().rev(), rest);
    begin.into_iter().chain(['…']).chain(end.into_iter().rev()).collect()
}

/// The first characters, as many as have room in this width.
fn fill(chars: impl Iterator<Item = char>, width: usize) -> Vec<char> {
    let mut left = width;
    let fits = |c: &char| {
        let chars = Span::raw(c.to_string()).width();
        let fits = chars <= left;
        left = left.saturating_sub(chars);
        fits
    };
    chars.take_while(fits).collect()
}

fn style_of(column: &Column, cell: &Cell) -> Style {
    match cell {
        Cell::Nothing => DIM,
        Cell::Revoked(2) => BAD,
        Cell::Revoked(1) => DOUBTFUL,
        Cell::Count(count) if *count == 0.0 => DIM,
        Cell::Count(_) if matches!(column.title, "LATE" | "WASTED" | "PLACEH") => DOUBTFUL,
        Cell::Count(_) if column.title == "USEFUL" => GOOD,
        Cell::Text(_) if column.is_name() => BOLD,
        _ => PLAIN,
    }
}

fn selected_line(app: &App) -> Line<'static> {
    let Some(selected) = app.selected() else { return Line::default() };
    let rows = app.rows();
    let Some(shown) = rows.iter().find(|shown| shown.row.identity == *selected) else {
        return Line::default();
    };
    Line::styled(details(shown), TITLE)
}

/// What the columns have no room for.
fn details(shown: &Shown) -> String {
    match &shown.row.subject {
        Subject::Process(Owner { manager: None, .. }) => shown.row.name.clone(),
        Subject::Process(Owner { manager: Some(manager), .. }) => {
            let mut text = format!(
                "{}: consulted {}, overruled {}; disclosed ahead {}",
                printable(&manager.name),
                short(manager.consulted as f64),
                short(manager.overruled as f64),
                short(manager.disclosed_ahead as f64),
            );
            if let Some(right) = share(manager.predicted, manager.predicted + manager.unpredicted) {
                text += &format!(", predicted {}", percent(right));
            }
            if manager.revocations > 0 {
                text += &format!("; revoked {}x", thousands(manager.revocations));
            }
            text
        }
        Subject::File(Extent { size_bytes, cached_bytes, sessions, hidden, .. }) => {
            let size = human_bytes(*size_bytes);
            let named = match sessions {
                1 => "named by 1 session".to_owned(),
                n => format!("named by {n} sessions"),
            };
            if *hidden {
                return format!("{}: {size}, {named}, read by others too", shown.row.name);
            }
            format!("{}: {} of {size} cached, {named}", shown.row.name, human_bytes(*cached_bytes))
        }
    }
}

fn last_line(app: &App) -> Line<'static> {
    if app.typing {
        return Line::from(vec![
            Span::styled("show only what contains: ", BOLD),
            Span::raw(app.filter.clone()),
            Span::styled(" ", REVERSED),
            Span::styled("  Enter keeps it, Esc clears it", DIM),
        ]);
    }
    if let Link::Down { why, again_s } = &app.link {
        let again = if *again_s == 0 { "now".to_owned() } else { format!("in {again_s} s") };
        return Line::styled(format!("{}; trying again {again}   q quit", printable(why)), BAD);
    }
    let keys = [
        ("Tab", "view"),
        ("/", "filter"),
        ("<>", "sort"),
        ("t", "totals"),
        ("space", "pause"),
        ("+-", "interval"),
        ("?", "help"),
        ("q", "quit"),
    ];
    let mut spans = Vec::new();
    for (key, what) in keys {
        spans.push(Span::styled(key, BOLD));
        spans.push(Span::styled(format!(" {what}  "), DIM));
    }
    Line::from(spans)
}

/// What all the keys do, and what the columns are, over the middle of the frame.
fn help(app: &App, area: Rect, buffer: &mut Buffer) {
    let mut lines =
        vec![Line::styled("Counts are by the second, or with t since the start.", BOLD), Line::default()];
    for column in app.view.columns() {
        lines.push(Line::from(vec![
            Span::styled(format!(" {} ", column.key), BOLD),
            Span::styled(format!(" {:<8}", column.title), TITLE),
            Span::raw(column.about),
        ]));
    }
    lines.push(Line::default());
    lines.push(Line::raw("A letter sorts by its column, again: the other way round, as R does."));
    lines.push(Line::raw("Arrows, page keys, Home, End: select a row. Esc: no filter, no selection."));
    let width = lines.iter().map(Line::width).max().unwrap_or(0) as u16 + 4;
    let height = lines.len() as u16 + 2;
    let (width, height) = (width.min(area.width), height.min(area.height));
    let popup =
        Rect { x: area.x + (area.width - width) / 2, y: area.y + (area.height - height) / 2, width, height };
    Clear.render(popup, buffer);
    let block = Block::bordered().border_type(BorderType::Rounded).title(" help: any key closes it ");
    let inner = block.inner(popup);
    block.render(popup, buffer);
    Paragraph::new(lines)
        .render(Rect { x: inner.x + 1, width: inner.width.saturating_sub(1), ..inner }, buffer);
}
