//! Domain patterns, and the choice of the virtual host for a name.

use alloc::{
    collections::BTreeMap,
    string::{String, ToString as _},
    vec::Vec,
};
use core::fmt;

/// Domain pattern of a virtual host. Comparison ignores ASCII case; patterns are stored in lower
/// case.
///
/// The variants are listed in order of precedence, the most specific kind first.
// S2.069
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DomainPattern {
    /// This name.
    Exact(String),
    /// Longer names that end with this suffix: `*.example.com` without the asterisk.
    Suffix(String),
    /// Longer names that start with this prefix: `example.*` without the asterisk.
    Prefix(String),
    /// All names.
    Any,
}

impl DomainPattern {
    /// Parses a pattern. Returns `None` if it is empty or has an asterisk other than at one end.
    #[must_use]
    pub fn parse(pattern: &str) -> Option<Self> {
        let pattern = pattern.to_ascii_lowercase();
        if pattern == "*" {
            return Some(Self::Any);
        }
        let parsed = if let Some(suffix) = pattern.strip_prefix('*') {
            Self::Suffix(suffix.to_string())
        } else if let Some(prefix) = pattern.strip_suffix('*') {
            Self::Prefix(prefix.to_string())
        } else {
            Self::Exact(pattern)
        };
        let is_plain = !parsed.text().is_empty() && !parsed.text().contains('*');
        is_plain.then_some(parsed)
    }

    fn text(&self) -> &str {
        match self {
            Self::Exact(text) | Self::Suffix(text) | Self::Prefix(text) => text,
            Self::Any => "",
        }
    }

    /// Whether the pattern matches a name.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        let name = name.to_ascii_lowercase();
        match self {
            Self::Exact(exact) => name == *exact,
            Self::Suffix(suffix) => name.len() > suffix.len() && name.ends_with(suffix.as_str()),
            Self::Prefix(prefix) => name.len() > prefix.len() && name.starts_with(prefix.as_str()),
            Self::Any => true,
        }
    }
}

/// Suffixes or prefixes, each with the first virtual host that has it, and their lengths in
/// descending order.
#[derive(Clone, Debug, Default)]
struct Texts {
    hosts: BTreeMap<String, usize>,
    lengths: Vec<usize>,
}

impl Texts {
    fn add(&mut self, text: &str, host: usize) {
        self.hosts.entry(text.to_string()).or_insert(host);
        if let Err(place) = self.lengths.binary_search_by(|length| text.len().cmp(length)) {
            self.lengths.insert(place, text.len());
        }
    }

    /// Returns the virtual host of the longest match, and its text. `part` returns the part of the
    /// name with the given length.
    fn longest<'a>(
        &self,
        name: &'a str,
        part: impl Fn(usize) -> Option<&'a str>,
    ) -> Option<(usize, &'a str)> {
        let shorter = self.lengths.iter().filter(|&&length| length < name.len());
        let mut parts = shorter.filter_map(|&length| part(length));
        parts.find_map(|text| Some((self.hosts.get(text).copied()?, text)))
    }
}

/// Index from names to virtual hosts.
#[derive(Clone, Debug, Default)]
pub(crate) struct DomainIndex {
    exact: BTreeMap<String, usize>,
    suffixes: Texts,
    prefixes: Texts,
    any: Option<usize>,
}

impl DomainIndex {
    /// Creates the index from the domains of each virtual host.
    pub(crate) fn new<'a>(hosts: impl Iterator<Item = &'a [DomainPattern]>) -> Self {
        let mut index = Self::default();
        for (host, domains) in hosts.enumerate() {
            for domain in domains {
                match domain {
                    DomainPattern::Exact(name) => {
                        index.exact.entry(name.clone()).or_insert(host);
                    }
                    DomainPattern::Suffix(suffix) => index.suffixes.add(suffix, host),
                    DomainPattern::Prefix(prefix) => index.prefixes.add(prefix, host),
                    DomainPattern::Any => {
                        index.any.get_or_insert(host);
                    }
                }
            }
        }
        index
    }

    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        self.find_domain(name).map(|(host, _)| host)
    }

    /// Returns the virtual host of a name, and the domain that matches most specifically.
    pub(crate) fn find_domain(&self, name: &str) -> Option<(usize, DomainPattern)> {
        let name = name.to_ascii_lowercase();
        if let Some(&host) = self.exact.get(&name) {
            return Some((host, DomainPattern::Exact(name)));
        }
        let suffix = self.suffixes.longest(&name, |length| name.get(name.len() - length..));
        if let Some((host, suffix)) = suffix {
            return Some((host, DomainPattern::Suffix(suffix.to_string())));
        }
        if let Some((host, prefix)) = self.prefixes.longest(&name, |length| name.get(..length)) {
            return Some((host, DomainPattern::Prefix(prefix.to_string())));
        }
        self.any.map(|host| (host, DomainPattern::Any))
    }
}

impl fmt::Display for DomainPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(name) => f.write_str(name),
            Self::Suffix(suffix) => write!(f, "*{suffix}"),
            Self::Prefix(prefix) => write!(f, "{prefix}*"),
            Self::Any => f.write_str("*"),
        }
    }
}
