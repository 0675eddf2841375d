//! What kind of run a seed leads to.
//!
//! A run does not do everything: each draws who takes part, and a subset of what can be done and of what
//! can go wrong ("swarm testing"). Runs that never delete anything find other bugs than runs that delete
//! all the time.
//!
//! # What can go wrong
//!
//! What a network, an operating system or a peer may do that keeps to the protocol is a [`Fault`] or an
//! [`Action`], and all rules hold in spite of it. What nobody should say is a [`Lie`]: where it is told to a client,
//! [other rules](crate::oracle) hold; where a stranger tells it to a server, all do for everybody else.
//!
//! | what | by |
//! |---|---|
//! | connections are refused, hang, or are slow | [`Fault::Refuse`], [`Fault::Hang`], [`Fault::Slow`], [`Options::latency`] |
//! | credentials that expire | [`Fault::Expire`] |
//! | streams are reset with any code of gRPC; what is under way is lost | [`Fault::Reset`] |
//! | a connection is reset, and with it all streams of a client to a server | [`Fault::ResetConnection`] |
//! | streams end well, before or after the first response | [`Fault::End`], [`Fault::HangUp`] |
//! | a server drains its streams with something under way | [`Fault::GoAway`] |
//! | nothing arrives any more, in one direction or both | [`Fault::HalfOpen`] |
//! | a partition: one client reaches none of its servers, and all others do | [`Fault::CutOff`] |
//! | a partition that is not the same from all sides: one client does not reach one server, which others do, and reaches the next one | [`Fault::Partition`] |
//! | latency, jitter, of one stream or all, and with these another order across streams | [`Options::latency`], [`Options::jitter`], [`Options::streams`], [`Fault::SlowLink`] |
//! | so many bytes in a second, and messages that arrive together | [`Fault::Narrow`] |
//! | a transport takes nothing for a while; one stream after the other | [`Fault::BlockRequests`], [`Fault::BlockResponses`], [`Fault::Clog`] |
//! | clients come to a replica with an older, a newer or an empty state | [`Fault::OtherReplica`], [`Fault::Lag`] |
//! | servers and clients start anew; versions that are counted, and begin anew | [`Fault::RestartServer`], [`Fault::RestartClient`], [`Options::versions`] |
//! | a slow server, responses around the time at which a client ceases to wait | [`Fault::Lag`], [`Fault::BlockResponses`], [`Fault::Starve`]; pauses are drawn around these times |
//! | push storms, states deleted and created anew, resources that go back to what they were | [`Action::Storm`], [`Action::Empty`], [`Action::SetBack`] |
//! | a client is moved to another view in mid-stream | [`Action::Move`], [`Options::views`] |
//! | slow watchers, watches from within notices, many names, globs, the same watched twice | [`Action::SlowWatcher`], [`Action::WatchWhenTold`], [`Action::WatchMany`], [`Action::WatchGlob`] |
//! | clients of both variants at one server, and servers of both behind one client | [`Options::mixture`] |
//! | responses that are split, and resources too long for any | [`Options::responses`] |
//! | resources that are watched by another name | [`Action::WatchAlias`] |
//! | features that clients and servers have or lack | [`Options::features`] |
//! | resources that are valid from a trusted server only, and servers that are and are not | [`Action::SetPrivileged`], [`Feature::TrustedServer`] |
//! | verdicts from outside, which come late and reject | [`Options::verdicts`], [`Action::SetBad`] |
//! | resources that last for a while, errors of single resources | [`Action::SetForAWhile`], [`Action::SetError`] |
//! | the clock jumps, timers come late, coarse clocks, equal deadlines, polls for nothing or too late | [`Fault::ClockJump`], [`Fault::LateTimers`], [`Options::clock_grain`], [`Options::ties`], [`Fault::WakeForNothing`], [`Fault::Starve`] |
//! | files that are gone, cut off or forbidden, or change unheard, or are heard of twice, or seen late | [`Fault::BadFile`], [`Fault::LostEvent`], [`Fault::DoubleEvent`], [`Fault::StaleFile`] |
//! | answers to polls that are errors, redirects, cut off, of another type, or stale | [`Fault::BadAnswer`], [`Fault::StaleAnswer`] |
//! | responses that are cut off or garbled, of unknown, wrong or other types, known ones among them, of the other variant | [`Lie::Truncate`], [`Lie::Flip`], [`Lie::UnknownType`], [`Lie::WrongAny`], [`Lie::OtherEnvelope`], [`Lie::OtherAny`], [`Lie::OtherVariant`] |
//! | names that come twice, that nobody asked for, or that are empty, of a mebibyte, or malformed | [`Lie::Twice`], [`Lie::Invent`], [`Lie::LongName`], [`Lie::MalformedName`] |
//! | nonces that are missing or used again, one version for several contents | [`Lie::NoNonce`], [`Lie::Repeat`] |
//! | removals of what exists, of up to a hundred thousand names, of what comes beside them; full states without anything | [`Lie::Remove`], [`Lie::RemoveMany`], [`Lie::Contradict`], [`Lie::Empty`] |
//! | clients that send garbage, reject everything with a mebibyte of reasons, never make up their mind, answer what was never sent, are somebody else each time, ask for what is no name or for thousands, speak both variants on one stream, or ask for types that nobody knows or that the stream is not for | [`Lie::HostileClient`], [`Lie::Rejecter`], [`Lie::Churner`], [`Lie::Prophet`], [`Lie::Impostor`], [`Lie::Babbler`], [`Lie::Bilingual`], [`Lie::Foreigner`], [`Lie::Stray`] |
//!
//! What the cores do not see is missing here, and tested where it is seen:
//!
//! | what | why not here | where |
//! |---|---|---|
//! | addresses of a server that change, several of them | a client knows its servers by URI; dialling is the adapter's | `xds-grpc/src/client/dial.rs`, `xds-tokio/tests` |
//! | connections that are shared; the age of streams | streams are all that is seen of connections; streams that end by age do so for ever, and a run has to fall silent. They end as when a server drains | `xds-core/tests/server/lifecycle.rs` |
//! | messages over the size limit of the transport | they do not reach a core | `xds-tokio/tests/hostile` |
//! | renamed files, swapped links | a core is told to read, and reads; which events count is the reader's | `xds-fs/tests` |
//! | which statuses and bodies of HTTP are no answers | to a core, all of them are one of a few | `xds-rest/tests` |
//! | wall clocks that differ | no core reads one: times on the wire are lengths, and what a status is stamped with is the driver's | `xds-tokio/tests/csds.rs` |
//! | peers that never answer at all | what has to come about in time relies on an answer; in a world they fall silent for up to 40 s | [`Fault::Lag`], [`Fault::BlockResponses`] |
//! | lies over polls and in files | they are told on streams, and what is made of bytes is the same code | `xds-core/tests`, `fuzz/` |
//! | a hundred thousand names that are watched | runs have to be short; it is thousands, and a hundred thousand that are removed | `benches` |

