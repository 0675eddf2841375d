//! Versions of resources, compared across replicas.

/// Version of a resource: the revision of its source, if it has one, and the digits of its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ParsedVersion<'a> {
    pub(super) revision: Option<u64>,
    /// Digits of the content, which decide whether two resources are equal.
    pub(super) content: &'a str,
}

impl<'a> ParsedVersion<'a> {
    /// Parses `REVISION-CONTENT`. Any other text is the content.
    pub(super) fn of(version: &'a str) -> Self {
        let parts = version.split_once('-').and_then(|(revision, content)| {
            let is_number = revision.bytes().all(|it| it.is_ascii_digit()) && !content.is_empty();
            Some((is_number.then(|| revision.parse().ok()).flatten()?, content))
        });
        match parts {
            Some((revision, content)) => Self { revision: Some(revision), content },
            None => Self { revision: None, content: version },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_has_a_revision_and_a_content() {
        let parsed = |revision, content| ParsedVersion { revision, content };
        assert_eq!(ParsedVersion::of("120-b9cc"), parsed(Some(120), "b9cc"));
        for text in ["b9cc", "", "-b9cc", "12-", "v1-b9cc", "99999999999999999999-a"] {
            assert_eq!(ParsedVersion::of(text), parsed(None, text), "{text}");
        }
    }
}
