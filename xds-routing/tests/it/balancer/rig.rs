//! Balancer in virtual time, with a driver that executes its outputs.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    time::Duration,
};

use xds_core::{Time, proto::Locality};
use xds_routing::{
    Random, Rules,
    balancer::{
        Balancer, BalancerOutput, BalancerTimes, CallPermit, ConnectionEvent, ConnectionId,
        EndpointPick, PickArguments, PickAttempt, Picker, SessionPick, Source,
    },
    cluster::Cluster,
    endpoint::ClusterLoadAssignment,
    proto::envoy::config::{cluster::v3 as cds, endpoint::v3 as eds},
};

use crate::support::*;

pub(crate) fn cluster_schema(name: &str) -> cds::Cluster {
    cds::Cluster {
        name: name.into(),
        cluster_discovery_type: Some(cds::cluster::ClusterDiscoveryType::Type(
            cds::cluster::DiscoveryType::Eds as i32,
        )),
        eds_cluster_config: Some(cds::cluster::EdsClusterConfig {
            eds_config: ads(),
            ..cds::cluster::EdsClusterConfig::default()
        }),
        ..cds::Cluster::default()
    }
}

pub(crate) fn a_cluster() -> Cluster {
    Cluster::from_schema(&cluster_schema("c"), &Rules::default()).expect("a cluster")
}

pub(crate) fn endpoint(port: u32) -> eds::LbEndpoint {
    let endpoint =
        eds::Endpoint { address: Some(address("10.0.0.1", port)), ..eds::Endpoint::default() };
    eds::LbEndpoint {
        host_identifier: Some(eds::lb_endpoint::HostIdentifier::Endpoint(endpoint)),
        ..eds::LbEndpoint::default()
    }
}

/// Creates an assignment from localities: priority, weight and the ports of the endpoints.
pub(crate) fn schema(localities: &[(u32, u32, &[u32])]) -> eds::ClusterLoadAssignment {
    let localities = localities.iter().enumerate().map(|(index, &(priority, weight, ports))| {
        eds::LocalityLbEndpoints {
            locality: Some(Locality { zone: index.to_string(), ..Locality::default() }),
            lb_endpoints: ports.iter().map(|&port| endpoint(port)).collect(),
            load_balancing_weight: number(weight),
            priority,
            ..eds::LocalityLbEndpoints::default()
        }
    });
    eds::ClusterLoadAssignment {
        cluster_name: "c".into(),
        endpoints: localities.collect(),
        ..eds::ClusterLoadAssignment::default()
    }
}

pub(crate) fn judged_endpoints(schema: &eds::ClusterLoadAssignment) -> ClusterLoadAssignment {
    ClusterLoadAssignment::from_schema(schema, &Rules::default()).expect("endpoints")
}

/// Returns the event of a connection to the endpoint with this port.
pub(crate) fn connected_to(port: u16) -> ConnectionEvent {
    ConnectionEvent::Connected(SocketAddr::from(([10, 0, 0, 1], port)).into())
}

/// Driver of a balancer.
pub(crate) struct Driver {
    pub(crate) balancer: Balancer,
    pub(crate) now: Time,
    /// Ports of the connections that are requested or established.
    pub(crate) ports: BTreeMap<ConnectionId, u16>,
    pub(crate) picker: Picker,
    pub(crate) log: Vec<String>,
    pub(crate) random: Random,
}

impl Driver {
    pub(crate) fn new(localities: &[(u32, u32, &[u32])]) -> Self {
        let mut balancer = Balancer::new(BalancerTimes::default(), 1);
        let endpoints = judged_endpoints(&schema(localities));
        balancer.update(&[Source::new(&a_cluster(), &endpoints)], Time::ZERO);
        let Some(BalancerOutput::Pick(picker)) = balancer.poll_output() else {
            panic!("a picker comes first")
        };
        let (ports, log, random) = (BTreeMap::new(), Vec::new(), Random::new(7));
        let mut driver = Self { balancer, now: Time::ZERO, ports, picker, log, random };
        driver.follow();
        driver
    }

