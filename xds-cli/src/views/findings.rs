//! Rules and views without effect.

use std::collections::{BTreeMap, BTreeSet};

use xds_core::ViewName;
use xds_format::{Position, nearest};

use super::rules::{Otherwise, Views};
use crate::{
    diagnostic::{Diagnostic, Level, Rule},
    text::count,
};

impl Views {
    /// Returns warnings about rules and bases that name a view which the source does not have, views
    /// of the source that no client can have, and rules that are never used. `source` has the number
    /// of resources of each view.
    pub(crate) fn findings(&self, source: &BTreeMap<ViewName, usize>) -> Vec<Diagnostic> {
        let reached = self.reached();
        let unused: Vec<&str> =
            source.keys().filter(|view| !reached.contains(view)).map(ViewName::as_str).collect();
        // The default view has no name to suggest.
        let named = |view: &&str| !view.is_empty();
        let mut found = Vec::new();
        let mut missing = |place: &str, view: &ViewName, position: Option<Position>| {
            if source.contains_key(view) || view.as_str().is_empty() {
                return;
            }
            let names = source.keys().map(ViewName::as_str).filter(named);
            // A view that nothing leads to is meant rather than another one.
            let similar = nearest(view.as_str(), unused.iter().copied().filter(named))
                .or_else(|| nearest(view.as_str(), names));
            let similar = similar.map(|it| format!(", did you mean `{it}`?")).unwrap_or_default();
            let text = format!("{place}: the source has no view `{view}`{similar}");
            found.push(self.warning(text, position));
        };
        for (index, rule) in self.rules.iter().enumerate() {
            // A view with a base needs no resources of its own.
            if !self.bases.contains_key(&rule.view) {
                missing(&format!("rules[{index}]"), &rule.view, rule.position);
            }
        }
        if let Otherwise::View { view, position } = &self.otherwise
            && !self.bases.contains_key(view)
        {
            missing("otherwise", view, *position);
        }
        for (view, base) in &self.bases {
            if !self.bases.contains_key(base) {
                let position = self.base_positions.get(view).copied().flatten();
                missing(&format!("base of the view `{}`", shown(view)), base, position);
            }
        }
        for (view, resources) in source.iter().filter(|(view, _)| !reached.contains(view)) {
            // The default view needs no resources.
            if view.as_str().is_empty() && *resources == 0 {
                continue;
            }
            let resources = count(*resources as u64, "resource");
            let text =
                format!("no rule leads to the view `{}` of the source ({resources})", shown(view));
            found.push(self.warning(text, None));
        }
        if let Some(all) = self.rules.iter().position(|rule| rule.clients.conditions().is_empty()) {
            for (index, rule) in self.rules.iter().enumerate().skip(all + 1) {
                let text =
                    format!("rules[{index}]: never used, because rules[{all}] has no conditions");
                found.push(self.warning(text, rule.position));
            }
        }
        found
    }

    /// Returns the views that clients can have, and their bases.
    fn reached(&self) -> BTreeSet<&ViewName> {
        let mut reached = BTreeSet::new();
        let mut next: Vec<_> = self.selected().into_iter().collect();
        while let Some(view) = next.pop() {
            if reached.insert(view) {
                next.extend(self.bases.get(view));
            }
        }
        reached
    }

    fn warning(&self, text: String, position: Option<Position>) -> Diagnostic {
        Diagnostic::new(Rule::UnusedView, Level::Warning, &self.file, text).at(position)
    }
}

fn shown(view: &ViewName) -> &str {
    if view.as_str().is_empty() { "default" } else { view.as_str() }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::views::file::parse;

    fn findings(file: &str, source: &[(&str, usize)]) -> Vec<String> {
        let views = parse(Path::new("v.yaml"), file.as_bytes()).unwrap();
        let source = source.iter().map(|&(view, resources)| (view.into(), resources)).collect();
        views.findings(&source).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn rule_for_a_missing_view_and_view_without_a_rule_are_reported() {
        let file = "rules:\n- { view: canray, when: { id: a } }\n- { view: edge }\n- { view: x }\n\
                    views: { edge: { base: bsae } }\n";
        let source = [("canary", 2), ("edge", 1), ("base", 4), ("x", 1), ("", 0)];
        assert_eq!(
            findings(file, &source),
            [
                "v.yaml:2:3: rules[0]: the source has no view `canray`, did you mean `canary`?",
                "v.yaml:5:16: base of the view `edge`: the source has no view `bsae`, did you mean \
                 `base`?",
                "v.yaml: no rule leads to the view `base` of the source (4 resources)",
                "v.yaml: no rule leads to the view `canary` of the source (2 resources)",
                "v.yaml:4:3: rules[2]: never used, because rules[1] has no conditions",
            ]
        );
    }

    #[test]
    fn bases_and_the_default_view_are_reached() {
        let file = "rules: [{ view: edge, when: { id: a } }]\nviews: { edge: { base: common } }";
        assert_eq!(findings(file, &[("common", 1), ("", 3)]), [""; 0]);
        let file = "rules: [{ view: edge, when: { id: a } }]\notherwise: refuse";
        let expected = ["v.yaml: no rule leads to the view `default` of the source (3 resources)"];
        assert_eq!(findings(file, &[("edge", 1), ("", 3)]), expected);
        assert_eq!(findings(file, &[("edge", 1), ("", 0)]), [""; 0]);
        let file = "otherwise: other";
        assert_eq!(findings(file, &[]).len(), 1);
    }

    #[test]
    fn default_view_is_not_suggested() {
        let file = "rules: [{ view: f, when: { id: a } }]";
        let expected = ["v.yaml:1:9: rules[0]: the source has no view `f`"];
        assert_eq!(findings(file, &[("", 1)]), expected);
    }
}
