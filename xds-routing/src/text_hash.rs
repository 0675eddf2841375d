//! Hash function of ring hash.

use twox_hash::XxHash64;

/// Returns the XXH64 of a text with seed 0, the hash that all xDS clients share ([gRFC A42]).
///
/// [gRFC A42]: https://github.com/grpc/proposal/blob/master/A42-xds-ring-hash-lb-policy.md
pub(crate) fn hash_text(text: &str) -> u64 {
    XxHash64::oneshot(0, text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of the reference implementation of xxHash.
    #[test]
    fn hash_is_xxh64_with_seed_zero() {
        assert_eq!(hash_text(""), 0xef46_db37_51d8_e999);
        assert_eq!(hash_text("a"), 0xd24e_c4f1_a98c_6e5b);
        assert_eq!(hash_text("abc"), 0x44bc_2cf5_ad77_0999);
    }
}
