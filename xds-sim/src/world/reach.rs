//! Reachability of servers, by server and by client.

use std::{ops::Range, time::Duration};

use xds_core::Time;

use super::{
    KEEPALIVE, Link, LinkId, Reach, World, names,
    parts::{ScheduledEvent, Undo},
};
use crate::{
    options::{Fault, Transport},
    situations::Situation,
};

/// Status code for missing or invalid credentials.
pub(super) const UNAUTHENTICATED: i32 = 16;

/// Partition between a client and one server or all of its servers.
#[derive(Clone, Copy, Debug)]
pub(super) struct CutOff {
    fault: Fault,
    /// Behaviour for its connection attempts.
    reach: Reach,
    until: Time,
}

impl World {
    /// Returns the behaviour for a connection of a client to a server. A partition of the client
    /// takes precedence over the state of the server.
    pub(super) fn reach(&self, client: usize, server: usize) -> Reach {
        let own = self.own_trouble(client, server);
        let of_server = || self.servers.get(server).map(|node| node.reach).unwrap_or_default();
        own.map_or_else(of_server, |own| own.reach)
    }

    fn own_trouble(&self, client: usize, server: usize) -> Option<CutOff> {
        *self.clients.get(client)?.cut_off.get(server)?
    }

    /// Notes the fault that a connection attempt meets, of the client or of the server.
    pub(super) fn meets(&mut self, client: usize, server: usize, reach: Reach) {
        let own = self.own_trouble(client, server).map(|own| own.fault);
        let of_server = match reach {
            Reach::Up => return,
            Reach::Refused => Fault::Refuse,
            Reach::Hanging => Fault::Hang,
            Reach::HangingUp => Fault::HangUp,
            Reach::Unauthenticated => Fault::Expire,
        };
        self.takes_effect(own.unwrap_or(of_server));
    }

    /// Notes if a client reaches the second server while it is cut off from the first.
    pub(super) fn note_partition(&mut self, client: usize, server: usize) {
        let is_parted =
            self.own_trouble(client, 0).is_some_and(|own| own.fault == Fault::Partition);
        if server == 1 && is_parted {
            self.note(Situation::ServedAcrossPartition);
        }
    }

    /// Whether connections of a client to a server are refused.
    pub(crate) fn is_away(&self, client: usize, server: usize) -> bool {
        self.reach(client, server) == Reach::Refused
    }

    /// Sets the behaviour for new connections to a server for a while.
    pub fn set_reach(&mut self, server: usize, reach: Reach, lasting: Duration) {
        self.servers[server].reach = reach;
        let lane = self.servers[server].lane;
        self.begin(&[lane], "unreachable");
        let end = self.now.after(lasting);
        self.schedule(end, ScheduledEvent::Undo(Undo::Reach(server)));
    }

    /// Makes client credentials invalid at a server for a while: it ends all open and new streams.
    pub fn expire_credentials(&mut self, server: usize, lasting: Duration) {
        self.set_reach(server, Reach::Unauthenticated, lasting);
        let links: Vec<LinkId> = self.servers[server].links.iter().map(|(_, link)| *link).collect();
        if !links.is_empty() {
            self.note(Situation::CredentialExpired);
        }
        links.into_iter().for_each(|link| self.end_with(link, UNAUTHENTICATED));
    }

    /// Makes a server reachable again for all clients that are not cut off.
    pub(super) fn let_reach(&mut self, server: usize) {
        self.servers[server].reach = Reach::Up;
        self.give_up_hanging(|link| link.server == server);
    }

    /// Cuts a client off from all of its servers for a while, as in a partition.
    ///
    /// Its open streams become silent and are treated as [half-open](Self::half_open); it is not
    /// notified if the server ends them. Its connection attempts meet `reach`, regardless of the
    /// state of the server. Has no effect on clients that read files.
    pub fn cut_off(&mut self, client: usize, reach: Reach, lasting: Duration) {
        let servers = 0..self.servers.len();
        self.part(client, servers, Fault::CutOff, reach, lasting);
    }

    /// Cuts a client off from one of its servers for a while, as [`cut_off`](Self::cut_off) does
    /// for all of them.
    pub fn cut_off_from(&mut self, client: usize, server: usize, reach: Reach, lasting: Duration) {
        self.part(client, server..server + 1, Fault::Partition, reach, lasting);
    }

