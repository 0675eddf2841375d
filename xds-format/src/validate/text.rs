//! Constraints on strings and bytes.

use core::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::rules::{Form, Span, Strictness, TextRules};
use crate::error::abbreviate;

/// Whether a value is a string or bytes. Some rules count characters for strings and bytes for
/// bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flavour {
    String,
    Bytes,
}

impl TextRules {
    /// Returns the violated rule and a text that completes "must ...", if the value is not allowed.
    pub(crate) fn fault(&self, text: &[u8], flavour: Flavour) -> Option<(&'static str, String)> {
        if self.ignore_empty && text.is_empty() {
            return None;
        }
        let quote = |wanted: &[u8]| quoted(wanted, flavour);
        if let Some(constant) = &self.constant
            && text != constant
        {
            return Some(("const", format!("be {}", quote(constant))));
        }
        let characters = || core::str::from_utf8(text).map_or(text.len(), |it| it.chars().count());
        if self.chars != Span::default()
            && let Some(fault) = self.chars.fault(characters(), "character", ["min_len", "max_len"])
        {
            return Some(fault);
        }
        let names = match flavour {
            Flavour::String => ["min_bytes", "max_bytes"],
            Flavour::Bytes => ["min_len", "max_len"],
        };
        if let Some(fault) = self.bytes.fault(text.len(), "byte", names) {
            return Some(fault);
        }
        if let Some(pattern) = &self.pattern
            && !pattern.is_match(text)
        {
            return Some(("pattern", format!("match `{pattern}`")));
        }
        if let Some(prefix) = &self.prefix
            && !text.starts_with(prefix)
        {
            return Some(("prefix", format!("begin with {}", quote(prefix))));
        }
        if let Some(suffix) = &self.suffix
            && !text.ends_with(suffix)
        {
            return Some(("suffix", format!("end in {}", quote(suffix))));
        }
        if let Some(part) = &self.contains
            && !contains(text, part)
        {
            return Some(("contains", format!("contain {}", quote(part))));
        }
        if let Some(part) = &self.not_contains
            && contains(text, part)
        {
            return Some(("not_contains", format!("not contain {}", quote(part))));
        }
        let is_in = |list: &[Vec<u8>]| list.iter().any(|it| it == text);
        let shown =
            |list: &[Vec<u8>]| list.iter().map(|it| quote(it)).collect::<Vec<_>>().join(", ");
        if !self.one_of.is_empty() && !is_in(&self.one_of) {
            return Some(("in", format!("be one of {}", shown(&self.one_of))));
        }
        if is_in(&self.none_of) {
            return Some(("not_in", format!("not be one of {}", shown(&self.none_of))));
        }
        let form = self.form.filter(|form| !form.fits(text, flavour))?;
        Some((form.rule(), format!("be {form}")))
    }
}

impl Span {
    /// Returns the violated rule and a text that completes "must ...", if the count is not allowed.
    pub(crate) fn fault(
        self,
        count: usize,
        thing: &str,
        [min_rule, max_rule]: [&'static str; 2],
    ) -> Option<(&'static str, String)> {
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        let things = |count: u64| format!("{count} {thing}{}", if count == 1 { "" } else { "s" });
        match (self.min, self.max) {
            (Some(1), _) if count == 0 => Some((min_rule, "not be empty".to_owned())),
            (Some(min), _) if count < min => {
                Some((min_rule, format!("have at least {}", things(min))))
            }
            (_, Some(max)) if count > max => {
                Some((max_rule, format!("have at most {}", things(max))))
            }
            _ => None,
        }
    }
}

/// Formats a value for an error message.
pub(crate) fn quoted(text: &[u8], flavour: Flavour) -> String {
    match (flavour, core::str::from_utf8(text)) {
        (Flavour::String, Ok(text)) => format!("{:?}", abbreviate(text)),
        _ => format!("{} byte{}", text.len(), if text.len() == 1 { "" } else { "s" }),
    }
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    part.is_empty() || text.windows(part.len()).any(|window| window == part)
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Email => "an e-mail address",
            Self::Hostname => "a host name",
            Self::Ip => "an IP address",
            Self::Ipv4 => "an IPv4 address",
            Self::Ipv6 => "an IPv6 address",
            Self::Uri => "a URI",
            Self::UriReference => "a URI reference",
            Self::Address => "a host name or an IP address",
            Self::Uuid => "a UUID",
            Self::HeaderName(_) => "the name of an HTTP header",
            Self::HeaderValue(_) => "the value of an HTTP header",
        })
    }
}

