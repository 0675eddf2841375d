//! Views that show others, one over the other.

use super::{Server, store::layers::LayersError};
use crate::{text::ViewName, time::Time};

impl Server {
    /// Makes a view of layers, the topmost first: a name stands there for what it stands for in the
    /// topmost layer that has a resource, or an error, of that name (M224). So a thousand clients may
    /// each have a few resources of their own over those of all, which are stored once (M222).
    ///
    /// A layered view has no resources of its own and takes no transactions: change its layers, which are
    /// views like any other. Its clients are told what that changes *for them*, and so they are when the
    /// layers are set anew. Without any layers it is a plain view again, and empty.
    ///
    /// What a layered view shows is kept per type, as long as somebody subscribes to the type there:
    /// payloads are shared, their places in the list of changes are not. A change in a layer costs a
    /// step for each of these; the first subscription of a type costs what there is of it.
    ///
    /// # Errors
    ///
    /// The view has resources of its own, a layer has layers or comes twice, or there are too many
    /// views; then nothing has changed.
    pub fn set_layers(
        &mut self,
        view: &ViewName,
        layers: &[ViewName],
        now: Time,
    ) -> Result<(), LayersError> {
        self.clock.advance(now);
        let touched = self.subscriptions.store.set_layers(view, layers, &self.config)?;
        self.tell(touched);
        self.review_layers();
        self.watch_views();
        Ok(())
    }
}
