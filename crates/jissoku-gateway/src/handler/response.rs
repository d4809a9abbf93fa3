//! Responses to clients.

use jissoku_http::forward::ClientFraming;
use jissoku_http::response::ConnectionHeader;
use jissoku_server::{Progress, Response};

use super::GatewayHandler;
use crate::config::Gateway;
use crate::diagnostics::Diagnostics;
use crate::error_response;
use crate::exchange::{Ending, Exchange};
use crate::slab::Key;
use crate::transfer::append_from;

impl GatewayHandler {
    /// Writes what there is of a response.
    pub(super) fn write(&mut self, key: Key, response: &mut Response<'_>) -> Progress {
        let Some(exchange) = self.exchanges.get(key) else {
            response.close_after();
            return Progress::Complete;
        };
        if let Some(Ending::Failed(status, error)) = exchange.ending {
            if !exchange.is_received() {
                response.close_after();
            }
            let fields = if exchange.place.is_diagnosed {
                diagnostics(&self.service, exchange, Some(error), self.now_ns)
            } else {
                String::new()
            };
            error_response::write(status, &fields, response);
            return Progress::Complete;
        }
        // The client is still sending what the server does not want.
        let is_cut_off = exchange.upload.as_ref().is_some_and(|upload| upload.is_cut_off());
        let is_finishing = exchange.upstream.is_some() && exchange.ending == Some(Ending::Complete);
        let (version, output) = (exchange.version(), &mut exchange.output);
        let is_truncated = exchange.ending == Some(Ending::Truncated);
        if output.framing == Some(ClientFraming::UntilClose) || is_truncated || is_cut_off {
            response.close_after();
        }
        let (has_output, was_held) = (!output.bytes.is_empty(), output.is_high());
        match output.fields_at.take() {
            Some(at) => {
                response.append(&output.bytes[..at]);
                if !output.has_date {
                    let date = *response.date();
                    response.append(b"Date: ");
                    response.append(&date);
                    response.append(b"\r\n");
                }
                response.append(ConnectionHeader::new(version, response.keeps_alive()).field());
                append_from(at, &mut output.bytes, response.output());
            }
            None => append_from(0, &mut output.bytes, response.output()),
        }
        if has_output {
            exchange.sent_ns = self.now_ns;
        }
        response.set_sent(output.status, output.body_size);
        let framing = output.framing;
        let has_no_visible_end =
            matches!(framing, Some(ClientFraming::UntilClose | ClientFraming::Upgraded));
        if framing == Some(ClientFraming::Upgraded) {
            response.upgrade();
        }
        if exchange.is_without_reader(self.now_ns) {
            exchange.ending = Some(Ending::Truncated);
            response.close_after();
        }
        match exchange.ending {
            Some(Ending::Truncated) if has_no_visible_end => Progress::Reset,
            Some(_) if is_finishing => Progress::Pending,
            Some(_) => Progress::Complete,
            None if was_held => {
                self.resume_upstream(key);
                Progress::Sent
            }
            None if exchange.server_has_ended => Progress::ShutdownWrite,
            None if has_output => Progress::Sent,
            None => Progress::Pending,
        }
    }
}

/// Header lines about how a request was forwarded; `error` is the type of its failure.
pub(super) fn diagnostics(
    service: &Gateway,
    exchange: &Exchange,
    error: Option<&str>,
    now_ns: u64,
) -> String {
    let Exchange { place, output, .. } = exchange;
    let diagnostics = Diagnostics {
        next_hop: service.upstreams[place.forwarding.upstream].label(),
        received_status: (output.status != 0).then_some(output.status),
        error,
        phases: Some((&place.phases, now_ns)),
    };
    diagnostics.lines()
}
