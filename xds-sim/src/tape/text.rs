//! Text form of a tape: variable-length integers in URL-safe Base64.

use std::{fmt, str::FromStr};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use thiserror::Error;

use super::Tape;

/// Error for a text that is not a valid tape.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TapeError {
    /// The text is not valid Base64.
    #[error("invalid base64: {0}")]
    Encoding(base64::DecodeError),
    /// An integer is truncated or too large.
    #[error("a number that begins at byte {0} is cut off or too large")]
    Number(usize),
}

/// Number of value bits in a byte; the remaining bit marks that more bytes follow.
const BITS: u32 = 7;
const MORE: u8 = 1 << BITS;

impl fmt::Display for Tape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = Vec::with_capacity(self.values.len());
        for &value in &self.values {
            let mut rest = value;
            while rest >= u32::from(MORE) {
                bytes.push(rest.to_le_bytes()[0] | MORE);
                rest >>= BITS;
            }
            bytes.push(rest.to_le_bytes()[0]);
        }
        f.write_str(&BASE64_URL_SAFE_NO_PAD.encode(bytes))
    }
}

impl FromStr for Tape {
    type Err = TapeError;

    fn from_str(text: &str) -> Result<Self, TapeError> {
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(text.trim()).map_err(TapeError::Encoding)?;
        let (mut values, mut value, mut shift, mut start) = (Vec::new(), 0_u64, 0, 0);
        for (at, byte) in bytes.iter().enumerate() {
            value |= u64::from(byte & !MORE) << shift;
            if byte & MORE != 0 {
                shift += BITS;
                if shift > 28 {
                    return Err(TapeError::Number(start));
                }
                continue;
            }
            values.push(u32::try_from(value).map_err(|_| TapeError::Number(start))?);
            (value, shift, start) = (0, 0, at + 1);
        }
        if start < bytes.len() {
            return Err(TapeError::Number(start));
        }
        Ok(Self::from_values(values))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tape_round_trips_through_text() {
        for values in [vec![], vec![1], vec![127, 128, 0, 300, u32::MAX], vec![0, 0, 5]] {
            let tape = Tape::from_values(values);
            assert_eq!(tape.to_string().parse(), Ok(tape));
        }
    }

    #[test]
    fn invalid_tape_text_is_rejected() {
        assert!(matches!("!".parse::<Tape>(), Err(TapeError::Encoding(_))));
        assert_eq!("gA".parse::<Tape>(), Err(TapeError::Number(0)));
        assert_eq!("______8".parse::<Tape>(), Err(TapeError::Number(0)));
    }
}
