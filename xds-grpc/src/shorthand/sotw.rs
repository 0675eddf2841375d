//! Shorthand of state-of-the-world messages.

use core::fmt::{self, Display as _};

use xds_core::{
    client::{OpaqueType, ResourceType as _},
    proto, types,
};

use super::{
    Names,
    text::{Printable, end, end_of_response, list},
    wrapper,
};

pub(super) fn request(
    f: &mut fmt::Formatter<'_>,
    request: &proto::DiscoveryRequest,
    names: Names,
) -> fmt::Result {
    write!(f, "(V={},R=", Printable(&request.version_info))?;
    list(f, &request.resource_names, names, |f, name| Printable(name).fmt(f))?;
    end(f, &request.response_nonce, &request.type_url)
}

pub(super) fn response(
    f: &mut fmt::Formatter<'_>,
    response: &proto::DiscoveryResponse,
    names: Names,
) -> fmt::Result {
    write!(f, "(V={},R=", Printable(&response.version_info))?;
    list(f, &response.resources, names, resource_name)?;
    end_of_response(f, &response.nonce, &response.type_url, response.control_plane.as_ref())
}

/// Prints the name of a resource, from its wrapper or its first field if the type is known.
/// Otherwise prints its size.
fn resource_name(f: &mut fmt::Formatter<'_>, resource: &proto::Any) -> fmt::Result {
    if let Some(wrapper) = wrapper(resource)
        && !wrapper.name.is_empty()
    {
        return Printable(&wrapper.name).fmt(f);
    }
    if types::short_name(&resource.type_url).is_some()
        && let Ok(name) = OpaqueType::new(resource.type_url.as_str()).name(&resource.value)
    {
        return Printable(name).fmt(f);
    }
    write!(f, "<{} bytes>", resource.value.len())
}
