//! Columns: what each shows of a row, how it is sorted by, and which of them fit.

use std::cmp::Ordering;

use crate::watch::figures::{percent, share, short, short_bytes};

use super::rows::{Activity, Extent, Identity, Owner, Row, Subject};

/// Which rows are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// A row a process.
    Processes,
    /// A row a file.
    Files,
}

/// What a row shows in a column.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Cell {
    /// Not known, or not to be told.
    Nothing,
    Text(String),
    /// The number of a process: in full, whatever its length.
    Number(u64),
    Count(f64),
    /// A count that other rows show as well.
    Common(f64),
    Share(f64),
    Bytes(f64),
    /// 0: has never been; 1: it was; 2: it is.
    Revoked(u8),
}

impl Cell {
    pub(crate) fn text(&self) -> String {
        match self {
            Cell::Nothing => "-".to_owned(),
            Cell::Text(text) => text.clone(),
            Cell::Number(number) => number.to_string(),
            Cell::Count(count) => short(*count),
            Cell::Common(count) => short(*count) + "*",
            Cell::Share(part) => percent(*part),
            Cell::Bytes(bytes) => short_bytes(*bytes),
            Cell::Revoked(state) => ["no", "was", "yes"][usize::from(*state).min(2)].to_owned(),
        }
    }

    /// Ascending; what is not known is less than anything.
    pub(crate) fn compare(&self, other: &Cell) -> Ordering {
        match (self, other) {
            (Cell::Text(a), Cell::Text(b)) => a.cmp(b),
            _ => self.number().total_cmp(&other.number()),
        }
    }

    fn number(&self) -> f64 {
        match self {
            Cell::Nothing | Cell::Text(_) => f64::NEG_INFINITY,
            Cell::Number(number) => *number as f64,
            Cell::Count(value) | Cell::Common(value) | Cell::Share(value) | Cell::Bytes(value) => *value,
            Cell::Revoked(state) => f64::from(*state),
        }
    }
}

/// A row as a column looks at it.
pub(crate) struct Shown<'a> {
    pub(crate) row: &'a Row,
    /// Seconds that the counts are divided by; 1 for those since the start.
    pub(crate) seconds: f64,
    /// Are the counts by the second, not since the start?
    pub(crate) per_second: bool,
    /// What is counted; `None` when it is not known.
    pub(crate) activity: Option<Activity>,
}

impl<'a> Shown<'a> {
    /// A row since the start, or by the second since the snapshot before.
    pub(crate) fn new(row: &'a Row, totals: bool, seconds: Option<f64>) -> Shown<'a> {
        let hidden = matches!(&row.subject, Subject::File(extent) if extent.hidden);
        let activity = if totals { Some(row.total) } else { row.recent };
        let seconds = if totals { 1.0 } else { seconds.unwrap_or(1.0) };
        Shown { row, seconds, per_second: !totals, activity: activity.filter(|_| !hidden) }
    }

    fn count(&self, count: impl Fn(&Activity) -> u64) -> Cell {
        let Some(activity) = &self.activity else { return Cell::Nothing };
        Cell::Count(count(activity) as f64 / self.seconds)
    }

    fn owner(&self, cell: impl Fn(&Owner) -> Option<Cell>) -> Cell {
        match &self.row.subject {
            Subject::Process(owner) => cell(owner).unwrap_or(Cell::Nothing),
            Subject::File(_) => Cell::Nothing,
        }
    }

    fn extent(&self, cell: impl Fn(&Extent) -> Option<Cell>) -> Cell {
        match &self.row.subject {
            Subject::File(extent) if !extent.hidden => cell(extent).unwrap_or(Cell::Nothing),
            _ => Cell::Nothing,
        }
    }
}

/// A column.
pub(crate) struct Column {
    pub(crate) title: &'static str,
    /// Sorts by it.
    pub(crate) key: char,
    /// Of the widest that it shows, its title included; names take what is left.
    pub(crate) width: u16,
    /// 0: always there; else the order in which it is added while there is room.
    pub(crate) rank: u8,
    /// What it is, for the help.
    pub(crate) about: &'static str,
    pub(crate) cell: fn(&Shown) -> Cell,
}

impl Column {
    /// Names are written from the left and sorted from A.
    pub(crate) fn is_text(&self) -> bool {
        matches!(self.title, "NAME" | "FILE" | "USER")
    }

