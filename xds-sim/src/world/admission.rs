//! Treatment of rogue clients by a server: rejected or served.

use super::RogueClient;
use crate::{
    options::{Lie, Options, Order},
    world::events::Rule,
};

const NODE_ONCE: Rule =
    Rule::new("IS19", "a node is stated once; a node in a later request is handled as configured");
const UNKNOWN_APART: Rule = Rule::new(
    "IS21",
    "a request for a type that is not served is handled as configured, and other types are not affected",
);
const OF_ONE_TYPE: Rule = Rule::new(
    "IS22",
    "a single-type stream is closed on a request for another type, and an aggregated one on a request without a type",
);

/// Rules checked here.
#[cfg(test)]
pub(crate) const RULES: [Rule; 3] = [NODE_ONCE, UNKNOWN_APART, OF_ONE_TYPE];

/// Whether a rogue client that requests an unknown type states a type URL.
pub(super) const fn has_type_url(nth: u32) -> bool {
    !nth.is_multiple_of(4)
}

/// Treatment of a rogue client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reception {
    Rejected,
    /// Open stream that was sent resources of a known type, or is not due any.
    Served,
    /// Open stream that was sent no resource of a known type although some are due.
    Ignored,
}

impl Reception {
    /// Determines the treatment. `has_resources` is whether resources of the known type exist.
    pub(super) fn of(
        rogue_client: Option<&RogueClient>,
        has_resources: bool,
        options: &Options,
    ) -> Self {
        // A referenced resource may have to be accepted first.
        let waits = matches!(options.order, Order::AfterAcks | Order::OnlyAfterAcks);
        match rogue_client {
            None => Self::Rejected,
            Some(rogue_client) if rogue_client.served > 0 || !has_resources || waits => {
                Self::Served
            }
            Some(_) => Self::Ignored,
        }
    }

    /// Returns the rule that a server breaks by this treatment.
    pub(super) fn breaks(self, lie: Lie, nth: u32, options: &Options) -> Option<Rule> {
        let is_strict = options.are_servers_strict();
        let (rule, may_stay) = match lie {
            Lie::WrongType => (OF_ONE_TYPE, false),
            Lie::UnknownTypes if !has_type_url(nth) => (OF_ONE_TYPE, false),
            Lie::UnknownTypes => (UNKNOWN_APART, !is_strict),
            Lie::Impostor => (NODE_ONCE, !is_strict),
            _ => return None,
        };
        let is_right = match self {
            Self::Rejected => !may_stay,
            Self::Served => may_stay,
            Self::Ignored => false,
        };
        (!is_right).then_some(rule)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Feature;

    fn breaks(reception: Reception, lie: Lie, nth: u32, is_strict: bool) -> Option<&'static str> {
        let mut options = Options::default();
        if is_strict {
            options.features = options.features.with(Feature::StrictServer);
        }
        reception.breaks(lie, nth, &options).map(|rule| rule.id)
    }

    #[test]
    fn request_for_a_type_of_another_stream_must_be_rejected() {
        for lie in [Lie::WrongType, Lie::UnknownTypes] {
            assert_eq!(breaks(Reception::Rejected, lie, 0, false), None);
            assert_eq!(breaks(Reception::Served, lie, 0, false), Some("IS22"));
        }
        println!("covers: IS22");
    }

    #[test]
    fn unknown_type_and_node_change_are_handled_as_configured() {
        for (lie, id) in [(Lie::UnknownTypes, "IS21"), (Lie::Impostor, "IS19")] {
            assert_eq!(breaks(Reception::Served, lie, 1, false), None);
            assert_eq!(breaks(Reception::Ignored, lie, 1, false), Some(id));
            assert_eq!(breaks(Reception::Rejected, lie, 1, false), Some(id));
            assert_eq!(breaks(Reception::Rejected, lie, 1, true), None);
            assert_eq!(breaks(Reception::Served, lie, 1, true), Some(id));
        }
        println!("covers: IS19 IS21");
    }
}
