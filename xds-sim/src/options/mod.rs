//! Options of a run: its participants, and what can happen in it.
//!
//! Each run draws its participants and a subset of the possible operations and failures ("swarm
//! testing"). Runs that never delete anything find other bugs than runs that delete constantly.
//!
//! # Failures
//!
//! A [`Fault`] or an [`Action`] conforms to the protocol, and all rules hold in spite of it. A
//! [`Lie`] is a protocol violation. If a lie is sent to a client, [different rules](crate::oracle)
//! apply. If a rogue client sends it to a server, all rules still apply to the other participants.
//!
//! | failure | option |
//! |---|---|
//! | connections are refused, hang, or are slow | [`Fault::Refuse`], [`Fault::Hang`], [`Fault::Slow`], [`Options::latency`] |
//! | expired credentials | [`Fault::Expire`] |
//! | streams reset with any gRPC status code; messages in flight are lost | [`Fault::Reset`] |
//! | a connection reset, which ends all streams of a client to a server | [`Fault::ResetConnection`] |
//! | streams ended with OK, before or after the first response | [`Fault::End`], [`Fault::HangUp`] |
//! | a server that drains its streams while messages are in flight | [`Fault::GoAway`] |
//! | silence in one direction or both | [`Fault::HalfOpen`] |
//! | a partition: one client reaches none of its servers, other clients do | [`Fault::CutOff`] |
//! | an asymmetric partition: one client cannot reach one server, but reaches the others | [`Fault::Partition`] |
//! | latency and jitter of one stream or all streams, and so reordering across streams | [`Options::latency`], [`Options::jitter`], [`Options::streams`], [`Fault::SlowLink`] |
//! | limited bandwidth, and messages that arrive together | [`Fault::LimitBandwidth`] |
//! | blocked transports, also one stream after the other | [`Fault::BlockRequests`], [`Fault::BlockResponses`], [`Fault::BlockAll`] |
//! | a replica with an older, newer or empty state | [`Fault::OtherReplica`], [`Fault::Lag`] |
//! | restarts of servers and clients; version counters that start again | [`Fault::RestartServer`], [`Fault::RestartClient`], [`Options::versions`] |
//! | a slow server, and responses close to a client's does-not-exist timer | [`Fault::Lag`], [`Fault::BlockResponses`], [`Fault::Suspend`]; pauses are drawn around these times |
//! | push storms, states deleted and created again, resources restored to an earlier content | [`Action::Storm`], [`Action::Empty`], [`Action::SetBack`] |
//! | a client moved to another view while its streams are open | [`Action::Move`], [`Options::views`] |
//! | slow watchers, watches started inside notifications, many names, globs, duplicate watches | [`Action::SlowWatcher`], [`Action::WatchInNotice`], [`Action::WatchMany`], [`Action::WatchGlob`] |
//! | clients of both variants at one server, and servers of both variants behind one client | [`Options::mixture`] |
//! | split responses, and resources that exceed the size limit | [`Options::responses`] |
//! | requests and ends of streams that a server handles in parts, with everything else between the parts | [`Options::names_per_call`] |
//! | resources watched by an alias | [`Action::WatchAlias`] |
//! | optional features of clients and servers | [`Options::features`] |
//! | resources that are valid only from a trusted server | [`Action::SetPrivileged`], [`Feature::TrustedServer`] |
//! | external verdicts, which arrive late and reject | [`Options::verdicts`], [`Action::SetBad`] |
//! | TTLs, and errors of single resources | [`Action::SetWithTtl`], [`Action::SetError`] |
//! | clock jumps, late timers, coarse clocks, equal deadlines, early or late polls | [`Fault::ClockJump`], [`Fault::LateTimers`], [`Options::clock_grain`], [`Options::ties`], [`Fault::WakeForNothing`], [`Fault::Suspend`] |
//! | files that are missing, truncated or unreadable; file events that are lost, duplicated or early | [`Fault::BadFile`], [`Fault::LostEvent`], [`Fault::DoubleEvent`], [`Fault::StaleFile`] |
//! | answers to polls that are errors, redirects, truncated, of another type, or stale | [`Fault::BadAnswer`], [`Fault::StaleAnswer`] |
//! | responses that are truncated, garbled, of an unknown or wrong type, or of the other variant | [`Lie::Truncate`], [`Lie::Flip`], [`Lie::UnknownType`], [`Lie::WrongAny`], [`Lie::OtherEnvelope`], [`Lie::OtherAny`], [`Lie::OtherVariant`] |
//! | names that are duplicated, not requested, empty, of 1 MiB, or malformed | [`Lie::Twice`], [`Lie::Invent`], [`Lie::LongName`], [`Lie::MalformedName`] |
//! | missing or reused nonces, and one version for several contents | [`Lie::NoNonce`], [`Lie::Repeat`] |
//! | removals of existing resources, of up to a hundred thousand names, or of resources in the same response; empty full states | [`Lie::Remove`], [`Lie::RemoveMany`], [`Lie::Contradict`], [`Lie::Empty`] |
//! | rogue clients that send garbage, reject everything with messages of 1 MiB, subscribe and unsubscribe endlessly, acknowledge unsent responses, change their node, request thousands of names or malformed names, mix both variants on one stream, or request types that are unknown or not served on the stream | [`Lie::HostileClient`], [`Lie::Rejecter`], [`Lie::Churner`], [`Lie::FutureAck`], [`Lie::Impostor`], [`Lie::ExcessiveNames`], [`Lie::Bilingual`], [`Lie::UnknownTypes`], [`Lie::WrongType`] |
//!
//! Failures that the cores do not see are tested outside the simulation:
//!
//! | failure | reason | tests |
//! |---|---|---|
//! | several or changing addresses of a server | a client knows its servers by URI; dialling is the adapter's task | `xds-grpc/src/client/dial.rs`, `xds-tokio/tests` |
//! | shared connections; the maximum age of streams | a core sees streams only; streams that end by age never let a run fall silent. The simulation ends them as a draining server does | `xds-core/tests/server/lifecycle.rs` |
//! | messages over the transport's size limit | they do not reach a core | `xds-tokio/tests/hostile` |
//! | renamed files, swapped symbolic links | a core is told when to read; the reader decides which events count | `xds-fs/tests` |
//! | HTTP statuses and bodies that are not valid answers | a core distinguishes only a few outcomes | `xds-rest/tests` |
//! | different wall clocks | no core reads one: times on the wire are durations, and the driver timestamps the client status | `xds-tokio/tests/it/csds.rs` |
//! | peers that never answer | liveness rules require an answer; in a world, peers are silent for up to 40 s | [`Fault::Lag`], [`Fault::BlockResponses`] |
//! | lies over polls and in files | they are sent on streams, and the same code decodes all of them | `xds-core/tests`, `fuzz/` |
//! | a hundred thousand watched names | runs must be short; they watch thousands of names and remove a hundred thousand | `benches` |

