//! The requests of a target, repeated cyclically, ready to be sent in runs of any length.

use std::ops::Range;

use crate::engine::random::Random;
use crate::plan::TargetPlan;
use crate::plan::options::Order;
use crate::plan::request_spec::RequestSpec;
use crate::protocol::reader::ResponseInfo;
use crate::protocol::request_template::{PlaceholderKind, RequestTemplate};
use crate::protocol::response_matcher::ResponseMatcher;
use crate::protocol::response_reader::ResponseContext;

/// Limit of the size of all known responses of one worker; further ones are parsed each time.
const LEARNED_SIZE_MAX: usize = 64 << 20;

/// The requests of a target, as one worker sends them.
///
/// Their bytes are contiguous and repeated past the end, so that a full pipeline is one contiguous
/// range wherever it begins.
#[derive(Debug)]
pub(crate) struct RequestSequence<'a> {
    specs: &'a [RequestSpec],
    /// The known responses, by request.
    pub(crate) matchers: Vec<ResponseMatcher>,
    /// The size of these responses.
    learned_size: usize,
    order: Order,
    /// The next request with `Order::Shared`.
    cursor: usize,
    template: RequestTemplate,
    /// Where each request in `template` ends.
    ends: Vec<usize>,
    random: Random,
    sequence: u64,
    /// Workers use sequence numbers in turn, so that each is unique.
    threads: u64,
}

impl<'a> RequestSequence<'a> {
    pub(crate) fn new(
        plan: &'a TargetPlan,
        (pipeline, order): (u16, Order),
        worker_index: WorkerIndex,
    ) -> Self {
        let specs = &plan.specs[..];
        let (mut template, mut ends) = (RequestTemplate::default(), Vec::new());
        let slots = specs.len() - 1 + usize::from(pipeline);
        for spec in specs.iter().cycle().take(slots) {
            template.append(&spec.template);
            ends.push(template.bytes().len());
        }
        let WorkerIndex { thread, threads, seed } = worker_index;
        let (sequence, threads) = (thread as u64, threads as u64);
        let random = Random::new(seed ^ sequence.wrapping_mul(0xa076_1d64_78bd_642f));
        let matchers = specs.iter().map(|_| ResponseMatcher::default()).collect();
        let cursor = thread % specs.len();
        let learned_size = 0;
        Self {
            specs,
            matchers,
            learned_size,
            order,
            cursor,
            template,
            ends,
            random,
            sequence,
            threads,
        }
    }

