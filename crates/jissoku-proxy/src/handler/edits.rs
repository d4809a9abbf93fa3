//! Fields that routes add to requests and responses.

use std::rc::Rc;

use jissoku_http::Head;
use jissoku_server::ClientIdentity;

use super::GatewayHandler;
use super::bodies::HeadEdit;
use crate::client::Client;
use crate::policy::fields::FieldRules;
use crate::policy::template::Values;
use crate::transfer::ResponseEdit;

/// A request: its head with its bytes, and what is known of its client.
type Request<'a> = (&'a Head, &'a [u8], Option<&'a ClientIdentity<'a>>);

impl GatewayHandler {
    /// Appends the header lines of `rules`.
    fn write_lines(
        client: &Client,
        (head, bytes, identity): Request<'_>,
        (rules, edit): (&FieldRules, HeadEdit<'_>),
        output: &mut Vec<u8>,
    ) {
        let said = identity
            .map(|identity| identity.client.map(|address| address.ip().to_canonical().to_string()));
        let values = Values {
            head,
            bytes,
            client: said.as_ref().map_or(client.address(), |address| address.as_deref()),
            is_secure: client.is_secure_for(identity),
            host: identity.and_then(|identity| identity.host),
            captures: edit.captures,
        };
        rules.write(&values, output);
    }

    /// Adds fields to a head that was just written.
    pub(super) fn add_request_fields(
        &self,
        client: &Client,
        request: Request<'_>,
        edit: HeadEdit<'_>,
        output: &mut Vec<u8>,
    ) {
        let rules = edit.edit.map(|index| &self.service.edits[index].request);
        let Some(rules) = rules.filter(|rules| rules.adds()) else { return };
        // Before the empty line.
        output.truncate(output.len() - 2);
        Self::write_lines(client, request, (rules, edit), output);
        output.extend_from_slice(b"\r\n");
    }

    /// What is changed of the response to a request.
    pub(super) fn response_edit(
        &self,
        client: &Client,
        request: Request<'_>,
        edit: HeadEdit<'_>,
    ) -> ResponseEdit {
        let rules = edit.edit.map(|index| &self.response_rules[index]);
        let Some(rules) = rules.filter(|rules| !rules.is_empty()) else {
            return ResponseEdit::default();
        };
        let mut lines = Vec::new();
        Self::write_lines(client, request, (rules, edit), &mut lines);
        ResponseEdit { rules: Some(Rc::clone(rules)), lines }
    }
}
