//! "Did you mean" suggestions: the known name most similar to a misspelt one.

use strsim::osa_distance;

/// Maximum length of a name that is compared. Longer names are not misspelt by hand.
const MAX_LEN: usize = 160;

/// Returns the candidate nearest to `name`, if it is close enough to be meant. Ties go to the first
/// candidate.
///
/// ```
/// assert_eq!(xds_format::nearest("kart", ["shop", "cart"]), Some("cart"));
/// assert_eq!(xds_format::nearest("wishlist", ["shop", "cart"]), None);
/// ```
pub fn nearest<'c>(name: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    if name.len() > MAX_LEN {
        return None;
    }
    let allowed = (name.len() / 4).clamp(1, 3);
    candidates
        .into_iter()
        .filter(|candidate| candidate.len().abs_diff(name.len()) <= allowed)
        .map(|candidate| (osa_distance(name, candidate), candidate))
        .filter(|&(distance, _)| distance <= allowed)
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, candidate)| candidate)
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
}
