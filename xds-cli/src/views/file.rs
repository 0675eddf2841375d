//! Parsing of a file of views.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use serde_json::Value as Json;
use xds_core::{ViewName, selector::NodeSelector};

use super::rules::{Bases, Otherwise, ViewRule, Views};
use crate::{
    diagnostic::{Diagnostic, Level, Rule},
    settings_file::{self, SettingsReader, step},
};

/// Name of the view without a name.
const DEFAULT: &str = "default";
/// Value of `otherwise` that refuses clients.
const REFUSE: &str = "refuse";

const TOP_FIELDS: [&str; 3] = ["rules", "otherwise", "views"];
const RULE_FIELDS: [&str; 2] = ["view", "when"];
const VIEW_FIELDS: [&str; 1] = ["base"];

/// Reads and parses a file. The result contains the errors of [`parse`].
pub(crate) fn read(path: &Path) -> Result<Views, Vec<Diagnostic>> {
    let bytes = settings_file::read(path).map_err(|why| {
        let text = format!("cannot read the views: {why}");
        vec![Diagnostic::new(Rule::InvalidViews, Level::Error, path, text)]
    })?;
    parse(path, &bytes)
}

/// Parses a file. The result contains all errors, except that a syntax error ends it.
pub(crate) fn parse(path: &Path, text: &[u8]) -> Result<Views, Vec<Diagnostic>> {
    settings_file::parse(path, text, Rule::InvalidViews, |reader, json| reader.views(json))
}

/// Returns a view by its name in the file.
fn view_of(name: &str) -> ViewName {
    if name == DEFAULT { ViewName::default() } else { name.into() }
}

impl SettingsReader<'_> {
    fn views(&mut self, json: &Json) -> Views {
        let mut views = Views { file: PathBuf::from(self.path()), ..Views::default() };
        let Some(top) = self.object(json, "") else { return views };
        self.known(top, "", &TOP_FIELDS);
        if let Some(rules) = top.get("rules") {
            views.rules = self.rules(rules);
        }
        if let Some(otherwise) = top.get("otherwise").and_then(|it| self.view_name(it, "otherwise"))
        {
            views.otherwise = match otherwise {
                REFUSE => Otherwise::Refused,
                name => {
                    let position = self.position("otherwise");
                    Otherwise::View { view: view_of(name), position }
                }
            };
        }
        if let Some(all) = top.get("views").and_then(|it| self.object(it, "views")) {
            for (name, view) in all {
                let field = format!("views{}", step(name));
                let Some(base) = self.base(view, &field) else { continue };
                let view = view_of(name);
                views.base_positions.insert(view.clone(), self.position(&field));
                views.bases.insert(view, base);
            }
        }
        self.refuse_circles(&views.bases);
        views
    }

    fn rules(&mut self, json: &Json) -> Vec<ViewRule> {
        let Json::Array(rules) = json else {
            self.error("rules", "expected a list of rules");
            return Vec::new();
        };
        let rules = rules.iter().enumerate();
        rules.filter_map(|(index, rule)| self.rule(rule, &format!("rules[{index}]"))).collect()
    }

    fn rule(&mut self, json: &Json, field: &str) -> Option<ViewRule> {
        let rule = self.object(json, field)?;
        self.known(rule, field, &RULE_FIELDS);
        let clients = match rule.get("when") {
            Some(when) => self.clients(when, &format!("{field}.when")),
            None => NodeSelector::default(),
        };
        let Some(view) = rule.get("view") else {
            self.error(field, "`view` is missing: the name of the view that the rule selects");
            return None;
        };
        let view = view_of(self.view_name(view, &format!("{field}.view"))?);
        Some(ViewRule { view, position: self.position(field), clients })
    }

    fn base(&mut self, json: &Json, field: &str) -> Option<ViewName> {
        let view = self.object(json, field)?;
        self.known(view, field, &VIEW_FIELDS);
        match view.get("base") {
            Some(base) => Some(view_of(self.view_name(base, &format!("{field}.base"))?)),
            None => {
                self.error(field, "`base` is missing: the view whose resources this view has too");
                None
            }
        }
    }

    /// Reports views that are indirectly their own base.
    fn refuse_circles(&mut self, bases: &Bases) {
        for view in bases.keys() {
            let mut seen = BTreeSet::from([view]);
            let mut next = bases.get(view);
            while let Some(base) = next {
                if base == view {
                    let name = if view.as_str().is_empty() { DEFAULT } else { view.as_str() };
                    let field = format!("views{}", step(name));
                    self.error(&field, "the view is its own base, directly or through others");
                }
                if !seen.insert(base) {
                    break;
                }
                next = bases.get(base);
            }
        }
    }

    fn view_name<'j>(&mut self, json: &'j Json, field: &str) -> Option<&'j str> {
        match json.as_str() {
            Some(name) if !name.is_empty() => Some(name),
            _ => {
                self.error(field, "expected the name of a view; put numbers in quotes");
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(text: &str) -> Vec<String> {
        let problems = parse(Path::new("v.yaml"), text.as_bytes()).unwrap_err();
        problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn errors_name_line_and_rule() {
        assert_eq!(
            errors(
                "rules:\n\
                 - view: a\n  when: { zon: x }\n\
                 - when: { id: [] }\n\
                 - view: 7\n\
                 - a\n\
                 otherwise: [x]\n\
                 more: 1\n"
            ),
            [
                "v.yaml:8:7: more: unknown field: use rules, otherwise, views",
                "v.yaml:3:16: rules[0].when.zon: unknown field, did you mean `zone`?",
                "v.yaml:4:15: rules[1].when.id: expected a text, in which * stands for any \
                 characters, or a list",
                "v.yaml:4:3: rules[1]: `view` is missing: the name of the view that the rule \
                 selects",
                "v.yaml:5:9: rules[2].view: expected the name of a view; put numbers in quotes",
                "v.yaml:6:3: rules[3]: expected fields with values",
                "v.yaml:7:12: otherwise: expected the name of a view; put numbers in quotes",
            ]
        );
        assert!(errors("rules: [")[0].starts_with("v.yaml:1:"), "{:?}", errors("rules: ["));
        assert_eq!(errors("- a"), ["v.yaml:1:1: expected fields with values"]);
        assert_eq!(errors("rules: {}"), ["v.yaml:1:8: rules: expected a list of rules"]);
    }

    #[test]
    fn view_must_not_be_its_own_base() {
        let found = errors("views:\n  a: { base: b }\n  b-1: { base: a }\n  b: { base: b-1 }\n");
        assert_eq!(found.len(), 3, "{found:?}");
        let expected = "v.yaml:2:6: views.a: the view is its own base, directly or through others";
        assert_eq!(found[0], expected);
        assert_eq!(errors("views: { a: {} }").len(), 1);
        assert_eq!(errors("views: { a: { bas: b } }").len(), 2);
        // Of these, only the second one is in a circle.
        let found = errors("views:\n  a: { base: default }\n  default: { base: default }\n");
        assert_eq!(found.len(), 1, "{found:?}");
        let views = parse(Path::new("v"), b"views: { default: { base: a }, b: { base: default } }");
        let expected = Bases::from([("".into(), "a".into()), ("b".into(), "".into())]);
        assert_eq!(views.unwrap().bases, expected);
    }

    #[test]
    fn names_with_dots_have_positions() {
        let text = "rules:\n- view: a\n  when:\n    metadata:\n      team.name: []\n";
        let found = errors(text);
        assert!(
            found[0].starts_with("v.yaml:5:18: rules[0].when.metadata[\"team.name\"]: "),
            "{found:?}"
        );
    }
}
