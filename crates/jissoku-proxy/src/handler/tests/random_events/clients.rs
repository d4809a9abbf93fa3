//! Clients, and what they have to get.

use jissoku_http::date;
use jissoku_server::{HedgeResult, LogRecord};

use super::*;

/// A client and its request.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(super) struct Customer {
    pub(super) number: u64,
    pub(super) client: Client,
    pub(super) side: ClientSide,
    is_head: bool,
    /// Bytes of the body that are still to come; `None` if it is chunked.
    left: Option<u64>,
    has_sent_all: bool,
    pub(super) is_tunnel: bool,
    /// It has to read before more is written.
    pub(super) is_behind: bool,
    got: Vec<u8>,
}

/// What is written to a client.
#[derive(Debug, Default)]
struct Sink {
    bytes: Vec<u8>,
    is_closed: bool,
    is_upgraded: bool,
    error: Option<u16>,
}

impl ResponseSink for Sink {
    fn append(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn append_from(&mut self, start: usize, bytes: &mut Vec<u8>) {
        self.bytes.extend_from_slice(&bytes[start..]);
        bytes.clear();
    }

    fn date(&self) -> [u8; date::SIZE] {
        [b'0'; date::SIZE]
    }

    fn keeps_alive(&self) -> bool {
        !self.is_closed
    }

    fn close_after(&mut self) {
        self.is_closed = true;
    }

    fn upgrade(&mut self) {
        self.is_upgraded = true;
    }

    fn set_sent(&mut self, _: u16, _: u64) {}

    fn write_error(&mut self, status: u16, _: &str) {
        self.error = Some(status);
    }
}

impl Town {
    pub(super) fn forwarding(&mut self) -> Forwarding {
        Forwarding {
            try_ns: self.is_one_of(3).then_some(TRY_NS),
            retry: RetryPolicy { on_timeout: true, tries_max: 3, ..RetryPolicy::default() },
            hedge: self.is_one_of(3).then_some(0),
            collect_size: 16,
            on_client_end: [ClientEnd::Deliver, ClientEnd::Finish, ClientEnd::Abort][self.below(3)],
            ..Forwarding::new(0, HEAD_NS)
        }
    }

    pub(super) fn ask(&mut self) -> Checked {
        if self.customers.len() == CLIENTS_MAX {
            return Ok(());
        }
        self.numbers += 1;
        let number = self.numbers;
        let method = ["GET", "GET", "GET", "HEAD", "PUT", "POST", "POST", "DELETE"][self.below(8)];
        let has_body = matches!(method, "PUT" | "POST") && !self.is_one_of(4);
        let version = if self.is_one_of(8) { "1.0" } else { "1.1" };
        let wants_upgrade = method == "GET" && version == "1.1" && self.is_one_of(12);
        let (fields, left) = match self.below(3) {
            _ if wants_upgrade => {
                ("Connection: Upgrade\r\nUpgrade: websocket\r\n".to_owned(), Some(0))
            }
            _ if matches!(method, "PUT" | "POST") && !has_body => {
                ("Content-Length: 0\r\n".to_owned(), Some(0))
            }
            _ if !has_body => (String::new(), Some(0)),
            0 if version == "1.1" => ("Transfer-Encoding: chunked\r\n".to_owned(), None),
            // Some are collected, and some are streamed.
            _ => {
                let size = 1 + self.random.below(40);
                let expects = self.is_one_of(4) && version == "1.1";
                let expect = if expects { "Expect: 100-continue\r\n" } else { "" };
                (format!("Content-Length: {size}\r\n{expect}"), Some(size))
            }
        };
        let text = format!("{method} /{number} HTTP/{version}\r\nHost: a\r\n{fields}\r\n");
        let head = HeadReader::default().read(text.as_bytes(), &Limits::DEFAULT);
        let head = head.expect("it is in order").expect("it is whole");
        if method == "POST" {
            self.unrepeatable.insert(number, 0);
        }
        let client = Client::local(ConnectionId::from_token(number));
        let (forwarding, now_ns) = (self.forwarding(), self.now_ns);
        let request = RequestHead {
            head: &head,
            bytes: text.as_bytes(),
            now_ns,
            identity: None,
            request_id: None,
        };
        let side = self.handler.begin(&client, &request, forwarding, &Captures::default());
        self.customers.push(Customer {
            number,
            client,
            side,
            is_head: method == "HEAD",
            left,
            has_sent_all: left == Some(0),
            is_tunnel: false,
            is_behind: false,
            got: Vec::new(),
        });
        self.respond(self.customers.len() - 1)
    }

    /// The place of a random client.
    pub(super) fn customer(&mut self) -> Option<usize> {
        let count = self.customers.len();
        (count > 0).then(|| self.below(count))
    }

