//! Reading of responses on a connection.

use super::Connections;
use crate::engine::error::RequestError;
use crate::protocol::reader::{ControlFrame, Progress, ResponseInfo};
use crate::protocol::request_sequence::RequestSequence;
use crate::protocol::response_reader::ResponseReader;

impl Connections {
    /// Reads the next response on a connection, or a part of it.
    #[inline]
    pub(crate) fn read_response(
        &mut self,
        index: usize,
        request_sequence: &mut RequestSequence<'_>,
        bytes: &[u8],
        now_ns: u64,
    ) -> Progress {
        let connection = &mut self.slots[index];
        let spec = usize::from(connection.awaited_spec);
        if connection.reader.is_none()
            && let Some((response, size)) = request_sequence.matchers[spec].matches(bytes)
        {
            return Progress::Complete(response, size);
        }
        let context = request_sequence.context(spec);
        let reader = connection
            .reader
            .take()
            .or_else(|| self.spare_reader.take_if(|spare| spare.reads(context.framing)));
        let mut reader = reader.unwrap_or_else(|| Box::new(ResponseReader::new(context.framing)));
        let starts = reader.is_fresh();
        let progress = reader.feed(bytes, context);
        match progress {
            Progress::Incomplete => {
                if starts {
                    self.first_read_ns[index] = now_ns;
                }
                connection.reader = Some(reader);
                return progress;
            }
            Progress::Complete(response, size) if starts => {
                request_sequence.learn(spec, &bytes[..size], response);
            }
            Progress::Control(frame, _) => {
                if frame == ControlFrame::Ping {
                    let key = request_sequence.random();
                    self.websockets.add_pong(index, reader.control_payload(), key);
                }
                if !reader.is_fresh() {
                    connection.reader = Some(reader);
                    return progress;
                }
            }
            Progress::Complete(..) | Progress::Invalid => {}
        }
        if reader.is_fresh() {
            self.spare_reader = Some(reader);
        }
        progress
    }

    /// When the first part of the response came that is complete now and came in several.
    pub(crate) fn first_read_ns(&self, index: usize) -> u64 {
        self.first_read_ns[index]
    }

    /// What is wrong with the response that was read last.
    pub(crate) fn describe(
        &self,
        index: usize,
        request_sequence: &RequestSequence<'_>,
        response: ResponseInfo,
    ) -> Option<String> {
        let spec = usize::from(self.slots[index].awaited_spec);
        self.spare_reader.as_ref()?.describe(response, request_sequence.context(spec).expected)
    }

    /// Whether the next byte belongs to a control frame of a WebSocket, which needs no request.
    pub(crate) fn is_in_control_frame(
        &self,
        index: usize,
        request_sequence: &RequestSequence<'_>,
        next: u8,
    ) -> bool {
        let connection = &self.slots[index];
        let framing = request_sequence.context(usize::from(connection.awaited_spec)).framing;
        match &connection.reader {
            Some(reader) => reader.is_in_control_frame(next),
            None => ResponseReader::new(framing).is_in_control_frame(next),
        }
    }

    /// The connection has ended: returns the response that this completes, or the error.
    pub(crate) fn end_response(
        &mut self,
        index: usize,
        request_sequence: &RequestSequence<'_>,
    ) -> Result<ResponseInfo, RequestError> {
        let connection = &mut self.slots[index];
        let context = request_sequence.context(usize::from(connection.awaited_spec));
        let reader = connection.reader.take();
        let mut reader = reader.unwrap_or_else(|| Box::new(ResponseReader::new(context.framing)));
        let response = reader.end(context)?;
        self.spare_reader = Some(reader);
        // Without a proper end of TLS, a body that the end of the connection delimits may have been
        // truncated.
        let is_truncated = self.session(index).is_some_and(|session| !session.has_ended());
        let cut = is_truncated.then_some(RequestError::Length);
        Ok(ResponseInfo { error: response.error.or(cut), ..response })
    }
}
