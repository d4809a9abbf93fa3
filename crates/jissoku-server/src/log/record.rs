//! Log records and batches, on their way from a worker to the writer.

use std::net::SocketAddr;
use std::sync::mpsc::SyncSender;

use super::forwarded::{Forwarded, ForwardedOutcome};
use crate::app_times::AppTimes;

/// Marks a header field that was not sent.
const ABSENT: u32 = u32::MAX;

/// Size of texts at which a batch is full.
const TEXTS_SIZE_HIGH: usize = 64 * 1024;

/// Number of records at which a batch is full.
const RECORDS_MAX: usize = 1024;

/// The numbers of one request, and the sizes of its texts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    /// The client address; `None` for a Unix socket.
    pub(super) peer: Option<SocketAddr>,
    /// When it was received, on the monotonic clock.
    pub(super) received_ns: u64,
    pub(super) duration_ns: u64,
    pub(super) body_size: u64,
    pub(super) status: u16,
    /// The phases of a request that an application has answered.
    pub(super) app_times: Option<AppTimes>,
    line_size: u32,
    referer_size: u32,
    agent_size: u32,
    request_id_size: u32,
    /// Requests to other servers.
    forwarded_count: u16,
}

/// A request to another server: its numbers, and the sizes of its texts.
#[derive(Clone, Copy, Debug)]
struct ForwardedRecord {
    outcome: ForwardedOutcome,
    part_size: u32,
    upstream_size: u32,
    server_size: u32,
    response_size: u32,
}

/// The log entry of a connection: texts are copied when a request is parsed, numbers are set with
/// the response.
#[derive(Debug)]
pub(crate) struct LogEntry {
    pub(super) record: Record,
    texts: Vec<u8>,
    forwarded: Vec<ForwardedRecord>,
    /// Whether a request has no response yet.
    pub(super) is_in_progress: bool,
}

impl LogEntry {
    pub(super) const fn new() -> Self {
        let record = Record {
            peer: None,
            received_ns: 0,
            duration_ns: 0,
            body_size: 0,
            status: 0,
            app_times: None,
            line_size: 0,
            referer_size: ABSENT,
            agent_size: ABSENT,
            request_id_size: ABSENT,
            forwarded_count: 0,
        };
        Self { record, texts: Vec::new(), forwarded: Vec::new(), is_in_progress: false }
    }

    /// Sets the address of the client of the next requests.
    pub(crate) const fn set_peer(&mut self, peer: Option<SocketAddr>) {
        self.record.peer = peer;
    }

    /// Starts a record with the request line as received.
    pub(super) fn begin(&mut self, received_ns: u64, line: &[u8]) {
        self.texts.clear();
        self.forwarded.clear();
        self.is_in_progress = true;
        let line_size = append(&mut self.texts, line);
        self.record =
            Record { peer: self.record.peer, received_ns, line_size, ..Self::new().record };
    }

    /// Adds the values of two header fields, if they were sent.
    pub(super) fn describe(&mut self, referer: Option<&[u8]>, agent: Option<&[u8]>) {
        let mut add =
            |text: Option<&[u8]>| text.map_or(ABSENT, |text| append(&mut self.texts, text));
        self.record.referer_size = add(referer);
        self.record.agent_size = add(agent);
    }

    /// Adds the id of the request, behind the header fields.
    pub(crate) fn set_request_id(&mut self, id: &[u8]) {
        self.record.request_id_size = append(&mut self.texts, id);
    }

    /// Adds a request to another server, behind the header fields.
    pub(crate) fn add_forwarded(&mut self, forwarded: &Forwarded<'_>) {
        let Forwarded { part, upstream, server, response, outcome } = *forwarded;
        self.forwarded.push(ForwardedRecord {
            outcome,
            part_size: append(&mut self.texts, part.as_bytes()),
            upstream_size: append(&mut self.texts, upstream.as_bytes()),
            server_size: append(&mut self.texts, server.as_bytes()),
            response_size: append(&mut self.texts, response),
        });
        self.record.forwarded_count += 1;
    }

    /// Frees the text buffer if its capacity exceeds `size`.
    pub(super) fn shrink(&mut self, size: usize) {
        if self.texts.capacity() > size {
            self.texts = Vec::new();
        }
    }
}

fn append(texts: &mut Vec<u8>, text: &[u8]) -> u32 {
    texts.extend_from_slice(text);
    u32::try_from(text.len()).expect("a head is shorter than 4 GiB")
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Texts<'a> {
    /// The request line without CRLF, possibly incomplete.
    pub(super) line: &'a [u8],
    pub(super) referer: Option<&'a [u8]>,
    pub(super) agent: Option<&'a [u8]>,
    pub(super) request_id: Option<&'a [u8]>,
}

/// Records on their way to the writer.
#[derive(Debug)]
pub(super) struct Batch {
    records: Vec<Record>,
    texts: Vec<u8>,
    forwarded: Vec<ForwardedRecord>,
    /// Returns the empty batch to its worker.
    pub(super) return_tx: SyncSender<Self>,
}

impl Batch {
    pub(super) fn new(return_tx: SyncSender<Self>) -> Self {
        let texts = Vec::with_capacity(TEXTS_SIZE_HIGH);
        let records = Vec::with_capacity(RECORDS_MAX);
        Self { records, texts, forwarded: Vec::new(), return_tx }
    }

