//! Selection of clients by their nodes: id, cluster, locality and metadata.
//!
//! ```
//! use xds_core::selector::{NodeCondition, NodeFacts, NodeField, NodeSelector};
//!
//! let canaries = NodeSelector::from([
//!     NodeCondition::new(NodeField::Id, ["canary-*", "test-1"]),
//!     NodeCondition::new(NodeField::Metadata("team.name".into()), ["payments"]),
//! ]);
//! assert!(!canaries.matches(&NodeFacts::with_id("canary-7")), "it has no metadata");
//! assert!(NodeSelector::default().matches(&NodeFacts::with_id("canary-7")));
//! ```

mod node;
mod text_pattern;

use alloc::vec::Vec;

pub use self::{
    node::{NodeFacts, NodeField},
    text_pattern::TextPattern,
};

/// Conditions that a client's node has to meet, all of them. Without conditions every client is
/// selected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeSelector {
    conditions: Vec<NodeCondition>,
}

/// Condition that a node meets if one of the patterns matches a value of the field. A list in the
/// metadata has several values, and a field that is missing there has none.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeCondition {
    /// Field of the node.
    pub field: NodeField,
    /// Patterns, one of which has to match.
    pub any_of: Vec<TextPattern>,
}

impl NodeCondition {
    /// Creates a condition. In a pattern `*` stands for any characters.
    pub fn new<P: Into<TextPattern>>(
        field: NodeField,
        any_of: impl IntoIterator<Item = P>,
    ) -> Self {
        Self { field, any_of: any_of.into_iter().map(P::into).collect() }
    }

    /// Whether a node meets the condition.
    #[must_use]
    pub fn is_met(&self, node: &NodeFacts) -> bool {
        node.has(&self.field, |text| self.any_of.iter().any(|it| it.matches(text)))
    }
}

impl NodeSelector {
    /// Whether a node meets all conditions.
    #[must_use]
    pub fn matches(&self, node: &NodeFacts) -> bool {
        self.conditions.iter().all(|condition| condition.is_met(node))
    }

    /// Returns the conditions.
    #[must_use]
    pub fn conditions(&self) -> &[NodeCondition] {
        &self.conditions
    }
}

impl From<Vec<NodeCondition>> for NodeSelector {
    fn from(conditions: Vec<NodeCondition>) -> Self {
        Self { conditions }
    }
}

impl<const N: usize> From<[NodeCondition; N]> for NodeSelector {
    fn from(conditions: [NodeCondition; N]) -> Self {
        Self { conditions: Vec::from(conditions) }
    }
}
