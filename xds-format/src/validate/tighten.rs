//! Detection of constraints that reject values which an older version allowed.
// B16

use super::number::{Number, Numbers};
use super::rules::{FieldRules, Form, Span, Strictness, TextRules, ValueRules};

/// Returns the names of the rules that are tighter in `new`; empty if all allowed values remain so.
pub(crate) fn tightened(old: &FieldRules, new: &FieldRules) -> Vec<String> {
    let mut found = Vec::new();
    fields(old, new, "", &mut found);
    found
}

fn fields(old: &FieldRules, new: &FieldRules, prefix: &str, found: &mut Vec<String>) {
    let mut add = |is_tighter: bool, rule: &str| {
        if is_tighter {
            found.push(format!("{prefix}{rule}"));
        }
    };
    add(!old.required && new.required, "required");
    add(old.skip && !new.skip, "skip");
    match &new.value {
        ValueRules::Free => {}
        ValueRules::Number(new) => {
            let none = Numbers::default();
            let old = if let ValueRules::Number(old) = &old.value { old } else { &none };
            numbers(old, new, &mut add);
        }
        ValueRules::Bool(new) => add(old.value != ValueRules::Bool(*new), "const"),
        ValueRules::Text(new) => {
            let none = TextRules::default();
            let old = if let ValueRules::Text(old) = &old.value { old } else { &none };
            texts(old, new, &mut add);
        }
        ValueRules::Enum { numbers: new_numbers, defined_only } => {
            let none = Numbers::default();
            let (old_numbers, was_defined_only) = match &old.value {
                ValueRules::Enum { numbers, defined_only } => (numbers, *defined_only),
                _ => (&none, false),
            };
            add(*defined_only && !was_defined_only, "defined_only");
            numbers(old_numbers, new_numbers, &mut add);
        }
        ValueRules::Repeated { count, unique, items, ignore_empty } => {
            let free = FieldRules::default();
            let (old_count, was_unique, old_items, ignored) = match &old.value {
                ValueRules::Repeated { count, unique, items, ignore_empty } => {
                    (*count, *unique, &**items, *ignore_empty)
                }
                _ => (Span::default(), false, &free, false),
            };
            spans(old_count, *count, ["min_items", "max_items"], &mut add);
            add(*unique && !was_unique, "unique");
            add(ignored && !ignore_empty, "ignore_empty");
            fields(old_items, items, &format!("{prefix}items."), found);
        }
        ValueRules::Map { count, keys, values, ignore_empty } => {
            let free = FieldRules::default();
            let (old_count, old_keys, old_values, ignored) = match &old.value {
                ValueRules::Map { count, keys, values, ignore_empty } => {
                    (*count, &**keys, &**values, *ignore_empty)
                }
                _ => (Span::default(), &free, &free, false),
            };
            spans(old_count, *count, ["min_pairs", "max_pairs"], &mut add);
            add(ignored && !ignore_empty, "ignore_empty");
            fields(old_keys, keys, &format!("{prefix}keys."), found);
            fields(old_values, values, &format!("{prefix}values."), found);
        }
        ValueRules::Any { one_of, none_of } => {
            let (old_one_of, old_none_of) = match &old.value {
                ValueRules::Any { one_of, none_of } => (&one_of[..], &none_of[..]),
                _ => (&[][..], &[][..]),
            };
            lists(old_one_of, one_of, old_none_of, none_of, &mut add);
        }
    }
}

fn numbers(old: &Numbers, new: &Numbers, add: &mut dyn FnMut(bool, &str)) {
    add(new.constant.is_some() && new.constant != old.constant, "const");
    let (low, high) = (
        if new.above.is_some() { "gt" } else { "gte" },
        if new.below.is_some() { "lt" } else { "lte" },
    );
    let rises = |was: Option<Bound>| lower(new).is_some_and(|is| was.is_none_or(|was| is > was));
    let falls = |was: Option<Bound>| {
        upper(new).is_some_and(|(is, open)| {
            was.is_none_or(|(was, was_open)| is < was || (is == was && open && !was_open))
        })
    };
    match (old.is_gap(), new.is_gap()) {
        (false, true) if is_narrow(new) || is_on_one_side(old, new) => {}
        // The allowed values are on both sides of the gap, or in it.
        (false, true) => {
            add(lower(old) != lower(new), low);
            add(upper(old) != upper(new), high);
        }
        // Outside a gap there is no bound on either side.
        (true, false) => {
            add(rises(None), low);
            add(falls(None), high);
        }
        (true, true) if is_narrow(new) => {}
        (false, false) | (true, true) => {
            add(rises(lower(old)), low);
            add(falls(upper(old)), high);
        }
    }
    lists(&old.one_of, &new.one_of, &old.none_of, &new.none_of, add);
    add(old.ignore_empty && !new.ignore_empty, "ignore_empty");
}

