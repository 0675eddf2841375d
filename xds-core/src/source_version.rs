//! Text of versions with a source revision: `<revision>-<hash>`.
//!
//! Only the hash identifies the content. The revision is a lower bound of what a client has seen,
//! by which a server notices that it lags behind.

/// Splits the text of a version into its source revision, if it has one, and the rest.
pub(crate) fn split(text: &str) -> (Option<u64>, &str) {
    let parts = text.rsplit_once('-');
    let parsed = parts.and_then(|(revision, rest)| Some((parse(revision)?, rest)));
    parsed.map_or((None, text), |(revision, rest)| (Some(revision), rest))
}

/// Returns the source revision in the text of a version; zero if it has none.
pub(crate) fn revision_of(text: &str) -> u64 {
    split(text).0.unwrap_or(0)
}

fn parse(revision: &str) -> Option<u64> {
    let is_decimal = revision.bytes().all(|digit| digit.is_ascii_digit());
    is_decimal.then(|| revision.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use crate::source_version::*;

    #[test]
    fn decimal_number_before_the_last_dash_is_the_revision() {
        assert_eq!(split("17-00ff"), (Some(17), "00ff"));
        assert_eq!(split("18446744073709551615-a"), (Some(u64::MAX), "a"));
    }

    #[test]
    fn other_versions_have_no_revision() {
        for text in ["", "17", "00ff", "-00ff", "+1-a", "1-2-a", "x-a", "18446744073709551616-a"] {
            assert_eq!(split(text), (None, text));
        }
    }
}
