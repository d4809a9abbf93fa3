//! Applies the information of an intermediary (a trusted proxy) to an environ.

use jissoku_http::uwsgi::Variables;
use jissoku_server::ClientIdentity;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::text::latin1;

/// Applies `identity` to an environ that was built from the head.
#[cold]
pub(crate) fn set_identity(
    environ: &Bound<'_, PyDict>,
    identity: &ClientIdentity<'_>,
) -> PyResult<()> {
    if let Some(variables) = &identity.variables {
        set_variables(environ, variables)?;
    }
    if let Some(client) = identity.client {
        environ.set_item("REMOTE_ADDR", client.ip().to_canonical().to_string())?;
        match client.port() {
            0 => remove(environ, "REMOTE_PORT")?,
            port => environ.set_item("REMOTE_PORT", port.to_string())?,
        }
    }
    if let Some(host) = identity.host {
        environ.set_item("HTTP_HOST", latin1(environ.py(), host))?;
    }
    match identity.is_secure {
        Some(true) => {
            environ.set_item("wsgi.url_scheme", "https")?;
            environ.set_item("HTTPS", "on")?;
        }
        Some(false) => {
            environ.set_item("wsgi.url_scheme", "http")?;
            remove(environ, "HTTPS")?;
        }
        None => {}
    }
    Ok(())
}

/// Sets the variables that are not in the head.
fn set_variables(environ: &Bound<'_, PyDict>, variables: &Variables<'_>) -> PyResult<()> {
    let python = environ.py();
    for (name, value) in variables {
        let is_in_head = name.starts_with(b"HTTP_")
            || matches!(
                name,
                b"REQUEST_METHOD"
                    | b"QUERY_STRING"
                    | b"CONTENT_TYPE"
                    | b"CONTENT_LENGTH"
                    | b"SCRIPT_NAME"
                    | b"PATH_INFO"
                    | b"HTTPS"
            );
        // PEP 3333 requires SERVER_NAME and SERVER_PORT; keys with a dot hold objects.
        let is_omitted = name.contains(&b'.') || (value.is_empty() && name.starts_with(b"SERVER_"));
        if !is_in_head && !is_omitted {
            environ.set_item(latin1(python, name), latin1(python, value))?;
        }
    }
    if let Some(uri) = variables.get(b"REQUEST_URI") {
        environ.set_item("RAW_URI", latin1(python, uri))?;
    }
    if let (script, Some(path)) = variables.script_and_path() {
        if !script.is_empty() {
            environ.set_item("SCRIPT_NAME", latin1(python, script))?;
        }
        environ.set_item("PATH_INFO", latin1(python, path))?;
    }
    Ok(())
}

fn remove(environ: &Bound<'_, PyDict>, key: &str) -> PyResult<()> {
    if environ.contains(key)? { environ.del_item(key) } else { Ok(()) }
}
