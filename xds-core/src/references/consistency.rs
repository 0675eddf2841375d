//! Whether each reference of a set of resources leads to one of them.

use alloc::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};

use super::{EnvoyReferences, Finding, Reference, ReferenceExtractor, ResourceId, Target};
use crate::{
    ResourceName, TypeUrl, types,
    xdstp::{self, XdstpName},
};

/// A check of a whole set of resources: of one view, as a client sees it.
///
/// It is for whoever fills a server, before a transaction is applied. The server itself serves what it
/// is given: while things move, a reference may dangle for a moment.
#[derive(Clone, Debug)]
pub struct Consistency<'e> {
    extractor: &'e dyn ReferenceExtractor,
    /// Types whose resources are of no use unless something refers to them.
    reached_by_reference: BTreeSet<TypeUrl>,
    /// What clients have from elsewhere.
    elsewhere: Reached,
}

/// Types that clients ask for by the names that other resources give them, all of which are followed.
///
/// Clusters are not among them: filters, access logs and bootstraps refer to clusters as well, and a
/// header may. Nor are secrets and extension configurations, which extensions that are passed over may
/// refer to.
const REACHED_BY_REFERENCE: [&str; 4] = [
    types::CLUSTER_LOAD_ASSIGNMENT,
    types::ROUTE_CONFIGURATION,
    types::SCOPED_ROUTE_CONFIGURATION,
    types::VIRTUAL_HOST,
];

impl Default for Consistency<'_> {
    /// By the references of the v3 API.
    fn default() -> Self {
        Self::new(&EnvoyReferences)
    }
}

impl<'e> Consistency<'e> {
    /// By the references that `extractor` finds.
    #[must_use]
    pub fn new(extractor: &'e dyn ReferenceExtractor) -> Self {
        Self {
            extractor,
            reached_by_reference: REACHED_BY_REFERENCE.into_iter().map(TypeUrl::from).collect(),
            elsewhere: Reached::default(),
        }
    }

    /// Finds resources of one more type that nothing refers to. Of the v3 API these are endpoints, route
    /// configurations, scoped routes and virtual hosts.
    #[must_use]
    pub fn with_type_reached_by_reference(mut self, type_url: impl Into<TypeUrl>) -> Self {
        self.reached_by_reference.insert(type_url.into());
        self
    }

    /// Takes a resource as one that clients have from elsewhere, as a cluster in their bootstrap: it is
    /// not missing.
    #[must_use]
    pub fn with_elsewhere(mut self, type_url: &str, name: &str) -> Self {
        self.elsewhere.insert(type_url, Target::Name(name));
        self
    }

    /// Takes all resources of a type as those that clients have from elsewhere: none of them is missing.
    #[must_use]
    pub fn with_all_elsewhere(mut self, type_url: &str) -> Self {
        self.elsewhere.insert(type_url, Target::All);
        self
    }

    /// Checks resources, each given by its type, its name and its bytes. Should a name come twice, the
    /// last one counts.
    ///
    /// First come findings about what is missing and what is malformed, then those about what nothing
    /// refers to; both by type and name. Of one resource each missing one is found once.
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
            Target::Name(name) => {
                let name = comparable(name);
                let is_there = resources.is_some_and(|it| it.contains_key(name.as_ref()));
                !is_there && !self.elsewhere.contains(type_url, &name)
            }
            // Asked for on demand, and a collection may be empty.
            Target::Below(_) => false,
            Target::All => resources.is_none() && !self.elsewhere.contains_any(type_url),
        }
    }
}

/// Resources by type, and by name as names are compared.
type Set<B> = BTreeMap<TypeUrl, BTreeMap<ResourceName, (ResourceId, B)>>;

/// What a number of references leads to.
#[derive(Clone, Debug, Default)]
struct Reached(BTreeMap<TypeUrl, ReachedOfType>);

#[derive(Clone, Debug, Default)]
struct ReachedOfType {
    is_whole: bool,
    names: BTreeSet<ResourceName>,
    /// Names of which all that lies below is reached.
    above: BTreeSet<ResourceName>,
}

impl Reached {
    /// True if that is new.
    fn insert(&mut self, type_url: &str, target: Target<'_>) -> bool {
        if !self.0.contains_key(type_url) {
            self.0.insert(type_url.into(), ReachedOfType::default());
        }
        let Some(reached) = self.0.get_mut(type_url) else { return false };
        let (names, name) = match target {
            Target::All => return !core::mem::replace(&mut reached.is_whole, true),
            Target::Name(name) => (&mut reached.names, comparable(name)),
            Target::Below(name) => (&mut reached.above, name.into()),
        };
        // Most references are to what another one has named before.
        !names.contains(name.as_ref()) && names.insert(name.as_ref().into())
    }

    /// Whether the resource of this name is reached. The name is one that can be compared.
    fn contains(&self, type_url: &str, name: &str) -> bool {
        let Some(reached) = self.0.get(type_url) else { return false };
        if reached.is_whole || reached.names.contains(name) {
            return true;
        }
        // The context parameters of a collection are passed over, and so are those of its members.
        let mut name = if xdstp::is_xdstp(name) { without_context(name) } else { name };
        while !reached.above.is_empty()
            && let Some((above, _)) = name.rsplit_once('/')
        {
            if reached.above.contains(above) {
                return true;
            }
            name = above;
        }
        false
    }

    fn contains_any(&self, type_url: &str) -> bool {
        self.0.contains_key(type_url)
    }
}

/// A name in the form in which names are compared (FE-08); one that claims the structure of `xdstp:` and
/// does not have it is compared as it is.
fn comparable(name: &str) -> Cow<'_, str> {
    if !xdstp::is_xdstp(name) {
        return Cow::Borrowed(name);
    }
    XdstpName::parse(name).map_or(Cow::Borrowed(name), |it| Cow::Owned(it.as_str().into()))
}

/// An `xdstp:` name up to its context parameters.
pub(super) fn without_context(name: &str) -> &str {
    name.split(['?', '#']).next().unwrap_or(name)
}