    /// The number of requests in the cycle.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.specs.len()
    }

    /// The request that is sent next, unless each connection goes through the cycle by itself.
    /// Workers take the requests of a shared cycle in turn.
    #[inline]
    pub(crate) fn draw(&mut self) -> Option<u16> {
        let count = self.specs.len();
        let spec = match self.order {
            Order::PerConnection => return None,
            Order::Shared => {
                let step = usize::try_from(self.threads).unwrap_or(1);
                let spec = self.cursor;
                self.cursor = (spec + step) % count;
                spec
            }
            Order::Random => self.random.below(count),
        };
        Some(short(spec))
    }

    /// Stores a complete response to request `spec`, if it is correct and there is room.
    pub(crate) fn learn(&mut self, spec: usize, bytes: &[u8], response: ResponseInfo) {
        let matcher = &mut self.matchers[spec];
        if self.learned_size + bytes.len() <= LEARNED_SIZE_MAX {
            let before = matcher.size();
            matcher.update(bytes, response);
            self.learned_size = self.learned_size + matcher.size() - before;
        }
    }

    /// The context of request `spec`.
    pub(crate) fn context(&self, spec: usize) -> ResponseContext<'a> {
        let spec = &self.specs[spec];
        ResponseContext { framing: spec.framing, expected: &spec.expected }
    }

    /// The range of `count` requests from `spec` on, with their placeholders filled.
    #[inline]
    pub(crate) fn prepare(&mut self, spec: usize, count: u16) -> Range<usize> {
        let start = if spec == 0 { 0 } else { self.ends[spec - 1] };
        let range = start..self.ends[spec + usize::from(count) - 1];
        if self.template.has_placeholders() {
            self.fill(start, spec..spec + usize::from(count));
        }
        range
    }

    /// The request that follows `count` requests from `spec` on.
    #[inline]
    pub(crate) fn spec_after(&self, spec: u16, count: u16) -> u16 {
        let next = usize::from(spec) + usize::from(count);
        let count = self.specs.len();
        // The usual case, without a division in the hot path.
        let next = if next < count { next } else { next - count };
        short(if next < count { next } else { next % count })
    }

    /// A random number.
    pub(crate) fn random(&mut self) -> u64 {
        self.random.next()
    }

    /// The bytes of all requests.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        self.template.bytes()
    }

    /// Whether the bytes change from one sending to the next.
    #[inline]
    pub(crate) fn has_placeholders(&self) -> bool {
        self.template.has_placeholders()
    }

    /// Fills the placeholders of some requests, the first of which begins at `start`. A request has
    /// one sequence number, however often it has it.
    #[cold]
    fn fill(&mut self, mut start: usize, requests: Range<usize>) {
        let Self { template, ends, random, sequence, threads, .. } = self;
        for &end in &ends[requests] {
            let mut has_number = false;
            template.fill(&(start..end), |kind| match kind {
                PlaceholderKind::Random | PlaceholderKind::Masked => random.next(),
                PlaceholderKind::Sequence => {
                    has_number = true;
                    *sequence
                }
            });
            if has_number {
                *sequence += *threads;
            }
            start = end;
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a plan with more shapes is refused")]
fn short(spec: usize) -> u16 {
    spec as u16
}

/// Identifies one of several workers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WorkerIndex {
    pub(crate) thread: usize,
    pub(crate) threads: usize,
    pub(crate) seed: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::expect::{Expected, Verify};
    use crate::protocol::response_reader::ResponseFraming;

    fn plan(texts: &[&str]) -> TargetPlan {
        let spec = |text: &&str| RequestSpec {
            name: (*text).to_owned(),
            template: RequestTemplate::parse(text.as_bytes()).expect("it is fine"),
            framing: ResponseFraming::Http,
            expected: Expected::new(Verify::None, Vec::new(), None),
        };
        let address = "http://127.0.0.1/".parse().expect("it is a URL");
        let specs = texts.iter().map(spec).collect();
        TargetPlan::new(address, specs)
    }

    const ALONE: WorkerIndex = WorkerIndex { thread: 0, threads: 1, seed: 1 };

    #[test]
    fn a_run_is_one_piece_wherever_it_begins() {
        let plan = plan(&["a", "bb", "ccc"]);
        let mut request_sequence = RequestSequence::new(&plan, (4, Order::PerConnection), ALONE);
        for (first, runs) in [
            ["a", "abb", "abbccc", "abbccca"],
            ["bb", "bbccc", "bbccca", "bbcccabb"],
            ["ccc", "ccca", "cccabb", "cccabbccc"],
        ]
        .into_iter()
        .enumerate()
        {
            for (count, run) in (1..).zip(runs) {
                let range = request_sequence.prepare(first, count);
                assert_eq!(&request_sequence.bytes()[range], run.as_bytes());
            }
        }
    }

    #[test]
    fn all_parts_of_a_request_have_its_number() {
        let plan = plan(&["{SEQ:2}/{SEQ:3}", "-", "{SEQ:1}"]);
        let mut request_sequence = RequestSequence::new(&plan, (4, Order::PerConnection), ALONE);
        let mut next = |spec, count| {
            let range = request_sequence.prepare(spec, count);
            String::from_utf8(request_sequence.bytes()[range].to_vec()).expect("all ASCII")
        };
        assert_eq!([next(0, 4), next(1, 2), next(0, 1)], ["00/000-102/002", "-3", "04/004"]);
    }

    #[test]
    fn threads_never_give_the_same_number() {
        let plan = plan(&["{SEQ:2}"]);
        let of = |thread| {
            let mut request_sequence = RequestSequence::new(
                &plan,
                (1, Order::PerConnection),
                WorkerIndex { thread, threads: 2, seed: 1 },
            );
            let mut next = || {
                let range = request_sequence.prepare(0, 1);
                request_sequence.bytes()[range].to_vec()
            };
            [next(), next()]
        };
        assert_eq!([of(0), of(1)], [["00", "02"], ["01", "03"]].map(|all| all.map(Vec::from)));
    }

    #[test]
    fn workers_take_a_shared_cycle_in_turn() {
        let plan = plan(&["a", "b", "c"]);
        let of = |thread, threads| {
            let worker_index = WorkerIndex { thread, threads, seed: 1 };
            let mut sequence = RequestSequence::new(&plan, (1, Order::Shared), worker_index);
            [(); 4].map(|()| sequence.draw().expect("it is shared"))
        };
        assert_eq!(of(0, 1), [0, 1, 2, 0]);
        assert_eq!([of(0, 2), of(1, 2)], [[0, 2, 1, 0], [1, 0, 2, 1]]);
        assert_eq!([of(0, 3), of(4, 6)], [[0; 4], [1; 4]]);
    }
}
