//! Socket files of Unix domain sockets, created and removed with a server.
//!
//! Several servers, even in different processes, may start and end with the same path at the same
//! time. No server removes the file of another running server:
//!
//! - A server holds the lock of the path ([`Lock`]) while it examines the path, replaces a stale
//!   file and listens, and while it removes its file. So a starting server finds no file, the file
//!   of a listening server, or a stale file. It distinguishes the latter two by connecting. No
//!   other server can be between binding and listening.
//! - A server that ends compares the file with its own by device and inode. [`SocketFile`] keeps
//!   the socket open, so the inode is not reused.
//!
//! A program that does not take the lock may be mistaken for one that has ended while it has bound
//! its socket but does not listen yet.

use core::time::Duration;
use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions, TryLockError},
    io,
    os::{
        fd::OwnedFd,
        unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _},
    },
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::Instant,
};

use socket2::{Domain, SockAddr, Socket, Type};

use crate::{address::UnixSocket, runtime::StdUnixListener, socket::BACKLOG};

/// Maximum time to wait for the lock. Other servers hold it only while they bind a socket or remove
/// a file.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
const LOCK_PAUSE: Duration = Duration::from_millis(1);

/// Socket file of this process. Dropping it removes the file, unless it was replaced.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: Arc<Path>,
    /// Device and inode, which distinguish the file from another one with the same path.
    id: (u64, u64),
    /// Listening socket, kept open so that the inode is not reused.
    _socket: OwnedFd,
}

impl SocketFile {
    /// Listens on a socket file. The file must not be in use.
    pub(crate) fn bind(socket: &UnixSocket) -> io::Result<(StdUnixListener, Self)> {
        let (path, mode) = (socket.path(), socket.mode());
        let address = SockAddr::unix(path).map_err(|_| {
            let why =
                format!("the path of the socket is too long: {} bytes", path.as_os_str().len());
            io::Error::new(io::ErrorKind::InvalidInput, why)
        })?;
        let _lock = Lock::take(path)?;
        remove_if_left_behind(path, &address)?;
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        socket.set_nonblocking(true)?;
        socket.bind(&address)?;
        let listen = || {
            // Clients cannot connect before the socket listens.
            fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
            socket.listen(BACKLOG)?;
            let id = id_of(&fs::symlink_metadata(path)?);
            Ok(Self { path: path.into(), id, _socket: socket.try_clone()?.into() })
        };
        match listen() {
            Ok(file) => Ok((StdUnixListener::from(OwnedFd::from(socket)), file)),
            Err(why) => {
                let _ = fs::remove_file(path);
                Err(why)
            }
        }
    }

