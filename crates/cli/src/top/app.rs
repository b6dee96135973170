//! The state of the view, and what keys do to it. Nothing in here reads a key, a clock or a socket.

use std::cmp::Ordering;
use std::time::Duration;

use foretelld::Snapshot;

use crate::watch::Users;

use super::columns::{Cell, Column, Shown, View, matches};
use super::rows::{Identity, Row, Scene};

/// Intervals that `+` and `-` go through.
const INTERVALS: &[Duration] = &[
    Duration::from_millis(250),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(5),
    Duration::from_secs(10),
    Duration::from_secs(30),
    Duration::from_secs(60),
];

/// Characters of a filter at most.
const FILTER_CHARS: usize = 64;

/// A key that was pressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// A character, as it was typed.
    Char(char),
    /// A character with Ctrl.
    Ctrl(char),
    /// Enter.
    Enter,
    /// Escape.
    Escape,
    /// Backspace.
    Backspace,
    /// Tab, with or without Shift: there are two views.
    Tab,
    /// Arrow up.
    Up,
    /// Arrow down.
    Down,
    /// Arrow to the left.
    Left,
    /// Arrow to the right.
    Right,
    /// Page up.
    PageUp,
    /// Page down.
    PageDown,
    /// Home.
    Home,
    /// End.
    End,
}

/// What a key asks of whoever has the terminal and the socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// To show the new state.
    Show,
    /// To ask for a snapshot now.
    Refresh,
    /// To draw everything anew.
    Redraw,
    /// To stop as a job of the shell.
    Suspend,
    /// To end.
    Quit,
}

/// How the rows of a view are sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sort {
    /// The column's index in [`View::columns`].
    pub(crate) column: usize,
    pub(crate) descending: bool,
}

/// The service, as far as one can see.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Link {
    /// Nothing has come yet.
    Waiting,
    /// It answers.
    Up,
    /// It does not: why, and in how many seconds it is tried again.
    Down { why: String, again_s: u64 },
}

/// One view's own state.
#[derive(Debug, Clone)]
struct Place {
    sort: Sort,
    selected: Option<Identity>,
    /// Rows above the first that is seen.
    above: usize,
}

/// The state.
#[derive(Debug, Clone)]
pub struct App {
    pub(crate) view: View,
    pub(crate) totals: bool,
    pub(crate) paused: bool,
    pub(crate) help: bool,
    pub(crate) filter: String,
    /// Keys go into the filter.
    pub(crate) typing: bool,
    pub(crate) interval: Duration,
    pub(crate) link: Link,
    pub(crate) scene: Option<Scene>,
    places: [Place; 2],
    /// Rows that can be seen.
    page: usize,
    users: Users,
    viewer: u32,
}

impl App {
    /// One that has seen nothing. `viewer` is the user who looks.
    #[must_use]
    pub fn new(interval: Duration, totals: bool, users: Users, viewer: u32) -> App {
        let place = |view: View| {
            let column = view.columns().iter().position(|column| column.title == "REFS").unwrap_or(0);
            Place { sort: Sort { column, descending: true }, selected: None, above: 0 }
        };
        App {
            view: View::Processes,
            totals,
            paused: false,
            help: false,
            filter: String::new(),
            typing: false,
            interval,
            link: Link::Waiting,
            scene: None,
            places: [place(View::Processes), place(View::Files)],
            page: 1,
            users,
            viewer,
        }
    }

    /// Begins with another view, or with a column other than the references, by its title in any case.
    ///
    /// # Errors
    /// The columns that there are, when none has this title.
    pub fn begin_with(&mut self, view: View, sort: Option<&str>, filter: &str) -> Result<(), String> {
        self.view = view;
        self.filter = filter.chars().take(FILTER_CHARS).collect();
        let Some(title) = sort else { return Ok(()) };
        let columns = view.columns();
        match columns.iter().position(|column| column.title.eq_ignore_ascii_case(title)) {
            Some(column) => {
                self.place_mut().sort = Sort { column, descending: !columns[column].is_text() };
                Ok(())
            }
            None => {
                let titles: Vec<String> = columns.iter().map(|c| c.title.to_lowercase()).collect();
                Err(titles.join(", "))
            }
        }
    }

