//! Parsed response in either variant of the protocol.

use crate::{
    client::resource::{name::Naming, unwrap::Unwrapped},
    service::Variant,
    wire::{Malformed, delta_response::DeltaResponse, response::Response},
};

/// Response in the server's variant of the protocol.
pub(crate) enum AnyResponse<'f> {
    Sotw(Response<'f>),
    Delta(DeltaResponse<'f>),
}

impl<'f> AnyResponse<'f> {
    pub(crate) fn parse(variant: Variant, frame: &'f [u8]) -> Result<Self, Malformed> {
        match variant {
            Variant::StateOfTheWorld => Response::parse(frame).map(Self::Sotw),
            Variant::Incremental => DeltaResponse::parse(frame).map(Self::Delta),
        }
    }

    pub(crate) fn type_url(&self) -> &'f str {
        match self {
            Self::Sotw(response) => response.type_url,
            Self::Delta(response) => response.type_url,
        }
    }

    pub(crate) fn nonce(&self) -> &'f str {
        match self {
            Self::Sotw(response) => response.nonce,
            Self::Delta(response) => response.nonce,
        }
    }

    pub(crate) fn control_plane(&self) -> &'f str {
        match self {
            Self::Sotw(response) => response.control_plane,
            Self::Delta(response) => response.control_plane,
        }
    }

    /// Calls `act` with each well-formed resource and its position, in wire order.
    pub(crate) fn for_each_valid(
        &self,
        naming: Naming<'_>,
        act: impl FnMut((usize, Unwrapped<'f>)),
    ) {
        match self {
            Self::Sotw(response) => response
                .resources()
                .enumerate()
                .filter_map(|(at, raw)| Some((at, naming.unwrap(&raw.ok()?).ok()?)))
                .for_each(act),
            Self::Delta(response) => response
                .resources()
                .enumerate()
                .filter_map(|(at, it)| Some((at, naming.unwrap_delta(&it.ok()?).ok()?)))
                .for_each(act),
        }
    }

    /// Returns the version of the response. In the incremental variant, each resource has its own.
    pub(crate) fn version(&self) -> &'f str {
        match self {
            Self::Sotw(response) => response.version,
            Self::Delta(response) => response.system_version,
        }
    }
}
