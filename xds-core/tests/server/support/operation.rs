//! Script steps about operations: convergence, on-demand events, closed streams.

use std::collections::BTreeSet;

use xds_core::{
    ResourceName, TypeUrl, ViewName,
    server::{ClientResource, CloseReason, LagReason, ServerEvent, ServerOutput},
};

use super::{Rig, url};

impl Rig {
    /// Takes the next on-demand event.
    pub(super) fn asked(&mut self) -> Option<(&'static str, TypeUrl, ResourceName)> {
        let is_want = |output: &ServerOutput| {
            matches!(
                output,
                ServerOutput::Event(ServerEvent::Wanted { .. })
                    | ServerOutput::Event(ServerEvent::Unwanted { .. })
            )
        };
        let position = self.outputs.iter().position(is_want)?;
        let (what, type_url, names) = match &mut self.outputs[position] {
            ServerOutput::Event(ServerEvent::Wanted { type_url, names, .. }) => {
                ("wanted", type_url.clone(), names)
            }
            ServerOutput::Event(ServerEvent::Unwanted { type_url, names, .. }) => {
                ("unwanted", type_url.clone(), names)
            }
            _ => return None,
        };
        let name = names.remove(0);
        if names.is_empty() {
            drop(self.outputs.remove(position));
        }
        Some((what, type_url, name))
    }

    /// Returns the server-side client status of a type as `name:status`.
    pub(crate) fn sync(&self, stream: u32, short: &str) -> BTreeSet<String> {
        let status = self.server.client_status(self.streams[&stream].id).expect("an open stream");
        let of_type = status.resources().filter(|it| it.type_url.as_str() == url(short));
        let text = |it: ClientResource<'_>| {
            let status = format!("{:?}", it.status).to_lowercase();
            format!("{}:{status}", it.name)
        };
        of_type.map(text).collect()
    }

    pub(super) fn expect_sync(&self, stream: u32, words: &str) {
        let (short, wanted) = words.split_once(' ').unwrap_or((words, ""));
        let wanted: BTreeSet<_> = wanted.split_whitespace().map(String::from).collect();
        assert_eq!(self.sync(stream, short), wanted, "what {stream} has of {short}");
    }

    pub(super) fn expect_lag(&self, words: &str) {
        let mut words = words.split_whitespace();
        let type_url = url(words.next().expect("a type"));
        let sequence = words.next().and_then(|word| word.parse().ok()).expect("a number");
        let (mut lag, mut wanted) = (LagReason::Pending, BTreeSet::new());
        for word in words {
            match word {
                "pending" => lag = LagReason::Pending,
                "rejected" => lag = LagReason::Rejected,
                stream => {
                    let stream: u32 = stream.parse().expect("a stream");
                    wanted.insert((self.streams[&stream].id, lag));
                }
            }
        }
        let got = self.server.convergence(&ViewName::default(), &type_url, sequence);
        let lagging: BTreeSet<_> = got.lagging.iter().map(|it| (it.stream, it.reason)).collect();
        assert_eq!(lagging, wanted, "who lags behind change {sequence} of {type_url}");
        let count = |lag| wanted.iter().filter(|(_, it)| *it == lag).count();
        let counts = (count(LagReason::Pending), count(LagReason::Rejected));
        assert_eq!((got.pending, got.rejected), counts);
        assert_eq!(got.is_complete(), wanted.is_empty());
    }

    /// Takes the request for a confirmation of the source, if there is one.
    pub(crate) fn take_confirmation(&mut self) -> bool {
        let asked = ServerOutput::Event(ServerEvent::ConfirmSource);
        let position = self.outputs.iter().position(|output| *output == asked);
        position.map(|at| self.outputs.remove(at)).is_some()
    }

    /// Takes the reason why the server ended a stream, if it did.
    pub(crate) fn take_close(&mut self, stream: u32) -> Option<CloseReason> {
        let id = self.streams.get(&stream).expect("a stream").id;
        let is_close = |output: &ServerOutput| matches!(output, ServerOutput::Close(closed, _) if *closed == id);
        let position = self.outputs.iter().position(is_close)?;
        match self.outputs.remove(position) {
            ServerOutput::Close(_, reason) => Some(reason),
            _ => None,
        }
    }
}
