//! Tests of the text forms of a trace.

use xds_sim::trace::{EventKind, TraceKind};

use crate::pictures::example::{HOSTILE, hostile, long, small};

/// Returns the diagram without spaces at the ends of lines.
fn trimmed(picture: &str) -> String {
    picture.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

#[test]
fn diagram_shows_lanes_messages_and_events() {
    assert_eq!(
        format!("\n{}", trimmed(&small().to_text(30))),
        "
      time   event   client-0   w6         server-0
    0.000s       0   ╪══════════╪══════════╪══════════ phase: warm-up
    0.000s       1   │          ◆          │           watch: watches cds a
    0.000s       2   ├──────────┼─────────▶│           m0 request: cds +a
    0.005s       3   │          │         ▶│           m0 arrives, 5.0 ms after it was sent
    0.005s       4   ╪══════════╪══════════╪══════════ phase: faults
    0.005s       5   │          │          ╥           fault begins: the server is slow
    3.000s       6   │          ✗──────────┤           m1 response: cds a=1 (lost in 9)
    3.000s       7   │          │          ╨           fault ends: the server is slow
    3.001s       8   ╫          │          ╫           fault: reset
    3.001s       9   ✗          │          │           m1 is lost: the stream was reset
    3.002s      10   ├──────────┼─────────▶│           m2 request: cds +a
    3.004s      12   │◀─────────┼──────────┤           m3 response: cds a=2 (under way at the end)
    3.005s      13 ✗ │          ◇          │           notice: a=1
    3.005s      13 ✗ IC16 w6 was told a=1, which was lost
"
    );
}

#[test]
fn participants_are_written_in_words_where_a_diagram_does_not_fit() {
    let trace = small();
    assert_eq!(trace.to_text_within(30, 90), trace.to_text(30));
    assert_eq!(
        format!("\n{}", trimmed(&trace.to_text_within(30, 89))),
        "
      time   event
    0.000s       0    phase: warm-up
    0.000s       1   w6 watch: watches cds a
    0.000s       2   client-0 ▶ server-0 m0 request: cds +a
    0.005s       3   client-0 ▶ server-0 m0 arrives, 5.0 ms after it was sent
    0.005s       4    phase: faults
    0.005s       5   server-0 fault begins: the server is slow
    3.000s       6   server-0 ✗ client-0 m1 response: cds a=1 (lost in 9)
    3.000s       7   server-0 fault ends: the server is slow
    3.001s       8   client-0, server-0 fault: reset
    3.001s       9   server-0 ✗ client-0 m1 is lost: the stream was reset
    3.002s      10   client-0 ▶ server-0 m2 request: cds +a
    3.004s      12   server-0 ▶ client-0 m3 response: cds a=2 (under way at the end)
    3.005s      13 ✗ w6 notice: a=1
    3.005s      13 ✗ IC16 w6 was told a=1, which was lost
"
    );
}

#[test]
fn diagram_shows_only_lanes_of_the_shown_events() {
    let picture = small().to_text(3);
    assert!(
        picture.starts_with("      time   event   client-0   w6         server-0\n"),
        "{picture}"
    );
    assert!(picture.contains(".. 11 events before .."), "{picture}");
    let picture = long(200).to_text(1);
    assert!(picture.lines().next().unwrap().len() < 60, "{picture}");
}

#[test]
fn mermaid_draws_messages_where_they_were_sent() {
    assert_eq!(
        small().to_mermaid(30),
        "\
sequenceDiagram
    participant l0 as client-0
    actor l1 as w6
    participant l2 as server-0
    Note over l0,l2: phase: warm-up
    Note over l1: 0.000s watch: watches cds a
    l0->>l2: 0.000s m0 request: cds +a
    Note over l0,l2: phase: faults
    Note over l2: 0.005s fault begins: the server is slow
    l2-xl0: 3.000s m1 response: cds a=1
    Note over l2: 3.000s fault ends: the server is slow
    Note over l0,l2: 3.001s fault: reset
    l0->>l2: 3.002s m2 request: cds +a
    l2-)l0: 3.004s m3 response: cds a=2
    Note over l1: 3.005s notice: a=1
    Note over l0,l2: ✗ IC16 w6 was told a=1, which was lost
"
    );
}

#[test]
fn ndjson_has_an_object_for_each_event() {
    let trace = small();
    let text = trace.to_ndjson();
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 1 + trace.lanes.len() + trace.events.len() + 1);
    assert_eq!(lines[0]["event"], "run");
    assert_eq!(lines[0]["seed"], "24301");
    assert_eq!(lines.last().unwrap()["invariant"], "IC16");
    assert!(
        text.contains(
            r#"{"event":"send","number":2,"at":0,"message":0,"from":"client-0","to":"server-0","sort":"request","text":"cds +a","names":["a"]}"#
        ),
        "{text}"
    );
}

#[test]
fn hostile_name_is_escaped_in_terminal_and_diagram() {
    let trace = hostile();
    for picture in [trace.to_text(30), trace.to_mermaid(30), trace.to_ndjson()] {
        let acts = |c: char| c.is_control() && c != '\n';
        assert!(!picture.contains(acts), "{picture}");
    }
    // Each event stays on one line.
    assert_eq!(trace.to_text(30).lines().count(), 1 + trace.events.len() + 1);
    assert!(!trace.to_mermaid(30).contains("<img"));
    assert!(!trace.to_mermaid(30).contains("\n#"));
    // Machine-readable output is not escaped.
    let line = trace.to_ndjson();
    let sent = line.lines().find(|line| line.contains(r#""event":"send""#)).unwrap();
    let sent: serde_json::Value = serde_json::from_str(sent).unwrap();
    assert_eq!(sent["text"], HOSTILE);
}

#[test]
fn hostile_name_is_escaped_in_html() {
    let page = hostile().to_html();
    assert!(!page.contains("<img"), "a name became an element");
    assert_eq!(page.matches("<script").count(), 2, "the data and the script");
    assert_eq!(page.matches("</script").count(), 2, "the data and the script");
    assert_eq!(page.matches("</title").count(), 1);
    assert!(!page.contains('\u{2028}') && !page.contains('\x1b'));
}

#[test]
fn html_page_is_self_contained() {
    let page = small().to_html();
    for reference in ["src=", "href=", "url(http", "@import", "fetch(", "innerHTML", "eval("] {
        assert!(!page.contains(reference), "{reference}");
    }
    assert!(!page.contains("@DATA@") && !page.contains("@NONCE@"));
}

#[test]
fn placeholder_in_event_text_is_not_replaced() {
    let mut trace = small();
    for event in &mut trace.events {
        if let TraceKind::Local { what, .. } = &mut event.kind {
            what.kind = EventKind::Note;
            what.text = "@DATA@ @NONCE@".into();
        }
    }
    assert_eq!(trace.to_html().matches("@DATA@").count(), 2);
}
