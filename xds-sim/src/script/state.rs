//! State of a running script: a pair, and the script's labels for its parts.

use std::collections::BTreeMap;

use bytes::Bytes;
use prost::Message as _;
use xds_core::{
    ChannelId, Client, Frame, ResourceName, StatusCode, Time, WatchId,
    client::{Call, ChannelError, ChannelEvent, Node, Rejection, WallClock},
    proto,
    server::{ResourceOptions, Server, ServerOutput, StreamEvent, StreamKind, Transaction},
    service::Variant,
};

use super::{
    command::{Command, Printout},
    options::{client_config, server_config},
    pair::{LinkState, LogEntry, Pair, Peer},
    response::{Resource, Wrapper, type_url},
    watchers::WatcherAction,
};
use crate::{Toy, status_text, wire_text};

/// State of one script.
#[derive(Debug)]
pub(super) struct ScriptState {
    pair: Pair,
    /// Streams of scripted clients to this project's server.
    streams: BTreeMap<String, xds_core::StreamId>,
    /// Version of each response that a scripted client received, by stream and nonce.
    versions: BTreeMap<(xds_core::StreamId, String), String>,
    /// Server or type that the command selects.
    place: Option<String>,
    started: Time,
}

impl Default for ScriptState {
    fn default() -> Self {
        Self::with_client(&[]).unwrap_or_else(|why| unreachable!("invalid options: {why}"))
    }
}

impl ScriptState {
    fn with_client(options: &[(String, String)]) -> Result<Self, String> {
        let (config, warnings) = client_config(options)?;
        let mut pair = Pair::new(Client::new(config, SEED, Time::ZERO), Peer::Scripted);
        for warning in warnings {
            pair.note(format!("warning: {warning}"));
        }
        Ok(Self {
            pair,
            streams: BTreeMap::new(),
            versions: BTreeMap::new(),
            place: None,
            started: Time::ZERO,
        })
    }

    /// Returns the output since the last call. Lines of a later instant start with its time.
    pub(super) fn take_output(&mut self) -> Vec<String> {
        let started = std::mem::replace(&mut self.started, self.pair.now());
        let line = |event: LogEntry| match event.at == started {
            true => event.text,
            false => format!("[{}] {}", event.at, event.text),
        };
        self.pair.take_log().into_iter().map(line).collect()
    }

