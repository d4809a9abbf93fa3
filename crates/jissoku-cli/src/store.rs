//! `jissoku store`: reads and changes the stores of a folder.

mod lines;

use std::ffi::OsString;
use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use clap::{Subcommand, ValueHint};
use jissoku_os::quantity;
use jissoku_store::{Stats, Ttl};

use crate::units;
use crate::usage::Failure;
use lines::{failure, import, printable};

/// Entries that are read at a time, so that a long list keeps no pages from being used again.
const SCAN_COUNT: usize = 1000;

/// Read and change the stores that the processes of a server share
///
/// A store is created by [store.NAME] in the configuration file of jissoku serve, or by an
/// application. Exit code 1: the key has no value, or the store is full. Exit code 2: there is no such
/// store, or a key or value is invalid.
#[derive(Debug, clap::Args)]
pub(crate) struct StoreCommand {
    #[command(subcommand)]
    action: Action,
    /// Folder of the stores, as of jissoku serve --store-folder
    #[arg(long, global = true, value_name = "DIR", default_value = "stores",
        value_hint = ValueHint::DirPath)]
    folder: PathBuf,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Print the value of a key, byte for byte; in a terminal with a line break
    Get {
        /// The name of the store
        #[arg(value_name = "NAME")]
        name: String,
        /// The key, of up to 500 bytes
        #[arg(value_name = "KEY")]
        key: OsString,
    },
    /// Write the value of a key
    Put {
        /// The name of the store
        #[arg(value_name = "NAME")]
        name: String,
        /// The key, of up to 500 bytes
        #[arg(value_name = "KEY")]
        key: OsString,
        /// The value [default: standard input]
        #[arg(value_name = "VALUE")]
        value: Option<OsString>,
        /// Time to live, such as 30s or 1h; `never` for none [default: that of the store]
        #[arg(long, value_name = "TIME", value_parser = ttl)]
        ttl: Option<Ttl>,
        /// Only if the key has no value; exit code 1 if it has
        #[arg(long)]
        if_absent: bool,
    },
    /// Remove keys; exit code 1 if one of them has no value
    Delete {
        /// The name of the store
        #[arg(value_name = "NAME")]
        name: String,
        /// The keys
        #[arg(value_name = "KEY", required = true)]
        keys: Vec<OsString>,
    },
    /// Print the keys that begin with a prefix, one per line, in the order of their bytes
    Scan {
        /// The name of the store
        #[arg(value_name = "NAME")]
        name: String,
        /// The first bytes of the keys [default: all keys]
        #[arg(value_name = "PREFIX", default_value = "", hide_default_value = true)]
        prefix: OsString,
        /// Print the values, too, behind a tab
        #[arg(long)]
        values: bool,
        /// Print at most this many [default: all]
        #[arg(long, value_name = "N", value_parser = units::count)]
        limit: Option<u64>,
    },
    /// Write the entries of standard input: a key, a tab and a value in each line, as `scan --values`
    /// prints them
    ///
    /// A backslash begins an escape. A thousand lines are one transaction. After an error, its sentence
    /// has the line, and how many lines are written.
    Import {
        /// The name of the store
        #[arg(value_name = "NAME")]
        name: String,
        /// Time to live, such as 30s or 1h; `never` for none [default: that of the store]
        #[arg(long, value_name = "TIME", value_parser = ttl)]
        ttl: Option<Ttl>,
    },
    /// Print what stores hold, and how they were opened
    Stats {
        /// The names of stores [default: all of the folder]
        #[arg(value_name = "NAME")]
        names: Vec<String>,
        /// Print a JSON list
        #[arg(long)]
        json: bool,
    },
}

/// Text for standard output, and the exit code.
type Answer = (Vec<u8>, u8);

