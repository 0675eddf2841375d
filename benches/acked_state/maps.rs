//! Table of versions for each client, as servers with a map of versions for each client have.

use std::sync::Arc;

use super::candidate::{Candidate, Payload, Revision, Version};

pub(crate) struct Maps {
    clock: Revision,
    resources: Vec<Option<Arc<Version>>>,
}

impl Candidate for Maps {
    type Acked = Vec<Option<Arc<Version>>>;

    const NAME: &'static str = "a table for each client";

    fn new(resources: u32) -> Self {
        let version = |n| Some(Arc::new(Version { set: n, payload: Payload::new(n) }));
        let resources: Vec<_> = (1..=u64::from(resources)).map(version).collect();
        Self { clock: resources.len() as u64, resources }
    }

    fn change(&mut self, resource: u32, payload: Option<Payload>) {
        self.clock += 1;
        let version = payload.map(|payload| Arc::new(Version { set: self.clock, payload }));
        self.resources[resource as usize] = version;
    }

    fn open(&mut self) -> Self::Acked {
        self.resources.clone()
    }

    fn ack(&mut self, acked: &mut Self::Acked, changed: &[u32]) {
        for &resource in changed {
            acked[resource as usize].clone_from(&self.resources[resource as usize]);
        }
    }

    fn close(&mut self, acked: Self::Acked) {
        drop(acked);
    }

    fn has<'a>(&'a self, acked: &'a Self::Acked, resource: u32) -> Option<(Revision, &'a Payload)> {
        let version = acked[resource as usize].as_deref()?;
        Some((version.set, &version.payload))
    }
}
