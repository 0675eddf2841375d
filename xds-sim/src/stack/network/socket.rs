//! One end of a simulated connection.

use core::{
    fmt,
    future::Future as _,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};
use std::io;

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep, sleep_until},
};

use super::{
    ConnectionId, Network, UnitUnderWay,
    frames::WireUnit,
    pipe::{End, ReadOutcome},
    wire::WireAction,
};
use crate::trace::Extent;

/// End of a simulated connection, as an I/O object of tokio. Dropping it closes the connection.
pub struct Socket {
    network: Network,
    id: ConnectionId,
    /// 0 for the client, 1 for the server.
    side: usize,
    /// Arrival of the next bytes.
    arrival: Option<Pin<Box<Sleep>>>,
    /// Time after which TCP keepalive ends a connection that was lost without a sign.
    dead_after: Option<Duration>,
}

impl Socket {
    pub(super) fn new(network: &Network, id: ConnectionId, side: usize) -> Self {
        Self { network: network.clone(), id, side, arrival: None, dead_after: None }
    }

    pub(super) const fn id(&self) -> ConnectionId {
        self.id
    }

    /// Sets the time after which TCP keepalive ends the connection if it is lost without a sign.
    pub(crate) const fn set_dead_after(&mut self, dead_after: Duration) {
        self.dead_after = Some(dead_after);
    }

    fn read(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let Self { network, id, side, arrival, dead_after } = self;
        loop {
            if let Some(arrival) = arrival {
                ready!(arrival.as_mut().poll(cx));
            }
            *arrival = None;
            let mut state = network.lock();
            let Some(connection) = state.connections.get_mut(id) else {
                return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
            };
            let direction = &mut connection.directions[1 - *side];
            match direction.pipe.read(buf.remaining(), cx)? {
                ReadOutcome::Bytes(bytes) => {
                    direction.read += bytes.len() as u64;
                    buf.put_slice(&bytes);
                    let mut contents = Vec::new();
                    while direction.units.front().is_some_and(|unit| unit.end <= direction.read)
                        && let Some(unit) = direction.units.pop_front()
                    {
                        network.log.deliver(unit.id);
                        contents.extend(unit.content);
                    }
                    for (stream, unit) in contents {
                        state.note_wire(*id, *side, WireAction::Read { stream, unit });
                    }
                    return Poll::Ready(Ok(()));
                }
                ReadOutcome::Later(at) => *arrival = Some(Box::pin(sleep_until(at))),
                ReadOutcome::Waiting => {
                    let lost = direction.pipe.cut_since().zip(*dead_after);
                    let Some((since, dead_after)) = lost else { return Poll::Pending };
                    let dead_at = since + dead_after;
                    if dead_at <= Instant::now() {
                        return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
                    }
                    *arrival = Some(Box::pin(sleep_until(dead_at)));
                }
            }
        }
    }

    fn write(&self, cx: &Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut state = self.network.lock();
        let state = &mut *state;
        let Some(connection) = state.connections.get_mut(&self.id) else {
            return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
        };
        let hosts = connection.hosts;
        let direction = &mut connection.directions[self.side];
        let taken = ready!(direction.pipe.poll_write(bytes, cx))?;
        let log = &self.network.log;
        log.count_action();
        direction.written += taken.len() as u64;
        let lane = |host: usize| state.hosts[host].lane;
        let (from, to) = (lane(hosts[self.side]), lane(hosts[1 - self.side]));
        let mut rest = taken;
        let mut contents = Vec::new();
        for unit in direction.frames.read(taken, &mut connection.variants) {
            // The bytes are part of the hash once.
            let bytes = core::mem::take(&mut rest);
            let WireUnit { description, content, after } = unit;
            let id = log.send(from, to, bytes, || description);
            contents.extend(content.clone());
            if direction.pipe.is_lossy() {
                log.lost(id, "the connection was lost");
            } else {
                let end = direction.written - after as u64;
                direction.units.push_back(UnitUnderWay { end, id, content });
            }
        }
        if direction.goes_away && direction.go_away() {
            direction.goes_away = false;
            log.fault(&[from, to], Extent::Instant, "GOAWAY of a proxy");
        }
        for (stream, unit) in contents {
            state.note_wire(self.id, self.side, WireAction::Wrote { stream, unit });
        }
        Poll::Ready(Ok(taken.len()))
    }

    fn close(&self) {
        let mut state = self.network.lock();
        let Some(connection) = state.connections.get_mut(&self.id) else { return };
        self.network.log.count_action();
        let [own, other] = [self.side, 1 - self.side];
        connection.directions[own].pipe.end(End::Closed);
        // Nobody reads any more.
        connection.directions[other].pipe.end(End::Reset);
        connection.sockets -= 1;
        let is_last = connection.sockets == 0;
        state.note_wire(self.id, self.side, WireAction::Closed);
        if is_last {
            state.connections.remove(&self.id);
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // The bytes are copied, so those of the network are not those of a host.
        let memory = self.network.memory.clone();
        memory.of_simulation(|| self.read(cx, buf))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if bytes.is_empty() {
            return Poll::Ready(Ok(0));
        }
        self.network.memory.of_simulation(|| self.write(cx, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.network.lock();
        if let Some(connection) = state.connections.get_mut(&self.id) {
            self.network.log.count_action();
            connection.directions[self.side].pipe.end(End::Closed);
        }
        Poll::Ready(Ok(()))
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.network.memory.of_simulation(|| self.close());
    }
}

impl fmt::Debug for Socket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Socket").field("connection", &self.id).finish_non_exhaustive()
    }
}
