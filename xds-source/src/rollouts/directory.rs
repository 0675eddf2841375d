//! State of rollouts in a directory, so that a rollout continues after a restart.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use xds_core::rollout::{RolloutId, RolloutState, StoreResult};

use super::{
    contents::{StoredResource, decode_contents, encode_contents},
    store::{EndedRollout, MAX_ENDED},
};

/// Directory with the state of the rollouts of one server ([`RolloutState`]), the resources that
/// this state refers to, and the rollouts that have ended.
///
/// | file | content |
/// |---|---|
/// | `state` | the state, one line of text |
/// | `contents-N.pb` | all resources with the number N; those of the state and of its stable number are kept |
/// | `history` | ended rollouts, one line each: seconds since 1970, and the last state |
/// | `progress.json` | progress of the rollout under way, as its server has reported it |
///
/// The directory is created with mode 0700 and its files with mode 0600, because the resources may be
/// secrets. A file is replaced as a whole, so a crash leaves the earlier one. All calls block on the
/// disk.
///
/// ```
/// use xds_core::rollout::{RolloutCommand, RolloutId, RolloutState, StoreResult};
/// use xds_source::RolloutDirectory;
///
/// # let path = std::env::temp_dir().join(format!("xds-rollout-doc-{}", std::process::id()));
/// let directory = RolloutDirectory::open(&path)?;
/// let running: RolloutState =
///     "xds-rollout/1 id=2 generation=1 phase=running step=1/2 stable=1 why=".parse()?;
/// assert_eq!(directory.replace(&running)?, StoreResult::Stored);
///
/// // A command is the next state. The server that follows the directory continues from it.
/// let paused = running.commanded(RolloutCommand::Pause)?;
/// assert_eq!(directory.replace(&paused)?, StoreResult::Stored);
/// let aborted = running.commanded(RolloutCommand::Abort)?;
/// assert_eq!(directory.replace(&aborted)?, StoreResult::Conflict(paused));
/// # std::fs::remove_dir_all(path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct RolloutDirectory {
    path: PathBuf,
    /// Held while a server uses the directory.
    _server: Option<File>,
}

