//! Incremental validation of an updated route configuration, which reuses unchanged routes.
//!
//! The validation of a route depends on its bytes, on the rules, on trust in the server, on the
//! plugins of the configuration and on the retry policy of its virtual host. If everything except
//! the routes has the same bytes, a route with the same bytes is reused. Two cases are validated
//! again: routes with regular expressions, because their number per resource is limited, and all
//! routes if trust in the server changed.

use alloc::vec::Vec;

use bytes::Bytes;
use prost::{
    Message as _,
    encoding::{
        DecodeContext, WireType, decode_key, decode_varint, encode_key, encode_varint, skip_field,
    },
};

use xds_core::client::ServerAddress;

use super::{
    RouteConfiguration, VirtualHost,
    validate::{Plan, validate_with},
};
use crate::{
    proto::envoy::config::route::v3 as schema,
    rules::{Routing, Rules},
    validation::{InvalidResource, Trust, Validator},
};

const VIRTUAL_HOSTS: u32 = 2;
const ROUTES: u32 = 3;

impl RouteConfiguration {
    /// Decodes and validates a resource as [`from_bytes`](Self::from_bytes) does, and reuses
    /// unchanged routes of an earlier version. `held` is the earlier version with its bytes,
    /// validated by the same rules.
    ///
    /// # Errors
    ///
    /// Returns an error that lists the invalid fields.
    pub fn from_bytes_after(
        held: (&Bytes, &Self),
        resource: &Bytes,
        rules: &Rules,
    ) -> Result<Self, InvalidResource> {
        Self::of_server_after(held, resource, rules, None)
    }

    pub(crate) fn of_server_after(
        held: (&Bytes, &Self),
        resource: &Bytes,
        rules: &Rules,
        server: Option<&ServerAddress>,
    ) -> Result<Self, InvalidResource> {
        let is_as_trusted = held.1.trust == Trust::in_server(server);
        match is_as_trusted.then(|| plan(held, resource, rules)).flatten() {
            Some((schema, plans)) => {
                let mut validator = Validator::new(rules, server);
                let value = validate_with(&schema, &plans, &mut validator);
                validator.finish(value)
            }
            None => Self::of_server(resource, rules, server),
        }
    }
}

/// Returns the configuration without the reused routes, and their positions. Returns `None` if
/// nothing can be reused.
fn plan<'a>(
    (bytes, held): (&Bytes, &'a RouteConfiguration),
    resource: &Bytes,
    rules: &Rules,
) -> Option<(schema::RouteConfiguration, Vec<Plan<'a>>)> {
    if rules.routing != Routing::Full {
        return None;
    }
    let (old, new) = (split(bytes, VIRTUAL_HOSTS)?, split(resource, VIRTUAL_HOSTS)?);
    if old.rest != new.rest || old.parts.len() != held.virtual_hosts.len() {
        return None;
    }
    let (mut reduced, mut plans) = (new.rest, Vec::new());
    for (index, part) in new.parts.iter().enumerate() {
        let host = split(part, ROUTES)?;
        let before = old.parts.get(index).zip(held.virtual_hosts.get(index));
        let before = before.and_then(|(part, held)| Some((split(part, ROUTES)?, held)));
        let plan = match before {
            Some((before, held)) if before.rest == host.rest => plan_host(&before, held, &host),
            _ => alloc::vec![None; host.parts.len()],
        };
        let mut content = host.rest;
        for (route, _) in host.parts.iter().zip(&plan).filter(|(_, taken)| taken.is_none()) {
            append(ROUTES, route, &mut content);
        }
        append(VIRTUAL_HOSTS, &content, &mut reduced);
        plans.push(plan);
    }
    let schema = schema::RouteConfiguration::decode(reduced.as_slice()).ok()?;
    Some((schema, plans))
}

fn plan_host<'a>(old: &Split<'_>, held: &'a VirtualHost, new: &Split<'_>) -> Plan<'a> {
    let (count, count_before) = (new.parts.len(), old.parts.len());
    let known = by_position(held, count_before);
    let taken = |at: usize, bytes: &[u8]| {
        let is_same = old.parts.get(at).is_some_and(|old| *old == bytes);
        known.get(at).copied().flatten().filter(|route| is_same && !route.has_expressions)
    };
    let find = |(index, bytes): (usize, &&[u8])| {
        // Positions are counted from either end, so one insertion or removal shifts no other route.
        let from_end = (index + count_before).checked_sub(count);
        taken(index, bytes).or_else(|| taken(from_end?, bytes))
    };
    new.parts.iter().enumerate().map(find).collect()
}

/// Returns the routes of a virtual host by position in the resource, `None` for skipped ones.
fn by_position(host: &VirtualHost, count: usize) -> Plan<'_> {
    if host.routes.len() + host.skipped_routes.len() != count {
        return Vec::new();
    }
    let (mut routes, mut skipped_routes) =
        (host.routes.iter(), host.skipped_routes.iter().peekable());
    let next = |index| match skipped_routes.next_if(|passed| passed.route == index) {
        Some(_) => None,
        None => routes.next(),
    };
    (0..count).map(next).collect()
}

/// Message split into one repeated field and the rest.
struct Split<'a> {
    /// Encoded elements of the repeated field.
    parts: Vec<&'a [u8]>,
    /// All other fields, encoded.
    rest: Vec<u8>,
}

/// Splits a message. Returns `None` if it is malformed, for decoding to report the error.
fn split(message: &[u8], number: u32) -> Option<Split<'_>> {
    let (mut parts, mut rest) = (Vec::new(), Vec::new());
    let mut left = message;
    while !left.is_empty() {
        let field = left;
        let (found, wire_type) = decode_key(&mut left).ok()?;
        if found == number {
            if wire_type != WireType::LengthDelimited {
                return None;
            }
            let length = usize::try_from(decode_varint(&mut left).ok()?).ok()?;
            let (part, after) = left.split_at_checked(length)?;
            parts.push(part);
            left = after;
        } else {
            skip_field(wire_type, found, &mut left, DecodeContext::default()).ok()?;
            rest.extend_from_slice(field.get(..field.len().checked_sub(left.len())?)?);
        }
    }
    Some(Split { parts, rest })
}

fn append(number: u32, content: &[u8], message: &mut Vec<u8>) {
    encode_key(number, WireType::LengthDelimited, message);
    encode_varint(content.len() as u64, message);
    message.extend_from_slice(content);
}
