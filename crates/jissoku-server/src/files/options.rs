//! Options for serving a directory.

use std::time::Duration;

use jissoku_os::file::SymlinkPolicy;

use super::rule::Rule;

/// Options for serving a directory.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long a cached entry is valid before it is compared with the disk.
    pub revalidate: Duration,
    /// Bytes of cached files, all workers together.
    pub cache_size: u64,
    /// Which symbolic links are followed.
    pub links: SymlinkPolicy,
    /// Whether names that begin with a dot are served; `.well-known` always is (RFC 8615).
    pub shows_dotfiles: bool,
    /// Whether directories without an index are listed.
    pub lists_folders: bool,
    /// Whether `name.br`, `name.zst` and `name.gz` are served for `name` by Accept-Encoding.
    pub uses_coded: bool,
    /// The file that is sent with a 404, relative to the root.
    pub not_found: Option<String>,
    /// Rules for Cache-Control; the first match applies.
    pub cache_control: Vec<Rule>,
    /// Rules for Content-Type; without a match it is chosen by the extension.
    pub content_type: Vec<Rule>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            revalidate: Duration::from_millis(50),
            cache_size: 256 << 20,
            links: SymlinkPolicy::Beneath,
            shows_dotfiles: false,
            lists_folders: false,
            uses_coded: true,
            not_found: None,
            cache_control: Vec::new(),
            content_type: Vec::new(),
        }
    }
}
