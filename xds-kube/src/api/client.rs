//! Reading and watching one kind of object in a namespace, and writing.

use core::{fmt, pin::Pin};
use std::{sync::Arc, time::Duration};

use futures_core::Stream;
use futures_util::{StreamExt as _, stream};
use kube_client::{
    Client, Config, Error,
    core::{
        Request, WatchEvent,
        params::{
            DeleteParams, GetParams, ListParams, Patch, PatchParams, PostParams, Preconditions,
            WatchParams,
        },
    },
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tokio::time::Instant;

use super::{
    error::{ALL_NAMESPACES, KubeError, KubeErrorKind},
    options::{KubeOptions, WATCH_SECONDS},
    token_file::TokenFile,
};
use crate::objects::{
    ConfigMap, EndpointSlice, Kind, Metadata, Observed, RESOURCES_LABEL, SERVICE_NAME, Service,
};

/// Connection to the API server of a cluster. Clones share it.
#[derive(Clone)]
pub struct KubeClient {
    client: Client,
    namespaces: Arc<[String]>,
    selector: Option<Arc<str>>,
}

impl fmt::Debug for KubeClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KubeClient")
            .field("namespaces", &self.namespaces)
            .field("selector", &self.selector)
            .finish_non_exhaustive()
    }
}

/// Objects of one kind in one namespace, or in all.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Scope {
    pub(crate) kind: Kind,
    pub(crate) namespace: Option<Arc<str>>,
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.plural())?;
        match self.kind.group() {
            "" => {}
            group => write!(f, ".{group}")?,
        }
        match &self.namespace {
            Some(namespace) => write!(f, " in namespace {namespace}"),
            None => write!(f, " {ALL_NAMESPACES}"),
        }
    }
}

impl Scope {
    fn path(&self) -> String {
        let (api, plural) = (self.kind.api(), self.kind.plural());
        match &self.namespace {
            Some(namespace) => format!("{api}/namespaces/{namespace}/{plural}"),
            None => format!("{api}/{plural}"),
        }
    }
}

/// One page of a list.
#[derive(Deserialize)]
struct Page<T> {
    metadata: PageMetadata,
    items: Option<Vec<T>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PageMetadata {
    resource_version: String,
    #[serde(rename = "continue")]
    next: Option<String>,
}

/// Number of objects in a page.
const PAGE: u32 = 500;

/// Path of objects of one kind, and the label selector that they match.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) path: String,
    pub(crate) selector: Option<String>,
}

/// Event of a watch.
#[derive(Debug)]
pub(crate) enum WatchItem<O> {
    Set(O),
    Delete(O),
    /// Notice that nothing else has changed up to the revision. A watch begins with one.
    Bookmark,
}

/// Events of a watch, each with its revision.
pub(crate) type ObjectWatch<O> =
    Pin<Box<dyn Stream<Item = Result<(WatchItem<O>, u64), KubeError>> + Send>>;

/// Creates a client with the credentials in the configuration.
fn connect(mut config: Config) -> Result<Client, KubeError> {
    let account = &mut config.auth_info;
    // As in `kubectl`, a token precedes the file with a token, which precedes a plugin.
    let token_file = account.token_file.take_if(|_| account.token.is_none());
    if token_file.is_some() {
        account.exec = None;
    }
    let plugin = account.exec.clone();
    let client = Client::try_from(config).map_err(|why| match &plugin {
        Some(plugin) if matches!(why, Error::Auth(_)) => KubeError::of_plugin(plugin, &why),
        _ => KubeError::configuration(why),
    })?;
    let Some(path) = token_file else { return Ok(client) };
    let namespace = client.default_namespace().to_owned();
    let service = TokenFile::new(client, path.clone().into());
    let service = service.map_err(|why| KubeError::of_token_file(&path, &why))?;
    Ok(Client::new(service, namespace))
}

impl KubeClient {
    /// Reads the configuration. Connections are made when they are needed.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no configuration, or if it is invalid.
    pub async fn new(options: KubeOptions) -> Result<Self, KubeError> {
        let client = connect(options.config().await?)?;
        let KubeOptions { namespaces, selector, .. } = options;
        Ok(Self { client, namespaces: namespaces.into(), selector: selector.map(Into::into) })
    }

