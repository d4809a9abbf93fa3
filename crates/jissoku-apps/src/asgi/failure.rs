//! Why a `WebSocket` fails or closes.

/// Close codes (RFC 6455 section 7.4.1).
pub(super) mod code {
    pub(crate) const NORMAL: u16 = 1000;
    pub(crate) const PROTOCOL_ERROR: u16 = 1002;
    pub(crate) const NONE: u16 = 1005;
    pub(crate) const ABNORMAL: u16 = 1006;
    pub(crate) const INVALID_TEXT: u16 = 1007;
    pub(crate) const TOO_BIG: u16 = 1009;
    pub(crate) const SERVER_ERROR: u16 = 1011;
    pub(crate) const SERVICE_RESTART: u16 = 1012;
}

/// Why a connection fails: a close code and its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Failure(pub(super) u16, pub(super) &'static str);
