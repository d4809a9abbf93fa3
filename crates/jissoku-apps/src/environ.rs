//! The environ of a request: PEP 3333, "environ Variables", and RFC 3875 section 4.1.

use std::net::SocketAddr;

use jissoku_http::{Head, Method, Version};
use jissoku_os::socket::Endpoint;
use jissoku_server::SecureListeners;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::body::Body;
use crate::early_hints::EarlyHints;
use crate::file_wrapper::FileWrapper;
use crate::hash::Hasher;
use crate::input::Input;
use crate::interpreter::{self, references};
use crate::names::Names;
use crate::recent_heads::{HeadUse, RecentHead, RecentHeads};
use crate::text::{latin1, percent_decoded};

/// The default of [`ServerInfo::body_memory_max`].
pub const BODY_MEMORY_MAX: u64 = 1024 * 1024;

/// The attributes of the server in an application's environ.
#[derive(Clone, Debug)]
pub struct ServerInfo {
    /// The addresses of the listeners.
    pub listeners: Vec<Endpoint>,
    /// Those whose clients use TLS.
    pub secure_listeners: SecureListeners,
    /// Whether another process may serve the same application.
    pub is_multiprocess: bool,
    /// Threads that call the application; 0 for the thread of the worker.
    pub threads: usize,
    /// The size up to which a request body for WSGI stays in memory.
    pub body_memory_max: u64,
    /// The prefix of the paths of clients that a proxy has removed, without a slash at its end.
    pub root_path: String,
    /// What is offered to an ASGI application.
    pub asgi: AsgiOptions,
}

/// Whether an ASGI application gets the lifespan protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lifespan {
    /// Yes; one that raises instead of an answer is served without.
    #[default]
    Auto,
    /// Yes, and it has to answer.
    On,
    /// No.
    Off,
}

/// What is offered to an ASGI application.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AsgiOptions {
    /// Whether `send` of an HTTP response raises `OSError` after the client has disconnected: version
    /// 2.4 of the specification. Frameworks do not listen for the disconnect then.
    pub raises_after_disconnect: bool,
    /// Whether the extension `http.response.pathsend` is offered, which middleware may not know.
    pub offers_path_send: bool,
    /// Whether it gets the lifespan protocol.
    pub lifespan: Lifespan,
}

/// The address of a client, as the strings of an environ.
#[derive(Debug)]
pub(crate) struct Client {
    /// The index of its listener.
    listener: usize,
    host: Py<PyString>,
    /// `None` for a Unix socket.
    port: Option<Py<PyString>>,
}

impl Client {
    pub(crate) fn new(python: Python<'_>, listener: usize, address: Option<SocketAddr>) -> Self {
        let host = address.map(|address| address.ip().to_canonical().to_string());
        Self {
            listener,
            host: PyString::new(python, host.as_deref().unwrap_or_default()).unbind(),
            port: address
                .map(|address| PyString::new(python, &address.port().to_string()).unbind()),
        }
    }
}

/// The interned keys that differ between requests.
#[derive(Debug)]
struct Keys {
    method: Py<PyString>,
    path: Py<PyString>,
    query: Py<PyString>,
    request_uri: Py<PyString>,
    raw_uri: Py<PyString>,
    protocol: Py<PyString>,
    remote_host: Py<PyString>,
    remote_port: Py<PyString>,
    content_length: Py<PyString>,
    input: Py<PyString>,
}

/// Values that many requests have in common.
#[derive(Debug)]
struct Values {
    get: Py<PyString>,
    http_10: Py<PyString>,
    http_11: Py<PyString>,
    empty: Py<PyString>,
    no_body: Py<Input>,
}

/// The environ of one request.
#[derive(Debug)]
pub(crate) struct Environ {
    pub(crate) dict: Py<PyDict>,
    /// The entry of the cache that it is a copy of, and its version then.
    source: Option<(HeadUse, u64)>,
}

impl Environ {
    pub(crate) fn new(dict: Bound<'_, PyDict>) -> Self {
        Self { dict: dict.unbind(), source: None }
    }
}

/// Builds environs. It belongs to one thread.
#[derive(Debug)]
pub(crate) struct Environs {
    /// The part that all requests of a listener have in common.
    templates: Vec<Py<PyDict>>,
    /// The `wsgi.early_hints` of all of them.
    pub(crate) hints: Py<EarlyHints>,
    names: Names,
    recent: RecentHeads,
    /// As in [`ServerInfo`].
    pub(crate) body_memory_max: u64,
    keys: Keys,
    values: Values,
}

