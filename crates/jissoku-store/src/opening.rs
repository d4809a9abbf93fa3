//! The folder of a store, and how processes open it: one after another, with the same options.
//!
//! | file | contents |
//! |---|---|
//! | `store.toml` | the options; locked while a process opens the store |
//! | `users` | nothing; every process that uses the store has a shared lock of it |
//! | `keeper` | nothing; locked by the process that synchronises the store and sweeps it |
//! | `data.mdb`, `lock.mdb` | LMDB's; those of a store in memory are in a folder of `/dev/shm` |
//!
//! The kernel releases the locks of a process however it ends. The process that finds no other user
//! checks the file, and begins a new one if it is damaged.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use jissoku_os::clock;

use crate::environment::{self, Environment};
use crate::error::Error;
use crate::options::{Durability, Options, SIZE_MAX, SIZE_MIN, WhenFull};
use crate::page_check;
use crate::tables::Tables;

const DESCRIPTION: &str = "store.toml";
const DATA: &str = "data.mdb";
const LOCK: &str = "lock.mdb";

/// Where files in memory are.
const MEMORY: &str = "/dev/shm";

/// The C library, whose locks are in the lock file: those of another have another layout.
const LIBRARY: &str = if cfg!(target_env = "musl") { "musl" } else { "gnu" };

const NAME_SIZE_MAX: usize = 64;

/// A store that is open.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) environment: Environment,
    pub(crate) tables: Tables,
    pub(crate) options: Options,
    /// What the user should know, such as that a damaged file was set aside.
    pub(crate) notice: Option<String>,
    /// Locked for as long as the store is used.
    pub(crate) presence: File,
    /// Locked by one of its users.
    pub(crate) keeper: File,
}

/// The names of the stores in a folder, in alphabetical order.
///
/// # Errors
/// The folder cannot be read.
pub fn names(folder: &Path) -> Result<Vec<String>, Error> {
    let read = || -> io::Result<Vec<String>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            if entry.path().join(DESCRIPTION).is_file()
                && let Some(name) = entry.file_name().to_str()
                && check_name(name).is_ok()
            {
                found.push(name.to_owned());
            }
        }
        found.sort_unstable();
        Ok(found)
    };
    read().map_err(Error::io(format!("read the folder {}", folder.display())))
}

pub(crate) fn check_name(name: &str) -> Result<(), Error> {
    let is_sign = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let is_valid = name.bytes().all(is_sign)
        && name.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric())
        && name.len() <= NAME_SIZE_MAX;
    if is_valid { Ok(()) } else { Err(Error::Name(name.to_owned())) }
}

/// Opens the store `name` in `folder`. With `wanted` it is created if there is none; without, it has
/// the options that it was created with.
pub(crate) fn open(folder: &Path, name: &str, wanted: Option<&Options>) -> Result<Opened, Error> {
    check_name(name)?;
    if let Some(Options { size, .. }) = wanted
        && !(SIZE_MIN..=SIZE_MAX).contains(size)
    {
        return Err(Error::Size(*size));
    }
    let home = folder.join(name);
    if wanted.is_some() {
        create_private(&home)?;
    } else if !home.join(DESCRIPTION).is_file() {
        return Err(Error::Missing { name: name.to_owned(), folder: folder.to_owned() });
    }
    let mut file = locked_description(&home)?;
    let recorded = Description::read(&mut file)?;
    let presence = open_private(&home.join("users"))?;
    let is_first = match presence.try_lock() {
        Ok(()) => true,
        Err(TryLockError::WouldBlock) => false,
        Err(TryLockError::Error(error)) => return Err(Error::io("lock the store")(error)),
    };
    let keeper = open_private(&home.join("keeper"))?;
    let description = if is_first {
        Description::of_first(name, &home, wanted, recorded)?
    } else {
        // The lock of a user is shared with all users, as the kernel converts it.
        presence.lock_shared().map_err(Error::io("lock the store"))?;
        Description::of_other(name, wanted, recorded)?
    };
    let place = description.data.as_deref().unwrap_or(&home);
    let mut notice = None;
    if is_first {
        notice = prepare(name, place)?;
    }
    if recorded_differs(&mut file, &description)? {
        description.write(&mut file)?;
    }
    let (environment, tables) = match begin(place, &description.options, is_first) {
        // What LMDB finds itself.
        Err(Error::Storage(why)) if is_first => {
            notice = Some(set_aside(name, place, &why)?);
            begin(place, &description.options, is_first)?
        }
        other => other?,
    };
    if is_first {
        presence.lock_shared().map_err(Error::io("lock the store"))?;
    }
    let options = description.options;
    Ok(Opened { environment, tables, options, notice, presence, keeper })
}

