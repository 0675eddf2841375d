//! Rules for changes, applied to all resources of a directory, as a server that starts applies them.

use std::{collections::BTreeSet, path::Path};

use xds_core::{
    Time, ViewName,
    guards::{Guards, ViewChange},
    server::{Server, ServerConfig, ViewContents},
};

use crate::{
    diagnostic::{Diagnostic, Level, Rule},
    directory::{Sources, guards_without_effect},
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
    guards_without_effect(directory, guards, &judged).chain(found).collect()
}
