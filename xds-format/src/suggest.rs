//! "Did you mean" suggestions: the known name most similar to a misspelt one.

/// Maximum length of a name that is compared. Longer names are not misspelt by hand.
const MAX_LEN: usize = 160;

/// Returns the candidate nearest to `name`, if it is close enough. Ties go to the first candidate.
pub(crate) fn nearest<'c>(
    name: &str,
    candidates: impl IntoIterator<Item = &'c str>,
) -> Option<&'c str> {
    if name.len() > MAX_LEN {
        return None;
    }
    let allowed = (name.len() / 4).clamp(1, 3);
    candidates
        .into_iter()
        .filter(|candidate| candidate.len().abs_diff(name.len()) <= allowed)
        .map(|candidate| (distance(name.as_bytes(), candidate.as_bytes()), candidate))
        .filter(|&(distance, _)| distance <= allowed)
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, candidate)| candidate)
}

/// Returns the edit distance of two names: insertions, deletions, replacements, and swaps of two
/// neighbours.
fn distance(a: &[u8], b: &[u8]) -> usize {
    let mut before_last = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let replace = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = replace.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before_last[j - 2] + 1);
            }
        }
        before_last = core::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelled_name_is_suggested_and_unrelated_name_is_not() {
        let fields = ["route_config", "http_filters", "stat_prefix"];
        assert_eq!(nearest("http_fliters", fields), Some("http_filters"));
        assert_eq!(nearest("stats_prefix", fields), Some("stat_prefix"));
        assert_eq!(nearest("access_log", fields), None);
        assert_eq!(nearest(&"x".repeat(1 << 20), fields), None);
    }

    #[test]
    fn edit_distance_counts_transpositions_as_one() {
        assert_eq!(distance(b"", b"abc"), 3);
        assert_eq!(distance(b"ab", b"ba"), 1);
        assert_eq!(distance(b"kitten", b"sitting"), 3);
    }
}