/// Records another time to live, for those that open the store without options.
pub(crate) fn record_ttl(folder: &Path, name: &str, ttl_ms: Option<u64>) -> Result<(), Error> {
    let mut file = locked_description(&folder.join(name))?;
    let Some(mut description) = Description::read(&mut file)? else { return Ok(()) };
    if description.options.ttl_ms == ttl_ms {
        return Ok(());
    }
    description.options.ttl_ms = ttl_ms;
    description.write(&mut file)
}

fn begin(place: &Path, options: &Options, is_first: bool) -> Result<(Environment, Tables), Error> {
    let environment = environment::open(place, options.size, options.durability)?;
    let tables = Tables::open(&environment, options, is_first)?;
    Ok((environment, tables))
}

/// Checks the file, and removes the locks of processes that have ended. No process uses the store.
fn prepare(name: &str, place: &Path) -> Result<Option<String>, Error> {
    let data = place.join(DATA);
    let found =
        page_check::damage_of(&data).map_err(Error::io(format!("read {}", data.display())))?;
    match fs::remove_file(place.join(LOCK)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(Error::io("remove the lock file of the store")(error));
        }
        _ => {}
    }
    found.map(|why| set_aside(name, place, &why)).transpose()
}

/// Renames a damaged file, and returns a sentence about it.
fn set_aside(name: &str, place: &Path, why: &str) -> Result<String, Error> {
    let data = place.join(DATA);
    let other = place.join(format!("{DATA}.damaged-{}", clock::wall_ns()));
    fs::rename(&data, &other)
        .map_err(Error::io(format!("set the damaged file {} aside", data.display())))?;
    Ok(format!(
        "the store {name} was damaged ({why}): its file is now {}, and the store is empty",
        other.display()
    ))
}

fn locked_description(home: &Path) -> Result<File, Error> {
    let file = open_private(&home.join(DESCRIPTION))?;
    loop {
        match file.lock() {
            Ok(()) => return Ok(file),
            // By a signal.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Error::io("lock the store")(error)),
        }
    }
}

fn recorded_differs(file: &mut File, description: &Description) -> Result<bool, Error> {
    Ok(Description::read(file)?.as_ref() != Some(description))
}

fn create_private(folder: &Path) -> Result<(), Error> {
    let created = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    created.map_err(Error::io(format!("create the folder {}", folder.display())))
}

fn open_private(path: &Path) -> Result<File, Error> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    options.open(path).map_err(Error::io(format!("open {}", path.display())))
}

/// The contents of `store.toml`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Description {
    options: Options,
    /// The folder of LMDB's files, if that is another one.
    data: Option<PathBuf>,
    library: String,
}

impl Description {
    /// For the first process that opens the store.
    fn of_first(
        name: &str,
        home: &Path,
        wanted: Option<&Options>,
        recorded: Option<Self>,
    ) -> Result<Self, Error> {
        let Some(options) = wanted.copied().or(recorded.as_ref().map(|it| it.options)) else {
            let folder = home.parent().unwrap_or(home).to_owned();
            return Err(Error::Missing { name: name.to_owned(), folder });
        };
        let in_memory = |options: &Options| options.durability == Durability::Memory;
        if let Some(recorded) = &recorded
            && in_memory(&recorded.options) != in_memory(&options)
        {
            let (old, new) = (recorded.options.durability.word(), options.durability.word());
            return Err(Error::Conflict(format!(
                "the store {name} was created with durability = \"{old}\", and does not become {new}: \
                 remove {} to begin a new one",
                home.display()
            )));
        }
        let data = if in_memory(&options) {
            Some(memory_folder(home, recorded.and_then(|it| it.data))?)
        } else {
            None
        };
        Ok(Self { options, data, library: LIBRARY.to_owned() })
    }