    pub(crate) fn path(&self) -> &Arc<Path> {
        &self.path
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // If removal fails, the next server replaces the file.
        let Ok(_lock) = Lock::take(&self.path) else { return };
        if fs::symlink_metadata(&self.path).is_ok_and(|metadata| id_of(&metadata) == self.id) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Returns the device and inode of a file.
fn id_of(metadata: &fs::Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

/// Exclusive lock of a path's lock file `PATH.lock`. It permits replacing or removing the socket
/// file. The lock file is removed when the lock is dropped.
struct Lock {
    path: PathBuf,
    _file: File,
}

impl Lock {
    /// Waits for the lock.
    fn take(socket: &Path) -> io::Result<Self> {
        let mut path = OsString::from(socket);
        path.push(".lock");
        let path = PathBuf::from(path);
        let fails = |why: io::Error| {
            io::Error::new(why.kind(), format!("cannot lock {}: {why}", path.display()))
        };
        let began = Instant::now();
        loop {
            if let Some(file) = try_lock(&path).map_err(fails)? {
                return Ok(Self { path, _file: file });
            }
            if began.elapsed() > LOCK_TIMEOUT {
                let why =
                    "another process holds the lock: stop that process, or choose another path";
                return Err(fails(io::Error::new(io::ErrorKind::TimedOut, why)));
            }
            thread::sleep(LOCK_PAUSE);
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Removes the file while it is still locked.
        let _ = fs::remove_file(&self.path);
    }
}

/// Creates and locks a file. Returns `None` if another process or thread holds the lock.
fn try_lock(path: &Path) -> io::Result<Option<File>> {
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(false).mode(0o600).open(path)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(why)) => return Err(why),
    }
    // The previous holder may have removed the file after it was opened here. Such a lock is
    // ineffective.
    let own = id_of(&file.metadata()?);
    let is_there = fs::metadata(path).is_ok_and(|metadata| id_of(&metadata) == own);
    Ok(is_there.then_some(file))
}

/// Removes a stale socket file.
fn remove_if_left_behind(path: &Path, address: &SockAddr) -> io::Result<()> {
    let metadata = match fs::symlink_metadata(path) {
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    if !metadata.file_type().is_socket() {
        let why = "the file exists and is not a socket: remove it, or choose another path";
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
    }
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    // A server whose queue is full is running.
    socket.set_nonblocking(true)?;
    let why = match socket.connect(address) {
        Err(why) if why.kind() == io::ErrorKind::ConnectionRefused => {
            return fs::remove_file(path);
        }
        Err(why) if why.kind() == io::ErrorKind::PermissionDenied => {
            "the socket belongs to another user: remove it, or choose another path"
        }
        _ => "another server listens on this socket: stop it, or choose another path",
    };
    Err(io::Error::new(io::ErrorKind::AddrInUse, why))
}

#[cfg(test)]
mod tests {
    use std::{
        os::unix::net::{UnixListener, UnixStream},
        sync::{Barrier, Mutex},
    };

    use super::*;

    /// Temporary directory, removed when dropped.
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
    fn socket_file_is_owner_only_and_removed_with_the_listener() {
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
    fn stale_socket_file_is_replaced_and_a_live_one_is_not() {
        let folder = Folder::new("socket-left");
        let path = folder.0.join("s");
        let socket = UnixSocket::new(&path);
        // As after a crash: the listener is gone, the file is left.
        drop(UnixListener::bind(&path).expect("a socket"));
        assert!(path.exists());
        let (listener, file) = SocketFile::bind(&socket).expect("the file is replaced");
        let refused = SocketFile::bind(&socket).expect_err("the other one is alive");
        assert_eq!(refused.kind(), io::ErrorKind::AddrInUse);
        assert!(refused.to_string().contains("another server listens"), "{refused}");
        UnixStream::connect(&path).expect("it still listens");

        // Another server has taken the path.
        fs::remove_file(&path).expect("the file is there");
        let other = UnixListener::bind(&path).expect("a socket");
        drop((listener, file));
        UnixStream::connect(&path).expect("that of the other one stays");
        drop(other);
    }

    /// Calls a function on `count` threads at the same moment.
    fn at_once<T: Send>(count: usize, call: impl Fn(usize) -> T + Sync) -> Vec<T> {
        let (barrier, results) = (Barrier::new(count), Mutex::new(Vec::new()));
        let run = |at| {
            barrier.wait();
            let result = call(at);
            results.lock().expect("no panic").push(result);
        };
        thread::scope(|scope| {
            let run = &run;
            for at in 0..count {
                scope.spawn(move || run(at));
            }
        });
        results.into_inner().expect("no panic")
    }

    #[test]
    fn one_of_several_concurrent_servers_binds_the_socket_path() {
        let folder = Folder::new("socket-race");
        let path = folder.0.join("s");
        let socket = UnixSocket::new(&path);
        for round in 0..300 {
            if round % 3 > 0 {
                drop(UnixListener::bind(&path).expect("a socket"));
            }
            let results = at_once(4, |_| SocketFile::bind(&socket));
            let (bound, refused): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
            assert_eq!(bound.len(), 1, "round {round}: {refused:?}");
            for why in refused.into_iter().filter_map(Result::err) {
                assert_eq!(why.kind(), io::ErrorKind::AddrInUse, "round {round}: {why}");
            }
            UnixStream::connect(&path).unwrap_or_else(|why| panic!("round {round}: {why}"));
            drop(bound);
            assert_eq!(fs::read_dir(&folder.0).expect("the folder").count(), 0, "round {round}");
        }
    }

    #[test]
    fn ending_server_does_not_remove_the_socket_of_a_new_one() {
        let folder = Folder::new("socket-end-race");
        let path = folder.0.join("s");
        let socket = UnixSocket::new(&path);
        let mut started = 0;
        for round in 0..300 {
            let bound = SocketFile::bind(&socket).expect("the path is free");
            let ending = Mutex::new(Some(bound));
            let results = at_once(2, |at| match at {
                0 => {
                    drop(ending.lock().expect("no panic").take());
                    None
                }
                _ => SocketFile::bind(&socket).ok(),
            });
            let bound = results.into_iter().flatten().next();
            started += usize::from(bound.is_some());
            let is_reached = UnixStream::connect(&path).is_ok();
            assert_eq!((is_reached, path.exists()), (bound.is_some(), bound.is_some()), "{round}");
        }
        assert!(started > 0, "no server started after the other one had ended");
    }

    #[test]
    fn regular_file_at_the_socket_path_is_kept_and_reported() {
        let folder = Folder::new("socket-file");
        let path = folder.0.join("precious");
        fs::write(&path, "data").expect("a file");
        let refused = SocketFile::bind(&UnixSocket::new(&path)).expect_err("no socket");
        assert!(refused.to_string().contains("not a socket"), "{refused}");
        assert_eq!(fs::read(&path).expect("the file"), b"data");
        let long = UnixSocket::new(folder.0.join("x".repeat(200)));
        let refused = SocketFile::bind(&long).expect_err("too long");
        assert!(refused.to_string().contains("is too long"), "{refused}");
    }
}
