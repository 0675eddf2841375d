//! YAML parser that builds one tree per document.
//!
//! The events come from `granit-parser`, the parser under `serde-saphyr`. They are interpreted
//! here, because a deserializer would lose the positions. `<<` merges mappings. Each alias copies
//! its node, within a size limit.

mod scalar;

use std::borrow::Cow;
use std::collections::HashMap;

use granit_parser::{
    ErrorKind as ScanErrorKind, Event, Options, Parser as Events, ScalarStyle, Span, StrInput,
};

use self::scalar::{check_tag, scalar};
pub(crate) use self::scalar::{is_decimal, is_string};
use super::{
    MAX_DEPTH, MAX_NODES, Member, Node, Value, check_depth, check_unique_keys, count_node, syntax,
    too_deep,
};
use crate::error::{ErrorKind, Fault, Path, Result};
use crate::format::Format;
use crate::options::Leniency;

/// Maximum total size in bytes of the copies made for aliases and anchors: the lengths of names and
/// strings, plus [`NODE_COST`] per value.
pub(crate) const ALIAS_BUDGET: usize = 64 << 20;

/// Approximate memory size of a value, in bytes.
const NODE_COST: usize = 64;

/// Tag before a key for which Envoy drops the entry.
const IGNORE: &str = "!ignore";

/// Key that merges other mappings into its mapping.
const MERGE: &str = "<<";

/// Parses all documents of a YAML text.
pub(crate) fn parse(text: &str, leniency: Leniency) -> Result<Vec<Node<'_>>> {
    let mut options = Options::default();
    options.set_emit_comments(false);
    options.flow_nesting_limit = MAX_DEPTH;
    options.block_nesting_limit = MAX_DEPTH;
    let mut builder = Builder {
        events: Events::new_from_str_with_options(text, options),
        anchors: HashMap::new(),
        nodes_left: MAX_NODES,
        alias_budget: ALIAS_BUDGET,
        leniency,
    };
    let mut documents = Vec::new();
    while let Some((event, _)) = builder.next()? {
        if let Event::DocumentStart(..) = event {
            // Anchors are local to a document.
            builder.anchors.clear();
            let (event, span) = builder.expect_next()?;
            documents.push(builder.node(event, &span, 0)?);
        }
    }
    Ok(documents)
}

struct Builder<'t> {
    events: Events<'t, StrInput<'t>>,
    /// Completed nodes by anchor. An alias inside the node that it refers to is not found.
    anchors: HashMap<usize, Anchor<'t>>,
    nodes_left: usize,
    alias_budget: usize,
    leniency: Leniency,
}

struct Anchor<'t> {
    node: Node<'t>,
    weight: Weight,
}

/// Cost of a copy of a node.
#[derive(Clone, Copy, Default)]
struct Weight {
    bytes: usize,
    /// Levels of lists and objects.
    height: usize,
}

impl<'t> Builder<'t> {
    fn node(&mut self, event: Event<'t>, span: &Span, depth: usize) -> Result<Node<'t>> {
        let offset = offset_of(span);
        count_node(&mut self.nodes_left, offset)?;
        let (value, anchor) = match event {
            Event::Alias(id) => return self.alias(id, depth, offset),
            Event::Scalar(text, style, anchor, tag) => {
                (scalar(text, style, tag.as_deref(), self.leniency, offset)?, anchor)
            }
            Event::SequenceStart(_, anchor, tag) => {
                check_tag(tag.as_deref(), "seq", self.leniency, offset)?;
                check_depth(depth, offset)?;
                (self.list(depth)?, anchor)
            }
            Event::MappingStart(_, anchor, tag) => {
                check_tag(tag.as_deref(), "map", self.leniency, offset)?;
                check_depth(depth, offset)?;
                (self.object(depth)?, anchor)
            }
            _ => return Err(syntax(Format::Yaml, offset, "expected a value")),
        };
        let node = Node { offset, value };
        if anchor != 0 {
            self.anchor(anchor, &node, offset)?;
        }
        Ok(node)
    }

    fn list(&mut self, depth: usize) -> Result<Value<'t>> {
        let mut elements = Vec::new();
        loop {
            let (event, span) = self.expect_next()?;
            if event == Event::SequenceEnd {
                elements.shrink_to_fit();
                return Ok(Value::List(elements));
            }
            elements.push(self.node(event, &span, depth + 1)?);
        }
    }

