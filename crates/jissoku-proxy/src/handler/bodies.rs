//! Requests of clients: which are collected, and which are forwarded as they arrive.

use std::sync::Arc;

use jissoku_http::Head;
use jissoku_http::forward::{
    ClientFields, ClientSupport, ForwardError, ForwardedHost, HopField, PathEdit, RequestEdit,
    write_request_head,
};
use jissoku_http::framing::Body;
use jissoku_http::uwsgi::{self, PacketOrigin, PacketTooLarge};
use jissoku_server::{BodyFlow, ClientIdentity, ForwardedFields, RequestHead};

use super::GatewayHandler;
use crate::Key;
use crate::client::{ChunkedRequest, Client, ClientSide, ClientStep};
use crate::config::Forwarding;
use crate::exchange::Exchange;
use crate::policy::configuration::HostField;
use crate::policy::routes::Captures;
use crate::transfer::{Upload, UploadFraming};

/// Memory for a body that is taken before it is received: a client may announce more than it sends.
const RESERVED_SIZE_MAX: u64 = 64 * 1024;

/// How the head of a request is forwarded: arguments with names.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeadEdit<'a> {
    pub(super) forwarding: &'a Forwarding,
    pub(super) collected_size: Option<u64>,
    pub(super) passes: Option<HopField>,
    /// The variables of the path.
    pub(super) captures: &'a Captures,
    /// The header line with the id of the request.
    pub(super) request_id: Option<&'a Arc<[u8]>>,
}

/// The address that is appended to X-Forwarded-For: of the peer, which is behind those that it has
/// sent itself; or of the client, if it has named that in another field.
fn forwarded_address(identity: &ClientIdentity<'_>) -> Option<Box<str>> {
    let address = match identity.trusted_fields {
        Some(ForwardedFields::Forwarded) => identity.client,
        Some(ForwardedFields::XForwarded(_)) | None => identity.peer,
    };
    address.map(|address| address.ip().to_canonical().to_string().into())
}

impl GatewayHandler {
    /// A request is to be forwarded, and its head was received.
    pub(crate) fn begin(
        &mut self,
        client: &Client,
        request: &RequestHead<'_>,
        forwarding: Forwarding,
        captures: &Captures,
    ) -> ClientSide {
        let RequestHead { head, bytes, now_ns, identity, request_id } = *request;
        self.now_ns = now_ns;
        let address = identity.map_or(client.peer, |identity| identity.client);
        let options = &self.service.upstreams[forwarding.upstream].options;
        let hash = options.hash_of((head, bytes), address);
        let protocol = options.policy.protocol;
        let is_diagnosed = self.service.is_diagnosed(address.map(|address| address.ip()));
        let forwarded = (forwarding, protocol, hash);
        let mut exchange = Exchange::new(client.id, head, forwarded, is_diagnosed);
        let is_collected = match head.body {
            Body::Empty => true,
            Body::Length(size) => size <= forwarding.collect_size,
            Body::Chunked if head.expects_continue && protocol.is_http() => false,
            Body::Chunked => {
                let chunked = Box::new(ChunkedRequest::new(request, *captures));
                let (key, lost) = (self.exchanges.insert(exchange), self.lost.clone());
                return ClientSide::chunked(key, chunked, is_diagnosed, lost);
            }
        };
        // In the uwsgi protocol there is no interim response: the client is asked here.
        let expects_continue = head.expects_continue && !is_collected && protocol.is_http();
        let passes = match head.body {
            Body::Empty => Some(HopField::Upgrade),
            _ => expects_continue.then_some(HopField::Expect),
        };
        let edit = HeadEdit {
            forwarding: &forwarding,
            passes,
            collected_size: None,
            captures,
            request_id,
        };
        let body_size = match head.body {
            Body::Length(size) if is_collected => size.min(RESERVED_SIZE_MAX),
            Body::Empty | Body::Length(_) | Body::Chunked => 0,
        };
        let reserved_size = usize::try_from(body_size).unwrap_or(0);
        let added_size = self.added_size(forwarding.edit);
        let mut output = Vec::with_capacity(head.size as usize + added_size + reserved_size);
        match self.write_head(client, (head, bytes, identity), edit, &mut output) {
            Ok(offer) => {
                let response = self.response_edit(client, (head, bytes, identity), edit);
                exchange.set_head(output, offer, response);
            }
            Err(error) => {
                self.count_refusal(forwarding.upstream, error);
                return ClientSide::refused(error, is_diagnosed, self.lost.clone());
            }
        }
        if !is_collected {
            let framing = match head.body {
                Body::Chunked => UploadFraming::Chunked,
                Body::Empty | Body::Length(_) => UploadFraming::Raw,
            };
            exchange.stream(Upload::new(framing, expects_continue));
        }
        let key = self.exchanges.insert(exchange);
        ClientSide::collecting(key, is_diagnosed, self.lost.clone())
    }

