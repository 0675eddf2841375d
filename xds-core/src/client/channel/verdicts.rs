//! Verdicts of the application on the resources of one response.

use alloc::collections::BTreeMap;

use crate::{
    client::config::resource_type::{Rejection, Value},
    text::ResourceName,
};

/// Verdicts on the resources that were handed out.
#[derive(Debug, Default)]
pub(crate) struct Verdicts(pub(crate) BTreeMap<ResourceName, Result<Option<Value>, Rejection>>);

impl Verdicts {
    pub(crate) fn verdict(&self, name: &str) -> Option<Result<Option<Value>, Rejection>> {
        self.0.get(name).cloned()
    }
}