mod keys;
mod kinds;
mod modes;
mod text;

use std::time::Duration;

use xds_core::client::{DataErrorPolicy, FlowControl};

pub use keys::listing;
pub use kinds::{Action, Actions, Fault, Faults, Feature, Features, Lie, Lies};
pub use modes::{Mixture, Order, ProfileName, Responses, Ties, Transport, Verdicts, Versions};
pub use text::InvalidOption;
pub use xds_core::{client::Streams, service::Variant};

use crate::tape::Choices;

/// Options of a run. They are printed as one line.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// Number of clients, from 1 to 100. Default: 1.
    pub clients: u32,
    /// Number of servers, from 1 to 3. Default: 1. The second is the fallback of the first; the
    /// third serves a separate authority.
    pub servers: u32,
    /// Variant of the protocol. Default: state of the world.
    pub variant: Variant,
    /// Distribution of the other variant over clients or servers. Default: all use `variant`.
    pub mixture: Mixture,
    /// Whether all types share a stream. Default: yes (ADS).
    pub streams: Streams,
    /// Number of resource types, from 1 to 4: clusters, endpoints, listeners and routes. Default:
    /// 4.
    pub types: u32,
    /// Number of resource names of each type, from 1 to 10,000. Default: 2.
    pub names: u32,
    /// Behaviour profile of the clients. Default: gRPC.
    pub profile: ProfileName,
    /// Effect of data errors on cached resources, in the gRPC profile. Default: they are kept.
    pub data_errors: DataErrorPolicy,
    /// Whether clients stop reading a stream until watchers finish their notices. Default: yes.
    pub flow_control: FlowControl,
    /// Latency of each message. Default: 5 ms.
    pub latency: Duration,
    /// Maximum additional latency, drawn for each message. Default: zero.
    pub jitter: Duration,
    /// Order of events that are due at the same instant. Default: deliveries first.
    pub ties: Ties,
    /// Granularity of the driver's clock: timers fire only at multiples of it. Default: zero, which
    /// is exact.
    pub clock_grain: Duration,
    /// Maximum number of operations in a storm, up to 100,000. Default: 0.
    pub operations: u32,
    /// Order in which servers send the types of an aggregated stream. Default: by rank.
    pub order: Order,
    /// Transport between clients and servers. Default: streams.
    ///
    /// The other transports support only the state-of-the-world variant with one channel per type;
    /// see [`fitting`](Self::fitting).
    pub transport: Transport,
    /// Whether validation alone or an external verdict accepts resources. Default: validation.
    pub verdicts: Verdicts,
    /// Number of views of each server, 1 or 2. Default: 1.
    ///
    /// Each client sees one view. The second view lacks every third resource, and its other
    /// resources have a different text.
    pub views: u32,
    /// Method by which servers make versions. Default: from the content.
    pub versions: Versions,
    /// Size limit of responses. Default: none.
    pub responses: Responses,
    /// Maximum number of names that a server handles in one turn, so that requests are handled in
    /// parts. Default: 0, which stands for the server's default. Worlds with thousands of names use
    /// 200 times as many.
    pub names_per_call: u32,
    /// Non-default capabilities of clients and servers. Default: none.
    pub features: Features,
    /// Actions that may occur. Default: none.
    pub actions: Actions,
    /// Faults that may occur. Default: none.
    pub faults: Faults,
    /// Lies that may occur. Default: none. Other rules apply to runs with lies: see
    /// [`oracle`](crate::oracle).
    pub lies: Lies,
}

