//! The terminal while it is ours: raw, another screen, no cursor. It is given back as it was however this
//! ends, by a panic as well.

use std::io;

use ratatui::DefaultTerminal;
use ratatui::crossterm::cursor::Hide;
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{EnterAlternateScreen, enable_raw_mode};

use super::app::App;
use super::draw::{draw, rows_in};

/// The terminal, given back when this is dropped. A panic gives it back before it is reported.
#[derive(Debug)]
pub struct Screen {
    terminal: DefaultTerminal,
}

impl Screen {
    /// Takes the terminal that standard output is.
    ///
    /// # Errors
    /// It is none.
    pub fn take() -> io::Result<Screen> {
        Ok(Screen { terminal: ratatui::try_init()? })
    }

    /// Shows the state.
    ///
    /// # Errors
    /// The terminal has gone.
    pub fn show(&mut self, app: &mut App) -> io::Result<()> {
        app.fit(rows_in(self.terminal.size()?.height));
        self.terminal.draw(|frame| {
            let area = frame.area();
            draw(app, area, frame.buffer_mut());
        })?;
        Ok(())
    }

    /// Gives the terminal back for a while, in which `meanwhile` is called, and takes it again.
    ///
    /// # Errors
    /// The terminal has gone.
    pub fn lend(&mut self, meanwhile: impl FnOnce()) -> io::Result<()> {
        self.give_back()?;
        meanwhile();
        self.take_again()
    }

    /// Takes the terminal again after the process was stopped and somebody else had it.
    ///
    /// # Errors
    /// The terminal has gone.
    pub fn take_again(&mut self) -> io::Result<()> {
        enable_raw_mode()?;
        execute!(io::stdout(), EnterAlternateScreen, Hide)?;
        self.terminal.clear()
    }

    /// Draws everything anew with the next frame.
    ///
    /// # Errors
    /// The terminal has gone.
    pub fn forget(&mut self) -> io::Result<()> {
        self.terminal.clear()
    }

    fn give_back(&mut self) -> io::Result<()> {
        ratatui::try_restore()?;
        self.terminal.show_cursor()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A terminal that has gone needs nothing back. A panic has given it back already, and leaving the
        // other screen twice would move the cursor over what was reported; only the cursor is still hidden.
        let _ = if std::thread::panicking() { self.terminal.show_cursor() } else { self.give_back() };
    }
}