    /// A client sends a part of its body, or the end of that.
    pub(super) fn upload(&mut self, place: usize) -> Checked {
        let size = 1 + self.random.below(10);
        let ends = self.is_one_of(3);
        let customer = &mut self.customers[place];
        let flow = self.handler.flow(&customer.side);
        if customer.is_tunnel && flow != BodyFlow::Hold {
            self.handler.take_body(&mut customer.side, &[letter(customer.number)]);
            return self.respond(place);
        }
        if customer.has_sent_all || flow == BodyFlow::Hold {
            return Ok(());
        }
        let size = customer.left.map_or(size, |left| left.min(size));
        let part = vec![letter(customer.number); usize::try_from(size).expect("it is small")];
        self.handler.take_body(&mut customer.side, &part);
        customer.left = customer.left.map(|left| left - size);
        customer.has_sent_all = customer.left.map_or(ends, |left| left == 0);
        if customer.has_sent_all && flow != BodyFlow::Whole {
            self.handler.take_end(&mut customer.side);
        }
        self.respond(place)
    }

    /// Writes the response of a client, as far as it is there.
    pub(super) fn respond(&mut self, place: usize) -> Checked {
        let customer = &mut self.customers[place];
        if self.handler.flow(&customer.side) == BodyFlow::Whole && !customer.has_sent_all {
            return Ok(());
        }
        self.handler.now_ns = self.now_ns;
        let mut sink = Sink::default();
        let reply = self.handler.reply(&customer.client, &mut customer.side, &mut sink);
        customer.got.extend_from_slice(&sink.bytes);
        customer.is_tunnel |= sink.is_upgraded;
        customer.is_behind = reply.progress == Progress::Sent;
        let is_complete = reply.progress == Progress::Complete
            && !sink.is_closed
            && sink.error.is_none()
            && !customer.is_tunnel;
        check_response(customer, is_complete)?;
        self.note("tunnels", u64::from(sink.is_upgraded));
        if let Some(key) = reply.ended {
            self.end_exchange(key)?;
        }
        if matches!(reply.progress, Progress::Complete | Progress::Reset) {
            drop(self.customers.remove(place));
        }
        Ok(())
    }

    fn end_exchange(&mut self, key: Key) -> Checked {
        let exchange = self.handler.exchanges.get_ref(key).ok_or("it has ended before")?;
        check_time(exchange, self.now_ns)?;
        let outcome = exchange.logged(None, None, self.now_ns).outcome;
        let end = exchange.error().unwrap_or("complete");
        self.note(end, 1);
        self.note("several tries", u64::from(outcome.tries > 1));
        self.note("reused connections", u64::from(outcome.is_reused));
        self.note("copies used", u64::from(outcome.hedge == Some(HedgeResult::Won)));
        self.note("copies unused", u64::from(outcome.hedge == Some(HedgeResult::Lost)));
        self.handler.end_exchange(key);
        Ok(())
    }

    /// A client leaves in one of several ways.
    pub(super) fn leave(&mut self, place: usize) {
        let log = &mut LogRecord::default();
        let Customer { mut client, side, has_sent_all, .. } = self.customers.remove(place);
        let reason = match self.below(4) {
            // The server has forgotten it.
            0 => return drop(side),
            1 if !has_sent_all => AbandonReason::Rejected,
            _ => AbandonReason::Closed,
        };
        self.handler.on_abandon(&mut client, side, reason, log);
    }
}

/// A failure whose time has come, if it is one of time.
fn check_time(exchange: &Exchange, now_ns: u64) -> Checked {
    let (whole_ns, last_ns) =
        (now_ns.saturating_sub(exchange.begun_ns()), exchange.latency_ns(now_ns));
    let is_due = match exchange.error() {
        Some("http_response_timeout") => {
            whole_ns >= HEAD_NS || (exchange.forwarding().try_ns.is_some() && last_ns >= TRY_NS)
        }
        Some("connection_timeout") => last_ns >= TIMEOUTS.connect_ns || whole_ns >= HEAD_NS,
        Some("connection_read_timeout") => last_ns >= TIMEOUTS.read_ns,
        _ => true,
    };
    if is_due {
        return Ok(());
    }
    Err(format!("{:?} after {last_ns} ns, {whole_ns} ns in all", exchange.error()))
}

/// What a client has got is the response to its request, and whole if it is complete.
fn check_response(customer: &Customer, is_complete: bool) -> Checked {
    let Customer { number, got, is_head, .. } = customer;
    let mut rest = &got[..];
    loop {
        let head_size = rest.windows(4).position(|four| four == b"\r\n\r\n").map(|at| at + 4);
        let Some(head_size) = head_size else {
            return if is_complete { Err(format!("{number} has no response")) } else { Ok(()) };
        };
        let head = String::from_utf8_lossy(&rest[..head_size]).into_owned();
        rest = &rest[head_size..];
        if head.starts_with("HTTP/1.1 103") {
            continue;
        }
        if !head.contains(&format!("X-Number: {number}\r\n")) {
            return Err(format!("{number} got {head:?}"));
        }
        if !are_of(rest, *number) {
            return Err(format!("{number} got the body {:?}", String::from_utf8_lossy(rest)));
        }
        let announced = head.split("Content-Length: ").nth(1);
        let announced = announced.and_then(|text| text.split('\r').next()?.parse::<usize>().ok());
        let is_whole = match announced {
            _ if *is_head => rest.is_empty(),
            Some(size) => rest.len() == size,
            None => rest.ends_with(b"0\r\n\r\n"),
        };
        return if is_complete && !is_whole {
            Err(format!("{number} got a part of {head:?}: {:?}", String::from_utf8_lossy(rest)))
        } else {
            Ok(())
        };
    }
}
