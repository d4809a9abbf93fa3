//! A store that is open in this process: each method is one transaction.

use std::fs::File;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;
use std::sync::{Arc, OnceLock};

use jissoku_os::clock;
use lmdb::{RoTxn, RwTxn, WithTls};

use crate::counts::{Count, Counters, Counts};
use crate::environment::Environment;
use crate::error::Error;
use crate::expiry::Ttl;
use crate::housekeeping;
use crate::opening::{self, Opened};
use crate::options::{Durability, Options, WhenFull};
use crate::registry::{Registry, default_folder};
use crate::tables::{self, Change, Key, Tables, Visit};

/// Entries that are removed in one transaction of the housekeeping, so that writers wait briefly.
const SWEEP_BATCH: usize = 1000;

/// How often a write is tried for which the file has no room, although the store has; and how often a
/// store is opened that another thread closes.
const TRIES_MAX: usize = 8;

/// Bytes of old entries that are removed before such a write is tried again.
const DROP_BYTES: u64 = 1 << 20;

/// Bytes of values that one call of [`Store::scan`] returns at most, and one entry more.
const SCAN_BYTES: usize = 16 << 20;

/// How long a store that another thread closes is waited for.
const CLOSING_TIME: std::time::Duration = std::time::Duration::from_secs(5);

static OPEN: Registry<Inner> = Registry::new();

/// A store. Its copies are the same store; a process has each open once.
#[derive(Clone, Debug)]
pub struct Store {
    inner: Arc<Inner>,
    ttl_ms: Option<u64>,
    /// Whether this one, or what it is a copy of, has opened the files.
    has_opened: bool,
}

#[derive(Debug)]
struct Inner {
    name: String,
    tables: Tables,
    options: Options,
    /// What this process has done with it.
    counters: Counters,
    notice: Option<String>,
    /// The process that has opened it.
    process: u32,
    /// Closed before the locks below are released.
    environment: Environment,
    /// The thread that synchronises and sweeps, once it is needed; it ends with the sender.
    housekeeping: OnceLock<Option<Sender<()>>>,
    keeper: File,
    _presence: File,
}

/// A key and its value.
pub type Entry = (Vec<u8>, Vec<u8>);

/// What a store holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stats {
    /// Its entries, with those that have expired and are not removed yet.
    pub entries: u64,
    /// Bytes of the pages that hold them.
    pub used_bytes: u64,
    /// Bytes of the file, of which a part may be free.
    pub file_bytes: u64,
    /// The number of its last write.
    pub writes: u64,
    /// Threads of all processes that have read it and have not ended.
    pub readers: u32,
    /// How it was opened.
    pub options: Options,
}

/// The store at one moment. Its values are where they are in the file, and stay until it is dropped;
/// meanwhile the pages that are replaced take room. A thread has one at a time.
pub struct Snapshot<'s> {
    store: &'s Store,
    txn: RoTxn<'s, WithTls>,
    now_ms: u64,
}

