//! Labels and annotations that this crate interprets, and names of objects in messages.

use xds_source::ObjectId;

/// Label of ConfigMaps with resources; its value is `true`.
pub const RESOURCES_LABEL: &str = "xds-resources";

/// Annotation of ConfigMaps and Services with the view of their resources. Without it, or with the
/// value `default`, they belong to the view without a name.
pub const VIEW_ANNOTATION: &str = "xds-view";

/// Annotation of Services that gRPC clients reach as `xds:///NAME.NAMESPACE:PORT`. The value is
/// `true` for all TCP ports of the Service, or a comma-separated list of port names and numbers.
pub const SERVICE_ANNOTATION: &str = "xds-service";

/// Annotation that [`Feedback`](crate::Feedback) writes to objects whose resources are rejected by
/// clients or refused by guards. Otherwise it is absent.
pub const REJECTED_ANNOTATION: &str = "xds-rejected";

/// Annotation of ConfigMaps and Services with the ids of refused changes to apply anyway
/// ([`Object::forced`](xds_source::Object::forced)).
pub const FORCE_ANNOTATION: &str = "xds-force";

/// Verbs that an account needs for one kind of object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Permission {
    /// API group; empty for the core group.
    pub group: &'static str,
    /// Name of the resource, such as `services`.
    pub resource: &'static str,
    /// Verbs to read the objects.
    pub read: &'static [&'static str],
    /// Verbs to write to the objects.
    pub write: &'static [&'static str],
}

/// All permissions that an account needs.
pub const PERMISSIONS: &[Permission] = &[
    Permission {
        group: "",
        resource: "configmaps",
        read: &["list", "watch"],
        write: &["get", "patch"],
    },
    Permission {
        group: "",
        resource: "services",
        read: &["list", "watch"],
        write: &["get", "patch"],
    },
    Permission {
        group: "discovery.k8s.io",
        resource: "endpointslices",
        read: &["list", "watch"],
        write: &[],
    },
    Permission { group: "", resource: "events", read: &[], write: &["create", "patch"] },
];

/// Permissions that an account needs in the namespace of
/// [`KubeRollouts`](crate::KubeRollouts).
pub const ROLLOUT_PERMISSIONS: &[Permission] = &[
    Permission {
        group: "",
        resource: "configmaps",
        read: &["get", "list"],
        write: &["create", "delete"],
    },
    Permission {
        group: "coordination.k8s.io",
        resource: "leases",
        read: &["get", "list", "watch"],
        write: &["create", "patch", "delete"],
    },
];

/// Kind of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    Service,
    EndpointSlice,
    ConfigMap,
}

impl Kind {
    /// All kinds that are read.
    pub(crate) const ALL: [Self; 3] = [Self::Service, Self::EndpointSlice, Self::ConfigMap];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Service => "Service",
            Self::EndpointSlice => "EndpointSlice",
            Self::ConfigMap => "ConfigMap",
        }
    }

    /// Name of the resource in paths and in rules of RBAC.
    pub(crate) const fn plural(self) -> &'static str {
        match self {
            Self::Service => "services",
            Self::EndpointSlice => "endpointslices",
            Self::ConfigMap => "configmaps",
        }
    }

    /// API group; empty for the core group.
    pub(crate) const fn group(self) -> &'static str {
        match self {
            Self::EndpointSlice => "discovery.k8s.io",
            Self::Service | Self::ConfigMap => "",
        }
    }

    /// Path of the group and its version.
    pub(crate) const fn api(self) -> &'static str {
        match self {
            Self::EndpointSlice => "/apis/discovery.k8s.io/v1",
            Self::Service | Self::ConfigMap => "/api/v1",
        }
    }
}

/// Object that has resources: a ConfigMap, or a Service with its EndpointSlices.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    pub(crate) kind: Kind,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl Key {
    /// Returns the name in messages. It contains the view, so a move to another view is the
    /// deletion of one object and the creation of another.
    pub(crate) fn id(&self, view: &str) -> ObjectId {
        let Self { kind, namespace, name } = self;
        let kind = kind.name();
        match view {
            "" => format!("{kind} {namespace}/{name}").into(),
            view => format!("{kind} {namespace}/{name} in view {view}").into(),
        }
    }

    /// Parses a name in messages.
    pub(crate) fn parse(id: &str) -> Option<Self> {
        let (kind, rest) = id.split_once(' ')?;
        let kind = Kind::ALL.into_iter().find(|it| it.name() == kind)?;
        let (namespace, name) = rest.split(' ').next()?.split_once('/')?;
        Some(Self { kind, namespace: namespace.to_owned(), name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_names_kind_namespace_name_and_view() {
        let key = Key { kind: Kind::ConfigMap, namespace: "prod".into(), name: "mesh".into() };
        assert_eq!(key.id("").as_str(), "ConfigMap prod/mesh");
        assert_eq!(key.id("canary").as_str(), "ConfigMap prod/mesh in view canary");
        for view in ["", "canary"] {
            assert_eq!(Key::parse(key.id(view).as_str()), Some(key.clone()));
        }
        assert_eq!(Key::parse("mesh.yaml"), None);
        assert_eq!(Key::parse("Secret a/b"), None);
    }
}