    pub(super) fn write_head(
        &self,
        client: &Client,
        (head, bytes, identity): (&Head, &[u8], Option<&ClientIdentity<'_>>),
        head_edit: HeadEdit<'_>,
        output: &mut Vec<u8>,
    ) -> Result<ClientSupport, ForwardError> {
        let is_secure = client.is_secure_for(identity);
        let said = identity.map(forwarded_address);
        let Forwarding { upstream, deadline_field, edit, .. } = *head_edit.forwarding;
        let upstream = &self.service.upstreams[upstream];
        let added_size = self.added_size(edit);
        let route_edit = edit.map(|index| &self.service.edits[index]);
        let edit = RequestEdit {
            via: upstream.options.policy.has_via.then_some(&*self.service.via_name),
            client_fields: identity
                .and_then(|identity| identity.trusted_fields)
                .map_or(ClientFields::Drop, ClientFields::Append),
            client: match &said {
                Some(address) => address.as_deref(),
                None => client.address.as_deref(),
            },
            is_secure,
            host: match upstream.options.policy.host {
                HostField::Client => ForwardedHost::Client,
                HostField::Upstream | HostField::Name(_) => ForwardedHost::Upstream,
            },
            upstream_host: &upstream.host,
            collected_size: head_edit.collected_size,
            passes: head_edit.passes,
            has_trailers: upstream.options.policy.protocol.is_http(),
            own_field: deadline_field.map(|it| &*self.service.deadline_fields[it]),
            path: route_edit.map_or_else(PathEdit::default, |edit| {
                let cut_size = edit.rewrite.cut_size(head.path_and_query(bytes));
                PathEdit { cut_size, prefix: edit.rewrite.prefix() }
            }),
            removed: route_edit.map(|edit| edit.request.removed()),
        };
        if upstream.options.policy.protocol.is_http() {
            output.reserve(head.size as usize + added_size);
            let offer = write_request_head(head, bytes, &edit, output)?;
            self.add_request_fields(client, (head, bytes, identity), head_edit, output);
            return Ok(offer);
        }
        let mut text = Vec::with_capacity(head.size as usize + added_size);
        let offer = write_request_head(head, bytes, &edit, &mut text)?;
        self.add_request_fields(client, (head, bytes, identity), head_edit, &mut text);
        let client = identity.map_or(client.peer, |identity| identity.client);
        uwsgi::write(&text, PacketOrigin { client, is_secure }, output)
            .map_err(|PacketTooLarge| ForwardError::TooLarge)?;
        if let Some(name) = edit.own_field {
            // The value is not known yet; it is no longer than this.
            let field = (name, "18446744073709551615");
            let mut longest = Vec::with_capacity(output.len() + added_size);
            uwsgi::add_field(output, output.len(), field, &mut longest)
                .map_err(|PacketTooLarge| ForwardError::TooLarge)?;
        }
        Ok(offer)
    }

    /// As [`jissoku_server::Handler::body_flow`].
    pub(super) fn flow(&self, request: &ClientSide) -> BodyFlow {
        let exchange = request.exchange().and_then(|key| self.exchanges.get_ref(key));
        match exchange {
            Some(_) if request.is_chunked() => BodyFlow::Receive,
            Some(exchange) => exchange.body_flow(),
            // The rest of a body that is not forwarded.
            None => BodyFlow::Await,
        }
    }

    /// As [`jissoku_server::Handler::on_body`].
    pub(super) fn take_body(&mut self, request: &mut ClientSide, part: &[u8]) {
        let Some(key) = request.push_body(part) else { return };
        let Some(exchange) = self.exchanges.get(key) else { return };
        if exchange.push_body(part) {
            self.resume_upstream(key);
        }
    }

    /// As [`jissoku_server::Handler::on_end`].
    pub(super) fn take_end(&mut self, request: &mut ClientSide) {
        let Some(key) = request.end_body() else { return };
        if self.exchanges.get(key).is_some_and(Exchange::end_body) {
            self.resume_upstream(key);
        }
    }

    /// Has the connection to the server send what there is.
    pub(super) fn resume_upstream(&mut self, key: Key) {
        let upstream = self.exchanges.get(key).and_then(|exchange| exchange.connection());
        if let Some(connection) = upstream {
            self.resume(connection);
        }
    }

    /// A response is wanted: forwards a request of which enough was received.
    pub(super) fn step(&mut self, client: &Client, request: &mut ClientSide) -> ClientStep {
        let size_max = |key| self.exchanges.get_ref(key).map_or(0, Exchange::collected_size_max);
        let (key, chunked) = match request.step(size_max) {
            ClientStep::Forward(key, chunked) => (key, chunked),
            other => return other,
        };
        if let Some(chunked) = chunked
            && let Err(error) = self.write_chunked(client, key, &chunked)
        {
            if let Some(exchange) = self.exchanges.remove(key) {
                self.count_refusal(exchange.upstream(), error);
            }
            request.refuse(error, !chunked.is_complete);
            return ClientStep::Refuse(error, !chunked.is_complete);
        }
        self.assign(key, true);
        ClientStep::Continue(key)
    }

    /// Writes a request with a chunked body: with a length if all of it was collected.
    fn write_chunked(
        &mut self,
        client: &Client,
        key: Key,
        chunked: &ChunkedRequest,
    ) -> Result<(), ForwardError> {
        let ((head, head_bytes, identity), body) = (chunked.head(), &*chunked.body);
        let (head, is_complete) = ((head, head_bytes, identity.as_ref()), chunked.is_complete);
        let collected_size = is_complete.then_some(body.len() as u64);
        let Some(exchange) = self.exchanges.get_ref(key) else { return Ok(()) };
        let added_size = self.added_size(exchange.forwarding().edit);
        let mut bytes = Vec::with_capacity(head_bytes.len() + body.len() + added_size);
        if !is_complete && !exchange.protocol().is_http() {
            return Err(ForwardError::LengthRequired);
        }
        let forwarding = *exchange.forwarding();
        let edit = HeadEdit {
            forwarding: &forwarding,
            collected_size,
            passes: None,
            captures: &chunked.captures,
            request_id: chunked.request_id.as_ref(),
        };
        let offer = self.write_head(client, head, edit, &mut bytes)?;
        let response = self.response_edit(client, head, edit);
        let Some(exchange) = self.exchanges.get(key) else { return Ok(()) };
        exchange.set_head(bytes, offer, response);
        if !is_complete {
            exchange.stream(Upload::new(UploadFraming::Chunked, false));
        }
        exchange.push_body(body);
        Ok(())
    }

    /// A request is over before its response is complete.
    pub(super) fn abandon(&mut self, request: &ClientSide) {
        if let Some(key) = request.exchange() {
            self.end_exchange(key);
        }
    }
}