mod keys;
mod kinds;
mod modes;
mod text;

use std::time::Duration;

use xds_core::client::{DataErrorPolicy, ReadGate};

pub use keys::listing;
pub use kinds::{Action, Actions, Fault, Faults, Feature, Features, Lie, Lies};
pub use modes::{Mixture, Order, ProfileName, Responses, Ties, Transport, Verdicts, Versions};
pub use text::InvalidOption;
pub use xds_core::{client::Streams, service::Variant};

use crate::tape::Choices;

/// What kind of run it is. Printed as one line.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// How many clients.
    pub clients: u32,
    /// How many servers. The second one is the fallback of the first, the third answers for an authority
    /// of its own.
    pub servers: u32,
    /// The variant of the protocol.
    pub variant: Variant,
    /// Who speaks the other one.
    pub mixture: Mixture,
    /// Whether all types share a stream.
    pub streams: Streams,
    /// How many resource types, at most four: clusters, endpoints, listeners and routes.
    pub types: u32,
    /// How many resource names of each type.
    pub names: u32,
    /// Whose behaviour the clients have.
    pub profile: ProfileName,
    /// What data errors do to resources in use, where the profile is gRPC's.
    pub data_errors: DataErrorPolicy,
    /// Whether notices hold back reading.
    pub read_gate: ReadGate,
    /// How long a message is under way.
    pub latency: Duration,
    /// By how much some take longer.
    pub jitter: Duration,
    /// In which order things happen that are due at one instant.
    pub ties: Ties,
    /// Timers come at multiples of this only: how coarse the driver's clock is. Zero is exact.
    pub clock_grain: Duration,
    /// How many operations there are at most.
    pub operations: u32,
    /// In which order servers send types.
    pub order: Order,
    /// How clients and servers reach each other. Without streams there is the state-of-the-world variant
    /// only, a channel for each type, and nothing that needs more than responses: see
    /// [`fitting`](Self::fitting).
    pub transport: Transport,
    /// Who has the last word on resources.
    pub verdicts: Verdicts,
    /// How many views servers have, at most two. Clients see the first or the second one, of which the second has
    /// every other resource only, and says another thing of it.
    pub views: u32,
    /// What servers make versions of.
    pub versions: Versions,
    /// How long servers make responses.
    pub responses: Responses,
    /// What clients and servers are taken to be capable of, other than by default.
    pub features: Features,
    /// What may be done.
    pub actions: Actions,
    /// What may go wrong.
    pub faults: Faults,
    /// Which lies may be told. A run with lies is judged by other rules: see [`oracle`](crate::oracle).
    pub lies: Lies,
}

