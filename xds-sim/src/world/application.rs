//! Interfaces for user-defined applications and control planes.

use std::sync::Arc;

use bytes::Bytes;
use xds_core::{
    Time, TypeUrl, WatchId,
    client::{Change, Notice},
    server::StreamKind,
};

/// A user-defined application that watches resources.
///
/// It receives the notifications of its client's watches. After all faults are repaired it is asked
/// whether its view is correct.
pub trait Application {
    /// Called when a watch of one name receives a notice. A wildcard or glob watch receives
    /// [`Notice::ChangesAvailable`], followed by calls of [`changed`](Self::changed).
    fn notified(&mut self, watch: WatchId, type_url: &TypeUrl, name: Option<&str>, notice: &Notice);

    /// Called for each change of a wildcard or glob watch.
    fn changed(&mut self, watch: WatchId, type_url: &TypeUrl, change: &Change) {
        let _ = (watch, type_url, change);
    }

    /// Called when the client restarts. All of its watches begin again.
    fn restarted(&mut self) {}

    /// Called when a watch has ended. It receives no further notices.
    fn unwatched(&mut self, watch: WatchId) {
        let _ = watch;
    }

    /// Checks the application's view after all faults are repaired. `truth` returns the current
    /// bytes of a resource by type and name.
    ///
    /// An application's view may legitimately differ, for example after an error, or if the
    /// protocol cannot report a deletion. Runs with [`Options::plain`](crate::Options::plain)
    /// exclude these cases, and its documentation lists the reasons. Without it, an application
    /// must compare only what is comparable.
    ///
    /// # Errors
    ///
    /// Returns an error if the view is wrong. The text describes the fault.
    fn agrees_with(&self, truth: &dyn Fn(&TypeUrl, &str) -> Option<Bytes>) -> Result<(), String> {
        let _ = truth;
        Ok(())
    }
}

/// A user-defined management server.
///
/// Streams have unique numbers. The server is used over streams and in one view. Operators set and
/// delete resources; they set no TTLs and no errors of resources, and no rogue clients connect.
///
/// Oracles check its messages by the same rules as this project's server, except for optional or
/// internal behaviour:
///
/// - Each response is well-formed, has a unique nonce and a requested type, and contains something
///   new. A version stands for one content.
/// - Responses contain no resource errors and no TTLs, because operators set none.
/// - Streams end, and their state is released.
/// - In the end, clients have the current resources.
///
/// Further rules are not checked:
///
/// | rule | reason |
/// |---|---|
/// | one outstanding response per type | a server may send more before the ACK |
/// | the order of types, waiting for ACKs, and unchanged endpoints of changed clusters | [`Options::order`](crate::Options) defines this for this project's server |
/// | immediate sending of everything that can be sent | a server may take its time, within the convergence limit |
/// | reported status, acceptance of changes, counters and limits | a control plane reports none |
// Checked: IS1 to IS15, IS27, IS28, IL1, IL2, IL7. Not checked: IS16, IS17, IS18, IS23, IS24, IS25,
// IS29, IS30.
pub trait ControlPlane {
    /// Called when a client opens a stream.
    fn opened(&mut self, stream: u64, via: &StreamKind, now: Time) {
        let _ = (stream, via, now);
    }

    /// Called when a request arrives: an encoded `DiscoveryRequest` or `DeltaDiscoveryRequest`,
    /// depending on the stream's variant.
    fn request(&mut self, stream: u64, message: &Bytes, now: Time);

    /// Called when a stream has ended, by either side.
    fn closed(&mut self, stream: u64, now: Time);

    /// Called when an operator sets a resource, or deletes it (`None`).
    fn changed(&mut self, type_url: &TypeUrl, name: &str, bytes: Option<&Bytes>, now: Time);

    /// Returns the next reply, if there is one. Called after each other method until it returns
    /// `None`.
    fn poll(&mut self) -> Option<Reply>;

    /// Returns the time at which [`handle_timeout`](Self::handle_timeout) is due.
    fn poll_timeout(&self) -> Option<Time> {
        None
    }

    /// Called when the time of [`poll_timeout`](Self::poll_timeout) has come.
    fn handle_timeout(&mut self, now: Time) {
        let _ = now;
    }
}

/// Output of a control plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Sends a response: an encoded `DiscoveryResponse` or `DeltaDiscoveryResponse`.
    Send(u64, Bytes),
    /// Ends a stream with this gRPC status.
    End(u64, i32, Arc<str>),
}
