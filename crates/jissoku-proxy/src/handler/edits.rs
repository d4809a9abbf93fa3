//! Fields that routes add to requests and responses.

use std::rc::Rc;
use std::sync::Arc;

use jissoku_http::Head;
use jissoku_server::{ClientIdentity, RequestHead, name_and_value};

use super::GatewayHandler;
use super::bodies::HeadEdit;
use crate::client::Client;
use crate::policy::fields::FieldRules;
use crate::policy::routes::Captures;
use crate::policy::template::Values;
use crate::transfer::ResponseEdit;

/// What a forwarded head is usually longer by than that of the client: Via and the X-Forwarded
/// fields.
const ADDED_SIZE: usize = 256;

/// A request: its head with its bytes, and what is known of its client.
type Request<'a> = (&'a Head, &'a [u8], Option<&'a ClientIdentity<'a>>);

/// Calls `then` with the values of variables for a request.
pub(crate) fn with_values<T>(
    client: &Client,
    request: &RequestHead<'_>,
    captures: &Captures,
    then: impl FnOnce(&Values<'_>) -> T,
) -> T {
    let RequestHead { head, bytes, identity, request_id, .. } = *request;
    values_of(client, (head, bytes, identity), (captures, request_id), then)
}

/// The header lines that rules add to a response that is made here.
pub(crate) fn added_lines(
    rules: &FieldRules,
    client: &Client,
    request: &RequestHead<'_>,
    captures: &Captures,
) -> Vec<u8> {
    let mut lines = Vec::with_capacity(rules.size());
    with_values(client, request, captures, |values| rules.write(values, &mut lines));
    lines
}

fn values_of<T>(
    client: &Client,
    (head, bytes, identity): Request<'_>,
    (captures, request_id): (&Captures, Option<&Arc<[u8]>>),
    then: impl FnOnce(&Values<'_>) -> T,
) -> T {
    let said = identity
        .map(|identity| identity.client.map(|address| address.ip().to_canonical().to_string()));
    then(&Values {
        head,
        bytes,
        client: said.as_ref().map_or(client.address.as_deref(), |address| address.as_deref()),
        is_secure: client.is_secure_for(identity),
        host: identity.and_then(|identity| identity.host),
        request_id: request_id.map(|line| name_and_value(line).1),
        captures,
    })
}

impl GatewayHandler {
    /// Adds fields to a head that was just written.
    pub(super) fn add_request_fields(
        &self,
        client: &Client,
        request: Request<'_>,
        edit: HeadEdit<'_>,
        output: &mut Vec<u8>,
    ) {
        let rules = edit.forwarding.edit.map(|index| &self.service.edits[index].request);
        let Some(rules) = rules.filter(|rules| rules.adds()) else { return };
        // Before the empty line.
        output.truncate(output.len() - 2);
        let route = (edit.captures, edit.request_id);
        values_of(client, request, route, |values| rules.write(values, output));
        output.extend_from_slice(b"\r\n");
    }

    /// What the head of a request becomes longer by, usually.
    pub(super) fn added_size(&self, edit: Option<usize>) -> usize {
        ADDED_SIZE + edit.map_or(0, |index| self.service.edits[index].request.size())
    }

    /// What is changed of the response to a request.
    pub(super) fn response_edit(
        &self,
        client: &Client,
        request: Request<'_>,
        edit: HeadEdit<'_>,
    ) -> ResponseEdit {
        let rules = edit.forwarding.edit.map(|index| &self.response_rules[index]);
        let Some(rules) = rules.filter(|rules| !rules.is_empty()) else {
            return ResponseEdit::default();
        };
        let mut own_lines = Vec::new();
        if rules.constant().is_none() {
            own_lines.reserve(rules.size());
            let route = (edit.captures, edit.request_id);
            values_of(client, request, route, |values| rules.write(values, &mut own_lines));
        }
        ResponseEdit::new(Rc::clone(rules), own_lines)
    }
}
