//! Contents of views, now and after a transaction, for validation and for operators.

use alloc::vec::Vec;

use crate::{
    server::{
        Server,
        store::{
            contents::{CapturedViews, LayerContents, ViewContents},
            transaction::{Transaction, TransactionError},
        },
    },
    text::ViewName,
};

/// Data for computing the contents of views after a transaction. It shares all bytes with the
/// server, which can be used and changed meanwhile.
#[derive(Clone, Debug)]
pub struct Preview(CapturedViews);

impl Preview {
    /// Returns the contents that clients would receive after the transaction: those of its view,
    /// unless that is only a layer of others, and of each view that has it as a layer, ordered by
    /// name. Takes time proportional to these contents.
    #[must_use]
    pub fn contents(&self) -> Vec<ViewContents> {
        self.0.contents()
    }
}

/// Copy of the contents of a view at one time, to compare a [snapshot](Transaction::snapshot) with
/// it independently of the server. All bytes are shared with the server.
#[derive(Clone, Debug)]
pub struct ViewCopy {
    view: ViewName,
    layer: LayerContents,
    /// Sequence number of the newest transaction included.
    sequence: u64,
}

impl ViewCopy {
    /// Returns the transaction that changes the copied view to the resources of the snapshot,
    /// without changes that have no effect. Takes time proportional to both. A transaction that is
    /// not a snapshot is returned unchanged.
    ///
    /// # Errors
    ///
    /// Returns an error if a name occurs twice in the snapshot.
    pub fn difference(&self, snapshot: Transaction) -> Result<Transaction, TransactionError> {
        snapshot.difference_from(&self.view, &self.layer)
    }
}

impl Server {
    /// Returns the names of all views.
    #[must_use]
    pub fn views(&self) -> Vec<ViewName> {
        self.subscriptions.store.view_list()
    }

    /// Returns the contents of a view; those that a layered view shows, and empty contents for an
    /// unknown view. Names with an [error](Transaction::set_error) are omitted, although
    /// wildcard clients receive a resource that exists nevertheless. Takes time proportional to the
    /// number of resources.
    ///
    /// ```
    /// use xds_core::references::Consistency;
    /// use xds_core::server::{Server, ServerConfig, Transaction};
    /// use xds_core::{Time, ViewName, types};
    ///
    /// let mut server = Server::new(ServerConfig::default(), 1, Time::ZERO);
    /// let mut change = Transaction::new();
    /// // Cluster { name: "backend", type: EDS }
    /// change.set(types::CLUSTER, "backend", &b"\x0a\x07backend\x10\x03"[..]);
    ///
    /// // Before it is applied:
    /// let preview = server.preview(&change)?;
    /// let findings = preview[0].check(&Consistency::default());
    /// assert_eq!(findings[0].to_string(), "cds `backend` refers to eds `backend`, which is missing");
    /// assert!(server.contents(&ViewName::default()).is_empty());
    ///
    /// // And as it is served:
    /// server.apply(change, Time::ZERO)?;
    /// assert_eq!(server.contents(&ViewName::default()), preview[0]);
    /// # Ok::<(), xds_core::server::TransactionError>(())
    /// ```
    #[must_use]
    pub fn contents(&self, view: &ViewName) -> ViewContents {
        self.subscriptions.store.capture(view).contents().pop().unwrap_or_default()
    }

    /// Returns the contents that clients would receive after a transaction, without applying it:
    /// those of its view, unless that is only a layer of others, and of each view that has it as a
    /// layer, ordered by name. Takes time proportional to these contents.
    ///
    /// Check them to find dangling references before anything is served.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`apply`](Self::apply), except that for exceeding the limit of views.
    // M206, B56
    pub fn preview(
        &self,
        transaction: &Transaction,
    ) -> Result<Vec<ViewContents>, TransactionError> {
        Ok(self.prepare_preview(transaction)?.contents())
    }

    /// Prepares a [`preview`](Self::preview), which can then be computed on another thread. Takes
    /// time proportional to the changes, and to the number of resources of the views concerned and
    /// their layers, which are referenced without comparing or sorting.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`preview`](Self::preview).
    pub fn prepare_preview(&self, transaction: &Transaction) -> Result<Preview, TransactionError> {
        Ok(Preview(self.subscriptions.store.preview(transaction, &self.config)?))
    }

    /// Returns a copy of the contents of a view. Takes time proportional to the number of its
    /// resources.
    #[must_use]
    pub fn copy_view(&self, view: &ViewName) -> ViewCopy {
        let store = &self.subscriptions.store;
        let layer = store.find_view(view).map(|slot| store.layer(slot)).unwrap_or_default();
        ViewCopy { view: view.clone(), layer, sequence: store.sequence() }
    }

    /// Whether no transaction was applied since the copy was made.
    #[must_use]
    pub fn is_unchanged_since(&self, copy: &ViewCopy) -> bool {
        self.subscriptions.store.sequence() == copy.sequence
    }
}