/// One client, one server, and no failures.
impl Default for Options {
    fn default() -> Self {
        Self {
            clients: 1,
            servers: 1,
            variant: Variant::StateOfTheWorld,
            mixture: Mixture::Alike,
            streams: Streams::Aggregated,
            types: 4,
            names: 2,
            profile: ProfileName::Grpc,
            data_errors: DataErrorPolicy::KeepCached,
            flow_control: FlowControl::On,
            latency: Duration::from_millis(5),
            jitter: Duration::ZERO,
            ties: Ties::DeliveriesFirst,
            clock_grain: Duration::ZERO,
            operations: 0,
            order: Order::ByRank,
            transport: Transport::Streams,
            verdicts: Verdicts::AtOnce,
            views: 1,
            versions: Versions::Content,
            responses: Responses::Long,
            names_per_call: 0,
            features: Features::NONE,
            actions: Actions::NONE,
            faults: Faults::NONE,
            lies: Lies::NONE,
        }
    }
}

/// Weighted choice of transports. Most runs use streams, because most failures concern them.
const TRANSPORTS: [Transport; 8] = {
    let mut transports = [Transport::Streams; 8];
    transports[6] = Transport::Polls;
    transports[7] = Transport::Files;
    transports
};

impl Options {
    /// Draws the options of a run.
    #[must_use]
    pub fn draw(choices: &mut Choices) -> Self {
        let lies = choices.chance("lies", 125);
        let is_envoy = choices.chance("proxy", 200);
        let drawn = Self {
            clients: choices.pick("clients", &[1, 1, 1, 2, 2, 3]),
            servers: choices.pick("servers", &[1, 1, 1, 2, 2, 3]),
            variant: choices.pick("variant", &[Variant::StateOfTheWorld, Variant::Incremental]),
            mixture: Mixture::Alike,
            streams: choices
                .pick("streams", &[Streams::Aggregated, Streams::Aggregated, Streams::PerType]),
            types: choices.between("types", 1, 4),
            names: choices.pick("names", &[1, 2, 3, 4, 6, 8]),
            profile: if is_envoy { ProfileName::Envoy } else { ProfileName::Grpc },
            data_errors: choices
                .pick("data errors", &[DataErrorPolicy::KeepCached, DataErrorPolicy::DropCached]),
            flow_control: choices.pick("flow control", &[FlowControl::On, FlowControl::Off]),
            latency: Duration::from_millis(choices.pick("latency", &[5, 0, 1, 50, 300])),
            jitter: Duration::from_millis(choices.pick("jitter", &[0, 0, 1, 20, 2_000])),
            ties: choices.pick("ties", &[Ties::DeliveriesFirst, Ties::TimersFirst]),
            clock_grain: Duration::from_millis(choices.pick("clock grain", &[0, 0, 0, 10])),
            operations: choices.pick("operations", &[20, 5, 40, 80, 120]),
            order: choices.pick(
                "order of types",
                &[
                    Order::ByRank,
                    Order::ByRank,
                    Order::AsDue,
                    Order::AfterAcks,
                    Order::OnlyAfterAcks,
                ],
            ),
            actions: Actions::draw(choices),
            faults: Faults::draw(choices),
            lies: match (lies, choices.chance("strangers", 125)) {
                (true, _) => Lies::draw(choices),
                (false, true) => {
                    Lies::draw(choices).iter().filter(|lie| lie.is_by_rogue_client()).collect()
                }
                (false, false) => Lies::NONE,
            },
            transport: choices.pick("transport", &TRANSPORTS),
            verdicts: choices.pick(
                "verdicts",
                &[
                    Verdicts::AtOnce,
                    Verdicts::AtOnce,
                    Verdicts::AtOnce,
                    Verdicts::AtOnce,
                    Verdicts::AtOnce,
                    Verdicts::AtOnce,
                    Verdicts::Soon,
                    Verdicts::Late,
                ],
            ),
            views: choices.pick("views", &[1, 1, 1, 2]),
            versions: choices.pick(
                "versions",
                &[
                    Versions::Content,
                    Versions::Content,
                    Versions::Content,
                    Versions::Content,
                    Versions::Counted,
                    Versions::CountedAnew,
                ],
            ),
            features: match choices.chance("features", 250) {
                true => Features::draw(choices),
                false => Features::NONE,
            },
            responses: Responses::Long,
            names_per_call: 0,
        };
        let mut drawn = drawn;
        if !choices.chance("aliases", 250) {
            // With aliases, some rules about what a server sends cannot be checked.
            drawn.actions = drawn.actions.without(Action::WatchAlias);
        }
        drawn.mixture = choices.pick(
            "mixture",
            &[
                Mixture::Alike,
                Mixture::Alike,
                Mixture::Alike,
                Mixture::ByClient,
                Mixture::ByClient,
                Mixture::ByServer,
            ],
        );
        // One question for both, so that seeds stand for the same runs as before the second.
        match choices.below("short responses", 1_000) {
            875.. => drawn.responses = Responses::Short,
            part @ 700..875 => drawn.names_per_call = 1 + part % 5,
            _ => {}
        }
        drawn.fitting()
    }

