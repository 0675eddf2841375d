//! Tests of the HTML timeline in a real browser.
//!
//! `XDS_BROWSER` is the path of a Chromium, as `.ci/run` sets it. Without it the tests print that
//! they were not run. `XDS_PICTURES` is a folder in which the pages are kept with a screenshot of
//! each.

use std::{env, fs, path::PathBuf, process::Command};

use xds_sim::trace::{Trace, TraceKind};

use crate::pictures::example::{hostile, long, small};

/// Returns the document after its script has run, if there is a browser.
fn document(name: &str, trace: &Trace, address: &str) -> Option<String> {
    let folder = env::var_os("XDS_PICTURES").map_or_else(env::temp_dir, PathBuf::from);
    let file = folder.join(format!("xds-sim-{name}-{}.html", std::process::id()));
    let Some(browser) = env::var_os("XDS_BROWSER") else {
        println!("not run: the timeline in a browser (XDS_BROWSER names none)");
        return None;
    };
    fs::write(&file, trace.to_html()).expect("the folder for pictures can be written");
    let profile = folder.join(format!("xds-sim-{name}-{}.profile", std::process::id()));
    let show = |how: &[String]| {
        Command::new(&browser)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=20000"])
            .arg(format!("--user-data-dir={}", profile.display()))
            .args(how)
            .arg(format!("file://{}{address}", file.display()))
            .output()
            .expect("XDS_BROWSER is a program")
    };
    let run = show(&["--dump-dom".into()]);
    match env::var_os("XDS_PICTURES") {
        Some(_) => {
            let picture = file.with_extension("png");
            let shot = format!("--screenshot={}", picture.display());
            show(&[shot, "--window-size=1400,900".into()]);
            assert!(picture.exists(), "no picture of {}", file.display());
        }
        None => {
            let _ = fs::remove_file(&file);
        }
    }
    let _ = fs::remove_dir_all(&profile);
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    Some(String::from_utf8(run.stdout).expect("a document is text"))
}

/// Asserts that the page shows the whole run.
fn is_drawn(name: &str, trace: &Trace) {
    let Some(document) = document(name, trace, "#all") else { return };
    assert!(document.contains(r#"data-ready="yes""#), "{document}");
    assert!(!document.contains("data-error"), "{document}");
    assert!(document.contains(&format!(r#"data-events="{}""#, trace.events.len())));
    for event in &trace.events {
        match &event.kind {
            TraceKind::Send { message, .. } => {
                let arrow = format!(r#"data-message="{}""#, message.0);
                assert!(document.contains(&arrow), "{message} is not drawn");
            }
            // An arrival is the end of an arrow, and a phase is a line.
            TraceKind::Deliver { .. } | TraceKind::Phase(_) => continue,
            TraceKind::Lost { .. } | TraceKind::Local { .. } | TraceKind::Fault { .. } => {}
        }
        let row = format!(r#"id="event-{}""#, event.number);
        assert!(document.contains(&row), "event {} has no row", event.number);
    }
    assert!(document.contains(r#"id="violation""#));
}

#[test]
fn every_event_of_a_short_run_is_drawn() {
    is_drawn("short", &small());
}

#[test]
fn every_event_of_a_long_run_is_drawn() {
    is_drawn("long", &long(2_000));
}

#[test]
fn hostile_name_is_shown_as_text() {
    is_drawn("hostile", &hostile());
    let Some(document) = document("hostile", &hostile(), "#all") else { return };
    assert!(!document.contains("<img"), "a name became an element");
    assert!(document.contains("&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;"));
}

#[test]
fn page_draws_the_visible_part_and_opens_at_the_violation() {
    let trace = long(2_000);
    let Some(document) = document("view", &trace, "") else { return };
    let drawn = document.matches(r#"id="event-"#).count();
    assert!((20..500).contains(&drawn), "{drawn} rows");
    assert!(document.contains(r#"id="violation""#));
}

#[test]
fn filter_keeps_only_matching_events() {
    let Some(document) = document("filter", &small(), "#all&filter=reset") else { return };
    let rows = document.matches(r#"id="event-"#).count();
    // The fault, and the event of the violation, which is always shown.
    assert_eq!(rows, 2, "{document}");
    assert!(document.contains(r#"id="event-8""#));
}
