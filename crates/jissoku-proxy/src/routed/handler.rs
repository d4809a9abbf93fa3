//! The handler of one worker: passes each request to the handler of its route.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use jissoku_http::response::reason;
use jissoku_os::driver::NewConnection;
use jissoku_server::{
    AbandonReason, BodyFlow, BodyPart, DynamicResponse, EventLoop, FileResponse, FilesHandler,
    Forwarded, ForwardedAnomalies, ForwardedOutcome, Handler, LogRecord, Outbound, Progress,
    RequestHead, Response, RouteMatch, Service, WorkerInfo,
};

use super::content::{Content, Found, Refusal, RouteContent};
use super::limits::Admitted;
use crate::client::{Client, ClientSide};
use crate::gather::Gathering;
use crate::handler::{GatewayHandler, edits};
use crate::policy::rate::Permit;
use crate::policy::routes::PATH_VARIABLES_MAX;

/// Serves the requests of one worker; `H` serves those of the application.
#[derive(Debug)]
pub struct RoutedHandler<H> {
    content: Arc<RouteContent>,
    folders: Vec<FilesHandler>,
    gateway: GatewayHandler,
    app: H,
}

/// A connection of a client.
#[derive(Debug)]
pub struct Connection<C> {
    client: Client,
    address: Option<IpAddr>,
    app: C,
}

/// A request.
#[derive(Debug)]
pub struct Request<R> {
    work: Work<R>,
    /// The limit of its body.
    body_size_max: u64,
    /// What is still to be logged about a limit of its route.
    excess: Excess,
    /// Counts it until it is dropped.
    permit: Option<Permit>,
}

/// Whether a request is beyond a limit of its route.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Excess {
    #[default]
    No,
    Permitted,
    Refused,
}

impl Excess {
    /// Adds it to the access log, once.
    fn log(&mut self, log: &mut LogRecord<'_>) {
        let outcome = match std::mem::take(self) {
            Self::No => return,
            Self::Permitted => ForwardedOutcome {
                notes: ForwardedAnomalies::OVER_RATE,
                ..ForwardedOutcome::default()
            },
            Self::Refused => {
                let error = Some("http_request_denied");
                ForwardedOutcome { error, ..ForwardedOutcome::default() }
            }
        };
        log.add_forwarded(&Forwarded { outcome, ..Forwarded::default() });
    }
}

/// What a request is served by.
#[derive(Debug)]
enum Work<R> {
    /// It has its response: no route takes it, it is too much, or its route needs no more.
    Answered(Box<DynamicResponse>),
    /// A file of the folder of this index.
    File(usize, FileResponse),
    /// The text of the route of this index.
    Fixed(usize),
    Forwarded(ClientSide),
    Gathered(Box<Gathering>),
    App(R),
}

impl<H: Handler> RoutedHandler<H> {
    pub(super) fn new(content: Arc<RouteContent>, app: H, worker: &WorkerInfo) -> io::Result<Self> {
        let folders =
            content.folders.iter().map(|files| files.handler(worker)).collect::<Result<_, _>>()?;
        let gateway = content.gateway.handler(worker)?;
        Ok(Self { content, folders, gateway, app })
    }

    /// As [`RoutedHandler::begin`], with another path if one was found.
    fn begin_with_path(
        &mut self,
        connection: &mut Connection<H::Connection>,
        request: &RequestHead<'_>,
        found: &Found,
    ) -> Work<H::Request> {
        let Some(path) = &found.path else { return self.begin(connection, request, found) };
        let mut text = Vec::new();
        let head = request.head.with_path(request.bytes, path, &mut text);
        let request = RequestHead { head: &head, bytes: &text, ..*request };
        self.begin(connection, &request, found)
    }

