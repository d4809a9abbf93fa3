//! Why a reload failed.

use std::io;

use super::endpoints::ListenError;

/// Why a reload failed; the old pool stays in service.
#[derive(Debug)]
pub enum ReloadError {
    /// An endpoint cannot be bound.
    Listen(ListenError),
    /// Workers cannot be started.
    Work(io::Error),
}

impl std::fmt::Display for ReloadError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Listen(error) => error.fmt(formatter),
            Self::Work(error) => write!(formatter, "cannot start new workers: {error}"),
        }
    }
}

impl std::error::Error for ReloadError {}
