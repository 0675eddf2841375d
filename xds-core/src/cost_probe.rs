//! Count of the accesses to subscriptions and resources, which measures the cost of a step. It is
//! compiled for tests only, which compare counts instead of times.

#[cfg(test)]
mod counted {
    extern crate std;

    use core::cell::Cell;

    std::thread_local! {
        static ACCESSES: Cell<u64> = const { Cell::new(0) };
    }

    pub(crate) fn add_one() {
        ACCESSES.with(|accesses| accesses.set(accesses.get() + 1));
    }

    pub(crate) fn take() -> u64 {
        ACCESSES.with(|accesses| accesses.replace(0))
    }
}

/// Counts an access to a subscription or a resource.
#[inline]
pub(crate) fn note() {
    #[cfg(test)]
    counted::add_one();
}

#[cfg(test)]
mod tests {
    extern crate std;

    use alloc::{
        format,
        string::{String, ToString as _},
        vec,
        vec::Vec,
    };
    use core::{mem, time::Duration};
    use std::println;

    use prost::Message as _;

    use super::counted;
    use crate::{
        Frame,
        id::StreamId,
        proto::{DeltaDiscoveryRequest, DiscoveryRequest, Node, Status},
        server::{
            MakeBeforeBreakPolicy, OrderingPolicy, ResourceOptions, ResponseCause, Server,
            ServerConfig, ServerTransmit, StreamEvent, StreamKind, Transaction, Variant,
        },
        time::{Time, Timer},
        types::{self, CLUSTER_LOAD_ASSIGNMENT as TYPE},
    };

    /// A server, and one client that subscribes to many names.
    struct Pair {
        server: Server,
        stream: StreamId,
        /// Node for the first request.
        node: Option<Node>,
        nonce: String,
        now: Time,
    }

    impl Pair {
        fn new(variant: Variant) -> Self {
            Self::with(ServerConfig::default(), variant)
        }

        fn with(mut config: ServerConfig, variant: Variant) -> Self {
            let now = Time::ZERO;
            // The cost is that of whole requests.
            config.limits.names_per_call = usize::MAX;
            let mut server = Server::new(config, 1, now);
            let stream = server.accept(StreamKind::Aggregated(variant), now).unwrap();
            let features = vec![String::from("xds.config.supports-resource-ttl")];
            let node =
                Some(Node { id: String::from("n"), client_features: features, ..Node::default() });
            Self { server, stream, node, nonce: String::new(), now }
        }

        fn set(&mut self, count: usize) {
            let mut transaction = Transaction::new();
            for name in names(count) {
                transaction.set(TYPE, &*name, vec![1]);
            }
            self.server.apply(transaction, self.now).unwrap();
        }

        /// Sends a request and returns its cost.
        fn send(&mut self, message: Vec<u8>) -> u64 {
            counted::take();
            let event = StreamEvent::Message(self.stream, message.into());
            self.server.handle_event(event, self.now);
            counted::take()
        }

        fn subscribe(&mut self, names: Vec<String>) -> u64 {
            self.change(names, Vec::new())
        }

        fn change(&mut self, names: Vec<String>, dropped: Vec<String>) -> u64 {
            let request = DeltaDiscoveryRequest {
                node: mem::take(&mut self.node),
                type_url: TYPE.to_string(),
                resource_names_subscribe: names,
                resource_names_unsubscribe: dropped,
                response_nonce: self.nonce.clone(),
                ..Default::default()
            };
            self.send(request.encode_to_vec())
        }

        /// Subscribes to names of a type and ACKs the last response.
        fn subscribe_to(&mut self, type_url: &str, names: Vec<String>) {
            let request = DeltaDiscoveryRequest {
                node: mem::take(&mut self.node),
                type_url: type_url.to_string(),
                resource_names_subscribe: names,
                response_nonce: mem::take(&mut self.nonce),
                ..Default::default()
            };
            self.send(request.encode_to_vec());
        }

        fn reject(&mut self) -> u64 {
            let request = DeltaDiscoveryRequest {
                type_url: TYPE.to_string(),
                response_nonce: self.nonce.clone(),
                error_detail: Some(Status { code: 3, ..Default::default() }),
                ..Default::default()
            };
            self.send(request.encode_to_vec())
        }

        fn list(&mut self, names: Vec<String>) -> u64 {
            let request = DiscoveryRequest {
                node: mem::take(&mut self.node),
                type_url: TYPE.to_string(),
                resource_names: names,
                response_nonce: self.nonce.clone(),
                ..Default::default()
            };
            self.send(request.encode_to_vec())
        }

