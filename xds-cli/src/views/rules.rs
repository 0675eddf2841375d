//! Rules that select the view of a client.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use xds_core::{
    ViewName,
    selector::{NodeFacts, NodeSelector},
};
use xds_format::Position;

/// Views that are based on others: each has the resources of its base, except those that it has
/// itself. No view is its own base, also not indirectly.
pub(crate) type Bases = BTreeMap<ViewName, ViewName>;

/// Contents of a file of views.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Views {
    pub(super) file: PathBuf,
    /// The first rule that matches a client selects its view.
    pub(super) rules: Vec<ViewRule>,
    pub(super) otherwise: Otherwise,
    pub(super) bases: Bases,
    /// Positions of the bases.
    pub(super) base_positions: BTreeMap<ViewName, Option<Position>>,
}

/// Rule that selects a view.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ViewRule {
    pub(super) view: ViewName,
    pub(super) position: Option<Position>,
    pub(super) clients: NodeSelector,
}

/// Handling of a client that no rule matches.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Otherwise {
    View { view: ViewName, position: Option<Position> },
    Refused,
}

impl Default for Otherwise {
    fn default() -> Self {
        Self::View { view: ViewName::default(), position: None }
    }
}

impl Views {
    /// Returns the view of a client; `None` if it is refused.
    pub(crate) fn view_of(&self, node: &NodeFacts) -> Option<&ViewName> {
        let rule = self.rules.iter().find(|rule| rule.clients.matches(node));
        match (rule, &self.otherwise) {
            (Some(rule), _) => Some(&rule.view),
            (None, Otherwise::View { view, .. }) => Some(view),
            (None, Otherwise::Refused) => None,
        }
    }

    pub(crate) fn bases(&self) -> &Bases {
        &self.bases
    }

    /// Returns the views that clients can have.
    pub(crate) fn selected(&self) -> BTreeSet<&ViewName> {
        let otherwise = match &self.otherwise {
            Otherwise::View { view, .. } => Some(view),
            Otherwise::Refused => None,
        };
        self.rules.iter().map(|rule| &rule.view).chain(otherwise).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use xds_core::proto::{Struct, Value, value::Kind};

    use super::*;
    use crate::views::file::parse;

    const FILE: &str = "
rules:
- view: canary
  when: { id: [canary-*, test-1] }
- view: edge
  when:
    cluster: edge
    region: eu
    zone: eu-*
    sub_zone: rack-?
- view: pay
  when: { metadata: { team.name: pay*, tier: 2, beta: true } }
otherwise: refuse
";

    fn fields<const N: usize>(fields: [(&str, Kind); N]) -> Struct {
        let value = |kind| Value { kind: Some(kind) };
        Struct { fields: fields.map(|(name, kind)| (name.to_owned(), value(kind))).into() }
    }

    fn views(text: &str) -> Views {
        parse(Path::new("views.yaml"), text.as_bytes()).unwrap()
    }

    #[test]
    fn first_rule_whose_conditions_are_all_met_selects_the_view() {
        let views = views(FILE);
        let shown = |node: &NodeFacts| views.view_of(node).map(|it| it.as_str().to_owned());
        let with_id = |id: &str| NodeFacts::with_id(id);
        let mut edge = with_id("e");
        edge.cluster = "edge".into();
        edge.region = "eu".into();
        edge.zone = "eu-1".into();
        edge.sub_zone = "rack-?".into();
        let (mut canary, mut american) = (edge.clone(), edge.clone());
        canary.id = "canary-1".into();
        american.zone = "us-1".into();
        let team = fields([("name", Kind::StringValue("payments".into()))]);
        let metadata = fields([
            ("team", Kind::StructValue(team)),
            ("tier", Kind::NumberValue(2.0)),
            ("beta", Kind::BoolValue(true)),
        ]);
        let mut pay = with_id("p");
        pay.metadata = metadata;
        for (node, expected) in [
            (with_id("canary-7"), Some("canary")),
            (with_id("test-1"), Some("canary")),
            (with_id("test-2"), None),
            (canary, Some("canary")),
            (american, None),
            (edge, Some("edge")),
            (pay, Some("pay")),
        ] {
            assert_eq!(shown(&node).as_deref(), expected, "{node:?}");
        }
    }

    #[test]
    fn client_that_no_rule_matches_has_the_stated_view() {
        let node = NodeFacts::default();
        assert_eq!(views("rules: []").view_of(&node), Some(&"".into()));
        assert_eq!(views("otherwise: default").view_of(&node), Some(&"".into()));
        assert_eq!(views("otherwise: other").view_of(&node), Some(&"other".into()));
        assert_eq!(views("otherwise: refuse").view_of(&node), None);
        // Without conditions, a rule matches all clients.
        assert_eq!(views("rules: [{ view: all }]").view_of(&node), Some(&"all".into()));
    }
}
