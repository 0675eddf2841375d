//! Input of limited size.

use std::io::{self, Read};

/// Maximum size of input that a person or a program passes to a command, such as a dump, in bytes.
pub(crate) const MOST_INPUT: u64 = 512 << 20;

/// Reads all of an input. Returns an error if it is longer than `most` bytes, also if it never ends.
pub(crate) fn read_at_most(input: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    input.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > most {
        true => Err(io::Error::other(format!("it is longer than {most} bytes"))),
        false => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_without_an_end_is_an_error() {
        let why = read_at_most(io::repeat(b'x'), 1000).unwrap_err();
        assert_eq!(why.to_string(), "it is longer than 1000 bytes");
        assert_eq!(read_at_most(io::repeat(b'x').take(3), 3).unwrap(), b"xxx");
    }
}
