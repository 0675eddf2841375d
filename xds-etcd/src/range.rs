//! Reading of a range of keys at one revision.

use bytes::Bytes;
use tonic::Code;

use crate::{
    client::{EtcdClient, EtcdError},
    proto::{RangeRequest, mvccpb::KeyValue},
};

/// Range of keys. The end is exclusive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyRange {
    pub(crate) first: Bytes,
    /// Exclusive end of the range.
    pub(crate) end: Bytes,
}

impl KeyRange {
    /// Range of the keys that begin with a prefix.
    pub(crate) fn of_prefix(prefix: &str) -> Self {
        let mut end = prefix.as_bytes().to_vec();
        while let Some(last) = end.pop() {
            if last < u8::MAX {
                end.push(last + 1);
                break;
            }
        }
        // In etcd, an end of one zero byte means no end.
        let end = if end.is_empty() { vec![0] } else { end };
        Self { first: Bytes::copy_from_slice(prefix.as_bytes()), end: end.into() }
    }
}

/// Keys of a range, as they are at one revision.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keys {
    pub(crate) revision: u64,
    pub(crate) keys: Vec<KeyValue>,
}

/// Largest number of keys in a page. A smaller one is used if values are large.
const PAGE: i64 = 512;

/// Number of times that reading starts again because the store was compacted meanwhile.
const MAX_RESTARTS: usize = 3;

impl EtcdClient {
    /// Reads ranges at one revision.
    pub(crate) async fn read_all(
        &self,
        ranges: &[KeyRange],
        at: u64,
    ) -> Result<Vec<KeyValue>, EtcdError> {
        let mut keys = Vec::new();
        for range in ranges {
            keys.extend(self.read(range, Some(at)).await?.keys);
        }
        Ok(keys)
    }

    /// Reads a range in pages, at the revision of the first page, or at a given one.
    pub(crate) async fn read(&self, range: &KeyRange, at: Option<u64>) -> Result<Keys, EtcdError> {
        let mut restarts = 0;
        loop {
            match self.read_once(range, at).await {
                Err(why) if why.is_compacted() && at.is_none() && restarts < MAX_RESTARTS => {
                    restarts += 1;
                }
                result => return result,
            }
        }
    }

    /// Reads the names of all keys of a range.
    pub(crate) async fn read_names(&self, range: &KeyRange) -> Result<Vec<Bytes>, EtcdError> {
        let request = RangeRequest {
            key: range.first.clone(),
            range_end: range.end.clone(),
            keys_only: true,
            ..RangeRequest::default()
        };
        let keys = self.range(request).await?.kvs;
        Ok(keys.into_iter().map(|kv| kv.key).collect())
    }

    async fn read_once(&self, range: &KeyRange, at: Option<u64>) -> Result<Keys, EtcdError> {
        let mut keys = Vec::new();
        let (mut first, mut limit) = (range.first.clone(), PAGE);
        let mut revision = at.map_or(0, |at| i64::try_from(at).unwrap_or(i64::MAX));
        loop {
            let request = RangeRequest {
                key: first.clone(),
                range_end: range.end.clone(),
                limit,
                revision,
                ..RangeRequest::default()
            };
            let page = match self.range(request).await {
                Err(EtcdError::Call { status, .. })
                    if status.code() == Code::OutOfRange
                        && status.message().contains("too large")
                        && limit > 1 =>
                {
                    limit /= 2;
                    continue;
                }
                page => page?,
            };
            if revision == 0 {
                revision = page.header.map_or(0, |header| header.revision);
            }
            let is_last = !page.more || page.kvs.is_empty();
            if let Some(last) = page.kvs.last() {
                // The smallest key after the last one.
                first = [&last.key[..], &[0]].concat().into();
            }
            keys.extend(page.kvs);
            if is_last {
                return Ok(Keys { revision: u64::try_from(revision).unwrap_or(0), keys });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range_of_a_prefix_ends_behind_all_keys_with_it() {
        assert_eq!(KeyRange::of_prefix("/xds/").end, Bytes::from_static(b"/xds0"));
        assert_eq!(KeyRange::of_prefix("").end, Bytes::from_static(&[0]));
    }
}
