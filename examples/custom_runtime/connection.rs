//! TCP connection on which a message is its length followed by its bytes.

use std::net::{Shutdown, TcpStream};
use std::sync::mpsc::{Sender, channel};
use std::{io, io::Read, io::Write, thread, time::Duration};

use bytes::Bytes;
use xds_core::Frame;

/// Maximum length of a message in bytes. A longer one ends the connection.
const MAX_LENGTH: u32 = 4 << 20;

/// Connection whose messages a thread reads, one for each permit.
pub(crate) struct Connection {
    socket: TcpStream,
    permits: Sender<()>,
    /// Whether the thread has a permit that it has not answered with a message.
    pub(crate) is_reading: bool,
}

impl Connection {
    /// `event` turns a message, or the end of the connection, into an event for the inbox.
    pub(crate) fn new<E: Send + 'static>(
        socket: TcpStream,
        inbox: Sender<E>,
        event: impl Fn(Option<Bytes>) -> E + Send + 'static,
    ) -> io::Result<Self> {
        let (permits, granted) = channel();
        let reads = socket.try_clone()?;
        // A peer that does not read delays the whole loop, but no longer than this.
        socket.set_write_timeout(Some(Duration::from_secs(5)))?;
        thread::spawn(move || {
            for () in granted {
                let message = read(&reads).ok();
                let is_end = message.is_none();
                if inbox.send(event(message)).is_err() || is_end {
                    return;
                }
            }
        });
        Ok(Self { socket, permits, is_reading: false })
    }

    pub(crate) fn permit_reading(&mut self) {
        self.is_reading = self.is_reading || self.permits.send(()).is_ok();
    }

    pub(crate) fn write(&mut self, frame: &Frame) -> io::Result<()> {
        self.socket.write_all(&(frame.len() as u32).to_be_bytes())?;
        self.socket.write_all(&frame.head).and_then(|()| self.socket.write_all(&frame.body))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}

fn read(mut socket: &TcpStream) -> io::Result<Bytes> {
    let mut length = [0; 4];
    socket.read_exact(&mut length)?;
    let length = u32::from_be_bytes(length);
    if length > MAX_LENGTH {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the message is too long"));
    }
    let mut message = vec![0; length as usize];
    socket.read_exact(&mut message).map(|()| message.into())
}
