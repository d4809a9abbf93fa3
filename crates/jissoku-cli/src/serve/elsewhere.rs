//! Options of gunicorn, uvicorn and granian, and what they are here: as in
//! docs/apps.md.

/// What an option of another server is here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Elsewhere {
    /// Another option.
    Here(&'static str),
    /// There is none, for this reason.
    Absent(&'static str),
}

use Elsewhere::{Absent, Here};

const LOGGING: Elsewhere = Absent(
    "messages go to standard error, and the application configures its own logging; \
     --access-log FILE has the requests",
);
const WATCHING: Elsewhere = Absent("--reload watches the Python files below --app-dir");
const ENVIRONMENT: Elsewhere =
    Absent("set environment variables by --env-file FILE, or before the server starts by env(1)");
const TLS: Elsewhere = Absent("TLS 1.2 and 1.3 with safe ciphers, and no certificates of clients");
const HTTP_2: Elsewhere = Absent("connections speak HTTP/1.1; a proxy in front may speak HTTP/2");
const STRICT: Elsewhere = Absent("malformed requests are always rejected");
const WEBSOCKETS: Elsewhere =
    Absent("WebSockets need none: messages of 16 MiB, and a ping after 20 s");
const PROCESSES: Elsewhere = Absent("workers are replaced by themselves when they fail");
const THREADS: Elsewhere = Absent("a worker has one thread, and those of --threads");

const ELSEWHERE: [(&[&str], Elsewhere); 68] = [
    (&["--bind", "-b", "--host", "--port"], Here("--listen HOST:PORT")),
    (&["-p"], Here("--pid-file FILE, or --listen HOST:PORT for a port")),
    (&["--uds"], Here("--listen unix:PATH")),
    (&["--protocol"], Here("--listen HOST:PORT,uwsgi")),
    (&["--proxy-protocol"], Here("--listen HOST:PORT,proxy-protocol")),
    (&["--umask", "-m", "--uds-permissions"], Here("--socket-mode MODE")),
    (&["-w"], Here("--workers N")),
    (&["--blocking-threads"], Here("--threads N")),
    (&["--worker-class", "-k", "--interface"], Here("--wsgi or --asgi, and --threads N")),
    (&["--pythonpath"], Here("--app-dir DIR")),
    (&["--working-dir"], Here("--chdir DIR")),
    (&["--url-path-prefix"], Here("--root-path /PATH")),
    (&["--asgi-lifespan"], Here("--lifespan WHEN")),
    (&["--env-files"], Here("--env-file FILE")),
    (&["--log-config-json"], Here("--log-config FILE")),
    (
        &["--timeout", "-t", "--timeout-worker-healthcheck"],
        Here("--hang-timeout TIME, and --start-timeout TIME for the import"),
    ),
    (&["--limit-max-requests"], Here("--max-requests N")),
    (&["--limit-max-requests-jitter"], Here("--max-requests-jitter N")),
    (&["--workers-max-rss"], Here("--worker-memory-max SIZE")),
    (
        &["--worker-connections", "--limit-concurrency", "--backpressure"],
        Here("--connections-max N"),
    ),
    (&["--keep-alive", "--timeout-keep-alive"], Here("--idle-time-max TIME")),
    (&["--http1-header-read-timeout"], Here("--head-time-max TIME")),
    (
        &["--graceful-timeout", "--timeout-graceful-shutdown", "--workers-kill-timeout"],
        Here("--stop-timeout TIME"),
    ),
    (&["--limit-request-line"], Here("--request-line-size-max SIZE")),
    (&["--limit-request-fields"], Here("--fields-count-max N")),
    (&["--limit-request-field_size"], Here("--field-size-max SIZE")),
    (&["--h11-max-incomplete-event-size", "--http1-buffer-size"], Here("--fields-size-max SIZE")),
    (
        &["--certfile", "--keyfile", "--ssl-certfile", "--ssl-keyfile", "--ssl-certificate"],
        Here("--tls-cert and --tls-key"),
    ),
    (&["--access-logfile"], Here("--access-log FILE")),
    (&["--access-logformat", "--access-log-fmt"], Here("--log-format FORMAT")),
    (
        &["--proxy-headers", "--forwarded-allow-ips", "--proxy-allow-from", "--uwsgi-allow-from"],
        Here("--trusted-proxies ADDRESS,..."),
    ),
    (&["-c"], Here("--config FILE, in TOML")),
    (&["-u"], Here("--user USER")),
    (&["-g"], Here("--group GROUP")),
    (&["--pid"], Here("--pid-file FILE")),
    (&["--static-path-route", "--static-path-mount"], Here("--static /PREFIX=DIR")),
    (
        &["--statsd-host", "--metrics-address", "--metrics-port"],
        Here("--metrics HOST:PORT, in the format of OpenMetrics"),
    ),
    (&["--env", "-e"], ENVIRONMENT),
    (&["--daemon", "-D"], Absent("a service manager starts it in the background")),
    (&["--preload"], Absent("each worker imports the application itself")),
    (&["--fd"], Absent("sockets of systemd (LISTEN_FDS) are used without an option")),
    (&["--backlog"], Absent("4,096 connections may wait")),
    (&["--version", "-v"], Absent("write jissoku --version")),
    (&["--no-access-log", "--no-proxy-headers", "--no-factory"], Absent("this is the default")),
    (&["--no-reload", "--no-metrics", "--no-log"], Absent("this is the default")),
    (&["--error-logfile", "--log-file"], LOGGING),
    (&["--logger-class", "--capture-output", "--use-colors", "--no-use-colors"], LOGGING),
    (&["--enable-stdio-inheritance", "-R", "--log"], LOGGING),
    (&["--log-syslog", "--log-syslog-to", "--log-syslog-prefix", "--log-syslog-facility"], LOGGING),
    (&["--disable-redirect-access-to-syslog"], LOGGING),
    (&["--reload-dir", "--reload-include", "--reload-exclude", "--reload-delay"], WATCHING),
    (&["--reload-engine", "--reload-extra-file", "--reload-paths", "--reload-tick"], WATCHING),
    (&["--reload-ignore-dirs", "--reload-ignore-patterns", "--reload-ignore-paths"], WATCHING),
    (&["--reload-ignore-worker-failure", "--no-reload-ignore-worker-failure"], WATCHING),
    (&["--header"], Absent("the application sets the fields of its responses")),
    (&["--server-header", "--no-server-header"], Absent("no field Server is sent")),
    (&["--date-header", "--no-date-header"], Absent("the field Date is always sent")),
    (&["--loop", "--asgi-loop", "--task-impl"], Absent("the event loop is that of asyncio")),
    (&["--http", "--http-parser", "--no-sendfile", "--reuse-port"], Absent("it is chosen")),
    (
        &[
            "--ws",
            "--no-ws",
            "--ws-max-size",
            "--ws-max-queue",
            "--ws-ping-interval",
            "--ws-ping-timeout",
            "--ws-per-message-deflate",
            "--websocket-max-message-size",
        ],
        WEBSOCKETS,
    ),
    (
        &[
            "--http2",
            "--http-protocols",
            "--http2-cleartext",
            "--http2-max-concurrent-streams",
            "--http2-initial-window-size",
            "--http2-max-frame-size",
            "--http2-max-header-list-size",
            "--http2-adaptive-window",
            "--no-http2-adaptive-window",
            "--http2-initial-connection-window-size",
            "--http2-initial-stream-window-size",
            "--http2-keep-alive-interval",
            "--http2-keep-alive-timeout",
            "--http2-max-headers-size",
            "--http2-max-send-buffer-size",
        ],
        HTTP_2,
    ),
    (&["--ssl-keyfile-password"], Absent("the key must not be encrypted")),
    (
        &[
            "--ssl-version",
            "--ssl-cert-reqs",
            "--ssl-ca-certs",
            "--ssl-ciphers",
            "--cert-reqs",
            "--ca-certs",
            "--ciphers",
            "--ssl-protocol-min",
            "--ssl-ca",
            "--ssl-crl",
            "--ssl-client-verify",
            "--no-ssl-client-verify",
            "--suppress-ragged-eofs",
            "--do-handshake-on-connect",
        ],
        TLS,
    ),
    (
        &[
            "--permit-obsolete-folding",
            "--strip-header-spaces",
            "--permit-unconventional-http-method",
            "--permit-unconventional-http-version",
            "--casefold-http-method",
            "--header-map",
            "--forwarder-headers",
        ],
        STRICT,
    ),
    (
        &[
            "--respawn-failed-workers",
            "--no-respawn-failed-workers",
            "--respawn-interval",
            "--rss-sample-interval",
            "--rss-samples",
            "--workers-lifetime",
        ],
        PROCESSES,
    ),
    (
        &[
            "--runtime-threads",
            "--runtime-blocking-threads",
            "--runtime-mode",
            "--blocking-threads-idle-timeout",
        ],
        THREADS,
    ),
    (
        &["--paste", "--paster", "--paste-global"],
        Absent("write a module that loads the application with PasteDeploy"),
    ),
    (
        &[
            "--check-config",
            "--spew",
            "--name",
            "-n",
            "--process-name",
            "--worker-tmp-dir",
            "--initgroups",
            "--dogstatsd-tags",
            "--statsd-prefix",
            "--enable-backlog-metric",
            "--metrics-scrape-interval",
            "--asgi-disconnect-grace-period",
            "--dirty-app",
            "--dirty-workers",
            "--dirty-timeout",
            "--dirty-threads",
            "--dirty-graceful-timeout",
            "--control-socket",
            "--control-socket-mode",
            "--no-control-socket",
            "--reset-contextvars",
            "--http1-keep-alive",
            "--no-http1-keep-alive",
            "--http1-pipeline-flush",
            "--no-http1-pipeline-flush",
            "--static-path-dir-to-file",
            "--static-path-expires",
        ],
        Absent("nothing corresponds to it"),
    ),
];

/// What the option `name` of another server is here, if it is known.
pub(super) fn find(name: &str) -> Option<Elsewhere> {
    let found = ELSEWHERE.iter().find(|(names, _)| names.contains(&name));
    found.map(|(_, what)| *what)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = include_str!("../../../../docs/apps.md");

    #[test]
    fn no_option_is_in_the_table_twice() {
        let mut names: Vec<&str> =
            ELSEWHERE.iter().flat_map(|(names, _)| *names).copied().collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn the_page_for_applications_names_what_is_here() {
        let here = ELSEWHERE.iter().filter(|(_, what)| matches!(what, Here(_)));
        let names = here.flat_map(|(names, _)| *names);
        for name in names.filter(|name| name.starts_with("--")) {
            // Alone, or with a value.
            let is_named = ['`', ' '].iter().any(|end| PAGE.contains(&format!("`{name}{end}")));
            assert!(is_named, "{name}");
        }
    }
}
