//! Size limit of responses: a response is split if possible, and a resource that is too long is
//! replaced by an error.
//!
//! The oracle counts only contents, names and types, without a few bytes of encoding for each. A
//! full state is never split. A wildcard client is sent a resource that is too long, in a separate
//! response. Other clients receive an error instead, because they would request the resource
//! forever if their transport rejected it.

use std::collections::BTreeMap;

use bytes::Bytes;
use xds_core::service::Variant;

use super::{ServerResponses, TypeState, rules::LENGTH};
use crate::{
    oracle::Report,
    world::{
        ResourceExtras, TOO_LONG, World, glob_covers, is_glob,
        message::{Response, Text},
        subscription::ALL,
    },
};

impl TypeState {
    /// Checks that a response is within the limit, unless it cannot be split.
    pub(super) fn is_short_enough(
        &self,
        kind: usize,
        response: &Response,
        world: &World,
        report: &mut Report,
    ) {
        let Some(limit) = world.options().responses.limit().filter(|_| !world.is_sent_whole(kind))
        else {
            return;
        };
        let (type_url, is_whole) =
            (world.types()[kind].as_str(), world.options().variant == Variant::StateOfTheWorld);
        let resources = response.resources.iter().map(|item| {
            let bytes = item.bytes.as_ref().map_or(0, |bytes| type_url.len() + bytes.len());
            let is_wrapped = !is_whole || item.ttl.is_some();
            bytes + if is_wrapped { item.name.len() + item.version.len() } else { 0 }
        });
        let names = response.removed.iter().chain(response.errors.iter().map(|(name, _)| name));
        let length: usize = resources.chain(names.map(|name| name.len())).sum();
        let parts = response.resources.len() + response.removed.len() + response.errors.len();
        report.ensure(parts < 2 || length <= limit, LENGTH, || {
            format!("{parts} parts have {length} bytes together, of {limit}")
        });
        let is_too_long = |bytes: &Bytes| bytes.len() > limit && !self.subscription.has_all();
        let mut items = response.resources.iter();
        let too_long = items.find(|item| item.bytes.as_ref().is_some_and(is_too_long));
        report.ensure(too_long.is_none(), LENGTH, || {
            format!("{:?} is too long for any response", too_long.map(|item| &item.name))
        });
    }

    /// Handles a response that may be one of several parts.
    ///
    /// A new wildcard or glob subscription may be served in parts, whether or not the resources
    /// have changed. Rejected resources that are sent again with a change may precede or follow it
    /// in separate responses, once. So may resources that were sent in other parts since, although
    /// they were accepted.
    // M107
    pub(super) fn comes_in_parts(
        &mut self,
        content: &BTreeMap<Text, Bytes>,
        has: &BTreeMap<Text, Bytes>,
        extras: &dyn Fn(&str) -> ResourceExtras,
        response: &Response,
    ) {
        let is_changed = self.lacking(has, extras).is_some();
        let Self { unanswered, sent, reported, subscription, touched, answers, resent, .. } = self;
        let says_more = !response.removed.is_empty() || !response.errors.is_empty();
        if std::mem::take(&mut answers.may_resend) || is_changed || says_more {
            // Rejected resources follow in further parts, even if they have changed.
            if !answers.refused().is_empty() {
                resent.clone_from(answers.refused());
                resent.extend(sent.keys().cloned());
            }
        }
        let must_answer = |name: &&Text| {
            let is_member = |own: &Text| is_glob(own) && glob_covers(own, name);
            unanswered.contains("*") && subscription.covers(name)
                || unanswered.iter().any(is_member)
        };
        let known = sent.keys().chain(reported.keys());
        touched
            .extend(known.filter(|name| !content.contains_key(*name)).filter(must_answer).cloned());
    }

    /// Handles the end of a wildcard subscription before all of its parts were sent: each lost
    /// resource may be removed.
    pub(super) fn leaves_whole(&mut self, has: &BTreeMap<Text, Bytes>) {
        if self.subscription.lost.contains(ALL) {
            let lost = has.keys().filter(|name| !self.subscription.covers(name));
            self.left.extend(lost.cloned());
        }
    }

