//! Request heads. A [`Head`] holds spans of the parsed bytes, and no copies.

pub(crate) mod field_line;
mod fields;
mod header_flags;
mod host;
mod origin_form;
mod reader;
mod request_head;
mod request_line;

pub use fields::Fields;
pub(crate) use fields::trim;
pub use header_flags::HeaderFlags;
pub(crate) use host::is_valid_and_not_empty as is_host_and_not_empty;
pub use reader::HeadReader;
pub use request_head::Head;
pub(crate) use request_line::span;
pub use request_line::{Method, Span, Version};

#[cfg(test)]
mod tests;
