//! Errors that stand for resources: told to whom names these, once for each change, and not beside them (IS28).

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use xds_core::{server::StatusCode, service::Variant};

use super::{
    rules::ERRORS,
    talk::{Talk, Whole},
};
use crate::{
    oracle::Report,
    situations::Situation,
    world::{
        Beside, is_alias, meaning_of,
        message::{Response, Text},
    },
};

impl Talk {
    /// A response is sent: what it tells of errors is so, and news.
    pub(super) fn errors(
        &mut self,
        response: &Response,
        said: &BTreeMap<Text, Bytes>,
        beside: &dyn Fn(&str) -> Beside,
        report: &mut Report,
    ) {
        // Who asks for everything is sent what there is. To all others, the resource says that its error is over.
        let has_error = |name: &&Text| self.fold.names(name) && beside(name).error.is_some();
        let spoken_for = said.keys().find(|name| !self.fold.has_all() && has_error(name));
        report.ensure(spoken_for.is_none(), ERRORS, || format!("{spoken_for:?} has an error"));
        let awaited = response.errors.iter().filter(|(name, _)| self.awaited.remove(name));
        let awaited: BTreeSet<Text> = awaited.map(|(name, _)| meaning_of(name)).collect();
        for (name, code) in &response.errors {
            // It has no other names beside it: who asks by an alias is told under that.
            let own = meaning_of(name);
            let is_so = beside(&own).error.map(StatusCode::as_i32) == Some(*code);
            let is_asked = self.fold.names(name) && !said.contains_key(&own);
            // By all its names it is told at once.
            let is_due = |name: &str| self.is_owed(name) || self.touched.contains(name);
            // What was rejected rides along with the next change, whatever has become of it (M107).
            let is_news = awaited.contains(&own)
                || self.was_rejected
                || is_due(name)
                || is_due(&own)
                || self.reported.get(name) != Some(code);
            report.ensure(is_so && is_asked && is_news, ERRORS, || format!("{name}: {code}"));
            self.reported.insert(name.clone(), *code);
            report.note(Situation::ErrorReported);
        }
        self.reported.retain(|name, _| {
            self.fold.names(name) && !said.contains_key(name) && !response.removed.contains(name)
        });
    }

    /// What the client names that has an error which it was not told. Of what does not exist, an incremental client is
    /// told by its name that it is gone; and who had everything, and has ended that, was sent what has an error (M178).
    pub(super) fn untold_error<'a>(
        &'a self,
        has: &BTreeMap<Text, Bytes>,
        beside: &dyn Fn(&str) -> Beside,
        variant: Variant,
    ) -> Option<&'a Text> {
        if self.whole == Whole::Ended {
            return None;
        }
        let is_untold = |name: &&Text| {
            let exists = has.contains_key(*name);
            let is_sent = exists && self.fold.has_all();
            let is_removed =
                |code| variant == Variant::Incremental && !exists && code == StatusCode::NotFound;
            // What is too long to be sent, it may have from before.
            let has_it = exists && self.sent.get(*name) == has.get(*name);
            let is_had = |code| has_it && code == StatusCode::ResourceExhausted;
            let is_due = |code: &StatusCode| !is_sent && !is_removed(*code) && !is_had(*code);
            let error = beside(name).error.filter(is_due);
            error.is_some_and(|code| self.reported.get(*name) != Some(&code.as_i32()))
        };
        // Of an alias, what it stands for has the error.
        self.fold.subscribed.iter().filter(|name| !is_alias(name)).find(is_untold)
    }
}