    /// Returns the scopes to read: each kind in each selected namespace.
    pub(crate) fn scopes(&self) -> Vec<Scope> {
        let namespaces: Vec<Option<Arc<str>>> = match &self.namespaces[..] {
            [] => vec![None],
            some => some.iter().map(|it| Some(it.as_str().into())).collect(),
        };
        let of_kind = |kind| {
            namespaces.iter().map(move |namespace| Scope { kind, namespace: namespace.clone() })
        };
        Kind::ALL.into_iter().flat_map(of_kind).collect()
    }

    /// Returns the label selector of a kind.
    fn selector(&self, kind: Kind) -> Option<String> {
        let own = match kind {
            Kind::ConfigMap => Some(format!("{RESOURCES_LABEL}=true")),
            Kind::EndpointSlice => Some(SERVICE_NAME.to_owned()),
            Kind::Service => None,
        };
        let both: Vec<_> =
            own.into_iter().chain(self.selector.as_deref().map(str::to_owned)).collect();
        (!both.is_empty()).then(|| both.join(","))
    }

    /// Reads all objects of a scope, and returns them with the revision of the list.
    pub(crate) async fn list(&self, scope: &Scope) -> Result<(Vec<Observed>, u64), KubeError> {
        match scope.kind {
            Kind::Service => self.list_of(scope, |it: Service| Observed::Service(it.into())).await,
            Kind::EndpointSlice => {
                self.list_of(scope, |it: EndpointSlice| Observed::Slice(it.into())).await
            }
            Kind::ConfigMap => {
                self.list_of(scope, |it: ConfigMap| Observed::ConfigMap(it.into())).await
            }
        }
    }

    async fn list_of<T: DeserializeOwned>(
        &self,
        scope: &Scope,
        observed: impl Fn(T) -> Observed,
    ) -> Result<(Vec<Observed>, u64), KubeError> {
        let place = Place { path: scope.path(), selector: self.selector(scope.kind) };
        let (objects, revision) = self.list_all(&place, &format!("list {scope}")).await?;
        Ok((objects.into_iter().map(observed).collect(), revision))
    }

