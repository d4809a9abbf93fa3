//! The scope of a request (ASGI, "HTTP Connection Scope").

use std::net::SocketAddr;

use jissoku_http::{Head, Version};
use jissoku_os::socket::Endpoint;
use jissoku_server::ClientIdentity;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};

use super::handshake::{Upgrade, list};
use super::unchanged::Scope;
use crate::environ::{AsgiOptions, ServerInfo};
use crate::interpreter::version;
use crate::text::{latin1, percent_decoded};

/// The versions of the specification of messages without and with `OSError` after a disconnect. In a
/// WebSocket frameworks expect the exception, and listen nevertheless.
const WITHOUT_ERROR: &str = "2.3";
const WITH_ERROR: &str = "2.4";

/// Maximum number of cached header sections, and their maximum size.
const SECTIONS_MAX: usize = 64;
const SECTION_SIZE_MAX: usize = 2 * 1024;

/// After this many scopes in a row that the application has changed or kept, none is used again.
const CHANGES_MAX: u32 = 32;

/// What kind of connection a scope is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Http,
    WebSocket,
}

/// Builds scopes. It belongs to one thread.
#[derive(Debug)]
pub(super) struct Scopes {
    /// The part that all requests of a listener have in common.
    templates: Vec<Py<PyDict>>,
    versions: Py<PyDict>,
    options: AsgiOptions,
    /// As in [`ServerInfo`].
    root_path: String,
    /// The state of the lifespan.
    state: Py<PyDict>,
    sections: Vec<Option<Section>>,
    /// How many scopes in a row were changed or kept.
    changes: u32,
}

/// A header section and its list.
#[derive(Debug)]
struct Section {
    bytes: Box<[u8]>,
    fields: Py<PyList>,
    has_upgrade: bool,
    /// A scope for another request.
    unused: Option<Scope>,
}

impl Scopes {
    pub(super) fn new(
        python: Python<'_>,
        server: &ServerInfo,
        state: &Bound<'_, PyDict>,
    ) -> PyResult<Self> {
        let versions = PyDict::new(python);
        versions.set_item("version", "3.0")?;
        let options = server.asgi;
        let version = if options.raises_after_disconnect { WITH_ERROR } else { WITHOUT_ERROR };
        versions.set_item("spec_version", version)?;
        let template = |(index, listener)| template(python, (index, listener, server));
        Ok(Self {
            templates: server
                .listeners
                .iter()
                .enumerate()
                .map(template)
                .collect::<PyResult<_>>()?,
            versions: versions.unbind(),
            options,
            state: state.clone().unbind(),
            root_path: server.root_path.clone(),
            sections: (0..SECTIONS_MAX).map(|_| None).collect(),
            changes: 0,
        })
    }

