//! Options of the command line for advice about TLS, which the libraries state without them.

/// Options that select TLS or no TLS for a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TlsOptions {
    /// Options of connections to servers.
    Server,
    /// Options of connections to management servers, which a gRPC bootstrap may configure instead.
    Client,
    /// Options of connections to etcd.
    Etcd,
}

impl TlsOptions {
    /// Adds the options to an error of a connection without TLS to a port that speaks TLS, or the
    /// reverse.
    pub(crate) fn named_in(self, error: &str) -> String {
        let (with, without) = match self {
            Self::Server | Self::Client => (
                "connect with TLS: --tls or --ca FILE",
                "connect without TLS: leave out https:// and the TLS options, such as --tls and --ca",
            ),
            Self::Etcd => (
                "connect with TLS: --etcd-ca FILE",
                "connect without TLS: leave out --etcd-ca and --etcd-cert",
            ),
        };
        let of_bootstrap = match self {
            Self::Client => " (in a gRPC bootstrap: channel_creds)",
            _ => "",
        };
        let advice = |options: &str| format!("{options}{of_bootstrap}");
        let error = error.replacen("connect with TLS credentials", &advice(with), 1);
        error.replacen("connect without TLS (plaintext)", &advice(without), 1)
    }
}