    /// Reads all objects of a place, and returns them with the revision of the list.
    pub(crate) async fn list_all<T: DeserializeOwned>(
        &self,
        place: &Place,
        said: &str,
    ) -> Result<(Vec<T>, u64), KubeError> {
        let mut attempts = 0;
        'whole: loop {
            attempts += 1;
            let mut objects = Vec::new();
            let mut params = ListParams {
                label_selector: place.selector.clone(),
                limit: Some(PAGE),
                ..ListParams::default()
            };
            loop {
                let request = Request::new(&place.path).list(&params);
                let request = request.map_err(|why| KubeError::failed(said, why))?;
                let page: Page<T> = match self.client.request(request).await {
                    Ok(page) => page,
                    Err(error) => {
                        let why = KubeError::of(said, &error);
                        // The first page has been compacted in between.
                        if why.kind() == KubeErrorKind::Expired && attempts < LIST_ATTEMPTS {
                            continue 'whole;
                        }
                        return Err(why);
                    }
                };
                objects.extend(page.items.into_iter().flatten());
                match page.metadata.next.filter(|next| !next.is_empty()) {
                    Some(next) => params.continue_token = Some(next),
                    None => {
                        let revision = revision_of(said, &page.metadata.resource_version)?;
                        return Ok((objects, revision));
                    }
                }
            }
        }
    }

    /// Watches the changes after a revision, until an error.
    pub(crate) fn watch(&self, scope: Scope, after: u64) -> ObjectWatch<Observed> {
        match scope.kind {
            Kind::Service => {
                self.watch_of(&scope, after, |it: Service| Observed::Service(it.into()))
            }
            Kind::EndpointSlice => {
                self.watch_of(&scope, after, |it: EndpointSlice| Observed::Slice(it.into()))
            }
            Kind::ConfigMap => {
                self.watch_of(&scope, after, |it: ConfigMap| Observed::ConfigMap(it.into()))
            }
        }
    }

    fn watch_of<T: DeserializeOwned + Clone + Send + 'static>(
        &self,
        scope: &Scope,
        after: u64,
        observed: fn(T) -> Observed,
    ) -> ObjectWatch<Observed> {
        let place = Place { path: scope.path(), selector: self.selector(scope.kind) };
        self.watch_all(place, format!("watch {scope}"), after, observed, Observed::metadata)
    }

    /// Watches the changes of all objects of a place after a revision, until an error.
    pub(crate) fn watch_all<T, O>(
        &self,
        place: Place,
        said: String,
        after: u64,
        observed: fn(T) -> O,
        metadata: fn(&O) -> &Metadata,
    ) -> ObjectWatch<O>
    where
        T: DeserializeOwned + Clone + Send + 'static,
        O: 'static,
    {
        struct State<T> {
            client: KubeClient,
            place: Place,
            said: String,
            /// Revision of the last event.
            after: u64,
            events: Option<Events<T>>,
        }
        let state = State { client: self.clone(), place, said, after, events: None };
        Box::pin(stream::try_unfold(state, move |mut state| async move {
            loop {
                let State { client, place, said, after, events } = &mut state;
                let Some(events) = events else {
                    *events = Some(client.events(place, *after, said).await?);
                    return Ok(Some(((WatchItem::Bookmark, *after), state)));
                };
                let event = match events.stream.next().await {
                    Some(Ok(event)) => event,
                    Some(Err(error)) => return Err(error),
                    // The server limits the duration of a watch. Continue with another one.
                    None => {
                        let has_ended_at_once = events.opened.elapsed() < AT_ONCE;
                        if core::mem::take(&mut events.is_empty) && has_ended_at_once {
                            return Ok(None);
                        }
                        state.events = None;
                        continue;
                    }
                };
                events.is_empty = false;
                let version_of = |it: &O| metadata(it).resource_version.clone();
                let (item, version) = match event {
                    WatchEvent::Added(it) | WatchEvent::Modified(it) => {
                        let it = observed(it);
                        let version = version_of(&it);
                        (WatchItem::Set(it), version)
                    }
                    WatchEvent::Deleted(it) => {
                        let it = observed(it);
                        let version = version_of(&it);
                        (WatchItem::Delete(it), version)
                    }
                    WatchEvent::Bookmark(it) => (WatchItem::Bookmark, it.metadata.resource_version),
                    WatchEvent::Error(status) => {
                        return Err(KubeError::of_status(&state.said, &status));
                    }
                };
                state.after = revision_of(&state.said, &version)?;
                return Ok(Some(((item, state.after), state)));
            }
        }))
    }

    async fn events<T: DeserializeOwned + Clone + Send + 'static>(
        &self,
        place: &Place,
        after: u64,
        said: &str,
    ) -> Result<Events<T>, KubeError> {
        let params = WatchParams {
            label_selector: place.selector.clone(),
            timeout: Some(WATCH_SECONDS),
            bookmarks: true,
            ..WatchParams::default()
        };
        let request = Request::new(&place.path).watch(&params, &after.to_string());
        let request = request.map_err(|why| KubeError::failed(said, why))?;
        let events = self.client.request_events::<T>(request).await;
        let events = events.map_err(|error| KubeError::of(said, &error))?;
        let said = said.to_owned();
        Ok(Events {
            stream: Box::pin(
                events.map(move |event| event.map_err(|error| KubeError::of(&said, &error))),
            ),
            opened: Instant::now(),
            is_empty: true,
        })
    }

    /// Reads the metadata of all objects of a place.
    pub(crate) async fn list_metadata(
        &self,
        place: &Place,
        said: &str,
    ) -> Result<Vec<Metadata>, KubeError> {
        #[derive(Deserialize)]
        struct Bare {
            metadata: Metadata,
        }
        let params = ListParams { label_selector: place.selector.clone(), ..ListParams::default() };
        let request = Request::new(&place.path).list_metadata(&params);
        let request = request.map_err(|why| KubeError::failed(said, why))?;
        let page = self.client.request::<Page<Bare>>(request).await;
        let page = page.map_err(|error| KubeError::of(said, &error))?;
        Ok(page.items.into_iter().flatten().map(|it| it.metadata).collect())
    }

    /// Reads an object.
    pub(crate) async fn get<T: DeserializeOwned>(
        &self,
        path: &str,
        name: &str,
        said: &str,
    ) -> Result<T, KubeError> {
        let request = Request::new(path).get(name, &GetParams::default());
        let request = request.map_err(|why| KubeError::failed(said, why))?;
        self.client.request(request).await.map_err(|error| KubeError::of(said, &error))
    }

    /// Creates an object at a path of the API, such as `/api/v1/namespaces/a/events`.
    pub(crate) async fn create(
        &self,
        path: &str,
        said: &str,
        object: &impl Serialize,
    ) -> Result<(), KubeError> {
        let data = serde_json::to_vec(object).map_err(|why| KubeError::failed(said, why))?;
        let request = Request::new(path).create(&PostParams::default(), data);
        self.send(said, request.map_err(|why| KubeError::failed(said, why))?).await
    }

    /// Changes an object with a [JSON merge patch](https://www.rfc-editor.org/rfc/rfc7386).
    pub(crate) async fn patch(
        &self,
        path: &str,
        name: &str,
        said: &str,
        patch: &impl Serialize,
    ) -> Result<(), KubeError> {
        let patch = Patch::Merge(patch);
        let request = Request::new(path).patch(name, &PatchParams::default(), &patch);
        self.send(said, request.map_err(|why| KubeError::failed(said, why))?).await
    }

    /// Deletes an object. If `metadata` has a resource version, the object is only deleted in that
    /// version.
    pub(crate) async fn delete(
        &self,
        path: &str,
        metadata: &Metadata,
        said: &str,
    ) -> Result<(), KubeError> {
        let version = Some(metadata.resource_version.clone()).filter(|it| !it.is_empty());
        let preconditions = Preconditions { resource_version: version, ..Preconditions::default() };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        let request = Request::new(path).delete(&metadata.name, &params);
        self.send(said, request.map_err(|why| KubeError::failed(said, why))?).await
    }

    /// Returns the namespace of the service account or of the kubeconfig's context.
    #[must_use]
    pub fn default_namespace(&self) -> &str {
        self.client.default_namespace()
    }

    async fn send(&self, said: &str, request: http::Request<Vec<u8>>) -> Result<(), KubeError> {
        let sent = self.client.request_text(request).await;
        sent.map(|_| ()).map_err(|error| KubeError::of(said, &error))
    }
}