    /// The upgrade that a request asks for, if any, and its scope. `bytes` are those that `head`
    /// was parsed from.
    pub(super) fn build<'py>(
        &mut self,
        python: Python<'py>,
        (head, bytes): (&Head, &[u8]),
        (listener, client, identity): (usize, &Py<PyAny>, Option<&ClientIdentity<'_>>),
    ) -> PyResult<(Upgrade, Scope)> {
        if identity.is_none()
            && let Some(scope) = self.take_unused(python, (head, bytes), (listener, client))
        {
            return Ok((Upgrade::None, scope));
        }
        let (fields, has_upgrade, known) = self.fields(python, head, bytes)?;
        let upgrade = if has_upgrade { Upgrade::of(head, bytes) } else { Upgrade::None };
        let kind = match upgrade {
            Upgrade::WebSocket(_) => Kind::WebSocket,
            Upgrade::None | Upgrade::Invalid(_) => Kind::Http,
        };
        let scope = self.templates[listener].bind(python).copy()?;
        let set = |key: &Bound<'py, PyString>, value: Bound<'py, PyAny>| scope.set_item(key, value);
        let versions = self.versions.bind(python).copy()?;
        set(pyo3::intern!(python, "asgi"), versions.clone().into_any())?;
        let script = identity.and_then(|identity| identity.variables.as_ref());
        let script = script.map_or(&b""[..], |variables| variables.script_and_path().0);
        // A script name of an intermediary is in the path.
        let root_path = if script.is_empty() { &self.root_path } else { "" };
        set_target(&scope, (head, bytes), root_path)?;
        scope.set_item(pyo3::intern!(python, "client"), client)?;
        if let Some(identity) = identity {
            set_identity(&scope, identity)?;
        }
        let state = self.state.bind(python).copy()?;
        set(pyo3::intern!(python, "state"), state.clone().into_any())?;
        let extensions = PyDict::new(python);
        let mut parts = vec![versions.clone(), state, extensions.clone()];
        let mut offer = |name: &Bound<'py, PyString>| {
            let extension = PyDict::new(python);
            extensions.set_item(name, &extension)?;
            parts.push(extension);
            PyResult::Ok(())
        };
        match kind {
            Kind::Http => {
                let method = latin1(python, head.method_name.of(bytes));
                set(pyo3::intern!(python, "method"), method.into_any())?;
                if self.options.offers_path_send {
                    offer(pyo3::intern!(python, "http.response.pathsend"))?;
                }
                offer(pyo3::intern!(python, "http.response.early_hint"))?;
                if accepts_trailers(head, bytes) {
                    offer(pyo3::intern!(python, "http.response.trailers"))?;
                }
            }
            Kind::WebSocket => {
                set_websocket(&scope, head, bytes)?;
                versions.set_item("spec_version", WITH_ERROR)?;
                offer(pyo3::intern!(python, "websocket.http.response"))?;
            }
        }
        if let Some(host) = identity.and_then(|identity| identity.host) {
            set_host(&fields, host)?;
        }
        set(pyo3::intern!(python, "headers"), fields.clone().into_any())?;
        set(pyo3::intern!(python, "extensions"), extensions.into_any())?;
        let scope = Scope::new(scope);
        if let Some(known) = known
            && identity.is_none()
            && !has_upgrade
            && self.changes < CHANGES_MAX
        {
            let line = &bytes[..head.fields.start as usize];
            let slot = slot_of(head.fields.of(bytes));
            let state = version(self.state.bind(python));
            let place = (slot, listener, client.clone_ref(python));
            return Ok((upgrade, scope.recorded((line, place), parts, (fields, known), state)));
        }
        Ok((upgrade, scope))
    }

    /// A scope for this request that an earlier one has left as it was.
    fn take_unused(
        &mut self,
        python: Python<'_>,
        (head, bytes): (&Head, &[u8]),
        (listener, client): (usize, &Py<PyAny>),
    ) -> Option<Scope> {
        let section = head.fields.of(bytes);
        let known = self.sections[slot_of(section)].as_mut()?;
        if *known.bytes != *section {
            return None;
        }
        let mut scope = known.unused.take()?;
        let record = scope.record.as_mut()?;
        let is_same = *record.line == bytes[..head.fields.start as usize]
            && record.listener == listener
            && version(self.state.bind(python)) == Some(record.state);
        if !is_same {
            return None;
        }
        if !record.client.is(client) {
            let dict = scope.dict.bind(python);
            dict.set_item(pyo3::intern!(python, "client"), client).ok()?;
            record.client = client.clone_ref(python);
            record.version = version(dict)?;
        }
        Some(scope)
    }

    /// Takes back the scope of a request. If the application has neither kept nor changed a part of
    /// it, the next request with the same head gets it.
    pub(super) fn take_back(&mut self, python: Python<'_>, scope: Scope) {
        let Some(record) = &scope.record else { return };
        if !scope.is_unchanged(python) {
            self.changes += 1;
            return;
        }
        self.changes = 0;
        // Another section may have taken the slot.
        if let Some(section) = &mut self.sections[record.slot]
            && section.fields.is(&record.fields)
        {
            section.unused = Some(scope);
        }
    }

    /// The header fields, as a new list, whether `Upgrade` is one, and the list that it is a copy of.
    /// Clients repeat their header sections, and the pairs in them are immutable.
    fn fields<'py>(
        &mut self,
        python: Python<'py>,
        head: &Head,
        bytes: &[u8],
    ) -> PyResult<(Bound<'py, PyList>, bool, Option<Py<PyList>>)> {
        let section = head.fields.of(bytes);
        let place = &mut self.sections[slot_of(section)];
        if let Some(known) = place
            && *known.bytes == *section
        {
            let fields = known.fields.bind(python);
            let copy = fields.get_slice(0, fields.len());
            return Ok((copy, known.has_upgrade, Some(known.fields.clone_ref(python))));
        }
        let fields = PyList::empty(python);
        let mut has_upgrade = false;
        for (name, value) in head.fields(bytes) {
            has_upgrade |= name.eq_ignore_ascii_case(b"upgrade");
            let name = PyBytes::new(python, &name.to_ascii_lowercase());
            fields.append(PyTuple::new(python, [name, PyBytes::new(python, value)])?)?;
        }
        if section.len() <= SECTION_SIZE_MAX {
            let known = fields.get_slice(0, fields.len()).unbind();
            let bytes = section.into();
            *place = Some(Section { bytes, fields: known, has_upgrade, unused: None });
        }
        Ok((fields, has_upgrade, None))
    }
}

