//! Views of the connected clients, by the rules of a file.

use core::time::Duration;
use std::{
    collections::{BTreeSet, HashMap},
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::{
    sync::Notify,
    task::spawn_blocking,
    time::{Instant, sleep},
};
use xds_core::{
    StreamId, ViewName,
    client::FilePolicy,
    selector::NodeFacts,
    server::{Observation, StatusCode},
};
use xds_fs::{Place, Watch};
use xds_tokio::{
    ServerHandle,
    server::{
        Admitted, AuthorizationDecision, AuthorizationRequest, Denied, Observed, ServerEnded,
    },
};

use crate::{
    diagnostic::Diagnostic,
    views::{self, Views},
};

/// Views of the connected clients.
#[derive(Debug)]
pub(crate) struct ViewSelection(Mutex<SelectionState>);

#[derive(Debug)]
struct SelectionState {
    views: Arc<Views>,
    clients: HashMap<StreamId, SelectedClient>,
}

#[derive(Debug)]
struct SelectedClient {
    node: NodeFacts,
    view: ViewName,
    admitted: Instant,
}

/// Number of clients that another file of views concerns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MovedClients {
    pub(crate) moved: usize,
    pub(crate) refused: usize,
}

/// Time within which the decision about an admitted client reaches the server.
const DECISION: Duration = Duration::from_secs(1);
/// Time after which an admitted client without subscriptions counts as disconnected, if its
/// disconnection may have been missed.
const FORGOTTEN: Duration = Duration::from_secs(60);

impl ViewSelection {
    fn new(views: Arc<Views>) -> Self {
        Self(Mutex::new(SelectionState { views, clients: HashMap::new() }))
    }

    fn lock(&self) -> MutexGuard<'_, SelectionState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the views in use.
    pub(crate) fn views(&self) -> Arc<Views> {
        Arc::clone(&self.lock().views)
    }

    /// Decides about a client that has connected.
    pub(crate) fn admit(&self, request: &AuthorizationRequest) -> AuthorizationDecision {
        let node = request.node().map_err(|why| {
            Denied::new(StatusCode::InvalidArgument, format!("the node does not decode: {why}"))
        })?;
        let node = NodeFacts::from(node);
        let mut selection = self.lock();
        let Some(view) = selection.views.view_of(&node).cloned() else {
            return Err(refused(&node));
        };
        let client = SelectedClient { node, view: view.clone(), admitted: Instant::now() };
        if let Some(stream) = request.stream {
            selection.clients.insert(stream, client);
        }
        Ok(Admitted::to(view))
    }

    /// Forgets clients that have disconnected, until the server ends.
    pub(crate) async fn track(self: Arc<Self>, server: ServerHandle) {
        let mut observations = server.observations();
        while let Some(observed) = observations.next().await {
            match observed {
                Observed::Event(Observation::Disconnected { stream }) => {
                    self.lock().clients.remove(&stream);
                }
                Observed::Lagged(_) => {
                    let Ok(status) = server.status().await else { return };
                    let connected: BTreeSet<_> = status.iter().map(|it| it.stream).collect();
                    self.lock().clients.retain(|stream, client| {
                        connected.contains(stream) || client.admitted.elapsed() < FORGOTTEN
                    });
                }
                _ => {}
            }
        }
    }

    /// Uses other views from now on, and gives all clients the view that they select.
    pub(super) async fn replace(
        self: &Arc<Self>,
        views: Arc<Views>,
        server: &ServerHandle,
    ) -> Result<MovedClients, ServerEnded> {
        let (mut moved, mut left, mut recent) = (Vec::new(), Vec::new(), Vec::new());
        {
            let mut selection = self.lock();
            selection.views = Arc::clone(&views);
            selection.clients.retain(|&stream, client| {
                let Some(view) = views.view_of(&client.node) else {
                    left.push((stream, refused(&client.node)));
                    return false;
                };
                if client.view != *view {
                    client.view = view.clone();
                    moved.push((stream, view.clone()));
                    if client.admitted.elapsed() < DECISION {
                        recent.push(stream);
                    }
                }
                true
            });
        }
        let number = MovedClients { moved: moved.len(), refused: left.len() };
        for (stream, view) in moved {
            server.assign(stream, view).await?;
        }
        for (stream, why) in left {
            server.refuse(stream, why).await?;
        }
        if !recent.is_empty() {
            tokio::spawn(Arc::clone(self).assign_again(recent, server.clone()));
        }
        Ok(number)
    }

    /// Assigns the views of clients whose first decision may have reached the server after a newer
    /// one.
    async fn assign_again(self: Arc<Self>, streams: Vec<StreamId>, server: ServerHandle) {
        sleep(DECISION).await;
        for stream in streams {
            let view = self.lock().clients.get(&stream).map(|client| client.view.clone());
            let Some(view) = view else { continue };
            if server.assign(stream, view).await.is_err() {
                return;
            }
        }
    }
}

fn refused(node: &NodeFacts) -> Denied {
    let why = format!("no rule for views matches the node {:?} (--views)", node.id);
    Denied::new(StatusCode::PermissionDenied, why)
}

/// File of views that is followed.
#[derive(Debug)]
pub(crate) struct FollowedViews {
    file: PathBuf,
    selection: Arc<ViewSelection>,
    /// Newest valid contents, in use or not.
    newest: Arc<Views>,
    /// Errors of newer contents.
    errors: Vec<Diagnostic>,
    /// Notified when the file may have changed.
    changed: Arc<Notify>,
    /// Whether a change was noticed and not read yet.
    is_due: bool,
    _watch: Watch,
}

impl FollowedViews {
    /// Starts watching a file that was read.
    pub(crate) fn start(file: &Path, views: Views) -> io::Result<Self> {
        let changed = Arc::new(Notify::new());
        let (place, for_watch) = (Place::File(file.to_owned()), Arc::clone(&changed));
        let watch = Watch::start(place, &FilePolicy::default(), move |_| for_watch.notify_one())?;
        let newest = Arc::new(views);
        Ok(Self {
            file: file.to_owned(),
            selection: Arc::new(ViewSelection::new(Arc::clone(&newest))),
            newest,
            errors: Vec::new(),
            changed,
            is_due: false,
            _watch: watch,
        })
    }

    pub(crate) fn selection(&self) -> &Arc<ViewSelection> {
        &self.selection
    }

    /// Waits until the file has changed, and returns its contents or its errors. Cancel safe.
    pub(super) async fn next(&mut self) -> Result<Arc<Views>, Vec<Diagnostic>> {
        loop {
            if !self.is_due {
                self.changed.notified().await;
                self.is_due = true;
            }
            let file = self.file.clone();
            let read = spawn_blocking(move || views::read(&file)).await;
            self.is_due = false;
            let Ok(read) = read else { continue };
            match read {
                Ok(views) => {
                    let was_invalid = !core::mem::take(&mut self.errors).is_empty();
                    if was_invalid || views != *self.newest {
                        self.newest = Arc::new(views);
                        return Ok(Arc::clone(&self.newest));
                    }
                }
                Err(errors) if errors == self.errors => {}
                Err(errors) => {
                    self.errors.clone_from(&errors);
                    return Err(errors);
                }
            }
        }
    }
}