/// Events of one watch request.
struct Events<T> {
    stream: Pin<Box<dyn Stream<Item = Result<WatchEvent<T>, KubeError>> + Send>>,
    opened: Instant,
    is_empty: bool,
}

/// Attempts to read a list whose pages expire in between.
const LIST_ATTEMPTS: u32 = 3;
/// A watch that ends within this time without an event is not repeated at once.
const AT_ONCE: Duration = Duration::from_secs(1);

/// Parses a resource version. They are decimal numbers, and those of one kind of object can be
/// compared, as Kubernetes states since version 1.35.
fn revision_of(said: &str, version: &str) -> Result<u64, KubeError> {
    version
        .parse()
        .map_err(|_| KubeError::failed(said, format_args!("\"{version}\" is no resource version")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scope_has_the_path_of_its_kind_and_namespace() {
        let scope =
            |kind, namespace: Option<&str>| Scope { kind, namespace: namespace.map(Into::into) };
        let slices = scope(Kind::EndpointSlice, Some("a"));
        assert_eq!(slices.path(), "/apis/discovery.k8s.io/v1/namespaces/a/endpointslices");
        assert_eq!(slices.to_string(), "endpointslices.discovery.k8s.io in namespace a");
        let services = scope(Kind::Service, None);
        assert_eq!(services.path(), "/api/v1/services");
        assert_eq!(services.to_string(), "services in all namespaces");
    }
}