impl Store {
    /// Opens the store `name` in `folder`. With options it is created if there is none; without, it
    /// has those that it was created with.
    ///
    /// The first process that opens it reads its whole file, but for large values, to check it: a
    /// damaged file is renamed, and the store begins empty ([`Store::notice`]).
    ///
    /// # Errors
    /// Other users of the store have other options, there is no such store, or its files cannot be
    /// used.
    pub fn open(folder: &Path, name: &str, wanted: Option<&Options>) -> Result<Self, Error> {
        opening::check_name(name)?;
        let place = std::path::absolute(folder.join(name)).unwrap_or_else(|_| folder.join(name));
        let open = || Inner::open(folder, name, wanted);
        let mut tries = 1..TRIES_MAX;
        let (inner, was_open) = loop {
            match OPEN.get_or_open(&place, open) {
                Err(Error::Closing) if tries.next().is_some() => wait_until_closed(&place),
                other => break other?,
            }
        };
        if inner.process != std::process::id() {
            return Err(Error::Conflict(format!(
                "the process that this one was forked from has the store {name} open: locks are those \
                 of a process, so start it as a program of its own"
            )));
        }
        let mut ttl_ms = inner.options.ttl_ms;
        if let Some(wanted) = wanted {
            ttl_ms = wanted.ttl_ms;
            if was_open {
                opening::agree(name, wanted, &inner.options)?;
                opening::record_ttl(folder, name, wanted.ttl_ms)?;
            }
        }
        Ok(Self { inner, ttl_ms, has_opened: !was_open })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// How it was opened.
    pub fn options(&self) -> Options {
        Options { ttl_ms: self.ttl_ms, ..self.inner.options }
    }

    /// What the user should know since this one has opened the files, such as that a damaged file was
    /// set aside.
    pub fn notice(&self) -> Option<&str> {
        self.inner.notice.as_deref().filter(|_| self.has_opened)
    }

    /// Has this process synchronise and sweep the store every second, unless another process does. A
    /// process that has written does so anyway.
    pub fn keep(&self) {
        self.inner.housekeeping.get_or_init(|| {
            let store = Arc::downgrade(&self.inner);
            let (mut is_keeper, mut synchronised) = (false, 0);
            // Without a thread the kernel writes the file in its own time, and writes sweep.
            housekeeping::start(move || {
                let Some(store) = store.upgrade() else { return false };
                is_keeper = is_keeper || store.keeper.try_lock().is_ok();
                if is_keeper {
                    store.keep_house(&mut synchronised);
                }
                true
            })
            .ok()
        });
    }

    /// The value of a key.
    ///
    /// # Errors
    /// The key is invalid, or the store cannot be read.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.snapshot()?.get(key)?.map(<[u8]>::to_vec))
    }

