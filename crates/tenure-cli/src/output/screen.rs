//! The whole terminal, for as long as something is shown there.

use std::io::{IsTerminal, Stdout};

use ratatui::backend::{CrosstermBackend, TestBackend};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::{Terminal, TerminalOptions, Viewport};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::{Output, result};
use crate::failure::Failure;
use crate::top::{App, Key, draw};

/// How large a picture is that goes to a file or a pipe.
const PICTURE: (u16, u16) = (100, 40);

/// The terminal. It is given back as it was when this is dropped.
pub(crate) struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
    events: UnboundedReceiver<ScreenEvent>,
}

/// What a person did.
#[derive(Debug)]
pub(crate) enum ScreenEvent {
    Key(Key),
    Resized,
    /// The terminal is gone.
    Closed,
}

impl Screen {
    /// Whether there is a terminal to draw on and to type at.
    pub(crate) fn is_there() -> bool {
        std::io::stdin().is_terminal() && std::io::stdout().is_terminal() && !super::is_dumb()
    }

    /// Takes the terminal.
    pub(crate) fn open() -> std::io::Result<Self> {
        enable_raw_mode()?;
        execute!(std::io::stdout(), EnterAlternateScreen)?;
        let options = TerminalOptions { viewport: Viewport::Fullscreen };
        let terminal = Terminal::with_options(CrosstermBackend::new(std::io::stdout()), options)?;
        let (tell, events) = unbounded_channel();
        // It waits for keys without end; the process does not wait for it.
        std::thread::Builder::new().name("keys".to_owned()).spawn(move || {
            loop {
                let event = match event::read() {
                    Ok(Event::Key(key)) if key.kind != KeyEventKind::Release => {
                        match meant(key.code, key.modifiers) {
                            Some(key) => ScreenEvent::Key(key),
                            None => continue,
                        }
                    }
                    Ok(Event::Resize(..)) => ScreenEvent::Resized,
                    Ok(_) => continue,
                    Err(_) => ScreenEvent::Closed,
                };
                let closed = matches!(event, ScreenEvent::Closed);
                if tell.send(event).is_err() || closed {
                    return;
                }
            }
        })?;
        Ok(Self { terminal, events })
    }

    pub(crate) async fn next(&mut self) -> ScreenEvent {
        self.events.recv().await.unwrap_or(ScreenEvent::Closed)
    }

    pub(crate) fn draw(&mut self, app: &App) -> std::io::Result<()> {
        self.terminal.draw(|frame| draw(app, frame)).map(|_| ())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A terminal that is gone needs nothing back.
        let _ = disable_raw_mode();
        let _ = execute!(std::io::stdout(), LeaveAlternateScreen);
        let _ = self.terminal.show_cursor();
    }
}

impl Output {
    /// One picture, as text.
    pub(crate) fn picture(&self, app: &App) -> Result<(), Failure> {
        let (width, height) = PICTURE;
        let Ok(mut terminal) = Terminal::new(TestBackend::new(width, height));
        let Ok(drawn) = terminal.draw(|frame| draw(app, frame));
        let lines = (0..height).map(|row| {
            let cells = (0..width).map(|column| drawn.buffer[(column, row)].symbol());
            cells.collect::<String>().trim_end().to_owned()
        });
        let lines: Vec<String> = lines.collect();
        // The last line is about keys.
        let shown = &lines[..lines.len() - 1];
        let end = shown.iter().rposition(|line| !line.is_empty()).map_or(0, |last| last + 1);
        result(&shown[..end].join("\n"))
    }
}

fn meant(code: KeyCode, modifiers: KeyModifiers) -> Option<Key> {
    if modifiers.contains(KeyModifiers::CONTROL) {
        return (code == KeyCode::Char('c')).then_some(Key::Interrupt);
    }
    Some(match code {
        KeyCode::Char(letter) => Key::Char(letter),
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Escape,
        KeyCode::Backspace => Key::Backspace,
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        _ => return None,
    })
}
