//! Options of a stack storm.

use core::{fmt, time::Duration};

use xds_core::{client::FlowControl, service::Variant};

use crate::{stack::Conditions, tape::Choices};

/// Options of one run, drawn from its choices.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct StackOptions {
    /// Number of clients, from 1 to 3.
    pub clients: u32,
    /// Number of servers, from 1 to 3. Each client knows all of them, as its servers in order.
    pub servers: u32,
    /// Variant of the protocol.
    pub variant: Variant,
    /// Whether connections use mutual TLS.
    pub tls: bool,
    /// Whether the certificates of servers and their authority are replaced during the run.
    pub replaces_certificates: bool,
    /// Whether another host keeps more connections to the servers than they allow handshakes, and
    /// sends nothing on them.
    pub silent_connections: bool,
    /// Whether the names of servers have an address before the right one that never answers.
    pub dead_address: bool,
    /// Whether clients wait for their watchers.
    pub flow_control: FlowControl,
    /// Number of resource names.
    pub names: u32,
    /// Number of operations.
    pub operations: u32,
    /// Conditions of the network at the start, in both directions.
    pub conditions: Conditions,
}

/// One client, one server, a perfect network, and no operations.
impl Default for StackOptions {
    fn default() -> Self {
        Self {
            clients: 1,
            servers: 1,
            variant: Variant::StateOfTheWorld,
            tls: false,
            replaces_certificates: false,
            silent_connections: false,
            dead_address: false,
            flow_control: FlowControl::Off,
            names: 1,
            operations: 0,
            conditions: Conditions::default(),
        }
    }
}

impl StackOptions {
    /// Draws the options of a run.
    #[must_use]
    pub fn draw(choices: &mut Choices) -> Self {
        let mut options = Self {
            clients: choices.between("clients", 1, 3),
            servers: choices.between("servers", 1, 3),
            variant: choices.pick("variant", &[Variant::StateOfTheWorld, Variant::Incremental]),
            tls: choices.chance("tls", 250),
            replaces_certificates: false,
            silent_connections: choices.chance("silent connections", 100),
            dead_address: choices.chance("dead address", 250),
            flow_control: choices.pick("flow control", &[FlowControl::Off, FlowControl::On]),
            names: choices.between("names", 1, 6),
            operations: choices.between("operations", 5, 60),
            conditions: Conditions::default(),
        };
        options.conditions = draw_conditions(choices);
        options.replaces_certificates =
            options.tls && choices.chance("certificates are replaced", 500);
        options
    }
}

/// Draws conditions of the network, of which the first are perfect.
pub(super) fn draw_conditions(choices: &mut Choices) -> Conditions {
    let defaults = Conditions::default();
    let millis = |choices: &mut Choices, label, bound| {
        Duration::from_millis(u64::from(choices.below(label, bound)))
    };
    Conditions {
        latency: millis(choices, "latency", 200),
        first_byte_delay: match choices.chance("late first byte", 100) {
            true => millis(choices, "first byte", 3_000),
            false => Duration::ZERO,
        },
        bandwidth: match choices.chance("narrow band", 100) {
            true => Some(u64::from(choices.between("bandwidth", 500, 20_000))),
            false => None,
        },
        window: choices.pick("window", &[defaults.window, 4_096, 100, 1]),
        send_buffer: choices.pick("send buffer", &[defaults.send_buffer, 4_096, 16]),
        chunk: choices.pick("chunk", &[defaults.chunk, 1_000, 64, 9, 1]),
    }
}

impl fmt::Display for StackOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { clients, servers, names, operations, .. } = self;
        let variant = match self.variant {
            Variant::Incremental => "incremental",
            _ => "state of the world",
        };
        let tls = match (self.tls, self.replaces_certificates) {
            (false, _) => "no TLS",
            (true, false) => "mutual TLS",
            (true, true) => "mutual TLS with replaced certificates",
        };
        let silent = if self.silent_connections { "silent connections, " } else { "" };
        let addresses = if self.dead_address { "a dead address first, " } else { "" };
        write!(
            f,
            "{clients} clients, {servers} servers, {variant}, {tls}, {silent}{addresses}flow control {:?}, {names} \
             names, {operations} operations, network: {}",
            self.flow_control, self.conditions,
        )
    }
}
