//! The folder that is served.

use std::path::PathBuf;

use clap::Args;
use jissoku_server::Files;

use super::failure::Failure;

/// Flags about files.
#[derive(Debug, Args)]
pub(super) struct FileArgs {
    /// The folder to serve, kept in memory; with --contract it appears under /files/
    #[arg(value_name = "DIR", conflicts_with = "fixed")]
    folder: Option<PathBuf>,
}

impl FileArgs {
    /// Reads the folder, if one is to be served.
    pub(super) fn load(&self) -> Result<Option<Files>, Failure> {
        let load = |folder: &PathBuf| Files::load(folder);
        self.folder.as_ref().map(load).transpose().map_err(|error| Failure::of_input(&error))
    }
}
