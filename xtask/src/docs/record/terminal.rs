//! A terminal that understands what the tool says to one: text, new lines, going back to the
//! beginning of a line, clearing the rest of it, colours.

/// How a letter looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Style {
    pub(super) bold: bool,
    pub(super) dim: bool,
    /// One of the eight colours, if it has one.
    pub(super) colour: Option<u8>,
}

/// A letter on the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) letter: char,
    pub(super) style: Style,
}

const EMPTY: Cell = Cell { letter: ' ', style: Style { bold: false, dim: false, colour: None } };

/// The screen and where the next letter goes.
pub(super) struct Terminal {
    columns: usize,
    rows: usize,
    lines: Vec<Vec<Cell>>,
    row: usize,
    column: usize,
    style: Style,
    /// Whether a line that is full goes on in the next one.
    wraps: bool,
}

impl Terminal {
    pub(super) fn new(columns: usize, rows: usize) -> Self {
        Self {
            columns,
            rows,
            lines: vec![vec![]; rows],
            row: 0,
            column: 0,
            style: Style::default(),
            wraps: true,
        }
    }

    /// The lines, without the empty ends.
    pub(super) fn lines(&self) -> Vec<Vec<Cell>> {
        let trimmed = |line: &Vec<Cell>| {
            let end = line.iter().rposition(|cell| cell.letter != ' ').map_or(0, |last| last + 1);
            line[..end].to_vec()
        };
        self.lines.iter().map(trimmed).collect()
    }

    pub(super) fn write(&mut self, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let mut letters = text.chars();
        while let Some(letter) = letters.next() {
            match letter {
                '\r' => self.column = 0,
                '\n' => self.next_row(),
                '\u{1b}' if letters.next() == Some('[') => {
                    let mut words = String::new();
                    let end = letters.by_ref().find(|letter| {
                        let is_end = ('@'..='~').contains(letter);
                        if !is_end {
                            words.push(*letter);
                        }
                        is_end
                    });
                    self.control(&words, end);
                }
                letter if letter.is_control() => {}
                letter => self.put(letter),
            }
        }
    }

    fn put(&mut self, letter: char) {
        if self.column == self.columns && self.wraps {
            self.column = 0;
            self.next_row();
        }
        self.column = self.column.min(self.columns - 1);
        let (column, style) = (self.column, self.style);
        let line = &mut self.lines[self.row];
        line.resize(line.len().max(column + 1), EMPTY);
        line[column] = Cell { letter, style };
        self.column += 1;
    }

    fn next_row(&mut self) {
        if self.row + 1 < self.rows {
            self.row += 1;
            return;
        }
        self.lines.remove(0);
        self.lines.push(vec![]);
    }

    fn control(&mut self, words: &str, end: Option<char>) {
        let number = words.parse().unwrap_or(0);
        match end {
            Some('m') => words.split(';').for_each(|word| self.restyle(word.parse().unwrap_or(0))),
            Some('K') => self.lines[self.row].truncate(if number == 2 { 0 } else { self.column }),
            Some('A') => self.row = self.row.saturating_sub(number.max(1)),
            Some('l' | 'h') if words == "?7" => self.wraps = end == Some('h'),
            Some('G') => self.column = number.saturating_sub(1).min(self.columns),
            _ => {}
        }
    }

    fn restyle(&mut self, code: usize) {
        let bright = |code: usize| u8::try_from(code % 10).ok();
        match code {
            0 => self.style = Style::default(),
            1 => self.style.bold = true,
            2 => self.style.dim = true,
            22 => (self.style.bold, self.style.dim) = (false, false),
            30..=37 | 90..=97 => self.style.colour = bright(code),
            39 => self.style.colour = None,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn screen(text: &str) -> Vec<String> {
        let mut terminal = Terminal::new(6, 3);
        terminal.write(text.as_bytes());
        terminal.lines().iter().map(|line| line.iter().map(|cell| cell.letter).collect()).collect()
    }

    #[test]
    fn a_line_that_is_written_again_replaces_the_first() {
        assert_eq!(screen("one\r\ntwo\r\u{1b}[Kt3\r\n"), ["one", "t3", ""]);
        assert_eq!(screen("abc\rx"), ["xbc", "", ""]);
    }

    #[test]
    fn what_does_not_fit_goes_to_the_next_line_and_the_first_goes_away() {
        assert_eq!(screen("1234567"), ["123456", "7", ""]);
        assert_eq!(screen("a\r\nb\r\nc\r\nd"), ["b", "c", "d"]);
        assert_eq!(screen("\u{1b}[?7l12345678\r\u{1b}[?7hx"), ["x23458", "", ""]);
    }

    #[test]
    fn colours_are_kept_with_the_letters() {
        let mut terminal = Terminal::new(6, 1);
        terminal.write(b"\x1b[1;31ma\x1b[0mb");
        let [line] = terminal.lines().try_into().expect("one line");
        assert_eq!(line[0].style, Style { bold: true, dim: false, colour: Some(1) });
        assert_eq!(line[1].style, Style::default());
    }
}
