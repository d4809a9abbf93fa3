//! The loop over completions: one system call a turn hands over all requests of the turn and waits for
//! answers, which come without being asked for.
//!
//! What a connection sends is a letter until the turn ends. What concerns its socket otherwise is an order,
//! because the ring is busy while it tells what has come. Sockets that are not connected yet are watched
//! by epoll, and epoll by the ring.

use std::io;
use std::mem;
use std::ops::Range;
use std::os::fd::AsFd as _;

use jissoku_os::epoll;
use jissoku_os::uring::{Client, Event, Letter, Patience};

use crate::connection::{Connection, Phase, short};
use crate::fault::Fault;
use crate::thread::{HALT, Thread};
use crate::window::{Timing, Yield};

/// The number under which epoll is watched; connections have smaller ones.
const EPOLL: u64 = (1 << 61) - 1;

/// Set in numbers that wait for room to send.
const ROOM: u64 = 1 << 60;

/// Events of epoll that are taken at once.
const EVENTS: usize = 64;

/// What is to be done with a ring between two turns, and with whom.
#[derive(Debug)]
enum Order {
    Receive(u64),
    Cancel(u64),
    Room(u64),
    CancelRoom(u64),
    WatchEpoll,
}

/// Requests that leave with the next wait.
#[derive(Debug)]
struct Post {
    index: usize,
    /// What the ring calls the connection.
    number: u64,
    /// Where they lie: among the rotation's bytes, or in the satchel.
    range: Range<usize>,
    is_copy: bool,
}

/// The letters of a turn.
#[derive(Debug, Default)]
struct Mail {
    posts: Vec<Post>,
    /// Bytes that change from one sending to the next.
    satchel: Vec<u8>,
}

/// What gathers during a turn.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    mail: Mail,
    orders: Vec<Order>,
    /// The memory of the last turn's letters, for the next.
    spare: Mail,
}

