//! What keys do.

use super::{App, View};

/// A key, as far as it means something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    Char(char),
    Enter,
    Escape,
    Backspace,
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    /// Ctrl-C.
    Interrupt,
}

/// What is to be done now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Do {
    Nothing,
    Quit,
    /// Ask the nodes about this lock.
    Ask(String),
    /// Take this lock from this holder, and from no later one.
    Force {
        name: String,
        holder: Option<String>,
    },
}

/// How many lines a page has, for those who leaf.
const PAGE: usize = 10;

impl App {
    pub(crate) fn press(&mut self, key: Key) -> Do {
        if key == Key::Interrupt {
            return Do::Quit;
        }
        self.note = None;
        match self.view.clone() {
            View::Filter => self.type_filter(key),
            View::Force { name, holder, .. } => {
                self.view = View::Lock { name: name.clone(), report: None };
                if key == Key::Char('y') {
                    return Do::Force { name, holder };
                }
                self.note("cancelled; nothing was changed".to_owned());
                return Do::Ask(name);
            }
            View::Lock { name, .. } => return self.press_in_lock(key, name),
            View::Nodes | View::Help => match key {
                Key::Char('q') => return Do::Quit,
                Key::Char('?') if self.view != View::Help => self.view = View::Help,
                Key::Char('n') if self.view != View::Nodes => self.view = View::Nodes,
                _ => self.view = View::List,
            },
            View::List => return self.press_in_list(key),
        }
        Do::Nothing
    }

    fn press_in_list(&mut self, key: Key) -> Do {
        match key {
            Key::Char('q') => return Do::Quit,
            Key::Escape => self.filter.clear(),
            Key::Char('?') => self.view = View::Help,
            Key::Char('n') => self.view = View::Nodes,
            Key::Char('/') => self.view = View::Filter,
            Key::Char('s') => (self.sort, self.backwards) = (self.sort.next(), false),
            Key::Char('r') => self.backwards = !self.backwards,
            Key::Char('j') | Key::Down => self.move_by(1),
            Key::Char('k') | Key::Up => self.move_by(-1),
            Key::PageDown => self.move_by(PAGE.cast_signed()),
            Key::PageUp => self.move_by(-PAGE.cast_signed()),
            Key::Home | Key::Char('g') => self.move_by(isize::MIN),
            Key::End | Key::Char('G') => self.move_by(isize::MAX),
            Key::Enter => {
                let rows = self.rows();
                if let Some(name) = self.place(&rows).map(|place| rows[place].name.clone()) {
                    self.cursor = Some(name.clone());
                    self.view = View::Lock { name: name.clone(), report: None };
                    return Do::Ask(name);
                }
            }
            _ => {}
        }
        Do::Nothing
    }

    fn press_in_lock(&mut self, key: Key, name: String) -> Do {
        match key {
            Key::Char('q') => return Do::Quit,
            Key::Char('F') if !self.may_force => {
                self.note("to take locks from their holders, start `tenure top --allow-force`".to_owned());
            }
            Key::Char('F') => match self.locks.get(&name) {
                Some(lock) => {
                    let (holder, label) = (lock.holder.clone(), lock.label.clone());
                    self.view = View::Force { name, holder, label };
                }
                None => self.note("nobody holds it".to_owned()),
            },
            Key::Char('?') => self.view = View::Help,
            Key::Escape | Key::Backspace | Key::Char('h') => self.view = View::List,
            _ => {}
        }
        Do::Nothing
    }

    fn type_filter(&mut self, key: Key) {
        match key {
            Key::Char(letter) => self.filter.push(letter),
            Key::Backspace => drop(self.filter.pop()),
            Key::Escape => {
                self.filter.clear();
                self.view = View::List;
            }
            Key::Enter => self.view = View::List,
            _ => {}
        }
    }

    fn move_by(&mut self, lines: isize) {
        let rows = self.rows();
        let Some(place) = self.place(&rows) else { return };
        let place = place.saturating_add_signed(lines).min(rows.len() - 1);
        self.cursor = Some(rows[place].name.clone());
    }
}
