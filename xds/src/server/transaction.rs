//! Transactions of typed resources.

use bytes::Bytes;
use thiserror::Error;
use xds_core::{
    ResourceName, TypeUrl, ViewName,
    client::{OpaqueType, ResourceType as _},
    server,
    server::ResourceOptions,
    types,
};

use crate::message::ResourceMessage;

/// Changes to the resources of a view, applied as a whole or not at all by
/// [`ManagementServer::apply`](super::ManagementServer::apply).
///
/// ```
/// # #[cfg(feature = "envoy-types")] {
/// use xds::{resources::Cluster, server::Transaction};
///
/// let cluster = Cluster { name: "web".into(), ..Cluster::default() };
/// // Clusters that are not in the snapshot are removed.
/// let snapshot = Transaction::snapshot("zone-a").with(&cluster)?;
/// // Other clusters stay.
/// let change = Transaction::in_view("zone-a").with(&cluster)?.without::<Cluster>("db");
/// # drop((snapshot, change)); }
/// # Ok::<_, xds::server::InvalidResource>(())
/// ```
#[derive(Clone, Debug)]
pub struct Transaction(server::Transaction);

/// Reason why a resource cannot be set.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidResource {
    /// The message has no name.
    #[error("a resource of type {type_url} has no name")]
    NoName {
        /// Resource type.
        type_url: TypeUrl,
    },
    /// The name in the message is not the one under which the resource is set.
    #[error("the resource set as {name:?} contains the name {contained:?} (type {type_url})")]
    NameMismatch {
        /// Resource type.
        type_url: TypeUrl,
        /// Name under which the resource is set.
        name: ResourceName,
        /// Name in the message.
        contained: String,
    },
    /// The bytes are not a message.
    #[error("the resource {name:?} of type {type_url} is not a message: {reason}")]
    Malformed {
        /// Resource type.
        type_url: TypeUrl,
        /// Name under which the resource is set.
        name: ResourceName,
        /// Fault of the bytes.
        reason: String,
    },
}

impl Transaction {
    /// Creates a transaction that replaces all resources of a view. Resources that it does not
    /// contain are removed. Unchanged resources are not sent again.
    #[must_use]
    pub fn snapshot(view: impl Into<ViewName>) -> Self {
        Self(server::Transaction::snapshot(view))
    }

    /// Creates a transaction that changes some resources of a view.
    #[must_use]
    pub fn in_view(view: impl Into<ViewName>) -> Self {
        Self(server::Transaction::in_view(view))
    }

    /// Adds or replaces a resource.
    ///
    /// # Errors
    ///
    /// Returns an error if the message has no name.
    pub fn with<T: ResourceMessage>(self, resource: &T) -> Result<Self, InvalidResource> {
        self.with_options(resource, ResourceOptions::default())
    }

    /// Adds or replaces a resource with a TTL, aliases or other options.
    ///
    /// # Errors
    ///
    /// Returns an error if the message has no name.
    pub fn with_options<T: ResourceMessage>(
        mut self,
        resource: &T,
        options: ResourceOptions,
    ) -> Result<Self, InvalidResource> {
        let name = resource.resource_name();
        if name.is_empty() {
            return Err(InvalidResource::NoName { type_url: T::TYPE_URL.into() });
        }
        self.0.set_with(T::TYPE_URL, name, resource.encode_to_vec(), options);
        Ok(self)
    }

    /// Adds or replaces an encoded resource of any type.
    ///
    /// # Errors
    ///
    /// Returns an error if the bytes are not a message, or if the type is one of the Envoy API and
    /// the message contains another name. The names of other types are not checked.
    pub fn with_encoded(
        mut self,
        type_url: impl Into<TypeUrl>,
        name: impl Into<ResourceName>,
        resource: impl Into<Bytes>,
    ) -> Result<Self, InvalidResource> {
        let (type_url, name, resource) = (type_url.into(), name.into(), resource.into());
        check_encoded(&type_url, &name, &resource)?;
        self.0.set(type_url, name, resource);
        Ok(self)
    }

