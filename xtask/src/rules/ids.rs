//! Ids of rules in text: single ids, and ranges of two ids with a hyphen between them.

use super::catalogue::Catalogue;

/// Form of the ids of one theme, such as `S0.` and three digits.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Form {
    key: String,
    /// Character between the key and the number.
    separator: Option<char>,
    /// Number of digits, if it is fixed.
    digits: Option<usize>,
}

/// Recognizes the ids of all themes, including numbers that the catalogue does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ids(Vec<Form>);

impl Ids {
    pub(crate) fn new(catalogue: &Catalogue) -> Self {
        let forms = catalogue.themes.iter().filter_map(|theme| {
            let number = theme.items.first()?.id.strip_prefix(&theme.key)?;
            let separator = number.chars().next().filter(|first| !first.is_ascii_digit());
            let digits = separator.map(|separator| number.len() - separator.len_utf8());
            Some(Form { key: theme.key.clone(), separator, digits })
        });
        Self(forms.collect())
    }

    /// Returns every id in `text`. The two ends of a range count as two ids.
    pub(crate) fn find<'a>(&self, text: &'a str) -> Vec<&'a str> {
        self.spans(text).into_iter().map(|(start, end)| &text[start..end]).collect()
    }

    /// Whether `text` consists of ids separated by spaces.
    pub(crate) fn are_all(&self, text: &str) -> bool {
        let mut words = text.split_whitespace().peekable();
        words.peek().is_some() && words.all(|word| self.spans(word) == [(0, word.len())])
    }

    /// Returns every id in `text`, with the ids of the catalogue inside ranges.
    pub(crate) fn expand(&self, text: &str, catalogue: &Catalogue) -> Vec<String> {
        let mut found: Vec<String> = Vec::new();
        let mut last: Option<(&str, usize)> = None;
        for (start, end) in self.spans(text) {
            let id = &text[start..end];
            if let Some((first, first_end)) = last
                && ["-", " to ", "\u{2013}", ".."].contains(&&text[first_end..start])
            {
                found.extend(between(catalogue, first, id));
            }
            found.push(id.to_owned());
            last = Some((id, end));
        }
        found
    }

    fn spans(&self, text: &str) -> Vec<(usize, usize)> {
        let mut found = Vec::new();
        let mut end = 0;
        for (start, _) in text.char_indices() {
            if start < end || text[..start].ends_with(|c: char| c.is_alphanumeric() || c == '_') {
                continue;
            }
            let lengths = self.0.iter().filter_map(|form| form.length(&text[start..]));
            if let Some(length) = lengths.max() {
                end = start + length;
                found.push((start, end));
            }
        }
        found
    }
}

impl Form {
    /// Length of the id of this form at the beginning of `text`.
    fn length(&self, text: &str) -> Option<usize> {
        let number = text.strip_prefix(&self.key)?;
        let number = match self.separator {
            Some(separator) => number.strip_prefix(separator)?,
            None => number,
        };
        let digits = number.bytes().take_while(u8::is_ascii_digit).count();
        let is_number = match self.digits {
            Some(fixed) => digits == fixed,
            None => (1..=3).contains(&digits),
        };
        let rest = &number[digits..];
        let variant =
            self.separator.is_none() && rest.starts_with(|c: char| c.is_ascii_lowercase());
        let rest = &rest[usize::from(variant)..];
        let ends = !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
        (is_number && ends).then(|| text.len() - rest.len())
    }
}

/// Returns the ids between two ids of one theme, without these.
fn between(catalogue: &Catalogue, first: &str, last: &str) -> Vec<String> {
    let Some(theme) = catalogue.theme_of(first) else { return Vec::new() };
    let ids = theme.items.iter().map(|item| item.id.as_str());
    let after = ids.skip_while(|&id| id != first).skip(1);
    let inside: Vec<String> = after.take_while(|&id| id != last).map(str::to_owned).collect();
    let is_range = theme.items.iter().any(|item| item.id == last);
    if is_range { inside } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn catalogue() -> Catalogue {
        let mut text = String::from("theme S0 a x\nS0.001 a [d]\n  One.\ntheme UN a x\n");
        text += "UN-01 a [d]\n  One.\ntheme M a x\n";
        for number in 1..=9 {
            text += &format!("M{number} a [d]\n  One.\n");
        }
        Catalogue::parse(&text).unwrap()
    }

    #[test]
    fn ids_of_each_form_are_found_at_word_boundaries() {
        let ids = Ids::new(&catalogue());
        let text = "S0.001, (UN-77) M93; M7b: not S0.01 UN-1 XM1 M1x2 UTF-16 M1234 N-01";
        assert_eq!(ids.find(text), ["S0.001", "UN-77", "M93", "M7b"]);
        assert!(ids.are_all("M1 UN-01"));
        assert!(!ids.are_all("M1, UN-01"));
        assert!(!ids.are_all(""));
    }

    #[test]
    fn range_includes_the_ids_between_its_ends() {
        let (catalogue, ids) = (catalogue(), Ids::new(&catalogue()));
        let found = ids.expand("M2-M4, M7 and M9, UN-01-M1", &catalogue);
        assert_eq!(found, ["M2", "M3", "M4", "M7", "M9", "UN-01", "M1"]);
    }
}
