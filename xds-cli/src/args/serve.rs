//! Arguments of `xds serve`.

use core::{num::NonZeroUsize, time::Duration};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use thiserror::Error;
use xds_core::guards::{Guard, Guards};
use xds_tokio::{
    credentials::CredentialsError,
    server::{AllowSans, InvalidSanPattern},
};

use super::{
    DescriptorArgs, EtcdArgs, ExternalArgs, GuardArgs, KubeArgs, RolloutArgs, SourceAddress,
    flag_of, number::parse_count, parse_duration,
};
use crate::failure::Failure;

/// Serve the resources in a directory, in etcd or in Kubernetes, and follow their changes.
///
/// Files end in .json, .yaml, .yml, .pb_text, .textproto, .txtpb or .pb. Each contains one resource
/// (an object with "@type"), a list of resources, several YAML documents, or an object with
/// "resources". Hidden files and files with other suffixes are ignored.
///
/// While a file is broken, the server keeps serving its last valid contents. Requests are answered
/// once every file has been valid.
#[derive(Args, Debug)]
pub(crate) struct ServeArgs {
    /// Directory with the resource files, etcd://HOST:PORT[,HOST:PORT...]/PREFIX, or kube://.
    ///
    /// In etcd, the key PREFIX/VIEW/TYPE/NAME contains one resource as JSON, YAML, text format or
    /// encoded message. VIEW is `default`; TYPE is clusters, endpoints, listeners, routes, secrets
    /// and so on. A transaction is served as one change.
    ///
    /// In Kubernetes, ConfigMaps with the label xds-resources=true contain resource files. gRPC
    /// clients reach Services with the annotation xds-service=true as xds:///NAME.NAMESPACE:PORT.
    #[arg(value_name = "SOURCE", value_parser = SourceAddress::parser())]
    pub(crate) source: SourceAddress,

    /// Address to listen on: HOST:PORT such as 127.0.0.1:18000, :PORT for all interfaces, or
    /// unix:PATH for a socket file.
    ///
    /// Port 0 selects a free port. The address in use is printed.
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: String,

    /// Permissions of socket files, in octal [default: 600]. Users with write permission can connect;
    /// by default only the owner.
    #[arg(long, value_name = "MODE", value_parser = parse_mode)]
    pub(crate) socket_mode: Option<u32>,

    /// Serve REST-JSON on this address, in addition to gRPC. It uses TLS if --tls-cert is given.
    ///
    /// A client posts a request to a path such as /v3/discovery:clusters, and polls again later.
    #[arg(long, value_name = "ADDR")]
    pub(crate) rest: Option<String>,

    /// Hold a REST request for at most this time while there is no newer response. Envoy
    /// states its request timeout, and is answered before that. For other clients it must be
    /// shorter than their timeout.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "25s", requires = "rest")]
    pub(crate) rest_hold: Duration,

    /// Serve client status (CSDS) over gRPC on this address: which resources each client was sent
    /// and has accepted. It uses TLS if --tls-cert is given.
    ///
    /// WARNING: it exposes the configuration of all clients, except secrets and private keys, to
    /// everyone who can connect. Bind it to an address that only operators can reach, such as
    /// 127.0.0.1:18002.
    #[arg(long, value_name = "ADDR")]
    pub(crate) csds: Option<String>,

    /// Serve metrics on this address: /metrics in Prometheus' text format, and /ready for probes.
    /// It is always plain HTTP, even if --tls-cert is given.
    ///
    /// /ready returns status 503 while new clients are not served: until every file has been valid
    /// once, and when the source has been unreachable for --max-staleness.
    #[arg(long, value_name = "ADDR")]
    pub(crate) metrics: Option<String>,

    /// Ask clients for load reports (LRS) at this interval, at least one second: the calls of each
    /// cluster by locality. --metrics has the sums of all clients, and the output format ndjson
    /// each report. By default, streams of load reports are refused.
    ///
    /// gRPC clients report the load of clusters with `lrs_server: { self: {} }`. Envoy reports that of
    /// all clusters if its bootstrap has a `load_stats_config`.
    #[arg(long, value_name = "INTERVAL", value_parser = parse_duration)]
    pub(crate) load_reports: Option<Duration>,

