//! Times to live: of a store, or of a single write.

/// How long a written entry lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ttl {
    /// As the options of the store say.
    #[default]
    Default,
    /// Until it is removed.
    Never,
    /// This many milliseconds; with 0 it has expired when it is written.
    Ms(u64),
}

impl Ttl {
    /// When an entry that is written now expires: milliseconds since 1970, or 0 for never.
    pub(crate) fn expires_ms(self, now_ms: u64, default_ms: Option<u64>) -> u64 {
        let ttl_ms = match self {
            Self::Default => default_ms,
            Self::Never => None,
            Self::Ms(ttl_ms) => Some(ttl_ms),
        };
        ttl_ms.map_or(0, |ttl_ms| now_ms.saturating_add(ttl_ms))
    }
}
