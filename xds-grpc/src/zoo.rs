//! Deliberate bugs of drivers, used to verify that the simulation of the drivers finds them.
//!
//! They exist only with the feature `zoo`, which only tests of the simulation enable; otherwise
//! `is` is the constant `false`.

xds_core::bugs! {
    /// Server: an idle response body registers no waker.
    ResponseWakerLost,
    /// Client: a connection counts as open before the server's SETTINGS have arrived.
    OpenBeforeSettings,
    /// Client: neither HTTP/2 pings nor TCP keepalive detect a lost connection.
    KeepaliveOff,
    /// Client: an attempt to connect has no time limit.
    NoConnectTimeout,
    /// Server: a closed stream is not reported to the core.
    CloseNotReported,
    /// Server: reading stops after the second request of a stream.
    ReadGateStuck,
    /// Server: the driver is not told when a stream can take the next response.
    SlotFreeNotReported,
    /// Client: commands are looked for only in every second iteration of the driver.
    CommandWakerLost,
    /// Server: a listener outlives the shutdown of its server.
    ListenerOutlivesServer,
    /// Client: connections are never closed.
    ConnectionLeaked,
    /// Client: only the first address of a name is tried.
    FirstAddressOnly,
    /// Client: the end of a stream is not reported.
    StreamEndNotReported,
    /// Client: a client goes on after its last handle was dropped.
    HandleDropIgnored,
    /// Server: at the limit of handshakes, accepting waits for the end of the oldest one, and does
    /// not drop it.
    PermitBeforeAccept,
    /// Server: a response is copied into one buffer per stream, with the part that all clients share.
    ResponseBufferedWhole,
    /// Client: a GOAWAY that arrives before the call is sent does not end the attempt.
    GoAwayIgnored,
    /// Server: the end of a client's requests is not reported to the core.
    HalfCloseIgnored,
    /// Server: the deadline of an incomplete request is one tick late.
    DeadlineMissed,
    /// Client and server: after a read of credentials that are being replaced, their files are not read again.
    TlsReloadRace,
    /// Server: requests are read while the application does not read the events that they cause.
    UnboundedQueue,
}
