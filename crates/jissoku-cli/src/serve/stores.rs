//! `[store.NAME]` of the configuration file, and the folder of the stores.

use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use jissoku_proxy::policy::configuration::{
    self, Problem, StoreDurability, StoreOptions, StoreWhenFull,
};
use jissoku_store::{Durability, Options, Store, WhenFull, set_default_folder};
use toml::de::DeTable;

use super::failure::{Failure, print_error};

/// The folder, beside the configuration file.
const FOLDER: &str = "stores";

/// The flag that names the folder.
#[derive(Debug, Args)]
pub(super) struct StoreArgs {
    /// Folder of the stores that applications and [store.NAME] of the configuration file name
    /// [default: stores, beside that file]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    store_folder: Option<PathBuf>,
}

/// The stores of a configuration file.
#[derive(Clone, Debug, Default)]
pub(super) struct StoreTables {
    /// Empty if there is no such file.
    path: PathBuf,
    all: Vec<StoreOptions>,
}

impl StoreTables {
    /// Reads the stores of a file; or all that is wrong with them.
    pub(super) fn read(
        path: &Path,
        text: &str,
        parsed: &DeTable<'_>,
    ) -> Result<Self, Vec<Problem>> {
        let all = configuration::stores(text, parsed)?;
        Ok(if all.is_empty() { Self::default() } else { Self { path: path.to_owned(), all } })
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The folder beside the file, as an absolute path.
    pub(super) fn default_folder(&self) -> PathBuf {
        let folder = self.path.parent().unwrap_or_else(|| Path::new("")).join(FOLDER);
        std::path::absolute(&folder).unwrap_or(folder)
    }
}

impl StoreArgs {
    /// Names the folder to the applications of this process, if the server has stores.
    pub(super) fn name_folder(&self, tables: &StoreTables) {
        if self.store_folder.is_some() || !tables.is_empty() {
            set_default_folder(self.folder(tables));
        }
    }

    /// Opens the stores, which are created if they do not exist, and has this process keep them: they
    /// stay in use, and so unchecked, while workers are replaced.
    pub(super) fn open(&self, tables: &StoreTables) -> Result<Vec<Store>, Failure> {
        let folder = self.folder(tables);
        let open = |table: &StoreOptions| {
            let store = Store::open(&folder, &table.name, Some(&options(table)));
            let store = store.map_err(|error| {
                let why = format!("{}, line {}: {error}", tables.path.display(), table.line);
                if error.is_bad_input() { Failure::of_input(&why) } else { Failure::of_work(&why) }
            })?;
            if let Some(notice) = store.notice() {
                print_error(notice);
            }
            store.keep();
            Ok(store)
        };
        tables.all.iter().map(open).collect()
    }

    fn folder(&self, tables: &StoreTables) -> PathBuf {
        match &self.store_folder {
            Some(folder) => std::path::absolute(folder).unwrap_or_else(|_| folder.clone()),
            None => tables.default_folder(),
        }
    }
}

fn options(table: &StoreOptions) -> Options {
    Options {
        size: table.size,
        ttl_ms: table.ttl_ms,
        durability: match table.durability {
            StoreDurability::Memory => Durability::Memory,
            StoreDurability::Lazy => Durability::Lazy,
            StoreDurability::Durable => Durability::Durable,
        },
        when_full: match table.when_full {
            StoreWhenFull::Refuse => WhenFull::Refuse,
            StoreWhenFull::Drop => WhenFull::Drop,
        },
    }
}
