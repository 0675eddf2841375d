//! Versions that requests state, for every combination of the accepted resources, the subscription
//! and the cause of the request, as a table in `accepted-versions.txt`.
//!
//! `UPDATE=1 cargo test -p xds-tests --test it accepted_versions` writes the table. Review the
//! difference like any other change.
// UN-04, B06

use std::{env, fmt::Write as _, fs, path::Path};

const HEADER: &str = "\
# The version that a request states; `-` is none. A column is what became of `foo` and `bar`, which came under version 1 and
# perhaps later ones. A row is how the request comes about: over which exchange, for what, and in which situation. Where
# nothing is printed there is no request, as there is nothing to say.
";

/// Responses and events before the request.
const HISTORIES: [(&str, &[&str]); 8] = [
    ("accepted", &["respond eds v=1 n=A foo=1 bar=1"]),
    ("empty", &["respond eds v=1 n=A"]),
    ("half of it", &["respond eds v=1 n=A foo=1"]),
    ("2 rejected", &["respond eds v=1 n=A foo=1 bar=1", "respond eds v=2 n=B foo=bad"]),
    ("2 used in part", &["respond eds v=1 n=A foo=1 bar=1", "respond eds v=2 n=B foo=bad bar=2"]),
    ("expired", &["respond eds v=1 n=A {ttl=3s}foo=1 {ttl=3s}bar=1", "advance 3s"]),
    (
        "half expired, 2",
        &["respond eds v=1 n=A {ttl=3s}foo=1 bar=1", "advance 3s", "respond eds v=2 n=B bar=2"],
    ),
    ("1 rejected", &["respond eds v=1 n=A foo=bad bar=bad"]),
];

/// Commands that watch, and commands that end the watches.
const INTERESTS: [(&str, &[&str], &[&str]); 2] = [
    ("names", &["watch foo eds foo", "watch bar eds bar"], &["unwatch foo", "unwatch bar"]),
    ("wildcard", &["watch all eds *"], &["unwatch all"]),
];

/// Commands that cause the request.
const SITUATIONS: [(&str, &[Step]); 10] = [
    ("goes on", &[]),
    ("one name more", &[Step::Do("watch baz eds baz")]),
    ("everything besides", &[Step::Do("watch everything eds *")]),
    ("all gone, then again", &[Step::End, Step::Begin]),
    (
        "another name instead",
        &[Step::Do("block"), Step::End, Step::Do("watch baz eds baz"), Step::Do("unblock")],
    ),
    ("new stream", &[Step::Do("end")]),
    ("new stream, one name more", &[Step::Apart(&[Step::Do("watch baz eds baz")])]),
    ("new stream, another name", &[Step::Apart(&[Step::End, Step::Do("watch baz eds baz")])]),
    ("new stream, everything besides", &[Step::Apart(&[Step::Do("watch everything eds *")])]),
    (
        "idle close, then again",
        &[Step::End, Step::Do("unwatch k"), Step::Do("advance 60s"), Step::Begin],
    ),
];

enum Step {
    Do(&'static str),
    /// Ends the watches.
    End,
    /// Starts the watches.
    Begin,
    /// Runs these steps while there is no stream.
    Apart(&'static [Self]),
}

#[test]
fn requests_state_a_version_only_for_held_resources() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("accepted-versions.txt");
    let table = table();
    if env::var_os("UPDATE").is_some() {
        fs::write(&path, &table).expect("writable");
    }
    let expected = fs::read_to_string(&path).expect("the table is there");
    for (at, (line, expected)) in table.lines().zip(expected.lines()).enumerate() {
        assert_eq!(line, expected, "line {} of {}", at + 1, path.display());
    }
    assert_eq!(table.lines().count(), expected.lines().count(), "lines of {}", path.display());
    println!("covers: UN-04 B06 IC7 DX-32");
}

fn table() -> String {
    let mut table = String::from(HEADER);
    for exchange in ["stream", "poll"] {
        for interest in &INTERESTS {
            let title = format!("{exchange}, {}", interest.0);
            write!(table, "\n{title:32}").expect("a string");
            for (history, _) in HISTORIES {
                write!(table, "{history:17}").expect("a string");
            }
            trim(&mut table);
            for (situation, steps) in &SITUATIONS {
                write!(table, "{situation:32}").expect("a string");
                for (_, history) in HISTORIES {
                    let stated = stated(exchange, interest, history, steps);
                    write!(table, "{stated:17}").expect("a string");
                }
                trim(&mut table);
            }
        }
    }
    table
}

fn trim(table: &mut String) {
    table.truncate(table.trim_end().len());
    table.push('\n');
}

/// Returns the version that the last request states.
fn stated(
    exchange: &str,
    interest: &(&str, &[&str], &[&str]),
    history: &[&str],
    steps: &[Step],
) -> String {
    let is_polled = exchange == "poll";
    // A watch of another type keeps the stream open.
    let mut script = match is_polled {
        true => vec!["client types=eds,lds polls=5", "watch k lds k"],
        false => vec!["client types=eds,lds", "watch k lds k"],
    };
    script.extend(interest.1);
    for said in history {
        script.push(said);
        if is_polled && said.starts_with("respond") {
            script.push("advance 5s");
        }
    }
    script.push("----");
    script.push("");
    perform(steps, interest, &mut script);
    if is_polled && steps.is_empty() {
        script.push("unchanged");
    }
    script.extend(["advance 6s", "----", ""]);
    let text = script.join("\n");
    let outcome = xds_sim::script::run(&text).unwrap_or_else(|why| panic!("{why} in\n{text}"));
    // The output of the last commands follows the last separator.
    let printed = outcome.text.split("----").last().unwrap_or_default();
    let mut requests =
        printed.lines().filter(|line| line.contains(" -> (") && line.contains("T=eds"));
    // There may be no request.
    let Some(last) = requests.next_back() else { return String::new() };
    let version = last.split_once("(V=").and_then(|(_, rest)| rest.split_once(','));
    match version {
        Some(("", _)) => "-".into(),
        Some((version, _)) => version.into(),
        None => panic!("no version in {last}"),
    }
}

fn perform<'s>(
    steps: &[Step],
    interest: &(&str, &'s [&'s str], &'s [&'s str]),
    script: &mut Vec<&'s str>,
) {
    for step in steps {
        match step {
            Step::Do(command) => script.push(command),
            Step::Begin => script.extend(interest.1),
            Step::End => script.extend(interest.2),
            Step::Apart(steps) => {
                script.extend(["link down", "end 14 away"]);
                perform(steps, interest, script);
                script.extend(["link up", "advance 10s"]);
            }
        }
    }
}