impl StoreCommand {
    pub(crate) fn run(&self) -> u8 {
        let answered = self.answer().and_then(|(text, code)| {
            let mut stdout = io::stdout().lock();
            match stdout.write_all(&text).and_then(|()| stdout.flush()) {
                // The reader has read as much as it wants.
                Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                    Err(Failure::new(format!("cannot write: {error}"), 1))
                }
                _ => Ok(code),
            }
        });
        answered.unwrap_or_else(|failure| failure.print("store"))
    }

    fn answer(&self) -> Result<Answer, Failure> {
        match &self.action {
            Action::Get { name, key } => {
                let value = self.open(name)?.get(key.as_bytes()).map_err(failure)?;
                let Some(mut value) = value else { return Err(no_value(key)) };
                if io::stdout().is_terminal() {
                    value.push(b'\n');
                }
                Ok((value, 0))
            }
            Action::Put { name, key, value, ttl, if_absent } => {
                let store = self.open(name)?;
                let value = match value {
                    Some(value) => value.as_bytes().to_vec(),
                    None => standard_input()?,
                };
                let (key, ttl) = (key.as_bytes(), ttl.unwrap_or_default());
                if !*if_absent {
                    store.put(key, &value, ttl).map_err(failure)?;
                } else if !store.put_if_absent(key, &value, ttl).map_err(failure)? {
                    return Err(Failure::new("the key has a value already", 1));
                }
                Ok((Vec::new(), 0))
            }
            Action::Delete { name, keys } => {
                let store = self.open(name)?;
                let mut missing = None;
                for key in keys {
                    if !store.delete(key.as_bytes()).map_err(failure)? {
                        missing = missing.or(Some(key));
                    }
                }
                missing.map_or(Ok((Vec::new(), 0)), |key| Err(no_value(key)))
            }
            Action::Scan { name, prefix, values, limit } => {
                let limit =
                    limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
                self.scan((name, prefix.as_bytes()), *values, limit)
            }
            Action::Import { name, ttl } => {
                import(io::stdin().lock(), &self.open(name)?, ttl.unwrap_or_default())?;
                Ok((Vec::new(), 0))
            }
            Action::Stats { names, json } => self.stats(names, *json),
        }
    }

    fn open(&self, name: &str) -> Result<jissoku_store::Store, Failure> {
        let store = jissoku_store::Store::open(&self.folder, name, None).map_err(failure)?;
        if let Some(notice) = store.notice() {
            // There is nowhere to report that stderr is closed.
            let _written = writeln!(io::stderr(), "jissoku store: {notice}");
        }
        Ok(store)
    }

    fn scan(
        &self,
        (name, prefix): (&str, &[u8]),
        has_values: bool,
        mut limit: usize,
    ) -> Result<Answer, Failure> {
        let store = self.open(name)?;
        let mut stdout = io::stdout().lock();
        let mut after = None;
        loop {
            let count = limit.min(SCAN_COUNT);
            let entries = store.scan(prefix, after.as_deref(), count).map_err(failure)?;
            let mut text = String::new();
            for (key, value) in &entries {
                text.push_str(&printable(key));
                if has_values {
                    text.push('\t');
                    text.push_str(&printable(value));
                }
                text.push('\n');
            }
            limit -= entries.len();
            let is_written = stdout.write_all(text.as_bytes()).is_ok();
            after = entries.into_iter().next_back().map(|(key, _)| key);
            if after.is_none() || limit == 0 || !is_written {
                return Ok((Vec::new(), 0));
            }
        }
    }

    fn stats(&self, names: &[String], is_json: bool) -> Result<Answer, Failure> {
        let mut names = names.to_vec();
        if names.is_empty() {
            if !self.folder.is_dir() {
                let why = format!("there is no folder {}", self.folder.display());
                return Err(Failure::new(format!("{why}: name that of the stores by --folder"), 2));
            }
            names = jissoku_store::names(&self.folder).map_err(failure)?;
        }
        let mut found = Vec::new();
        for name in names {
            let stats = self.open(&name)?.stats().map_err(failure)?;
            found.push((name, stats));
        }
        if is_json {
            let list: Vec<_> = found.iter().map(|(name, stats)| document(name, stats)).collect();
            return Ok((format!("{}\n", serde_json::Value::Array(list)).into_bytes(), 0));
        }
        let texts = found.iter().map(|(name, stats)| described(name, stats));
        Ok((texts.collect::<Vec<_>>().join("\n").into_bytes(), 0))
    }
}