    pub(crate) fn is_name(&self) -> bool {
        matches!(self.title, "NAME" | "FILE")
    }
}

/// A count of each row, in both views.
macro_rules! counted {
    ($title:literal, $key:literal, $width:literal, $about:literal, $field:ident) => {
        Column {
            title: $title,
            key: $key,
            width: $width,
            rank: 0,
            about: $about,
            cell: |shown| shown.count(|activity| activity.counts.$field),
        }
    };
}

const USER: Column = Column {
    title: "USER",
    key: 'U',
    width: 8,
    rank: 1,
    about: "whose process it is; of a file, who alone has read it",
    cell: |shown| match shown.row.user.as_str() {
        "" => Cell::Nothing,
        user => Cell::Text(user.to_owned()),
    },
};
const REFERENCES: Column = counted!("REFS", 'r', 5, "blocks read", references);
const HITS: Column = Column {
    title: "HITS",
    key: 'h',
    width: 5,
    rank: 0,
    about: "share of the references that found their block cached",
    cell: |shown| {
        let share = shown.activity.and_then(|a| share(a.counts.hits, a.counts.references));
        share.map_or(Cell::Nothing, Cell::Share)
    },
};
const USEFUL: Column =
    counted!("USEFUL", 'u', 6, "prefetched blocks that were there in time", prefetches_useful);
const LATE: Column =
    counted!("LATE", 'l', 5, "prefetched blocks still on their way when referenced", prefetches_late);
const WASTED: Column =
    counted!("WASTED", 'w', 6, "prefetched blocks that went unreferenced", prefetches_wasted);
const EVICTIONS: Column = counted!("EVICT", 'e', 5, "blocks dropped because the policy said so", evictions);

const PROCESSES: &[Column] = &[
    Column {
        title: "PID",
        key: 'p',
        width: 7,
        rank: 0,
        about: "number of the process",
        cell: |shown| shown.owner(|owner| Some(Cell::Number(owner.pid.into()))),
    },
    Column {
        title: "NAME",
        key: 'n',
        width: 0,
        rank: 0,
        about: "name of the process",
        cell: |shown| Cell::Text(shown.row.name.clone()),
    },
    USER,
    Column {
        title: "BLOCKS",
        key: 'b',
        width: 6,
        rank: 0,
        about: "blocks that its manager owns; *: with other processes",
        cell: |shown| {
            shown.owner(|owner| {
                let blocks = f64::from(owner.manager.as_ref()?.owned_blocks);
                Some(if owner.shared { Cell::Common(blocks) } else { Cell::Count(blocks) })
            })
        },
    },
    Column {
        title: "AHEAD",
        key: 'a',
        width: 5,
        rank: 2,
        about: "disclosed blocks that lie ahead",
        cell: |shown| shown.owner(|owner| Some(Cell::Count(owner.manager.as_ref()?.disclosed_ahead as f64))),
    },
    REFERENCES,
    HITS,
    USEFUL,
    LATE,
    WASTED,
    EVICTIONS,
    Column {
        title: "PLACEH",
        key: 'x',
        width: 6,
        rank: 0,
        about: "placeholders that proved its manager wrong, since the start",
        cell: |shown| {
            shown.owner(|owner| Some(Cell::Count(owner.manager.as_ref()?.placeholders_used as f64)))
        },
    },
    Column {
        title: "REVOKED",
        key: 'v',
        width: 7,
        rank: 0,
        about: "its manager has lost control, or had",
        cell: |shown| {
            shown.owner(|owner| {
                let manager = owner.manager.as_ref()?;
                Some(Cell::Revoked(match (manager.revoked, manager.revocations) {
                    (true, _) => 2,
                    (false, 0) => 0,
                    (false, _) => 1,
                }))
            })
        },
    },
    Column {
        title: "WAIT",
        key: 'i',
        width: 5,
        rank: 3,
        about: "share of the time that it waited for reads; in all: seconds",
        cell: |shown| match shown.activity {
            Some(activity) if shown.per_second => Cell::Share(activity.wait_s / shown.seconds),
            Some(activity) => Cell::Count(activity.wait_s),
            None => Cell::Nothing,
        },
    },
    Column {
        title: "READ",
        key: 'd',
        width: 5,
        rank: 4,
        about: "bytes read from devices",
        cell: |shown| match shown.activity {
            Some(activity) => Cell::Bytes(activity.device_read_bytes as f64 / shown.seconds),
            None => Cell::Nothing,
        },
    },
];

const FILES: &[Column] = &[
    Column {
        title: "FILE",
        key: 'n',
        width: 0,
        rank: 0,
        about: "path of the file",
        cell: |shown| Cell::Text(shown.row.name.clone()),
    },
    USER,
    Column {
        title: "BLOCKS",
        key: 'b',
        width: 6,
        rank: 0,
        about: "blocks of it that are cached",
        cell: |shown| shown.extent(|extent| Some(Cell::Count(extent.cached_blocks as f64))),
    },
    Column {
        title: "CACHED",
        key: 'c',
        width: 6,
        rank: 0,
        about: "share of it that is cached",
        cell: |shown| {
            shown.extent(|extent| {
                // The last page may reach beyond the end.
                let share = share(extent.cached_bytes, extent.size_bytes)?;
                Some(Cell::Share(share.min(1.0)))
            })
        },
    },
    Column {
        title: "SIZE",
        key: 'z',
        width: 5,
        rank: 2,
        about: "its size",
        cell: |shown| match &shown.row.subject {
            Subject::File(extent) => Cell::Bytes(extent.size_bytes as f64),
            Subject::Process(_) => Cell::Nothing,
        },
    },
    REFERENCES,
    HITS,
    USEFUL,
    LATE,
    WASTED,
    EVICTIONS,
];

/// Characters of a name that come before columns which are not always there: `TASK_COMM_LEN` of Linux.
const ROOMY_NAME: u16 = 16;
/// Characters of a name that come before any other column.
const LEAST_NAME: u16 = 8;

impl View {
    /// Its columns, from left to right.
    pub(crate) fn columns(self) -> &'static [Column] {
        match self {
            View::Processes => PROCESSES,
            View::Files => FILES,
        }
    }