    pub(super) fn perform(&mut self, command: Command) -> Result<(), String> {
        match command {
            Command::Client(options) => *self = Self::with_client(&options)?,
            Command::At { place, command } => {
                if !selects_stream(&command) {
                    return Err(format!(
                        "this command does not apply to one stream: remove `@{place}`"
                    ));
                }
                self.place = Some(place);
                let result = self.perform(*command);
                self.place = None;
                result?;
            }
            Command::Server(options) => {
                let server = Server::new(server_config(&options)?, SEED, Time::ZERO);
                self.pair.peer = Peer::Core(Box::new(server));
            }
            Command::Watch { .. } => drop(self.pair.act(act(command)?)),
            Command::Unwatch(label) => {
                self.labelled(&label)?;
                self.pair.act(WatcherAction::Unwatch(label));
            }
            Command::Upon { label, command } => {
                let watch = self.labelled(&label)?;
                self.pair.add_action(watch, act(*command)?);
            }
            Command::Busy(label) => self.pair.make_busy(self.labelled(&label)?),
            Command::Done(label) => self.pair.make_done(self.labelled(&label)?),
            Command::ResetBackoff => self.pair.client.reset_backoff(self.pair.now()),
            Command::SetNode(id) => self.pair.client.set_node(Node::new(id), self.pair.now()),
            Command::ShutDown => self.pair.client.shut_down(self.pair.now()),
            Command::Respond(response) => {
                let channel = self.channel_for(Some(&response.type_name))?;
                self.pair.respond(channel, response.encode());
            }
            Command::Update(update) => {
                let channel = self.channel_for(Some(&update.type_name))?;
                self.pair.respond(channel, update.encode(type_url));
            }
            Command::RespondBytes(bytes) => {
                self.pair.respond(self.channel_for(None)?, bytes.into());
            }
            Command::Stale(response) => {
                let channel = self.pair.last_ended.ok_or("there was no channel before")?;
                let frame = response.encode();
                self.pair.inject(ChannelEvent::Message(channel, frame));
            }
            Command::StaleEnd { code, message } => {
                let channel = self.pair.last_ended.ok_or("there was no channel before")?;
                let code = StatusCode::from_i32(code);
                let error = ChannelError::Status { code, message: message.into() };
                self.pair.inject(ChannelEvent::Closed(channel, error));
            }
            Command::End { code, message } => {
                let channel = self.channel_for(None)?;
                self.pair.end_stream(channel, code, &message);
            }
            Command::Unchanged => {
                let channel = self.channel_for(None)?;
                self.pair.inject(ChannelEvent::Unchanged(channel));
            }
            Command::Undeliverable(text) => {
                let channel = self.channel_for(None)?;
                self.pair.inject(ChannelEvent::Undeliverable(channel, text.into()));
            }
            Command::Force(response) => {
                let channel = self.channel_for(Some(&response.type_name))?;
                self.pair.inject(ChannelEvent::Message(channel, response.encode()));
            }
            Command::ForceUpdate(update) => {
                let channel = self.channel_for(Some(&update.type_name))?;
                self.pair.inject(ChannelEvent::Message(channel, update.encode(type_url)));
            }
            Command::Settle(rejected) => self.settle(rejected)?,
            Command::Link(state) => {
                let state = match state.as_str() {
                    "up" => LinkState::Up,
                    "down" => LinkState::Down,
                    "silent" => LinkState::Silent,
                    _ => return Err(format!("a link must be up, down or silent, not `{state}`")),
                };
                match &self.place {
                    Some(server) => drop(self.pair.link_states.insert(server.clone(), state)),
                    None => self.pair.link_state = state,
                }
            }
            Command::Block => self.pair.block_transport(),
            Command::Unblock => self.pair.free_transport(),
            Command::Latency(latency) => self.pair.latency = latency,
            Command::Set { type_name, resources } => self.set(&type_name, resources)?,
            Command::Remove { type_name, names } => {
                let mut change = Transaction::new();
                for name in names {
                    change.remove(type_url(&type_name), name);
                }
                self.apply(change)?;
            }
            Command::Connect(label) => self.connect(label)?,
            Command::Request { label, type_name, fields } => {
                self.request(&label, &type_name, fields)?;
            }
            Command::HangUp(label) => {
                let stream = self.streams.remove(&label).ok_or_else(|| unknown(&label))?;
                let now = self.pair.now();
                self.server()?.handle_event(StreamEvent::Closed(stream), now);
            }
            Command::Advance(duration) => self.pair.advance(duration),
            Command::Print(what) => self.print(what),
        }
        self.play();
        Ok(())
    }

    /// Processes everything that is due, including responses to scripted clients.
    fn play(&mut self) {
        if self.streams.is_empty() {
            self.pair.settle();
        } else {
            self.serve_scripted_clients();
        }
    }

    fn settle(&mut self, rejected: Vec<(String, String)>) -> Result<(), String> {
        let place = self.place.as_ref().map(|_| self.channel_for(None)).transpose()?;
        let mut newest_first = self.pair.updates.iter().rev();
        let update = newest_first
            .find(|update| place.is_none_or(|channel| update.channel() == channel))
            .copied()
            .ok_or("there was no update")?;
        let rejected = rejected
            .into_iter()
            .map(|(name, reason)| (ResourceName::from(name), Rejection::from(reason)));
        let now = self.pair.now();
        if let Err(error) = self.pair.client.submit_verdict(update, rejected, now) {
            self.pair.note(format!("refused: {error}"));
        }
        Ok(())
    }

    fn labelled(&self, label: &str) -> Result<WatchId, String> {
        self.pair.watch_labelled(label).ok_or_else(|| unknown(label))
    }

    fn server(&mut self) -> Result<&mut Server, String> {
        match &mut self.pair.peer {
            Peer::Core(server) => Ok(server),
            Peer::Scripted => Err("the script has no `server`".into()),
        }
    }

