//! Tests with clients that apply responses wrongly.

use std::time::Duration;

use super::*;
use crate::{
    options::Options,
    oracle::testing::{broken_rule, judgement},
    world::message::ResponseItem,
};

/// Text of a name in a response, and the client's ACK or NACK.
#[derive(Clone, Copy)]
struct ResponseParts {
    name: &'static str,
    text: &'static str,
    nacks: u64,
}

/// Returns the rule broken when a client with a watch of `r0`, and of the wildcard if `all` is set,
/// reads the response.
fn found(said: ResponseParts, all: Option<()>) -> Option<&'static str> {
    judgement(move |world, link, report| {
        if all.is_some() {
            world.watch(0, 0, None);
            world.advance(Duration::from_secs(1));
        }
        let stats = world.client(0).stats();
        let acks = (stats.acks - (1 - said.nacks), stats.nacks.wrapping_sub(said.nacks));
        let mut oracle = CacheModel { acks, ..CacheModel::default() };
        if said.nacks == 1 {
            // A NACK that the client did not send leaves no trace in its state.
            let response = response(said);
            let contents = ResponseContents::of(&response, world.options());
            let may_be = oracle.may_be_rejected(link, &response, &contents, world);
            return report.ensure(may_be, VERDICT, || "it is rejected for nothing".into());
        }
        oracle.read(link, &response(said), world, report);
    })
}

fn response(said: ResponseParts) -> Response {
    let item = ResponseItem {
        name: said.name.into(),
        version: Text::default(),
        bytes: Some(Toy::bytes(said.name, said.text)),
        ttl: None,
    };
    Response {
        kind: Some(0),
        nonce: "n".into(),
        version: "v".into(),
        resources: vec![item],
        removed: Vec::new(),
        errors: Vec::new(),
    }
}

#[test]
fn acked_response_with_an_invalid_new_wildcard_member_is_detected() {
    let said = ResponseParts { name: "r9", text: "bad", nacks: 0 };
    assert_eq!(found(said, Some(())), Some("IC3"));
    assert_eq!(found(said, None), None, "nobody asked for it");
}

#[test]
fn ack_of_a_resource_for_trusted_servers_from_others_is_detected() {
    let accepted = |features: &str| {
        let options: Options = features.parse().expect("options");
        let read = response(ResponseParts { name: "r0", text: "privileged", nacks: 0 });
        broken_rule(options, move |world, link, report| {
            world.set(0, "r0", "privileged");
            world.advance(Duration::from_secs(1));
            let stats = world.client(0).stats();
            let is_rejected = !world.options().are_servers_trusted();
            assert_eq!(stats.nacks, u64::from(is_rejected));
            let acks = (stats.acks - 1, stats.nacks);
            CacheModel { acks, ..CacheModel::default() }.read(link, &read, world, report);
        })
    };
    assert_eq!(accepted("features={}"), Some(VERDICT), "it has to be rejected");
    assert_eq!(accepted("features={trusted-server}"), None);
    println!("covers: IC3");
}

#[test]
fn nack_for_an_invalid_unwatched_resource_is_detected() {
    let said = ResponseParts { name: "r9", text: "bad", nacks: 1 };
    assert_eq!(found(said, None), Some("IC3"));
    assert_eq!(found(said, Some(())), None, "everything is wanted");
    println!("covers: IC3 IC13");
}

#[test]
fn unused_valid_new_resource_is_detected() {
    let said = ResponseParts { name: "r9", text: "good", nacks: 0 };
    assert_eq!(found(said, Some(())), Some("IC18"), "the client does not have it");
    println!("covers: IC18");
}

/// Returns the rule broken by a client with a valid `r0` whose state is changed by `pretend` before
/// it accepts a response.
fn after(pretend: impl Fn(&mut Entries) + Send + Sync + 'static, read: Response) -> Option<Rule> {
    broken_rule(Options::default(), move |world, link, report| {
        let stats = world.client(0).stats();
        let mut before = entries(world, 0, 0);
        pretend(&mut before);
        let acks = (stats.acks - 1, stats.nacks);
        let mut oracle = CacheModel { acks, before, ..CacheModel::default() };
        oracle.read(link, &read, world, report);
    })
}

fn nothing() -> Response {
    let said = ResponseParts { name: "r0", text: "good", nacks: 0 };
    Response { resources: Vec::new(), ..response(said) }
}

