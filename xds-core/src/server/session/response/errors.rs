//! Resource errors, which a client is sent in place of a named resource.
// TP3, M171-M179

use alloc::{borrow::Cow, vec::Vec};

use crate::{
    server::{
        event::StatusCode,
        session::{Session, context::SessionContext, subscription::SubscriptionKind},
        store::{
            arena::ResourceEntry, encode::body::FitResult, on_demand::OnDemandState,
            transaction::ResourceError,
        },
    },
    service::Variant,
    slab::Slot,
    text::ResourceName,
    wire::encode,
};

/// Encoded errors of one response.
#[derive(Clone, Debug, Default)]
pub(crate) struct EncodedErrors {
    pub(crate) bytes: Vec<u8>,
    pub(crate) count: usize,
}

/// Encodes the error of a resource as a field of a response.
fn encode_error(variant: Variant, name: &ResourceName, error: &ResourceError) -> Vec<u8> {
    const NAME: u32 = 1;
    const RESOURCE_NAME: u32 = 1;
    const ERROR_DETAIL: u32 = 2;

    let field = match variant {
        Variant::StateOfTheWorld => 7,
        Variant::Incremental => 9,
    };
    let name = name.as_str().as_bytes();
    let status = encode::status(error.code.as_i32(), &error.message);
    let name_len = encode::block_len(NAME, name.len());
    let len =
        encode::block_len(RESOURCE_NAME, name_len) + encode::block_len(ERROR_DETAIL, status.len());
    let mut bytes = Vec::with_capacity(encode::block_len(field, len));
    encode::block_head(&mut bytes, field, len);
    encode::block_head(&mut bytes, RESOURCE_NAME, name_len);
    encode::block(&mut bytes, NAME, name);
    encode::block(&mut bytes, ERROR_DETAIL, &status);
    bytes
}

impl Session {
    /// Whether the client was told that a named resource is too long for it.
    pub(crate) fn is_reported_too_long(&self, resource: Slot) -> bool {
        self.extras.as_deref().is_some_and(|extras| extras.too_long.contains(&resource))
    }
}

impl SessionContext<'_> {
    /// Returns the error that this client is sent in place of a resource, which may be that the
    /// resource is too long for it.
    pub(crate) fn error_of(&self, slot: Slot) -> Option<Cow<'_, ResourceError>> {
        let is_too_long = || {
            self.session.wildcard.is_none()
                && self.session.is_reported_too_long(slot)
                && self.arena.payload(slot).is_some()
        };
        let length_error = || is_too_long().then(|| Cow::Owned(ResourceError::too_long()));
        self.set_error_of(slot).map(Cow::Borrowed).or_else(length_error)
    }

    /// Returns the error that was set for a resource, or that tells this client that it does not
    /// exist. A wildcard client is sent existing resources without their errors. A missing resource
    /// is reported as a removal in the incremental variant, and otherwise by an error if the type is
    /// configured so.
    // M178, M179, M39
    pub(super) fn set_error_of(&self, slot: Slot) -> Option<&ResourceError> {
        let resource = self.arena.at(slot)?;
        let exists = resource.payload.is_some();
        let is_covered = self.session.wildcard.is_some() && exists;
        let is_removal = self.session.variant == Variant::Incremental && !exists;
        // The application may still be creating it.
        let is_missing =
            !exists && !is_removal && resource.on_demand_state != OnDemandState::Requested;
        resource
            .error
            .as_deref()
            .filter(|error| !(is_covered || is_removal && error.code == StatusCode::NotFound))
            .or_else(|| self.arena.missing_error().filter(|_| is_missing))
    }

    /// Whether a resource is longer than any response to this client may be, and is replaced by an
    /// error: omitting it would leave the client waiting, and sending it would end the stream of a
    /// client that accepts no more.
    // IS26
    pub(super) fn is_too_long(&self, resource: &ResourceEntry, limit: usize) -> bool {
        let length = resource.payload.as_ref().map_or(0, |payload| payload.value.len());
        resource.error.is_none() && self.session.wildcard.is_none() && length > limit
    }

    /// Encodes the error of a resource, if `make_room` grants the space for its bytes.
    pub(super) fn push_error(
        &self,
        slot: Slot,
        error: &ResourceError,
        errors: &mut EncodedErrors,
        make_room: impl FnOnce(usize) -> FitResult,
    ) -> FitResult {
        let names = self.subscribed_names_of(slot);
        let encode = |name| encode_error(self.session.variant, name, error);
        let bytes: Vec<u8> = names.iter().flat_map(encode).collect();
        let room = make_room(bytes.len());
        if room == FitResult::Added {
            errors.count += names.len();
            errors.bytes.extend_from_slice(&bytes);
        }
        room
    }

    /// Returns the names by which the client subscribes to a resource. An error carries no
    /// aliases, so each alias is named; otherwise the client could not relate the error to it. A
    /// client that was sent the resource also knows the resource's own name.
    // S0.191
    fn subscribed_names_of(&self, resource: Slot) -> Vec<ResourceName> {
        let name_of = |slot| self.arena.at(slot).map(|it| it.name.clone());
        let own = name_of(resource);
        let mut names: Vec<ResourceName> =
            self.subscribed_aliases_of(resource).filter_map(name_of).collect();
        let is_known = own.as_ref().is_some_and(|own| {
            let subscription = self.subscriptions.of(self.slot, resource);
            let is_named = subscription
                .is_some_and(|it| it.kind == SubscriptionKind::Named || it.has_version());
            names.is_empty() || is_named || self.is_in_glob(own.as_str())
        });
        names.extend(own.filter(|_| is_known));
        names
    }
}
