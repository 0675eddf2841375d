//! The does-not-exist timer, and a test of the settings that delay an answer.

use core::time::Duration;

/// Time after which clients conclude that a requested resource does not exist: 15 seconds.
///
/// The protocol [recommends][knowing] this time, and gRPC and Envoy use it. If a server answers
/// later, its clients report existing resources as missing. Every default of a
/// [`ServerConfig`](super::ServerConfig) that delays an answer is shorter, and so is the sum of the
/// defaults that can delay the same answer. A configuration may exceed it if its clients wait
/// longer.
///
/// [knowing]: https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#knowing-when-a-requested-resource-does-not-exist
pub const DOES_NOT_EXIST_TIMER: Duration = Duration::from_secs(15);

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use crate::server::config::waits::*;
    use crate::server::{
        AbsenceDelay, Admission, MakeBeforeBreakPolicy, Missing, OnDemand, OrderingPolicy, Rate,
        ServerConfig, ServerLimits, TypeConfig,
    };

    /// Setting that can delay the answer to a request.
    #[derive(Debug, PartialEq, Eq)]
    struct Delay {
        setting: &'static str,
        at_most: Duration,
    }

    /// Every setting that can delay the answer to a request, with the delay: first those that can
    /// add up, then those that occur alone. A new setting has to be classified here.
    fn delays(config: &ServerConfig) -> (Vec<Delay>, Vec<Delay>) {
        let ServerConfig {
            require_node: _,
            node_changed: _,
            admission: _, // Limited by `limits.decision`.
            unknown_type: _,
            warming: _, // Delays no answer, only adds one.
            ordering,
            warmed_types: _,
            on_demand,
            custom_message_types: _,
            debounce,
            idle_view_timeout: _,
            readiness: _,
            observe_responses: _,
            max_stream_age,
            heartbeat_fraction: _,
            version_prefix: _,
            source,
            type_defaults,
            types,
            limits,
        } = config;
        let ServerLimits {
            decision,
            requests,
            streams: _,
            streams_per_node: _,
            new_streams: _,   // Streams above it are refused.
            first_request: _, // The server waits, not the client.
            request_unit_bytes: _,
            observed_nacks: _,
            types_per_stream: _,
            names_per_stream: _,
            names_per_connection: _,
            names: _,
            names_per_call: _, // Bounds the work of a call, not the time of an answer.
            name_bytes: _,
            node_bytes: _,
            request_bytes: _,
            views: _,
            held_requests: _,
            held_bytes_per_node: _,
            resources: _,
            aliases_per_resource: _,
            deletions_per_type: _,
            deletion_retention: _,
            custom_messages_per_stream: _,
            rejected_names: _,
            rejection_retention: _,
            retained_rejections: _,
            convergence_waits: _,
            isolated_resources: _,
            resource_bytes: _,
            response_bytes: _,
        } = limits;
        assert_eq!(*on_demand, OnDemand::Off, "the application is not waited for by default");
        let refill =
            |&Rate { per_second, burst }: &Rate| Duration::from_secs(1) * burst / per_second;
        let serial = [
            ("limits.decision", *decision),
            (
                "ordering.stage_timeout",
                ordering.make_before_break().map(
                    |MakeBeforeBreakPolicy {
                         stage_timeout,
                         on_stage_timeout: _,
                         references: _,
                     }| *stage_timeout,
                ),
            ),
            (
                "types.missing, types.absence_delay",
                types
                    .values()
                    .chain([&type_defaults.full_state, &type_defaults.others])
                    .map(of_type)
                    .max(),
            ),
        ];
        let alone = [
            // Only replicas that lag behind their source wait, and none of them by default.
            ("source.catch_up_timeout", Some(source.catch_up_timeout)),
            ("debounce.max", debounce.map(|debounce| debounce.max.max(debounce.quiet))),
            ("max_stream_age.grace_period", max_stream_age.map(|age| age.grace_period)),
            ("limits.requests", requests.as_ref().map(refill)),
        ];
        let listed = |(setting, at_most): (&'static str, Option<Duration>)| Delay {
            setting,
            at_most: at_most.unwrap_or_default(),
        };
        (serial.map(listed).into(), alone.map(listed).into())
    }

    /// Time that a type delays the news that a name does not exist. A server that never sends this
    /// news does not delay it: the client uses its own timer.
    fn of_type(config: &TypeConfig) -> Duration {
        let TypeConfig {
            missing,
            absence_delay,
            sotw_response: _,
            legacy_wildcard: _,
            absence: _,
            globs: _,
            wildcard_exit: _,
            removals: _,
            reconnect_trust: _,
            versions: _,
            nack_detection: _,
            nack_recovery: _,
            window: _,         // Waits for the client itself.
            answer_overdue: _, // Waits for the client itself.
        } = config;
        let missing = match missing {
            Missing::HoldFor(time) => *time,
            Missing::Hold | Missing::EmptyResponse | Missing::NotFound => Duration::ZERO,
        };
        let grace = match absence_delay {
            AbsenceDelay::After(time) => *time,
            AbsenceDelay::Immediate | AbsenceDelay::Never => Duration::ZERO,
        };
        missing.max(grace)
    }

    fn gated(mut config: ServerConfig) -> ServerConfig {
        config.ordering = OrderingPolicy::MakeBeforeBreak(MakeBeforeBreakPolicy::default());
        config.admission = Admission::ByApplication;
        config
    }

    #[test]
    fn default_server_delays_stay_below_the_does_not_exist_timer() {
        for config in [
            ServerConfig::default(),
            ServerConfig::envoy(),
            ServerConfig::grpc(),
            ServerConfig::strict_spec(),
            ServerConfig::go_control_plane_like(),
        ] {
            let (serial, alone) = delays(&gated(config));
            let sum: Duration = serial.iter().map(|wait| wait.at_most).sum();
            assert!(sum < DOES_NOT_EXIST_TIMER, "{sum:?}: {serial:?}");
            for wait in alone {
                assert!(wait.at_most < DOES_NOT_EXIST_TIMER, "{wait:?}");
            }
        }
    }

    #[test]
    fn default_stage_timeout_is_a_third_of_the_does_not_exist_timer_at_most() {
        assert!(MakeBeforeBreakPolicy::default().stage_timeout * 3 <= DOES_NOT_EXIST_TIMER);
    }

    /// The test has to find a setting that is too long.
    #[test]
    fn stage_timeout_as_long_as_the_does_not_exist_timer_is_found() {
        let mut config = gated(ServerConfig::default());
        config.ordering = match config.ordering {
            OrderingPolicy::MakeBeforeBreak(policy) => {
                OrderingPolicy::MakeBeforeBreak(MakeBeforeBreakPolicy {
                    stage_timeout: DOES_NOT_EXIST_TIMER,
                    ..policy
                })
            }
            other => other,
        };
        let found = delays(&config).0.into_iter().find(|it| it.at_most >= DOES_NOT_EXIST_TIMER);
        assert_eq!(found.map(|it| it.setting), Some("ordering.stage_timeout"));
    }
}