    /// The columns that fit into a line, each with its width.
    pub(crate) fn fitting(self, width: u16) -> Vec<(usize, u16)> {
        let all = self.columns();
        let least_name = match self {
            View::Processes => ROOMY_NAME,
            View::Files => 2 * ROOMY_NAME,
        };
        let mut most_rank = 0;
        let taken = |rank: u8| -> u16 { all.iter().filter(|c| c.rank <= rank).map(|c| c.width + 1).sum() };
        while all.iter().any(|c| c.rank > most_rank) && taken(most_rank + 1) + least_name <= width + 1 {
            most_rank += 1;
        }
        let mut chosen: Vec<usize> = (0..all.len()).filter(|index| all[*index].rank <= most_rank).collect();
        // In a narrow window the last columns go; the name stays.
        let left = |chosen: &[usize]| {
            let others = chosen.iter().map(|index| all[*index].width + 1).sum::<u16>().saturating_sub(1);
            width.saturating_sub(others)
        };
        while left(&chosen) < LEAST_NAME && !all[chosen[chosen.len() - 1]].is_name() {
            chosen.pop();
        }
        let name = left(&chosen);
        chosen.into_iter().map(|i| (i, if all[i].is_name() { name } else { all[i].width })).collect()
    }

    /// The other one.
    pub(crate) fn other(self) -> View {
        match self {
            View::Processes => View::Files,
            View::Files => View::Processes,
        }
    }
}

/// Whether the row holds what is searched for: in its name, its user or its number.
pub(crate) fn matches(row: &Row, filter: &str) -> bool {
    let filter = filter.to_lowercase();
    let number = match row.identity {
        Identity::Process(_, _, pid) => pid.to_string(),
        Identity::File(..) => String::new(),
    };
    row.name.to_lowercase().contains(&filter) || row.user.to_lowercase() == filter || number == filter
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_sorts_by_one_column() {
        for view in [View::Processes, View::Files] {
            let keys: Vec<char> = view.columns().iter().map(|column| column.key).collect();
            let mut different = keys.clone();
            different.sort_unstable();
            different.dedup();
            assert_eq!(different.len(), keys.len(), "{keys:?}");
            for column in view.columns() {
                assert!(column.is_name() || column.title.len() <= usize::from(column.width));
            }
        }
    }

    #[test]
    fn columns_fill_a_line_exactly() {
        for view in [View::Processes, View::Files] {
            for width in 20..300 {
                let fitting = view.fitting(width);
                let sum: u16 = fitting.iter().map(|(_, width)| *width).sum();
                assert_eq!(sum + fitting.len() as u16 - 1, width, "{view:?}");
            }
            assert!(view.fitting(200).len() == view.columns().len());
            assert_eq!(
                view.fitting(80).iter().filter(|(i, _)| view.columns()[*i].rank == 0).count(),
                view.fitting(80).len()
            );
        }
    }
}
