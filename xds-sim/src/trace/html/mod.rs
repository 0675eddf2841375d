//! A trace as one HTML file that needs nothing else: a timeline to look at, to filter and to walk along.
//!
//! The page is `page.html` with its style, its script and the run as JSON. What peers sent is hostile
//! until proven otherwise, so it is kept from becoming markup three times over: `<`, `>` and `&` never
//! appear in the JSON, the script only ever sets text, and the page allows no script but its own. That one is
//! known by the hash of the data, which nothing in the data can state.

use std::iter;

use super::{event::Trace, printable::printable};

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: [&str; 3] =
    [include_str!("model.js"), include_str!("draw.js"), include_str!("control.js")];

impl Trace {
    /// The run as a web page in one file, which a browser opens from disk.
    ///
    /// Participants are columns, time runs down; idle times are folded. A message is an arrow from where
    /// it was sent to where it arrived; faults are bands on those whom they concern. The page opens at
    /// the violation. Behind its address may stand `#event=12` or `#filter=text`, for pointing somebody at
    /// something, and `#all` to draw everything at once.
    #[must_use]
    pub fn to_html(&self) -> String {
        let data = self.embedded();
        let nonce = blake3::hash(data.as_bytes()).to_hex();
        let title = markup(&self.title());
        let script: String = iter::once("\"use strict\";\n").chain(SCRIPT).collect();
        let mut page = String::with_capacity(PAGE.len() + STYLE.len() + script.len() + data.len());
        let mut rest = PAGE;
        // In one pass: what is put in may contain what looks like a place to put something.
        while let Some((before, place)) = rest.split_once('@') {
            page.push_str(before);
            let Some((name, after)) = place.split_once('@') else { break };
            match name {
                "NONCE" => page.push_str(&nonce),
                "TITLE" => page.push_str(&title),
                "STYLE" => page.push_str(STYLE),
                "DATA" => page.push_str(&data),
                "SCRIPT" => page.push_str(&script),
                other => unreachable!("the page has no place for {other}"),
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

    /// The lines of the run as a JSON array without a character that HTML would look at.
    fn embedded(&self) -> String {
        let lines: Vec<_> = self.lines().collect();
        // Nothing in it is of a kind that JSON cannot say.
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

/// Text for between two tags.
fn markup(text: &str) -> String {
    printable(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
