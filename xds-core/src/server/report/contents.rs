//! What a view has, and what it would have after a change, as a whole: for those who look before they
//! serve, and for operators.

use alloc::vec::Vec;

use crate::{
    server::{
        Server,
        store::{
            contents::{Layer, Shown, ViewContents},
            snapshot::Snapshot,
            transaction::{Transaction, TransactionError},
        },
    },
    text::ViewName,
};

/// What it takes to tell what clients would be shown after a transaction: a copy of what views have, which shares
/// all bytes with the server. The server may go on, and be changed, while somebody looks at it.
#[derive(Clone, Debug)]
pub struct Preview(Shown);

impl Preview {
    /// What they would be shown: the whole of the transaction's view, unless that is only a layer of others, and of
    /// each view that it is a layer of, in the order of their names. Costs what there is in these.
    #[must_use]
    pub fn contents(&self) -> Vec<ViewContents> {
        self.0.contents()
    }
}

/// What a view has at one moment, to compare a snapshot with it apart from the server. All bytes are the server's,
/// shared.
#[derive(Clone, Debug)]
pub struct ViewCopy {
    view: ViewName,
    layer: Layer,
    /// The number of the newest transaction in it.
    sequence: u64,
}

impl ViewCopy {
    /// What would have to change in the view for it to have just these resources, and nothing that is like that
    /// already. Costs what there is in both.
    ///
    /// # Errors
    ///
    /// A name occurs twice.
    pub fn difference(&self, snapshot: Snapshot) -> Result<Transaction, TransactionError> {
        snapshot.difference_from(&self.view, &self.layer)
    }
}

impl Server {
    /// The views there are, by name.
    #[must_use]
    pub fn views(&self) -> Vec<ViewName> {
        self.subscriptions.store.view_list()
    }

    /// What a view has: of a layered one, what it shows. Nothing if there is no such view. A name that an
    /// error stands for is not among them. Costs the resources of the view.
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
        self.subscriptions.store.shown(view).contents().pop().unwrap_or_default()
    }

    /// What clients would be shown after a transaction, which is not applied: the whole of its view, unless
    /// that is only a layer of others, and of each view that it is a layer of, in the order of their names.
    /// Costs what there is in these.
    ///
    /// A check of it says before anything is served which references would dangle (M206, B56).
    ///
    /// # Errors
    ///
    /// Those that [`apply`](Self::apply) would return, but that a view more than there may be is not refused yet.
    pub fn preview(
        &self,
        transaction: &Transaction,
    ) -> Result<Vec<ViewContents>, TransactionError> {
        Ok(self.prepare_preview(transaction)?.contents())
    }

    /// The first part of a [`preview`](Self::preview), for who wants to make the rest of it elsewhere. Costs the
    /// changes, and a reference to each resource of the views that they concern and of the layers of these: nothing is
    /// compared or sorted.
    ///
    /// # Errors
    ///
    /// Those of [`preview`](Self::preview).
    pub fn prepare_preview(&self, transaction: &Transaction) -> Result<Preview, TransactionError> {
        Ok(Preview(self.subscriptions.store.preview(transaction, &self.config)?))
    }

    /// A copy of what a view has. Costs a reference to each of its resources.
    #[must_use]
    pub fn copy_of(&self, view: &ViewName) -> ViewCopy {
        let store = &self.subscriptions.store;
        let layer = store.find_view(view).map(|slot| store.layer(slot)).unwrap_or_default();
        ViewCopy { view: view.clone(), layer, sequence: store.sequence() }
    }

    /// Whether nothing has been changed since a copy was made.
    #[must_use]
    pub fn is_as_copied(&self, copy: &ViewCopy) -> bool {
        self.subscriptions.store.sequence() == copy.sequence
    }

    /// What would have to change in a view for it to have just these resources: with
    /// [`preview`](Self::preview) and [`apply`](Self::apply) what
    /// [`set_snapshot`](Self::set_snapshot) does, in steps.
    ///
    /// # Errors
    ///
    /// A name occurs twice.
    pub fn difference(
        &self,
        view: &ViewName,
        snapshot: Snapshot,
    ) -> Result<Transaction, TransactionError> {
        snapshot.difference(view, &self.subscriptions.store)
    }
}