impl Form {
    fn rule(self) -> &'static str {
        match self {
            Self::Email => "email",
            Self::Hostname => "hostname",
            Self::Ip => "ip",
            Self::Ipv4 => "ipv4",
            Self::Ipv6 => "ipv6",
            Self::Uri => "uri",
            Self::UriReference => "uri_ref",
            Self::Address => "address",
            Self::Uuid => "uuid",
            Self::HeaderName(_) | Self::HeaderValue(_) => "well_known_regex",
        }
    }

    fn fits(self, text: &[u8], flavour: Flavour) -> bool {
        if flavour == Flavour::Bytes {
            return match self {
                Self::Ipv4 => text.len() == 4,
                Self::Ipv6 => text.len() == 16,
                Self::Ip => text.len() == 4 || text.len() == 16,
                _ => true,
            };
        }
        let Ok(text) = core::str::from_utf8(text) else { return false };
        match self {
            Self::Email => text.rsplit_once('@').is_some_and(|(local, host)| {
                !local.is_empty() && local.len() <= 64 && !has_blank(local) && is_hostname(host)
            }),
            Self::Hostname => is_hostname(text),
            Self::Ip => text.parse::<IpAddr>().is_ok(),
            Self::Ipv4 => text.parse::<Ipv4Addr>().is_ok(),
            Self::Ipv6 => text.parse::<Ipv6Addr>().is_ok(),
            Self::Uri => {
                !has_blank(text)
                    && text.split_once(':').is_some_and(|(scheme, _)| is_scheme(scheme))
            }
            Self::UriReference => !has_blank(text),
            Self::Address => is_hostname(text) || text.parse::<IpAddr>().is_ok(),
            Self::Uuid => is_uuid(text),
            Self::HeaderName(Strictness::Strict) => {
                let name = text.strip_prefix(':').unwrap_or(text);
                !name.is_empty() && name.bytes().all(is_in_header_name)
            }
            Self::HeaderName(Strictness::Loose) => !breaks_line(text),
            Self::HeaderValue(Strictness::Strict) => {
                !text.bytes().any(|byte| (byte < 0x20 && byte != b'\t') || byte == 0x7f)
            }
            Self::HeaderValue(Strictness::Loose) => !breaks_line(text),
        }
    }
}

fn has_blank(text: &str) -> bool {
    text.chars().any(|it| it.is_whitespace() || it.is_control())
}

fn breaks_line(text: &str) -> bool {
    text.contains(['\0', '\n', '\r'])
}

fn is_scheme(scheme: &str) -> bool {
    scheme.starts_with(|it: char| it.is_ascii_alphabetic())
        && scheme.bytes().all(|it| it.is_ascii_alphanumeric() || b"+.-".contains(&it))
}

/// Whether the text is a host name by RFC 1034, with labels that may begin with a digit.
fn is_hostname(text: &str) -> bool {
    let name = text.strip_suffix('.').unwrap_or(text);
    name.len() <= 253
        && name.split('.').all(|label| {
            (1..=63).contains(&label.len())
                && !label.starts_with('-')
                && !label.ends_with('-')
                && label.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'-')
        })
}

fn is_uuid(text: &str) -> bool {
    let parts: Vec<_> = text.split('-').collect();
    parts.iter().map(|part| part.len()).eq([8, 4, 4, 4, 12])
        && parts.iter().all(|part| part.bytes().all(|it| it.is_ascii_hexdigit()))
}

fn is_in_header_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+,-.^_|~`".contains(&byte)
}
