//! What a transaction does with the tables of a store. The time is an argument.
//!
//! Entries are in LMDB's unnamed table, behind a letter, beside the records of the two indexes: one
//! page less to be written for each transaction than with a table of their own. An index has a number
//! and the key, so that its entries are unique and in the order of the number:
//!
//! * `expiry` has the entries that expire, by the time at which they do;
//! * `order` has all entries by the transaction that has written them, if the oldest make room.
//!
//! INVARIANT: an entry is in `expiry` exactly if its `expires_ms` is not 0.

use std::ops::{Bound, ControlFlow};

use lmdb::types::{Bytes, Unit};
use lmdb::{Database, DatabaseStat, RoTxn, RwTxn};

use crate::counts::{Count, Counters, Counts};
use crate::environment::Environment;
use crate::error::Error;
use crate::options::{KEY_SIZE_MAX, Options, VALUE_SIZE_MAX, WhenFull};
use crate::record::{HEADER_SIZE, Header, Record};

/// Before the key of an entry. The names of the indexes begin with other letters.
const LETTER: u8 = b'k';

/// How many records of the unnamed table are indexes.
const INDEX_COUNT: u64 = 2;

/// Bytes of the number before the key in an index.
const NUMBER_SIZE: usize = size_of::<u64>();

/// Expired entries that a write removes at most, beside its own work.
const SWEEP_PER_WRITE: usize = 2;

/// Gets a key and its value, and says whether to go on.
pub type Visit<'a> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'a;

/// A key and its new value; without one it is removed.
pub type Change<'a> = (&'a [u8], Option<&'a [u8]>);

/// A valid key, with room for what is put before it.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    /// A number, whose last byte is [`LETTER`], and the key.
    bytes: [u8; NUMBER_SIZE + KEY_SIZE_MAX],
    end: usize,
}

impl Key {
    pub(crate) fn new(key: &[u8]) -> Result<Self, Error> {
        check_key(key)?;
        let mut bytes = [0; NUMBER_SIZE + KEY_SIZE_MAX];
        let end = NUMBER_SIZE + key.len();
        bytes[NUMBER_SIZE - 1] = LETTER;
        bytes[NUMBER_SIZE..end].copy_from_slice(key);
        Ok(Self { bytes, end })
    }

    /// As it is in the unnamed table.
    fn in_main(&self) -> &[u8] {
        &self.bytes[NUMBER_SIZE - 1..self.end]
    }

    /// As it is in an index.
    fn in_index<T>(&self, number: u64, use_it: impl FnOnce(&[u8]) -> T) -> T {
        let mut other = self.clone();
        other.bytes[..NUMBER_SIZE].copy_from_slice(&number.to_be_bytes());
        use_it(&other.bytes[..other.end])
    }

    /// The number and the key of an entry of an index.
    fn of_index(entry: &[u8]) -> Result<(u64, Self), Error> {
        let (number, name) = entry.split_first_chunk().ok_or_else(malformed)?;
        Ok((u64::from_be_bytes(*number), Self::new(name)?))
    }
}

fn check_key(key: &[u8]) -> Result<(), Error> {
    if (1..=KEY_SIZE_MAX).contains(&key.len()) { Ok(()) } else { Err(Error::KeySize(key.len())) }
}

fn check_value(value: &[u8]) -> Result<(), Error> {
    if value.len() <= VALUE_SIZE_MAX { Ok(()) } else { Err(Error::ValueSize(value.len())) }
}

/// Whether a key, and what is to be written, are valid.
pub(crate) fn check(&(key, value): &Change<'_>) -> Result<(), Error> {
    check_key(key)?;
    value.map_or(Ok(()), check_value)
}

/// The tables, which all transactions share.
#[derive(Debug)]
pub(crate) struct Tables {
    main: Database<Bytes, Bytes>,
    expiry: Database<Bytes, Unit>,
    order: Database<Bytes, Unit>,
    page_size: u64,
    size: u64,
    when_full: WhenFull,
    /// What the transaction that writes now has done.
    counters: Counters,
}