    /// The store as it is now.
    ///
    /// # Errors
    /// This thread has a snapshot of it, or the store cannot be read.
    pub fn snapshot(&self) -> Result<Snapshot<'_>, Error> {
        let environment = &self.inner.environment;
        let txn = match environment.read_txn() {
            Err(lmdb::Error::Mdb(lmdb::MdbError::ReadersFull)) => {
                environment.clear_stale_readers()?;
                environment.read_txn()?
            }
            other => other?,
        };
        Ok(Snapshot { store: self, txn, now_ms: now_ms() })
    }

    /// Up to `count_max` entries whose keys begin with `prefix`, in the order of their bytes; behind
    /// the key `after`, if it is given. There are further ones unless none is returned: values of
    /// 16 MiB end the list, too.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn scan(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        count_max: usize,
    ) -> Result<Vec<Entry>, Error> {
        let (mut found, mut size) = (Vec::new(), 0);
        if count_max == 0 {
            return Ok(found);
        }
        self.snapshot()?.scan(prefix, after, &mut |key, value| {
            size += value.len();
            found.push((key.to_vec(), value.to_vec()));
            if found.len() < count_max && size < SCAN_BYTES {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        })?;
        Ok(found)
    }

    /// Writes the value of a key.
    ///
    /// # Errors
    /// The key or the value is invalid, or the store is full or cannot be written.
    pub fn put(&self, key: &[u8], value: &[u8], ttl: Ttl) -> Result<(), Error> {
        let key = Key::new(key)?;
        self.write(ttl, |tables, txn, (expires_ms, now_ms)| {
            tables.put(txn, (&key, value), expires_ms, now_ms)
        })
    }

    /// Writes all entries in their order, or none if an error is returned, and removes the keys that
    /// have no value: other processes see all of it or nothing. One transaction of many writes takes
    /// less time than many transactions; others that write wait meanwhile.
    ///
    /// # Errors
    /// As of [`Store::put`], as [`Error::Entry`].
    pub fn put_many(&self, entries: &[Change<'_>], ttl: Ttl) -> Result<(), Error> {
        // Before others wait for it.
        for (index, entry) in entries.iter().enumerate() {
            tables::check(entry).map_err(|error| error.of_entry(index))?;
        }
        if entries.is_empty() {
            return Ok(());
        }
        let mut at = None;
        let written = self.write(ttl, |tables, txn, times| {
            for (index, entry) in entries.iter().enumerate() {
                at = Some(index);
                tables.change(txn, *entry, times)?;
            }
            at = None;
            Ok(())
        });
        // An error of the commit is that of no entry.
        written.map_err(|error| match at {
            Some(index) => error.of_entry(index),
            None => error,
        })
    }

    /// Writes the value of a key that has none; returns whether it had none.
    ///
    /// # Errors
    /// As of [`Store::put`].
    pub fn put_if_absent(&self, key: &[u8], value: &[u8], ttl: Ttl) -> Result<bool, Error> {
        self.compare_and_swap(key, None, value, ttl)
    }

    /// Writes the value of a key that has the value `expected`, or none; returns whether it had.
    ///
    /// # Errors
    /// As of [`Store::put`].
    pub fn compare_and_swap(
        &self,
        key: &[u8],
        expected: Option<&[u8]>,
        value: &[u8],
        ttl: Ttl,
    ) -> Result<bool, Error> {
        let key = Key::new(key)?;
        self.write(ttl, |tables, txn, times| {
            tables.compare_and_swap(txn, (&key, expected), value, times)
        })
    }

    /// Adds to the number of a key, which is text in decimal, and returns the sum. A key without a
    /// value has 0, and then gets this time to live; one with a value keeps the time that it has.
    ///
    /// # Errors
    /// The value is no whole number of 64 bits, or the sum would be none; and as of [`Store::put`].
    pub fn increment(&self, key: &[u8], by: i64, ttl: Ttl) -> Result<i64, Error> {
        let key = Key::new(key)?;
        self.write(ttl, |tables, txn, (expires_ms, now_ms)| {
            tables.increment(txn, (&key, by), expires_ms, now_ms)
        })
    }

    /// Removes a key; returns whether it had a value.
    ///
    /// # Errors
    /// The key is invalid, or the store cannot be written.
    pub fn delete(&self, key: &[u8]) -> Result<bool, Error> {
        let key = Key::new(key)?;
        self.write(Ttl::Never, |tables, txn, (_, now_ms)| tables.delete(txn, &key, now_ms))
    }

    /// Removes all expired entries, and returns how many.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn sweep(&self) -> Result<usize, Error> {
        let mut sum = 0;
        loop {
            let removed = self.inner.sweep_batch()?;
            sum += removed;
            if removed < SWEEP_BATCH {
                return Ok(sum);
            }
        }
    }

    /// Waits until all that was written is on the disk.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn sync(&self) -> Result<(), Error> {
        Ok(self.inner.environment.force_sync()?)
    }

    /// What this process has done with it since it was opened.
    pub fn counts(&self) -> Counts {
        self.inner.counters.values()
    }

    /// What it holds.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn stats(&self) -> Result<Stats, Error> {
        let snapshot = self.snapshot()?;
        let Inner { environment, tables, .. } = &*self.inner;
        Ok(Stats {
            entries: tables.len(&snapshot.txn)?,
            used_bytes: tables.used(&snapshot.txn)?,
            file_bytes: environment.real_disk_size()?,
            writes: environment.info().last_txn_id as u64,
            readers: environment.info().number_of_readers,
            options: self.options(),
        })
    }

    /// Makes one transaction of `work`, which gets the time at which an entry expires and the time
    /// now, and is repeated if the file has no room for it.
    fn write<T>(
        &self,
        ttl: Ttl,
        mut work: impl FnMut(&Tables, &mut RwTxn<'_>, (u64, u64)) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let Inner { environment, tables, options, .. } = &*self.inner;
        if options.durability != Durability::Durable {
            self.keep();
        }
        let mut tries = 1..TRIES_MAX;
        loop {
            let mut txn = environment.write_txn()?;
            let now_ms = now_ms();
            let times = (ttl.expires_ms(now_ms, self.ttl_ms), now_ms);
            let committed = match work(tables, &mut txn, times) {
                Ok(done) => self.inner.commit(txn).map(|()| done),
                Err(error) => {
                    let _undone = tables.take_counts();
                    // Another one may follow in this iteration.
                    drop(txn);
                    Err(error)
                }
            };
            match committed {
                Err(Error::FileFull) if tries.next().is_some() && self.inner.gives_pages()? => {}
                Err(Error::FileFull) => return Err(Error::Full),
                other => return other,
            }
        }
    }
}

