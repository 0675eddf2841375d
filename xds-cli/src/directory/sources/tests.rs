//! Tests of the states of files and of the resources that result from them.

use std::fmt::Write as _;

use super::*;

/// Creates a file with clusters, each given as `name` or `name=timeout`.
fn file(path: &str, clusters: &str) -> File {
    let mut text = "resources:\n".to_owned();
    for cluster in clusters.split_whitespace() {
        let (name, timeout) = cluster.split_once('=').unwrap_or((cluster, "1s"));
        let _ = write!(
            text,
            "- \"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster\n  name: {name}\n  connect_timeout: {timeout}\n"
        );
    }
    raw(path, &text)
}

fn raw(path: &str, content: &str) -> File {
    File::new(path, Format::Yaml, Ok(Bytes::copy_from_slice(content.as_bytes())))
}

fn broken(path: &str) -> File {
    raw(path, "resources: [")
}

#[derive(Default)]
struct Directory(Sources);

impl Directory {
    /// Updates and serves. Returns the errors, the changed names and the removed names.
    fn step(&mut self, files: Vec<File>) -> (Vec<String>, String, String) {
        let errors = self.0.update(files).into_iter().map(|error| error.to_string()).collect();
        let changes = self.0.changes();
        let (changed, removed) = changes.keys();
        let step = (errors, changed.join(" "), removed.join(" "));
        self.0.mark_served();
        assert!(self.0.changes().is_empty());
        step
    }

    #[track_caller]
    fn expect(&mut self, files: Vec<File>, changed: &str, removed: &str) {
        assert_eq!(self.step(files), (vec![], changed.into(), removed.into()));
    }

    #[track_caller]
    fn expect_error(&mut self, files: Vec<File>, expected: &str) {
        let (errors, changed, removed) = self.step(files);
        assert_eq!((changed.as_str(), removed.as_str()), ("", ""));
        assert!(errors.len() == 1 && errors[0].contains(expected), "{errors:?}");
    }
}

#[test]
fn files_are_merged_and_only_changes_are_reported() {
    let mut directory = Directory::default();
    directory.expect(vec![file("a", "one two"), file("b", "three")], "one three two", "");
    directory.expect(vec![file("a", "one two"), file("b", "three")], "", "");
    directory.expect(vec![file("b", "three"), file("a", "one=2s")], "one", "two");
    assert_eq!(directory.0.resources(), 2);
    directory.expect(vec![file("b", "three")], "", "one");
}

#[test]
fn equal_value_in_another_spelling_is_no_change() {
    let mut directory = Directory::default();
    directory.expect(vec![file("a", "one=1s")], "one", "");
    directory.expect(vec![file("a", "one=1.000s")], "", "");
}

#[test]
fn broken_file_keeps_its_last_valid_state_and_is_reported_once() {
    let mut directory = Directory::default();
    directory.expect(vec![file("a", "one"), file("b", "two")], "one two", "");
    directory.expect_error(vec![broken("a"), file("b", "two")], "a:");
    directory.expect(vec![broken("a"), file("b", "two three")], "three", "");
    directory.expect_error(vec![raw("a", "resources: {"), file("b", "two three")], "a:");
    directory.expect(vec![file("a", "one=2s"), file("b", "two three")], "one", "");
    directory.expect_error(vec![broken("a"), file("b", "two three")], "a:");
    // A deleted file has no error.
    directory.expect(vec![file("b", "two three")], "", "one");
}

#[test]
fn unreadable_file_counts_as_broken() {
    let unreadable = || File::new("a", Format::Yaml, Err("no permission".into()));
    let mut directory = Directory::default();
    directory.expect(vec![file("a", "one")], "one", "");
    directory.expect_error(vec![unreadable()], "a: no permission");
    directory.expect(vec![unreadable()], "", "");
}

#[test]
fn file_counts_as_valid_after_it_was_valid_once() {
    let mut directory = Directory::default();
    let never = |directory: &Directory| {
        let never = directory.0.never_valid();
        never.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" ")
    };
    // Broken, and in conflict with another file.
    directory.step(vec![file("a", "one"), broken("b"), file("c", "one two")]);
    assert_eq!(never(&directory), "b c");
    directory.step(vec![file("a", "one"), file("b", ""), file("c", "two")]);
    assert_eq!(never(&directory), "", "a list without resources is valid");
    directory.step(vec![broken("a"), file("b", ""), raw("c", ""), broken("d")]);
    assert_eq!(never(&directory), "d");
    directory.step(vec![broken("a")]);
    assert_eq!(never(&directory), "", "a file that is gone is waited for no longer");
}

