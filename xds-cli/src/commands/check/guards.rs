//! Rules for changes, applied to all resources of a directory, as a server that starts applies them.

use std::{collections::BTreeSet, path::Path};

use xds_core::{
    Time, ViewName,
    guards::{Guards, ViewChange},
    server::{Server, ServerConfig, ViewContents},
};
use xds_format::nearest;

use crate::{
    diagnostic::{Diagnostic, Level, Rule},
    directory::Sources,
    views::Views,
};

/// Returns the violated rules in the views that clients can have; without `views`, in the views of
/// the files.
pub(super) fn violations(
    directory: &Path,
    sources: &Sources,
    guards: &Guards,
    views: Option<&Views>,
) -> Vec<Diagnostic> {
    let mut server = Server::new(ServerConfig::default(), 0, Time::ZERO);
    for transaction in sources.changes().into_transactions(None) {
        if let Err(why) = server.apply(transaction, Time::ZERO) {
            return vec![Diagnostic::new(
                Rule::InvalidFile,
                Level::Error,
                directory,
                why.to_string(),
            )];
        }
    }
    let default = ViewName::default();
    let judged: BTreeSet<&ViewName> = match views {
        Some(views) => views.selected(),
        None => sources.all_views().into_iter().chain([&default]).collect(),
    };
    let (nothing, contents) = (ViewContents::default(), judged.into_iter());
    let contents: Vec<_> = contents.map(|view| (view, server.contents(view))).collect();
    let changes = contents.iter().map(|(view, after)| ViewChange::new(view, &nothing, after));
    let violations = guards.judge(changes).err().map(|it| it.violations).unwrap_or_default();
    let found = violations.iter().map(|violation| {
        Diagnostic::new(Rule::Guard, Level::Error, directory, violation.to_string())
    });
    let judged: BTreeSet<&ViewName> = contents.iter().map(|(view, _)| *view).collect();
    without_effect(directory, guards, &judged).chain(found).collect()
}

/// Returns a warning for each rule about a view that does not exist.
fn without_effect(
    directory: &Path,
    guards: &Guards,
    judged: &BTreeSet<&ViewName>,
) -> impl Iterator<Item = Diagnostic> {
    guards.iter().filter_map(|guard| {
        let view = guard.view().filter(|view| !judged.contains(view))?;
        let names = judged.iter().map(|it| it.as_str()).filter(|it| !it.is_empty());
        let similar = nearest(view.as_str(), names);
        let similar = similar.map(|it| format!(", did you mean `{it}`?")).unwrap_or_default();
        let text = format!("the rule `{guard}` has no effect: there is no view `{view}`{similar}");
        Some(Diagnostic::new(Rule::Guard, Level::Warning, directory, text))
    })
}