/// One of each, and nothing goes wrong.
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
            read_gate: ReadGate::Notices,
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
            features: Features::NONE,
            actions: Actions::NONE,
            faults: Faults::NONE,
            lies: Lies::NONE,
        }
    }
}

/// Most runs have streams: most of what can go wrong does so there.
const TRANSPORTS: [Transport; 8] = {
    let mut transports = [Transport::Streams; 8];
    transports[6] = Transport::Polls;
    transports[7] = Transport::Files;
    transports
};

impl Options {
    /// What the run of a seed is like.
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
            read_gate: choices.pick("read gate", &[ReadGate::Notices, ReadGate::Off]),
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
                    Lies::draw(choices).iter().filter(|lie| lie.is_of_a_stranger()).collect()
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
        };
        let mut drawn = drawn;
        if !choices.chance("aliases", 250) {
            // Where resources have several names, some of what is said of them is not judged.
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
        if choices.chance("short responses", 125) {
            drawn.responses = Responses::Short;
        }
        drawn.fitting()
    }

    /// The same without what does not go together. Over polls and in files there are no other variants than the
    /// state of the world, no aggregated streams, no lies, nothing that resources have beside their bytes, but the
    /// state of one view, and versions that are the same on every replica: a request that stands for itself says nothing
    /// of where the last one was answered. Where verdicts come late, nothing can last for a while only. Clients
    /// are moved where there is somewhere to go, and globs are of an authority. Aliases are of the incremental variant,
    /// and so are globs, of which responses are long; a mixture takes two clients, or two servers, and long responses.
    #[must_use]
    pub fn fitting(mut self) -> Self {
        if self.views < 2 {
            self.actions = self.actions.without(Action::Move);
        }
        match self.mixture {
            Mixture::ByClient if self.clients < 2 => self.mixture = Mixture::Alike,
            Mixture::ByServer if self.servers < 2 => self.mixture = Mixture::Alike,
            // The same resource is too long for one variant and sent in the other.
            _ if self.responses == Responses::Short => self.mixture = Mixture::Alike,
            Mixture::Alike | Mixture::ByClient | Mixture::ByServer => {}
        }
        let is_incremental = self.speaks_only(Variant::Incremental);
        // Of a glob that is told of in parts it is not judged which of its members were told of already.
        if !is_incremental || self.servers < 3 || self.responses == Responses::Short {
            self.actions = self.actions.without(Action::WatchGlob);
        }
        if !is_incremental || !self.lies.spare_clients() {
            self.actions = self.actions.without(Action::WatchAlias);
        }
        if self.verdicts == Verdicts::Late {
            // Types that share a stream wait for each other's verdicts, longer than anything may last.
            self.actions = self.actions.without(Action::SetForAWhile);
        }
        if self.transport == Transport::Streams {
            return self;
        }
        (self.variant, self.streams) = (Variant::StateOfTheWorld, Streams::PerType);
        self.mixture = Mixture::Alike;
        (self.views, self.versions) = (1, Versions::Content);
        // A request that stands for itself has one answer.
        self.responses = Responses::Long;
        self.lies = Lies::NONE;
        let are_of_streams = [
            Action::SetForAWhile,
            Action::SetError,
            Action::Move,
            Action::WatchGlob,
            Action::WatchAlias,
        ];
        self.actions = are_of_streams.into_iter().fold(self.actions, Actions::without);
        self
    }

    /// Leaves out all because of which an application is right to believe something else than what is true, or has to
    /// look twice: what is left is clusters that come, change and go, watched by name, under every fault of the network
    /// and of servers. For [`Config::with_options`](crate::Config::with_options), and applications that
    /// [compare](crate::Application::agrees_with) what they hold with what is true.
    ///
    /// | left out | because |
    /// |---|---|
    /// | all types but clusters | nobody is told that endpoints or routes are gone, in the state-of-the-world variant: they go with what refers to them |
    /// | [`DataErrorPolicy::KeepCached`] | a client that keeps what is gone has it, and says so beside the value |
    /// | [`ProfileName::Envoy`] | it keeps what is gone, and refuses a response whole for one bad resource |
    /// | [`Lie`]s | who was lied to believes it |
    /// | [`Action::SetError`], [`Responses::Short`] | who was told an error has that and not the resource |
    /// | [`Action::SetForAWhile`] | what was not renewed in time is gone for the client alone |
    /// | [`Action::WatchAll`], [`Action::WatchGlob`], [`Action::WatchWhenTold`] | a watch of many is told in [`Application::changed`](crate::Application::changed), of one by one |
    /// | [`Action::WatchAlias`] | the other name of a resource is nothing that is true by itself |
    /// | [`Action::Move`], [`Action::SetBad`], [`Action::SetPrivileged`] | a client that is moved, or refuses, has the old state for a while |
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

    /// What a client speaks with a server.
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

    /// Whether a variant is all that is spoken.
    #[must_use]
    pub fn speaks_only(&self, variant: Variant) -> bool {
        self.variant == variant && self.mixture == Mixture::Alike
    }

    /// Whether clients drop what their servers report to be bad or gone.
    #[must_use]
    pub fn drops_cached(&self) -> bool {
        self.data_errors == DataErrorPolicy::DropCached
            || self.features.contains(Feature::FailOnDataErrors)
    }

    /// Whether who speaks this variant is told how long it may use a resource.
    #[must_use]
    pub fn tells_ttls(&self, variant: Variant) -> bool {
        let has_place =
            variant == Variant::Incremental || !self.features.contains(Feature::WithoutWrappers);
        has_place && !self.features.contains(Feature::WithoutTtl)
    }

    /// Whether clients trust their servers with resources that they would refuse from others.
    #[must_use]
    pub fn are_servers_trusted(&self) -> bool {
        self.features.contains(Feature::TrustedServer)
    }

    /// Whether servers end streams on which somebody becomes another node, or asks for a type that nobody knows.
    #[must_use]
    pub fn are_servers_strict(&self) -> bool {
        self.features.contains(Feature::StrictServer)
    }

    /// Whether an operator may set what clients find invalid.
    pub(crate) fn can_be_invalid(&self) -> bool {
        let is_done = |action| self.actions.contains(action);
        is_done(Action::SetBad)
            || is_done(Action::SetForAWhile)
            || is_done(Action::SetPrivileged) && !self.are_servers_trusted()
    }

    /// Whether resources have another name each.
    #[must_use]
    pub fn has_aliases(&self) -> bool {
        self.actions.contains(Action::WatchAlias)
    }
}
