//! Descriptions of events for a trace, and bytes for its hash.

use std::hash::{BuildHasher as _, Hasher as _};

use bytes::Bytes;
use xds_core::{
    TypeUrl,
    client::{Change, Notice},
    service::Variant,
    types,
};

use super::{
    BadAnswer, FileState,
    client_side::is_incremental,
    message::{Names, read_request, read_response},
    parts::StoreChange,
};
use crate::{
    Toy,
    trace::{Description, EventKind},
    wire_text,
};

/// Returns the short name of a type.
pub(super) fn kind(types: &[TypeUrl], kind: usize) -> &'static str {
    types.get(kind).and_then(|url| types::short_name(url.as_str())).unwrap_or("?")
}

pub(super) fn request(
    sort: EventKind,
    bytes: &Bytes,
    variant: Variant,
    types: &[TypeUrl],
    only: Option<usize>,
) -> Description {
    let text = match is_incremental(variant) {
        true => wire_text::delta_request(bytes),
        false => wire_text::request(bytes),
    };
    let names = read_request(bytes, variant, types, only).map(|request| match request.names {
        Names::Whole(names) => names,
        Names::Change { subscribe, unsubscribe, .. } => [subscribe, unsubscribe].concat(),
    });
    Description::new(sort, text).about(names.unwrap_or_default())
}

pub(super) fn response(bytes: &Bytes, variant: Variant, types: &[TypeUrl]) -> Description {
    let text = match is_incremental(variant) {
        true => wire_text::delta_response(bytes),
        false => wire_text::response(bytes),
    };
    let Some(response) = read_response(bytes, variant, types) else {
        return Description::new(EventKind::Response, text);
    };
    let sort = match (response.resources.len(), response.removed.len(), response.errors.len()) {
        (0, 1.., _) => EventKind::Removal,
        (0, 0, 1..) => EventKind::ResourceError,
        _ => EventKind::Response,
    };
    let resources = response.resources.into_iter().map(|item| item.name);
    Description::new(sort, text).about(resources.chain(response.removed))
}

pub(super) fn notice(name: Option<&str>, notice: &Notice) -> Description {
    let text = match notice {
        Notice::Changed(Ok(resource)) => {
            format!("{}={}", resource.name, Toy::text_of(&resource.bytes))
        }
        Notice::Changed(Err(error)) => format!("no value: {}", error.kind()),
        Notice::Ambient(Some(error)) => format!("ambient: {}", error.kind()),
        Notice::Ambient(None) => "ambient cleared".into(),
        Notice::ChangesAvailable => "behind".into(),
        other => format!("{other:?}"),
    };
    Description::new(EventKind::Notice, text).about(name)
}

pub(super) fn change(change: &Change) -> Description {
    let (text, name) = match change {
        Change::Resource { name, result: Ok(resource) } => {
            (format!("{name}={}", Toy::text_of(&resource.bytes)), Some(name))
        }
        Change::Resource { name, result: Err(error) } => {
            (format!("{name} gone: {}", error.kind()), Some(name))
        }
        Change::Ambient { name, error: Some(error) } => {
            (format!("{name} ambient: {}", error.kind()), Some(name))
        }
        Change::Ambient { name, error: None } => (format!("{name} ambient cleared"), Some(name)),
        other => (format!("{other:?}"), None),
    };
    Description::new(EventKind::Notice, text).about(name.map(|name| name.as_str()))
}

pub(super) fn stored(kind: &str, name: &str, change: &StoreChange) -> Description {
    let text = match change {
        StoreChange::Set(bytes, None) => format!("{kind} {name}={}", Toy::text_of(bytes)),
        StoreChange::Set(bytes, Some(ttl)) => {
            format!("{kind} {name}={} for {ttl:?}", Toy::text_of(bytes))
        }
        StoreChange::Gone => format!("{kind} {name} is deleted"),
        StoreChange::Error(code) => format!("{kind} {name} has error {code:?}"),
    };
    Description::new(EventKind::Store, text).about([name])
}

/// Describes the state of files.
pub(super) const fn file_state(state: FileState) -> &'static str {
    match state {
        FileState::Whole => "files are complete",
        FileState::Gone => "files are deleted",
        FileState::Cut => "files are written in place",
        FileState::Forbidden => "files are not readable",
    }
}

pub(super) const fn bad_answer(bad: BadAnswer) -> &'static str {
    match bad {
        BadAnswer::Status(_) => "an HTTP status that is an error",
        BadAnswer::Unusable => "a body that is not a response",
        BadAnswer::Redirect => "a redirect",
        BadAnswer::ForeignBody => "a body of another type",
        BadAnswer::Unchanged => "a response without changes, despite changes",
        BadAnswer::Stale => "an answer from a cache",
    }
}

/// Returns bytes that distinguish a notice from others.
pub(super) fn digest(notice: &Notice) -> [u8; 9] {
    match notice {
        Notice::Changed(Ok(resource)) => sum(0, &resource.bytes),
        Notice::Changed(Err(error)) => sum(1, &error.kind().code().as_i32().to_le_bytes()),
        Notice::Ambient(Some(error)) => sum(2, &error.kind().code().as_i32().to_le_bytes()),
        Notice::Ambient(None) => sum(3, &[]),
        _ => sum(4, &[]),
    }
}

/// Returns bytes that distinguish a change from others.
pub(super) fn digest_of_change(change: &Change) -> [u8; 9] {
    match change {
        Change::Resource { result: Ok(resource), .. } => sum(5, &resource.bytes),
        Change::Resource { name, result: Err(_) } => sum(6, name.as_str().as_bytes()),
        Change::Ambient { name, error } => {
            sum(7 + u8::from(error.is_some()), name.as_str().as_bytes())
        }
        _ => sum(9, &[]),
    }
}

fn sum(sort: u8, bytes: &[u8]) -> [u8; 9] {
    let mut hasher = foldhash::fast::FixedState::with_seed(0).build_hasher();
    hasher.write(bytes);
    let mut digest = [sort; 9];
    digest[1..].copy_from_slice(&hasher.finish().to_le_bytes());
    digest
}