    fn set(&mut self, type_name: &str, resources: Vec<Resource>) -> Result<(), String> {
        let mut change = Transaction::new();
        for resource in resources {
            match resource {
                Resource::Named { type_name: None, name, text } => {
                    let bytes = Toy::bytes(&name, &text);
                    change.set(type_url(type_name), name, bytes);
                }
                Resource::Wrapped { wrapper: Wrapper { ttl, .. }, content: Some(content) } => {
                    let Resource::Named { type_name: None, name, text } = *content else {
                        return Err("only NAME=TEXT can be set".into());
                    };
                    let mut options = ResourceOptions::default();
                    options.ttl = ttl;
                    let bytes = Toy::bytes(&name, &text);
                    change.set_with(type_url(type_name), name, bytes, options);
                }
                _ => return Err("only NAME=TEXT can be set".into()),
            }
        }
        self.apply(change)
    }

    fn apply(&mut self, change: Transaction) -> Result<(), String> {
        let now = self.pair.now();
        if let Err(error) = self.server()?.apply(change, now) {
            self.pair.note(format!("refused: {error}"));
        }
        Ok(())
    }

    fn connect(&mut self, label: String) -> Result<(), String> {
        let now = self.pair.now();
        let via = StreamKind::Aggregated(Variant::StateOfTheWorld);
        match self.server()?.accept(via, now) {
            Ok(stream) => {
                self.streams.insert(label, stream);
            }
            Err(refusal) => self.pair.note(format!("{label}: refused: {refusal}")),
        }
        Ok(())
    }

    fn request(
        &mut self,
        label: &str,
        type_name: &str,
        fields: Vec<(String, String)>,
    ) -> Result<(), String> {
        let stream = *self.streams.get(label).ok_or_else(|| unknown(label))?;
        let mut request = proto::DiscoveryRequest {
            type_url: type_url(type_name),
            ..proto::DiscoveryRequest::default()
        };
        let states_version = fields.iter().any(|(key, _)| key == "v" || key == "error");
        for (key, value) in fields {
            match key.as_str() {
                "v" => request.version_info = value,
                "n" => request.response_nonce = value,
                "node" => request.node = Some(proto::Node { id: value, ..Default::default() }),
                "names" => request.resource_names = value.split(',').map(str::to_owned).collect(),
                "error" => {
                    request.error_detail =
                        Some(proto::Status { code: 3, message: value, details: Vec::new() });
                }
                _ => return Err(format!("unknown request field `{key}`")),
            }
        }
        let answered = (stream, request.response_nonce.clone());
        if let Some(version) = self.versions.get(&answered).filter(|_| !states_version) {
            request.version_info = version.clone();
        }
        let message = Bytes::from(request.encode_to_vec());
        self.pair.note(format!("{label} -> {}", wire_text::request(&message)));
        let now = self.pair.now();
        self.server()?.handle_event(StreamEvent::Message(stream, message), now);
        Ok(())
    }

    fn serve_scripted_clients(&mut self) {
        let now = self.pair.now();
        let mut lines = Vec::new();
        let Peer::Core(server) = &mut self.pair.peer else { return };
        let label = |stream| {
            let found = self.streams.iter().find(|&(_, &known)| known == stream);
            found.map_or_else(|| stream.to_string(), |(label, _)| label.clone())
        };
        while let Some(output) = server.poll_output() {
            match output {
                ServerOutput::Writable(stream) => {
                    let mut frame = Frame::default();
                    while let Some(transmit) = server.poll_transmit(stream, now, &mut frame) {
                        let answered = (stream, transmit.nonce.to_string());
                        self.versions.insert(answered, transmit.version.to_string());
                        let line = wire_text::response(&frame.to_bytes());
                        lines.push(format!("{} <- {line} {}", label(stream), transmit.cause));
                    }
                }
                ServerOutput::Close(stream, why) => {
                    let code = why.code().as_i32();
                    lines.push(format!("{} closed with {code}: {why}", label(stream)));
                }
                ServerOutput::Observed(observation) => {
                    lines.extend(wire_text::observation(&observation));
                }
                other => lines.push(format!("{other:?}")),
            }
        }
        for line in lines {
            self.pair.note(line);
        }
    }

