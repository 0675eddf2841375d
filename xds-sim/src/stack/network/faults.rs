//! Faults of the network.
//!
//! A fault is recorded if it changes something: a connection, or the state of the network.

use core::net::SocketAddr;
use std::{collections::BTreeMap, mem::take, task::Waker};

use super::{
    Network, NetworkState, OneWay, TcpConnection,
    conditions::{Conditions, DialOutcome},
    pipe::End,
};
use crate::{
    stack::run::{executor::HostId, log::Log},
    trace::Extent,
};

impl Network {
    /// Sets what happens to attempts to connect to an address.
    pub(crate) fn set_reach(&self, address: SocketAddr, reach: DialOutcome) {
        let mut state = self.lock();
        let before = state.reach.insert(address, reach).unwrap_or_default();
        if before == reach {
            return;
        }
        let host = state.hosts.iter().find(|host| host.address == address.ip());
        let lanes: Vec<_> = host.map(|host| host.lane).into_iter().collect();
        let name = host.map_or_else(|| address.ip().to_string(), |host| host.name.clone());
        for (outcome, extent) in [(before, Extent::Ends), (reach, Extent::Begins)] {
            let what = match outcome {
                DialOutcome::Open => continue,
                DialOutcome::Refused => "are refused",
                DialOutcome::Dropped => "get no answer",
                DialOutcome::Silent => "are established but not served",
            };
            let text = format!("connections to {name}:{} {what}", address.port());
            self.log.fault(&lanes, extent, &text);
        }
    }

    /// Sets the conditions from one host to another, also of existing connections.
    pub(crate) fn set_conditions(&self, from: HostId, to: HostId, conditions: Conditions) {
        let mut state = self.lock();
        let link = state.links.entry((from, to)).or_default();
        let is_change = link.conditions != conditions;
        link.conditions = conditions;
        if is_change {
            let [name, other] = [from, to].map(|host| &state.hosts[host].name);
            let text = format!("conditions from {name} to {other}: {conditions}");
            self.log.fault(&state.lanes([from, to]), Extent::Instant, &text);
        }
        state.directions(from, to).for_each(|it| it.pipe.set_conditions(conditions));
    }

    /// Stops or resumes all traffic between two hosts. Nothing is lost.
    pub(crate) fn set_partitioned(&self, one: HostId, other: HostId, is_partitioned: bool) {
        let mut state = self.lock();
        let was_partitioned = state.link(one, other).is_partitioned;
        if was_partitioned != is_partitioned {
            let extent = if is_partitioned { Extent::Begins } else { Extent::Ends };
            self.log.fault(&state.partition_lanes(one, other), extent, "partition");
        }
        for (from, to) in [(one, other), (other, one)] {
            state.links.entry((from, to)).or_default().is_partitioned = is_partitioned;
            state.directions(from, to).for_each(|it| it.pipe.set_frozen(is_partitioned));
        }
    }

    /// Closes what a killed host has left open in tasks of tokio: listeners and connections.
    pub(crate) fn close_all(&self, host: HostId) {
        let mut state = self.lock();
        let own = state.hosts[host].address;
        let (left, kept): (BTreeMap<_, _>, BTreeMap<_, _>) =
            take(&mut state.listeners).into_iter().partition(|(address, _)| address.ip() == own);
        state.listeners = kept;
        let is_left = |it: &&mut TcpConnection| it.sockets == 2 && it.hosts.contains(&host);
        for connection in state.connections.values_mut().filter(is_left) {
            connection.directions.iter_mut().for_each(|it| it.pipe.end(End::Reset));
        }
        state.lose_units(&self.log);
        drop(state);
        for queue in left.into_values() {
            queue.acceptor.into_iter().for_each(Waker::wake);
        }
    }

    /// Resets the connections between two hosts.
    pub(crate) fn reset(&self, one: HostId, other: HostId) {
        let mut state = self.lock();
        self.record_if_connected(&mut state, [one, other], "connection reset");
        for direction in state.between(one, other) {
            direction.pipe.end(End::Reset);
        }
        state.lose_units(&self.log);
    }

    /// Cuts the connections between two hosts without a sign to either.
    pub(crate) fn cut(&self, one: HostId, other: HostId) {
        let mut state = self.lock();
        self.record_if_connected(&mut state, [one, other], "connection lost without a sign");
        for direction in state.between(one, other) {
            direction.pipe.cut();
        }
        state.lose_units(&self.log);
    }

    /// Ends the direction from one host to another of their connections. The other direction stays
    /// open.
    pub(crate) fn close_direction(&self, from: HostId, to: HostId) {
        let mut state = self.lock();
        self.record_if_connected(&mut state, [from, to], "one direction closed");
        state.directions(from, to).for_each(|it| it.pipe.end(End::Closed));
    }

    /// Sends a GOAWAY from one host to another, as a proxy between them may do, on their HTTP/2
    /// connections without TLS that are between two frames.
    pub(crate) fn go_away(&self, from: HostId, to: HostId) {
        let mut state = self.lock();
        self.record_if_connected(&mut state, [from, to], "GOAWAY of a proxy");
        for direction in state.directions(from, to) {
            direction.go_away();
        }
    }

    /// Sends a GOAWAY on each new connection from one host to another, after the first frame.
    pub(crate) fn set_going_away(&self, from: HostId, to: HostId, goes_away: bool) {
        let mut state = self.lock();
        let lanes = state.lanes([from, to]);
        let link = state.links.entry((from, to)).or_default();
        if link.goes_away != goes_away {
            let extent = if goes_away { Extent::Begins } else { Extent::Ends };
            self.log.fault(&lanes, extent, "GOAWAY on new connections");
        }
        link.goes_away = goes_away;
    }

    /// Records a fault of the connections between two hosts, if there are any.
    fn record_if_connected(&self, state: &mut NetworkState, hosts: [HostId; 2], what: &str) {
        let [one, other] = hosts;
        if state.between(one, other).next().is_some() {
            self.log.fault(&state.lanes(hosts), Extent::Instant, what);
        }
    }
}

impl NetworkState {
    /// Participants of a partition, in the same order for its beginning and its end.
    fn partition_lanes(&self, one: HostId, other: HostId) -> [crate::trace::ParticipantId; 2] {
        self.lanes([one.min(other), one.max(other)])
    }

    /// Returns both directions of the connections between two hosts.
    fn between(&mut self, one: HostId, other: HostId) -> impl Iterator<Item = &mut OneWay> {
        let connections = self.connections.values_mut();
        let found =
            connections.filter(move |it| it.hosts == [one, other] || it.hosts == [other, one]);
        found.flat_map(|connection| &mut connection.directions)
    }

    /// Records that the units on ended or cut pipes are lost.
    fn lose_units(&mut self, log: &Log) {
        let directions = self.connections.values_mut().flat_map(|it| &mut it.directions);
        for direction in directions.filter(|it| it.pipe.is_lossy()) {
            for unit in direction.units.drain(..) {
                log.lost(unit.id, "the connection was lost");
            }
        }
    }
}