/// What a person reads about a store.
fn described(name: &str, stats: &Stats) -> String {
    let options = &stats.options;
    let ttl = options.ttl_ms.map_or_else(|| "none".to_owned(), |ms| format!("{} s", seconds(ms)));
    format!(
        "{name}\n  entries       {}\n  in use        {} of {}\n  file          {}\n  \
         time to live  {ttl}\n  durability    {}\n  when full     {}\n  writes        {}\n  \
         readers       {}\n",
        stats.entries,
        mebibytes(stats.used_bytes),
        mebibytes(options.size),
        mebibytes(stats.file_bytes),
        options.durability.word(),
        options.when_full.word(),
        stats.writes,
        stats.readers,
    )
}

fn document(name: &str, stats: &Stats) -> serde_json::Value {
    let options = &stats.options;
    serde_json::json!({
        "name": name,
        "entries": stats.entries,
        "used_bytes": stats.used_bytes,
        "size_bytes": options.size,
        "file_bytes": stats.file_bytes,
        "ttl_ms": options.ttl_ms,
        "durability": options.durability.word(),
        "when_full": options.when_full.word(),
        "writes": stats.writes,
        "readers": stats.readers,
    })
}

fn seconds(ms: u64) -> String {
    let text = format!("{}.{:03}", ms / 1000, ms % 1000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn mebibytes(bytes: u64) -> String {
    const MIB: u64 = 1 << 20;
    format!("{}.{} MiB", bytes / MIB, bytes % MIB * 10 / MIB)
}

fn standard_input() -> Result<Vec<u8>, Failure> {
    let mut value = Vec::new();
    // One byte more, so that a value that is too long is reported as such.
    let most = jissoku_store::VALUE_SIZE_MAX as u64 + 1;
    let read = io::stdin().lock().take(most).read_to_end(&mut value);
    read.map_err(|error| Failure::new(format!("cannot read the value: {error}"), 1))?;
    Ok(value)
}

fn ttl(text: &str) -> Result<Ttl, String> {
    if text == "never" {
        return Ok(Ttl::Never);
    }
    let ns = quantity::duration_ns(text).filter(|ns| *ns >= 1_000_000);
    let ns = ns.ok_or_else(|| "write a time such as 500ms, 30s or 1h, or never".to_owned())?;
    Ok(Ttl::Ms(ns / 1_000_000))
}

fn no_value(key: &OsString) -> Failure {
    Failure::new(format!("the key {} has no value", printable(key.as_bytes())), 1)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use jissoku_store::{Options, Store};

    use super::*;

    fn run(folder: &Path, words: &[&str]) -> u8 {
        let folder = folder.display().to_string();
        let all = [&["jissoku", "store"][..], words, &["--folder", &folder]].concat();
        crate::run(all.into_iter().map(str::to_owned))
    }

    #[test]
    fn exit_codes_say_what_was_wrong() {
        let folder = std::env::temp_dir().join(format!("jissoku-cli-store-{}", std::process::id()));
        let store = Store::open(&folder, "shop", Some(&Options::DEFAULT)).expect("it opens");
        for (words, code) in [
            (&["get", "shop", "key"][..], 1),
            (&["put", "shop", "key", "value"], 0),
            (&["put", "shop", "key", "other", "--if-absent"], 1),
            (&["get", "shop", "key"], 0),
            (&["scan", "shop", "k", "--values", "--limit", "1"], 0),
            (&["stats"], 0),
            (&["stats", "shop", "--json"], 0),
            (&["delete", "shop", "key", "nothing"], 1),
            (&["get", "shop", "key"], 1),
            (&["get", "shop", ""], 2),
            (&["get", "none", "key"], 2),
            (&["get", "a/b", "key"], 2),
            (&["put", "shop", &"k".repeat(501), "value"], 2),
            (&["put", "shop", "key", "value", "--ttl", "soon"], 2),
            (&["put", "shop", "key", "value", "--ttl", "0s"], 2),
            (&["delete", "shop"], 2),
            (&["take", "shop", "key"], 2),
        ] {
            assert_eq!(run(&folder, words), code, "{words:?}");
        }
        assert_eq!(store.get(b"key").expect("it is readable"), None);
        drop(store);
        std::fs::remove_dir_all(folder).expect("it is ours");
    }

    #[test]
    fn times_to_live_are_shown_in_seconds() {
        assert_eq!(
            (seconds(3_600_000), seconds(1500), seconds(1)),
            ("3600".into(), "1.5".into(), "0.001".into())
        );
        assert_eq!(mebibytes(3 << 19), "1.5 MiB");
    }
}