    pub(super) fn add(&mut self, entry: &LogEntry) {
        self.records.push(entry.record);
        self.texts.extend_from_slice(&entry.texts);
        self.forwarded.extend_from_slice(&entry.forwarded);
    }

    pub(super) const fn count(&self) -> usize {
        self.records.len()
    }

    pub(super) const fn is_full(&self) -> bool {
        self.records.len() >= RECORDS_MAX || self.texts.len() >= TEXTS_SIZE_HIGH
    }

    /// Returns it empty to its worker, whose channel holds all of its batches.
    pub(super) fn give_back(mut self) {
        self.records.clear();
        self.texts.clear();
        self.forwarded.clear();
        let return_tx = self.return_tx.clone();
        // The worker may have exited.
        let _kept = return_tx.try_send(self);
    }

    /// All records in order, each with its texts and its requests to other servers.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Record, Texts<'_>, Vec<Forwarded<'_>>)> {
        let mut rest = &self.texts[..];
        let mut forwarded = self.forwarded.iter();
        self.records.iter().map(move |record| {
            let mut take = |size: u32| {
                let (text, after) = rest.split_at(size as usize);
                rest = after;
                text
            };
            let mut take_some = |size: u32| (size != ABSENT).then(|| take(size));
            let line = take_some(record.line_size).unwrap_or_default();
            let referer = take_some(record.referer_size);
            let agent = take_some(record.agent_size);
            let request_id = take_some(record.request_id_size);
            let of_record = forwarded.by_ref().take(record.forwarded_count.into());
            let of_record = of_record.map(|one| {
                let sizes = [one.part_size, one.upstream_size, one.server_size];
                let [part, upstream, server] =
                    sizes.map(|size| std::str::from_utf8(take(size)).unwrap_or_default());
                let response = take(one.response_size);
                Forwarded { part, upstream, server, response, outcome: one.outcome }
            });
            (record, Texts { line, referer, agent, request_id }, of_record.collect())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_stored_unchanged() {
        let (return_tx, _) = std::sync::mpsc::sync_channel(1);
        let mut batch = Batch::new(return_tx);
        let mut entry = LogEntry::new();
        let all = [
            (&b"GET / HTTP/1.1"[..], Some(&b"http://a/"[..]), Some(&b"curl"[..])),
            (b"", None, Some(b"")),
            (b"GET /b HTTP/1.0", None, None),
        ];
        for (line, referer, agent) in all {
            entry.begin(0, line);
            entry.describe(referer, agent);
            batch.add(&entry);
        }
        let found: Vec<_> = batch.iter().map(|(_, texts, _)| texts).collect();
        assert_eq!(
            found,
            all.map(|(line, referer, agent)| Texts { line, referer, agent, request_id: None })
        );
    }

    #[test]
    fn a_request_without_fields_has_none_of_the_previous_request() {
        let (return_tx, _) = std::sync::mpsc::sync_channel(1);
        let mut batch = Batch::new(return_tx);
        let mut entry = LogEntry::new();
        entry.begin(0, b"first");
        entry.describe(Some(b"x"), Some(b"y"));
        entry.begin(0, b"second");
        batch.add(&entry);
        let texts = Texts { line: b"second", referer: None, agent: None, request_id: None };
        assert_eq!(batch.iter().map(|(_, texts, _)| texts).collect::<Vec<_>>(), [texts]);
    }

    #[test]
    fn requests_to_other_servers_stay_with_their_request() {
        let (return_tx, _) = std::sync::mpsc::sync_channel(1);
        let mut batch = Batch::new(return_tx);
        let mut entry = LogEntry::new();
        let one = |part, status| Forwarded {
            part,
            upstream: "app",
            server: "unix:/run/app.sock",
            response: if status == 404 { b"\xff" } else { b"" },
            outcome: ForwardedOutcome { status, ..ForwardedOutcome::default() },
        };
        let all = [vec![one("a", 200), one("b", 404)], vec![], vec![one("", 0)]];
        for forwarded in &all {
            entry.begin(0, b"GET / HTTP/1.1");
            entry.describe(Some(b"x"), None);
            for one in forwarded {
                entry.add_forwarded(one);
            }
            batch.add(&entry);
        }
        let texts =
            Texts { line: b"GET / HTTP/1.1", referer: Some(b"x"), agent: None, request_id: None };
        for (found, expected) in batch.iter().zip(all) {
            assert_eq!((found.1, found.2), (texts, expected));
        }
    }
}

/// The record of a request in the access log, if there is one.
#[derive(Debug, Default)]
pub struct LogRecord<'a>(Option<&'a mut LogEntry>);

impl<'a> LogRecord<'a> {
    pub(crate) const fn new(entry: Option<&'a mut LogEntry>) -> Self {
        Self(entry)
    }

    /// The same record, for a shorter time.
    pub(crate) fn reborrow(&mut self) -> LogRecord<'_> {
        LogRecord(self.0.as_deref_mut())
    }

    /// Whether there is one.
    pub const fn is_there(&self) -> bool {
        self.0.is_some()
    }

    /// Sets the phases of a request that an application has answered.
    pub(crate) const fn set_times(&mut self, times: AppTimes) {
        if let Some(entry) = &mut self.0 {
            entry.record.app_times = Some(times);
        }
    }

    /// Adds a request to another server. It is called at most once for each.
    pub fn add_forwarded(&mut self, forwarded: &Forwarded<'_>) {
        if let Some(entry) = &mut self.0 {
            entry.add_forwarded(forwarded);
        }
    }
}