    /// A snapshot has come.
    pub fn take(&mut self, snapshot: Snapshot) {
        self.take_all(vec![snapshot]);
    }

    /// Snapshots have come, of several hosts; that of the service first.
    pub fn take_all(&mut self, hosts: Vec<Snapshot>) {
        let before = self.scene.take().map(|scene| scene.hosts).unwrap_or_default();
        self.scene = Some(Scene::new(&before, hosts, &self.users, self.viewer));
        self.link = Link::Up;
        self.keep_in_sight();
    }

    /// The service does not answer.
    pub fn lose(&mut self, why: &str, again: Duration) {
        self.link = Link::Down { why: why.to_owned(), again_s: again.as_secs_f64().ceil() as u64 };
    }

    /// Time between two snapshots.
    #[must_use]
    pub fn interval(&self) -> Duration {
        self.interval
    }

    /// Is the picture to stay as it is?
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.paused
    }

    /// So many rows can be seen.
    pub fn fit(&mut self, rows: usize) {
        self.page = rows.max(1);
        self.keep_in_sight();
    }

    /// Does the viewer see only what is its own?
    pub(crate) fn sees_own_only(&self) -> bool {
        self.viewer != 0
    }

    pub(crate) fn sort(&self) -> Sort {
        self.place().sort
    }

    pub(crate) fn above(&self) -> usize {
        self.place().above
    }

    pub(crate) fn selected(&self) -> Option<&Identity> {
        self.place().selected.as_ref()
    }

    /// The rows of the view that match, in their order.
    pub(crate) fn rows(&self) -> Vec<Shown<'_>> {
        let Some(scene) = &self.scene else { return Vec::new() };
        let rows: &[Row] = match self.view {
            View::Processes => &scene.processes,
            View::Files => &scene.files,
        };
        let sort = self.sort();
        let column: &Column = &self.view.columns()[sort.column];
        let matching = rows.iter().filter(|row| self.filter.is_empty() || matches(row, &self.filter));
        let shown = matching.map(|row| Shown::new(row, self.totals, scene.seconds));
        let mut keyed: Vec<(Cell, Shown)> = shown.map(|shown| ((column.cell)(&shown), shown)).collect();
        // Stable: equals stay in order of appearance. What is not known comes last in either direction.
        keyed.sort_by(|(a, _), (b, _)| match (a, b) {
            (Cell::Nothing, Cell::Nothing) => Ordering::Equal,
            (Cell::Nothing, _) => Ordering::Greater,
            (_, Cell::Nothing) => Ordering::Less,
            _ if sort.descending => b.compare(a),
            _ => a.compare(b),
        });
        keyed.into_iter().map(|(_, shown)| shown).collect()
    }

    /// A key was pressed.
    pub fn press(&mut self, key: Key) -> Effect {
        if key == Key::Ctrl('c') {
            return Effect::Quit;
        }
        if key == Key::Ctrl('z') {
            return Effect::Suspend;
        }
        if self.typing {
            self.edit(key);
            self.keep_in_sight();
            return Effect::Show;
        }
        if self.help {
            self.help = false;
            // The key that closes the help does nothing else, but for the one that ends.
            return if key == Key::Char('q') { Effect::Quit } else { Effect::Show };
        }
        let effect = self.command(key);
        self.keep_in_sight();
        effect
    }

    fn command(&mut self, key: Key) -> Effect {
        match key {
            Key::Char('q') => return Effect::Quit,
            Key::Ctrl('l') => return Effect::Redraw,
            Key::Char('?') => self.help = true,
            Key::Char('/') => self.typing = true,
            Key::Char('t') => self.totals = !self.totals,
            Key::Char(' ') => {
                self.paused = !self.paused;
                return if self.paused { Effect::Show } else { Effect::Refresh };
            }
            Key::Char('+' | '=') => return self.change_interval(true),
            Key::Char('-') => return self.change_interval(false),
            Key::Char('R') => self.place_mut().sort.descending ^= true,
            Key::Char('<') | Key::Left => self.sort_beside(false),
            Key::Char('>') | Key::Right => self.sort_beside(true),
            Key::Tab => self.view = self.view.other(),
            Key::Escape => {
                self.filter.clear();
                self.place_mut().selected = None;
            }
            Key::Up => self.select(|at, _| at.saturating_sub(1)),
            Key::Down => self.select(|at, _| at + 1),
            Key::PageUp => self.select(|at, page| at.saturating_sub(page)),
            Key::PageDown => self.select(|at, page| at + page),
            Key::Home => self.select(|_, _| 0),
            Key::End => self.select(|_, _| usize::MAX),
            Key::Char(letter) => self.sort_by_key(letter),
            Key::Enter | Key::Backspace | Key::Ctrl(_) => {}
        }
        Effect::Show
    }

    /// A key while the filter is being typed.
    fn edit(&mut self, key: Key) {
        match key {
            Key::Enter | Key::Tab => self.typing = false,
            Key::Escape => {
                self.typing = false;
                self.filter.clear();
            }
            Key::Backspace => drop(self.filter.pop()),
            Key::Ctrl('u') => self.filter.clear(),
            Key::Char(c) if !c.is_control() && self.filter.chars().count() < FILTER_CHARS => {
                self.filter.push(c)
            }
            _ => {}
        }
    }

    fn change_interval(&mut self, longer: bool) -> Effect {
        let next = if longer {
            INTERVALS.iter().find(|interval| **interval > self.interval)
        } else {
            INTERVALS.iter().rev().find(|interval| **interval < self.interval)
        };
        self.interval = next.copied().unwrap_or(self.interval);
        Effect::Show
    }

    /// Sorts by the column of a key, and the other way round when it is sorted so already.
    fn sort_by_key(&mut self, key: char) {
        let columns = self.view.columns();
        let Some(column) = columns.iter().position(|column| column.key == key) else { return };
        let sort = &mut self.place_mut().sort;
        *sort = match sort.column == column {
            true => Sort { descending: !sort.descending, ..*sort },
            false => Sort { column, descending: !columns[column].is_text() },
        };
    }

    fn sort_beside(&mut self, right: bool) {
        let columns = self.view.columns();
        let sort = &mut self.place_mut().sort;
        let column =
            if right { (sort.column + 1).min(columns.len() - 1) } else { sort.column.saturating_sub(1) };
        if column != sort.column {
            *sort = Sort { column, descending: !columns[column].is_text() };
        }
    }

    /// Moves the selection; the first key selects the first row that is seen.
    fn select(&mut self, to: impl Fn(usize, usize) -> usize) {
        let rows: Vec<Identity> = self.rows().iter().map(|shown| shown.row.identity.clone()).collect();
        let Some(last) = rows.len().checked_sub(1) else { return };
        let selected = self.selected().and_then(|selected| rows.iter().position(|row| row == selected));
        let at = match selected {
            Some(at) => to(at, self.page).min(last),
            None => self.above().min(last),
        };
        self.place_mut().selected = Some(rows[at].clone());
    }

    /// Moves what is seen so that the selected row is part of it, and forgets a selection that has gone.
    fn keep_in_sight(&mut self) {
        let rows = self.rows();
        let count = rows.len();
        let selected = self.selected().and_then(|s| rows.iter().position(|shown| shown.row.identity == *s));
        let (page, above) = (self.page, self.above());
        let above = match selected {
            Some(at) if at < above => at,
            Some(at) if at >= above + page => at + 1 - page,
            _ => above,
        };
        let place = self.place_mut();
        place.above = above.min(count.saturating_sub(page));
        if selected.is_none() {
            place.selected = None;
        }
    }

    fn place(&self) -> &Place {
        &self.places[usize::from(self.view == View::Files)]
    }

    fn place_mut(&mut self) -> &mut Place {
        &mut self.places[usize::from(self.view == View::Files)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foretelld::{Counters, FileStatus, ProcessStatus, Status};
    use proptest::prelude::*;

    fn snapshot(uptime_s: f64, references: &[u64]) -> Snapshot {
        let counts = |references| Counters { references, ..Counters::default() };
        let process = |(at, references): (usize, &u64)| ProcessStatus {
            pid: 100 + at as u32,
            name: format!("program-{at}"),
            counts: counts(*references),
            ..ProcessStatus::default()
        };
        let file = FileStatus { path: "/data/x".into(), ..FileStatus::default() };
        let processes = references.iter().enumerate().map(process).collect();
        let cache = Status { processes, files: vec![file], ..Status::default() };
        Snapshot { pid: 1, uptime_s, cache, ..Snapshot::default() }
    }

    fn app(references: &[u64]) -> App {
        let mut app = App::new(Duration::from_secs(1), true, Users::default(), 0);
        app.fit(3);
        app.take(snapshot(1.0, references));
        app
    }

    fn names(app: &App) -> Vec<String> {
        app.rows().iter().map(|shown| shown.row.name.replace("program-", "")).collect()
    }

    fn press(app: &mut App, keys: &str) -> Vec<Effect> {
        keys.chars().map(|key| app.press(Key::Char(key))).collect()
    }

    #[test]
    fn a_column_key_sorts_and_again_reverses() {
        let mut app = app(&[5, 9, 7]);
        assert_eq!(names(&app), ["1", "2", "0"], "most references first");
        press(&mut app, "r");
        assert_eq!(names(&app), ["0", "2", "1"]);
        press(&mut app, "n");
        assert_eq!(names(&app), ["0", "1", "2"], "names from A");
        press(&mut app, "nR");
        assert_eq!(names(&app), ["0", "1", "2"]);
        press(&mut app, "p<");
        assert_eq!(names(&app), ["2", "1", "0"], "there is nothing left of the number");
        app.press(Key::Right);
        assert_eq!(app.sort(), Sort { column: 1, descending: false });
    }

    #[test]
    fn counts_are_by_the_second_unless_totals_are_asked_for() {
        let mut app = app(&[5, 9]);
        app.take(snapshot(3.0, &[25, 10]));
        assert_eq!(names(&app), ["0", "1"]);
        let count = |app: &App| -> Vec<Cell> {
            let column = &app.view.columns()[app.sort().column];
            app.rows().iter().map(|shown| (column.cell)(shown)).collect()
        };
        assert_eq!(count(&app), [Cell::Count(25.0), Cell::Count(10.0)]);
        press(&mut app, "t");
        assert_eq!(count(&app), [Cell::Count(10.0), Cell::Count(0.5)]);
    }

    #[test]
    fn what_is_not_known_comes_last_either_way() {
        let mut app = app(&[0, 4]);
        press(&mut app, "h");
        assert_eq!(names(&app), ["1", "0"]);
        press(&mut app, "h");
        assert_eq!(names(&app), ["1", "0"]);
    }

    #[test]
    fn a_filter_is_typed_kept_and_cleared() {
        let mut app = app(&[1, 2, 3]);
        press(&mut app, "/AM-1q");
        assert_eq!((app.typing, app.filter.as_str()), (true, "AM-1q"));
        assert!(names(&app).is_empty());
        app.press(Key::Backspace);
        assert_eq!(names(&app), ["1"]);
        app.press(Key::Enter);
        assert!(!app.typing);
        assert_eq!(press(&mut app, "q"), [Effect::Quit], "keys are commands again");
        app.press(Key::Escape);
        assert_eq!(names(&app).len(), 3);
        press(&mut app, "/");
        press(&mut app, &"x".repeat(1000));
        assert_eq!(app.filter.len(), FILTER_CHARS);
    }

    #[test]
    fn the_selection_stays_with_its_row() {
        let mut app = app(&[50, 40, 30, 20, 10]);
        for _ in 0..5 {
            app.press(Key::Down);
        }
        let selected = |app: &App| app.selected().cloned();
        assert_eq!(selected(&app), Some(Identity::Process(1, 0, 104)));
        assert_eq!(app.above(), 2, "three of five are seen");
        app.take(snapshot(2.0, &[50, 40, 30, 20, 99]));
        assert_eq!((selected(&app), app.above()), (Some(Identity::Process(1, 0, 104)), 0));
        app.take(snapshot(3.0, &[50, 40]));
        assert_eq!(selected(&app), None, "it has gone");
        app.press(Key::End);
        app.press(Key::End);
        assert_eq!(selected(&app), Some(Identity::Process(1, 0, 101)));
        app.press(Key::Escape);
        assert_eq!(selected(&app), None);
    }

    #[test]
    fn each_view_has_its_own_order() {
        let mut app = app(&[1, 2]);
        press(&mut app, "p");
        app.press(Key::Tab);
        assert_eq!((app.view, app.rows().len()), (View::Files, 1));
        assert_eq!(app.view.columns()[app.sort().column].title, "REFS");
        app.press(Key::Tab);
        assert_eq!(app.view.columns()[app.sort().column].title, "PID");
    }

    #[test]
    fn intervals_go_up_and_down_within_bounds() {
        let mut app = app(&[]);
        press(&mut app, "+");
        assert_eq!(app.interval(), Duration::from_secs(2));
        press(&mut app, "++++++++");
        assert_eq!(app.interval(), Duration::from_secs(60));
        press(&mut app, "-----------");
        assert_eq!(app.interval(), Duration::from_millis(250));
        let mut between = App::new(Duration::from_secs(7), false, Users::default(), 0);
        press(&mut between, "-");
        assert_eq!(between.interval(), Duration::from_secs(5));
    }

    #[test]
    fn pause_help_and_the_end() {
        let mut app = app(&[]);
        assert_eq!(press(&mut app, "  "), [Effect::Show, Effect::Refresh]);
        press(&mut app, "?");
        assert!(app.help);
        assert_eq!(press(&mut app, "t"), [Effect::Show]);
        assert!(!app.help && app.totals, "the key that closes the help does nothing else");
        press(&mut app, "?");
        assert_eq!(press(&mut app, "q"), [Effect::Quit]);
        assert_eq!(app.press(Key::Ctrl('c')), Effect::Quit);
        assert_eq!(app.press(Key::Ctrl('z')), Effect::Suspend);
        assert_eq!(app.press(Key::Ctrl('l')), Effect::Redraw);
    }

    #[test]
    fn columns_can_be_named() {
        let mut app = app(&[]);
        assert!(app.begin_with(View::Files, Some("cached"), "").is_ok());
        assert_eq!(app.view.columns()[app.sort().column].title, "CACHED");
        let columns = app.begin_with(View::Files, Some("pid"), "").unwrap_err();
        assert!(columns.starts_with("file, user, blocks"), "{columns}");
    }

    proptest! {
        #[test]
        fn no_keys_lead_astray(
            keys in proptest::collection::vec((0_u8..20, any::<char>()), 0..60),
            references in proptest::collection::vec(0_u64..5, 0..9),
            page in 0_usize..5,
        ) {
            let mut app = app(&references);
            app.fit(page);
            for (kind, c) in keys {
                let special = [
                    Key::Enter, Key::Escape, Key::Backspace, Key::Tab, Key::Up, Key::Down, Key::Left,
                    Key::Right, Key::PageUp, Key::PageDown, Key::Home, Key::End, Key::Ctrl('u'),
                ];
                app.press(special.get(usize::from(kind)).copied().unwrap_or(Key::Char(c)));
                let rows = app.rows();
                prop_assert!(app.above() == 0 || app.above() + page.max(1) <= rows.len());
                if let Some(selected) = app.selected() {
                    let at = rows.iter().position(|shown| shown.row.identity == *selected).unwrap();
                    prop_assert!((app.above()..app.above() + page.max(1)).contains(&at));
                }
            }
        }
    }
}
