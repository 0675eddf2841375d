//! Trace as a self-contained HTML file: a timeline with filters and keyboard navigation.
//!
//! The page is `page.html` with its style sheet, its script and the run as JSON. Text from peers is
//! untrusted, so three measures keep it from becoming markup: the JSON never contains `<`, `>` or
//! `&`; the script sets text only; and the content security policy allows only the page's own
//! script, whose nonce is the hash of the data, which the data cannot contain.

use std::iter;

use super::{event::Trace, printable::printable};

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: [&str; 3] =
    [include_str!("model.js"), include_str!("draw.js"), include_str!("control.js")];

impl Trace {
    /// Formats the run as a web page in one file, which a browser opens from disk.
    ///
    /// Participants are columns, and time runs downward; idle periods are folded. A message is an
    /// arrow from its sender to its receiver. Faults are bands across the affected participants.
    /// The page opens at the violation. Fragments of its address are `#event=12`, `#filter=text`,
    /// and `#all` to draw all events at once.
    #[must_use]
    pub fn to_html(&self) -> String {
        let data = self.embedded();
        let nonce = blake3::hash(data.as_bytes()).to_hex();
        let title = markup(&self.title());
        let script: String = iter::once("\"use strict\";\n").chain(SCRIPT).collect();
        let mut page = String::with_capacity(PAGE.len() + STYLE.len() + script.len() + data.len());
        let mut rest = PAGE;
        // One pass, because inserted text may contain placeholders.
        while let Some((before, place)) = rest.split_once('@') {
            page.push_str(before);
            let Some((name, after)) = place.split_once('@') else { break };
            match name {
                "NONCE" => page.push_str(&nonce),
                "TITLE" => page.push_str(&title),
                "STYLE" => page.push_str(STYLE),
                "DATA" => page.push_str(&data),
                "SCRIPT" => page.push_str(&script),
                other => unreachable!("the page template has no placeholder for {other}"),
            }
            rest = after;
        }
        page.push_str(rest);
        page
    }

    fn title(&self) -> String {
        let run =
            self.header.seed.map_or_else(|| "replayed run".into(), |seed| format!("seed {seed}"));
        match &self.violation {
            Some(violation) => format!("✗ {} · {run}", violation.invariant),
            None => run,
        }
    }

    /// Returns the run as a JSON array without characters that are special in HTML.
    fn embedded(&self) -> String {
        let lines: Vec<_> = self.lines().collect();
        // Serialization of these types cannot fail.
        let json = serde_json::to_string(&lines).unwrap_or_else(|_| "[]".into());
        let mut out = String::with_capacity(json.len());
        for character in json.chars() {
            match character {
                '<' => out.push_str("\\u003c"),
                '>' => out.push_str("\\u003e"),
                '&' => out.push_str("\\u0026"),
                '\u{2028}' => out.push_str("\\u2028"),
                '\u{2029}' => out.push_str("\\u2029"),
                other => out.push(other),
            }
        }
        out
    }
}

/// Escapes text for use between two tags.
fn markup(text: &str) -> String {
    printable(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