    /// Returns the newest channel that the command selects and that can carry the type.
    fn channel_for(&self, type_name: Option<&str>) -> Result<ChannelId, String> {
        let type_url = type_name.map(type_url);
        let fits = |call: &Call| {
            let carried = call.type_url.as_ref().map(|carried| carried.as_str());
            let is_place = self.place.as_ref().is_none_or(|place| {
                *call.server.uri == **place || carried == Some(&*self::type_url(place))
            });
            is_place && (carried.is_none() || type_url.is_none() || carried == type_url.as_deref())
        };
        self.pair.channel_of(fits).ok_or_else(|| "no such channel".into())
    }

    fn print(&mut self, what: Printout) {
        let lines: Vec<String> = match what {
            Printout::Status => {
                let client = self.pair.client.status().map(|status| format!("{status}"));
                let mut lines: Vec<String> = client.collect();
                if let Peer::Core(server) = &self.pair.peer {
                    lines.extend(server.status().map(|status| wire_text::subscription(&status)));
                }
                lines
            }
            Printout::Stats => format!("{:#?}", self.pair.client.stats())
                .lines()
                .map(str::trim)
                .filter(|line| line.contains(':') && !line.ends_with(": 0,"))
                .map(|line| line.trim_end_matches(',').to_owned())
                .collect(),
            Printout::WantsRead => {
                let wants = self
                    .channel_for(None)
                    .is_ok_and(|channel| self.pair.client.wants_read(channel));
                vec![if wants { "reads" } else { "does not read" }.into()]
            }
            Printout::Deadline => vec![match self.pair.client.poll_timeout() {
                Some(deadline) => format!("{} at {}", deadline.why, deadline.at),
                None => "none".into(),
            }],
            Printout::Csds(contents) => {
                let clock = WallClock::default();
                let snapshot = self.pair.client.snapshot();
                status_text::client_config(&snapshot.into_message("sim", contents, clock))
            }
            Printout::Metrics => status_text::metrics(&self.pair.client.metrics()),
            Printout::TypeStats => self
                .pair
                .client
                .type_stats()
                .filter(|stats| {
                    stats.accepted + stats.rejected + stats.failures + stats.timeouts > 0
                })
                .map(|stats| stats.to_string())
                .collect(),
        };
        for line in lines {
            self.pair.note(line);
        }
    }
}

/// Seed of all scripts, which do not depend on randomness.
const SEED: u64 = 1;

/// Converts a command to an action that a watcher can perform inside a notice.
fn act(command: Command) -> Result<WatcherAction, String> {
    match command {
        Command::Watch { label, type_name, names } => {
            Ok(WatcherAction::Watch { label, type_url: type_url(&type_name), names })
        }
        Command::Unwatch(label) => Ok(WatcherAction::Unwatch(label)),
        _ => Err("a watcher can only `watch` and `unwatch` while it handles a notice".into()),
    }
}

/// Whether a command is for one stream, which `@SERVER` or `@TYPE` selects.
fn selects_stream(command: &Command) -> bool {
    matches!(
        command,
        Command::Respond(_)
            | Command::Update(_)
            | Command::RespondBytes(_)
            | Command::Force(_)
            | Command::ForceUpdate(_)
            | Command::End { .. }
            | Command::Unchanged
            | Command::Undeliverable(_)
            | Command::Settle(_)
            | Command::Link(_)
            | Command::Print(Printout::WantsRead)
    )
}

fn unknown(label: &str) -> String {
    format!("unknown label `{label}`")
}

#[cfg(test)]
mod tests {
    use crate::script::run;

    #[test]
    fn ignored_values_and_streams_are_rejected() {
        let why = |script: &str| run(script).unwrap_err().why;
        assert_eq!(why("client exchange=polls"), "`exchange` is files, not `polls`");
        assert_eq!(why("client fallback=on"), "`fallback` is off or failover, not `on`");
        assert_eq!(why("client variant@a=sotw"), "`variant@a` is delta, not `sotw`");
        assert_eq!(why("block@a"), "this command does not apply to one stream: remove `@a`");
    }
}