    /// Adds or replaces the resources in a YAML document: one resource, a list of them, or a message
    /// with the field `resources`. Each has its type in `@type`.
    ///
    /// # Errors
    ///
    /// Returns an error that names the line, the column and the field if the document is invalid.
    #[cfg(feature = "formats")]
    pub fn with_yaml(mut self, text: &str) -> Result<Self, xds_format::FormatError> {
        use xds_format::{Format, Schema, parse};

        let document = parse(Schema::envoy(), "resources", Format::Yaml, text.as_bytes())?;
        for resource in document.resources {
            self.0.set(resource.type_url.as_str(), resource.name.as_str(), resource.bytes);
        }
        Ok(self)
    }

    /// Removes a resource. Removing one that does not exist changes nothing.
    #[must_use]
    pub fn without<T: ResourceMessage>(self, name: impl Into<ResourceName>) -> Self {
        self.without_untyped(T::TYPE_URL, name)
    }

    /// Removes a resource of any type.
    #[must_use]
    pub fn without_untyped(
        mut self,
        type_url: impl Into<TypeUrl>,
        name: impl Into<ResourceName>,
    ) -> Self {
        self.0.remove(type_url, name);
        self
    }
}

impl From<Transaction> for server::Transaction {
    fn from(transaction: Transaction) -> Self {
        transaction.0
    }
}

/// Converts an untyped transaction. The names in its resources are not checked.
impl From<server::Transaction> for Transaction {
    fn from(transaction: server::Transaction) -> Self {
        Self(transaction)
    }
}

fn check_encoded(
    type_url: &TypeUrl,
    name: &ResourceName,
    resource: &Bytes,
) -> Result<(), InvalidResource> {
    // A virtual host is served under the name of its route configuration and a domain.
    let is_named =
        types::short_name(type_url.as_str()).is_some() && type_url.as_str() != types::VIRTUAL_HOST;
    // The name is the string in field 1 of each of them.
    let contained = OpaqueType::new(type_url.clone()).name(resource).map(String::from);
    match contained {
        Err(rejection) => Err(InvalidResource::Malformed {
            type_url: type_url.clone(),
            name: name.clone(),
            reason: rejection.to_string(),
        }),
        Ok(contained) if is_named && contained != name.as_str() => {
            let (type_url, name) = (type_url.clone(), name.clone());
            Err(InvalidResource::NameMismatch { type_url, name, contained })
        }
        Ok(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, PartialEq, prost::Message)]
    struct Cluster {
        #[prost(string, tag = "1")]
        name: String,
    }

    crate::resource_message!(Cluster, types::CLUSTER, name);

    #[test]
    fn message_without_name_is_rejected() {
        let error = Transaction::snapshot("").with(&Cluster::default()).unwrap_err();
        assert_eq!(error, InvalidResource::NoName { type_url: types::CLUSTER.into() });
        assert_eq!(Transaction::in_view("").with(&Cluster::default()).unwrap_err(), error);
    }

    #[test]
    fn encoded_resource_with_another_name_is_rejected() {
        let web = &b"\x0a\x03web"[..];
        for name in ["db", ""] {
            let error =
                Transaction::snapshot("").with_encoded(types::CLUSTER, name, web).unwrap_err();
            assert!(matches!(error, InvalidResource::NameMismatch { .. }), "{error}");
        }
        let error = Transaction::in_view("").with_encoded(types::CLUSTER, "web", &b"\x0a\x05"[..]);
        assert!(matches!(error, Err(InvalidResource::Malformed { .. })), "{error:?}");
        Transaction::snapshot("").with_encoded(types::CLUSTER, "web", web).unwrap();
    }

    #[test]
    fn names_of_virtual_hosts_and_foreign_types_are_not_checked() {
        let any = &b"\x0a\x03web"[..];
        let snapshot =
            Transaction::snapshot("").with_encoded(types::VIRTUAL_HOST, "routes/web.example", any);
        snapshot.unwrap().with_encoded("example.com/own.Type", "other", any).unwrap();
    }
}