    fn object(&mut self, depth: usize) -> Result<Value<'t>> {
        let mut members: Vec<Member<'t>> = Vec::new();
        let mut merged = Vec::new();
        loop {
            let (event, span) = self.expect_next()?;
            if event == Event::MappingEnd {
                break;
            }
            let offset = offset_of(&span);
            let is_merge =
                matches!(&event, Event::Scalar(text, ScalarStyle::Plain, ..) if text == MERGE);
            let is_ignored = self.leniency.is_envoy() && has_ignore_tag(&event);
            let name = self.key(event, offset)?;
            let (event, span) = self.expect_next()?;
            let value = self.node(event, &span, depth + 1)?;
            if is_ignored {
                continue;
            }
            if is_merge { merged.push(value) } else { members.push(Member { offset, name, value }) }
        }
        check_unique_keys(&members)?;
        for node in merged {
            merge(&mut members, node)?;
        }
        members.shrink_to_fit();
        Ok(Value::Object(members))
    }

    /// Returns the text of a scalar key, whatever type it would have as a value.
    fn key(&mut self, event: Event<'t>, offset: usize) -> Result<Cow<'t, str>> {
        match event {
            Event::Scalar(text, _, anchor, tag) => {
                check_tag(
                    tag.as_deref().filter(|tag| tag.original() != "!"),
                    "str",
                    self.leniency,
                    offset,
                )?;
                if anchor != 0 {
                    let node = Node { offset, value: Value::String(text.clone()) };
                    self.anchor(anchor, &node, offset)?;
                }
                Ok(text)
            }
            Event::Alias(id) => match self.alias(id, 0, offset)?.value {
                Value::String(text) | Value::Number(text) => Ok(text),
                _ => Err(syntax(Format::Yaml, offset, "a key must be a scalar")),
            },
            _ => Err(syntax(Format::Yaml, offset, "a key must be a scalar")),
        }
    }

    /// Returns a copy of the node that the alias refers to, within the limits of size and depth.
    fn alias(&mut self, id: usize, depth: usize, offset: usize) -> Result<Node<'t>> {
        let Some(Anchor { node, weight }) = self.anchors.get(&id) else {
            return Err(syntax(
                Format::Yaml,
                offset,
                "the alias refers to a value that contains it",
            ));
        };
        check_depth((depth + weight.height).saturating_sub(1), offset)?;
        self.alias_budget = spend(self.alias_budget, weight.bytes, offset)?;
        Ok(node.clone())
    }

    fn anchor(&mut self, id: usize, node: &Node<'t>, offset: usize) -> Result<()> {
        let weight = weigh(node);
        self.alias_budget = spend(self.alias_budget, weight.bytes, offset)?;
        self.anchors.insert(id, Anchor { node: node.clone(), weight });
        Ok(())
    }

    fn expect_next(&mut self) -> Result<(Event<'t>, Span)> {
        match self.next()? {
            Some(next) => Ok(next),
            None => Err(syntax(
                Format::Yaml,
                usize::MAX,
                "unexpected end of the text inside a document",
            )),
        }
    }

    fn next(&mut self) -> Result<Option<(Event<'t>, Span)>> {
        match self.events.next_event() {
            None => Ok(None),
            Some(Ok(next)) => Ok(Some(next)),
            Some(Err(error)) => {
                let offset = error.marker().byte_offset().unwrap_or_default();
                match error.kind() {
                    ScanErrorKind::RecursionLimitExceeded => Err(too_deep(offset)),
                    // Its name may be a secret that lacks quotes, so the position identifies it.
                    ScanErrorKind::UnknownAnchor => Err(syntax(
                        Format::Yaml,
                        offset,
                        "the alias that begins here has no anchor: write `&` and its name before a value above \
                         it in the same document, or put a string that begins with `*` in quotes",
                    )),
                    _ => Err(syntax(Format::Yaml, offset, error.info())),
                }
            }
        }
    }
}

