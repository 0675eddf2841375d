//! Imports of a module: the paths of its `use` statements and of its other code.

/// Path with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Import {
    /// Segments; the first is `crate`, `self`, `super` or a module that the file declares.
    pub(crate) path: Vec<String>,
    /// Name after `as`.
    pub(crate) alias: Option<String>,
    /// Whether this is a `pub use`, in any visibility.
    pub(crate) is_reexport: bool,
    /// Line number, from 1.
    pub(crate) line: usize,
}

/// Returns the paths inside the crate that some code names. Comments must have been removed.
pub(crate) fn imports(code: &str) -> Vec<Import> {
    let mut found = Vec::new();
    let declared = code.lines().filter_map(|line| {
        let (_, item) = without_visibility(line);
        item.strip_prefix("mod ")?.strip_suffix(';')
    });
    let roots: Vec<&str> = ["crate", "self", "super"].into_iter().chain(declared).collect();
    let mut lines = code.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        let (is_reexport, rest) = without_visibility(line.trim_start());
        let Some(tree) = rest.strip_prefix("use ") else {
            found.extend(paths_inside(line, index + 1, &roots));
            continue;
        };
        let mut tree = tree.to_owned();
        while !tree.contains(';') {
            let Some((_, line)) = lines.next() else { break };
            tree += line;
        }
        let tokens = tokens(tree.split(';').next().unwrap_or_default());
        let leaves = leaves(&mut tokens.iter().map(String::as_str).peekable(), &[]);
        let inside = leaves.into_iter().filter(|(path, _)| roots.contains(&path[0].as_str()));
        found.extend(inside.map(|(path, alias)| Import {
            path,
            alias,
            is_reexport,
            line: index + 1,
        }));
    }
    found
}

/// Splits `pub`, `pub(crate)` and the like from an item.
pub(crate) fn without_visibility(item: &str) -> (bool, &str) {
    let Some(rest) = item.strip_prefix("pub") else { return (false, item) };
    let rest = match rest.strip_prefix('(') {
        Some(rest) => rest.split_once(')').map_or("", |(_, rest)| rest),
        None => rest,
    };
    rest.strip_prefix(' ').map_or((false, item), |rest| (true, rest))
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Splits a use tree into names, `::`, `{`, `}`, `,` and `*`.
fn tokens(tree: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut rest = tree;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            _ if is_word(first) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            ':' => 2,
            _ => first.len_utf8(),
        };
        let (token, after) = rest.split_at(length.min(rest.len()));
        if !token.trim().is_empty() {
            found.push(token.to_owned());
        }
        rest = after;
    }
    found
}

type Leaf = (Vec<String>, Option<String>);

/// Parses one branch of a use tree, up to a `,` or a `}`, which is not consumed.
fn leaves<'a>(
    tokens: &mut std::iter::Peekable<impl Iterator<Item = &'a str>>,
    prefix: &[String],
) -> Vec<Leaf> {
    let mut path = prefix.to_vec();
    while let Some(&token) = tokens.peek() {
        match token {
            "," | "}" => break,
            "{" => {
                let mut found = Vec::new();
                // The brace, and then each comma.
                while tokens.next().is_some_and(|token| token != "}") {
                    if tokens.peek().is_some_and(|&token| token != "}") {
                        found.extend(leaves(&mut *tokens as &mut std::iter::Peekable<_>, &path));
                    }
                }
                return found;
            }
            "as" => {
                tokens.next();
                return vec![(path, tokens.next().map(str::to_owned))];
            }
            "::" => {}
            name => path.push(name.to_owned()),
        }
        tokens.next();
    }
    if path.len() > 1 {
        path.pop_if(|last| last == "self");
    }
    vec![(path, None)]
}

/// Returns the paths in a line of other code that begin with one of `roots`.
fn paths_inside(line: &str, number: usize, roots: &[&str]) -> Vec<Import> {
    let mut found = Vec::new();
    for (end, _) in line.match_indices("::") {
        let start = line[..end].rfind(|c| !is_word(c)).map_or(0, |it| it + 1);
        let is_start = !line[..start].ends_with([':', '$', '.', '\'']);
        if !is_start || !roots.contains(&&line[start..end]) {
            continue;
        }
        let length = line[start..].find(|c| !is_word(c) && c != ':').unwrap_or(line.len() - start);
        let text = &line[start..start + length];
        let path: Vec<String> =
            text.split("::").filter(|it| !it.is_empty()).map(str::to_owned).collect();
        // A keyword without a name is part of a string.
        if path.len() > 1 {
            found.push(Import { path, alias: None, is_reexport: false, line: number });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(code: &str) -> Vec<String> {
        let text = |import: Import| {
            let alias = import.alias.map(|alias| format!(" as {alias}")).unwrap_or_default();
            let reexport = if import.is_reexport { "pub " } else { "" };
            format!("{}: {reexport}{}{alias}", import.line, import.path.join("::"))
        };
        imports(code).into_iter().map(text).collect()
    }

    #[test]
    fn nested_use_trees_are_unfolded() {
        let code = "\
use std::fmt;
use crate::a::{
    self,
    b::{C, D as E},
    f::*,
};
use super::g;
pub(crate) use self::h::I;
";
        let expected = [
            "2: crate::a",
            "2: crate::a::b::C",
            "2: crate::a::b::D as E",
            "2: crate::a::f::*",
            "7: super::g",
            "8: pub self::h::I",
        ];
        assert_eq!(paths(code), expected);
    }

    #[test]
    fn paths_in_other_code_count() {
        let code = "fn f(x: &crate::a::B) -> super::C {\n    $crate::d::e()\n}\n";
        assert_eq!(paths(code), ["1: crate::a::B", "1: super::C"]);
    }

    #[test]
    fn paths_through_declared_modules_count() {
        let code =
            "mod a;\npub(crate) mod b;\nuse a::X;\npub use b::Y;\nfn f() {\n    b::g(c::h);\n}\n";
        assert_eq!(paths(code), ["3: a::X", "4: pub b::Y", "6: b::g"]);
    }
}
