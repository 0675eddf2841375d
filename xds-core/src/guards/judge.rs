//! Judgement of a change by all rules.

use alloc::{collections::BTreeSet, string::ToString as _, vec::Vec};

use super::{
    change_id::ChangeId,
    guard::{Guard, GuardRule},
    view_change::ViewChange,
    violation::{GuardViolation, MOST_NAMED, RefusedChange, Violation},
};
use crate::{
    ResourceName, TypeUrl,
    references::{Consistency, Finding, ResourceId, Severity},
};

/// Rules for changes. A change must satisfy all of them.
#[derive(Clone, Debug, Default)]
pub struct Guards(Vec<Guard>);

impl Guards {
    /// Whether there are no rules.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a rule.
    pub fn push(&mut self, guard: Guard) {
        self.0.push(guard);
    }

    /// Returns the rules, in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = &Guard> {
        self.0.iter()
    }

    /// Judges a change of one or several views. Takes time proportional to their resources, and with
    /// a rule about references to their size.
    ///
    /// # Errors
    ///
    /// Returns all violated rules, in the order of the views and then of the rules.
    // M270, M271
    pub fn judge<'c>(
        &self,
        changes: impl IntoIterator<Item = ViewChange<'c>>,
    ) -> Result<(), RefusedChange> {
        let changes: Vec<_> = changes.into_iter().collect();
        let mut violations = Vec::new();
        for change in &changes {
            let applies = |guard: &&Guard| guard.view().is_none_or(|view| view == change.view());
            violations.extend(self.0.iter().filter(applies).filter_map(|guard| {
                Some(GuardViolation {
                    guard: guard.to_string(),
                    view: change.view().clone(),
                    violation: guard.violation(change)?,
                })
            }));
        }
        if violations.is_empty() {
            return Ok(());
        }
        Err(RefusedChange { id: ChangeId::of(changes), violations })
    }
}

impl FromIterator<Guard> for Guards {
    fn from_iter<I: IntoIterator<Item = Guard>>(guards: I) -> Self {
        Self(guards.into_iter().collect())
    }
}

impl Guard {
    fn violation(&self, change: &ViewChange<'_>) -> Option<Violation> {
        match &self.rule {
            GuardRule::AtLeast { type_url, number } => too_few(change, type_url, *number),
            GuardRule::MaxRemoval { type_url, percent } => {
                removal(change, type_url.as_ref(), *percent)
            }
            GuardRule::Required { type_url, name } => missing(change, type_url, name),
            GuardRule::References(consistency) => dangling(change, consistency),
            GuardRule::Hook { hook, .. } => hook(change).err().map(Violation::Hook),
        }
    }
}

fn too_few(change: &ViewChange<'_>, type_url: &TypeUrl, minimum: usize) -> Option<Violation> {
    let (before, after) = (change.before().len_of(type_url), change.after().len_of(type_url));
    let is_worse = change.is_first() || after < before;
    let type_url = type_url.clone();
    (is_worse && after < minimum).then_some(Violation::TooFew { type_url, after, before, minimum })
}

fn removal(change: &ViewChange<'_>, of: Option<&TypeUrl>, limit: u8) -> Option<Violation> {
    let served = of.map_or_else(|| change.before().len(), |it| change.before().len_of(it));
    let counts = |(type_url, _): &(&TypeUrl, _)| of.is_none_or(|of| *type_url == of);
    let removed: Vec<_> = change.removed().filter(counts).collect();
    if removed.len().saturating_mul(100) <= served.saturating_mul(usize::from(limit)) {
        return None;
    }
    let first = removed.iter().take(MOST_NAMED).map(|(type_url, name)| ResourceId {
        type_url: (*type_url).clone(),
        name: (*name).clone(),
    });
    let (first, removed, type_url) = (first.collect(), removed.len(), of.cloned());
    Some(Violation::Removal { type_url, removed, served, limit, first })
}

fn missing(change: &ViewChange<'_>, type_url: &TypeUrl, name: &ResourceName) -> Option<Violation> {
    let is_served = change.before().get(type_url, name).is_some();
    let is_worse = change.is_first() || is_served;
    if !is_worse || change.after().get(type_url, name).is_some() {
        return None;
    }
    let resource = ResourceId { type_url: type_url.clone(), name: name.clone() };
    Some(Violation::Missing { resource, is_served })
}

fn dangling(change: &ViewChange<'_>, consistency: &Consistency<'_>) -> Option<Violation> {
    let is_dangling = |finding: &Finding| {
        matches!(finding, Finding::Missing { .. }) && finding.severity() == Severity::Error
    };
    let mut found = change.after().check(consistency);
    found.retain(is_dangling);
    if !found.is_empty() && !change.is_first() {
        let known = change.before().check(consistency);
        let known: BTreeSet<_> = known.iter().map(Finding::to_string).collect();
        found.retain(|finding| !known.contains(&finding.to_string()));
    }
    (!found.is_empty()).then_some(Violation::Dangling(found))
}