impl Tables {
    /// Opens the tables, which are created if there are none. The first process that opens a store
    /// makes the indexes agree with the options.
    pub(crate) fn open(
        environment: &Environment,
        options: &Options,
        is_first: bool,
    ) -> Result<Self, Error> {
        let mut txn = environment.write_txn()?;
        let tables = Self {
            main: environment.create_database(&mut txn, None)?,
            expiry: environment.create_database(&mut txn, Some("expiry"))?,
            order: environment.create_database(&mut txn, Some("order"))?,
            page_size: u64::from(environment.stat().page_size),
            size: options.size,
            when_full: options.when_full,
            counters: Counters::default(),
        };
        if is_first {
            tables.adapt_order(&mut txn)?;
        }
        txn.commit()?;
        Ok(tables)
    }

    /// The value of a key, unless it has expired.
    pub(crate) fn get<'t>(
        &self,
        txn: &'t RoTxn<'_>,
        key: &Key,
        now_ms: u64,
    ) -> Result<Option<&'t [u8]>, Error> {
        let found = self.main.get(txn, key.in_main())?.map(record).transpose()?;
        Ok(found.filter(|record| record.header.is_alive(now_ms)).map(|record| record.value))
    }

    /// Writes an entry, and makes room for it if the options allow that.
    pub(crate) fn put(
        &self,
        txn: &mut RwTxn<'_>,
        (key, value): (&Key, &[u8]),
        expires_ms: u64,
        now_ms: u64,
    ) -> Result<(), Error> {
        check_value(value)?;
        let used_before = self.used(txn)?;
        let header = Header { expires_ms, written: txn.id() as u64 };
        if self.has_indexed(txn)?
            && let Some(old) = self.header(txn, key)?
        {
            self.remove_from_indexes(txn, key, old)?;
        }
        self.main.put_reserved(txn, key.in_main(), HEADER_SIZE + value.len(), |space| {
            header.write(value, space)
        })?;
        if expires_ms != 0 {
            key.in_index(expires_ms, |entry| self.expiry.put(txn, entry, &()))?;
        }
        if self.when_full == WhenFull::Drop {
            key.in_index(header.written, |entry| self.order.put(txn, entry, &()))?;
        }
        self.counters.add(Count::Puts, 1);
        self.sweep(txn, now_ms, SWEEP_PER_WRITE)?;
        self.make_room(txn, used_before, now_ms)
    }

    /// Makes a change.
    pub(crate) fn change(
        &self,
        txn: &mut RwTxn<'_>,
        (key, value): Change<'_>,
        (expires_ms, now_ms): (u64, u64),
    ) -> Result<(), Error> {
        let key = Key::new(key)?;
        match value {
            Some(value) => self.put(txn, (&key, value), expires_ms, now_ms),
            None => self.delete(txn, &key, now_ms).map(drop),
        }
    }

    /// Writes an entry if the key has the value `expected`, or none; returns whether it had.
    pub(crate) fn compare_and_swap(
        &self,
        txn: &mut RwTxn<'_>,
        (key, expected): (&Key, Option<&[u8]>),
        value: &[u8],
        (expires_ms, now_ms): (u64, u64),
    ) -> Result<bool, Error> {
        if self.get(txn, key, now_ms)? != expected {
            return Ok(false);
        }
        self.put(txn, (key, value), expires_ms, now_ms)?;
        Ok(true)
    }

    /// Adds to the number that a key has, and returns the sum. A key without a value has 0, and
    /// expires at `expires_ms`; one with a value keeps its time.
    pub(crate) fn increment(
        &self,
        txn: &mut RwTxn<'_>,
        (key, by): (&Key, i64),
        expires_ms: u64,
        now_ms: u64,
    ) -> Result<i64, Error> {
        let found = self.main.get(txn, key.in_main())?.map(record).transpose()?;
        let (number, expires_ms) = match found.filter(|it| it.header.is_alive(now_ms)) {
            Some(record) => {
                let text = std::str::from_utf8(record.value).map_err(|_| Error::NotANumber)?;
                let number = text.parse::<i64>().map_err(|_| Error::NotANumber)?;
                (number, record.header.expires_ms)
            }
            None => (0, expires_ms),
        };
        let sum = number.checked_add(by).ok_or(Error::OutOfRange)?;
        self.put(txn, (key, sum.to_string().as_bytes()), expires_ms, now_ms)?;
        Ok(sum)
    }

    /// Removes an entry; returns whether there was one that had not expired.
    pub(crate) fn delete(
        &self,
        txn: &mut RwTxn<'_>,
        key: &Key,
        now_ms: u64,
    ) -> Result<bool, Error> {
        let Some(header) = self.header(txn, key)? else { return Ok(false) };
        self.remove(txn, key, header)?;
        Ok(header.is_alive(now_ms))
    }

    /// Calls `visit` for the entries whose keys begin with `prefix`, in the order of their bytes; those
    /// behind `after`, if it is given.
    pub(crate) fn scan(
        &self,
        txn: &RoTxn<'_>,
        (prefix, after): (&[u8], Option<&[u8]>),
        now_ms: u64,
        visit: &mut Visit<'_>,
    ) -> Result<(), Error> {
        let after = after.filter(|after| *after >= prefix);
        let start = [&[LETTER], after.unwrap_or(prefix)].concat();
        let from = if after.is_some() { Bound::Excluded } else { Bound::Included };
        for entry in self.main.range(txn, &(from(&start[..]), Bound::Unbounded))? {
            let (key, bytes) = entry?;
            let Some(key) = key.strip_prefix(&[LETTER]) else { break };
            if !key.starts_with(prefix) {
                break;
            }
            let record = record(bytes)?;
            if record.header.is_alive(now_ms) && visit(key, record.value).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Removes up to `count_max` expired entries, and returns how many.
    pub(crate) fn sweep(
        &self,
        txn: &mut RwTxn<'_>,
        now_ms: u64,
        count_max: usize,
    ) -> Result<usize, Error> {
        let mut count = 0;
        while count < count_max {
            let Some((entry, ())) = self.expiry.first(txn)? else { break };
            let (expires_ms, key) = Key::of_index(entry)?;
            if now_ms < expires_ms {
                break;
            }
            // Also if there is no such entry: the loop ends.
            key.in_index(expires_ms, |entry| self.expiry.delete(txn, entry))?;
            if let Some(header) = self.header(txn, &key)?
                && header.expires_ms == expires_ms
            {
                self.remove(txn, &key, header)?;
                self.counters.add(Count::Expired, 1);
            }
            count += 1;
        }
        Ok(count)
    }

    /// Whether `sweep` would remove an entry.
    pub(crate) fn has_expired(&self, txn: &RoTxn<'_>, now_ms: u64) -> Result<bool, Error> {
        let Some((entry, ())) = self.expiry.first(txn)? else { return Ok(false) };
        Ok(Key::of_index(entry)?.0 <= now_ms)
    }

    /// What the transaction that writes now has done since the last call. There is one at a time.
    pub(crate) fn take_counts(&self) -> Counts {
        self.counters.take()
    }

    /// How many entries there are, with those that have expired and are not removed yet.
    pub(crate) fn len(&self, txn: &RoTxn<'_>) -> Result<u64, Error> {
        Ok(self.main.len(txn)?.saturating_sub(INDEX_COUNT))
    }

    /// Bytes of the pages that hold entries and indexes.
    pub(crate) fn used(&self, txn: &RoTxn<'_>) -> Result<u64, Error> {
        let mut pages = pages_of(&self.main.stat(txn)?) + pages_of(&self.expiry.stat(txn)?);
        // Otherwise it is empty, and to know that would be a search for its root in each transaction.
        if self.when_full == WhenFull::Drop {
            pages += pages_of(&self.order.stat(txn)?);
        }
        Ok(pages as u64 * self.page_size)
    }

    /// Whether an entry may be in an index.
    fn has_indexed(&self, txn: &RoTxn<'_>) -> Result<bool, Error> {
        Ok(self.when_full == WhenFull::Drop || self.expiry.len(txn)? > 0)
    }

    /// Removes the entries that were written least recently, of about `bytes`; returns whether any.
    pub(crate) fn drop_oldest(&self, txn: &mut RwTxn<'_>, bytes: u64) -> Result<bool, Error> {
        let goal = self.used(txn)?.saturating_sub(bytes);
        let mut has_dropped = false;
        while self.used(txn)? > goal {
            let Some((entry, ())) = self.order.first(txn)? else { break };
            let (written, key) = Key::of_index(entry)?;
            self.drop_one(txn, &key, written)?;
            has_dropped = true;
        }
        Ok(has_dropped)
    }

    fn make_room(&self, txn: &mut RwTxn<'_>, used_before: u64, now_ms: u64) -> Result<(), Error> {
        // A store whose size was lowered can still be written to, as long as it does not grow.
        let used_max = self.size.max(used_before);
        while self.used(txn)? > used_max {
            if self.sweep(txn, now_ms, 1)? > 0 {
                continue;
            }
            if self.when_full == WhenFull::Refuse {
                return Err(Error::Full);
            }
            let Some((entry, ())) = self.order.first(txn)? else { return Err(Error::Full) };
            let (written, key) = Key::of_index(entry)?;
            // The oldest entry is one of this transaction, which is whole or not at all.
            if written == txn.id() as u64 {
                return Err(Error::Full);
            }
            self.drop_one(txn, &key, written)?;
        }
        Ok(())
    }

    /// Removes the entry of a place in `order`; the place is removed in any case.
    fn drop_one(&self, txn: &mut RwTxn<'_>, key: &Key, written: u64) -> Result<(), Error> {
        key.in_index(written, |entry| self.order.delete(txn, entry))?;
        match self.header(txn, key)? {
            Some(header) if header.written == written => {
                self.counters.add(Count::Evictions, 1);
                self.remove(txn, key, header)
            }
            _ => Ok(()),
        }
    }

    fn header(&self, txn: &RoTxn<'_>, key: &Key) -> Result<Option<Header>, Error> {
        let found = self.main.get(txn, key.in_main())?.map(record).transpose()?;
        Ok(found.map(|record| record.header))
    }

    fn remove(&self, txn: &mut RwTxn<'_>, key: &Key, header: Header) -> Result<(), Error> {
        self.main.delete(txn, key.in_main())?;
        self.remove_from_indexes(txn, key, header)
    }

    fn remove_from_indexes(
        &self,
        txn: &mut RwTxn<'_>,
        key: &Key,
        header: Header,
    ) -> Result<(), Error> {
        if header.expires_ms != 0 {
            key.in_index(header.expires_ms, |entry| self.expiry.delete(txn, entry))?;
        }
        if self.when_full == WhenFull::Drop {
            key.in_index(header.written, |entry| self.order.delete(txn, entry))?;
        }
        Ok(())
    }

    /// Fills `order` if the oldest entries make room, and empties it otherwise, since it would not be
    /// kept up to date.
    fn adapt_order(&self, txn: &mut RwTxn<'_>) -> Result<(), Error> {
        let wanted = match self.when_full {
            WhenFull::Refuse => 0,
            WhenFull::Drop => self.len(txn)?,
        };
        if self.order.len(txn)? == wanted {
            return Ok(());
        }
        self.order.clear(txn)?;
        if self.when_full == WhenFull::Refuse {
            return Ok(());
        }
        let mut entries = Vec::new();
        for entry in self.main.range(txn, &(Bound::Included(&[LETTER][..]), Bound::Unbounded))? {
            let (name, bytes) = entry?;
            let Some(name) = name.strip_prefix(&[LETTER]) else { break };
            entries.push((record(bytes)?.header.written, Key::new(name)?));
        }
        for (written, key) in entries {
            key.in_index(written, |entry| self.order.put(txn, entry, &()))?;
        }
        Ok(())
    }
}

const fn pages_of(table: &DatabaseStat) -> usize {
    table.branch_pages + table.leaf_pages + table.overflow_pages
}

fn record(bytes: &[u8]) -> Result<Record<'_>, Error> {
    Record::read(bytes).ok_or_else(malformed)
}

fn malformed() -> Error {
    Error::Storage("the store has an entry that no version of this program has written".to_owned())
}