    /// Export the served resources to this directory, one JSON file per type, such as cds.json.
    /// A proxy can subscribe to these files without a server.
    ///
    /// A file is replaced, by renaming, when its resources change. Secrets are written in clear
    /// text, into files with mode 0600. The directory is created with mode 0700; the mode of an
    /// existing directory is not changed.
    #[arg(long, value_name = "DIR")]
    pub(crate) export: Option<PathBuf>,

    /// Select the view of each client by the rules in this YAML file: by node id, cluster, locality
    /// or metadata. Without it, all clients have the default view.
    ///
    /// In a directory, the files of a subdirectory belong to the view of the same name. In etcd,
    /// VIEW in the key names the view, and in Kubernetes the annotation xds-view does. A change of
    /// the rules is used as a whole; while the file is invalid, the last valid rules stay in use.
    /// An invalid file at the start is an error.
    #[arg(long, value_name = "FILE")]
    pub(crate) views: Option<PathBuf>,

    /// Treat a file as broken if one of its resources violates a constraint of the API
    /// (validate.rules). Proxies reject such a resource.
    ///
    /// If a file is broken at the start, exit with code 1 before listening.
    #[arg(long)]
    pub(crate) validate: bool,

    /// Like --guard references: refuse changes that leave dangling references, such as a route to a
    /// cluster that does not exist. By default they are reported and served.
    ///
    /// If a reference is dangling or a file is broken at the start, exit with code
    /// 1 before listening.
    #[arg(long)]
    pub(crate) strict: bool,

    #[command(flatten)]
    pub(crate) guards: GuardArgs,

    /// Like --guard max-removal=PERCENT: refuse changes that remove more than this percentage of the
    /// served resources at once. There is no limit by default.
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    pub(crate) max_removal: Option<u8>,

    /// Refuse new clients once the source, such as etcd, has been unreachable for this time, and
    /// report NOT_SERVING to health checks. Connected clients keep their resources. There is no
    /// limit by default.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) max_staleness: Option<Duration>,

    /// Write rejections by clients to etcd: the key PREFIX/@rejected/VIEW/TYPE/NAME/REPORTER
    /// contains the number of clients that reject a resource, and a reason. It is removed when they
    /// accept the resource, and after this process has ended. Changes that --guard refuses are
    /// written there too.
    ///
    /// In Kubernetes, rejections are always written unless --kube-read-only is given.
    #[arg(long)]
    pub(crate) report_rejections: bool,

    /// Order in which the types of a change are sent on an aggregated stream.
    #[arg(long, value_name = "POLICY", default_value = "order")]
    pub(crate) ordering: Ordering,

    /// Time in which clients are disconnected after a signal, or at the end of --for. The ends of
    /// their streams are spread over it, so that clients do not reach the next server all at once. A
    /// second signal ends the server at once.
    ///
    /// New streams are refused meanwhile, health checks get NOT_SERVING, and changes of the
    /// resources are not served.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "500ms")]
    pub(crate) drain_time: Duration,

    /// Output format.
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub(crate) output: ServeOutput,

    /// Exit after this time, such as 500ms, 20s or 5m, from the moment when the server listens.
    /// Without it, run until interrupted.
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) lifetime: Option<Duration>,

    #[command(flatten)]
    pub(crate) external: ExternalArgs,

    #[command(flatten)]
    pub(crate) descriptors: DescriptorArgs,

    // The last ones: a heading also applies to all options after it.
    #[command(flatten)]
    pub(crate) etcd: EtcdArgs,

    #[command(flatten)]
    pub(crate) kube: KubeArgs,

    #[command(flatten)]
    pub(crate) rollouts: RolloutArgs,

    #[command(flatten)]
    pub(crate) limits: ServerLimitArgs,

    #[command(flatten)]
    pub(crate) tls: ServerTlsArgs,
}