/// A bound, and whether the bound itself is excluded.
type Bound = (Number, bool);

/// Whether the gap contains no value.
fn is_narrow(gap: &Numbers) -> bool {
    match (lower(gap), upper(gap)) {
        (Some((Number::Integer(low), _)), Some((Number::Integer(high), _)))
        | (Some((Number::Duration(low), _)), Some((Number::Duration(high), _))) => low <= high + 1,
        _ => false,
    }
}

/// Whether all values of the interval are on one side of the gap.
fn is_on_one_side(interval: &Numbers, gap: &Numbers) -> bool {
    let is_above = lower(interval).zip(lower(gap)).is_some_and(|(is, gap)| is >= gap);
    let is_below = upper(interval).zip(upper(gap)).is_some_and(|((is, open), (gap, gap_open))| {
        is < gap || (is == gap && (open || !gap_open))
    });
    is_above || is_below
}

/// Returns the lower bound. Of two equal bounds, the excluded one is higher.
fn lower(numbers: &Numbers) -> Option<Bound> {
    let above = numbers.above.map(|bound| match bound {
        Number::Integer(bound) => (Number::Integer(bound + 1), false),
        Number::Duration(bound) => (Number::Duration(bound + 1), false),
        bound => (bound, true),
    });
    above.or_else(|| numbers.at_least.map(|bound| (bound, false)))
}

fn upper(numbers: &Numbers) -> Option<Bound> {
    let below = numbers.below.map(|bound| match bound {
        Number::Integer(bound) => (Number::Integer(bound - 1), false),
        Number::Duration(bound) => (Number::Duration(bound - 1), false),
        bound => (bound, true),
    });
    below.or_else(|| numbers.at_most.map(|bound| (bound, false)))
}

fn texts(old: &TextRules, new: &TextRules, add: &mut dyn FnMut(bool, &str)) {
    let differs = |old: &Option<Vec<u8>>, new: &Option<Vec<u8>>| new.is_some() && old != new;
    add(differs(&old.constant, &new.constant), "const");
    spans(old.chars, new.chars, ["min_len", "max_len"], add);
    spans(old.bytes, new.bytes, ["min_bytes", "max_bytes"], add);
    add(new.pattern.is_some() && old.pattern != new.pattern, "pattern");
    add(differs(&old.prefix, &new.prefix), "prefix");
    add(differs(&old.suffix, &new.suffix), "suffix");
    add(differs(&old.contains, &new.contains), "contains");
    add(differs(&old.not_contains, &new.not_contains), "not_contains");
    lists(&old.one_of, &new.one_of, &old.none_of, &new.none_of, add);
    let is_looser = matches!(
        (old.form, new.form),
        (Some(Form::HeaderName(Strictness::Strict)), Some(Form::HeaderName(Strictness::Loose)))
            | (
                Some(Form::HeaderValue(Strictness::Strict)),
                Some(Form::HeaderValue(Strictness::Loose))
            )
    );
    add(new.form.is_some() && old.form != new.form && !is_looser, "form");
    add(old.ignore_empty && !new.ignore_empty, "ignore_empty");
}

fn spans(old: Span, new: Span, [min, max]: [&str; 2], add: &mut dyn FnMut(bool, &str)) {
    add(new.min.unwrap_or_default() > old.min.unwrap_or_default(), min);
    add(new.max.unwrap_or(u64::MAX) < old.max.unwrap_or(u64::MAX), max);
}

fn lists<T: PartialEq>(
    old_one_of: &[T],
    one_of: &[T],
    old_none_of: &[T],
    none_of: &[T],
    add: &mut dyn FnMut(bool, &str),
) {
    let lost = old_one_of.iter().any(|it| !one_of.contains(it));
    add(!one_of.is_empty() && (old_one_of.is_empty() || lost), "in");
    add(none_of.iter().any(|it| !old_none_of.contains(it)), "not_in");
}
