//! Shares of clients, and the number of a client in cohorts by percent.

use alloc::string::String;
use core::{fmt, str::FromStr};

use thiserror::Error;

/// Share of a number of clients, in hundredths of a percent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Share(u32);

/// Error of parsing a [`Share`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
#[error("`{text}` is not a percentage: use a number from 0 to 100 with at most two decimals")]
pub struct InvalidShare {
    /// Text that is not a share.
    pub text: String,
}

impl Share {
    /// No clients.
    pub const NONE: Self = Self(0);
    /// All clients.
    pub const ALL: Self = Self(10_000);

    /// Returns a share in percent. Numbers above 100 stand for [`ALL`](Self::ALL).
    #[must_use]
    pub const fn percent(percent: u32) -> Self {
        if percent > 100 { Self::ALL } else { Self(percent * 100) }
    }

    /// Whether `part` is at least this share of `whole`. Zero of zero is any share.
    pub(super) const fn is_reached(self, part: u32, whole: u32) -> bool {
        part as u64 * Self::ALL.0 as u64 >= self.0 as u64 * whole as u64
    }

    /// Whether `part` is more than this share of `whole`.
    pub(super) const fn is_exceeded(self, part: u32, whole: u32) -> bool {
        part as u64 * Self::ALL.0 as u64 > self.0 as u64 * whole as u64
    }

    /// Whether the share of all clients has the client with this node id.
    ///
    /// The number of a client is the first eight bytes, little endian, of the BLAKE3 hash of the
    /// salt, a zero byte and the node id, modulo 10,000. The share has the numbers below it.
    pub(super) fn has(self, salt: &str, node_id: &str) -> bool {
        if self == Self::ALL {
            return true;
        }
        let mut hasher = blake3::Hasher::new();
        hasher.update(salt.as_bytes()).update(&[0]).update(node_id.as_bytes());
        let hash = hasher.finalize();
        let number = hash.as_bytes().first_chunk().map_or(0, |it| u64::from_le_bytes(*it));
        !node_id.is_empty() && number % u64::from(Self::ALL.0) < u64::from(self.0)
    }
}

/// A percentage, such as `2.5%`.
impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.0 / 100, self.0 % 100);
        match rest {
            0 => write!(f, "{whole}%"),
            rest if rest % 10 == 0 => write!(f, "{whole}.{}%", rest / 10),
            rest => write!(f, "{whole}.{rest:02}%"),
        }
    }
}

/// Parses a percentage; the sign `%` may be omitted.
impl FromStr for Share {
    type Err = InvalidShare;

    fn from_str(text: &str) -> Result<Self, InvalidShare> {
        let invalid = || InvalidShare { text: text.into() };
        let number = text.strip_suffix('%').unwrap_or(text);
        let (whole, decimals) = number.split_once('.').unwrap_or((number, "0"));
        let is_digits = |it: &str| !it.is_empty() && it.bytes().all(|it| it.is_ascii_digit());
        if !is_digits(whole) || !is_digits(decimals) || decimals.len() > 2 {
            return Err(invalid());
        }
        let tenfold = if decimals.len() == 1 { 10 } else { 1 };
        let whole: u32 = whole.parse().map_err(|_| invalid())?;
        let decimals: u32 = decimals.parse().map_err(|_| invalid())?;
        let share = whole.checked_mul(100).and_then(|it| it.checked_add(decimals * tenfold));
        share.map(Self).filter(|it| *it <= Self::ALL).ok_or_else(invalid)
    }
}

#[cfg(test)]
mod tests {
    use alloc::{format, string::ToString as _};

    use super::*;

    #[test]
    fn percentage_is_parsed_and_shown() {
        for text in ["0%", "1%", "2.5%", "33.33%", "0.01%", "100%"] {
            assert_eq!(text.parse::<Share>().unwrap().to_string(), text);
        }
        assert_eq!("5".parse::<Share>(), Ok(Share::percent(5)));
        for text in ["", "%", "-1", "101", "100.01", "1.234", "a", "1.", ".5", "99999999999"] {
            assert!(text.parse::<Share>().is_err(), "{text}");
        }
    }

    /// Clients have the same number on every machine and in every version.
    #[test]
    fn number_of_a_client_is_specified() {
        let hash = blake3::hash(b"salt\0node-1");
        let number = u64::from_le_bytes(hash.as_bytes()[..8].try_into().unwrap()) % 10_000;
        assert!(!Share(number as u32).has("salt", "node-1"));
        assert!(Share(number as u32 + 1).has("salt", "node-1"));
        assert!(!Share(9_999).has("", "") && Share::ALL.has("", ""));
    }

    #[test]
    fn shares_of_many_clients_are_close_to_the_percentage_and_nested() {
        let ids: alloc::vec::Vec<_> = (0..10_000).map(|it| format!("node-{it}")).collect();
        let of = |share: Share| ids.iter().filter(|id| share.has("", id)).count();
        assert!((400..600).contains(&of(Share::percent(5))), "{}", of(Share::percent(5)));
        let nested =
            |id: &&String| Share::percent(5).has("", id) && !Share::percent(10).has("", id);
        assert_eq!(ids.iter().filter(nested).count(), 0);
        assert_eq!(of(Share::NONE), 0);
    }
}