    /// Returns the options without combinations that are not supported:
    ///
    /// - Polls and files use the state of the world with one channel per type, one view and content
    ///   versions, because each request is independent of earlier ones. They exclude lies, TTLs,
    ///   errors of single resources, globs, aliases and size limits.
    /// - Late verdicts exclude TTLs.
    /// - [`Action::Move`] needs two views.
    /// - Globs need the incremental variant, the server with the separate authority, and no size
    ///   limit.
    /// - Aliases need the incremental variant and no lies to clients.
    /// - A mixture needs two clients or two servers, and no size limit.
    #[must_use]
    pub fn fitting(mut self) -> Self {
        if self.views < 2 {
            self.actions = self.actions.without(Action::Move);
        }
        match self.mixture {
            Mixture::ByClient if self.clients < 2 => self.mixture = Mixture::Alike,
            Mixture::ByServer if self.servers < 2 => self.mixture = Mixture::Alike,
            // A resource may be too long for one variant and not for the other.
            _ if self.responses == Responses::Short => self.mixture = Mixture::Alike,
            Mixture::Alike | Mixture::ByClient | Mixture::ByServer => {}
        }
        let is_incremental = self.uses_only(Variant::Incremental);
        // If the members of a glob arrive in parts, the oracles cannot tell which were sent before.
        if !is_incremental || self.servers < 3 || self.responses == Responses::Short {
            self.actions = self.actions.without(Action::WatchGlob);
        }
        if !is_incremental || !self.lies.spare_clients() {
            self.actions = self.actions.without(Action::WatchAlias);
        }
        if self.verdicts == Verdicts::Late {
            // Types that share a stream wait for each other's verdicts, longer than any TTL.
            self.actions = self.actions.without(Action::SetWithTtl);
        }
        if self.transport == Transport::Streams {
            return self;
        }
        (self.variant, self.streams) = (Variant::StateOfTheWorld, Streams::PerType);
        self.mixture = Mixture::Alike;
        (self.views, self.versions) = (1, Versions::Content);
        // An independent request has one response.
        self.responses = Responses::Long;
        self.lies = Lies::NONE;
        let are_of_streams = [
            Action::SetWithTtl,
            Action::SetError,
            Action::Move,
            Action::WatchGlob,
            Action::WatchAlias,
        ];
        self.actions = are_of_streams.into_iter().fold(self.actions, Actions::without);
        self
    }

