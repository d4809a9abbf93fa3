//! How many descriptors may this process have?

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit to the highest that is allowed (`RLIMIT_NOFILE`, `getrlimit(2)`), and returns it;
/// `None` when there is none. The usual 1,024 would be the first thing that a server runs out of.
///
/// # Errors
/// The error of `setrlimit(2)`.
pub fn raise_limit() -> io::Result<Option<u64>> {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })?;
    Ok(maximum)
}