#[test]
fn duplicate_resource_is_rejected_in_the_file_changed_later() {
    let mut directory = Directory::default();
    directory.expect(vec![file("a", "one"), file("b", "two")], "one two", "");
    // The file that was edited later is rejected, whatever its name.
    directory.expect_error(
        vec![file("a", "one two=5s three"), file("b", "two")],
        "a: the cds resource `two` is already defined in b",
    );
    directory.expect(vec![file("a", "one two=5s three"), file("b", "two")], "", "");
    // The state is accepted once the other file no longer defines the resource.
    directory.expect(vec![file("a", "one two=5s three"), file("b", "four")], "four three two", "");
}

#[test]
fn duplicate_in_two_new_files_is_rejected_in_the_later_name() {
    let mut directory = Directory::default();
    let (errors, changed, _) = directory.step(vec![file("b", "one two"), file("a", "one")]);
    assert_eq!(changed, "one");
    assert_eq!(errors, ["b: the cds resource `one` is already defined in a"]);
}

/// Creates an object with documents of clusters, each given like those of a file.
fn with_documents(id: &str, documents: &[(&str, &str)]) -> Object {
    let documents = documents.iter().map(|(name, clusters)| {
        let Ok(bytes) = file(name, clusters).content else { panic!("{name}") };
        let bytes = if clusters.is_empty() { Bytes::from_static(b"a: [") } else { bytes };
        xds_source::Document::new(*name, Format::Yaml, bytes)
    });
    let content = Content::Documents(documents.collect());
    Object::new(id, ViewName::default(), Revision::default(), content)
}

#[test]
fn documents_of_an_object_are_used_together_or_not_at_all() {
    let mut sources = Sources::default();
    let mut step = |documents: &[(&str, &str)]| {
        let errors = sources.replace(vec![with_documents("ConfigMap n/c", documents)]);
        let errors: Vec<_> = errors.iter().map(ToString::to_string).collect();
        let changes = sources.changes();
        let (changed, removed) = changes.keys();
        let shown = (errors.join("; "), changed.join(" "), removed.join(" "));
        sources.mark_served();
        shown
    };
    let served =
        |changed: &str, removed: &str| (String::new(), changed.to_owned(), removed.to_owned());
    assert_eq!(step(&[("a.yaml", "one"), ("b.yaml", "two")]), served("one two", ""));
    // One document is broken, and the other one has changed.
    let (errors, changed, removed) = step(&[("a.yaml", "three"), ("b.yaml", "")]);
    assert!(errors.starts_with("ConfigMap n/c/b.yaml:1:"), "{errors}");
    assert_eq!((changed.as_str(), removed.as_str()), ("", ""));
    assert_eq!(step(&[("a.yaml", "three"), ("b.yaml", "two")]), served("three", "one"));
    // A resource in two documents is an error, whichever of them is meant.
    let (errors, changed, removed) = step(&[("a.yaml", "three"), ("b.yaml", "three")]);
    let expected = "ConfigMap n/c/b.yaml: the cds resource `three` is already defined in \
                    ConfigMap n/c/a.yaml";
    assert_eq!(errors, expected);
    assert_eq!((changed.as_str(), removed.as_str()), ("", ""));
    assert_eq!(step(&[]), served("", "three two"));
}

#[test]
fn owner_of_a_resource_is_the_object_that_defines_it() {
    let mut sources = Sources::default();
    let mut other = with_documents("b", &[("a.yaml", "one")]);
    other.view = "canary".into();
    sources.replace(vec![with_documents("a", &[("a.yaml", "one")]), other]);
    let owners = sources.owners();
    let owner = |view: &str| {
        let key = Key { type_url: xds_core::types::CLUSTER.into(), name: "one".into() };
        owners[&ViewName::from(view)][&key].display().to_string()
    };
    assert_eq!((owner(""), owner("canary")), ("a".to_owned(), "b".to_owned()));
}

/// Creates an object of a view with clusters, each given like those of a file.
fn in_view(view: &str, id: &str, clusters: &str) -> Object {
    let mut object = with_documents(id, &[("a.yaml", clusters)]);
    object.view = view.into();
    object
}

/// Sources with views, and a function that returns errors, and views with changed and removed names.
#[track_caller]
fn step(sources: &mut Sources, objects: Vec<Object>) -> (String, String) {
    let errors = sources.replace(objects);
    assert_eq!(errors, [], "{errors:?}");
    let changes = sources.changes();
    let shown = |(view, key): &ViewKey| format!("{view}/{}", key.name);
    let changed: Vec<_> = changes.changed.iter().map(|(key, _)| shown(key)).collect();
    let removed: Vec<_> = changes.removed.iter().map(shown).collect();
    sources.mark_served();
    (changed.join(" "), removed.join(" "))
}