    fn part(
        &mut self,
        client: usize,
        servers: Range<usize>,
        fault: Fault,
        reach: Reach,
        lasting: Duration,
    ) {
        if self.options.transport == Transport::Files {
            return;
        }
        let until = self.now.after(lasting);
        self.clients[client].cut_off[servers.clone()].fill(Some(CutOff { fault, reach, until }));
        let lane = self.clients[client].lane;
        self.begin(&[lane], &what_happens(fault, servers.start));
        self.schedule(until, ScheduledEvent::Undo(Undo::CutOff(client)));
        // A connection attempt in flight meets the partition when it arrives.
        let is_meant = |link: &Link| link.is_open && servers.contains(&link.server);
        let links = self.links(client).filter(|(_, link)| is_meant(link));
        let links: Vec<LinkId> = links.map(|(link, _)| link).collect();
        if !links.is_empty() && fault == Fault::CutOff {
            self.note(Situation::CutOffWhileConnected);
        }
        for link in links {
            let it = &mut self.links[link.at()];
            // A stream that is half-open already is given up earlier.
            if !it.is_cut && !it.to_client.is_silent && !it.to_server.is_silent {
                it.silent_until = Some(self.now.after(KEEPALIVE));
            }
            self.half_open(link, true, true);
        }
    }

    /// Whether a partition separates the client from the server.
    pub(super) fn is_cut_off(&self, client: usize, server: usize) -> bool {
        self.own_trouble(client, server).is_some()
    }

    /// Ends partitions of a client that are due to end. A longer one may have begun since.
    pub(super) fn end_cut_off_if_due(&mut self, client: usize) {
        let now = self.now;
        self.end_cut_off(client, |own| own.until <= now);
    }

    /// Ends all partitions of a client.
    pub(super) fn let_reach_all(&mut self, client: usize) {
        self.end_cut_off(client, |_| true);
    }

    fn end_cut_off(&mut self, client: usize, is_over: impl Fn(CutOff) -> bool) {
        let node = &mut self.clients[client];
        let lane = node.lane;
        let mut over: Vec<String> = Vec::new();
        for (server, own) in node.cut_off.iter_mut().enumerate() {
            if own.is_some_and(&is_over)
                && let Some(own) = own.take()
            {
                over.push(what_happens(own.fault, server));
            }
        }
        over.dedup();
        for what in &over {
            self.finish(&[lane], what);
        }
        if !over.is_empty() {
            self.give_up_hanging(|link| link.client == client);
        }
    }

    /// Fails hanging connection attempts once the server is reachable again.
    fn give_up_hanging(&mut self, is_meant: impl Fn(&Link) -> bool) {
        for at in 0..self.links.len() {
            let it = &self.links[at];
            let hangs_on = self.reach(it.client, it.server) == Reach::Hanging;
            if !it.is_hanging || !is_meant(it) || hangs_on {
                continue;
            }
            self.links[at].is_hanging = false;
            let link = LinkId(u32::try_from(at).unwrap_or(u32::MAX));
            let arrival = self.arrival(link);
            self.schedule(arrival, ScheduledEvent::Refuse(link));
        }
    }

    /// Returns the time until which the end of a stream is hidden from a client that is cut off.
    pub(super) fn silent_until(&self, link: LinkId) -> Option<Time> {
        self.links[link.at()].silent_until.filter(|until| *until > self.now)
    }
}