/// Sets the members that depend on the version and the request target.
fn set_target(
    scope: &Bound<'_, PyDict>,
    (head, bytes): (&Head, &[u8]),
    root_path: &str,
) -> PyResult<()> {
    let python = scope.py();
    if head.version == Version::Http10 {
        scope.set_item(pyo3::intern!(python, "http_version"), "1.0")?;
    }
    let both = head.path_and_query(bytes);
    let end = both.iter().position(|&byte| byte == b'?').unwrap_or(both.len());
    let (path, query) = both.split_at(end);
    let mut text = String::from_utf8_lossy(&percent_decoded(path)).into_owned();
    let mut raw_path = PyBytes::new(python, path);
    // The specification has the root path in both; the target of OPTIONS may be `*`.
    if !root_path.is_empty() && path.starts_with(b"/") {
        text.insert_str(0, root_path);
        raw_path = PyBytes::new(python, &[root_path.as_bytes(), path].concat());
    }
    scope.set_item(pyo3::intern!(python, "path"), PyString::new(python, &text))?;
    scope.set_item(pyo3::intern!(python, "raw_path"), raw_path)?;
    let query = query.strip_prefix(b"?").unwrap_or(query);
    scope.set_item(pyo3::intern!(python, "query_string"), PyBytes::new(python, query))
}

/// Changes the scope of a request to that of a `WebSocket`.
fn set_websocket(scope: &Bound<'_, PyDict>, head: &Head, bytes: &[u8]) -> PyResult<()> {
    let python = scope.py();
    scope.del_item(pyo3::intern!(python, "method"))?;
    let scheme = scope.get_item("scheme")?;
    let is_secure = scheme.is_some_and(|scheme| scheme.eq("https").unwrap_or(false));
    scope.set_item("type", "websocket")?;
    scope.set_item("scheme", if is_secure { "wss" } else { "ws" })?;
    scope.set_item("subprotocols", subprotocols(python, head, bytes)?)
}

