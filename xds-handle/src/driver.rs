//! Driver's side of a client: passes commands to the core and notices to the watches.

use core::{
    convert::Infallible,
    task::{Context, Poll},
};
use std::{collections::BTreeMap, pin::Pin, sync::Arc, time::SystemTime};

use futures_channel::{mpsc::UnboundedReceiver, oneshot};
use futures_core::Stream as _;
use xds_core::{
    Client, Time, TypeUrl, WatchId,
    client::{Interest, Notice, Output},
};

use crate::{
    command::{Command, PendingSlot, Slot},
    review::ReviewQueue,
    slot::{AllSlot, DriverView as _},
    wall_clock::SystemTimeSource,
};

/// Driver's side of a client.
///
/// It passes commands to the [`Client`] and the client's notices to their watches, and decides
/// nothing about the protocol. Dropping it ends every watch.
#[derive(Debug)]
pub struct DriverSide {
    commands: UnboundedReceiver<Command>,
    /// Next command to apply, taken from the queue by [`poll_ready`](Self::poll_ready).
    ready: Option<Command>,
    handles_dropped: bool,
    /// Never iterated in an order that matters.
    slots: BTreeMap<WatchId, Slot>,
    review_queue: Arc<ReviewQueue>,
    waiting_for_end: Vec<oneshot::Sender<Infallible>>,
    system_time: SystemTimeSource,
}

/// Result of [`DriverSide::apply`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum ApplyOutcome {
    /// All available commands were applied.
    Drained,
    /// More commands may be available. Apply them before rendering requests, to save requests.
    More,
    /// The client was shut down, by a command or because its last handle and watch were dropped.
    /// Process its remaining outputs, then stop.
    Ended,
}

/// Maximum number of commands per call of [`DriverSide::apply`], so that transport events are not
/// delayed.
const MAX_COMMANDS: usize = 1_000;

impl DriverSide {
    pub(crate) fn new(
        commands: UnboundedReceiver<Command>,
        review_queue: Arc<ReviewQueue>,
    ) -> Self {
        Self {
            commands,
            ready: None,
            handles_dropped: false,
            slots: BTreeMap::new(),
            review_queue,
            waiting_for_end: Vec::new(),
            system_time: SystemTimeSource::default(),
        }
    }

    /// Sets the source of the date and time in a status of the client. Default: the operating
    /// system.
    #[must_use]
    pub fn with_system_time(mut self, read: impl Fn() -> SystemTime + Send + 'static) -> Self {
        self.system_time = SystemTimeSource(Box::new(read));
        self
    }

    /// Waits until [`apply`](Self::apply) has something to do. Cancel safe.
    pub fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.ready.is_some() || self.handles_dropped {
            return Poll::Ready(());
        }
        Pin::new(&mut self.commands).poll_next(cx).map(|command| {
            self.handles_dropped = command.is_none();
            self.ready = command;
        })
    }

    /// Applies available commands, at most 1,000.
    pub fn apply(&mut self, client: &mut Client, now: Time) -> ApplyOutcome {
        for _ in 0..MAX_COMMANDS {
            let Some(command) = self.next_command() else {
                if self.handles_dropped {
                    client.shut_down(now);
                    return ApplyOutcome::Ended;
                }
                return ApplyOutcome::Drained;
            };
            if let Command::ShutDown = command {
                client.shut_down(now);
                return ApplyOutcome::Ended;
            }
            self.apply_one(command, client, now);
        }
        ApplyOutcome::More
    }

    /// Returns the next output for the transports. Delivers notices to their watches, and updates
    /// to their reviewers.
    #[must_use]
    pub fn poll_output(&mut self, client: &mut Client, now: Time) -> Option<Output> {
        loop {
            match client.poll_output()? {
                Output::Notify(watch, notice) => self.notify(watch, notice, client, now),
                Output::Update(id, update) => {
                    self.review_queue.put(id, update, |id| client.is_verdict_pending(id))
                }
                output => return Some(output),
            }
        }
    }

    fn next_command(&mut self) -> Option<Command> {
        if let Some(command) = self.ready.take() {
            return Some(command);
        }
        match self.commands.try_recv() {
            Ok(command) => Some(command),
            Err(why) => {
                self.handles_dropped |= why.is_closed();
                None
            }
        }
    }

    fn apply_one(&mut self, command: Command, client: &mut Client, now: Time) {
        match command {
            Command::Watch { type_url, name, slot } => {
                self.watch(client, &type_url, Interest::Name(name.as_str()), slot, now);
            }
            Command::WatchAll { type_url, glob, slot } => {
                let glob = glob.as_ref().map(|glob| Interest::Glob(glob.as_str()));
                self.watch(client, &type_url, glob.unwrap_or(Interest::Wildcard), slot, now);
            }
            Command::Unwatch(slot) => {
                if let Some(watch) = slot.view().watch() {
                    self.slots.remove(&watch);
                    client.unwatch(watch, now);
                }
            }
            Command::Handled(slot) => settle(&slot, client, now),
            Command::Pull(slot) => pull(&slot, client, now),
            // No effect if the channel has ended; the next channel receives the response again.
            Command::Settle(update, rejected) => drop(client.submit_verdict(update, rejected, now)),
            Command::PutBack(id, update) => {
                if client.is_verdict_pending(id) {
                    self.review_queue.put_back(id, update);
                }
            }
            Command::AddStatic { type_url, resource, sender } => {
                let added = client.add_static_resource(&type_url, resource, now);
                // The resource is added even if the caller has dropped the future.
                let _ = sender.send(added);
            }
            Command::Inspect(inspection) => inspection.perform(client, self.system_time.read(now)),
            Command::ResetBackoff => client.reset_backoff(now),
            Command::SetNode(node) => client.set_node(*node, now),
            Command::ShutDown => client.shut_down(now),
            Command::AwaitEnd(guard) => {
                self.waiting_for_end.retain(|waiting| !waiting.is_canceled());
                self.waiting_for_end.push(guard);
            }
        }
    }

    fn watch(
        &mut self,
        client: &mut Client,
        type_url: &TypeUrl,
        interest: Interest<'_>,
        slot: PendingSlot,
        now: Time,
    ) {
        let Some(slot) = slot.claim() else { return };
        match client.watch(type_url, interest, now) {
            Ok(watch) => {
                slot.view().claim(watch);
                self.slots.insert(watch, slot);
            }
            Err(why) => slot.view().refuse(why),
        }
    }

    fn notify(&self, watch: WatchId, notice: Notice, client: &mut Client, now: Time) {
        match self.slots.get(&watch) {
            Some(Slot::Named(slot)) => slot.put(notice),
            Some(Slot::All(slot)) => {
                if slot.mark_changed() {
                    pull(slot, client, now);
                }
            }
            None => client.handled(watch, now),
        }
    }
}

/// Moves a batch of changes from the core to a slot.
fn pull(slot: &Arc<AllSlot>, client: &mut Client, now: Time) {
    let Some(watch) = slot.watch() else { return };
    slot.fill(|| client.next_change(watch));
    settle(&Slot::All(Arc::clone(slot)), client, now);
}

/// Notifies the core that a watcher has handled its items. Checked again here, because a new notice
/// may have arrived since the watcher sent its command.
fn settle(slot: &Slot, client: &mut Client, now: Time) {
    if let Some(watch) = slot.view().watch()
        && slot.view().is_handled()
    {
        client.handled(watch, now);
    }
}

impl Drop for DriverSide {
    fn drop(&mut self) {
        // The slots of watches that were not created yet are dropped with their commands.
        self.slots.values().for_each(|slot| slot.view().end());
        self.review_queue.end();
    }
}