impl ServeArgs {
    /// Rejects options that have no effect on these addresses or on a directory.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let (etcd, kube) = (&self.etcd, &self.kube);
        let addresses = [Some(&self.listen), self.rest.as_ref(), self.csds.as_ref()];
        let has_socket = addresses.into_iter().flatten().any(|it| it.starts_with("unix:"));
        let is_directory = self.source.directory().is_some();
        let of_source = [
            ("--max-staleness", self.max_staleness.is_some(), "etcd:// or kube://"),
            ("--report-rejections", self.report_rejections, "etcd://"),
            ("--etcd-ca", etcd.etcd_ca.is_some(), "etcd://"),
            ("--etcd-cert", etcd.etcd_cert.is_some(), "etcd://"),
            ("--etcd-user", etcd.etcd_user.is_some(), "etcd://"),
            ("--kubeconfig", kube.cluster.kubeconfig.is_some(), "kube://"),
            ("--kube-context", kube.cluster.kube_context.is_some(), "kube://"),
            ("--kube-namespace", !kube.kube_namespace.is_empty(), "kube://"),
            ("--kube-selector", kube.kube_selector.is_some(), "kube://"),
            ("--kube-read-only", kube.kube_read_only, "kube://"),
        ];
        let socket_mode = ("--socket-mode", !has_socket && self.socket_mode.is_some(), "unix:PATH");
        let of_source = of_source.into_iter().filter(|_| is_directory);
        match of_source.chain([socket_mode]).find(|(_, is_given, _)| *is_given) {
            Some((option, _, source)) => {
                Err(Failure::Usage(format!("{option} has an effect only with {source}")))
            }
            None => Ok(()),
        }
    }

    /// Returns the rules for changes that the flags select.
    pub(crate) fn guards(&self) -> Guards {
        let consistency = self.external.consistency();
        let mut guards = self.guards.guards(&consistency);
        if let Some(percent) = self.max_removal {
            guards.push(Guard::max_removal(percent));
        }
        if self.strict {
            guards.push(Guard::references(consistency));
        }
        guards
    }
}

/// Limits of the server's listeners.
#[derive(Args, Debug)]
#[command(next_help_heading = "Limits")]
pub(crate) struct ServerLimitArgs {
    /// Maximum number of concurrent connections. Further ones are closed at once.
    ///
    /// It is lowered if the process may not open enough files. At the start the soft limit of open
    /// files (ulimit -n) is raised to the hard limit.
    #[arg(long, value_name = "N", default_value = "10000", value_parser = parse_count::<NonZeroUsize>)]
    pub(crate) max_connections: NonZeroUsize,

    /// Maximum number of concurrent connections from one IP address, or from one /64 network of
    /// IPv6. Further ones are closed at once. There is no limit by default.
    #[arg(long, value_name = "N", value_parser = parse_count::<NonZeroUsize>)]
    pub(crate) max_connections_per_address: Option<NonZeroUsize>,

    /// Maximum size of a request in bytes. A larger one ends its stream with RESOURCE_EXHAUSTED, or
    /// a REST request with status 413.
    #[arg(long, value_name = "BYTES", default_value = "4194304", value_parser = parse_count::<NonZeroUsize>)]
    pub(crate) max_request_bytes: NonZeroUsize,

    /// Maximum number of bytes of incomplete requests on all connections. A connection may use a
    /// quarter of it.
    ///
    /// At the limit, the incomplete requests of the connection that holds most end with
    /// RESOURCE_EXHAUSTED, or REST requests with status 503.
    #[arg(long, value_name = "BYTES", default_value = "67108864", value_parser = parse_count::<NonZeroUsize>)]
    pub(crate) max_incomplete_bytes: NonZeroUsize,

    /// Maximum number of bytes of responses that clients do not read, on all connections. A
    /// connection may use a quarter of it.
    ///
    /// At the limit, further responses wait, and connections whose clients do not read are ended,
    /// those that hold most first.
    #[arg(long, value_name = "BYTES", default_value = "67108864", value_parser = parse_count::<NonZeroUsize>)]
    pub(crate) max_unread_bytes: NonZeroUsize,

    /// Maximum number of names subscribed on one connection. The stream that exceeds it ends with
    /// RESOURCE_EXHAUSTED. A name counts once for each 256 bytes of its length.
    #[arg(long, value_name = "N", default_value = "100000", value_parser = parse_count::<NonZeroUsize>)]
    pub(crate) max_names: NonZeroUsize,

    /// Maximum number of names subscribed on all connections. If it is exceeded, the connection with
    /// most names ends with RESOURCE_EXHAUSTED.
    ///
    /// A subscription takes about 120 bytes, and a name without a resource about 250 bytes more.
    #[arg(long, value_name = "N", default_value = "10000000", value_parser = parse_count::<NonZeroUsize>)]
    pub(crate) max_total_names: NonZeroUsize,
}

