//! Table at the bottom of a terminal that is redrawn in place.

use std::io::{self, IsTerminal as _};

use terminal_size::{Height, Width, terminal_size};

use crate::{output, style::is_dumb};

/// Size that is assumed if the terminal does not report one.
const DEFAULT_SIZE: Size = Size { columns: 80, rows: 24 };
/// Rows of the terminal that the table leaves free.
const FREE_ROWS: usize = 2;

#[derive(Clone, Copy, Debug)]
struct Size {
    columns: usize,
    rows: usize,
}

/// Block of lines that follows all other output of the terminal. On another output nothing is
/// redrawn.
#[derive(Debug, Default)]
pub(super) struct Redraw {
    is_on: bool,
    /// Lines of the block.
    block: Vec<String>,
    /// Number of lines on the terminal, which the next output erases.
    drawn: usize,
    /// Number of texts on standard error when the block was drawn. After another one, the block is
    /// not the end of the output, and is drawn again instead of erased.
    stderr_texts: u64,
}

impl Redraw {
    /// Returns a block for standard output, if that is a terminal.
    pub(super) fn on_terminal() -> Self {
        Self { is_on: io::stdout().is_terminal() && !is_dumb(), ..Self::default() }
    }

    /// Whether output is redrawn in place.
    pub(super) fn is_on(&self) -> bool {
        self.is_on
    }

    /// Returns the output that replaces the block.
    pub(super) fn replace(&mut self, block: &str) -> String {
        let erase = self.erase(output::stderr_texts());
        self.block = block.lines().map(str::to_owned).collect();
        erase + &self.draw(size())
    }

    /// Returns the output that adds a text before the block.
    pub(super) fn above(&mut self, text: &str) -> String {
        if !self.is_on {
            return text.to_owned();
        }
        let erase = self.erase(output::stderr_texts());
        let end = if text.ends_with('\n') || self.block.is_empty() { "" } else { "\n" };
        format!("{erase}{text}{end}{}", self.draw(size()))
    }

    /// Returns the control sequence that moves to the first line of the block and erases it.
    fn erase(&mut self, stderr_texts: u64) -> String {
        let is_last = self.stderr_texts == stderr_texts;
        self.stderr_texts = stderr_texts;
        match core::mem::take(&mut self.drawn) {
            drawn if drawn > 0 && is_last => format!("\x1b[{drawn}A\x1b[J"),
            _ => String::new(),
        }
    }

    /// Returns the lines of the block that fit on the terminal, each cut to its width.
    fn draw(&mut self, size: Size) -> String {
        let room = size.rows.saturating_sub(FREE_ROWS).max(2);
        let mut lines: Vec<String> =
            self.block.iter().take(room).map(|line| fit(line, size.columns)).collect();
        if self.block.len() > room {
            let more = self.block.len() - room + 1;
            lines[room - 1] = format!("… and {more} more rows");
        }
        self.drawn = lines.len();
        lines.join("\n")
    }
}

/// Returns the width of the terminal.
pub(super) fn columns() -> usize {
    size().columns
}

fn size() -> Size {
    terminal_size().map_or(DEFAULT_SIZE, |(Width(columns), Height(rows))| Size {
        columns: usize::from(columns).max(20),
        rows: usize::from(rows),
    })
}

/// Cuts a line to a number of characters. Colours do not count.
fn fit(line: &str, columns: usize) -> String {
    let (mut out, mut shown, mut is_escape) = (String::new(), 0, false);
    for character in line.chars() {
        match character {
            '\x1b' => is_escape = true,
            'm' if is_escape => is_escape = false,
            _ if is_escape => {}
            _ if shown + 1 == columns && columns < visible(line) => {
                out.push_str("…\x1b[0m");
                return out;
            }
            _ => shown += 1,
        }
        out.push(character);
    }
    out
}

/// Number of characters of a line without its colours.
fn visible(line: &str) -> usize {
    let mut is_escape = false;
    let is_visible = |character: &char| {
        let is_text = !is_escape && *character != '\x1b';
        is_escape = !is_text && *character != 'm';
        is_text
    };
    line.chars().filter(is_visible).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Size = Size { columns: 10, rows: 6 };

    fn block(lines: &str) -> Redraw {
        let block = lines.lines().map(str::to_owned).collect();
        Redraw { is_on: true, block, ..Redraw::default() }
    }

    #[test]
    fn block_is_erased_before_it_is_drawn_again() {
        let mut redraw = block("one\ntwo");
        assert_eq!(redraw.erase(0), "", "nothing is drawn");
        assert_eq!(redraw.draw(SMALL), "one\ntwo");
        assert_eq!(redraw.erase(0), "\x1b[2A\x1b[J");
        assert_eq!(redraw.erase(0), "", "it is erased");
    }

    #[test]
    fn block_is_not_erased_after_output_on_standard_error() {
        let mut redraw = block("one");
        redraw.draw(SMALL);
        assert_eq!(redraw.erase(1), "");
        redraw.draw(SMALL);
        assert_eq!(redraw.erase(1), "\x1b[1A\x1b[J");
    }

    #[test]
    fn block_fits_on_the_terminal() {
        let mut redraw = block("a\nb\nc\nd\ne\nf");
        assert_eq!(redraw.draw(SMALL), "a\nb\nc\n… and 3 more rows");
        assert_eq!(redraw.drawn, 4);
        let mut wide = block("0123456789\n0123456789x\n\x1b[31m0123456789x\x1b[0m");
        let drawn = "0123456789\n012345678…\x1b[0m\n\x1b[31m012345678…\x1b[0m";
        assert_eq!(wide.draw(SMALL), drawn);
    }

    #[test]
    fn text_without_a_terminal_is_unchanged() {
        let mut redraw = Redraw::default();
        assert_eq!(redraw.above("text"), "text");
        assert!(!redraw.is_on());
    }
}
