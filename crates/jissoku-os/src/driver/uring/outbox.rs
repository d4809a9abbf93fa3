//! The output of one turn, which goes to the kernel with the next wait.

use std::io;

use crate::driver::{Key, Output};

/// An output that had to grow beyond this is not kept for the next.
const SPARE_SIZE_MAX: usize = 64 * 1024;

/// Outputs kept for later. Beyond it, a turn was a rare one.
const SPARE_COUNT_MAX: usize = 512;

/// What one connection sends in this turn.
#[derive(Debug)]
pub(super) struct Letter {
    pub(super) key: Key,
    pub(super) output: Output,
    /// Part of it is in a file, which the ring cannot send.
    has_file: bool,
    /// How much was sent, if not all that was offered.
    pub(super) short: Option<io::Result<usize>>,
}

/// All letters of one turn.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    pub(super) letters: Vec<Letter>,
    /// For the next call of a connection that has no letter yet.
    pub(super) blank: Output,
    /// Letters with files, by their place.
    pub(super) files: Vec<usize>,
    /// Somebody needs to be seen to as soon as the letters have gone, though nothing may happen then.
    pub(super) is_urgent: bool,
    spare: Vec<Output>,
}

impl Outbox {
    /// Makes a letter of what was written to `blank`, and returns its place.
    pub(super) fn post(&mut self, key: Key) -> usize {
        let output = std::mem::replace(&mut self.blank, self.spare.pop().unwrap_or_default());
        self.letters.push(Letter { key, output, has_file: false, short: None });
        self.letters.len() - 1
    }

    /// Looks at a letter that was written to.
    pub(super) fn check(&mut self, place: usize) {
        let letter = &mut self.letters[place];
        self.is_urgent |= !letter.output.is_one_offer();
        if letter.output.has_file() && !std::mem::replace(&mut letter.has_file, true) {
            self.files.push(place);
        }
    }

    /// Where the next call of a connection puts its output, given the place of its letter.
    pub(super) fn output(&mut self, letter: Option<usize>) -> &mut Output {
        match letter.and_then(|place| self.letters.get_mut(place)) {
            Some(letter) => &mut letter.output,
            None => &mut self.blank,
        }
    }

    /// Takes an empty output back.
    pub(super) fn recycle(&mut self, mut output: Output) {
        if output.capacity() <= SPARE_SIZE_MAX && self.spare.len() < SPARE_COUNT_MAX {
            output.clear();
            self.spare.push(output);
        }
    }
}