#[cfg(test)]
mod tests {
    use alloc::string::String;

    use bytes::Bytes;

    use super::*;
    use crate::{ViewName, server::ViewContents, types};

    /// Returns contents with clusters. Those whose name ends in `*` refer to endpoints.
    fn clusters(names: &str) -> ViewContents {
        let mut contents = ViewContents::default();
        for name in names.split_whitespace() {
            let (name, kind) = match name.strip_suffix('*') {
                Some(name) => (name, &b"\x10\x03"[..]),
                None => (name, &b""[..]),
            };
            let mut cluster = alloc::vec![0x0a, u8::try_from(name.len()).unwrap()];
            cluster.extend_from_slice(name.as_bytes());
            cluster.extend_from_slice(kind);
            contents.insert(&types::CLUSTER.into(), &name.into(), &cluster.into());
        }
        contents
    }

    fn with_listener(mut contents: ViewContents, name: &str) -> ViewContents {
        contents.insert(&types::LISTENER.into(), &name.into(), &Bytes::new());
        contents
    }

    fn numbered(number: usize) -> ViewContents {
        let names: Vec<_> = (0..number).map(|at| alloc::format!("c{at:02}")).collect();
        clusters(&names.join(" "))
    }

    /// Returns the reasons for which a rule refuses a change, joined; empty if it does not.
    fn judged(guard: &str, before: &ViewContents, after: &ViewContents) -> String {
        judged_in("", guard, before, after)
    }

