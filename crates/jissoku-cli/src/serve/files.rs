//! Flags for the served directory.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use jissoku_os::file::SymlinkPolicy;
use jissoku_proxy::policy::fields::{FieldRules, Side};
use jissoku_server::{FieldRule, Files, FilesOptions, Rule};

use super::app_name::AppName;
use super::failure::Failure;
use crate::units;

/// Flags for static files.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub(super) struct FileArgs {
    /// Directory or file to serve, a Python application as MODULE:APP, or a handler as NAME.c, NAME.cpp
    /// or NAME.so
    #[arg(value_name = "DIR|FILE|MODULE:APP", conflicts_with = "fixed")]
    folder: Option<PathBuf>,
    /// Serve the files of DIR at paths below PREFIX, beside an application; may be repeated
    #[arg(long, value_name = "/PREFIX=DIR", value_parser = mount)]
    r#static: Vec<(String, PathBuf)>,
    /// For applications with routes in the browser: index.html, with 200, for paths that name no
    /// file; with a file extension only for what a browser opens
    #[arg(long, conflicts_with = "listing")]
    spa: bool,
    /// Serve /NAME from NAME.html, and redirect /NAME.html to /NAME
    #[arg(long)]
    clean_urls: bool,
    /// List directories that have no index.html
    #[arg(long)]
    listing: bool,
    /// Serve names that begin with a dot; .well-known is always served
    #[arg(long)]
    dotfiles: bool,
    /// Which symbolic links to follow
    #[arg(long, value_name = "WHICH", default_value = "beneath")]
    symlinks: Symlinks,
    /// Whether to serve NAME.br, NAME.zst or NAME.gz for NAME by Accept-Encoding, unless it is
    /// older
    #[arg(long, value_name = "WHERE", default_value = "beside")]
    precompressed: Precompressed,
    /// File to send with 404, relative to the directory
    #[arg(long, value_name = "FILE")]
    not_found: Option<String>,
    /// Field of responses for matching names, or for all ('*.js=X-Robots-Tag: noindex',
    /// 'Access-Control-Allow-Origin: *'); may be repeated, the first match of each NAME wins. With
    /// --to, rules as those of --request-field
    #[arg(long, value_name = "[PATTERN=]NAME: VALUE", allow_hyphen_values = true,
        value_parser = response_field)]
    pub(super) response_field: Vec<String>,
    /// Cache-Control for matching names ('*.css=max-age=3600'); may be repeated, the first match
    /// wins
    #[arg(long, value_name = "PATTERN=VALUE", value_parser = Rule::parse)]
    cache_control: Vec<Rule>,
    /// Content-Type by extension or for matching names (log=text/plain,
    /// 'logs/**=text/plain; charset=utf-8'); may be repeated, the first match wins
    #[arg(long, visible_alias = "mime", value_name = "PATTERN=TYPE", value_parser = content_type)]
    content_type: Vec<Rule>,
    /// Time after which a cached file is compared with the disk again
    #[arg(long, value_name = "TIME", value_parser = duration, allow_hyphen_values = true, default_value = "50ms")]
    revalidate: Duration,
    /// Memory for cached files of all workers
    #[arg(long, value_name = "SIZE", value_parser = units::size, allow_hyphen_values = true, default_value = "256MiB")]
    cache_size: u64,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Symlinks {
    /// Links that stay below the directory
    Beneath,
    /// None
    Never,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Precompressed {
    /// Precompressed files next to the file
    Beside,
    /// Never
    Never,
}

impl FileArgs {
    /// The directory, or the application, as given.
    pub(super) fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// Opens the directories beside an application, each with its prefix.
    pub(super) fn beside_app(&self) -> Result<Vec<(String, Arc<Files>)>, Failure> {
        let count = self.r#static.len() as u64;
        let open = |(prefix, folder): &(String, PathBuf)| {
            let files =
                self.open(folder, Vec::new(), count).map_err(|error| Failure::of_input(&error))?;
            Ok((prefix.clone(), Arc::new(files)))
        };
        self.r#static.iter().map(open).collect()
    }

    /// Rejects options for files that are not served.
    pub(super) fn check(
        &self,
        is_app: bool,
        has_routes: bool,
        is_forwarding: bool,
    ) -> Result<(), Failure> {
        if !self.r#static.is_empty() && has_routes {
            return Err(Failure::of_input("--static cannot be used with [[route]]: add a route"));
        }
        if !self.r#static.is_empty() && !is_app {
            let why = "--static needs an application, MODULE:APP, or a handler";
            return Err(Failure::of_input(why));
        }
        if !self.response_field.is_empty() && is_app && self.r#static.is_empty() && !has_routes {
            let why =
                "--response-field is for files; the application sets the fields of its responses";
            return Err(Failure::of_input(why));
        }
        if !is_forwarding {
            for text in &self.response_field {
                FieldRule::parse(text)
                    .map_err(|why| Failure::of_input(&format!("--response-field {text}: {why}")))?;
            }
        }
        let mut seen = HashSet::new();
        for (prefix, _) in &self.r#static {
            if !seen.insert(prefix) {
                return Err(Failure::of_input(&format!("--static {prefix} is given twice")));
            }
        }
        Ok(())
    }

    /// Opens the directory, if one is given.
    pub(super) fn load(&self) -> Result<Option<Files>, Failure> {
        let open = |folder: &PathBuf| {
            let suggestion = AppName::suggestion(folder);
            // The code of an application is not to be published by mistake.
            if folder.extension().is_some_and(|it| it == "py") && folder.is_file() {
                let name = suggestion.unwrap_or_else(|| "MODULE:APP".to_owned());
                return Err(Failure::of_input(&format!(
                    "{0} is a file of Python: to serve the application in it, write {name}; its \
                     source is served with its folder only",
                    folder.display()
                )));
            }
            Files::open(folder, self.options()).map_err(|error| {
                Failure::of_input(&match suggestion {
                    Some(name) => format!("{error}; an application is MODULE:APP, here {name}"),
                    None => error,
                })
            })
        };
        self.folder.as_ref().map(open).transpose()
    }

    /// Opens the directory of a route, one of `count` that share the memory for cached files. One
    /// without an index is that of no application in the browser. `fields` come before those of the
    /// options.
    pub(super) fn open(
        &self,
        folder: &Path,
        mut fields: Vec<FieldRule>,
        count: u64,
    ) -> Result<Files, String> {
        let options = self.options();
        fields.extend(options.fields);
        let cache_size = options.cache_size / count.max(1);
        let is_spa = options.is_spa && (folder.is_file() || folder.join("index.html").is_file());
        Files::open(folder, FilesOptions { cache_size, is_spa, fields, ..options })
    }

    /// The rules of --cache-control, and of --response-field.
    fn fields(&self) -> Vec<FieldRule> {
        let of_caches = self.cache_control.iter().cloned().map(FieldRule::cache_control);
        // The others, for --to, were refused.
        of_caches
            .chain(self.response_field.iter().flat_map(|text| FieldRule::parse(text)))
            .collect()
    }

    fn options(&self) -> FilesOptions {
        FilesOptions {
            revalidate: self.revalidate,
            cache_size: self.cache_size,
            links: match self.symlinks {
                Symlinks::Beneath => SymlinkPolicy::Beneath,
                Symlinks::Never => SymlinkPolicy::Never,
            },
            shows_dotfiles: self.dotfiles,
            lists_folders: self.listing,
            uses_coded: matches!(self.precompressed, Precompressed::Beside),
            not_found: self.not_found.clone(),
            is_spa: self.spa,
            has_clean_urls: self.clean_urls,
            fields: self.fields(),
            content_type: self.content_type.clone(),
        }
    }
}

