//! The folder that is served, and how.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use jissoku_os::file::Links;
use jissoku_server::{Files, FilesOptions, Rule};

use super::failure::Failure;
use crate::units;

/// Flags about files.
#[derive(Debug, Args)]
pub(super) struct FileArgs {
    /// The folder to serve; with --contract it appears under /files/
    #[arg(value_name = "DIR", conflicts_with = "fixed")]
    folder: Option<PathBuf>,
    /// Show what is in a folder that has no index.html
    #[arg(long)]
    listing: bool,
    /// Serve names that begin with a dot; .well-known is served in any case
    #[arg(long)]
    dotfiles: bool,
    /// Which symbolic links to follow
    #[arg(long, value_name = "WHICH", default_value = "beneath")]
    symlinks: Symlinks,
    /// Whether to send NAME.br, NAME.zst or NAME.gz for NAME to clients that prefer it, unless it is older
    #[arg(long, value_name = "WHERE", default_value = "beside")]
    precompressed: Precompressed,
    /// The file to send with 404, by its name in the folder
    #[arg(long, value_name = "FILE")]
    not_found: Option<String>,
    /// What to say in Cache-Control of names that fit ('*.css=max-age=3600'); may be repeated, the first wins
    #[arg(long, value_name = "PATTERN=VALUE", value_parser = Rule::parse)]
    cache_control: Vec<Rule>,
    /// How long a file is believed to be what it was when last looked at
    #[arg(long, value_name = "TIME", value_parser = duration, allow_hyphen_values = true, default_value = "50ms")]
    revalidate: Duration,
    /// How much of the folder to keep in memory
    #[arg(long, value_name = "SIZE", value_parser = units::size, allow_hyphen_values = true, default_value = "256MiB")]
    cache_size: u64,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Symlinks {
    /// Those that stay in the folder
    Beneath,
    /// None
    Never,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Precompressed {
    /// From beside the file
    Beside,
    /// Never
    Never,
}

impl FileArgs {
    /// The folder as it was written.
    pub(super) fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// Opens the folder, if one is to be served.
    pub(super) fn load(&self) -> Result<Option<Files>, Failure> {
        let open = |folder: &PathBuf| Files::open(folder, self.options());
        self.folder.as_ref().map(open).transpose().map_err(|error| Failure::of_input(&error))
    }

    fn options(&self) -> FilesOptions {
        FilesOptions {
            revalidate: self.revalidate,
            cache_size: self.cache_size,
            links: match self.symlinks {
                Symlinks::Beneath => Links::Beneath,
                Symlinks::Never => Links::Never,
            },
            shows_dotfiles: self.dotfiles,
            lists_folders: self.listing,
            uses_coded: matches!(self.precompressed, Precompressed::Beside),
            not_found: self.not_found.clone(),
            cache_control: self.cache_control.clone(),
        }
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    units::duration_ns(text).map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    #[test]
    fn bad_options_are_refused_before_anything_starts() {
        for options in [
            ["--cache-control", "*.css"],
            ["--cache-control", "=no-store"],
            ["--revalidate", "-1s"],
            ["--cache-size", "much"],
            ["--symlinks", "always"],
            ["--precompressed", "yes"],
            ["--not-found", "no/such/page.html"],
        ] {
            let all = ["jissoku", "serve", "."].iter().chain(&options).map(ToString::to_string);
            assert_eq!(crate::run(all), super::super::failure::BAD_INPUT, "{options:?}");
        }
    }
}
