//! Responses that were printed before. Many clients are sent the same, and printing is what costs (M195).

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

use bytes::Bytes;

/// The newest responses with what they look like in JSON, the oldest first.
#[derive(Debug)]
pub(crate) struct Printed {
    kept: Mutex<VecDeque<(Bytes, Bytes)>>,
    /// How many bytes of JSON are kept at most.
    limit: usize,
}

impl Printed {
    pub(crate) fn new(limit: usize) -> Self {
        Self { kept: Mutex::default(), limit }
    }

    /// What the message looks like, printed now if it was not before.
    pub(crate) fn get<E>(
        &self,
        message: &Bytes,
        print: impl FnOnce(&[u8]) -> Result<Vec<u8>, E>,
    ) -> Result<Bytes, E> {
        if let Some(known) = self.find(message) {
            return Ok(known);
        }
        // Meanwhile another may print the same, which does no harm.
        let json = Bytes::from(print(message)?);
        self.keep(message.clone(), json.clone());
        Ok(json)
    }

    fn find(&self, message: &Bytes) -> Option<Bytes> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().find(|(known, _)| known == message).map(|(_, json)| json.clone())
    }

    fn keep(&self, message: Bytes, json: Bytes) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push_back((message, json));
        let mut bytes: usize = kept.iter().map(|(_, json)| json.len()).sum();
        while bytes > self.limit
            && let Some((_, oldest)) = kept.pop_front()
        {
            bytes -= oldest.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_is_printed_once_and_the_oldest_is_forgotten() {
        let printed = Printed::new(4);
        let mut prints = 0;
        let mut get = |message: &'static [u8]| {
            let print = |message: &[u8]| {
                prints += 1;
                Ok::<_, ()>([message, message].concat())
            };
            (printed.get(&Bytes::from_static(message), print).expect("no error"), prints)
        };
        assert_eq!(get(b"a"), ("aa".into(), 1));
        assert_eq!(get(b"a"), ("aa".into(), 1));
        assert_eq!(get(b"b"), ("bb".into(), 2));
        assert_eq!(get(b"a"), ("aa".into(), 2));
        assert_eq!(get(b"c"), ("cc".into(), 3));
        assert_eq!(get(b"a"), ("aa".into(), 4), "it was the oldest");
        println!("covers: M195");
    }
}