    pub(crate) fn update(&mut self, schema: &eds::ClusterLoadAssignment) {
        let endpoints = judged_endpoints(schema);
        self.balance(&[Source::new(&a_cluster(), &endpoints)]);
    }

    pub(crate) fn balance(&mut self, sources: &[Source<'_>]) {
        self.balancer.update(sources, self.now);
        self.follow();
    }

    pub(crate) fn follow(&mut self) {
        while let Some(output) = self.balancer.poll_output() {
            match output {
                BalancerOutput::Connect(id, _, addresses) => {
                    self.ports.insert(id, addresses[0].port);
                    self.log.push(format!("+{}", addresses[0].port));
                }
                BalancerOutput::Disconnect(id) => {
                    let port = self.ports.remove(&id).expect("one that was to be made");
                    self.log.push(format!("-{port}"));
                }
                BalancerOutput::Pick(picker) => self.picker = picker,
                other => panic!("{other:?}"),
            }
        }
    }

    pub(crate) fn log(&mut self) -> String {
        std::mem::take(&mut self.log).join(" ")
    }

    pub(crate) fn is(&mut self, port: u16, event: ConnectionEvent) {
        let (&id, _) = self.ports.iter().find(|(_, it)| **it == port).expect("a connection");
        self.balancer.handle_connection(id, event, self.now);
        self.follow();
    }

    pub(crate) fn connected(&mut self, ports: &[u16]) {
        ports.iter().for_each(|&port| self.is(port, connected_to(port)));
    }

    pub(crate) fn fails(&mut self, port: u16) {
        self.is(port, ConnectionEvent::Failed(format!("{port} refused")));
    }

    /// Advances the time and handles all timeouts that are due.
    pub(crate) fn after(&mut self, seconds: u64) {
        let end = self.now.after(Duration::from_secs(seconds));
        while let Some(due) = self.balancer.poll_timeout().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            self.balancer.handle_timeout(self.now);
            self.follow();
        }
        self.now = end;
    }

    pub(crate) fn pick(&mut self) -> Result<(u16, CallPermit), String> {
        self.pick_by(None)
    }

    /// Picks an endpoint for a call with this hash.
    pub(crate) fn pick_by(&mut self, hash: Option<u64>) -> Result<(u16, CallPermit), String> {
        let mut arguments = PickArguments::new(PickAttempt::First);
        arguments.hash = hash;
        let picker = self.picker.clone();
        let picked = picker.pick_for(&arguments, &mut self.random);
        self.told(picked)
    }

    /// Picks an endpoint for a call of a session whose cookie has these addresses. A request of the
    /// call is handled, and the call is picked for again.
    pub(crate) fn pick_session(&mut self, addresses: &str) -> Result<(u16, CallPermit), String> {
        let mut arguments = PickArguments::new(PickAttempt::First);
        arguments.session = Some(SessionPick::new(addresses, self.now));
        for _ in 0..3 {
            let picker = self.picker.clone();
            match picker.pick_for(&arguments, &mut self.random) {
                EndpointPick::Request(request) => {
                    self.balancer.handle_session(&request, self.now);
                    self.follow();
                }
                picked => return self.told(picked),
            }
        }
        Err("still requests a connection".into())
    }

    fn told(&self, picked: EndpointPick<'_>) -> Result<(u16, CallPermit), String> {
        match picked {
            EndpointPick::Endpoint(id, permit) => Ok((self.ports[&id], permit)),
            EndpointPick::Queue => Err("queue".into()),
            EndpointPick::Fail(why) => Err(why.into()),
            EndpointPick::Drop(why) => Err(format!("drop: {why}")),
            other => Err(format!("{other:?}")),
        }
    }

    /// Returns the ports that get calls, from 100 picks.
    pub(crate) fn serving(&mut self) -> BTreeSet<u16> {
        (0..100).filter_map(|_| self.pick().ok()).map(|(port, _)| port).collect()
    }

    pub(crate) fn shares(&mut self) -> BTreeMap<u16, u32> {
        let mut shares = BTreeMap::new();
        for _ in 0..10_000 {
            *shares.entry(self.pick().expect("an endpoint").0).or_default() += 1;
        }
        shares
    }
}
