//! `foretell top` as people see it: frames of given snapshots, compared with those in `frames/`.
//!
//! A frame that is meant to have changed is written anew by `FORETELL_WRITE_FRAMES=1 cargo test -p foretell
//! --test top_frames`; look at the difference before it is committed.

#![allow(clippy::unwrap_used)] // a test's own helpers

use std::path::{Path, PathBuf};
use std::time::Duration;

use foretell::top::{App, Key, View, as_text, draw};
use foretell::watch::Users;
use foretelld::{Counters, FileStatus, ManagerStatus, ProcessStatus, Snapshot, Status};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

/// Compares a frame with the one that was kept under its name.
fn assert_frame(name: &str, frame: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/frames/{name}.txt"));
    if std::env::var_os("FORETELL_WRITE_FRAMES").is_some() {
        std::fs::write(&path, frame).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(frame == kept, "{} is not what is shown now:\n{frame}", path.display());
}

/// The state in a terminal of this size.
fn frame(app: &mut App, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    app.fit(usize::from(height).saturating_sub(8));
    terminal.draw(|frame| draw(app, frame.area(), frame.buffer_mut())).unwrap();
    let text = terminal.backend().to_string();
    let lines = text.lines().map(|line| line.trim_matches('"').trim_end());
    lines.collect::<Vec<&str>>().join("\n") + "\n"
}

struct Program {
    pid: u32,
    name: &'static str,
    user: u32,
    session: u32,
    manager: u32,
    references: u64,
    hits: u64,
    prefetches: [u64; 3],
    wait_s: f64,
}

fn counts(references: u64, hits: u64, [useful, late, wasted]: [u64; 3]) -> Counters {
    Counters {
        references,
        hits,
        demand_fetches: references - hits,
        prefetches: useful + late + wasted,
        prefetches_useful: useful,
        prefetches_late: late,
        prefetches_wasted: wasted,
        evictions: (references - hits) / 2,
        ..Counters::default()
    }
}

/// The programs after a time: what they did grows with it.
fn snapshot(uptime_s: f64, times: u64) -> Snapshot {
    let programs = [
        Program {
            pid: 4711,
            name: "postgres",
            user: 70,
            session: 1,
            manager: 0,
            references: 12_400,
            hits: 11_900,
            prefetches: [300, 20, 4],
            wait_s: 0.12,
        },
        Program {
            pid: 4712,
            name: "postgres",
            user: 70,
            session: 1,
            manager: 0,
            references: 900,
            hits: 899,
            prefetches: [0, 0, 0],
            wait_s: 0.0,
        },
        Program {
            pid: 88,
            name: "sort",
            user: 1000,
            session: 2,
            manager: 0,
            references: 3_200,
            hits: 1_600,
            prefetches: [1_500, 90, 10],
            wait_s: 0.4,
        },
        Program {
            pid: 1_234_567,
            name: "a-rather-long-name",
            user: 1000,
            session: 3,
            manager: 0,
            references: 41,
            hits: 0,
            prefetches: [0, 0, 0],
            wait_s: 0.98,
        },
        Program {
            pid: 90_001,
            name: "idle\x1b[31m",
            user: 4_000_000,
            session: 4,
            manager: 0,
            references: 0,
            hits: 0,
            prefetches: [0, 0, 0],
            wait_s: 0.0,
        },
    ];
    let process = |p: &Program| ProcessStatus {
        pid: p.pid,
        name: p.name.into(),
        user: p.user,
        session: p.session,
        manager: p.manager,
        foreign: false,
        wait_s: p.wait_s * times as f64,
        device_read_bytes: (p.references - p.hits) * 8192 * times,
        counts: {
            let [useful, late, wasted] = p.prefetches;
            counts(p.references * times, p.hits * times, [useful * times, late * times, wasted * times])
        },
    };
    let manager =
        |session, user, name: &str, owned_blocks, placeholders_used, revocations: u64| ManagerStatus {
            session,
            user,
            name: name.into(),
            owned_blocks,
            consulted: 100 * times,
            overruled: 40 * times,
            placeholders_used,
            revocations,
            disclosed_ahead: u64::from(session) * 10_000,
            predicted: 90,
            unpredicted: 10,
            ..ManagerStatus::default()
        };
    let file = |path: &str,
                sessions: &[u32],
                user: Option<u32>,
                size_mib: u64,
                cached_mib: u64,
                references: u64| FileStatus {
        path: PathBuf::from(path),
        size_bytes: size_mib << 20,
        cached_bytes: cached_mib << 20,
        sessions: sessions.to_vec(),
        sessions_that_may_look: sessions.to_vec(),
        user,
        counts: counts(references * times, references * times / 4 * 3, [references * times / 5, 0, 0]),
    };
    let processes: Vec<ProcessStatus> = programs.iter().map(process).collect();
    let mut all = Counters::default();
    for process in &processes {
        all += process.counts;
    }
    let cache = Status {
        longest_round: Vec::new(),
        budget_bytes: 256 << 20,
        block_bytes: 8192,
        used_blocks: 27_000,
        placeholders: 12,
        counts: all,
        device_read_bytes: (all.references - all.hits) * 8192,
        wait_s: 1.5 * times as f64,
        cpu_s: 0.25,
        lost_events: 0,
        works: Vec::new(),
        managers: vec![
            manager(1, 70, "postgres", 18_000, 0, 0),
            manager(2, 1000, "sort", 8_000, 3, 1),
            ManagerStatus { revoked: true, ..manager(3, 1000, "a-rather-long-name", 900, 220, 4) },
            manager(4, 4_000_000, "idle", 100, 0, 0),
        ],
        processes,
        files: vec![
            file("/srv/postgres/base/16384/16397", &[1], Some(70), 812, 130, 11_000),
            file("/srv/postgres/base/16384/16402", &[1, 2], None, 64, 64, 2_300),
            file(
                "/var/tmp/a/very/deep/directory/with/many/parts/in/its/path/sort-00000017.run",
                &[2],
                Some(1000),
                2_048,
                60,
                3_200,
            ),
            file("/empty", &[3], Some(1000), 0, 0, 0),
        ],
    };
    Snapshot {
        version: "0.1.0".into(),
        private: false,
        pid: 812,
        uptime_s,
        sessions_open: 4,
        sessions_opened: 17,
        sessions_refused: 1,
        sessions: Vec::new(),
        rows_omitted: 0,
        processes_omitted: 0,
        withheld: Vec::new(),
        cache,
    }
}

fn users() -> Users {
    Users::parse("root:x:0:0:::\npostgres:x:70:70:::\nana:x:1000:1000:::\n")
}

fn app(viewer: u32) -> App {
    let mut app = App::new(Duration::from_secs(1), false, users(), viewer);
    app.take(snapshot(11_520.0, 1));
    app.take(snapshot(11_522.0, 3));
    app
}

fn press(app: &mut App, keys: &str) {
    for key in keys.chars() {
        app.press(Key::Char(key));
    }
}

#[test]
fn processes_in_the_smallest_terminal() {
    assert_frame("processes-80x24", &frame(&mut app(0), 80, 24));
}

#[test]
fn files_in_the_smallest_terminal() {
    let mut app = app(0);
    app.press(Key::Tab);
    app.press(Key::Down);
    assert_frame("files-80x24", &frame(&mut app, 80, 24));
}

#[test]
fn a_wide_terminal_has_more_columns() {
    let mut app = app(0);
    press(&mut app, "b");
    app.press(Key::Down);
    app.press(Key::Down);
    assert_frame("processes-132x24", &frame(&mut app, 132, 24));
    app.press(Key::Tab);
    assert_frame("files-132x24", &frame(&mut app, 132, 24));
}

#[test]
fn totals_are_since_the_start() {
    let mut app = app(0);
    press(&mut app, "tw");
    assert_frame("totals-100x24", &frame(&mut app, 100, 24));
}

#[test]
fn the_first_snapshot_has_no_figures_by_the_second() {
    let mut app = App::new(Duration::from_secs(1), false, users(), 0);
    assert_frame("waiting-80x24", &frame(&mut app, 80, 24));
    app.take(snapshot(1.0, 1));
    assert_frame("first-80x24", &frame(&mut app, 80, 24));
}

#[test]
fn another_user_sees_no_more_than_it_is_told() {
    // What the service tells: `Snapshot::visible_to`.
    let mut app = App::new(Duration::from_secs(1), false, users(), 1000);
    let sessions = vec![2, 3].into_iter().map(|session| foretelld::SessionStatus {
        session,
        user: 1000,
        ..foretelld::SessionStatus::default()
    });
    let sessions: Vec<_> = sessions.collect();
    for (uptime_s, times) in [(11_520.0, 1), (11_522.0, 3)] {
        let all = Snapshot { sessions: sessions.clone(), ..snapshot(uptime_s, times) };
        app.take(all.visible_to(1000));
    }
    assert_frame("own-80x24", &frame(&mut app, 80, 24));
    app.press(Key::Tab);
    assert_frame("own-files-80x24", &frame(&mut app, 80, 24));
}

#[test]
fn a_filter_while_it_is_typed_and_after() {
    let mut app = app(0);
    press(&mut app, "/post");
    assert_frame("typing-80x24", &frame(&mut app, 80, 24));
    app.press(Key::Enter);
    assert_frame("filtered-80x24", &frame(&mut app, 80, 24));
    press(&mut app, "/nothing has this");
    assert!(frame(&mut app, 80, 24).contains("Nothing has this in it; Esc shows all."));
}

#[test]
fn a_service_that_has_gone_is_said_to_have() {
    let mut app = app(0);
    app.lose("the service has gone (connection refused)", Duration::from_millis(1200));
    assert_frame("gone-80x24", &frame(&mut app, 80, 24));
    app.take(snapshot(1.0, 1));
    assert!(!frame(&mut app, 80, 24).contains("gone"));
}

#[test]
fn the_help_fits() {
    let mut app = app(0);
    press(&mut app, "?");
    assert_frame("help-80x24", &frame(&mut app, 80, 24));
}

#[test]
fn more_rows_than_lines_are_scrolled() {
    let mut many = snapshot(1.0, 1);
    many.cache.processes = (0..500)
        .map(|n| ProcessStatus {
            pid: n,
            name: format!("worker-{n}"),
            counts: counts(u64::from(1000 - n), 0, [0; 3]),
            ..ProcessStatus::default()
        })
        .collect();
    let mut app = App::new(Duration::from_secs(1), true, users(), 0);
    app.take(many);
    frame(&mut app, 80, 24);
    app.press(Key::Down);
    app.press(Key::PageDown);
    let text = frame(&mut app, 80, 24);
    assert!(
        text.contains("worker-16 ") && text.contains("worker-1 ") && !text.contains("worker-0 "),
        "{text}"
    );
    app.press(Key::End);
    assert!(frame(&mut app, 80, 24).contains("worker-499 "));
    let all = as_text(&app, 80);
    assert_eq!(all.matches("worker-").count(), 500);
}

#[test]
fn no_window_is_too_small_to_draw() {
    for view in [View::Processes, View::Files] {
        let mut app = app(0);
        app.begin_with(view, None, "").unwrap();
        app.press(Key::Down);
        for (width, height) in (1..50).flat_map(|width| (1..30).map(move |height| (width * 3, height))) {
            frame(&mut app, width, height);
            press(&mut app, "?");
            frame(&mut app, width, height);
            press(&mut app, "?");
        }
    }
}

#[test]
fn a_frame_for_a_pipe_has_every_row_and_no_keys() {
    let text = as_text(&app(0), 120);
    assert_frame("once-120", &text);
    assert!(!text.contains("quit") && !text.contains('\x1b'));
}
