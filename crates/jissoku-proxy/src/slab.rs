//! The slabs of exchanges and of upstream connections.

use jissoku_os::slab;

/// The kind of a [`Key`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind;

pub(crate) type Key = slab::Key<Kind>;
pub(crate) type Slab<T> = slab::Slab<T, Kind>;
