//! The life of a request: it is sent, its answer comes, and both are counted.

use std::mem;

use jissoku_os::epoll::Interest;
use jissoku_os::socket::{self, Received};

use crate::connection::{Phase, Stamp, short};
use crate::fault::Fault;
use crate::ledger::Kind;
use crate::reader::{Answer, Progress, Reader};
use crate::thread::Thread;

impl Thread<'_> {
    /// Sends a pipeline's worth of requests of the closed loop, in one piece.
    pub(crate) fn send_batch(&mut self, index: usize, now_ns: u64) {
        let depth = self.plan.pipeline;
        let connection = &mut self.connections[index];
        let lane = &mut self.lanes[usize::from(connection.lane)];
        let most = lane.budget.min(u64::from(connection.left));
        let count = u16::try_from(most).map_or(depth, |most| most.min(depth));
        if count == 0 {
            return;
        }
        lane.sends(count, connection);
        connection.outstanding = count;
        connection.oldest = 0;
        let first = index * usize::from(depth);
        let stamp = Stamp { due_ns: now_ns, sent_ns: now_ns };
        self.stamps[first..first + usize::from(count)].fill(stamp);
        self.time(index, now_ns);
        self.dispatch(index);
    }

    /// Sends what a connection has to send: at once, or with the next wait.
    #[inline]
    pub(crate) fn dispatch(&mut self, index: usize) {
        if !self.sessions.is_empty() {
            self.seal(index);
        }
        if self.outbox.is_some() {
            self.post(index);
        } else {
            self.flush(index);
        }
    }

    /// Hands the kernel what it has not taken yet.
    pub(crate) fn flush(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        let lane = &mut self.lanes[usize::from(connection.lane)];
        let Some(fd) = &connection.socket else { return };
        let armed = connection.armed;
        while connection.unsent > 0 {
            let session = self.sessions.get(index).and_then(Option::as_ref);
            let all = session.map_or_else(|| lane.rotation.bytes(), |session| session.records());
            let mut bytes = &all[..connection.unsent_end];
            if armed && let Some(spill) = self.spills.get(&short(index)) {
                bytes = spill;
            }
            match socket::send(fd, &bytes[bytes.len() - connection.unsent..]) {
                Ok(0) => break,
                Ok(count) => {
                    connection.unsent -= count;
                    lane.tally.bytes_sent += count as u64;
                }
                Err(_) => return self.lose(index, Fault::Write),
            }
        }
        let wanted = connection.unsent > 0;
        connection.armed = wanted;
        if self.outbox.is_some() {
            if wanted {
                return self.order_room(index);
            }
        } else if wanted != armed {
            let writable = if wanted { Interest::OUT } else { Interest::empty() };
            let interest = Interest::IN | Interest::RDHUP | Interest::ET | writable;
            if self.epoll.modify(fd, index as u64, interest).is_err() {
                return self.lose(index, Fault::Write);
            }
        }
        let is_plain = self.sessions.get(index).is_none_or(Option::is_none);
        if wanted && !armed && is_plain && lane.rotation.changes() {
            // Their place will hold other requests when the kernel takes bytes again.
            let end = connection.unsent_end;
            let rest = &lane.rotation.bytes()[end - connection.unsent..end];
            self.spills.insert(short(index), rest.to_vec());
        }
        if armed && !wanted {
            self.spills.remove(&short(index));
            let now_ns = self.clock.now_ns();
            self.go_on(index, now_ns);
        }
    }

    /// Reads what has come. A read that does not fill the buffer has drained the socket, unless the end
    /// of the connection is announced too, which is no bytes and would not be announced again.
    pub(crate) fn receive(&mut self, index: usize, flags: Interest, buffer: &mut [u8]) {
        let ends = flags.intersects(Interest::RDHUP | Interest::HUP | Interest::ERR);
        while let Some(fd) = self.connections[index].readable() {
            match socket::receive(fd, buffer) {
                Ok(Received::Bytes(count)) => {
                    let now_ns = self.arrival_ns();
                    self.arrive(index, &buffer[..count], now_ns);
                    if ends {
                        continue;
                    }
                    self.go_on(index, now_ns);
                    if count < buffer.len() {
                        return;
                    }
                }
                Ok(Received::NotYet) => return,
                Ok(Received::End) => return self.end(index),
                Err(_) => return self.lose(index, Fault::Read),
            }
        }
    }

    /// Bytes have come off a socket at `now_ns`.
    #[inline]
    pub(crate) fn arrive(&mut self, index: usize, bytes: &[u8], now_ns: u64) {
        let lane = usize::from(self.connections[index].lane);
        self.lanes[lane].tally.bytes_received += bytes.len() as u64;
        if self.sessions.is_empty() {
            self.take(index, bytes, now_ns);
        } else {
            self.unseal(index, bytes, now_ns);
        }
    }

    /// Takes the bytes of answers that came at `now_ns`.
    pub(crate) fn take(&mut self, index: usize, bytes: &[u8], now_ns: u64) {
        let lane = usize::from(self.connections[index].lane);
        let mut rest = bytes;
        while !rest.is_empty() {
            if self.connections[index].outstanding == 0 {
                self.lanes[lane].tally.failed(Fault::Malformed, 1);
                self.lanes[lane].tally.unasked += 1;
                return self.lose(index, Fault::Closed);
            }
            match self.read(index, rest) {
                Progress::More => return,
                Progress::Broken => {
                    self.count(index, (0, Some(Fault::Malformed)), now_ns);
                    return self.lose(index, Fault::Closed);
                }
                Progress::Whole(answer, size) => {
                    self.count(index, (answer.status, answer.fault), now_ns);
                    rest = &rest[size..];
                    let connection = &self.connections[index];
                    let is_spent = connection.left == 0 && connection.outstanding == 0;
                    if !answer.keeps_alive || is_spent {
                        return self.part(index, answer, now_ns);
                    }
                }
            }
        }
    }

    #[inline]
    fn read(&mut self, index: usize, bytes: &[u8]) -> Progress {
        let connection = &mut self.connections[index];
        let lane = &mut self.lanes[usize::from(connection.lane)];
        if connection.reader.is_none()
            && let Some((answer, size)) =
                lane.rotation.templates[usize::from(connection.asked)].recognise(bytes)
        {
            return Progress::Whole(answer, size);
        }
        let mut reader = connection.reader.take().or_else(|| self.spare.take()).unwrap_or_default();
        let starts = reader.is_fresh();
        let progress = reader.feed(bytes, lane.rotation.asked(usize::from(connection.asked)));
        match progress {
            Progress::More => {
                connection.reader = Some(reader);
                return progress;
            }
            Progress::Whole(answer, size) if starts => {
                let templates = &mut lane.rotation.templates[usize::from(connection.asked)];
                templates.learn(&bytes[..size], answer);
            }
            Progress::Whole(..) | Progress::Broken => {}
        }
        if reader.is_fresh() {
            self.spare = Some(reader);
        }
        progress
    }

    /// Counts the answer to a connection's oldest request, of which status and fault are known.
    #[inline]
    fn count(&mut self, index: usize, (status, fault): (u16, Option<Fault>), now_ns: u64) {
        let depth = self.plan.pipeline;
        let connection = &mut self.connections[index];
        let stamp = self.stamps[index * usize::from(depth) + usize::from(connection.oldest)];
        connection.oldest += 1;
        if connection.oldest == depth {
            connection.oldest = 0;
        }
        connection.outstanding -= 1;
        let lane = &mut self.lanes[usize::from(connection.lane)];
        let shape = connection.asked;
        connection.asked = lane.rotation.after(shape, 1);
        lane.in_flight -= 1;
        let service_ns = now_ns.saturating_sub(stamp.sent_ns);
        let latency_ns = now_ns.saturating_sub(stamp.due_ns);
        let late = service_ns > self.plan.timeout_ns;
        let fault = fault.or(late.then_some(Fault::Timeout));
        if let Some(ledger) = &mut self.ledger {
            let kind = fault.map_or(Kind::Ok, Kind::Failed);
            ledger.note(connection.lane, stamp, now_ns, (status, kind));
        }
        match fault {
            None => lane.tally.answered(shape, latency_ns, service_ns),
            Some(fault) => {
                lane.tally.failed(fault, 1);
                if fault == Fault::Timeout {
                    lane.tally.waited(latency_ns, service_ns);
                }
            }
        }
        let window = &mut self.window;
        let gap_ns = now_ns.saturating_sub(mem::replace(&mut window.last_answer_ns, now_ns));
        window.longest_gap_ns = window.longest_gap_ns.max(gap_ns);
    }

    /// Asks again, at the moment at which the last answer came, or stands in line for the next request
    /// that is due.
    pub(crate) fn go_on(&mut self, index: usize, now_ns: u64) {
        let connection = &mut self.connections[index];
        // An answer may come before its request has left; then the connection goes on when it has.
        if connection.phase != Phase::Open || connection.unsent > 0 {
            return;
        }
        if self.plan.pace.is_closed() {
            if connection.outstanding == 0 && !connection.queued && !self.think(index, now_ns) {
                self.send_batch(index, now_ns);
            }
        } else if !connection.queued && connection.can_take(self.plan.pipeline) {
            connection.queued = true;
            connection.since_ns = now_ns;
            self.lanes[usize::from(connection.lane)].free.push_back(short(index));
        }
    }

    /// Leaves a connection that has had its last answer. A server that said it would close is given the
    /// time to do so: to it, a reset in that moment would look like a fault.
    fn part(&mut self, index: usize, answer: Answer, now_ns: u64) {
        let connection = &mut self.connections[index];
        if connection.outstanding > 0 || answer.keeps_alive {
            return self.lose(index, Fault::Closed);
        }
        connection.phase = Phase::Ending;
        connection.since_ns = now_ns;
        self.time(index, now_ns);
    }

    /// The server has closed its side.
    pub(crate) fn end(&mut self, index: usize) {
        let is_cut = self.is_cut(index);
        let connection = &mut self.connections[index];
        if connection.outstanding > 0 {
            let rotation = &self.lanes[usize::from(connection.lane)].rotation;
            let asked = rotation.asked(usize::from(connection.asked));
            let mut reader: Box<Reader> = connection.reader.take().unwrap_or_default();
            let now_ns = self.clock.now_ns();
            // A body that only the end of the connection ends may have been cut short by anybody.
            let cut = is_cut.then_some(Fault::Length);
            let found = match reader.end(asked) {
                Ok(answer) => (answer.status, answer.fault.or(cut)),
                Err(fault) => (0, Some(fault)),
            };
            self.count(index, found, now_ns);
        }
        self.lose(index, Fault::Closed);
    }

    /// Gives a connection up, with all requests on it, and opens another one in its place.
    pub(crate) fn lose(&mut self, index: usize, fault: Fault) {
        let now_ns = self.clock.now_ns();
        while self.connections[index].outstanding > 0 {
            self.count(index, (0, Some(fault)), now_ns);
        }
        self.replace(index);
    }
}
