//! Requests that were dropped, and not ended: what they hold is given back all the same.
//!
//! A handler is called at the end of each request. That is not relied upon: a request that is
//! forgotten would keep its connection to a server, and its place there, for ever. So the value of a
//! request adds to such a list, when it is dropped, what may still have to be ended.

use std::cell::RefCell;
use std::rc::Rc;

/// What requests of one worker held that were dropped.
#[derive(Debug)]
pub(crate) struct Lost<T>(Rc<RefCell<Vec<T>>>);

impl<T> Clone for Lost<T> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<T> Default for Lost<T> {
    fn default() -> Self {
        Self(Rc::default())
    }
}

impl<T> Lost<T> {
    pub(crate) fn push(&self, held: T) {
        self.0.borrow_mut().push(held);
    }

    pub(crate) fn pop(&self) -> Option<T> {
        self.0.borrow_mut().pop()
    }
}
