//! The loop around the view: terminal, socket and signals, in one thread that sleeps until one of them has
//! something.

use std::io::IsTerminal;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use foretelld::StatusRequest;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use crate::service::Service;

use super::app::{App, Effect, Key};
use super::connection::{Connection, Trouble};
use super::draw::as_text;
use super::screen::Screen;

/// Time until the service is tried again: it doubles from the first to the second.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(10));
/// Time that the service may take for an answer before it counts as gone.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longest sleep: a change of the window's size that comes between two looks is seen then.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);
/// Exit code of a command that a signal ended: this and its number.
const SIGNALLED: u8 = 128;

/// What is watched.
#[derive(Debug, Clone)]
pub struct Watch {
    /// The service's socket.
    pub socket: PathBuf,
    /// Whose rows; all that may be seen when there is none.
    pub request: StatusRequest,
}

/// Shows the service until somebody has seen enough; the exit code.
///
/// # Errors
/// There is no terminal, or no service to begin with.
pub fn watch(watch: &Watch, mut app: App) -> Result<u8> {
    if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        bail!("standard input and output are not both a terminal; 'foretell top --once' prints one frame");
    }
    // A service that is not there from the beginning is rather a wrong socket than a restart.
    drop(Service::connect(&watch.socket)?);
    let connection = Connection::open(&watch.socket)?;
    let signals = Signals::new().context("cannot handle signals")?;
    let mut link = Line::new(watch, connection);
    let mut screen = Screen::take().context("cannot use the terminal")?;
    loop {
        if let Some(signal) = signals.ended_by() {
            return Ok(SIGNALLED + signal as u8);
        }
        if signals.continued() {
            screen.take_again()?;
        }
        link.advance(&mut app)?;
        // A terminal that has gone has nobody before it.
        if screen.show(&mut app).is_err() {
            return Ok(SIGNALLED + SIGHUP as u8);
        }
        wait(&link, &signals, link.next(&app));
        while event::poll(Duration::ZERO).unwrap_or(false) {
            let Ok(Event::Key(pressed)) = event::read() else { continue };
            let Some(key) = translate(pressed) else { continue };
            match app.press(key) {
                Effect::Show => {}
                Effect::Refresh => link.ask_now(),
                Effect::Redraw => screen.forget()?,
                Effect::Suspend => {
                    screen.lend(stop)?;
                }
                Effect::Quit => return Ok(0),
            }
        }
    }
}

/// One frame as text, once figures by the second are there (at once when totals are shown).
///
/// # Errors
/// There is no service, or no answer.
pub fn once(watch: &Watch, mut app: App, totals: bool, width: u16) -> Result<String> {
    let mut service = Service::connect(&watch.socket)?;
    app.take(service.status(&watch.request)?);
    if !totals {
        std::thread::sleep(app.interval());
        app.take(service.status(&watch.request)?);
    }
    Ok(as_text(&app, width))
}

/// The line to the service: connected, or waiting to try again.
struct Line<'a> {
    watch: &'a Watch,
    connection: Option<Connection>,
    /// When the question under way was asked.
    asked: Option<Instant>,
    /// When to ask, or to connect, next.
    due: Instant,
    back_off: Duration,
    /// Why there is no connection.
    why: String,
}

