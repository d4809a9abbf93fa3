//! Servers, and what they have to receive.

use super::*;

/// Bytes behind a response.
const EXCESS: &str = "HTTP/1.1 200 OK\r\n";

/// A connection to a server, as its driver and the server know it.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(super) struct Line {
    pub(super) token: u64,
    pub(super) id: u64,
    pub(super) is_open: bool,
    is_suspended: bool,
    /// Output that is not sent.
    pub(super) unsent: usize,
    /// The number of the last request.
    number: Option<u64>,
    is_head: bool,
    wants_upgrade: bool,
    /// What is still to be sent of the response to it, and whether the connection ends behind it; `None`
    /// before the response.
    response: Option<(Vec<u8>, bool)>,
    is_answered: bool,
}

impl Line {
    /// One that is being opened.
    pub(super) const fn new(token: u64, id: u64) -> Self {
        Self {
            token,
            id,
            is_open: false,
            is_suspended: false,
            unsent: 0,
            number: None,
            is_head: false,
            wants_upgrade: false,
            response: None,
            is_answered: false,
        }
    }
}

impl Town {
    /// The place of a random connection that is open or not.
    pub(super) fn line(&mut self, is_open: bool) -> Option<usize> {
        let places: Vec<usize> =
            (0..self.lines.len()).filter(|place| self.lines[*place].is_open == is_open).collect();
        if places.is_empty() { None } else { Some(places[self.below(places.len())]) }
    }

    pub(super) fn event(&mut self, place: usize, kind: UpstreamEventKind<'_>) -> Checked {
        let token = self.lines[place].token;
        let mut output = SendBuffer::default();
        let event = UpstreamEvent { token, kind, now_ns: self.now_ns };
        let next = self.handler.on_event(event, &mut output);
        let is_open = self.lines[place].is_open;
        let bytes = output.unsent_bytes();
        if !bytes.is_empty() {
            if !is_open {
                return Err("output for a connection that is not established".to_owned());
            }
            self.serve(place, &bytes)?;
        }
        match next {
            Action::Close | Action::Abort => self.close(place, None),
            other => self.lines[place].is_suspended = other == Action::Suspend,
        }
        Ok(())
    }

    /// A connection is closed, or could not be opened.
    pub(super) fn close(&mut self, place: usize, error: Option<&io::Error>) {
        let line = self.lines.remove(place);
        Outbound::on_close(&mut self.handler, line.token, error, self.now_ns);
    }

    pub(super) fn connect(&mut self, place: usize, fails: bool) -> Checked {
        if !fails {
            self.lines[place].is_open = true;
            return self.event(place, UpstreamEventKind::Connected);
        }
        let kinds = [
            io::ErrorKind::ConnectionRefused,
            io::ErrorKind::WouldBlock,
            io::ErrorKind::AddrNotAvailable,
        ];
        let error = io::Error::from(kinds[self.below(kinds.len())]);
        self.close(place, Some(&error));
        Ok(())
    }

    /// A server receives bytes.
    pub(super) fn serve(&mut self, place: usize, bytes: &[u8]) -> Checked {
        let unsent = usize::from(self.is_one_of(6));
        let line = &mut self.lines[place];
        line.unsent = unsent;
        let mut body = bytes;
        if bytes[0].is_ascii_uppercase() {
            if line.number.is_some() && !line.is_answered {
                return Err("a second request before the response".to_owned());
            }
            let text = String::from_utf8_lossy(bytes).into_owned();
            let end = text.find("\r\n\r\n").ok_or("a head without an end")?;
            let mut words = text.split(' ');
            let (method, target) = (words.next(), words.next().unwrap_or_default());
            let number = target[1..].parse().map_err(|_| format!("the target {target}"))?;
            line.number = Some(number);
            line.is_head = method == Some("HEAD");
            line.wants_upgrade = text.contains("Upgrade: websocket");
            (line.is_answered, line.response) = (false, None);
            body = &bytes[end + 4..];
            if let Some(count) = self.unrepeatable.get_mut(&number) {
                *count += 1;
                if *count > 1 {
                    return Err(format!("{number} was repeated"));
                }
            }
        }
        match line.number {
            Some(number) if are_of(body, number) => Ok(()),
            number => Err(format!("a part of another request than {number:?}: {body:?}")),
        }
    }

