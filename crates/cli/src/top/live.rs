//! The loop around the view: terminal, socket and signals, in one thread that sleeps until one of them has
//! something.

use std::io::IsTerminal;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use foretelld::{Snapshot, StatusRequest};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use crate::host::{Answer, Host, PATIENCE, Trouble};
use crate::hosts::{self, Round};

use super::app::{App, Effect, Key};
use super::draw::as_text;
use super::screen::Screen;

/// Time until the service is tried again: it doubles from the first to the second.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(10));
/// Longest sleep: a change of the window's size that comes between two looks is seen then.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);
/// Exit code of a command that a signal ended: this and its number.
const SIGNALLED: u8 = 128;

/// What is watched.
#[derive(Debug, Clone)]
pub struct Watch {
    /// The service's socket.
    pub socket: PathBuf,
    /// The private hosts of runs as well.
    pub runs: bool,
    /// Whose rows; all that may be seen when there is none.
    pub request: StatusRequest,
}

impl Watch {
    /// The service that has let us in; `None` when there is none, but there are runs.
    fn begin(&self) -> Result<Option<Host>> {
        let service = Host::find_service(&self.socket)?;
        if service.is_none() && !(self.runs && self.ask_private().wait_for_any()) {
            bail!(
                "no service listens on {}, and no run of this user controls a program; start a service with \
                 'foretell daemon', or say where one is with --socket",
                self.socket.display()
            );
        }
        Ok(service)
    }

    fn ask_private(&self) -> Round {
        if self.runs { hosts::ask_private(self.request) } else { Round::of_nobody() }
    }
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
    let service = watch.begin()?;
    let signals = Signals::new().context("cannot handle signals")?;
    let mut link = Line::new(watch, service);
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
    let mut service = watch.begin()?;
    let mut look = |app: &mut App| -> Result<()> {
        let mut round = watch.ask_private();
        let mut seen = Vec::new();
        if let Some(service) = &mut service {
            service.ask_status(watch.request)?;
            if let Answer::Status(snapshot) = service.wait(PATIENCE)? {
                seen.push(*snapshot);
            }
        }
        round.wait();
        seen.extend(round.snapshots().0);
        app.take_all(seen);
        Ok(())
    };
    look(&mut app)?;
    if !totals {
        std::thread::sleep(app.interval());
        look(&mut app)?;
    }
    Ok(as_text(&app, width))
}

/// The line to the hosts. To the service it stays; runs come and go, and each question is asked anew of those that
/// there are.
struct Line<'a> {
    watch: &'a Watch,
    service: Option<Host>,
    /// There was a service: it is worth trying again.
    had_service: bool,
    /// What the service has answered to the question under way.
    seen: Option<Snapshot>,
    /// The private hosts that were asked.
    round: Option<Round>,
    /// When the question under way was asked.
    asked: Option<Instant>,
    /// When to ask next.
    due: Instant,
    /// When to connect to the service next.
    again: Instant,
    back_off: Duration,
    /// Why there is no connection.
    why: String,
}

