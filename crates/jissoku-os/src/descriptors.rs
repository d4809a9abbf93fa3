//! The descriptor limit of the process.

use std::io;

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit to the hard limit (`RLIMIT_NOFILE`, `getrlimit(2)`) and returns it; `None`
/// for no limit. The usual 1,024 is too small for a server.
///
/// # Errors
/// The error of `setrlimit(2)`.
pub fn raise_limit() -> io::Result<Option<u64>> {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })?;
    Ok(maximum)
}

/// Whether an error means that descriptors or memory are exhausted (`accept(2)`): the call may
/// succeed later.
#[must_use]
pub fn is_resource_exhausted(error: &io::Error) -> bool {
    let shortages = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
    shortages.iter().any(|shortage| error.raw_os_error() == Some(shortage.raw_os_error()))
}
