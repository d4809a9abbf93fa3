//! Who the process is to others: its user, and the file that names it.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use clap::Args;
use jissoku_os::privilege;
use jissoku_os::socket::Endpoint;

use super::failure::{Failure, complain};

/// Flags about the process itself. They are obeyed when it starts, and not again at a reload.
#[derive(Debug, Args)]
pub(super) struct Identity {
    /// Become this user, by name or number, once the listeners are open
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// Become this group instead of the user's own
    #[arg(long, value_name = "GROUP", requires = "user")]
    group: Option<String>,
    /// Write the process id to FILE once the server is ready
    #[arg(long, value_name = "FILE")]
    pid_file: Option<PathBuf>,
}

impl Identity {
    /// The user to become, if another one is wanted.
    pub(super) fn find(&self) -> Result<Option<privilege::Identity>, Failure> {
        let user = self.user.as_ref();
        user.map(|user| privilege::Identity::find(user, self.group.as_deref()))
            .transpose()
            .map_err(|error| Failure::of_input(&error))
    }

    /// Opens the file for the process id, while that is still allowed.
    pub(super) fn pid_file(&self) -> Result<Option<PidFile>, Failure> {
        self.pid_file.as_deref().map(PidFile::open).transpose()
    }

    /// Mentions what is allowed, and yet unwise.
    pub(super) fn warn(&self, endpoints: &[Endpoint]) {
        let faces_others = |endpoint: &Endpoint| match endpoint {
            Endpoint::Tcp(address) => !address.ip().is_loopback(),
            Endpoint::Unix(_) => false,
        };
        if self.user.is_none() && privilege::is_root() && endpoints.iter().any(faces_others) {
            complain("warning: root serves the network; name another user with --user");
        }
    }
}

/// A file that names the process while it serves.
#[derive(Debug)]
pub(super) struct PidFile {
    path: PathBuf,
    file: File,
}

impl PidFile {
    /// Leaves what is in it as it is: our predecessor may still be at work.
    fn open(path: &Path) -> Result<Self, Failure> {
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(path);
        let file = file.map_err(|error| {
            Failure::of_input(&format!("cannot write {}: {error}", path.display()))
        })?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// Names this process.
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
        // A successor may have named itself in it.
        if text.is_empty() || text.trim() == std::process::id().to_string() {
            // In a folder that we may not change any more it stays, and hurts nobody.
            let _gone = std::fs::remove_file(&self.path);
        }
    }
}