/// Whether the key has the `!ignore` tag, for which Envoy drops the entry. Anchors in the dropped
/// value stay valid.
fn has_ignore_tag(key: &Event<'_>) -> bool {
    matches!(key, Event::Scalar(.., Some(tag)) if tag.original() == IGNORE)
}

/// Adds the members of a merged mapping, or of each mapping in a merged list, whose keys are not
/// present yet.
fn merge<'t>(members: &mut Vec<Member<'t>>, node: Node<'t>) -> Result<()> {
    let sources = match node.value {
        Value::List(elements) => elements,
        _ => vec![node],
    };
    for source in sources {
        let Value::Object(merged) = source.value else {
            return Err(syntax(
                Format::Yaml,
                source.offset,
                "only mappings can be merged with `<<`",
            ));
        };
        for member in merged {
            if super::member(members, &member.name).is_none() {
                members.push(member);
            }
        }
    }
    Ok(())
}

fn weigh(node: &Node<'_>) -> Weight {
    let within = |weight: Weight, name: &str, node: &Node<'_>| {
        let inner = weigh(node);
        Weight {
            bytes: weight.bytes + name.len() + inner.bytes,
            height: weight.height.max(inner.height + 1),
        }
    };
    let alone = Weight { bytes: NODE_COST, height: 0 };
    match &node.value {
        Value::String(text) | Value::Number(text) => {
            Weight { bytes: NODE_COST + text.len(), height: 0 }
        }
        Value::List(elements) => elements
            .iter()
            .fold(Weight { height: 1, ..alone }, |weight, node| within(weight, "", node)),
        Value::Object(members) => {
            members.iter().fold(Weight { height: 1, ..alone }, |weight, member| {
                within(weight, &member.name, &member.value)
            })
        }
        Value::Null | Value::Bool(_) | Value::Bytes(_) | Value::Word(_) => alone,
    }
}

fn spend(budget: usize, cost: usize, offset: usize) -> Result<usize> {
    budget.checked_sub(cost).ok_or_else(|| {
        Fault::new(offset, &Path::Root, ErrorKind::AliasBudget { limit: ALIAS_BUDGET })
    })
}

