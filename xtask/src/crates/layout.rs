//! Places of the crates in the diagram.

/// Place of a crate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) name: &'static str,
    pub(crate) caption: &'static str,
    /// Row from the top.
    pub(crate) row: u8,
    /// Centre and width, in columns.
    pub(crate) centre: f64,
    pub(crate) columns: f64,
    pub(crate) role: Role,
}

/// Group of crates with one colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// For users.
    Front,
    /// Sockets, files and runtimes.
    Adapter,
    /// Data and rules without I/O.
    Logic,
    /// The protocol.
    Core,
}

const fn place(
    name: &'static str,
    caption: &'static str,
    (row, centre): (u8, f64),
    role: Role,
) -> Place {
    Place { name, caption, row, centre, columns: 1.0, role }
}

const fn wide(place: Place, columns: f64) -> Place {
    Place { columns, ..place }
}

/// Number of columns.
pub(crate) const COLUMNS: f64 = 6.0;

/// All crates, by row. Arrows point down.
pub(crate) const PLACES: &[Place] = &[
    wide(
        place("xds", "one dependency: typed client, server, channel", (0, 1.75), Role::Front),
        2.7,
    ),
    wide(place("xds-conformance", "tests of adapters", (0, 4.0), Role::Front), 1.2),
    place("xds-cli", "the command xds", (0, 5.5), Role::Front),
    place("xds-channel", "gRPC by xds:///", (1, 0.5), Role::Front),
    place("xds-tokio", "on tokio", (2, 1.6), Role::Adapter),
    place("xds-asyncstd", "on async-std, smol", (2, 3.05), Role::Adapter),
    place("xds-routing", "routes, policies", (3, 0.5), Role::Logic),
    place("xds-grpc", "HTTP/2, TLS, CSDS", (3, 2.5), Role::Adapter),
    place("xds-handle", "handles, watches", (4, 1.5), Role::Logic),
    place("xds-bootstrap", "bootstraps as data", (4, 2.5), Role::Logic),
    place("xds-rest", "REST-JSON", (4, 3.5), Role::Adapter),
    place("xds-fs", "resource files", (4, 4.5), Role::Adapter),
    place("xds-sim", "in virtual time", (2, 4.3), Role::Logic),
    place("xds-etcd", "resources in etcd", (2, 5.5), Role::Adapter),
    place("xds-kube", "resources in Kubernetes", (1, 4.5), Role::Adapter),
    place("xds-source", "list, then watch", (3, 5.5), Role::Logic),
    place("xds-format", "JSON, YAML, text", (5, 4.02), Role::Logic),
    wide(
        place(
            "xds-core",
            "the protocol: client and server as state machines without I/O and clock",
            (6, 3.0),
            Role::Core,
        ),
        COLUMNS,
    ),
];
