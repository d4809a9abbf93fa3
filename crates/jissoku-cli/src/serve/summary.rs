//! What the server says at start beside its addresses: what is served, by how many workers, with which limits.

use std::time::Duration;

use jissoku_server::Limits;

use super::Serve;
use super::failure::Failure;

const MULTIPLES: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];

impl Serve {
    /// A line with the content and the workers, and a line with the limits; none with `--quiet`.
    pub(super) fn summary(&self) -> Result<Vec<String>, Failure> {
        if self.process.quiet {
            return Ok(Vec::new());
        }
        let count = self.workers.placement(self.runs_code())?.workers;
        let kind = if self.has_processes()? { "process" } else { "thread" };
        let plural = match (count, kind) {
            (1, _) => "",
            (_, "process") => "es",
            _ => "s",
        };
        let content = self.content_name();
        let served = format!("serving {content} with {count} worker {kind}{plural}");
        Ok(vec![served, limits_line(&self.limits())])
    }

    /// What is served, in some words.
    pub(crate) fn content_name(&self) -> String {
        if let Some(routes) = &self.routes {
            return routes.summary();
        }
        if let Some(app) = self.app() {
            return format!("the application {app}");
        }
        if let [file, ..] = &*self.handler_files() {
            return format!("the handler {}", file.name());
        }
        if let Some(servers) = &self.gateway.to {
            return format!("requests forwarded to {servers}");
        }
        let folder = self.files.folder().map(|folder| {
            let whole = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
            format!("the directory {}", whole.display())
        });
        self.content.name().map_or_else(|| folder.unwrap_or_default(), str::to_owned)
    }
}

fn limits_line(limits: &Limits) -> String {
    let time = |time_ns| format!("{:?}", Duration::from_nanos(time_ns));
    format!(
        "limits: request bodies of {}, {} connections, {} for a request head, {} idle",
        size(limits.request.body_size_max),
        limits.connections_max,
        time(limits.head_ns_max),
        time(limits.idle_ns_max),
    )
}

/// A size in the largest unit in which it is a whole number.
fn size(bytes: u64) -> String {
    let unit = MULTIPLES.iter().find(|(unit, _)| bytes > 0 && bytes.is_multiple_of(*unit));
    unit.map_or_else(|| format!("{bytes} B"), |(unit, name)| format!("{} {name}", bytes / unit))
}

#[cfg(test)]
mod tests {
    use crate::serve::{LAB_VERB, Serve};

    fn summary(flags: &[&str]) -> Vec<String> {
        let all: Vec<String> = [LAB_VERB].iter().chain(flags).map(ToString::to_string).collect();
        let serve = Serve::read(&all, None).expect("the flags are valid");
        serve.summary().expect("the cores are known")
    }

    #[test]
    fn content_workers_and_limits_are_named() {
        for (flags, expected) in [
            (
                &["a.b:app", "--workers", "3"][..],
                "serving the application a.b:app with 3 worker processes",
            ),
            (&["a:b", "--workers", "1"], "serving the application a:b with 1 worker process"),
            (
                &["/srv/www", "--workers", "2"],
                "serving the directory /srv/www with 2 worker threads",
            ),
            (&["--fixed", "x", "--workers", "1"], "serving a fixed text with 1 worker thread"),
            (
                &["--to", "http://127.0.0.1:1", "--workers", "1"],
                "serving requests forwarded to http://127.0.0.1:1 with 1 worker thread",
            ),
            (
                &["--contract", "--workers", "1"],
                "serving the benchmark contract with 1 worker thread",
            ),
            (&["--echo", "--workers", "1"], "serving an echo with 1 worker thread"),
        ] {
            assert_eq!(summary(flags)[0], expected);
        }
        assert_eq!(
            summary(&["--fixed", "x", "--body-size-max", "1536K", "--idle-time-max", "1500ms"])[1],
            "limits: request bodies of 1536 KiB, 65536 connections, 10s for a request head, 1.5s idle"
        );
        assert_eq!(summary(&["--fixed", "x", "--quiet"]), Vec::<String>::new());
    }
}
