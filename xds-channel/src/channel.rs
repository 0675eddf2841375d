//! Channels: services for generated clients.

use core::{
    pin::Pin,
    task::{Context, Poll},
};
use std::sync::{Arc, Mutex};

use http::{Request, Response};
use tonic::{Status, body::Body};
use xds_core::ResourceName;
use xds_handle::ClientHandle;
use xds_routing::{Random, dependencies::DependencyManager};

use crate::{
    body::CallBody,
    call::call,
    driver::Driver,
    options::ChannelOptions,
    state::ChannelState,
    target::{InvalidTarget, Target},
};

/// Channel for generated clients. Clones share the channel, which ends with the last clone and the
/// last call.
#[derive(Clone, Debug)]
pub struct XdsChannel {
    shared: Arc<ChannelState>,
}

impl XdsChannel {
    /// Creates a channel for the target `xds:///name` on an xDS client.
    ///
    /// Register the four resource types of the example in the crate documentation with the client,
    /// so that invalid resources are rejected.
    ///
    /// # Errors
    ///
    /// Returns an error if the target has another form, or if it has an authority and the options
    /// contain no listener.
    pub fn new(
        client: &ClientHandle,
        target: &str,
        options: ChannelOptions,
    ) -> Result<Self, InvalidTarget> {
        let parts = Target::read(target)?;
        let Target { name, .. } = parts;
        let invalid = || InvalidTarget::Form { target: target.into() };
        let authority = parts.host().ok_or_else(invalid)?;
        let listener = match (options.listener.clone(), parts.authority) {
            (Some(listener), _) => listener,
            (None, None) => ResourceName::from(name),
            (None, Some(unknown)) => {
                let authority = unknown.into();
                return Err(InvalidTarget::Authority { target: target.into(), authority });
            }
        };
        let manager = DependencyManager::new(listener, name, options.node_id.as_str());
        let node_id = Arc::from(options.node_id.as_str());
        let (runtime, metrics) = (options.runtime.clone(), options.metrics.clone());
        let seed = options.seed.unwrap_or_else(|| runtime.runtime().entropy());
        let (driver, routing) = Driver::new(manager, client.clone(), &authority, options, seed);
        runtime.spawn(driver.run());
        let mut random = Random::new(seed);
        let channel_id = random.next_u64();
        let random = Mutex::new(random);
        let state = ChannelState {
            routing,
            authority,
            node_id,
            random,
            channel_id,
            runtime,
            target: target.into(),
            metrics,
        };
        Ok(Self { shared: Arc::new(state) })
    }
}

impl tower_service::Service<Request<Body>> for XdsChannel {
    type Response = Response<CallBody>;
    type Error = Status;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Status>> + Send>>;

    // Always ready, because a call waits in its future.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(call(Arc::clone(&self.shared), request))
    }
}
