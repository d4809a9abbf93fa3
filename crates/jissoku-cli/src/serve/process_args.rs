//! The user of the process and its pid file.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use clap::Args;
use jissoku_os::privilege;
use jissoku_os::socket::Endpoint;

use super::failure::{Failure, print_error};

/// Flags for the process itself. They apply at start-up and not at a reload.
#[derive(Debug, Args)]
pub(super) struct ProcessArgs {
    /// User to run as after binding the listeners, by name or number
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// Group to run as instead of the user's own
    #[arg(long, value_name = "GROUP", requires = "user")]
    group: Option<String>,
    /// Write the process id to FILE once the server is ready
    #[arg(long, value_name = "FILE")]
    pid_file: Option<PathBuf>,
    /// Print nothing at start but the addresses
    #[arg(long)]
    pub(super) quiet: bool,
}

impl ProcessArgs {
    /// Looks up `--user` and `--group`.
    pub(super) fn find(&self) -> Result<Option<privilege::UserIds>, Failure> {
        let user = self.user.as_ref();
        user.map(|user| privilege::UserIds::find(user, self.group.as_deref()))
            .transpose()
            .map_err(|error| Failure::of_input(&error))
    }

    /// Opens the pid file, before privileges are dropped.
    pub(super) fn pid_file(&self) -> Result<Option<PidFile>, Failure> {
        self.pid_file.as_deref().map(PidFile::open).transpose()
    }

    /// Warns when root serves a public address.
    pub(super) fn warn(&self, endpoints: &[Endpoint]) {
        let faces_others = |endpoint: &Endpoint| match endpoint {
            Endpoint::Tcp(address) => !address.ip().is_loopback(),
            Endpoint::Unix(_) => false,
        };
        if self.user.is_none() && privilege::is_root() && endpoints.iter().any(faces_others) {
            print_error("warning: serving the network as root; use --user to drop privileges");
        }
    }
}

/// A pid file, removed when dropped.
#[derive(Debug)]
pub(super) struct PidFile {
    path: PathBuf,
    file: File,
}

impl PidFile {
    /// Opens without truncating: the predecessor may still be running.
    fn open(path: &Path) -> Result<Self, Failure> {
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(path);
        let file = file.map_err(|error| {
            Failure::of_input(&format!("cannot write {}: {error}", path.display()))
        })?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// Writes the id of this process.
    pub(super) fn fill(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        writeln!(self.file, "{}", std::process::id())
    }
}

impl AsFd for PidFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        let text = std::fs::read_to_string(&self.path).unwrap_or_default();
        // A successor may have written its own id.
        if text.is_empty() || text.trim() == std::process::id().to_string() {
            // After privileges were dropped this may fail, and the stale file is harmless.
            let _gone = std::fs::remove_file(&self.path);
        }
    }
}