    /// Removes everything that lets an application's view legitimately differ from the servers'
    /// state.
    ///
    /// The rest is clusters that are created, changed and deleted, and watched by name, under every
    /// fault of the network and of servers. Use this with
    /// [`Config::with_options`](crate::Config::with_options) for applications that
    /// [compare](crate::Application::agrees_with) their view with the servers' state.
    ///
    /// | removed | reason |
    /// |---|---|
    /// | all types except clusters | the state-of-the-world variant cannot report deleted endpoints or routes |
    /// | [`DataErrorPolicy::KeepCached`] | a client keeps a deleted resource and reports the deletion as an ambient error |
    /// | [`ProfileName::Envoy`] | the client rejects a whole response because of one invalid resource, and may then keep resources that were deleted |
    /// | [`Lie`]s | a client may apply what a lie contains |
    /// | [`Action::SetError`], [`Responses::Short`] | a client receives an error instead of the resource |
    /// | [`Action::SetWithTtl`] | a resource whose TTL was not renewed in time is missing at the client only |
    /// | [`Action::WatchAll`], [`Action::WatchGlob`], [`Action::WatchInNotice`] | changes of a wildcard or glob watch are reported one by one in [`Application::changed`](crate::Application::changed) |
    /// | [`Action::WatchAlias`] | the servers' state has no entry for an alias |
    /// | [`Action::Move`], [`Action::SetBad`], [`Action::SetPrivileged`] | a client that is moved, or rejects, has the old state for a while |
    pub fn plain(&mut self) {
        (self.types, self.lies, self.profile) = (1, Lies::NONE, ProfileName::Grpc);
        (self.data_errors, self.responses) = (DataErrorPolicy::DropCached, Responses::Long);
        let plain = [
            Action::Unwatch,
            Action::WatchAgain,
            Action::Delete,
            Action::SetBack,
            Action::Storm,
            Action::Empty,
            Action::SlowWatcher,
            Action::WatchMany,
        ];
        self.actions = plain.into_iter().filter(|it| self.actions.contains(*it)).collect();
    }

    /// Returns the protocol variant between a client and a server.
    #[must_use]
    pub const fn variant_of(&self, client: usize, server: usize) -> Variant {
        let is_other = match self.mixture {
            Mixture::Alike => false,
            Mixture::ByClient => client % 2 == 1,
            Mixture::ByServer => server % 2 == 1,
        };
        match (self.variant, is_other) {
            (Variant::StateOfTheWorld, false) | (Variant::Incremental, true) => {
                Variant::StateOfTheWorld
            }
            _ => Variant::Incremental,
        }
    }

    /// Whether all clients and servers use this variant.
    #[must_use]
    pub fn uses_only(&self, variant: Variant) -> bool {
        self.variant == variant && self.mixture == Mixture::Alike
    }

    /// Whether clients drop cached resources that their servers report as invalid or deleted.
    #[must_use]
    pub fn drops_cached(&self) -> bool {
        self.data_errors == DataErrorPolicy::DropCached
            || self.features.contains(Feature::FailOnDataErrors)
    }

    /// Whether servers send TTLs to clients of this variant.
    #[must_use]
    pub fn sends_ttls(&self, variant: Variant) -> bool {
        let has_place =
            variant == Variant::Incremental || !self.features.contains(Feature::WithoutWrappers);
        has_place && !self.features.contains(Feature::WithoutTtl)
    }

    /// Whether clients accept resources that are valid only from a trusted server.
    #[must_use]
    pub fn are_servers_trusted(&self) -> bool {
        self.features.contains(Feature::TrustedServer)
    }

    /// Whether servers end streams whose client changes its node or requests an unknown type.
    #[must_use]
    pub fn are_servers_strict(&self) -> bool {
        self.features.contains(Feature::StrictServer)
    }

    /// Whether operators may set resources that clients reject.
    pub(crate) fn can_be_invalid(&self) -> bool {
        let is_done = |action| self.actions.contains(action);
        is_done(Action::SetBad)
            || is_done(Action::SetWithTtl)
            || is_done(Action::SetPrivileged) && !self.are_servers_trusted()
    }

    /// Whether each resource has an alias.
    #[must_use]
    pub fn has_aliases(&self) -> bool {
        self.actions.contains(Action::WatchAlias)
    }
}