    fn judged_in(view: &str, guard: &str, before: &ViewContents, after: &ViewContents) -> String {
        let guards: Guards = [guard.parse().unwrap()].into_iter().collect();
        let view = ViewName::from(view);
        let judged = guards.judge([ViewChange::new(&view, before, after)]);
        let violations = judged.err().map(|it| it.violations).unwrap_or_default();
        violations.iter().map(|it| it.violation.to_string()).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn minimum_applies_to_the_first_contents_and_to_removals() {
        let none = ViewContents::default();
        let few = |before: &ViewContents, number| judged("min:cds=3", before, &numbered(number));
        assert_eq!(few(&none, 3), "");
        assert_eq!(few(&none, 2), "has 2 of at least 3 clusters");
        assert_eq!(few(&none, 0), "has 0 of at least 3 clusters");
        assert_eq!(few(&numbered(4), 3), "");
        let expected = "would leave 2 of 4 clusters, the minimum is 3";
        assert_eq!(few(&numbered(4), 2), expected);
        // Below the minimum because of a forced change: only removals make it worse.
        assert_eq!(few(&numbered(2), 2), "");
        assert_eq!(few(&numbered(1), 2), "");
        assert_eq!(few(&numbered(2), 1), "would leave 1 of 2 clusters, the minimum is 3");
        // Other types do not count.
        let with_listeners = with_listener(with_listener(clusters("a"), "l1"), "l2");
        assert_eq!(judged("min:cds=3", &none, &with_listeners), "has 1 of at least 3 clusters");
    }

    #[test]
    fn removal_is_limited_to_the_share() {
        let four = clusters("a b c d");
        for (percent, after, is_refused) in [
            (0, "a b c d", false),
            (0, "a b c", true),
            (50, "c d", false),
            (50, "d", true),
            (24, "b c d", true),
            (25, "b c d", false),
            (99, "", true),
            (100, "", false),
            // Replaced resources are removed ones.
            (49, "a b x y", true),
        ] {
            let text = judged(&alloc::format!("max-removal={percent}"), &four, &clusters(after));
            assert_eq!(!text.is_empty(), is_refused, "{percent} percent, {after}: {text}");
        }
        assert_eq!(judged("max-removal=0", &ViewContents::default(), &four), "");
        assert_eq!(
            judged("max-removal:cds=20", &numbered(50), &numbered(10)),
            "would remove 40 of 50 clusters (80 percent), the limit is 20 percent: cds `c10`, \
             cds `c11`, cds `c12` and 37 more"
        );
        // 33.3 percent exceed 33.
        let text = judged("max-removal=33", &clusters("a b c"), &clusters("a b"));
        let expected =
            "would remove 1 of 3 resources (34 percent), the limit is 33 percent: cds `c`";
        assert_eq!(text, expected);
    }

    #[test]
    fn removal_counts_the_resources_of_its_type() {
        let before = with_listener(clusters("a b c"), "l");
        let after = clusters("a b c");
        assert_eq!(judged("max-removal=25", &before, &after), "");
        assert_eq!(judged("max-removal:cds=0", &before, &after), "");
        let expected =
            "would remove 1 of 1 listeners (100 percent), the limit is 99 percent: lds `l`";
        assert_eq!(judged("max-removal:lds=99", &before, &after), expected);
        assert_eq!(judged("max-removal:eds=0", &before, &after), "");
    }

    #[test]
    fn required_resource_must_exist_first_and_is_not_removed() {
        let (none, guard) = (ViewContents::default(), "require:cds=a");
        assert_eq!(judged(guard, &none, &clusters("a")), "");
        assert_eq!(judged(guard, &none, &clusters("b")), "lacks cds `a`, which is required");
        let removed = "would remove cds `a`, which is required";
        assert_eq!(judged(guard, &clusters("a b"), &clusters("b")), removed);
        assert_eq!(judged(guard, &clusters("b"), &clusters("b c")), "", "it was forced");
        // A resource of another type does not count.
        let listener = with_listener(ViewContents::default(), "a");
        assert_eq!(judged(guard, &none, &listener), "lacks cds `a`, which is required");
    }

    #[test]
    fn dangling_references_are_refused_unless_they_are_served() {
        let none = ViewContents::default();
        let a = "1 reference would be dangling: cds `a` refers to eds `a`, which is missing";
        assert_eq!(judged("references", &none, &clusters("a*")), a);
        assert_eq!(judged("references", &none, &clusters("a")), "");
        assert_eq!(judged("references", &clusters("b*"), &clusters("a* b*")), a);
        assert_eq!(judged("references", &clusters("b*"), &clusters("a b*")), "");
        let text = judged("references", &none, &clusters("a* b* c* d*"));
        assert!(text.starts_with("4 references would be dangling: cds `a` refers to "), "{text}");
        assert!(text.ends_with("cds `c` refers to eds `c`, which is missing and 1 more"), "{text}");
    }

    #[test]
    fn hook_states_its_reason() {
        let refuse = Guard::hook("freeze", |change| match change.removed().count() {
            0 => Ok(()),
            removed => Err(alloc::format!("{removed} removed during a freeze")),
        });
        let guards: Guards = [refuse].into_iter().collect();
        let view = ViewName::from("edge");
        let (before, after) = (clusters("a b"), clusters("b"));
        let judge = |after| guards.judge([ViewChange::new(&view, &before, after)]);
        assert_eq!(judge(&before), Ok(()));
        let refused = judge(&after).unwrap_err();
        let expected = alloc::format!(
            "change {} is refused: 1 removed during a freeze (guard freeze, view edge)",
            refused.id
        );
        assert_eq!(refused.to_string(), expected);
    }

    #[test]
    fn rule_of_a_view_applies_to_that_view() {
        let (none, guard) = (ViewContents::default(), "min:cds=1@edge");
        assert_eq!(judged_in("edge", guard, &none, &none), "has 0 of at least 1 clusters");
        assert_eq!(judged_in("", guard, &none, &none), "");
        assert_eq!(judged_in("edge", "min:cds=1@default", &none, &none), "");
        let text = judged_in("", "min:cds=1@default", &none, &none);
        assert_eq!(text, "has 0 of at least 1 clusters");
    }

    #[test]
    fn all_violations_are_returned_in_the_order_of_views_and_rules() {
        let texts = ["max-removal=0", "min:cds=2"];
        let guards: Guards = texts.iter().map(|it| it.parse().unwrap()).collect();
        let (one, two) = (ViewName::from("1"), ViewName::from("2"));
        let (before, after) = (clusters("a b"), clusters("b"));
        let changes = [&one, &two].map(|view| ViewChange::new(view, &before, &after));
        let refused = guards.judge(changes).unwrap_err();
        let found: Vec<_> =
            refused.violations.iter().map(|it| (it.view.as_str(), it.guard.as_str())).collect();
        let expected = ["1", "2"].map(|view| texts.map(|guard| (view, guard))).concat();
        assert_eq!(found, expected);
    }

    #[test]
    fn id_identifies_what_a_change_does() {
        let (one, two) = (ViewName::from("1"), ViewName::from("2"));
        let none = ViewContents::default();
        let (a, ab, b) = (clusters("a"), clusters("a b"), clusters("b"));
        let eds = clusters("a*");
        let id = |view, before, after| ChangeId::of([ViewChange::new(view, before, after)]);
        let ids = [
            id(&one, &none, &a),
            id(&two, &none, &a),
            id(&one, &a, &none),
            id(&one, &a, &ab),
            id(&one, &a, &b),
            id(&one, &a, &eds),
            id(&one, &eds, &none),
            id(&one, &a, &a),
        ];
        let distinct: BTreeSet<_> = ids.iter().collect();
        assert_eq!(distinct.len(), ids.len());
        // What stays as it is does not matter, and neither does the order of views.
        assert_eq!(id(&one, &none, &a), id(&one, &b, &ab));
        let both = [ViewChange::new(&one, &none, &a), ViewChange::new(&two, &a, &b)];
        assert_eq!(ChangeId::of(both), ChangeId::of([both[1], both[0]]));
        // Another process of another version must agree.
        assert_eq!(id(&one, &none, &a).to_string(), "a559c02c757a");
        assert_eq!(ids[0].to_string().parse(), Ok(ids[0]));
        for text in ["", "12", "00000000000g", "0000000000000", "+00000000000"] {
            assert!(text.parse::<ChangeId>().is_err(), "{text}");
        }
    }
}