    fn begin(
        &mut self,
        connection: &mut Connection<H::Connection>,
        head: &RequestHead<'_>,
        found: &Found,
    ) -> Work<H::Request> {
        let Self { content, folders, gateway, app } = self;
        let (client, captures) = (&connection.client, &found.captures);
        match &content.routes[found.route].content {
            Content::Folder(index) => {
                let (path, _) = head.path_and_query();
                let rewrite = content.rules.rules()[found.route].rewrite.as_ref();
                let path = rewrite.map_or(path, |rewrite| &path[rewrite.cut_size(path)..]);
                if path.is_empty() {
                    return Work::Answered(Box::new(to_folder(head)));
                }
                Work::File(*index, folders[*index].respond_to(head, path))
            }
            Content::Beside(index) => {
                let (path, _) = head.path_and_query();
                let path = &path[content.prefixes[*index].len()..];
                Work::File(*index, folders[*index].respond_to(head, path))
            }
            Content::Fixed(_) => Work::Fixed(found.route),
            Content::FixedWithFields(text) => {
                let added = edits::added_lines(text.rules(), client, head, captures);
                Work::Answered(Box::new(text.response(&added)))
            }
            Content::Redirect(redirect) => {
                let lines = edits::with_values(client, head, captures, |it| redirect.lines(it));
                Work::Answered(Box::new(redirected(redirect.status, lines)))
            }
            Content::Forward(forwarding) => {
                Work::Forwarded(gateway.begin(client, head, *forwarding, captures))
            }
            Content::Gather(route) => {
                match gateway.begin_gathering(client, head, (route, captures)) {
                    Ok(gathering) => Work::Gathered(Box::new(gathering)),
                    Err(refusal) => Work::Answered(Box::new(refusal)),
                }
            }
            Content::App => Work::App(app.on_head(&mut connection.app, head)),
            Content::Part(part) => {
                let (path, _) = head.path_and_query();
                let value = |index| captures.span(index).and_then(|span| path.get(span));
                let mut variables: [(&str, &[u8]); PATH_VARIABLES_MAX] =
                    [("", b""); PATH_VARIABLES_MAX];
                let names = content.rules.rules()[found.route].path.variables();
                let mut count = 0;
                for (index, (name, variable)) in names.zip(&mut variables).enumerate() {
                    *variable = (name, value(index).unwrap_or_default());
                    count = index + 1;
                }
                let route = RouteMatch { part: *part, variables: &variables[..count] };
                Work::App(app.on_routed_head(&mut connection.app, head, &route))
            }
        }
    }
}

impl<H: Handler> Handler for RoutedHandler<H> {
    type Connection = Connection<H::Connection>;
    type Request = Request<H::Request>;

    fn on_open(&mut self, opened: &NewConnection<'_>) -> Self::Connection {
        Connection {
            client: self.gateway.on_open(opened),
            address: opened.peer().map(|address| address.ip()),
            app: self.app.on_open(opened),
        }
    }

    fn on_head(
        &mut self,
        connection: &mut Self::Connection,
        head: &RequestHead<'_>,
    ) -> Self::Request {
        let address = address_of(head, connection.address);
        let is_secure = connection.client.is_secure_for(head.identity);
        match self.content.find(head, address, is_secure) {
            Err(Refusal { response, is_too_much }) => Request {
                work: Work::Answered(Box::new(response)),
                body_size_max: self.content.body_size_max,
                excess: if is_too_much { Excess::Refused } else { Excess::No },
                permit: None,
            },
            Ok(mut found) => {
                let Admitted { permit, is_over_rate } = std::mem::take(&mut found.admitted);
                let work = self.begin_with_path(connection, head, &found);
                let body_size_max = self.content.routes[found.route].body_size_max;
                let is_noted = is_over_rate
                    && matches!(&work, Work::Forwarded(request) if self.gateway.record_rate(request));
                let is_unnoted = is_over_rate && !is_noted;
                let excess = if is_unnoted { Excess::Permitted } else { Excess::No };
                Request { work, body_size_max, excess, permit }
            }
        }
    }

    fn body_size_max(&self, request: &Self::Request) -> Option<u64> {
        Some(request.body_size_max)
    }

    fn body_flow(&self, request: &Self::Request) -> BodyFlow {
        match &request.work {
            Work::Forwarded(request) => self.gateway.body_flow(request),
            Work::App(request) => self.app.body_flow(request),
            Work::Answered(_) | Work::File(..) | Work::Fixed(_) => BodyFlow::Ignored,
            Work::Gathered(_) => BodyFlow::Whole,
        }
    }