fn offset_of(span: &Span) -> usize {
    span.byte_range().map_or(0, |range| range.start)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Value<'_> {
        let mut documents = parse(text, Leniency::Strict).unwrap();
        assert_eq!(documents.len(), 1, "{text}");
        documents.remove(0).value
    }

    fn error(text: &str) -> String {
        parse(text, Leniency::Strict).unwrap_err().in_source("x.yaml", Some(text)).to_string()
    }

    #[test]
    fn yaml_keys_are_strings() {
        let Value::Object(members) = one("on: 1\n1.0: 2\n0x1: 3\n") else { panic!("an object") };
        let names: Vec<_> = members.iter().map(|member| member.name.as_ref()).collect();
        assert_eq!(names, ["on", "1.0", "0x1"]);
    }

    #[test]
    fn yaml_offsets_point_into_the_text() {
        let text = "ä: 1\nb:\n  - c\n  - d: e\n";
        let Value::Object(members) = one(text) else { panic!("an object") };
        assert_eq!(&text[members[1].offset..][..1], "b");
        let Value::List(elements) = &members[1].value.value else { panic!("a list") };
        assert_eq!(&text[elements[1].offset..][..4], "d: e");
    }

    #[test]
    fn aliases_and_merge_keys_copy_values() {
        let text = "base: &b {x: 1, y: 2}\na: *b\nc: {<<: *b, y: 3}\nd: {<<: [*b, {z: 4}]}\n";
        let Value::Object(members) = one(text) else { panic!("an object") };
        let shown = |i: usize| match &members[i].value.value {
            Value::Object(members) => members
                .iter()
                .map(|m| format!("{}={}", m.name, m.value.value.describe()))
                .collect::<Vec<_>>(),
            other => panic!("{other:?}"),
        };
        assert_eq!(shown(1), ["x=the number 1", "y=the number 2"]);
        assert_eq!(shown(2), ["y=the number 3", "x=the number 1"]);
        assert_eq!(shown(3), ["x=the number 1", "y=the number 2", "z=the number 4"]);
    }

    #[test]
    fn envoy_leniency_drops_ignored_entries_and_other_tags() {
        let text = "!ignore base: &b {x: 1}\na: *b\nc: !foo 5\nd: !ignore {y: 2}\n";
        let documents = parse(text, Leniency::Envoy).unwrap();
        let Value::Object(members) = &documents[0].value else { panic!("an object") };
        let shown: Vec<_> = members
            .iter()
            .map(|it| format!("{}: {}", it.name, it.value.value.describe()))
            .collect();
        assert_eq!(shown, ["a: an object", "c: the number 5", "d: an object"]);
    }

    #[test]
    fn documents_of_a_yaml_stream_are_separate() {
        assert_eq!(parse("---\na: 1\n---\n---\n- b\n...\n", Leniency::Strict).unwrap().len(), 3);
        assert_eq!(parse("# only a comment\n", Leniency::Strict).unwrap().len(), 0);
        assert!(error("--- &x 1\n--- *x\n").starts_with("x.yaml:2:5: invalid YAML: "));
    }

    #[test]
    fn yaml_errors_state_position_and_cause() {
        assert_eq!(error("a: 1\na: 2\n"), "x.yaml:2:1: duplicate key `a`");
        assert_eq!(error("? [a]\n: 1\n"), "x.yaml:1:3: invalid YAML: a key must be a scalar");
        assert_eq!(
            error("a: !foo 1\n"),
            "x.yaml:1:9: invalid YAML: this tag is not supported; put a string that begins with `!` in quotes"
        );
        assert_eq!(
            error("!ignore a: 1\n"),
            "x.yaml:1:9: invalid YAML: this tag is not supported; put a string that begins with `!` in quotes"
        );
        assert_eq!(
            error("a: {<<: 1}\n"),
            "x.yaml:1:9: invalid YAML: only mappings can be merged with `<<`"
        );
        assert_eq!(
            error("a: &x [*x]\n"),
            "x.yaml:1:8: invalid YAML: the alias refers to a value that contains it"
        );
        for text in ["a: 1\nb: {c: *missing, d: 1}\n", "a: &missing 1\n---\n- [x, *missing]\n"] {
            let why = error(text);
            let (place, why) = why.split_once(": invalid YAML: ").unwrap();
            assert!(why.starts_with("the alias that begins here has no anchor: write "), "{why}");
            assert!(["x.yaml:2:8", "x.yaml:3:7"].contains(&place), "{place}");
        }
        assert_eq!(
            error("a: [1, 2\nb: 3\n"),
            "x.yaml:2:2: invalid YAML: illegal placement of ':' indicator"
        );
    }

    #[test]
    fn yaml_nesting_depth_is_limited() {
        assert_eq!(error(&"[".repeat(100_000)), "x.yaml:1:201: nested deeper than 200 levels");
        assert_eq!(error(&"- ".repeat(100_000)), "x.yaml:1:401: nested deeper than 200 levels");
    }

    #[test]
    fn nested_aliases_count_towards_the_depth_limit() {
        let mut tower = "a0: &a0 [x]\n".to_owned();
        for i in 1..1_000 {
            tower.push_str(&format!("a{i}: &a{i} [*a{}]\n", i - 1));
        }
        assert_eq!(error(&tower), "x.yaml:200:14: nested deeper than 200 levels");
    }

    #[test]
    fn alias_expansion_is_limited() {
        let mut bomb = "a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n".to_owned();
        for i in 1..12 {
            let aliases = vec![format!("*a{}", i - 1); 9].join(", ");
            bomb.push_str(&format!("a{i}: &a{i} [{aliases}]\n"));
        }
        assert_eq!(error(&bomb), "x.yaml:6:9: aliases expand to more than 67108864 bytes");
        let long = format!("a: &a {}\nb: [{}]\n", "x".repeat(1 << 20), vec!["*a"; 100].join(", "));
        assert!(error(&long).ends_with("aliases expand to more than 67108864 bytes"));
    }

    #[test]
    fn many_small_aliases_fit_the_expansion_limit() {
        let text = format!("a: &a {{x: 1, y: [2, 3]}}\nb:\n{}", "- *a\n".repeat(50_000));
        assert!(parse(&text, Leniency::Strict).is_ok());
    }
}