#[test]
fn ignored_removal_error_or_absence_is_detected() {
    let removed = Response { removed: vec!["r0".into()], ..nothing() };
    assert_eq!(after(|_| {}, removed), Some(REMOVALS));
    let error = Response { errors: vec![("r0".into(), PERMISSION_DENIED)], ..nothing() };
    assert_eq!(after(|_| {}, error), Some(REPORTED));
    assert_eq!(after(|_| {}, nothing()), Some(ABSENCE), "it is left out of a full state");
    println!("covers: IC19 IC21 IC31");
}

#[test]
fn content_changed_by_a_heartbeat_or_silence_is_detected() {
    let beat = |text: &'static str| {
        let pretend = move |before: &mut Entries| {
            let known = before.get_mut("r0").expect("it is known");
            (known.bytes, known.version) = (Some(Toy::bytes("r0", text)), Text::default());
        };
        let item = ResponseItem {
            name: "r0".into(),
            version: Text::default(),
            bytes: None,
            ttl: Some(Duration::from_secs(10)),
        };
        after(pretend, Response { resources: vec![item], ..nothing() })
    };
    assert_eq!(beat("old"), Some(RENEWED));
    let vanished = |name: &'static str| {
        let known = CachedEntry {
            state: ResourceState::Acked,
            bytes: Some(Toy::bytes(name, "good")),
            version: "1".into(),
        };
        let pretend = move |before: &mut Entries| {
            *before = [(name.into(), known.clone())].into_iter().collect();
        };
        after(pretend, nothing())
    };
    assert_eq!(vanished("r9"), Some(UNREQUESTED), "it was not asked for");
    assert_eq!(vanished("xdstp://apart/type/r9"), Some(OTHERS), "it is not asked for there");
    println!("covers: IC13 IC30 IC33");
}

#[test]
fn use_of_a_rejected_update_is_detected() {
    let read = response(ResponseParts { name: "r0", text: "bad", nacks: 1 });
    let found = broken_rule(Options::default(), move |world, link, report| {
        world.set(0, "r0", "bad");
        world.advance(Duration::from_secs(1));
        let stats = world.client(0).stats();
        let mut before = entries(world, 0, 0);
        before.get_mut("r0").expect("it is known").bytes = Some(Toy::bytes("r0", "older"));
        let acks = (stats.acks, stats.nacks - 1);
        let mut oracle = CacheModel { acks, before, ..CacheModel::default() };
        oracle.read(link, &read, world, report);
    });
    assert_eq!(found, Some(LAST_GOOD));
    println!("covers: IC20");
}

#[test]
fn stated_version_of_an_unheld_resource_is_detected() {
    let found = judgement(|world, link, report| {
        CacheModel::stated(link, 0, &[("r9".into(), "1".into())], world, report);
    });
    assert_eq!(found, Some("IC8"));
    println!("covers: IC8");
}

#[test]
fn unused_resource_that_was_sent_again_is_detected() {
    let found = |text| {
        judgement(move |world, link, report| {
            let acks = (world.client(0).stats().acks - 1, 0);
            let mut oracle = CacheModel { acks, ..CacheModel::default() };
            oracle.before = entries(world, 0, 0);
            for known in oracle.before.values_mut() {
                (known.state, known.bytes) = (ResourceState::DoesNotExist, None);
            }
            let said = ResponseParts { name: "r0", text, nacks: 0 };
            oracle.read(link, &response(said), world, report);
        })
    };
    assert_eq!(found("good"), None);
    assert_eq!(found("better"), Some("IC23"));
    println!("covers: IC23");
}

#[test]
fn deletion_without_a_removal_in_the_response_is_detected() {
    let options: Options = "variant=delta".parse().expect("options");
    let found = |does_delete: bool| {
        broken_rule(options.clone(), move |world, link, report| {
            let before = entries(world, 0, 0);
            match does_delete {
                true => world.delete(0, "r0"),
                false => world.set(0, "r1", "good"),
            }
            world.advance(Duration::from_secs(1));
            let stats = world.client(0).stats();
            let acks = (stats.acks - 1, stats.nacks);
            CacheModel { acks, before, ..CacheModel::default() }.read(
                link,
                &nothing(),
                world,
                report,
            );
        })
    };
    assert_eq!(found(false), None);
    assert_eq!(found(true), Some(NO_ABSENCE), "another response has removed it, and not this one");
    println!("covers: IC22");
}