    /// For a process that opens the store while others use it.
    fn of_other(
        name: &str,
        wanted: Option<&Options>,
        recorded: Option<Self>,
    ) -> Result<Self, Error> {
        let Some(mut recorded) = recorded else {
            let why = format!("the store {name} is in use, and its {DESCRIPTION} cannot be read");
            return Err(Error::Storage(why));
        };
        if recorded.library != LIBRARY {
            return Err(Error::Conflict(format!(
                "the store {name} is used by a program that was built with another C library \
                 ({}, and this one with {LIBRARY})",
                recorded.library
            )));
        }
        if let Some(wanted) = wanted {
            agree(name, wanted, &recorded.options)?;
            recorded.options.ttl_ms = wanted.ttl_ms;
        }
        Ok(recorded)
    }

    /// `None`: the file is empty, or was not written to its end.
    fn read(file: &mut File) -> Result<Option<Self>, Error> {
        let mut text = String::new();
        file.rewind()
            .and_then(|()| file.read_to_string(&mut text))
            .map_err(Error::io("read the options of the store"))?;
        Ok(Self::parse(&text))
    }

    fn parse(text: &str) -> Option<Self> {
        let value = |key: &str| {
            let mut lines = text.lines().filter_map(|line| line.split_once(" = "));
            lines.find(|(name, _)| *name == key).map(|(_, value)| value.trim_matches('"'))
        };
        let data = value("data")?;
        Some(Self {
            options: Options {
                size: value("size")?.parse().ok()?,
                ttl_ms: Some(value("ttl-ms")?.parse().ok()?).filter(|ttl_ms| *ttl_ms > 0),
                durability: Durability::of_word(value("durability")?)?,
                when_full: WhenFull::of_word(value("when-full")?)?,
            },
            data: Some(data).filter(|data| !data.is_empty()).map(PathBuf::from),
            library: value("library")?.to_owned(),
        })
    }

    fn write(&self, file: &mut File) -> Result<(), Error> {
        let Self { options: Options { size, ttl_ms, durability, when_full }, data, library } = self;
        let text = format!(
            "# Written by jissoku: the options are those that the store was opened with.\n\
             size = {size}\nttl-ms = {}\ndurability = \"{}\"\nwhen-full = \"{}\"\ndata = \"{}\"\n\
             library = \"{library}\"\n",
            ttl_ms.unwrap_or(0),
            durability.word(),
            when_full.word(),
            data.as_deref().map(Path::display).map(|it| it.to_string()).unwrap_or_default(),
        );
        file.set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| file.write_all(text.as_bytes()))
            .map_err(Error::io("write the options of the store"))
    }
}

/// Refuses options that differ from those with which the store is open, except for the time to live.
pub(crate) fn agree(name: &str, wanted: &Options, open: &Options) -> Result<(), Error> {
    let differs = if wanted.durability != open.durability {
        format!("durability = {:?}", open.durability.word())
    } else if wanted.when_full != open.when_full {
        format!("when-full = {:?}", open.when_full.word())
    } else if wanted.size != open.size {
        format!("a size of {} bytes", open.size)
    } else {
        return Ok(());
    };
    Err(Error::Conflict(format!(
        "the store {name} is in use with {differs}: that changes when all processes that use it have \
         ended"
    )))
}

/// The folder of a store in memory: the recorded one, if it is still there and of the same user.
fn memory_folder(home: &Path, recorded: Option<PathBuf>) -> Result<PathBuf, Error> {
    let owner = |path: &Path| fs::symlink_metadata(path).ok().filter(fs::Metadata::is_dir);
    if let (Some(recorded), Some(home)) = (recorded, owner(home))
        && owner(&recorded).is_some_and(|found| found.uid() == home.uid())
    {
        return Ok(recorded);
    }
    // A name that no other user knows before the folder exists.
    let number = RandomState::new().build_hasher().finish();
    let folder = Path::new(MEMORY).join(format!("jissoku-{number:016x}"));
    DirBuilder::new().mode(0o700).create(&folder).map_err(Error::io(format!(
        "create the folder {} for a store in memory",
        folder.display()
    )))?;
    Ok(folder)
}