/// Sets what an intermediary has said. The path is in the head.
#[cold]
fn set_identity(scope: &Bound<'_, PyDict>, identity: &ClientIdentity<'_>) -> PyResult<()> {
    let python = scope.py();
    if let Some(variables) = &identity.variables {
        let text = |name| variables.get(name).filter(|text| !text.is_empty());
        if let Some(version) = text(b"SERVER_PROTOCOL").and_then(|it| it.strip_prefix(b"HTTP/")) {
            // The specification has "2" for HTTP/2.
            let version = version.strip_suffix(b".0").filter(|it| *it != b"1").unwrap_or(version);
            scope.set_item("http_version", latin1(python, version))?;
        }
        if let Some(name) = text(b"SERVER_NAME") {
            let port = text(b"SERVER_PORT").and_then(|port| str::from_utf8(port).ok());
            let port = port.and_then(|port| port.parse::<u16>().ok());
            scope.set_item("server", (latin1(python, name), port))?;
        }
        let (script, _) = variables.script_and_path();
        if !script.is_empty() {
            scope.set_item("root_path", String::from_utf8_lossy(script))?;
        }
    }
    if let Some(address) = identity.client {
        scope.set_item("client", client(python, Some(address))?)?;
    }
    if let Some(is_secure) = identity.is_secure {
        scope.set_item("scheme", if is_secure { "https" } else { "http" })?;
    }
    Ok(())
}

/// Replaces the Host.
fn set_host(fields: &Bound<'_, PyList>, host: &[u8]) -> PyResult<()> {
    let python = fields.py();
    let pair = PyTuple::new(python, [PyBytes::new(python, b"host"), PyBytes::new(python, host)])?;
    for (index, field) in fields.iter().enumerate() {
        if field.get_item(0)?.eq(pyo3::intern!(python, "host").call_method0("encode")?)? {
            return fields.set_item(index, pair);
        }
    }
    fields.append(pair)
}

/// The slot of a header section.
fn slot_of(section: &[u8]) -> usize {
    let step = section.len() / 16 + 1;
    let sum = section
        .iter()
        .step_by(step)
        .fold(section.len(), |sum, &byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    sum % SECTIONS_MAX
}

/// Whether the client accepts trailers (RFC 9110 section 6.5.1).
fn accepts_trailers(head: &Head, bytes: &[u8]) -> bool {
    head.version == Version::Http11
        && list(head, bytes, "te").any(|value| value.eq_ignore_ascii_case(b"trailers"))
}

fn subprotocols<'py>(
    python: Python<'py>,
    head: &Head,
    bytes: &[u8],
) -> PyResult<Bound<'py, PyList>> {
    let names = list(head, bytes, "sec-websocket-protocol").filter(|name| !name.is_empty());
    PyList::new(python, names.map(|name| latin1(python, name)).collect::<Vec<_>>())
}

/// The member `client`.
pub(super) fn client(python: Python<'_>, address: Option<SocketAddr>) -> PyResult<Py<PyAny>> {
    let Some(address) = address else { return Ok(python.None()) };
    let host = address.ip().to_canonical().to_string();
    Ok((host, address.port()).into_pyobject(python)?.into_any().unbind())
}

fn template(
    python: Python<'_>,
    (index, listener, server): (usize, &Endpoint, &ServerInfo),
) -> PyResult<Py<PyDict>> {
    let is_secure = server.secure_listeners.has(index);
    let template = PyDict::new(python);
    template.set_item("type", "http")?;
    template.set_item("asgi", python.None())?;
    template.set_item("http_version", "1.1")?;
    template.set_item("method", "GET")?;
    template.set_item("scheme", if is_secure { "https" } else { "http" })?;
    for name in ["path", "raw_path", "query_string"] {
        template.set_item(name, "")?;
    }
    template.set_item("root_path", &server.root_path)?;
    template.set_item("headers", python.None())?;
    template.set_item("client", python.None())?;
    match listener {
        Endpoint::Tcp(address) => {
            template.set_item("server", (address.ip().to_string(), address.port()))?;
        }
        Endpoint::Unix(path) => {
            template.set_item("server", (path.as_os_str(), python.None()))?;
        }
    }
    template.set_item("state", python.None())?;
    template.set_item("extensions", python.None())?;
    Ok(template.unbind())
}
