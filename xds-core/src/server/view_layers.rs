//! Views made of layers.

use super::{Server, store::layers::LayersError};
use crate::{text::ViewName, time::Time};

impl Server {
    /// Sets the layers of a view, topmost first. Each name has the resource, or error, of the
    /// topmost layer that has one. Thus many clients can each have a few resources of their own
    /// over shared ones, which are stored once.
    ///
    /// A layered view has no resources of its own and accepts no transactions; change its layers,
    /// which are ordinary views. Its clients are sent what a change of a layer, or of the list of
    /// layers, changes *for them*. A view without layers is an ordinary view again, and empty.
    ///
    /// A layered view keeps state for each type while a client subscribes to the type there.
    /// Payloads are shared with the layers. A change of a layer takes one step for each such state;
    /// the first subscription of a type takes time proportional to its resources.
    ///
    /// # Errors
    ///
    /// Returns an error, and changes nothing, if the view has resources of its own, a layer has
    /// layers itself or occurs twice, or there are too many views.
    // M222, M224
    pub fn set_layers(
        &mut self,
        view: &ViewName,
        layers: &[ViewName],
        now: Time,
    ) -> Result<(), LayersError> {
        self.clock.advance(now);
        let change_set = self.subscriptions.store.set_layers(view, layers, &self.config)?;
        self.fan_out(change_set);
        self.review_layers();
        self.watch_views();
        Ok(())
    }
}