    /// Returns a subscribed resource that is too long, whose error was not sent and which was not
    /// sent as part of a wildcard.
    fn unreported(&self, too_long: &[(&Text, &Bytes)]) -> Option<Text> {
        let is_untold = |(name, bytes): &&(&Text, &Bytes)| {
            let is_told = |by: &str| self.reported.get(by) == Some(&TOO_LONG.as_i32());
            let other = self.subscription.other_name(name);
            let is_had = self.sent.get(*name) == Some(*bytes);
            let is_told = is_told(name) || other.is_some_and(|other| is_told(&other));
            self.subscription.names(name) && !is_told && !is_had
        };
        too_long.iter().find(is_untold).map(|(name, _)| (*name).clone())
    }
}

impl ServerResponses {
    /// Checks a world at rest: clients that name a resource that is too long have received its
    /// error.
    pub(super) fn all_told(&self, world: &World, report: &mut Report) {
        if world.options().responses.limit().is_none() {
            return;
        }
        for (link, types) in &self.streams {
            let it = world.link(*link);
            let view = world.view_of(it.client);
            for (kind, state) in types.iter().enumerate() {
                let is_asked = state.subscription.was_requested && !state.subscription.has_all();
                let may_have_all = state.states_version && it.variant == Variant::StateOfTheWorld;
                if !it.is_open || !is_asked || may_have_all || state.is_rejected {
                    continue;
                }
                let has = world.has(it.server, view)[kind].iter();
                let is_too_long = |(name, _): &(&Text, &Bytes)| {
                    world.extras(it.server, view, kind, name).error == Some(TOO_LONG)
                };
                let too_long: Vec<(&Text, &Bytes)> = has.filter(is_too_long).collect();
                let unreported = state.unreported(&too_long);
                report.ensure(unreported.is_none(), LENGTH, || {
                    format!("stream {}: nobody was told that {unreported:?} is too long", link.0)
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        options::{Options, Responses},
        oracle::{Event, Oracle as _, testing::judgement_with},
        world::message::{Names, Request, ResponseItem},
    };

    const CLUSTERS: usize = 0;
    const ENDPOINTS: usize = 1;

    fn short(variant: Variant) -> Options {
        Options { variant, responses: Responses::Short, ..Options::default() }
    }

    fn response(kind: usize, items: &[(&str, usize)]) -> Response {
        let item = |(name, length): &(&str, usize)| ResponseItem {
            name: (*name).into(),
            version: Text::default(),
            bytes: Some(Bytes::from(vec![b'x'; *length])),
            ttl: None,
        };
        Response {
            kind: Some(kind),
            nonce: "1".into(),
            version: "1".into(),
            resources: items.iter().map(item).collect(),
            removed: Vec::new(),
            errors: Vec::new(),
        }
    }

    fn names(kind: usize, names: &[&str]) -> Request {
        let names = names.iter().copied().map(Text::from).collect();
        let names =
            Names::Change { subscribe: names, unsubscribe: Vec::new(), versions: Vec::new() };
        let (nonce, version) = (Text::default(), Text::default());
        Request { kind: Some(kind), nonce, version, error: None, node: None, names }
    }

    /// Returns the rule broken by a response to a client that subscribes to these names.
    fn judged(
        options: Options,
        kind: usize,
        asked: &'static [&'static str],
        response: Response,
    ) -> Option<&'static str> {
        judgement_with(options, move |world, _, report| {
            let mut state = TypeState::default();
            state.requested(&names(kind, asked), Vec::new());
            state.is_short_enough(kind, &response, world, report);
        })
    }

    #[test]
    fn response_over_the_limit_that_could_be_split_is_detected() {
        const ASKED: &[&str] = &["r0", "r1", "r2"];
        let long = [("r0", 100), ("r1", 100), ("r2", 100)];
        for (variant, kind) in [
            (Variant::Incremental, CLUSTERS),
            (Variant::Incremental, ENDPOINTS),
            (Variant::StateOfTheWorld, ENDPOINTS),
        ] {
            let says = |items: &[_]| judged(short(variant), kind, ASKED, response(kind, items));
            assert_eq!(says(&long), Some("IS26"));
            assert_eq!(says(&long[..2]), None);
        }
        let removed = (0..100).map(|at| format!("name-{at}").into()).collect();
        let gone = Response { removed, ..response(CLUSTERS, &[]) };
        let found = judged(short(Variant::Incremental), CLUSTERS, &["*"], gone);
        assert_eq!(found, Some("IS26"));
        let whole =
            judged(short(Variant::StateOfTheWorld), CLUSTERS, ASKED, response(CLUSTERS, &long));
        assert_eq!(whole, None, "a full state is not split");
        let unlimited = judged(Options::default(), ENDPOINTS, ASKED, response(ENDPOINTS, &long));
        assert_eq!(unlimited, None);
        println!("covers: IS26");
    }

    #[test]
    fn resource_over_the_limit_sent_to_a_subscriber_by_name_is_detected() {
        let says = |asked| {
            let response = response(ENDPOINTS, &[("r0", 500)]);
            judged(short(Variant::Incremental), ENDPOINTS, asked, response)
        };
        assert_eq!(says(&["r0"]), Some("IS26"));
        assert_eq!(says(&["*"]), None, "who asks for everything cannot be told an error");
        println!("covers: IS26");
    }

    #[test]
    fn missing_error_for_a_resource_over_the_limit_is_detected() {
        let told = |code: Option<i32>, is_had: bool| {
            judgement_with(short(Variant::Incremental), move |world, link, report| {
                world.set(ENDPOINTS, "r0", &"x".repeat(500));
                let mut oracle = ServerResponses::default();
                let state = oracle.state(link, ENDPOINTS);
                state.requested(&names(ENDPOINTS, &["r0"]), Vec::new());
                state.reported.extend(code.map(|code| ("r0".into(), code)));
                if is_had {
                    // It was sent while the client subscribed to the wildcard.
                    state.sent.clone_from(&world.has(0, 0)[ENDPOINTS]);
                }
                oracle.all_told(world, report);
            })
        };
        assert_eq!(told(Some(TOO_LONG.as_i32()), false), None);
        assert_eq!(told(None, true), None);
        assert_eq!(told(None, false), Some("IS26"));
        println!("covers: IS26");
    }

    #[test]
    fn ended_wildcard_may_remove_resources_that_were_not_sent() {
        let removed = |before: &'static [&'static str]| {
            judgement_with(short(Variant::Incremental), move |world, link, report| {
                world.set(ENDPOINTS, "r0", "good");
                let mut oracle = ServerResponses::default();
                let mut leaves = names(ENDPOINTS, &[]);
                if let Names::Change { unsubscribe, .. } = &mut leaves.names {
                    unsubscribe.extend(before.iter().copied().map(Text::from));
                }
                for request in [&names(ENDPOINTS, &["*", "r9"]), &leaves] {
                    oracle.on_event(&Event::Arrived { link, request }, world, report);
                }
                let gone = Response { removed: vec!["r0".into()], ..response(ENDPOINTS, &[]) };
                oracle.on_event(&Event::Responded { link, response: &gone }, world, report);
            })
        };
        assert_eq!(removed(&["*"]), None);
        assert_eq!(removed(&[]), Some("IS11"));
        println!("covers: IS26");
    }

    /// Rejected resources are sent again once, with a change or after it.
    // M107
    #[test]
    fn resent_resources_may_be_split_from_the_change() {
        let again = |times: usize| {
            judgement_with(short(Variant::Incremental), move |world, _, report| {
                let mut state = TypeState::default();
                state.requested(&names(ENDPOINTS, &["r0", "r1", "r2"]), Vec::new());
                let mut says = |items: &[_], error: Option<i32>| {
                    let response = response(ENDPOINTS, items);
                    let content = response.resources.iter();
                    let content =
                        content.filter_map(|item| Some((item.name.clone(), item.bytes.clone()?)));
                    let content: BTreeMap<Text, Bytes> = content.collect();
                    state.answers.sends(&response, &state.sent);
                    let plain = |_: &str| ResourceExtras::default();
                    state.comes_in_parts(&content, &content, &plain, &response);
                    state.has_news(false, &content, &response, world.now(), report);
                    state.take(false, content, &response);
                    let answer = Request { nonce: "1".into(), error, ..names(ENDPOINTS, &[]) };
                    state.requested(&answer, Vec::new());
                };
                says(&[("r0", 1), ("r1", 1), ("r2", 1)], Some(3));
                // One resource changes.
                says(&[("r0", 2), ("r1", 1)], Some(3));
                (0..times).for_each(|_| says(&[("r2", 1)], Some(3)));
            })
        };
        assert_eq!(again(1), None);
        assert_eq!(again(2), Some("IS4"));
        println!("covers: IS26");
    }
}