#[test]
fn view_has_the_resources_of_its_base_except_those_that_it_has_itself() {
    let mut sources = Sources::default();
    sources.set_bases([("canary".into(), "".into()), ("next".into(), "canary".into())].into());
    let served = |changed: &str, removed: &str| (changed.to_owned(), removed.to_owned());
    let base = || in_view("", "base", "a b");
    let all = "/a /b canary/a canary/b next/a next/b";
    assert_eq!(step(&mut sources, vec![base()]), served(all, ""));
    // An own resource hides that of the base, also for the views above.
    let own = || in_view("canary", "own", "b=2s c");
    let changed = "canary/b canary/c next/b next/c";
    assert_eq!(step(&mut sources, vec![base(), own()]), served(changed, ""));
    // The hidden resource changes, and another one.
    let base = || in_view("", "base", "a=3s b=3s");
    let changed = "/a /b canary/a next/a";
    assert_eq!(step(&mut sources, vec![base(), own()]), served(changed, ""));
    let owner = |view: &str, name: &str| {
        let key = Key { type_url: xds_core::types::CLUSTER.into(), name: name.into() };
        sources.owners()[&ViewName::from(view)][&key].display().to_string()
    };
    assert_eq!((owner("next", "a"), owner("next", "b")), ("base".to_owned(), "own".to_owned()));
    assert_eq!(sources.views(), [("".into(), 2), ("canary".into(), 2)].into());
    // Without the own resources, the base shows again.
    let changed = served("canary/b next/b", "canary/c next/c");
    assert_eq!(step(&mut sources, vec![base()]), changed);
    sources.set_bases(Bases::new());
    let removed = served("", "canary/a canary/b next/a next/b");
    assert_eq!(step(&mut sources, vec![base()]), removed);
}

/// A version must not state an older revision than that of the resource it replaces.
#[test]
fn resource_of_a_base_that_shows_again_counts_as_changed_now() {
    let mut sources = Sources::default();
    sources.set_bases([("canary".into(), "".into())].into());
    let at = |revision, mut object: Object| {
        object.revision = Revision(revision);
        object
    };
    let base = at(3, in_view("", "base", "a"));
    sources.replace(vec![base.clone(), at(5, in_view("canary", "own", "a=2s"))]);
    let revisions = |sources: &Sources| -> Vec<_> {
        sources.changes().changed.iter().map(|(_, (_, revision))| revision.0).collect()
    };
    assert_eq!(revisions(&sources), [3, 5]);
    sources.mark_served();
    sources.replace(vec![base]);
    assert_eq!(revisions(&sources), [u64::MAX]);
}

#[test]
fn resource_may_move_to_another_file() {
    let mut directory = Directory::default();
    directory.expect(vec![file("a", "one two"), file("b", "three")], "one three two", "");
    // Two resources swapped in one update.
    directory.expect(vec![file("a", "three two"), file("b", "one")], "", "");
    // In two updates, the new file first.
    directory.expect_error(vec![file("a", "three two"), file("b", "one two")], "b: ");
    directory.expect(vec![file("a", "three"), file("b", "one two")], "", "");
    // In two updates, the old file first.
    directory.expect(vec![file("a", ""), file("b", "one two")], "", "three");
    directory.expect(vec![file("a", ""), file("b", "one two three")], "three", "");
    // To a new file, while the old one is deleted.
    directory.expect(vec![file("a", ""), file("c", "one two three")], "", "");
}

#[test]
fn rejected_file_does_not_block_other_files() {
    let mut directory = Directory::default();
    directory.expect(
        vec![file("a", "one"), file("b", "two"), file("c", "three")],
        "one three two",
        "",
    );
    // a needs a resource that b keeps because b itself is rejected: a is rejected too.
    // c may change.
    let (errors, changed, removed) =
        directory.step(vec![file("a", "one two"), file("b", "three"), file("c", "three=9s")]);
    assert_eq!((changed.as_str(), removed.as_str()), ("three", ""));
    assert_eq!(errors.len(), 2, "{errors:?}");
    // Once c no longer defines the resource, both are accepted.
    directory.expect(vec![file("a", "one two"), file("b", "three"), file("c", "")], "three", "");
    assert_eq!(directory.0.resources(), 3);
}

#[test]
fn resource_that_no_server_accepts_is_an_error_of_its_file() {
    let mut directory = Directory::default();
    directory.expect_error(vec![file("a", "one '*'")], "a:5:3: the resource name `*` is reserved");
    directory.expect_error(vec![file("a", &"n".repeat(3_000))], "exceeds the limit of 2048");
}