impl Snapshot<'_> {
    /// The value of a key.
    ///
    /// # Errors
    /// The key is invalid, or the store cannot be read.
    pub fn get(&self, key: &[u8]) -> Result<Option<&[u8]>, Error> {
        let Inner { tables, counters, .. } = &*self.store.inner;
        let found = tables.get(&self.txn, &Key::new(key)?, self.now_ms)?;
        counters.add(Count::Gets, 1);
        counters.add(Count::Hits, u64::from(found.is_some()));
        Ok(found)
    }

    /// Calls `visit` for the entries whose keys begin with `prefix`, in the order of their bytes,
    /// until it breaks; behind the key `after`, if it is given.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn scan(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        visit: &mut Visit<'_>,
    ) -> Result<(), Error> {
        self.store.inner.tables.scan(&self.txn, (prefix, after), self.now_ms, visit)
    }
}

impl std::fmt::Debug for Snapshot<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot").field("store", &self.store.name()).finish_non_exhaustive()
    }
}

impl Inner {
    fn open(folder: &Path, name: &str, wanted: Option<&Options>) -> Result<Self, Error> {
        let Opened { environment, tables, options, notice, presence, keeper } =
            opening::open(folder, name, wanted)?;
        Ok(Self {
            name: name.to_owned(),
            tables,
            options,
            notice,
            counters: Counters::default(),
            process: std::process::id(),
            environment,
            housekeeping: OnceLock::new(),
            keeper,
            _presence: presence,
        })
    }

    /// What is done every second. Errors are those that the next write reports.
    fn keep_house(&self, synchronised: &mut u64) {
        let written = self.environment.info().last_txn_id as u64;
        if self.options.durability == Durability::Lazy
            && *synchronised != written
            && self.environment.force_sync().is_ok()
        {
            *synchronised = written;
        }
        let _cleared = self.environment.clear_stale_readers();
        while self.sweep_batch().is_ok_and(|removed| removed == SWEEP_BATCH) {}
    }

    fn sweep_batch(&self) -> Result<usize, Error> {
        let now_ms = now_ms();
        let has_expired = {
            let txn = self.environment.read_txn()?;
            self.tables.has_expired(&txn, now_ms)?
        };
        if !has_expired {
            return Ok(0);
        }
        let mut txn = self.environment.write_txn()?;
        let removed = self.tables.sweep(&mut txn, now_ms, SWEEP_BATCH)?;
        self.commit(txn)?;
        Ok(removed)
    }

    /// Whether a write that found no room in the file can be tried again: readers that have ended hold
    /// no pages any longer, or old entries were removed, if the options allow that.
    fn gives_pages(&self) -> Result<bool, Error> {
        if self.environment.clear_stale_readers()? > 0 {
            return Ok(true);
        }
        if self.options.when_full == WhenFull::Refuse {
            return Ok(false);
        }
        let mut txn = self.environment.write_txn()?;
        let has_dropped = self.tables.drop_oldest(&mut txn, DROP_BYTES)?;
        self.commit(txn)?;
        Ok(has_dropped)
    }

    /// Commits a transaction, and counts what it has done.
    fn commit(&self, txn: RwTxn<'_>) -> Result<(), Error> {
        // Before the next transaction may begin.
        let counts = self.tables.take_counts();
        txn.commit()?;
        self.counters.add_all(&counts);
        Ok(())
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if self.options.durability == Durability::Lazy {
            // An error has nowhere to go; the kernel writes the file in its own time.
            let _synchronised = self.environment.force_sync();
        }
    }
}

/// What this process has done with the stores of its server that are open, by their names.
pub fn counts_of_server() -> Vec<(String, Counts)> {
    let Some(folder) = default_folder() else { return Vec::new() };
    let open = OPEN.all().into_iter();
    let of_server = open.filter(|(place, _)| place.parent() == Some(folder));
    of_server.map(|(_, store)| (store.name.clone(), store.counters.values())).collect()
}

fn now_ms() -> u64 {
    clock::wall_ns() / 1_000_000
}

/// Waits until another thread has closed the store of a place.
fn wait_until_closed(place: &Path) {
    let data: PathBuf = place.canonicalize().unwrap_or_else(|_| place.to_owned());
    if let Some(event) = lmdb::env_closing_event(&data) {
        event.wait_timeout(CLOSING_TIME);
    }
    std::thread::yield_now();
}
