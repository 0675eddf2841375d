//! Socket files: made for a server, and removed with it.

use std::{
    fs, io,
    os::{
        fd::OwnedFd,
        unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _},
    },
    path::Path,
    sync::Arc,
};

use socket2::{Domain, SockAddr, Socket, Type};

use super::listen_address::UnixSocket;
use crate::runtime::StdUnixListener;

/// How many connections the system keeps for a server that is about to accept them.
const BACKLOG: i32 = 1_024;

/// A socket file of this process. Dropping it removes the file, unless it has been replaced by another one.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: Arc<Path>,
    /// What tells the file from another one of this path: its device and its inode.
    id: (u64, u64),
}

impl SocketFile {
    /// Listens on a socket file, which must not be in use.
    pub(crate) fn bind(socket: &UnixSocket) -> io::Result<(StdUnixListener, Self)> {
        let (path, mode) = (socket.path(), socket.mode());
        let address = SockAddr::unix(path).map_err(|_| {
            let why =
                format!("the path of a socket cannot be so long: {} bytes", path.as_os_str().len());
            io::Error::new(io::ErrorKind::InvalidInput, why)
        })?;
        remove_if_left_behind(path, &address)?;
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        socket.set_nonblocking(true)?;
        socket.bind(&address)?;
        let metadata = fs::symlink_metadata(path)?;
        let file = Self { path: path.into(), id: (metadata.dev(), metadata.ino()) };
        // Nobody can connect before the socket listens.
        fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
        socket.listen(BACKLOG)?;
        Ok((StdUnixListener::from(OwnedFd::from(socket)), file))
    }

    pub(crate) fn path(&self) -> &Arc<Path> {
        &self.path
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let is_own = |metadata: fs::Metadata| (metadata.dev(), metadata.ino()) == self.id;
        if fs::symlink_metadata(&self.path).is_ok_and(is_own) {
            // It is harmless if it stays: the next server replaces it.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Removes the socket file of a server that has ended.
fn remove_if_left_behind(path: &Path, address: &SockAddr) -> io::Result<()> {
    let metadata = match fs::symlink_metadata(path) {
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    if !metadata.file_type().is_socket() {
        let why =
            "there is a file of this name that is not a socket: remove it, or choose another path";
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
    }
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    // A server whose queue is full is alive.
    socket.set_nonblocking(true)?;
    let why = match socket.connect(address) {
        Err(why) if why.kind() == io::ErrorKind::ConnectionRefused => {
            return fs::remove_file(path);
        }
        Err(why) if why.kind() == io::ErrorKind::PermissionDenied => {
            "there is a socket of another user: remove it, or choose another path"
        }
        _ => "another server listens on this socket: end it, or choose another path",
    };
    Err(io::Error::new(io::ErrorKind::AddrInUse, why))
}

#[cfg(test)]
mod tests {
    use std::{os::unix::net::UnixStream, path::PathBuf};

    use super::*;

    /// A folder of its own, which is removed when it is dropped.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("xds-{name}-{}", std::process::id()));
            fs::create_dir_all(&folder).expect("a folder");
            Self(folder)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_socket_is_of_its_owner_and_removed_with_the_listener() {
        let folder = Folder::new("socket-owner");
        let path = folder.0.join("s");
        let (listener, file) = SocketFile::bind(&UnixSocket::new(&path)).expect("a socket");
        let mode = fs::metadata(&path).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        UnixStream::connect(&path).expect("somebody listens");
        drop((listener, file));
        assert!(!path.exists());
        let wide = UnixSocket::new(&path).with_mode(0o666);
        let _bound = SocketFile::bind(&wide).expect("a socket");
        let mode = fs::metadata(&path).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o666);
    }

    #[test]
    fn what_a_dead_server_left_is_replaced_and_a_live_one_is_not() {
        let folder = Folder::new("socket-left");
        let path = folder.0.join("s");
        let socket = UnixSocket::new(&path);
        // As after a crash: the listener is gone, and the file is there.
        drop(std::os::unix::net::UnixListener::bind(&path).expect("a socket"));
        assert!(path.exists());
        let (listener, file) = SocketFile::bind(&socket).expect("the file is replaced");
        let refused = SocketFile::bind(&socket).expect_err("the other one is alive");
        assert_eq!(refused.kind(), io::ErrorKind::AddrInUse);
        assert!(refused.to_string().contains("another server listens"), "{refused}");
        UnixStream::connect(&path).expect("it still listens");

        // Another one has taken the path since.
        fs::remove_file(&path).expect("the file is there");
        let other = std::os::unix::net::UnixListener::bind(&path).expect("a socket");
        drop((listener, file));
        UnixStream::connect(&path).expect("that of the other one stays");
        drop(other);
    }

    #[test]
    fn what_is_no_socket_stays_and_the_error_says_so() {
        let folder = Folder::new("socket-file");
        let path = folder.0.join("precious");
        fs::write(&path, "data").expect("a file");
        let refused = SocketFile::bind(&UnixSocket::new(&path)).expect_err("no socket");
        assert!(refused.to_string().contains("not a socket"), "{refused}");
        assert_eq!(fs::read(&path).expect("the file"), b"data");
        let long = UnixSocket::new(folder.0.join("x".repeat(200)));
        let refused = SocketFile::bind(&long).expect_err("too long");
        assert!(refused.to_string().contains("cannot be so long"), "{refused}");
    }
}
