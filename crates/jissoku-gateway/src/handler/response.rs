//! Responses to clients.

use jissoku_http::forward::ClientFraming;
use jissoku_http::response::ConnectionHeader;
use jissoku_server::{Progress, Response};

use super::GatewayHandler;
use crate::error_response;
use crate::exchange::Ending;
use crate::slab::Key;

impl GatewayHandler {
    /// Writes what there is of a response.
    pub(super) fn write(&mut self, key: Key, response: &mut Response<'_>) -> Progress {
        let Some(exchange) = self.exchanges.get(key) else {
            response.close_after();
            return Progress::Complete;
        };
        if let Some(Ending::Failed(status, _)) = exchange.ending {
            error_response::write(status, response);
            return Progress::Complete;
        }
        let (version, output) = (exchange.version(), &mut exchange.output);
        let is_truncated = exchange.ending == Some(Ending::Truncated);
        if output.framing == Some(ClientFraming::UntilClose) || is_truncated {
            response.close_after();
        }
        let (has_output, was_held) = (!output.bytes.is_empty(), output.is_high());
        match output.fields_at.take() {
            Some(at) => {
                let (front, back) = output.bytes.split_at(at);
                response.append(front);
                if !output.has_date {
                    let date = *response.date();
                    response.append(b"Date: ");
                    response.append(&date);
                    response.append(b"\r\n");
                }
                response.append(ConnectionHeader::new(version, response.keeps_alive()).field());
                response.append(back);
            }
            None => response.append(&output.bytes),
        }
        output.bytes.clear();
        response.set_sent(output.status, output.body_size);
        match (exchange.ending, output.framing) {
            (Some(Ending::Truncated), Some(ClientFraming::UntilClose)) => Progress::Reset,
            (Some(_), _) => Progress::Complete,
            (None, _) if has_output => {
                if was_held {
                    let upstream = exchange.upstream.and_then(|key| self.upstreams.get(key));
                    self.ready.extend(upstream.and_then(|upstream| upstream.id));
                }
                Progress::Sent
            }
            (None, _) => Progress::Pending,
        }
    }
}