    /// A server decides on its response.
    pub(super) fn answer(&mut self, place: usize) {
        let (kind, size) = (self.below(12), self.random.below(50));
        let line = &mut self.lines[place];
        let Some(number) = line.number.filter(|_| line.response.is_none()) else { return };
        let size = usize::try_from(size).expect("it is small");
        let body = String::from_utf8(vec![letter(number); size]).expect("letters");
        let body = if line.is_head { String::new() } else { body };
        let fields = format!("X-Number: {number}\r\n");
        let (text, ends) = match kind {
            0 if !line.is_head => {
                let chunk = format!("{:x}\r\n{body}\r\n", body.len());
                let chunk = if body.is_empty() { "" } else { &*chunk };
                let head = format!("HTTP/1.1 200 OK\r\n{fields}Transfer-Encoding: chunked\r\n\r\n");
                (format!("{head}{chunk}0\r\n\r\n"), false)
            }
            1 if !line.is_head => (format!("HTTP/1.1 200 OK\r\n{fields}\r\n{body}"), true),
            2 => {
                let head = format!("HTTP/1.1 503 No\r\n{fields}Content-Length: 0\r\n\r\n");
                (head, false)
            }
            3 => ("HTTP/1.1 2\r\n\r\n".to_owned(), true),
            4 => {
                // One that announces more than it sends.
                let size = body.len() + 1;
                let head = format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: {size}\r\n\r\n");
                (format!("{head}{body}"), !line.is_head)
            }
            5 if line.wants_upgrade => {
                let switch = "Connection: Upgrade\r\nUpgrade: websocket\r\n";
                (format!("HTTP/1.1 101 Go\r\n{fields}{switch}\r\n{body}"), false)
            }
            _ => {
                let interim = ["HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 103 Early\r\n\r\n", ""];
                let excess = if kind == 6 { EXCESS } else { "" };
                let close = if kind == 7 { "Connection: close\r\n" } else { "" };
                let (first, size) = (interim[kind % 3], body.len());
                let head =
                    format!("HTTP/1.1 200 OK\r\n{fields}{close}Content-Length: {size}\r\n\r\n");
                (format!("{first}{head}{body}{excess}"), kind == 7)
            }
        };
        line.response = Some((text.into_bytes(), ends));
    }

    /// A server sends a part of its response, or all that is left of it.
    pub(super) fn send(&mut self, place: usize, is_whole: bool) -> Checked {
        let part = 1 + self.below(80);
        let unsent = if self.is_one_of(8) { self.lines[place].unsent } else { 0 };
        let line = &mut self.lines[place];
        if line.is_suspended {
            return Ok(());
        }
        let Some((text, ends)) = &mut line.response else { return Ok(()) };
        if text.is_empty() {
            return Ok(());
        }
        // What is too much comes with the response: later, the connection may have another request.
        let has_excess = text.ends_with(EXCESS.as_bytes());
        let is_whole = is_whole || has_excess;
        let size = if is_whole { text.len() } else { part.min(text.len()) };
        let bytes: Vec<u8> = text.drain(..size).collect();
        let (is_last, ends) = (text.is_empty(), *ends);
        line.is_answered |= is_last;
        line.unsent = unsent;
        let token = line.token;
        self.event(place, UpstreamEventKind::Data { bytes: &bytes, unsent })?;
        let is_same = |line: &Line| line.token == token;
        match self.lines.iter().position(is_same) {
            Some(place) if is_last && ends => self.end(place),
            _ => Ok(()),
        }
    }

    /// A server shuts down its side.
    pub(super) fn end(&mut self, place: usize) -> Checked {
        if self.lines[place].is_suspended {
            return Ok(());
        }
        self.event(place, UpstreamEventKind::Eof { is_clean: true })
    }

    /// Bytes without a request, on a connection whose request has its response.
    pub(super) fn intrude(&mut self, place: usize) -> Checked {
        let line = &self.lines[place];
        // Behind a response without a visible end, and in a tunnel, it would be a part.
        let is_open_ended =
            line.wants_upgrade || line.response.as_ref().is_some_and(|(_, ends)| *ends);
        let is_idle = line.number.is_none() || (line.is_answered && !is_open_ended);
        if !is_idle || line.is_suspended {
            return Ok(());
        }
        let bytes = b"HTTP/1.1 200 OK\r\nX-Number: 0\r\nContent-Length: 0\r\n\r\n";
        self.event(place, UpstreamEventKind::Data { bytes, unsent: 0 })
    }

    /// The output of a connection is sent.
    pub(super) fn flush(&mut self, place: usize) -> Checked {
        self.lines[place].unsent = 0;
        self.event(place, UpstreamEventKind::Resumed { unsent: 0 })
    }

    /// Other servers are used from now on.
    pub(super) fn reload(&mut self) {
        self.has_reloaded = true;
        let ports: [&[u16]; 3] = [&[1, 2], &[2, 3], &[1]];
        let ports = ports[self.below(3)];
        self.handler.service.upstreams[0].publish_entries(&entries(ports));
    }
}
