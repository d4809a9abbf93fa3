//! Times of the phases of an exchange, for the access log.

/// The times of an exchange on the monotonic clock; 0 as long as something has not happened.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_field_names, reason = "units end names")]
pub(crate) struct Phases {
    /// It was to be forwarded.
    pub(crate) begun_ns: u64,
    /// It got its last connection, which may yet have to be established.
    pub(crate) connecting_ns: u64,
    /// Its request was sent there.
    pub(crate) sent_ns: u64,
    /// The head of the response was received.
    pub(crate) head_ns: u64,
}

impl Phases {
    /// It gets a connection, the first one or another.
    pub(crate) const fn connect(&mut self, now_ns: u64) {
        *self = Self { begun_ns: self.begun_ns, connecting_ns: now_ns, sent_ns: 0, head_ns: 0 };
    }

    /// Its connection has failed, and it waits for another.
    pub(crate) const fn wait(&mut self) {
        *self = Self { begun_ns: self.begun_ns, connecting_ns: 0, sent_ns: 0, head_ns: 0 };
    }

    /// How long it waited for its connection, until its request was sent, until the head of the
    /// response, and from there to the end at `end_ns`. What did not begin took no time.
    pub(crate) fn durations_ns(&self, end_ns: u64) -> [u64; 4] {
        let begins = [self.begun_ns, self.connecting_ns, self.sent_ns, self.head_ns];
        std::array::from_fn(|phase| {
            let next = begins.get(phase + 1).copied().filter(|begin_ns| *begin_ns != 0);
            match begins[phase] {
                0 => 0,
                begin_ns => next.unwrap_or(end_ns).saturating_sub(begin_ns),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_phase_lasts_until_the_next() {
        let mut phases = Phases { begun_ns: 10, ..Phases::default() };
        assert_eq!(phases.durations_ns(15), [5, 0, 0, 0]);
        phases.connect(12);
        assert_eq!(phases.durations_ns(15), [2, 3, 0, 0]);
        (phases.sent_ns, phases.head_ns) = (20, 24);
        assert_eq!(phases.durations_ns(100), [2, 8, 4, 76]);
        phases.connect(30);
        assert_eq!(phases.durations_ns(31), [20, 1, 0, 0], "what came before was waiting");
        phases.wait();
        assert_eq!(phases.durations_ns(40), [30, 0, 0, 0]);
    }
}
