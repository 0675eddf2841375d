//! Comparison of services, methods and method paths.

use std::collections::BTreeMap;

use prost_reflect::{
    DynamicMessage, ExtensionDescriptor, MethodDescriptor, ServiceDescriptor, Value,
};

use super::changes::{moved, removed};
use super::{Axes, Axis, Change, Comparison, Exemption, Rule, is_compared};

impl Comparison<'_> {
    pub(super) fn services(&mut self) {
        for old in self.old.services().filter(|it| is_compared(&it.parent_file())) {
            let exemption = self.file_exemption(&old.parent_file());
            let new_name = self.pairs.service(old.full_name()).to_owned();
            let Some(new) = self.new.get_service_by_name(&new_name) else {
                let has_rest = old.methods().any(|it| !self.bindings(&it, 0).is_empty());
                let broken =
                    Axes::from([Axis::ServicePath, Axis::Code]).with_if(has_rest, Axis::RestPath);
                let options = old.service_descriptor_proto().options.clone();
                let was_deprecated = options.is_some_and(|it| it.deprecated());
                let change = removed(Rule::ServiceRemoved, was_deprecated, broken);
                self.report(old.full_name(), exemption, change);
                continue;
            };
            if new_name != old.full_name() {
                let broken = Axes::from([Axis::ServicePath, Axis::Code]);
                let change = moved(Rule::ServiceMoved, &new_name, broken);
                self.report(old.full_name(), exemption, change);
            }
            self.methods(&old, &new, exemption);
        }
    }

    fn methods(
        &mut self,
        old_service: &ServiceDescriptor,
        new_service: &ServiceDescriptor,
        exemption: Option<Exemption>,
    ) {
        for old in old_service.methods() {
            let Some(new) = new_service.methods().find(|it| it.name() == old.name()) else {
                let has_rest = !self.bindings(&old, 0).is_empty();
                let broken =
                    Axes::from([Axis::ServicePath, Axis::Code]).with_if(has_rest, Axis::RestPath);
                let options = |it: &MethodDescriptor| it.method_descriptor_proto().options.clone();
                let was_deprecated = options(&old).is_some_and(|it| it.deprecated());
                let change = removed(Rule::MethodRemoved, was_deprecated, broken);
                self.report(old.full_name(), exemption, change);
                continue;
            };
            let mut changes = self.types(&old, &new);
            changes.extend(streaming(&old, &new));
            changes.extend(self.paths(&old, &new));
            for change in changes {
                self.report(old.full_name(), exemption, change);
            }
        }
    }

    fn types(&self, old: &MethodDescriptor, new: &MethodDescriptor) -> Vec<Change> {
        let both =
            [("request", old.input(), new.input()), ("response", old.output(), new.output())];
        both.into_iter()
            .filter(|(_, old, new)| self.pairs.message(old.full_name()) != new.full_name())
            .map(|(what, old, new)| Change {
                rule: Rule::MethodTypeChanged,
                description: format!("the {what} {} is now {}", old.full_name(), new.full_name()),
                broken: Axes::from([Axis::Binary, Axis::Text, Axis::Code]),
            })
            .collect()
    }

    fn paths(&self, old: &MethodDescriptor, new: &MethodDescriptor) -> Vec<Change> {
        let (before, after) = (self.bindings(old, 0), self.bindings(new, 1));
        before
            .iter()
            .filter_map(|(path, body)| match after.get(path) {
                None => {
                    let now: Vec<_> = after.keys().map(|it| format!("`{it}`")).collect();
                    let description = match now.as_slice() {
                        [] => format!("`{path}` was removed"),
                        now => format!("`{path}` is now {}", now.join(", ")),
                    };
                    let broken = Axes::from([Axis::RestPath]);
                    Some(Change { rule: Rule::RestPathChanged, description, broken })
                }
                Some(new_body) if new_body != body => Some(Change {
                    rule: Rule::RestBodyChanged,
                    description: format!("the body of `{path}` was {body} and is {new_body}"),
                    broken: Axes::from([Axis::RestPath]),
                }),
                Some(_) => None,
            })
            .collect()
    }

    /// Returns the HTTP paths of a method, such as `POST /v3/discovery:clusters`, with the parts of
    /// the request and the response in the body. `schema` is 0 for the old schema and 1 for the new
    /// one.
    fn bindings(&self, method: &MethodDescriptor, schema: usize) -> BTreeMap<String, String> {
        let mut bindings = BTreeMap::new();
        if let Some(http) = self.http.get(schema).and_then(Option::as_ref)
            && method.method_descriptor_proto().options.is_some()
        {
            collect(&method.options(), http, &mut bindings);
        }
        bindings
    }
}

fn collect(
    options: &DynamicMessage,
    http: &ExtensionDescriptor,
    bindings: &mut BTreeMap<String, String>,
) {
    if !options.has_extension(http) {
        return;
    }
    let rule = options.get_extension(http);
    let Some(rule) = rule.as_message() else { return };
    bind(rule, bindings);
    // Additional bindings contain no further ones, by their definition.
    let further = rule.get_field_by_name("additional_bindings");
    let further = further.as_deref().and_then(Value::as_list).unwrap_or_default();
    further.iter().filter_map(Value::as_message).for_each(|rule| bind(rule, bindings));
}

fn bind(rule: &DynamicMessage, bindings: &mut BTreeMap<String, String>) {
    let text = |message: &DynamicMessage, name: &str| {
        let value = message.get_field_by_name(name);
        value.and_then(|it| it.as_str().map(str::to_owned)).unwrap_or_default()
    };
    let pattern = rule.fields().find(|(field, _)| field.containing_oneof().is_some());
    let path = match pattern {
        Some((verb, Value::String(path))) => format!("{} {path}", verb.name().to_uppercase()),
        Some((_, Value::Message(custom))) => {
            format!("{} {}", text(custom, "kind"), text(custom, "path"))
        }
        _ => return,
    };
    let whole = |name| match text(rule, name) {
        it if it.is_empty() => "-".to_owned(),
        it => format!("`{it}`"),
    };
    bindings.insert(path, format!("{}, {}", whole("body"), whole("response_body")));
}

fn streaming(old: &MethodDescriptor, new: &MethodDescriptor) -> Option<Change> {
    let shown = |it: &MethodDescriptor| match (it.is_client_streaming(), it.is_server_streaming()) {
        (false, false) => "no streaming",
        (true, false) => "client streaming",
        (false, true) => "server streaming",
        (true, true) => "bidirectional streaming",
    };
    let (was, is) = (shown(old), shown(new));
    (was != is).then(|| Change {
        rule: Rule::MethodStreamingChanged,
        description: format!("{was} before, {is} now"),
        broken: Axes::from([Axis::ServicePath, Axis::Code]),
    })
}