/// A rule for a field of responses, of files or of a server, as it was given.
fn response_field(text: &str) -> Result<String, String> {
    let of_servers = || FieldRules::default().add(text, Side::Response, &[]);
    match FieldRule::parse(text) {
        Err(why) if of_servers().is_err() => Err(why),
        _ => Ok(text.to_owned()),
    }
}

/// A prefix such as `/static`, without a slash at its end, and its directory.
fn mount(text: &str) -> Result<(String, PathBuf), String> {
    let (prefix, folder) = text.split_once('=').ok_or("write /PREFIX=DIR")?;
    let path = prefix.strip_suffix('/').unwrap_or(prefix);
    if folder.is_empty() || !is_plain_path(path) {
        let rule = "a prefix is /NAME or /NAME/NAME, of ASCII letters, digits and -._~";
        return Err(format!("write /PREFIX=DIR; {rule}"));
    }
    Ok((path.to_owned(), folder.into()))
}

/// Whether a path is `/NAME` or `/NAME/NAME`, of names without escapes and dots at their start.
pub(super) fn is_plain_path(path: &str) -> bool {
    let is_plain = |segment: &str| {
        !segment.is_empty()
            && !segment.starts_with('.')
            && segment.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._~".contains(&b))
    };
    path.strip_prefix('/').is_some_and(|segments| segments.split('/').all(is_plain))
}

/// A rule whose value is a media type, possibly with parameters.
fn content_type(text: &str) -> Result<Rule, String> {
    let (_, value) = text.split_once('=').unwrap_or_default();
    let essence = value.split(';').next().unwrap_or_default().trim();
    let is_token = |part: &str| {
        let is_token_byte = |b: u8| b.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&b);
        !part.is_empty() && part.bytes().all(is_token_byte)
    };
    match essence.split_once('/') {
        Some((kind, subtype)) if is_token(kind) && is_token(subtype) => Rule::parse(text),
        _ => Err("write PATTERN=TYPE, such as 'log=text/plain; charset=utf-8'".to_owned()),
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    units::duration_ns(text).map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    #[test]
    fn prefixes_are_plain_paths() {
        let mounted = |text| {
            super::mount(text)
                .map(|(prefix, folder)| (prefix, folder.to_string_lossy().into_owned()))
        };
        let expected = |prefix: &str, folder: &str| Ok((prefix.to_owned(), folder.to_owned()));
        assert_eq!(mounted("/static=public"), expected("/static", "public"));
        assert_eq!(mounted("/a/b-c.d/=/x=y"), expected("/a/b-c.d", "/x=y"));
        for text in
            ["", "/", "/=x", "=x", "a=x", "//=x", "/a//b=x", "/../a=x", "/a b=x", "/a%20=x", "/a="]
        {
            assert!(mounted(text).is_err(), "{text}");
        }
    }

    #[test]
    fn bad_options_are_refused_before_anything_starts() {
        for options in [
            ["--cache-control", "*.css"],
            ["--cache-control", "=no-store"],
            ["--content-type", "*.log"],
            ["--content-type", "*.log=text"],
            ["--content-type", "*.log=/plain"],
            ["--mime", "log=text"],
            ["--response-field", "Content-Length: 1"],
            ["--response-field", "*.js=A: b\r\nC: d"],
            ["--spa", "--listing"],
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
