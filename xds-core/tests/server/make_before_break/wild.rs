//! Additional events of wild walks, and their end.

use super::{
    Duration, Habit, StreamEvent, StreamKind, VIEWS, Variant, World,
    client::{self, Client},
    target::Extent,
};
use std::fmt::Write as _;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Nature {
    /// Only changes and answers.
    Tame,
    Wild,
}

impl World {
    pub(super) fn run_wild(&mut self, index: usize) {
        match self.dice.roll(8) {
            0 => self.reconnect(index),
            1 | 2 => self.move_to_the_other(index),
            _ => {
                let time = Duration::from_millis(self.dice.roll(3_000));
                self.wait(time);
            }
        }
    }

    /// Lets time pass like a driver that sleeps exactly to the next deadline.
    pub(super) fn wait(&mut self, time: Duration) {
        writeln!(self.log, "{time:?} pass").unwrap();
        let until = self.now.after(time);
        while let Some(next) = self.server.poll_timeout().filter(|next| next.at <= until) {
            self.now = self.now.max(next.at);
            self.server.handle_timeout(self.now);
            self.drain();
        }
        self.now = until;
    }

    fn reconnect(&mut self, index: usize) {
        writeln!(self.log, "{index} reconnects").unwrap();
        let (now, variant) = (self.now, self.clients[index].variant);
        self.server.handle_event(StreamEvent::Closed(self.clients[index].stream), now);
        let stream = self.server.accept(StreamKind::Aggregated(variant), now).unwrap();
        let client = &mut self.clients[index];
        client.reconnect(stream);
        client.excused |= client.variant == Variant::StateOfTheWorld;
        let view = VIEWS[client.view].into();
        self.server.assign(stream, &view, now);
        self.drain();
        self.ask(index);
    }

    fn move_to_the_other(&mut self, index: usize) {
        let client = &mut self.clients[index];
        client.view = 1 - client.view;
        let (stream, view) = (client.stream, VIEWS[client.view]);
        writeln!(self.log, "{index} sees {view:?}").unwrap();
        self.server.assign(stream, &view.into(), self.now);
        self.drain();
    }

    /// Checks the guarantee for a client.
    pub(super) fn judge(&mut self, index: usize) {
        let client = &mut self.clients[index];
        if client.excused
            && client.has_all(&self.targets[client.view].resources())
            && (!client.is_late || client.is_answered())
            && (client.variant == Variant::Incremental || !client.has_from_before())
        {
            (client.excused, client.is_late) = (false, false);
        }
        if !client.excused
            && let Some(why) = client.broken()
        {
            self.violation = Some(format!("client {index}: {why}"));
        }
    }

    /// Repairs rejected resources, after which every reading client has everything without a
    /// timeout. One changed cluster suffices for state of the world; an incremental client needs
    /// changes of all, because rejected resources are re-sent only once.
    pub(super) fn end_well(&mut self) {
        self.is_ending = true;
        let in_full = |it: &Client| it.variant == Variant::StateOfTheWorld;
        self.repair(Extent::One, in_full);
        if self.violation.is_none() {
            self.repair(Extent::All, |_| true);
        }
    }

    fn repair(&mut self, extent: Extent, is_content: impl Fn(&Client) -> bool) {
        for view in 0..self.views() {
            self.targets[view].repair(extent, &client::dislikes);
            self.publish(view);
        }
        // The server repeats a withheld resource in its last version if it does not know the version
        // that the client has. One that the client always rejects cannot be repaired.
        let is_unknown = |it: &&mut Client| it.came_back && it.variant == Variant::StateOfTheWorld;
        for client in self.clients.iter_mut().filter(is_unknown) {
            if client.habit == Habit::Particular {
                client.habit = Habit::Accepts;
            }
        }
        self.settle(|it| it.habit != Habit::Stalls && is_content(it));
    }
}
