//! Mirror of participants that run elsewhere: a world whose cores are idle. It keeps what oracles of
//! messages inspect, and passes them the events that are observed.

use bytes::Bytes;
use xds_core::{ChannelId, WatchId, client::Output, service::Variant};

use super::{
    Link, LinkId, Participants, World,
    events::{Event, Oracle, Rule, StreamEnd},
    message::{Request, Response},
};
use crate::{
    options::Options,
    tape::Choices,
    trace::{Keep, Phase, Violation},
};

impl World {
    /// Creates a mirror of clients and servers.
    pub(crate) fn mirror(options: Options, oracles: Vec<Box<dyn Oracle>>) -> Self {
        let choices = Choices::from_seed(0);
        Self::new(options, choices, &Participants::default(), |_| oracles, Keep::Nothing)
    }

    /// Sets the only rules whose violation counts.
    pub(crate) fn judge_only(&mut self, rules: Vec<Rule>) {
        self.judged = Some(rules);
    }

    /// Returns the id of some channel, for streams whose channels are unknown.
    pub(crate) fn any_channel(&mut self) -> Option<ChannelId> {
        let watch = self.begin_watch(0, 0, None)?;
        let core = &mut self.clients[0].core;
        let opened = core::iter::from_fn(|| core.poll_output())
            .find_map(|output| if let Output::Open(id, _) = output { Some(id) } else { None });
        self.end_watch(0, watch);
        opened
    }

    pub(crate) fn mirror_stream(
        &mut self,
        channel: ChannelId,
        client: usize,
        server: usize,
        variant: Variant,
    ) -> LinkId {
        let link = LinkId(u32::try_from(self.links.len()).unwrap_or(u32::MAX));
        let mut it = Link::new(client, channel, server, None, variant);
        it.is_open = true;
        self.links.push(it);
        link
    }

    pub(crate) fn mirror_requested(&mut self, link: LinkId, request: &Request) {
        if let Some(kind) = request.kind {
            self.links[link.at()].requested(kind, request);
        }
        self.emit(&Event::Requested { link, request });
    }

    pub(crate) fn mirror_arrived(&mut self, link: LinkId, request: &Request) {
        self.emit(&Event::Arrived { link, request });
    }

    pub(crate) fn mirror_responded(&mut self, link: LinkId, response: &Response) {
        self.emit(&Event::Responded { link, response });
    }

    pub(crate) fn mirror_reading(&mut self, link: LinkId, response: &Response) {
        self.emit(&Event::Reading { link, response });
    }

    pub(crate) fn mirror_end_at_client(&mut self, link: LinkId) {
        let it = &mut self.links[link.at()];
        (it.is_open, it.is_known_to_client) = (false, false);
        self.emit(&Event::EndedAtClient { link, end: StreamEnd::ByServer });
    }

    pub(crate) fn mirror_end_at_server(&mut self, link: LinkId) {
        self.emit(&Event::EndedAtServer { link });
    }

    /// Mirrors a change that a server is about to receive.
    pub(crate) fn mirror_applied(
        &mut self,
        server: usize,
        kind: usize,
        name: &str,
        bytes: Option<&Bytes>,
    ) {
        let has = &mut self.servers[server].state[0].has[kind];
        match bytes {
            Some(bytes) => has.insert(name.into(), bytes.clone()),
            None => has.remove(name),
        };
        self.emit(&Event::Applied { server, view: 0, kind, name, bytes });
    }

    /// Mirrors a server that has restarted without resources.
    pub(crate) fn mirror_restarted(&mut self, server: usize) {
        self.servers[server].state[0].has.iter_mut().for_each(|has| has.clear());
        self.emit(&Event::ServerRestarted { server });
    }

    pub(crate) fn mirror_watch(
        &mut self,
        client: usize,
        kind: usize,
        name: &str,
    ) -> Option<WatchId> {
        self.begin_watch(client, kind, Some(name.into()))
    }

    pub(crate) fn mirror_unwatch(&mut self, client: usize, watch: WatchId) {
        self.end_watch(client, watch);
    }

    /// Mirrors a phase, and in [`Phase::Converge`] participants at rest.
    pub(crate) fn mirror_rest(&mut self) {
        self.phase = Phase::Converge;
        self.emit(&Event::Phase(Phase::Converge));
        self.emit(&Event::Rest);
    }

    pub(crate) fn violation(&self) -> Option<&Violation> {
        self.violation.as_ref()
    }
}