    fn on_body(&mut self, request: &mut Self::Request, part: &[u8]) {
        match &mut request.work {
            Work::Forwarded(request) => self.gateway.on_body(request, part),
            Work::App(request) => self.app.on_body(request, part),
            Work::Answered(_) | Work::File(..) | Work::Fixed(_) | Work::Gathered(_) => {}
        }
    }

    fn on_end(&mut self, request: &mut Self::Request) {
        match &mut request.work {
            Work::Forwarded(request) => self.gateway.on_end(request),
            Work::App(request) => self.app.on_end(request),
            _ => {}
        }
    }

    fn on_hangup(&mut self, connection: &mut Self::Connection, request: &mut Self::Request) {
        match &mut request.work {
            Work::Forwarded(request) => {
                self.gateway.on_hangup(&mut connection.client, request);
            }
            Work::App(request) => self.app.on_hangup(&mut connection.app, request),
            _ => {}
        }
    }

    fn respond(
        &mut self,
        connection: &mut Self::Connection,
        request: &mut Self::Request,
        response: &mut Response<'_>,
    ) -> Progress {
        request.excess.log(response.log_record());
        match &mut request.work {
            Work::Forwarded(request) => {
                return self.gateway.respond(&mut connection.client, request, response);
            }
            Work::App(request) => {
                return self.app.respond(&mut connection.app, request, response);
            }
            Work::Gathered(gathering) => {
                let progress = self.gateway.continue_gathering(gathering, response);
                if progress == Progress::Complete {
                    self.gateway.end_gathering(gathering);
                }
                return progress;
            }
            Work::File(index, file) => self.folders[*index].write(file, response),
            Work::Fixed(route) => {
                if let Content::Fixed(text) = &self.content.routes[*route].content {
                    text.write(response);
                }
            }
            Work::Answered(refusal) => response.send_dynamic(refusal),
        }
        Progress::Complete
    }

    fn on_abandon(
        &mut self,
        connection: &mut Self::Connection,
        Request { work, permit, .. }: Self::Request,
        reason: AbandonReason,
        log: &mut LogRecord<'_>,
    ) {
        match (work, reason) {
            (Work::Forwarded(request), AbandonReason::Closed) => {
                self.gateway.lose_client(&request, permit, log);
            }
            (Work::Forwarded(request), AbandonReason::Rejected) => {
                self.gateway.on_abandon(&mut connection.client, request, reason, log);
            }
            (Work::App(request), _) => {
                self.app.on_abandon(&mut connection.app, request, reason, log);
            }
            (Work::Gathered(mut gathering), _) => {
                if reason == AbandonReason::Closed {
                    self.gateway.log_gone_parts(&gathering, log);
                }
                self.gateway.end_gathering(&mut gathering);
            }
            (Work::Answered(_) | Work::File(..) | Work::Fixed(_), _) => {}
        }
    }

    fn outbound(&mut self) -> Option<&mut impl Outbound> {
        Some(&mut self.gateway)
    }

    fn event_loop(&mut self) -> Option<&mut impl EventLoop> {
        self.app.event_loop()
    }
}

/// The response of a redirect with these header lines; 400 without any.
fn redirected(status: u16, lines: Option<Vec<u8>>) -> DynamicResponse {
    let (status, lines) = lines.map_or((400, Vec::new()), |lines| (status, lines));
    let fields = [&lines, b"Content-Type: text/plain\r\n".as_slice()].concat();
    let text = format!("{}\n", reason(status));
    DynamicResponse::new(status, &fields, vec![BodyPart::Bytes(text.into_bytes())])
}

/// The redirect from the name of a folder to that with a slash, without which links would not be
/// relative to it.
fn to_folder(request: &RequestHead<'_>) -> DynamicResponse {
    let (path, query) = request.path_and_query();
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let text = b"Moved Permanently\n";
    // Relative to the folder above: a segment with a colon would be an absolute URL.
    let fields = [b"Location: ./", name, b"/", query, b"\r\nContent-Type: text/plain\r\n"].concat();
    DynamicResponse::new(301, &fields, vec![BodyPart::Bytes(text.to_vec())])
}

/// The address of the client of a request, on a connection from this address. A trusted proxy names
/// the client.
fn address_of(request: &RequestHead<'_>, peer: Option<IpAddr>) -> Option<IpAddr> {
    request.identity.map_or(peer, |identity| identity.client.map(|client| client.ip()))
}
