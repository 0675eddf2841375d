//! Reasons why ids are not covered by a test.
//!
//! ```text
//! [load reporting comes later]
//! S3.001 S3.002
//! ```

use std::collections::BTreeMap;

use crate::repository::BadLine;

/// Reasons by id.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Reasons(BTreeMap<String, String>);

impl Reasons {
    pub(crate) fn parse(text: &str) -> Result<Self, BadLine> {
        let mut reasons = BTreeMap::new();
        let mut current: Option<&str> = None;
        for (number, line) in text.lines().enumerate() {
            let bad = |why: String| BadLine { line: number + 1, why };
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if let Some(reason) = line.strip_prefix('[') {
                let reason = reason.strip_suffix(']').filter(|reason| !reason.is_empty());
                current = Some(reason.ok_or_else(|| bad(format!("`{line}` is not `[REASON]`")))?);
                continue;
            }
            let reason = current.ok_or_else(|| bad("no [REASON] line precedes it".into()))?;
            for id in line.split_whitespace() {
                if reasons.insert(id.to_owned(), reason.to_owned()).is_some() {
                    return Err(bad(format!("{id} already has a reason")));
                }
            }
        }
        Ok(Self(reasons))
    }

    pub(crate) fn reason(&self, id: &str) -> Option<&str> {
        self.0.get(id).map(String::as_str)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(id, reason)| (id.as_str(), reason.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> (usize, String) {
        let BadLine { line, why } = Reasons::parse(text).unwrap_err();
        (line, why)
    }

    #[test]
    fn reason_applies_to_the_ids_below_it() {
        let reasons =
            Reasons::parse("# Prose.\n[server]\nS0.031 S0.035\nS0.066\n\n[later]\nBS-24\n")
                .unwrap();
        assert_eq!(reasons.reason("S0.066"), Some("server"));
        assert_eq!(reasons.reason("BS-24"), Some("later"));
        assert_eq!(reasons.reason("BS-25"), None);
        assert_eq!(reasons.iter().count(), 4);
    }

    #[test]
    fn invalid_line_is_named() {
        assert_eq!(refused("S0.031\n"), (1, "no [REASON] line precedes it".into()));
        assert_eq!(refused("[server\n"), (1, "`[server` is not `[REASON]`".into()));
        assert_eq!(refused("[]\n"), (1, "`[]` is not `[REASON]`".into()));
        assert_eq!(refused("[a]\nX1\n[b]\nX1\n"), (4, "X1 already has a reason".into()));
    }
}
