//! What a user of the crate brings into a world.

use std::sync::Arc;

use bytes::Bytes;
use xds_core::{
    Time, TypeUrl, WatchId,
    client::{Change, Notice},
    server::Via,
};

/// The logic of an application that watches resources, to be tried out in a world.
///
/// It hears what its client is told, and once everything that was broken works again it is asked whether it
/// has come to the right view.
pub trait Application {
    /// A watch is told something. A watch of everything is told [`Notice::Behind`], and then what has
    /// [`changed`](Self::changed).
    fn notified(&mut self, watch: WatchId, type_url: &TypeUrl, name: Option<&str>, notice: &Notice);

    /// A watch of everything is told what has changed.
    fn changed(&mut self, watch: WatchId, type_url: &TypeUrl, change: &Change) {
        let _ = (watch, type_url, change);
    }

    /// The client and all of its watches begin anew.
    fn restarted(&mut self) {}

    /// A watch has ended: nothing is said about it any more.
    fn unwatched(&mut self, watch: WatchId) {
        let _ = watch;
    }

    /// Everything works, and the servers have these resources: `truth` answers with the bytes of one by type
    /// and name.
    ///
    /// An application may be right and hold something else: whoever was told an error, or watches what nobody is
    /// told the end of, has what it was told. Runs with [`Options::plain`](crate::Options::plain) have
    /// nothing of that, and its documentation says of each thing why; without it, an application compares what
    /// it knows to be comparable.
    ///
    /// # Errors
    ///
    /// What is wrong with the application's view.
    fn agrees_with(&self, truth: &dyn Fn(&TypeUrl, &str) -> Option<Bytes>) -> Result<(), String> {
        let _ = truth;
        Ok(())
    }
}

/// A management server of the user's own, to be tried out in a world.
///
/// Streams go by numbers that are never used twice. It is asked over streams, in one view, and resources are set and
/// deleted; it is told of no errors of resources, nor how long they may be used, and no lies are told to it by
/// strangers.
///
/// It is judged by what its clients see of it, as our server is, with the exception of what a server need not do or
/// only ours can be asked:
///
/// | judged | by |
/// |---|---|
/// | that each response can be read, has a nonce of its own, is of a type that was asked for and says something new, and that a version stands for one content | IS1 to IS15 |
/// | that it tells no errors of single resources, and not for how long one may be used: it is told of none | IS27, IS28 |
/// | that streams and what is held for them end | IL7 |
/// | that in the end clients have what is true | IL1, IL2, and the rules of clients |
///
/// | not judged | why |
/// |---|---|
/// | one response at a time of each type (IS16) | a server may send more before it has the answer |
/// | the order of types, and waiting for their ACKs (IS17); endpoints of clusters that come again (IS18) | this is what [`Options::order`](crate::Options) makes ours do |
/// | that what can be sent is sent at once (IS25) | it may take its time, within the bound of IL1 |
/// | what it shows of its streams and of who has accepted what (IS29, IS30), its counts and bounds (IS23, IS24) | it shows nothing |
pub trait ControlPlane {
    /// A client opens a stream.
    fn opened(&mut self, stream: u64, via: &Via, now: Time) {
        let _ = (stream, via, now);
    }

    /// A request arrives: an encoded `DiscoveryRequest` or `DeltaDiscoveryRequest`, as the stream's
    /// variant has it.
    fn request(&mut self, stream: u64, message: &Bytes, now: Time);

    /// A stream has ended, whoever ended it.
    fn closed(&mut self, stream: u64, now: Time);

    /// An operator sets a resource, or deletes it.
    fn changed(&mut self, type_url: &TypeUrl, name: &str, bytes: Option<&Bytes>, now: Time);

    /// What to do next, if anything. Asked after each of the other calls until nothing is left.
    fn poll(&mut self) -> Option<Reply>;

    /// When [`handle_timeout`](Self::handle_timeout) is due.
    fn poll_timeout(&self) -> Option<Time> {
        None
    }

    /// The time has come.
    fn handle_timeout(&mut self, now: Time) {
        let _ = now;
    }
}

/// What a control plane does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Sends a response: an encoded `DiscoveryResponse` or `DeltaDiscoveryResponse`.
    Send(u64, Bytes),
    /// Ends a stream with this gRPC status.
    End(u64, i32, Arc<str>),
}
