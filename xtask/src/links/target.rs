//! Targets of links.

/// Target of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// Address on another host, or of another scheme such as `mailto`.
    Url,
    /// File or folder.
    File {
        /// Path relative to the root.
        path: String,
        anchor: Option<String>,
    },
    /// Path that leaves the root.
    Outside,
}

/// Resolves the destination of a link in a file.
pub(super) fn resolve(file: &str, destination: &str) -> Target {
    if has_scheme(destination) || destination.starts_with("//") {
        return Target::Url;
    }
    let (path, anchor) = match destination.split_once('#') {
        Some((path, anchor)) => (path, Some(decoded(anchor))),
        None => (destination, None),
    };
    let path = path.split('?').next().unwrap_or_default();
    if path.is_empty() {
        return Target::File { path: file.into(), anchor };
    }
    let mut parts: Vec<_> = file.split('/').collect();
    parts.pop();
    let path = decoded(path);
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.pop().is_none() => return Target::Outside,
            ".." => {}
            name => parts.push(name),
        }
    }
    Target::File { path: parts.join("/"), anchor }
}

/// Whether a URL of another host is complete. `mailto:` and other schemes are not examined.
pub(super) fn is_valid_url(url: &str) -> bool {
    let Some((scheme, rest)) = url.split_once("://") else { return url.starts_with("mailto:") };
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let name = host.split(':').next().unwrap_or_default();
    let is_host = |c: char| c.is_ascii_alphanumeric() || "-.:".contains(c);
    ["http", "https"].contains(&scheme)
        && name.contains('.')
        && !name.starts_with('.')
        && host.chars().all(is_host)
        && rest.chars().all(|c| c.is_ascii_graphic() && !"<>\"{}|\\^`".contains(c))
}

fn has_scheme(destination: &str) -> bool {
    destination.split_once(':').is_some_and(|(scheme, _)| {
        !scheme.is_empty() && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
    })
}

/// Replaces `%20` and other percent encodings. An invalid one stays as it is.
fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut found = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let digits = text.get(at + 1..at + 3).filter(|_| byte == b'%');
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(value) => {
                found.push(value);
                at += 3;
            }
            None => {
                found.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&found).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, anchor: Option<&str>) -> Target {
        Target::File { path: path.into(), anchor: anchor.map(Into::into) }
    }

    #[test]
    fn destination_is_resolved_relative_to_the_file() {
        assert_eq!(resolve("docs/a.md", "b.md#c"), file("docs/b.md", Some("c")));
        assert_eq!(resolve("docs/a.md", "../README.md"), file("README.md", None));
        assert_eq!(resolve("docs/a.md", "#c%20d"), file("docs/a.md", Some("c d")));
        assert_eq!(resolve("docs/a.md", "./x/"), file("docs/x", None));
        assert_eq!(resolve("docs/a.md", "../../x"), Target::Outside);
        assert_eq!(resolve("docs/a.md", "https://example.com/x"), Target::Url);
    }

    #[test]
    fn incomplete_urls_are_invalid() {
        assert!(is_valid_url("https://example.com/a#b"));
        assert!(is_valid_url("mailto:someone@example.com"));
        for url in ["https:///a", "https://example", "ftp://example.com", "https://a.b/<x>"] {
            assert!(!is_valid_url(url), "{url}");
        }
    }
}
