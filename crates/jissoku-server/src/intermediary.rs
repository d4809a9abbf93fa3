//! The connection of an intermediary, which says who the client of a request is.

use jissoku_http::uwsgi::{self, UwsgiHead};
use jissoku_http::{Event, Exchange, Limits, Reject, Step};

/// What a connection of an intermediary has besides that of a client.
#[derive(Debug)]
pub(crate) struct Intermediary {
    /// Whether the peer may send what it sends.
    is_allowed: bool,
    /// Whether a packet of the uwsgi protocol is awaited.
    awaits_packet: bool,
    /// The head of the packet, until it is passed to the handler.
    head: Option<UwsgiHead>,
}

impl Intermediary {
    /// The connection of a front-end that speaks uwsgi.
    pub(crate) const fn of_uwsgi(is_allowed: bool) -> Self {
        Self { is_allowed, awaits_packet: true, head: None }
    }

    /// Parses the next element, as [`Exchange::step`] does.
    ///
    /// # Errors
    /// As there, and [`Reject::PeerUntrusted`].
    pub(crate) fn step(
        &mut self,
        bytes: &[u8],
        exchange: &mut Exchange,
        limits: &Limits,
    ) -> Result<Step, Reject> {
        if !self.is_allowed {
            return Err(Reject::PeerUntrusted);
        }
        if !self.awaits_packet {
            return exchange.step(bytes, limits);
        }
        let Some(packet) = uwsgi::read(bytes, limits)? else {
            return Ok(Step { used: 0, event: Event::Partial });
        };
        let head = self.head.insert(packet.to_head(limits)?).head;
        self.awaits_packet = false;
        *exchange = Exchange::behind_head(head.body);
        Ok(Step { used: packet.size, event: Event::Head(head) })
    }

    /// Takes the head of the packet, once.
    pub(crate) const fn take_head(&mut self) -> Option<UwsgiHead> {
        self.head.take()
    }
}
