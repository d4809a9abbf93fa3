//! Which form of a response a client gets.

use jissoku_server::{DynamicResponse, RequestHead};
use jissoku_upstream::fan_out::{END_EVENT_ID, Form, Plan};

/// The form of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FormChoice {
    pub(crate) form: Form,
    /// Whether the client's Accept is passed on: it may mean the parts.
    pub(crate) passes_accept: bool,
}

impl FormChoice {
    /// By the client's Accept, or else by the route; or the response if there is nothing to gather.
    pub(crate) fn new(request: &RequestHead<'_>, plan: &Plan) -> Result<Self, DynamicResponse> {
        let field = |name: &[u8]| {
            let mut fields = request.fields();
            fields.find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value)
        };
        let accepted = field(b"accept").and_then(Form::accepted);
        let form = accepted.unwrap_or(plan.form);
        // A browser opens a stream again that has ended, unless its page has closed it. This status
        // makes it stop (HTML Standard, section 9.2.3).
        if form == Form::Events && field(b"last-event-id") == Some(END_EVENT_ID.as_bytes()) {
            return Err(DynamicResponse::without_body(204, ""));
        }
        Ok(Self { form, passes_accept: accepted.is_none_or(|form| form == Form::Json) })
    }
}
