//! Errors of single resources: sent to clients that name the resource, once per change, instead of
//! it.
// IS28

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use xds_core::{server::StatusCode, service::Variant};

use super::{
    rules::ERRORS,
    state::{TypeState, Whole},
};
use crate::{
    oracle::Report,
    situations::Situation,
    world::{
        ResourceExtras, is_alias, meaning_of,
        message::{Response, Text},
    },
};

impl TypeState {
    /// Checks a response: its errors are current and new.
    pub(super) fn errors(
        &mut self,
        response: &Response,
        content: &BTreeMap<Text, Bytes>,
        extras: &dyn Fn(&str) -> ResourceExtras,
        report: &mut Report,
    ) {
        // A wildcard client is sent the resource. For others, the resource means that its error is
        // over.
        let has_error =
            |name: &&Text| self.subscription.names(name) && extras(name).error.is_some();
        let with_error =
            content.keys().find(|name| !self.subscription.has_all() && has_error(name));
        report.ensure(with_error.is_none(), ERRORS, || format!("{with_error:?} has an error"));
        let is_awaited =
            |name: &Text| self.awaited.contains(name) || self.awaited.contains(&meaning_of(name));
        let awaited = response.errors.iter().filter(|(name, _)| is_awaited(name));
        let awaited: BTreeSet<Text> = awaited.map(|(name, _)| meaning_of(name)).collect();
        self.awaited.retain(|name| !awaited.contains(&meaning_of(name)));
        for (name, code) in &response.errors {
            // A client that subscribes to an alias receives the error under that name.
            let own = meaning_of(name);
            let is_so = extras(&own).error.map(StatusCode::as_i32) == Some(*code);
            let is_asked = self.subscription.names(name) && !content.contains_key(&own);
            // The error is sent under all names at once.
            let is_due = |name: &str| self.must_answer(name) || self.touched.contains(name);
            // Rejected names are sent again with the next change, even if they have changed (M107).
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
            self.subscription.names(name)
                && !content.contains_key(name)
                && !response.removed.contains(name)
        });
    }

    /// Returns a subscribed name with an error that the client has not received. Excluded are
    /// missing resources, which incremental clients receive as removals, and clients that ended a
    /// wildcard subscription, which were sent the resources.
    // M178
    pub(super) fn missing_error<'a>(
        &'a self,
        has: &BTreeMap<Text, Bytes>,
        extras: &dyn Fn(&str) -> ResourceExtras,
        variant: Variant,
    ) -> Option<&'a Text> {
        if self.whole == Whole::Ended {
            return None;
        }
        let is_untold = |name: &&Text| {
            let exists = has.contains_key(*name);
            let is_sent = exists && self.subscription.has_all();
            let is_removed =
                |code| variant == Variant::Incremental && !exists && code == StatusCode::NotFound;
            // The client may have a resource from before it exceeded the size limit.
            let has_it = exists && self.sent.get(*name) == has.get(*name);
            let is_had = |code| has_it && code == StatusCode::ResourceExhausted;
            let is_due = |code: &StatusCode| !is_sent && !is_removed(*code) && !is_had(*code);
            let error = extras(name).error.filter(is_due);
            error.is_some_and(|code| self.reported.get(*name) != Some(&code.as_i32()))
        };
        // The resource of an alias has the error.
        self.subscription.subscribed.iter().filter(|name| !is_alias(name)).find(is_untold)
    }
}
