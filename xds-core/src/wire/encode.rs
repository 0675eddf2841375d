//! Encoding of protobuf fields directly into the buffer for the transport.

use alloc::vec::Vec;

/// Appends a varint.
pub(crate) fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Number of bytes that [`varint`] writes for `value`.
pub(crate) fn varint_len(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

/// Appends the head of a length-delimited field.
pub(crate) fn block_head(out: &mut Vec<u8>, field: u32, len: usize) {
    varint(out, u64::from(field) << 3 | 2);
    varint(out, len as u64);
}

/// Number of bytes of a length-delimited field with `len` bytes of content, including its head.
pub(crate) fn block_len(field: u32, len: usize) -> usize {
    varint_len(u64::from(field) << 3) + varint_len(len as u64) + len
}

/// Appends a bytes, string or message field.
pub(crate) fn block(out: &mut Vec<u8>, field: u32, bytes: &[u8]) {
    out.reserve(block_len(field, bytes.len()));
    block_head(out, field, bytes.len());
    out.extend_from_slice(bytes);
}

/// Appends a string field unless it is empty, which proto3 leaves out.
pub(crate) fn string(out: &mut Vec<u8>, field: u32, text: &str) {
    if !text.is_empty() {
        block(out, field, text.as_bytes());
    }
}

/// Appends a number field unless it is zero, which proto3 leaves out.
pub(crate) fn number(out: &mut Vec<u8>, field: u32, value: u64) {
    if value != 0 {
        varint(out, u64::from(field) << 3);
        varint(out, value);
    }
}

/// Returns an encoded `google.rpc.Status`, as in the `error_detail` of requests.
pub(crate) fn status(code: i32, message: &str) -> Vec<u8> {
    let mut out = Vec::new();
    number(&mut out, 1, code as u64);
    string(&mut out, 2, message);
    out
}

/// Appends one entry of a map from strings to strings, as in `initial_resource_versions`.
// B07
pub(crate) fn pair(out: &mut Vec<u8>, field: u32, key: &str, value: &str) {
    block_head(out, field, block_len(1, key.len()) + block_len(2, value.len()));
    block(out, 1, key.as_bytes());
    block(out, 2, value.as_bytes());
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use prost::Message as _;

    use crate::proto;
    use crate::wire::encode::*;

    #[test]
    fn computed_lengths_equal_encoded_lengths() {
        for value in [0, 1, 127, 128, 16_383, 16_384, u64::from(u32::MAX), u64::MAX] {
            let mut out = Vec::new();
            varint(&mut out, value);
            assert_eq!(out.len(), varint_len(value), "{value}");
        }
        let mut out = Vec::new();
        block(&mut out, 300, &[7; 200]);
        assert_eq!(out.len(), block_len(300, 200));
    }

    #[test]
    fn encoded_map_entry_is_decoded_by_prost() {
        let mut out = Vec::new();
        for (key, value) in [("a", "1"), ("", ""), ("long", &*"v".repeat(300))] {
            pair(&mut out, 5, key, value);
        }
        let request = proto::DeltaDiscoveryRequest::decode(&*out).unwrap();
        let versions: Vec<_> =
            request.initial_resource_versions.iter().map(|(k, v)| (&**k, v.len())).collect();
        assert_eq!(versions, [("", 0), ("a", 1), ("long", 300)]);
    }
}
