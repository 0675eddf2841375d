//! Numbers given as arguments.

use core::num::NonZeroU64;

use thiserror::Error;
use xds_sim::check::number_of;

#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub(crate) enum InvalidNumber {
    #[error("expected a whole number such as 7, 1_000 or 0x5eed")]
    Form,
    #[error("must be at least 1")]
    Zero,
    #[error("the number is too large")]
    TooLarge,
}

/// Parses a number in the form that `XDS_SIM_SEED` accepts.
pub(super) fn parse_number<N: TryFrom<u64>>(text: &str) -> Result<N, InvalidNumber> {
    let number = number_of(text).ok_or(InvalidNumber::Form)?;
    N::try_from(number).map_err(|_| InvalidNumber::TooLarge)
}

/// Parses a number that is at least 1.
pub(super) fn parse_count<N: TryFrom<NonZeroU64>>(text: &str) -> Result<N, InvalidNumber> {
    let number = NonZeroU64::new(parse_number(text)?).ok_or(InvalidNumber::Zero)?;
    N::try_from(number).map_err(|_| InvalidNumber::TooLarge)
}

#[cfg(test)]
mod tests {
    use core::num::NonZeroU32;

    use super::*;

    #[test]
    fn number_has_separators_or_is_hexadecimal() {
        for (text, number) in [("0", 0), ("1_000", 1_000), ("0x10", 16)] {
            assert_eq!(parse_number::<u32>(text), Ok(number), "{text}");
        }
        for text in ["", "x", "-1", "1.5", "4MiB"] {
            assert_eq!(parse_number::<u32>(text), Err(InvalidNumber::Form), "{text}");
        }
        assert_eq!(parse_number::<u32>("5_000_000_000"), Err(InvalidNumber::TooLarge));
    }

    #[test]
    fn count_is_at_least_one() {
        assert_eq!(parse_count("1").map(NonZeroU32::get), Ok(1));
        assert_eq!(parse_count::<NonZeroU32>("0"), Err(InvalidNumber::Zero));
        assert_eq!(parse_count::<NonZeroU32>("5_000_000_000"), Err(InvalidNumber::TooLarge));
        assert_eq!(parse_count::<u64>("5_000_000_000"), Ok(5_000_000_000));
    }
}