        fn receive(&mut self) -> Option<ServerTransmit> {
            let sent = self.server.poll_transmit(self.stream, self.now, &mut Frame::default())?;
            self.nonce = sent.nonce.as_str().to_string();
            Some(sent)
        }
    }

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|n| format!("n{n}")).collect()
    }

    /// A cluster with EDS by its own name, and a setting.
    fn eds_cluster(name: &str, setting: u8) -> Vec<u8> {
        let name = [&[0x0a, name.len() as u8], name.as_bytes()].concat();
        let rest = [0x10, 3, 0x1a, 4, 0x0a, 2, 0x1a, 0, 0xe2, 1, 1, b'0' + setting];
        [&name[..], &rest].concat()
    }

    fn all() -> Vec<String> {
        vec![String::from("*")]
    }

    /// Asserts that the cost does not depend on the number of names.
    fn costs_the_same(cost: impl Fn(usize) -> Vec<u64>) {
        let (few, many) = (cost(10), cost(1_000));
        assert_eq!(few, many, "looks at 10 names, and at 1,000");
    }

    /// The cost of another wildcard request is constant if everything is already due, and otherwise
    /// that of the response.
    // IS25
    #[test]
    fn repeated_wildcard_request_costs_at_most_its_message() {
        // The client reads nothing.
        costs_the_same(|count| {
            let mut pair = Pair::new(Variant::Incremental);
            pair.set(count);
            assert!(pair.subscribe(names(count)) >= count as u64, "they are counted");
            pair.subscribe(all());
            pair.subscribe(all());
            (0..3).map(|_| pair.subscribe(all())).collect()
        });
        // The client reads and answers. Few of its names have a resource.
        costs_the_same(|count| {
            let mut pair = Pair::new(Variant::Incremental);
            pair.set(3);
            pair.subscribe(names(count));
            pair.subscribe(all());
            while pair.receive().is_some() {
                pair.subscribe(Vec::new());
            }
            let again = |pair: &mut Pair| {
                let accesses = pair.subscribe(all());
                assert_eq!(pair.receive().unwrap().resources, 3, "M97");
                accesses
            };
            again(&mut pair);
            (0..3).map(|_| again(&mut pair)).collect()
        });
        println!("covers: IS25 M97");
    }

    /// All members are already due; after they were sent, they are sent again.
    // IS25
    #[test]
    fn repeated_glob_request_costs_at_most_its_message() {
        let below = |name: &str| {
            format!("xdstp://authority/envoy.config.endpoint.v3.ClusterLoadAssignment/{name}")
        };
        costs_the_same(|count| {
            let mut pair = Pair::new(Variant::Incremental);
            let mut transaction = Transaction::new();
            for name in names(count) {
                transaction.set(TYPE, &*below(&name), vec![1]);
            }
            pair.server.apply(transaction, pair.now).unwrap();
            let glob = || vec![below("*")];
            assert!(pair.subscribe(glob()) >= count as u64, "they are counted");
            let accesses = (0..3).map(|_| pair.subscribe(glob())).collect();
            for _ in 0..2 {
                assert_eq!(pair.receive().unwrap().resources, count);
                pair.subscribe(Vec::new());
                assert!(pair.receive().is_none());
                assert!(pair.subscribe(glob()) >= count as u64, "M97");
            }
            accesses
        });
        println!("covers: IS25 M97 M138");
    }

    /// The removed names of a client that leaves the wildcard are computed once it reads the
    /// response. Unsubscribing from a name in the same request costs no more.
    // IS25
    #[test]
    fn resubscribe_in_one_request_costs_at_most_its_message() {
        for reads in [false, true] {
            costs_the_same(|count| {
                let mut pair = Pair::new(Variant::Incremental);
                pair.set(count);
                if reads {
                    pair.subscribe(vec![String::from("n1")]);
                    while pair.receive().is_some() {
                        pair.subscribe(Vec::new());
                    }
                }
                let both = || vec![String::from("n1"), String::from("*")];
                (0..4).map(|_| pair.change(both(), both())).collect()
            });
        }
        // The client subscribes to every resource by name.
        costs_the_same(|count| {
            let mut pair = Pair::new(Variant::Incremental);
            pair.set(count);
            pair.subscribe(names(count));
            let both = || vec![String::from("n1"), String::from("*")];
            (0..4).map(|_| pair.change(both(), both())).collect()
        });
        println!("covers: IS25 M93");
    }

    /// Resources that the client had by name are retained until it has read the rest, without being
    /// iterated meanwhile.
    // IS25
    #[test]
    fn repeated_sotw_wildcard_request_costs_at_most_its_message() {
        costs_the_same(|count| {
            let mut pair = Pair::new(Variant::StateOfTheWorld);
            pair.set(count);
            pair.list(names(count));
            assert_eq!(pair.receive().unwrap().resources, count);
            pair.list(names(count));
            pair.list(all());
            (0..3).map(|_| pair.list(all())).collect()
        });
        println!("covers: IS25 M31");
    }

    /// Under make before break, rejected resources are retained, without being iterated at each
    /// rejection.
    // IS25
    #[test]
    fn nack_costs_at_most_the_rejected_response() {
        costs_the_same(|count| {
            let ordering = OrderingPolicy::MakeBeforeBreak(MakeBeforeBreakPolicy::default());
            let config = ServerConfig { ordering, ..ServerConfig::default() };
            let mut pair = Pair::with(config, Variant::Incremental);
            pair.set(1);
            pair.subscribe(all());
            assert_eq!(pair.receive().unwrap().cause, ResponseCause::First);
            pair.subscribe(Vec::new());
            let mut reject = |name: String| {
                let mut transaction = Transaction::new();
                transaction.set(TYPE, name, vec![2]);
                pair.server.apply(transaction, pair.now).unwrap();
                assert_eq!(pair.receive().unwrap().cause, ResponseCause::Changed);
                pair.reject()
            };
            (0..count).for_each(|n| assert!(reject(format!("r{n}")) > 0));
            (0..3).map(|n| reject(format!("later{n}"))).collect()
        });
        println!("covers: IS25");
    }

    /// Requested endpoints of clusters that a client was sent are checked until they are known to
    /// exist, not whenever routes wait.
    // IS25
    #[test]
    fn pending_eds_requests_cost_at_most_the_message() {
        costs_the_same(|count| {
            let ordering = OrderingPolicy::MakeBeforeBreak(MakeBeforeBreakPolicy::default());
            let config = ServerConfig { ordering, ..ServerConfig::default() };
            let mut pair = Pair::with(config, Variant::Incremental);
            let missing = || String::from("z");
            let set = |pair: &mut Pair, names: Vec<String>, setting: u8| {
                let mut transaction = Transaction::new();
                for name in names {
                    transaction.set(types::CLUSTER, &*name, eds_cluster(&name, setting));
                }
                transaction.set(types::ROUTE_CONFIGURATION, "r", vec![setting.min(2)]);
                counted::take();
                pair.server.apply(transaction, pair.now).unwrap();
                counted::take()
            };
            let all_clusters = || [names(count), vec![missing()]].concat();
            pair.set(count);
            set(&mut pair, all_clusters(), 1);
            for (type_url, asked) in [
                (types::CLUSTER, all()),
                (TYPE, all_clusters()),
                (types::ROUTE_CONFIGURATION, vec![String::from("r")]),
            ] {
                pair.subscribe_to(type_url, asked);
                assert_eq!(pair.receive().unwrap().type_url.as_str(), type_url);
                pair.subscribe_to(type_url, Vec::new());
            }
            // The client ACKs these, but not the clusters that are sent next; one of them has no
            // endpoints.
            set(&mut pair, all_clusters(), 2);
            assert_eq!(pair.receive().unwrap().resources, count + 1);
            set(&mut pair, names(1), 3);
            pair.subscribe_to(types::CLUSTER, Vec::new());
            assert_eq!(pair.receive().unwrap().type_url.as_str(), types::CLUSTER);
            pair.nonce.clear();
            assert_eq!(pair.receive().unwrap().resources, count, "warming");
            pair.subscribe_to(TYPE, Vec::new());
            set(&mut pair, names(1), 4);
            let accesses = (5..8).map(|setting| set(&mut pair, names(1), setting)).collect();
            assert!(pair.receive().is_none(), "routes wait");
            accesses
        });
        println!("covers: IS25 M146");
    }

    /// A heartbeat accesses only the renewed resources.
    // M169
    #[test]
    fn heartbeat_costs_only_the_due_resources() {
        costs_the_same(|count| {
            let mut pair = Pair::new(Variant::Incremental);
            pair.set(count);
            let mut transaction = Transaction::new();
            let options = ResourceOptions::default().with_ttl(Duration::from_secs(10));
            transaction.set_with(TYPE, "renewed", vec![1], options);
            pair.server.apply(transaction, pair.now).unwrap();
            pair.subscribe(names(count));
            pair.subscribe(vec![String::from("renewed")]);
            assert_eq!(pair.receive().unwrap().resources, count + 1);
            pair.subscribe(Vec::new());
            while pair.server.poll_output().is_some() {}
            let due = pair.server.poll_timeout().unwrap();
            assert_eq!(due.why, Timer::Heartbeat);
            pair.now = due.at;
            counted::take();
            pair.server.handle_timeout(pair.now);
            let accesses = counted::take();
            assert_eq!(pair.receive().unwrap().cause, ResponseCause::Heartbeat);
            vec![accesses]
        });
        println!("covers: M169");
    }
}