impl Environs {
    pub(crate) fn new(python: Python<'_>, server: &ServerInfo) -> PyResult<Self> {
        let hints = Bound::new(python, EarlyHints::default())?;
        let template = |(index, listener)| template(python, (index, listener, server), &hints);
        let string = |text| PyString::intern(python, text).unbind();
        let hasher = Hasher::new();
        Ok(Self {
            templates: server
                .listeners
                .iter()
                .enumerate()
                .map(template)
                .collect::<PyResult<_>>()?,
            names: Names::new(hasher),
            hints: hints.clone().unbind(),
            recent: RecentHeads::new(hasher),
            body_memory_max: server.body_memory_max,
            keys: Keys {
                method: string("REQUEST_METHOD"),
                path: string("PATH_INFO"),
                query: string("QUERY_STRING"),
                request_uri: string("REQUEST_URI"),
                raw_uri: string("RAW_URI"),
                protocol: string("SERVER_PROTOCOL"),
                remote_host: string("REMOTE_ADDR"),
                remote_port: string("REMOTE_PORT"),
                content_length: string("CONTENT_LENGTH"),
                input: string("wsgi.input"),
            },
            values: Values {
                get: string("GET"),
                http_10: string("HTTP/1.0"),
                http_11: string("HTTP/1.1"),
                empty: string(""),
                no_body: Py::new(python, Input::default())?,
            },
        })
    }

    /// The environ of a request without its body. `bytes` are those that `head` was parsed from.
    #[inline]
    pub(crate) fn build(
        &mut self,
        python: Python<'_>,
        (head, bytes): (&Head, &[u8]),
        client: &Client,
    ) -> PyResult<Environ> {
        let fields = head.fields.of(bytes);
        let request_line = &bytes[..head.fields.start as usize];
        let (recent, admits) = self.recent.find(client.listener, fields);
        if let Some((recent, place)) = recent {
            let RecentHead { line, host, port, environ, unused, changed, .. } = recent;
            let both = [Some(&*environ), unused.as_ref()].map(|it| it.map(|it| it.bind(python)));
            if **line != *request_line {
                // Without a line, the entry is not used again if one of these fails.
                line.clear();
                *changed = place.request;
                set_line(both, (head, bytes), &self.keys, &self.values)?;
                line.extend_from_slice(request_line);
            }
            if !host.is(&client.host) {
                *changed = place.request;
                set(both, &self.keys.remote_host, &client.host)?;
                *host = client.host.clone_ref(python);
            }
            if let Some(client_port) = &client.port
                && !port.as_ref().is_some_and(|port| port.is(client_port))
            {
                *changed = place.request;
                set(both, &self.keys.remote_port, client_port)?;
                *port = Some(client_port.clone_ref(python));
            }
            let dict = match unused.take() {
                Some(unused) => unused.into_bound(python),
                None => environ.bind(python).copy()?,
            };
            let source = interpreter::version(&dict).map(|version| (place, version));
            return Ok(Environ { dict: dict.unbind(), source });
        }
        let environ = self.build_uncached(python, (head, bytes), client)?;
        if let Some(admission) = admits {
            self.recent.insert(
                admission,
                RecentHead {
                    listener: client.listener,
                    fields: fields.into(),
                    line: request_line.to_vec(),
                    host: client.host.clone_ref(python),
                    port: client.port.as_ref().map(|port| port.clone_ref(python)),
                    environ: environ.copy()?.unbind(),
                    unused: None,
                    changed: 0,
                },
            );
        }
        Ok(Environ::new(environ))
    }

    /// Takes back the environ of a request that is complete. If the application has neither kept
    /// nor changed it, the next request with the same fields gets it.
    #[inline]
    pub(crate) fn take_back(&mut self, python: Python<'_>, environ: Environ) {
        let Environ { dict, source: Some((place, version)) } = environ else { return };
        let bound = dict.bind(python);
        if references(bound) == 1 && interpreter::version(bound) == Some(version) {
            self.recent.put_back(place, dict);
        }
    }

