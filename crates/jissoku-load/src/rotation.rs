//! The requests of a lane, one after the other, ready to be sent in runs of any length.

use std::ops::Range;

use crate::plan::LanePlan;
use crate::random::Random;
use crate::reader::Asked;
use crate::shape::Shape;
use crate::template::Templates;
use crate::wire::{Filling, Wire};

/// The shapes of a lane as one thread sends them.
///
/// Their bytes lie behind each other, and begin anew after the last, for so long that a whole pipeline's
/// worth is one piece of memory wherever it begins.
#[derive(Debug)]
pub(crate) struct Rotation<'a> {
    shapes: &'a [Shape],
    /// What each shape's right answers look like.
    pub(crate) templates: Vec<Templates>,
    wire: Wire,
    /// Where each request in `wire` ends.
    ends: Vec<usize>,
    random: Random,
    sequence: u64,
    /// Threads take numbers in turn, so that no two are the same.
    threads: u64,
}

impl<'a> Rotation<'a> {
    pub(crate) fn new(plan: &'a LanePlan, pipeline: u16, place: Place) -> Self {
        let shapes = &plan.shapes[..];
        let (mut wire, mut ends) = (Wire::default(), Vec::new());
        let slots = shapes.len() - 1 + usize::from(pipeline);
        for shape in shapes.iter().cycle().take(slots) {
            wire.append(&shape.wire);
            ends.push(wire.bytes().len());
        }
        let Place { thread, threads, seed } = place;
        let (sequence, threads) = (thread as u64, threads as u64);
        let random = Random::new(seed ^ sequence.wrapping_mul(0xa076_1d64_78bd_642f));
        let templates = shapes.iter().map(|_| Templates::default()).collect();
        Self { shapes, templates, wire, ends, random, sequence, threads }
    }

    /// How many shapes there are.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.shapes.len()
    }

    /// What `shape` asks.
    pub(crate) fn asked(&self, shape: usize) -> Asked<'a> {
        let shape = &self.shapes[shape];
        Asked { head_only: shape.head_only, expected: &shape.expected }
    }

    /// Where `count` requests from `shape` on lie, with their blanks filled.
    #[inline]
    pub(crate) fn prepare(&mut self, shape: usize, count: u16) -> Range<usize> {
        let start = if shape == 0 { 0 } else { self.ends[shape - 1] };
        let range = start..self.ends[shape + usize::from(count) - 1];
        if self.wire.has_blanks() {
            self.fill(&range);
        }
        range
    }

    /// The shape that follows `count` requests from `shape` on.
    #[inline]
    pub(crate) fn after(&self, shape: u16, count: u16) -> u16 {
        let next = usize::from(shape) + usize::from(count);
        let count = self.shapes.len();
        // A division costs more than sending the usual single shape leaves room for.
        let next = if next < count { next } else { next - count };
        short(if next < count { next } else { next % count })
    }

    /// The bytes behind each other.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        self.wire.bytes()
    }

    /// Whether the bytes of a place change from one sending to the next.
    #[inline]
    pub(crate) fn changes(&self) -> bool {
        self.wire.has_blanks()
    }

    #[cold]
    fn fill(&mut self, range: &Range<usize>) {
        let Self { wire, random, sequence, threads, .. } = self;
        wire.fill(range, |filling| match filling {
            Filling::Random => random.next(),
            Filling::Sequence => {
                let number = *sequence;
                *sequence += *threads;
                number
            }
        });
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a plan with more shapes is refused")]
fn short(shape: usize) -> u16 {
    shape as u16
}

/// Which thread of how many a rotation belongs to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) thread: usize,
    pub(crate) threads: usize,
    pub(crate) seed: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expect::{Expected, Verify};

    fn plan(texts: &[&str]) -> LanePlan {
        let shape = |text: &&str| Shape {
            name: (*text).to_owned(),
            wire: Wire::parse(text.as_bytes()).expect("it is fine"),
            head_only: false,
            expected: Expected::new(Verify::None, Vec::new(), None),
        };
        let address = "http://127.0.0.1/".parse().expect("it is a URL");
        LanePlan { address, tls: None, shapes: texts.iter().map(shape).collect(), watch: None }
    }

    const ALONE: Place = Place { thread: 0, threads: 1, seed: 1 };

    #[test]
    fn a_run_is_one_piece_wherever_it_begins() {
        let plan = plan(&["a", "bb", "ccc"]);
        let mut rotation = Rotation::new(&plan, 4, ALONE);
        for (first, runs) in [
            ["a", "abb", "abbccc", "abbccca"],
            ["bb", "bbccc", "bbccca", "bbcccabb"],
            ["ccc", "ccca", "cccabb", "cccabbccc"],
        ]
        .into_iter()
        .enumerate()
        {
            for (count, run) in (1..).zip(runs) {
                let range = rotation.prepare(first, count);
                assert_eq!(&rotation.bytes()[range], run.as_bytes());
            }
        }
    }

    #[test]
    fn threads_never_give_the_same_number() {
        let plan = plan(&["{SEQ:2}"]);
        let of = |thread| {
            let mut rotation = Rotation::new(&plan, 1, Place { thread, threads: 2, seed: 1 });
            let mut next = || {
                let range = rotation.prepare(0, 1);
                rotation.bytes()[range].to_vec()
            };
            [next(), next()]
        };
        assert_eq!([of(0), of(1)], [["00", "02"], ["01", "03"]].map(|all| all.map(Vec::from)));
    }
}