impl<'a> Line<'a> {
    fn new(watch: &'a Watch, service: Option<Host>) -> Line<'a> {
        let now = Instant::now();
        Line {
            watch,
            had_service: service.is_some(),
            service,
            seen: None,
            round: None,
            asked: None,
            due: now,
            again: now,
            back_off: BACK_OFF.0,
            why: String::new(),
        }
    }

    /// Asks, takes in what has come, connects again: whatever is due. An answer that makes no sense ends it
    /// all: it would make none the next time either.
    fn advance(&mut self, app: &mut App) -> Result<(), Trouble> {
        let now = Instant::now();
        match self.hear_service(now) {
            Ok(()) => {}
            Err(trouble @ Trouble::Nonsense { .. }) => return Err(trouble),
            Err(trouble) => {
                self.service = None;
                self.again = now + self.back_off;
                self.back_off = (2 * self.back_off).min(BACK_OFF.1);
                self.why = match trouble {
                    // Where it was is known by now.
                    Trouble::NoService { reason, .. } => format!("the service has gone ({reason})"),
                    other => other.to_string(),
                };
            }
        }
        let over = self.round.as_mut().is_none_or(Round::advance);
        if let Some(asked) = self.asked
            && over
            && (self.seen.is_some() || self.service.is_none())
        {
            self.show(app);
            self.asked = None;
            // Counted from question to question; one that took too long is not made up for.
            self.due = (asked + app.interval()).max(now);
        }
        if self.asked.is_none() && now >= self.due && !app.is_paused() {
            let request = self.watch.request;
            // An error comes again when its answer is looked for.
            let _ = self.service.as_mut().map(|service| service.ask_status(request));
            (self.round, self.asked) = (Some(self.watch.ask_private()), Some(now));
        }
        if self.had_service && self.service.is_none() {
            app.lose(&self.why, self.again.saturating_duration_since(now));
        }
        Ok(())
    }

    /// Shows what has been answered, if anything was.
    fn show(&mut self, app: &mut App) {
        let runs = self.round.take().map(|round| round.snapshots().0).unwrap_or_default();
        let seen: Vec<Snapshot> = self.seen.take().into_iter().chain(runs).collect();
        // With the last run nothing is left to be shown but that. What a service showed last stays.
        if !seen.is_empty() || !self.had_service {
            app.take_all(seen);
        }
    }

    fn hear_service(&mut self, now: Instant) -> Result<(), Trouble> {
        let service = match &mut self.service {
            Some(service) => service,
            None if now >= self.again => {
                let service = match Host::service(&self.watch.socket) {
                    // It need not be there where there are runs.
                    Err(Trouble::NoService { .. }) if !self.had_service => {
                        self.again = now + BACK_OFF.1;
                        return Ok(());
                    }
                    other => other?,
                };
                self.had_service = true;
                // What was asked before is not answered by this one.
                (self.asked, self.due) = (None, now);
                self.service.insert(service)
            }
            None => return Ok(()),
        };
        while let Some(answer) = service.answer()? {
            match answer {
                Answer::Status(snapshot) => {
                    self.seen = Some(*snapshot);
                    self.back_off = BACK_OFF.0;
                }
                Answer::Refused(why) => {
                    return Err(Trouble::Refused { who: service.who().to_owned(), why });
                }
                Answer::Welcome | Answer::Run(_) => {}
            }
        }
        match self.asked {
            Some(asked) if self.seen.is_none() && now.saturating_duration_since(asked) > PATIENCE => {
                Err(Trouble::Silent { who: service.who().to_owned(), patience: PATIENCE })
            }
            _ => Ok(()),
        }
    }

    fn ask_now(&mut self) {
        self.due = Instant::now();
    }

    /// When something is due next.
    fn next(&self, app: &App) -> Instant {
        let round = self.round.as_ref().and_then(Round::until);
        let again = self.service.is_none().then_some(self.again);
        let next = match self.asked {
            Some(asked) => asked + PATIENCE,
            None if app.is_paused() => Instant::now() + LONGEST_SLEEP,
            None => self.due,
        };
        [round, again].into_iter().flatten().fold(next, Instant::min)
    }

    /// What answers come by.
    fn waiting(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        let service = self.service.iter().map(|service| (service.as_fd(), service.interest()));
        service.chain(self.round.iter().flat_map(Round::waiting))
    }
}

/// Sleeps until a key, an answer or a signal, or something is due.
fn wait(line: &Line, signals: &Signals, next: Instant) {
    let left = next.saturating_duration_since(Instant::now()).min(LONGEST_SLEEP);
    let timeout = Timespec::try_from(left).ok();
    let stdin = std::io::stdin();
    let mut watched = vec![PollFd::new(&stdin, PollFlags::IN), PollFd::new(&signals.bell, PollFlags::IN)];
    watched.extend(line.waiting().map(|(descriptor, flags)| PollFd::from_borrowed_fd(descriptor, flags)));
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

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;
    use crate::watch::Users;

    /// Only a key or its answer wakes us then.
    #[test]
    fn while_the_service_does_not_answer_nothing_is_due() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("s.sock");
        let _silent = UnixListener::bind(&socket).unwrap();
        let watch = Watch { socket: socket.clone(), runs: false, request: StatusRequest::default() };
        let mut app = App::new(Duration::from_secs(1), false, Users::default(), 0);
        let mut line = Line::new(&watch, Some(Host::service(&socket).unwrap()));
        for _ in 0..3 {
            line.advance(&mut app).unwrap();
            let left = line.next(&app).saturating_duration_since(Instant::now());
            assert!(left > PATIENCE / 2, "{left:?}");
        }
    }
}