impl<'a> Line<'a> {
    fn new(watch: &'a Watch, connection: Connection) -> Line<'a> {
        let due = Instant::now();
        Line {
            watch,
            connection: Some(connection),
            asked: None,
            due,
            back_off: BACK_OFF.0,
            why: String::new(),
        }
    }

    /// Asks, takes in what has come, connects again: whatever is due. An answer that makes no sense ends it
    /// all: it would make none the next time either.
    fn advance(&mut self, app: &mut App) -> Result<(), Trouble> {
        let now = Instant::now();
        match self.try_advance(app, now) {
            Ok(()) => {}
            Err(trouble @ Trouble::Nonsense(_)) => return Err(trouble),
            Err(trouble) => {
                (self.connection, self.asked) = (None, None);
                self.due = now + self.back_off;
                self.back_off = (2 * self.back_off).min(BACK_OFF.1);
                self.why = match trouble {
                    // Where it was is known by now.
                    Trouble::NoService { reason, .. } => format!("the service has gone ({reason})"),
                    other => other.to_string(),
                };
            }
        }
        if self.connection.is_none() {
            app.lose(&self.why, self.due.saturating_duration_since(now));
        }
        Ok(())
    }

    fn try_advance(&mut self, app: &mut App, now: Instant) -> Result<(), Trouble> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            None if now >= self.due => self.connection.insert(Connection::open(&self.watch.socket)?),
            None => return Ok(()),
        };
        if let Some(snapshot) = connection.answer()? {
            app.take(snapshot);
            if let Some(asked) = self.asked.take() {
                // Counted from question to question; one that took too long is not made up for.
                self.due = (asked + app.interval()).max(now);
            }
            self.back_off = BACK_OFF.0;
        }
        match self.asked {
            Some(asked) if now.saturating_duration_since(asked) > PATIENCE => Err(Trouble::Silent(PATIENCE)),
            None if now >= self.due && !app.is_paused() => {
                connection.ask(self.watch.request)?;
                self.asked = Some(now);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn ask_now(&mut self) {
        self.due = Instant::now();
    }

    /// When something is due next.
    fn next(&self, app: &App) -> Instant {
        match (&self.connection, self.asked) {
            (_, Some(asked)) => asked + PATIENCE,
            (Some(_), None) if app.is_paused() => Instant::now() + LONGEST_SLEEP,
            _ => self.due,
        }
    }
}

/// Sleeps until a key, an answer or a signal, or something is due.
fn wait(line: &Line, signals: &Signals, next: Instant) {
    let left = next.saturating_duration_since(Instant::now()).min(LONGEST_SLEEP);
    let timeout = Timespec::try_from(left).ok();
    let stdin = std::io::stdin();
    let mut watched = vec![PollFd::new(&stdin, PollFlags::IN), PollFd::new(&signals.bell, PollFlags::IN)];
    if let Some(connection) = &line.connection {
        watched.push(PollFd::from_borrowed_fd(connection.as_fd(), connection.interest()));
    }
    // Interrupted or not: what there is to be done shows itself in the next round.
    let _ = poll(&mut watched, timeout.as_ref());
    signals.hush();
}

/// Signals that end us or let us go on, as something to be polled.
struct Signals {
    ended_by: Arc<AtomicUsize>,
    continued: Arc<AtomicBool>,
    bell: OwnedFd,
}

impl Signals {
    fn new() -> std::io::Result<Signals> {
        let ended_by = Arc::new(AtomicUsize::new(0));
        let continued = Arc::new(AtomicBool::new(false));
        let (bell, rope) = UnixStream::pair()?;
        bell.set_nonblocking(true)?;
        for signal in [SIGTERM, SIGINT, SIGHUP, SIGQUIT] {
            signal_hook::flag::register_usize(signal, Arc::clone(&ended_by), signal as usize)?;
            signal_hook::low_level::pipe::register(signal, rope.try_clone()?)?;
        }
        signal_hook::flag::register(SIGCONT, Arc::clone(&continued))?;
        signal_hook::low_level::pipe::register(SIGCONT, rope)?;
        Ok(Signals { ended_by, continued, bell: bell.into() })
    }

    fn ended_by(&self) -> Option<usize> {
        Some(self.ended_by.load(Ordering::Relaxed)).filter(|signal| *signal != 0)
    }

    fn continued(&self) -> bool {
        self.continued.swap(false, Ordering::Relaxed)
    }

    fn hush(&self) {
        let _ = rustix::io::read(&self.bell, &mut [0; 64]);
    }
}

/// Stops the job that we are, as the terminal would have.
fn stop() {
    // Where nobody could let us go on (no shell with jobs), the kernel does not stop us.
    let _ = rustix::process::kill_current_process_group(Signal::TSTP);
}

fn translate(pressed: KeyEvent) -> Option<Key> {
    if pressed.kind == KeyEventKind::Release {
        return None;
    }
    Some(match pressed.code {
        KeyCode::Char(c) if pressed.modifiers.contains(KeyModifiers::CONTROL) => {
            Key::Ctrl(c.to_ascii_lowercase())
        }
        KeyCode::Char(c) => Key::Char(c),
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Escape,
        KeyCode::Backspace => Key::Backspace,
        KeyCode::Tab | KeyCode::BackTab => Key::Tab,
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::Left => Key::Left,
        KeyCode::Right => Key::Right,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        _ => return None,
    })
}