impl RolloutDirectory {
    /// Opens a directory, which is created if it does not exist.
    ///
    /// # Errors
    ///
    /// Returns an error if the directory cannot be created.
    pub fn open(path: impl Into<PathBuf>) -> io::Result<Self> {
        let path = path.into();
        let mut builder = DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&path)?;
        Ok(Self { path, _server: None })
    }

    /// Opens a directory for the server that performs its rollouts, and locks it until the value is
    /// dropped.
    ///
    /// # Errors
    ///
    /// Returns an error if the directory cannot be created, or if another server has locked it.
    pub fn open_for_server(path: impl Into<PathBuf>) -> io::Result<Self> {
        let mut opened = Self::open(path)?;
        let file = opened.lock_file("server.lock")?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let why = format!("another server uses {}", opened.path.display());
                return Err(io::Error::new(io::ErrorKind::ResourceBusy, why));
            }
            Err(TryLockError::Error(why)) => return Err(why),
        }
        opened._server = Some(file);
        Ok(opened)
    }

    /// Returns the file with the state, to watch it.
    #[must_use]
    pub fn state_file(&self) -> PathBuf {
        self.path.join("state")
    }

    /// Reads the state; `None` if there is none yet.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read or is malformed.
    pub fn state(&self) -> io::Result<Option<RolloutState>> {
        let Some(bytes) = self.read("state")? else { return Ok(None) };
        let text = String::from_utf8_lossy(&bytes);
        let state = text.parse().map_err(|why| invalid(&self.state_file(), &why))?;
        Ok(Some(state))
    }

    /// Replaces the state if it directly follows the stored one: its generation is one higher, or
    /// nothing is stored. Storing the stored state again succeeds. A final state is also added to
    /// the history.
    ///
    /// # Errors
    ///
    /// Returns an error if the files cannot be read or written.
    pub fn replace(&self, state: &RolloutState) -> io::Result<StoreResult> {
        let lock = self.lock_file("state.lock")?;
        lock.lock()?;
        if let Some(result) = StoreResult::without_write(self.state()?, state) {
            return Ok(result);
        }
        self.write("state", format!("{state}\n").as_bytes())?;
        if let Some(ended) = EndedRollout::now(state) {
            self.add_to_history(&ended)?;
        }
        Ok(StoreResult::Stored)
    }

    /// Reads the resources of a rollout; `None` if none are stored. Id 0 never has resources.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read or is malformed.
    pub fn contents(&self, id: RolloutId) -> io::Result<Option<Vec<StoredResource>>> {
        if id == RolloutId::default() {
            return Ok(Some(Vec::new()));
        }
        let name = contents_file(id);
        let Some(bytes) = self.read(&name)? else { return Ok(None) };
        let resources =
            decode_contents(bytes.into()).map_err(|why| invalid(&self.path.join(name), &why))?;
        Ok(Some(resources))
    }

    /// Saves the resources of a rollout. Call this before storing a state that refers to the
    /// rollout.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be written.
    pub fn save_contents(&self, id: RolloutId, resources: &[StoredResource]) -> io::Result<()> {
        self.write(&contents_file(id), &encode_contents(resources))
    }

    /// Deletes the resources that no later state can refer to: those of rollouts before `state.id`,
    /// except `state.stable`.
    ///
    /// # Errors
    ///
    /// Returns an error if the directory cannot be read or a file cannot be deleted.
    pub fn clean(&self, state: &RolloutState) -> io::Result<()> {
        for entry in fs::read_dir(&self.path)? {
            let name = entry?.file_name();
            let number = name.to_str().and_then(|it| it.strip_prefix("contents-"));
            let number = number.and_then(|it| it.strip_suffix(".pb")?.parse::<u64>().ok());
            if number.is_some_and(|it| it < state.id.0 && it != state.stable.0) {
                fs::remove_file(self.path.join(name))?;
            }
        }
        Ok(())
    }

    /// Returns the ended rollouts, oldest first; at most about 1,000. Malformed lines are skipped.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read.
    pub fn history(&self) -> io::Result<Vec<EndedRollout>> {
        let bytes = self.read("history")?.unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        Ok(text.lines().filter_map(|line| line.parse().ok()).collect())
    }

    /// Returns the progress that the server has reported last, as JSON; `None` if there is none.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read.
    pub fn progress(&self) -> io::Result<Option<String>> {
        let bytes = self.read("progress.json")?;
        Ok(bytes.map(|it| String::from_utf8_lossy(&it).into_owned()))
    }

    /// Replaces the progress.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be written.
    pub fn report_progress(&self, json: &str) -> io::Result<()> {
        self.write("progress.json", json.as_bytes())
    }

    fn add_to_history(&self, ended: &EndedRollout) -> io::Result<()> {
        let bytes = self.read("history")?.unwrap_or_default();
        let mut text = String::from_utf8_lossy(&bytes).into_owned();
        let lines = text.lines().count();
        if lines >= MAX_ENDED {
            text = text.lines().skip(lines + 1 - MAX_ENDED).map(|it| format!("{it}\n")).collect();
        }
        self.write("history", format!("{text}{ended}\n").as_bytes())
    }

    fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        let path = self.path.join(name);
        match fs::read(&path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(why) => Err(in_file(&path, &why)),
        }
    }

    /// Writes a file as a whole.
    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let path = self.path.join(name);
        let new = self.path.join(format!(".{name}.{}", std::process::id()));
        let write = || {
            // Of an earlier process with this number.
            let _ = fs::remove_file(&new);
            let mut file = owner_only().write(true).create_new(true).open(&new)?;
            file.write_all(bytes)?;
            file.sync_all()?;
            fs::rename(&new, &path)
        };
        write().map_err(|why| {
            let _ = fs::remove_file(&new);
            in_file(&path, &why)
        })
    }

    fn lock_file(&self, name: &str) -> io::Result<File> {
        let path = self.path.join(name);
        let file = owner_only().write(true).create(true).truncate(false).open(&path);
        file.map_err(|why| in_file(&path, &why))
    }
}

fn contents_file(id: RolloutId) -> String {
    format!("contents-{}.pb", id.0)
}

fn owner_only() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

fn in_file(path: &Path, why: &io::Error) -> io::Error {
    io::Error::new(why.kind(), format!("{}: {why}", path.display()))
}

