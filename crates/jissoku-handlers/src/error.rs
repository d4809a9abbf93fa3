//! Why a file is not served as a handler.

use std::ffi::c_int;
use std::fmt;

/// The reason, in one sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandlerError(pub(crate) String);

impl fmt::Display for HandlerError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for HandlerError {}

/// What `jsk_start` has returned, which is not 0.
#[derive(Debug)]
pub(crate) struct StartFailure {
    pub(crate) code: c_int,
    /// The sentence of the store's failure that has this code.
    pub(crate) why: Option<String>,
}

impl fmt::Display for StartFailure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.code.fmt(formatter)?;
        self.why.as_ref().map_or(Ok(()), |why| write!(formatter, ": {why}"))
    }
}
