//! Positions of many offsets in one text.

use crate::error::{Position, char_boundary};

/// Distance of the marks in bytes.
const DISTANCE: usize = 1024;

/// Positions at regular distances in a text, so that the time to find the position of an offset
/// depends neither on the length of the text nor on that of its lines.
#[derive(Debug)]
pub(super) struct Marks(Vec<(usize, Position)>);

impl Marks {
    pub(super) fn of(text: &str) -> Self {
        let (mut rest, mut position) = (text, Position::START);
        let mut marks = vec![(0, position)];
        while let Some((part, behind)) = rest.split_at_checked(char_boundary(rest, DISTANCE))
            && !part.is_empty()
        {
            position = position.after(part);
            rest = behind;
            marks.push((text.len() - rest.len(), position));
        }
        Self(marks)
    }

    /// Returns the position of a byte offset in the text. An offset past the end means the end.
    pub(super) fn position(&self, text: &str, offset: usize) -> Position {
        let offset = char_boundary(text, offset);
        let behind = self.0.partition_point(|(mark, _)| *mark <= offset);
        let mark = behind.checked_sub(1).and_then(|last| self.0.get(last));
        let (mark, position) = mark.copied().unwrap_or((0, Position::START));
        position.after(text.get(mark..offset).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_equal_those_counted_from_the_beginning() {
        let texts = [
            String::new(),
            "a\n\nb".to_owned(),
            "\u{e4}\u{20ac}x".repeat(3 * DISTANCE),
            format!("{}\n{}\n", "\u{e4}".repeat(DISTANCE), "line\n".repeat(DISTANCE)),
            "\n".repeat(2 * DISTANCE),
        ];
        for text in texts {
            let marks = Marks::of(&text);
            for offset in (0..text.len() + 3).step_by(7).chain([text.len()]) {
                let counted = Position::of(&text, offset);
                assert_eq!(marks.position(&text, offset), counted, "offset {offset}");
            }
        }
    }

    #[test]
    fn long_lines_and_long_texts_have_marks_at_the_same_distance() {
        for text in ["x".repeat(10 * DISTANCE), "x\n".repeat(5 * DISTANCE)] {
            assert_eq!(Marks::of(&text).0.len(), 11);
        }
    }
}