fn what_happens(fault: Fault, server: usize) -> String {
    match fault {
        Fault::Partition => format!("cut off from {}", names::server(server)),
        _ => "cut off".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, Options, run_seed};

    /// Runs a scenario in a world with clients that have a resource from the first server.
    fn play(servers: u32, scenario: impl Fn(&mut World) + Send + Sync + 'static) {
        let config = Config::new(move |world: &mut World| {
            world.set(0, "r0", "good");
            world.set(0, "r1", "good");
            world.watch(0, 0, Some("r0"));
            world.watch(1, 0, Some("r0"));
            world.advance(Duration::from_secs(1));
            scenario(world);
        });
        let options = Options { clients: 2, servers, ..Options::default() };
        let outcome = run_seed(0, &config.with_fixed_options(options));
        if let Some(failure) = outcome.violation {
            panic!("{}", failure.to_text(None));
        }
    }

    fn held(world: &World, client: usize, name: &str) -> Option<String> {
        let mut watches = world.watches(client).map(|(_, watch)| watch);
        let watch = watches.find(|watch| watch.name.as_deref() == Some(name))?;
        watch.view.get(name).map(|bytes| crate::Toy::text_of(bytes))
    }

    #[test]
    fn partitioned_client_receives_nothing_and_others_do() {
        play(1, |world| {
            world.cut_off(0, Reach::Refused, Duration::from_secs(100));
            world.set(0, "r0", "news");
            world.advance(Duration::from_secs(90));
            assert_eq!(held(world, 0, "r0").as_deref(), Some("good"));
            assert_eq!(held(world, 1, "r0").as_deref(), Some("news"));
            world.advance(Duration::from_secs(60));
            assert_eq!(held(world, 0, "r0").as_deref(), Some("news"), "it is back");
        });
    }

    #[test]
    fn stream_end_is_hidden_until_keepalive_detects_the_partition() {
        play(1, |world| {
            let link = world.links(0).next().expect("it is connected").0;
            world.cut_off(0, Reach::Hanging, Duration::from_secs(100));
            world.end_stream(link);
            world.advance(KEEPALIVE - Duration::from_secs(1));
            assert!(world.link(link).is_known_to_client, "nobody has told it");
            world.advance(Duration::from_secs(2));
            assert!(!world.link(link).is_known_to_client, "its transport has found out");
        });
    }

    #[test]
    fn partitioned_client_cannot_reach_its_fallback() {
        for reach in [Reach::Refused, Reach::Hanging] {
            play(2, move |world| {
                world.cut_off(0, reach, Duration::from_secs(100));
                world.watch(0, 0, Some("r1"));
                world.advance(Duration::from_secs(90));
                assert_eq!(held(world, 0, "r1"), None, "{reach:?}");
                let is_open = |world: &World| world.links(0).any(|(_, link)| link.is_open);
                assert!(!is_open(world), "{reach:?}");
                world.advance(Duration::from_secs(60));
                assert_eq!(held(world, 0, "r1").as_deref(), Some("good"), "{reach:?}");
            });
        }
    }

    #[test]
    fn client_cut_off_from_one_server_uses_the_fallback() {
        play(2, |world| {
            world.cut_off_from(0, 0, Reach::Refused, Duration::from_secs(300));
            world.advance(KEEPALIVE + Duration::from_secs(1));
            world.watch(0, 0, Some("r1"));
            world.set(0, "r0", "news");
            world.advance(Duration::from_secs(90));
            let server_of =
                |world: &World, client| world.links(client).next().map(|it| it.1.server);
            assert_eq!((server_of(world, 0), server_of(world, 1)), (Some(1), Some(0)));
            for client in [0, 1] {
                assert_eq!(held(world, client, "r0").as_deref(), Some("news"), "client-{client}");
            }
            world.advance(Duration::from_secs(300));
            assert_eq!(server_of(world, 0), Some(0), "it is back");
        });
    }

    #[test]
    fn connection_attempt_in_progress_is_affected_by_a_partition() {
        for reach in [Reach::Refused, Reach::Hanging] {
            play(1, move |world| {
                world.restart_client(0);
                world.cut_off(0, reach, Duration::from_secs(10));
                world.advance(Duration::from_secs(9));
                assert!(world.links(0).all(|(_, link)| !link.is_open), "{reach:?}");
                world.advance(Duration::from_secs(60));
                assert_eq!(held(world, 0, "r0").as_deref(), Some("good"), "{reach:?}");
            });
        }
    }

    #[test]
    fn settling_heals_a_partition_and_all_clients_converge() {
        for transport in [Transport::Streams, Transport::Polls, Transport::Files] {
            let config = Config::new(|world: &mut World| {
                world.watch(0, 0, Some("r0"));
                world.set(0, "r0", "good");
                world.advance(Duration::from_secs(3));
                world.cut_off(0, Reach::Hanging, Duration::from_secs(10_000));
                world.set(0, "r0", "better");
                world.advance(Duration::from_secs(40));
                crate::storm::settle(world);
            });
            let options = Options { servers: 2, transport, ..Options::default() };
            let outcome = run_seed(0, &config.with_fixed_options(options.fitting()));
            if let Some(failure) = outcome.violation {
                panic!("{}", failure.to_text(None));
            }
        }
    }

    #[test]
    fn end_of_one_partition_does_not_end_another() {
        play(1, |world| {
            world.cut_off(0, Reach::Refused, Duration::from_secs(50));
            world.cut_off(0, Reach::Hanging, Duration::from_secs(100));
            world.advance(Duration::from_secs(60));
            assert!(world.is_cut_off(0, 0));
            world.advance(Duration::from_secs(41));
            assert!(!world.is_cut_off(0, 0));
        });
    }
}