impl Thread<'_> {
    /// As [`Thread::run`], over a ring.
    pub(crate) fn run_over(
        mut self,
        mut ring: Client,
        timing: Timing,
        place: (usize, usize),
    ) -> io::Result<Yield> {
        ring.watch(&self.epoll, EPOLL);
        self.begin(timing, place)?;
        loop {
            let now_ns = self.clock.now_ns();
            if now_ns >= self.next_mark_ns && self.mark(now_ns, timing) || self.is_done() {
                return Ok(self.close());
            }
            let now_ns = self.send_due(now_ns);
            self.give_orders(&mut ring);
            let patience = match self.patience(now_ns) {
                // Whoever has room for more requests is looked at again as soon as these have left.
                _ if self.plan.pipeline > 1 && self.has_mail() => Patience::None,
                None => Patience::Endless,
                Some(time) if time.is_zero() => Patience::None,
                Some(time) => Patience::For(time),
            };
            ring.enter(self.letters(), patience)?;
            self.waited();
            let mail = self.deliver();
            let mut halted = false;
            ring.collect(|event| halted |= self.hear(event, &mail));
            if halted {
                return Ok(self.close());
            }
            self.recycle(mail);
        }
    }

    /// Puts what a connection has to send among the letters of this turn.
    pub(crate) fn post(&mut self, index: usize) {
        let Some(outbox) = &mut self.outbox else { return };
        let connection = &self.connections[index];
        let rotation = &self.lanes[usize::from(connection.lane)].rotation;
        let session = self.sessions.get(index).and_then(Option::as_ref);
        let mut range = connection.unsent_end - connection.unsent..connection.unsent_end;
        let is_copy = session.is_some() || rotation.changes();
        let Mail { posts, satchel } = &mut outbox.mail;
        if is_copy {
            let start = satchel.len();
            let bytes = session.map_or_else(|| rotation.bytes(), |session| session.records());
            satchel.extend_from_slice(&bytes[range]);
            range = start..satchel.len();
        }
        posts.push(Post { index, number: number(index, connection), range, is_copy });
    }

    /// A connection stands: from now on its answers are told of.
    pub(crate) fn order_answers(&mut self, index: usize) -> io::Result<()> {
        let connection = &self.connections[index];
        if let (Some(outbox), Some(fd)) = (&mut self.outbox, &connection.socket) {
            self.epoll.remove(fd)?;
            outbox.orders.push(Order::Receive(number(index, connection)));
        }
        Ok(())
    }

    /// A connection is about to be closed.
    pub(crate) fn order_silence(&mut self, index: usize) {
        let connection = &self.connections[index];
        if let Some(outbox) = &mut self.outbox
            && matches!(connection.phase, Phase::Open | Phase::Ending)
        {
            let number = number(index, connection);
            outbox.orders.push(Order::Cancel(number));
            if connection.armed {
                outbox.orders.push(Order::CancelRoom(number));
            }
        }
    }

    fn give_orders(&mut self, ring: &mut Client) {
        let Some(outbox) = &mut self.outbox else { return };
        for order in outbox.orders.drain(..) {
            match order {
                Order::WatchEpoll => ring.watch(&self.epoll, EPOLL),
                Order::Cancel(number) => ring.cancel_receive(number),
                Order::CancelRoom(number) => ring.cancel_room(number | ROOM),
                Order::Receive(number) | Order::Room(number) => {
                    // The connection may be gone by now, and another one in its place.
                    let Some(index) = find(&self.connections, number) else { continue };
                    let Some(fd) = &self.connections[index].socket else { continue };
                    if matches!(order, Order::Receive(_)) {
                        ring.receive(fd, number);
                    } else {
                        ring.await_room(fd, number | ROOM);
                    }
                }
            }
        }
    }

    fn letters(&self) -> impl Iterator<Item = Letter<'_>> {
        let mail = self.outbox.iter().map(|outbox| &outbox.mail);
        let posts = mail.flat_map(|mail| mail.posts.iter().zip(0..).map(move |post| (mail, post)));
        posts.filter_map(|(mail, (post, place))| {
            let connection = &self.connections[post.index];
            let rotation = &self.lanes[usize::from(connection.lane)].rotation;
            let bytes = if post.is_copy { &mail.satchel } else { rotation.bytes() };
            let socket = connection.socket.as_ref()?.as_fd();
            let is_same = number(post.index, connection) == post.number;
            is_same.then_some(Letter { socket, bytes: &bytes[post.range.clone()], number: place })
        })
    }

    /// The letters have left, unless something else is told soon.
    fn deliver(&mut self) -> Mail {
        let Some(outbox) = &mut self.outbox else { return Mail::default() };
        let mail = mem::replace(&mut outbox.mail, mem::take(&mut outbox.spare));
        for post in &mail.posts {
            let connection = &mut self.connections[post.index];
            if number(post.index, connection) == post.number {
                connection.unsent = 0;
                let tally = &mut self.lanes[usize::from(connection.lane)].tally;
                tally.bytes_sent += post.range.len() as u64;
            }
        }
        mail
    }

    fn has_mail(&self) -> bool {
        self.outbox.as_ref().is_some_and(|outbox| !outbox.mail.posts.is_empty())
    }

    /// Whoever may send more at once does so.
    fn recycle(&mut self, mut mail: Mail) {
        if self.plan.pipeline > 1 {
            let now_ns = self.clock.now_ns();
            mail.posts.iter().for_each(|post| self.go_on(post.index, now_ns));
        }
        mail.posts.clear();
        mail.satchel.clear();
        if let Some(outbox) = &mut self.outbox {
            outbox.spare = mail;
        }
    }

    /// Deals with an event; true when everything is to end.
    fn hear(&mut self, event: Event<'_>, mail: &Mail) -> bool {
        match event {
            Event::Bytes { number, bytes, goes_on } => {
                let Some(index) = find(&self.connections, number) else { return false };
                let now_ns = self.arrival_ns();
                if !goes_on {
                    self.order(Order::Receive(number));
                }
                self.arrive(index, bytes, now_ns);
                self.go_on(index, now_ns);
            }
            Event::End { number } => {
                if let Some(index) = find(&self.connections, number) {
                    self.end(index);
                }
            }
            Event::Failed { number } => {
                if let Some(index) = find(&self.connections, number) {
                    self.lose(index, Fault::Read);
                }
            }
            Event::Stopped { number } => self.order(Order::Receive(number)),
            Event::Short { number, outcome } => {
                let place = usize::try_from(number).ok();
                if let Some(post) = place.and_then(|place| mail.posts.get(place)) {
                    self.send_later(post, &mail.satchel, outcome.ok());
                }
            }
            Event::Ready { number: EPOLL, goes_on } => return self.look_at_epoll(goes_on),
            Event::Ready { number, .. } => {
                if let Some(index) = find(&self.connections, number & !ROOM) {
                    self.flush(index);
                }
            }
        }
        false
    }

    pub(crate) fn order_room(&mut self, index: usize) {
        self.order(Order::Room(number(index, &self.connections[index])));
    }

    fn order(&mut self, order: Order) {
        if let Some(outbox) = &mut self.outbox {
            outbox.orders.push(order);
        }
    }

    /// A letter did not leave as a whole: the rest waits for room.
    fn send_later(&mut self, post: &Post, satchel: &[u8], sent: Option<usize>) {
        let index = post.index;
        let Some(sent) = sent else { return self.lose(index, Fault::Write) };
        let left = post.range.len() - sent;
        let connection = &mut self.connections[index];
        (connection.unsent, connection.armed) = (left, true);
        let tally = &mut self.lanes[usize::from(connection.lane)].tally;
        tally.bytes_sent -= left as u64;
        if post.is_copy {
            let rest = &satchel[post.range.end - left..post.range.end];
            self.spills.insert(short(index), rest.to_vec());
        }
        self.order_room(index);
    }

    fn look_at_epoll(&mut self, goes_on: bool) -> bool {
        let mut events = [epoll::no_event(); EVENTS];
        while let Ok(count @ 1..) = self.epoll.wait(&mut events, Some(std::time::Duration::ZERO)) {
            for event in &events[..count] {
                match usize::try_from(event.data.u64()) {
                    _ if event.data.u64() == HALT => return true,
                    Ok(index) if index < self.connections.len() => self.settle(index),
                    Ok(_) | Err(_) => {}
                }
            }
        }
        if !goes_on {
            self.order(Order::WatchEpoll);
        }
        false
    }
}

/// What a ring calls a connection: its place, and which of those that were in it.
fn number(index: usize, connection: &Connection) -> u64 {
    index as u64 | u64::from(connection.generation) << 32
}

/// The place of a connection, if it is still the same one.
fn find(connections: &[Connection], wanted: u64) -> Option<usize> {
    let index = usize::try_from(wanted & u64::from(u32::MAX)).ok()?;
    let connection = connections.get(index)?;
    let is_same = number(index, connection) == wanted && connection.readable().is_some();
    is_same.then_some(index)
}