    /// As [`Environs::build`], without the cache.
    fn build_uncached<'py>(
        &mut self,
        python: Python<'py>,
        (head, bytes): (&Head, &[u8]),
        client: &Client,
    ) -> PyResult<Bound<'py, PyDict>> {
        let Self { keys, values, names, .. } = self;
        let environ = self.templates[client.listener].bind(python).copy()?;
        set_line([Some(&environ), None], (head, bytes), keys, values)?;
        environ.set_item(&keys.remote_host, &client.host)?;
        if let Some(port) = &client.port {
            environ.set_item(&keys.remote_port, port)?;
        }
        environ.set_item(&keys.input, &values.no_body)?;
        names.set_fields(&environ, head.fields(bytes))?;
        Ok(environ)
    }

    /// Adds the body of a request. Its coding is removed already, so its size is known
    /// (RFC 9112 section 7.1.3).
    pub(crate) fn set_body(&self, environ: &Bound<'_, PyDict>, body: Body) -> PyResult<()> {
        let content = body.finish()?;
        environ.set_item(&self.keys.content_length, content.size().to_string())?;
        environ.set_item(&self.keys.input, Py::new(environ.py(), Input::new(content))?)
    }
}

/// An environ of the cache, and a copy of it.
type Both<'a, 'py> = [Option<&'a Bound<'py, PyDict>>; 2];

#[inline]
fn set(environs: Both<'_, '_>, key: &Py<PyString>, value: &Py<PyString>) -> PyResult<()> {
    environs.into_iter().flatten().try_for_each(|environ| environ.set_item(key, value))
}

/// Sets the variables that depend on the request line.
fn set_line(
    environs: Both<'_, '_>,
    (head, bytes): (&Head, &[u8]),
    keys: &Keys,
    values: &Values,
) -> PyResult<()> {
    let [Some(environ), _] = environs else { return Ok(()) };
    let python = environ.py();
    let text = |bytes: &[u8]| latin1(python, bytes).unbind();
    let target = text(head.target.of(bytes));
    let path_and_query = head.path_and_query(bytes);
    let end = path_and_query.iter().position(|&byte| byte == b'?');
    let (path, query) = path_and_query.split_at(end.unwrap_or(path_and_query.len()));
    match head.method {
        Method::Get => set(environs, &keys.method, &values.get)?,
        _ => set(environs, &keys.method, &text(head.method_name.of(bytes)))?,
    }
    set(environs, &keys.request_uri, &target)?;
    set(environs, &keys.raw_uri, &target)?;
    set(environs, &keys.path, &text(&percent_decoded(path)))?;
    match query {
        [] | [b'?'] => set(environs, &keys.query, &values.empty)?,
        [_, query @ ..] => set(environs, &keys.query, &text(query))?,
    }
    let protocol = match head.version {
        Version::Http10 => &values.http_10,
        Version::Http11 => &values.http_11,
    };
    set(environs, &keys.protocol, protocol)
}

fn template(
    python: Python<'_>,
    (index, listener, server): (usize, &Endpoint, &ServerInfo),
    hints: &Bound<'_, EarlyHints>,
) -> PyResult<Py<PyDict>> {
    let is_secure = server.secure_listeners.has(index);
    let (host, port) = match listener {
        Endpoint::Tcp(address) => (address.ip().to_string(), address.port().to_string()),
        // Neither may be empty, and a Unix socket has none.
        Endpoint::Unix(_) => ("localhost".to_owned(), "80".to_owned()),
    };
    let template = PyDict::new(python);
    let set = |key: &str, value: &str| {
        template.set_item(PyString::intern(python, key), PyString::intern(python, value))
    };
    set("SCRIPT_NAME", &server.root_path)?;
    set("SERVER_NAME", &host)?;
    set("SERVER_PORT", &port)?;
    set("SERVER_SOFTWARE", concat!("jissoku/", env!("CARGO_PKG_VERSION")))?;
    set("wsgi.url_scheme", if is_secure { "https" } else { "http" })?;
    if is_secure {
        set("HTTPS", "on")?;
    }
    // Each request sets these. With them, the dictionary is large enough for usual requests.
    for key in [
        "REQUEST_METHOD",
        "PATH_INFO",
        "QUERY_STRING",
        "REQUEST_URI",
        "RAW_URI",
        "SERVER_PROTOCOL",
        "REMOTE_ADDR",
        "wsgi.input",
    ] {
        set(key, "")?;
    }
    template.set_item("wsgi.version", (1, 0))?;
    template.set_item("wsgi.errors", python.import("sys")?.getattr("stderr")?)?;
    template.set_item("wsgi.multithread", server.threads > 0)?;
    template.set_item("wsgi.multiprocess", server.is_multiprocess)?;
    template.set_item("wsgi.run_once", false)?;
    template.set_item("wsgi.file_wrapper", python.get_type::<FileWrapper>())?;
    template.set_item("wsgi.input_terminated", true)?;
    template.set_item("wsgi.early_hints", hints)?;
    Ok(template.unbind())
}
