//! What of a request decides about its route.

/// What a request is compared with the rules by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subject<'a> {
    /// The method, case-sensitive (RFC 9110 section 9.1).
    pub method: &'a [u8],
    /// The value of Host or the authority of an absolute target; `None` without either.
    pub host: Option<&'a [u8]>,
    /// The path of the target, from its `/` to before `?`.
    pub path: &'a [u8],
    /// Whether the client uses TLS.
    pub is_secure: bool,
}
