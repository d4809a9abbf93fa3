//! Errors of `serve`, their messages and exit codes.

use std::fmt;
use std::io::{self, Write};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use jissoku_server::{StartError, StoppedBeforeReady};

use crate::usage;

/// Exit codes, as everywhere in jissoku.
pub(super) const SUCCESS: u8 = 0;
pub(super) const FAILED: u8 = 1;
pub(super) const BAD_INPUT: u8 = 2;

/// Options of gunicorn, uvicorn and granian, and what they are here: as in docs/apps.md.
const ELSEWHERE: [(&[&str], &str); 15] = [
    (&["--bind", "-b", "--host", "--port", "-p"], "--listen HOST:PORT"),
    (&["--uds"], "--listen unix:PATH"),
    (&["--protocol"], "--listen HOST:PORT,uwsgi"),
    (&["-w"], "--workers N"),
    (&["--blocking-threads"], "--threads N"),
    (&["--worker-class", "-k", "--interface"], "--wsgi or --asgi"),
    (&["--pythonpath", "--working-dir"], "--app-dir DIR"),
    (&["--timeout", "-t"], "--hang-timeout TIME"),
    (&["--limit-max-requests"], "--max-requests N"),
    (&["--worker-connections", "--limit-concurrency"], "--connections-max N"),
    (&["--keep-alive", "--timeout-keep-alive"], "--idle-time-max TIME"),
    (&["--graceful-timeout", "--timeout-graceful-shutdown"], "--stop-timeout TIME"),
    (&["--certfile", "--keyfile", "--ssl-certfile", "--ssl-keyfile"], "--tls-cert and --tls-key"),
    (&["--access-logfile"], "--access-log FILE"),
    (&["--proxy-headers", "--forwarded-allow-ips"], "--trusted-proxies ADDRESS,..."),
];

/// An error message and its exit code.
#[derive(Debug)]
pub(super) enum Failure {
    /// The flags were invalid, or help was requested; clap formats the message.
    Usage(clap::Error),
    /// Anything else.
    Message { code: u8, message: String },
    /// A worker process could not start, and has reported the reason itself.
    Reported { code: u8 },
    /// A signal has stopped the server before its workers were ready.
    Stopped,
}

impl Failure {
    /// The input was invalid.
    pub(super) fn of_input(message: &(impl ToString + ?Sized)) -> Self {
        Self::Message { code: BAD_INPUT, message: message.to_string() }
    }

    /// The input was valid and the work failed.
    pub(super) fn of_work(message: &(impl ToString + ?Sized)) -> Self {
        Self::Message { code: FAILED, message: message.to_string() }
    }

    /// The workers could not be started.
    pub(super) fn of_start(error: &io::Error) -> Self {
        let code = match error.kind() {
            io::ErrorKind::InvalidInput => BAD_INPUT,
            _ => FAILED,
        };
        if StoppedBeforeReady::is_cause_of(error) {
            return Self::Stopped;
        }
        let process = error.get_ref().and_then(|error| error.downcast_ref::<StartError>());
        match process {
            Some(StartError { is_reported: true, .. }) => Self::Reported { code },
            _ => Self::Message { code, message: error.to_string() },
        }
    }

    /// Prints the error to standard error and returns the exit code.
    pub(super) fn print(&self) -> u8 {
        match self {
            // Help and version are not errors.
            Self::Usage(refusal) if refusal.exit_code() == 0 => {
                // The error is ignored: stdout may be closed.
                let _printed = refusal.print();
                SUCCESS
            }
            Self::Usage(_) => {
                print_error(&format!("{self}; see jissoku serve --help"));
                BAD_INPUT
            }
            Self::Reported { code } => *code,
            Self::Stopped => SUCCESS,
            Self::Message { code, .. } => {
                print_error(&self.to_string());
                *code
            }
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(refusal) => {
                formatter.write_str(&usage::reason(refusal))?;
                if let Some(ours) = option_here(refusal) {
                    return write!(formatter, "; here it is {ours}");
                }
                match usage::tip(refusal) {
                    Some(tip) => write!(formatter, "; {tip}"),
                    None => Ok(()),
                }
            }
            Self::Reported { .. } => formatter.write_str("the reason is above"),
            Self::Stopped => StoppedBeforeReady.fmt(formatter),
            Self::Message { message, .. } => formatter.write_str(message),
        }
    }
}

/// The option of an unknown one that other servers of Python applications have (docs/apps.md).
fn option_here(refusal: &clap::Error) -> Option<&'static str> {
    if refusal.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let Some(ContextValue::String(unknown)) = refusal.get(ContextKind::InvalidArg) else {
        return None;
    };
    let found = ELSEWHERE.iter().find(|(names, _)| names.contains(&unknown.as_str()));
    found.map(|(_, ours)| *ours)
}

/// Prints a line to standard error.
pub(super) fn print_error(sentence: &str) {
    // The error is ignored: stderr may be closed, and the exit code reports the failure too.
    let _written = writeln!(io::stderr(), "jissoku serve: {sentence}");
}

#[cfg(test)]
mod tests {
    use super::ELSEWHERE;
    use crate::serve::Serve;

    const PAGE: &str = include_str!("../../../../docs/apps.md");

    fn refusal(flags: &[&str]) -> String {
        let all: Vec<String> =
            ["serve", "there:app"].iter().chain(flags).map(ToString::to_string).collect();
        Serve::read(&all, None).expect_err("the flags are wrong").to_string()
    }

    #[test]
    fn options_of_other_servers_are_named_as_ours() {
        for (flags, words) in [
            (["--bind", "x:1"], "'--bind' found; here it is --listen HOST:PORT"),
            (["-p", "8000"], "'-p' found; here it is --listen HOST:PORT"),
            (["--timeout", "30"], "'--timeout' found; here it is --hang-timeout TIME"),
            (["-k", "gthread"], "'-k' found; here it is --wsgi or --asgi"),
            (["--workers", "auto"], "or leave it out for one per physical core"),
        ] {
            assert!(refusal(&flags).contains(words), "{}", refusal(&flags));
        }
    }

    #[test]
    fn the_page_for_applications_names_the_options_of_other_servers() {
        let names = ELSEWHERE.iter().flat_map(|(names, _)| *names);
        for name in names.filter(|name| name.starts_with("--")) {
            // Alone, or with a value.
            let is_named = ['`', ' '].iter().any(|end| PAGE.contains(&format!("`{name}{end}")));
            assert!(is_named, "{name}");
        }
    }

    #[test]
    fn an_unknown_option_is_not_offered_as_a_value() {
        let said = refusal(&["--quux", "1"]);
        assert_eq!(said, "unexpected argument '--quux' found");
    }
}
