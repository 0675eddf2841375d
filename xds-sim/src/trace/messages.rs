//! Outcome of each message of a trace.

use std::collections::BTreeMap;

use xds_core::Time;

use super::event::{MessageId, ParticipantId, Trace, TraceEvent, TraceKind};

/// Messages whose sending was recorded.
#[derive(Debug)]
pub(super) struct Messages(BTreeMap<MessageId, Sent>);

/// One message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub(super) from: ParticipantId,
    pub(super) to: ParticipantId,
    pub(super) at: Time,
    pub(super) end: MessageOutcome,
}

/// Outcome of a message, with the number of the event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MessageOutcome {
    Delivered(u64),
    Lost(u64),
    /// The message was in flight when the run ended.
    None,
}

impl Messages {
    pub(super) fn of(trace: &Trace) -> Self {
        let mut messages: BTreeMap<MessageId, Sent> = BTreeMap::new();
        for TraceEvent { at, number, kind } in &trace.events {
            match kind {
                TraceKind::Send { message, from, to, .. } => {
                    let sent = Sent { from: *from, to: *to, at: *at, end: MessageOutcome::None };
                    messages.insert(*message, sent);
                }
                TraceKind::Deliver { message } => {
                    if let Some(sent) = messages.get_mut(message) {
                        sent.end = MessageOutcome::Delivered(*number);
                    }
                }
                TraceKind::Lost { message, .. } => {
                    if let Some(sent) = messages.get_mut(message) {
                        sent.end = MessageOutcome::Lost(*number);
                    }
                }
                TraceKind::Local { .. } | TraceKind::Fault { .. } | TraceKind::Phase(_) => {}
            }
        }
        Self(messages)
    }

    pub(super) fn get(&self, message: MessageId) -> Option<&Sent> {
        self.0.get(&message)
    }

    /// Returns the participants of an event.
    pub(super) fn lanes_of(&self, event: &TraceEvent) -> Vec<ParticipantId> {
        match &event.kind {
            TraceKind::Send { from, to, .. } => vec![*from, *to],
            TraceKind::Deliver { message } | TraceKind::Lost { message, .. } => {
                self.get(*message).map_or_else(Vec::new, |sent| vec![sent.from, sent.to])
            }
            TraceKind::Local { lane, .. } => vec![*lane],
            TraceKind::Fault { lanes, .. } => lanes.clone(),
            TraceKind::Phase(_) => Vec::new(),
        }
    }
}
