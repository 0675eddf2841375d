//! Check of a set of resources for dangling references and unreferenced resources.

use alloc::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};

use super::{
    envoy::EnvoyReferences,
    extractor::ReferenceExtractor,
    finding::{Finding, ResourceId},
    reference::{Reference, ReferenceTarget},
};
use crate::{
    ResourceName, TypeUrl, types,
    xdstp::{XdstpName, is_xdstp, without_context},
};

/// Check of a complete set of resources: one view, as its clients receive it.
///
/// Use it before applying a transaction. The server itself serves any resources it is given,
/// because references may dangle for a moment during a change.
#[derive(Clone, Debug)]
pub struct Consistency<'e> {
    extractor: &'e dyn ReferenceExtractor,
    /// Types whose resources are used only if another resource refers to them.
    reached_by_reference: BTreeSet<TypeUrl>,
    /// External resources, which clients have from other sources.
    external: Reached,
}

/// Types that clients request only by names in other resources, all of which are followed.
///
/// It excludes clusters, which filters, access logs, bootstraps and headers may also refer to, and
/// secrets and extension configurations, which ignored extensions may refer to.
const REACHED_BY_REFERENCE: [&str; 4] = [
    types::CLUSTER_LOAD_ASSIGNMENT,
    types::ROUTE_CONFIGURATION,
    types::SCOPED_ROUTE_CONFIGURATION,
    types::VIRTUAL_HOST,
];

impl Default for Consistency<'_> {
    /// A check that uses the references of the v3 API.
    fn default() -> Self {
        Self::new(&EnvoyReferences)
    }
}

impl<'e> Consistency<'e> {
    /// Creates a check that uses the references found by `extractor`.
    #[must_use]
    pub fn new(extractor: &'e dyn ReferenceExtractor) -> Self {
        Self {
            extractor,
            reached_by_reference: REACHED_BY_REFERENCE.into_iter().map(TypeUrl::from).collect(),
            external: Reached::default(),
        }
    }

    /// Adds a type to those whose unreferenced resources are reported. By default these are
    /// endpoints, route configurations, scoped routes and virtual hosts.
    #[must_use]
    pub fn with_type_reached_by_reference(mut self, type_url: impl Into<TypeUrl>) -> Self {
        self.reached_by_reference.insert(type_url.into());
        self
    }

    /// Declares a resource as external, such as a cluster in the bootstrap, so that it is not
    /// reported as missing.
    #[must_use]
    pub fn with_external(mut self, type_url: &str, name: &str) -> Self {
        self.external.insert(type_url, ReferenceTarget::Name(name));
        self
    }

    /// Declares all resources of a type as external, so that none is reported as missing.
    #[must_use]
    pub fn with_all_external(mut self, type_url: &str) -> Self {
        self.external.insert(type_url, ReferenceTarget::All);
        self
    }

    /// Checks resources, each given by type, name and bytes. If a name occurs twice, the last one
    /// counts.
    ///
    /// Returns first the missing and malformed resources, then the unreferenced ones, each group
    /// ordered by type and name. For each resource, every missing reference is reported once.
    pub fn check<T, N, B>(&self, resources: impl IntoIterator<Item = (T, N, B)>) -> Vec<Finding>
    where
        T: Into<TypeUrl>,
        N: Into<ResourceName>,
        B: AsRef<[u8]>,
    {
        let mut set = Set::new();
        for (type_url, name, bytes) in resources {
            let id = ResourceId { type_url: type_url.into(), name: name.into() };
            let name = comparable(id.name.as_str()).as_ref().into();
            set.entry(id.type_url.clone()).or_default().insert(name, (id, bytes));
        }
        let mut findings = Vec::new();
        let mut reached = Reached::default();
        for (id, bytes) in set.values().flat_map(BTreeMap::values) {
            let mut missing = Reached::default();
            let mut follow = |reference: Reference<'_>| {
                reached.insert(reference.type_url, reference.target);
                if self.is_missing(reference, &set)
                    && missing.insert(reference.type_url, reference.target)
                {
                    findings.push(Finding::missing(id.clone(), reference));
                }
            };
            let type_url = id.type_url.as_str();
            if let Err(why) = self.extractor.references(type_url, bytes.as_ref(), &mut follow) {
                findings.push(Finding::Malformed { resource: id.clone(), why });
            }
        }
        for (type_url, resources) in set {
            if !self.reached_by_reference.contains(&type_url) {
                continue;
            }
            for (name, (resource, _)) in resources {
                if !reached.contains(type_url.as_str(), name.as_str()) {
                    findings.push(Finding::Unreferenced { resource });
                }
            }
        }
        findings
    }

    fn is_missing<B>(&self, reference: Reference<'_>, set: &Set<B>) -> bool {
        let Reference { type_url, target, .. } = reference;
        let resources = set.get(type_url);
        match target {
            ReferenceTarget::Name(name) => {
                let name = comparable(name);
                let is_there = resources.is_some_and(|it| it.contains_key(name.as_ref()));
                !is_there && !self.external.contains(type_url, &name)
            }
            // Members are requested on demand, and a collection may be empty.
            ReferenceTarget::Prefix(_) => false,
            ReferenceTarget::All => resources.is_none() && !self.external.contains_any(type_url),
        }
    }
}

/// Resources by type and by comparable name.
type Set<B> = BTreeMap<TypeUrl, BTreeMap<ResourceName, (ResourceId, B)>>;

/// Targets of a number of references.
#[derive(Clone, Debug, Default)]
struct Reached(BTreeMap<TypeUrl, ReachedOfType>);

#[derive(Clone, Debug, Default)]
struct ReachedOfType {
    has_all: bool,
    names: BTreeSet<ResourceName>,
    /// Names below which all resources are reached.
    prefixes: BTreeSet<ResourceName>,
}

impl Reached {
    /// Adds a target, and returns whether it is new.
    fn insert(&mut self, type_url: &str, target: ReferenceTarget<'_>) -> bool {
        if !self.0.contains_key(type_url) {
            self.0.insert(type_url.into(), ReachedOfType::default());
        }
        let Some(reached) = self.0.get_mut(type_url) else { return false };
        let (names, name) = match target {
            ReferenceTarget::All => return !core::mem::replace(&mut reached.has_all, true),
            ReferenceTarget::Name(name) => (&mut reached.names, comparable(name)),
            ReferenceTarget::Prefix(name) => (&mut reached.prefixes, name.into()),
        };
        // Most references have a target that was added before.
        !names.contains(name.as_ref()) && names.insert(name.as_ref().into())
    }

    /// Whether the resource of this comparable name is reached.
    fn contains(&self, type_url: &str, name: &str) -> bool {
        let Some(reached) = self.0.get(type_url) else { return false };
        if reached.has_all || reached.names.contains(name) {
            return true;
        }
        // The context parameters of a collection and of its members are ignored.
        let mut name = if is_xdstp(name) { without_context(name) } else { name };
        while !reached.prefixes.is_empty()
            && let Some((prefix, _)) = name.rsplit_once('/')
        {
            if reached.prefixes.contains(prefix) {
                return true;
            }
            name = prefix;
        }
        false
    }

    fn contains_any(&self, type_url: &str) -> bool {
        self.0.contains_key(type_url)
    }
}

/// Canonical form of a name, for comparison. A malformed `xdstp:` name is compared as it is.
// FE-08
fn comparable(name: &str) -> Cow<'_, str> {
    if !is_xdstp(name) {
        return Cow::Borrowed(name);
    }
    XdstpName::parse(name).map_or(Cow::Borrowed(name), |it| Cow::Owned(it.as_str().into()))
}