/// TLS options of the server.
#[derive(Args, Debug)]
#[command(next_help_heading = "TLS (changed files are reloaded)")]
pub(crate) struct ServerTlsArgs {
    /// Use TLS with this server certificate (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,

    /// Private key of the server certificate (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,

    /// Require client certificates that are issued by the root certificates in this file (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) client_ca: Option<PathBuf>,

    /// Reject client certificates that are in a certificate revocation list (CRL) in this file
    /// (PEM). May be given several times.
    ///
    /// If it is given, each authority in a client's chain must have a list. A list is used even if
    /// its next update is overdue.
    #[arg(long, value_name = "FILE", requires = "client_ca")]
    pub(crate) crl: Vec<PathBuf>,

    /// Serve only clients whose certificate has a URI or DNS name (SAN) that matches this pattern.
    /// May be given several times; one match suffices.
    ///
    /// A pattern with a colon, such as spiffe://mesh/ns/*/sa/envoy, applies to URIs, and any other
    /// one, such as envoy-*.example, to DNS names. * stands for one or more characters of one path
    /// segment or label. It applies to --listen, --rest and --csds. Others get PERMISSION_DENIED.
    #[arg(long, value_name = "PATTERN", requires = "client_ca", value_parser = parse_san_pattern)]
    pub(crate) allow_san: Vec<String>,

    /// Serve only clients whose node id is the identity in their certificate: its first URI, or its
    /// first DNS name if it has no URI. Others get PERMISSION_DENIED.
    #[arg(long, requires = "client_ca")]
    pub(crate) node_from_san: bool,
}

fn parse_san_pattern(text: &str) -> Result<String, InvalidSanPattern> {
    AllowSans::new([text]).map(|_| text.to_owned())
}

impl ServerTlsArgs {
    /// Returns the flag that names the file with the fault, followed by `: `, for use as a prefix.
    pub(crate) fn flag_of(&self, why: &CredentialsError) -> String {
        if self.crl.iter().any(|file| Some(file.as_path()) == why.path())
            && matches!(
                why,
                CredentialsError::BadRevocationList { .. }
                    | CredentialsError::Unreadable { .. }
                    | CredentialsError::TooLong { .. }
            )
        {
            return "--crl: ".into();
        }
        flag_of(
            why,
            [
                ("--tls-cert", &self.tls_cert),
                ("--tls-key", &self.tls_key),
                ("--client-ca", &self.client_ca),
            ],
        )
    }
}

/// Order in which the types of one aggregated stream are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Ordering {
    /// Each type as soon as it is due.
    Off,
    /// Clusters, endpoints, listeners and routes in this order, without waiting for ACKs, and
    /// removals last.
    Order,
    /// Make before break: listeners and routes wait until the client has ACKed the clusters,
    /// endpoints and secrets they refer to, if it subscribes to these types. Deleted resources are
    /// kept until no ACKed resource refers to them. A resource that was requested and never sent
    /// waits for 5 s at most.
    #[value(alias = "ack-gated")]
    MakeBeforeBreak,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ServeOutput {
    /// Table of nodes and types, printed when something changed.
    Table,
    /// One JSON object per event.
    Ndjson,
}

#[derive(Debug, Error, PartialEq, Eq)]
#[error("expected permissions in octal, as in 600 or 660")]
pub(crate) struct InvalidMode;

fn parse_mode(text: &str) -> Result<u32, InvalidMode> {
    u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777).ok_or(InvalidMode)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Cli, Command};

    #[test]
    fn unit_of_systemd_waits_longer_than_the_server_drains() {
        let unit = include_str!("../../../deploy/systemd/xds-serve.service");
        let value = |name: &str| unit.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        let command = value("ExecStart=/usr/local/bin/").split(' ');
        let Command::Serve(args) = Cli::try_parse_from(command).unwrap().command else {
            panic!("another command")
        };
        assert!(args.drain_time < parse_duration(value("TimeoutStopSec=")).unwrap());
    }

    #[test]
    fn socket_mode_argument_is_octal() {
        assert_eq!(parse_mode("660"), Ok(0o660));
        for text in ["", "8", "rw", "1777", "-1"] {
            assert_eq!(parse_mode(text), Err(InvalidMode), "{text}");
        }
    }
}