fn invalid(path: &Path, why: &dyn core::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{}: {why}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use xds_core::types;

    use super::*;

    struct Temporary(PathBuf);

    impl Temporary {
        fn new() -> Self {
            static COUNT: AtomicU32 = AtomicU32::new(0);
            let number = COUNT.fetch_add(1, Ordering::Relaxed);
            let name = format!("xds-rollouts-{}-{number}", std::process::id());
            Self(std::env::temp_dir().join(name))
        }
    }

    impl Drop for Temporary {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn state(id: u64, generation: u64, phase: &str, stable: u64) -> RolloutState {
        let text = format!(
            "xds-rollout/1 id={id} generation={generation} phase={phase} step=1/2 stable={stable} why="
        );
        text.parse().unwrap()
    }

    fn resource(name: &str) -> StoredResource {
        StoredResource {
            view: "edge".into(),
            type_url: types::CLUSTER.into(),
            name: name.into(),
            bytes: bytes::Bytes::from(name.to_owned()),
            revision: 7,
        }
    }

    #[test]
    fn state_is_replaced_only_by_the_next_generation() {
        let temporary = Temporary::new();
        let directory = RolloutDirectory::open(&temporary.0).unwrap();
        assert_eq!(directory.state().unwrap(), None);
        let first = state(2, 5, "running", 1);
        for _ in 0..2 {
            assert_eq!(directory.replace(&first).unwrap(), StoreResult::Stored);
        }
        let other = RolloutDirectory::open(&temporary.0).unwrap();
        assert_eq!(other.replace(&state(2, 6, "halted", 1)).unwrap(), StoreResult::Stored);
        let late = directory.replace(&state(2, 6, "completed", 2)).unwrap();
        assert_eq!(late, StoreResult::Conflict(state(2, 6, "halted", 1)));
        assert_eq!(directory.history().unwrap(), []);
        directory.replace(&state(2, 7, "rolled-back", 1)).unwrap();
        let ended: Vec<_> = directory.history().unwrap().into_iter().map(|it| it.state).collect();
        assert_eq!(ended, [state(2, 7, "rolled-back", 1)]);
    }

    #[test]
    fn history_has_a_limited_length() {
        let temporary = Temporary::new();
        let directory = RolloutDirectory::open(&temporary.0).unwrap();
        let line = format!("1 {}\n", state(1, 1, "completed", 1));
        fs::write(temporary.0.join("history"), line.repeat(MAX_ENDED)).unwrap();
        directory.replace(&state(2, 2, "completed", 2)).unwrap();
        let history = directory.history().unwrap();
        assert_eq!(
            (history.len(), &history[MAX_ENDED - 1].state),
            (MAX_ENDED, &state(2, 2, "completed", 2))
        );
    }

    #[test]
    fn contents_are_kept_while_a_state_may_name_them() {
        let temporary = Temporary::new();
        let directory = RolloutDirectory::open(&temporary.0).unwrap();
        assert_eq!(directory.contents(RolloutId(0)).unwrap(), Some(Vec::new()));
        for id in 1..=4 {
            directory.save_contents(RolloutId(id), &[resource("a"), resource("b")]).unwrap();
        }
        assert_eq!(
            directory.contents(RolloutId(4)).unwrap(),
            Some(vec![resource("a"), resource("b")])
        );
        directory.clean(&state(3, 1, "running", 1)).unwrap();
        let kept = [1, 2, 3, 4].map(|id| directory.contents(RolloutId(id)).unwrap().is_some());
        assert_eq!(kept, [true, false, true, true]);
    }

    #[test]
    fn damaged_files_are_named() {
        let temporary = Temporary::new();
        let directory = RolloutDirectory::open(&temporary.0).unwrap();
        fs::write(directory.state_file(), "nonsense").unwrap();
        let why = directory.state().unwrap_err().to_string();
        assert!(why.contains("state: `nonsense` is not the state of a rollout"), "{why}");
        fs::write(temporary.0.join("contents-9.pb"), [0xff; 9]).unwrap();
        let why = directory.contents(RolloutId(9)).unwrap_err().to_string();
        assert!(why.contains("contents-9.pb: "), "{why}");
    }

    #[test]
    fn one_server_uses_the_directory_and_only_its_owner_reads_it() {
        let temporary = Temporary::new();
        let server = RolloutDirectory::open_for_server(&temporary.0).unwrap();
        let why = RolloutDirectory::open_for_server(&temporary.0).unwrap_err().to_string();
        assert!(why.contains("another server uses"), "{why}");
        server.save_contents(RolloutId(1), &[resource("a")]).unwrap();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;

            let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode(&temporary.0), 0o700);
            assert_eq!(mode(&temporary.0.join("contents-1.pb")), 0o600);
        }
        drop(server);
        RolloutDirectory::open_for_server(&temporary.0).unwrap();
    }
}
