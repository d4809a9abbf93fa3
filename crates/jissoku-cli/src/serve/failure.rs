//! Errors of `serve`, their messages and exit codes.

use std::fmt;
use std::io::{self, Write};
use std::sync::OnceLock;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use jissoku_server::{StartError, StoppedBeforeReady};

use super::elsewhere::{self, Elsewhere};
use crate::usage;

/// Exit codes, as everywhere in jissoku.
pub(super) const SUCCESS: u8 = 0;
pub(super) const FAILED: u8 = 1;
pub(super) const BAD_INPUT: u8 = 2;

/// An error message and its exit code.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The flags were invalid, or help was requested; clap formats the message.
    Usage(clap::Error),
    /// Anything else.
    Message { code: u8, message: String },
    /// Several things are wrong, each of which has a sentence.
    Several(Vec<Self>),
    /// A worker process could not start, and has reported the reason itself.
    Reported { code: u8 },
    /// A signal has stopped the server before its workers were ready.
    Stopped,
}

impl Failure {
    pub(super) fn of_input(message: &(impl ToString + ?Sized)) -> Self {
        Self::Message { code: BAD_INPUT, message: message.to_string() }
    }

    /// Refuses the first of some flags that is given, by its name.
    pub(super) fn of_first(
        flags: &[(&str, bool)],
        why: impl FnOnce(&str) -> String,
    ) -> Result<(), Self> {
        let first = flags.iter().find(|(_, is_given)| *is_given);
        first.map_or(Ok(()), |(flag, _)| Err(Self::of_input(&why(flag))))
    }

    /// All that is wrong; of one thing, that.
    pub(super) fn of_all(mut wrong: Vec<Self>) -> Self {
        if wrong.len() == 1 { wrong.remove(0) } else { Self::Several(wrong) }
    }

    /// A sentence for each thing that is wrong.
    pub(crate) fn sentences(&self) -> Vec<String> {
        match self {
            Self::Several(wrong) => wrong.iter().flat_map(Self::sentences).collect(),
            one => vec![one.to_string()],
        }
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
                print_error(&format!("{self}; see jissoku {} --help", verb()));
                BAD_INPUT
            }
            Self::Several(wrong) => wrong.iter().map(Self::print).max().unwrap_or(FAILED),
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
                match elsewhere_of(refusal) {
                    Some(Elsewhere::Here(ours)) => {
                        return write!(formatter, "; here it is {ours}");
                    }
                    Some(Elsewhere::Absent(why)) => {
                        return write!(formatter, "; there is no such option here: {why}");
                    }
                    None => {}
                }
                match usage::tip(refusal) {
                    Some(tip) => write!(formatter, "; {tip}"),
                    None => Ok(()),
                }
            }
            Self::Several(_) => formatter.write_str(&self.sentences().join("; ")),
            Self::Reported { .. } => formatter.write_str("the reason is above"),
            Self::Stopped => StoppedBeforeReady.fmt(formatter),
            Self::Message { message, .. } => formatter.write_str(message),
        }
    }
}

/// What an unknown option of another server is here.
fn elsewhere_of(refusal: &clap::Error) -> Option<Elsewhere> {
    if refusal.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    match refusal.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(unknown)) => elsewhere::find(unknown),
        _ => None,
    }
}

/// The verb of the process, as it was typed: `serve` or `lab serve`.
static VERB: OnceLock<String> = OnceLock::new();

/// Has every line to standard error begin with this verb.
pub(super) fn name_verb(verb: &str) {
    VERB.get_or_init(|| verb.to_owned());
}

/// Prints a line to standard error.
pub(super) fn print_error(sentence: &str) {
    // The error is ignored: stderr may be closed, and the exit code reports the failure too.
    let _written = writeln!(io::stderr(), "jissoku {}: {sentence}", verb());
}

/// What every line to standard error begins with after the program's name.
pub fn verb() -> &'static str {
    VERB.get().map_or("serve", String::as_str)
}

#[cfg(test)]
mod tests {
    use crate::serve::Serve;

    fn refusal(flags: &[&str]) -> String {
        let all: Vec<String> =
            ["serve", "there:app"].iter().chain(flags).map(ToString::to_string).collect();
        Serve::read(&all, None).expect_err("the flags are wrong").to_string()
    }

    #[test]
    fn options_of_other_servers_are_named_as_ours() {
        for (flags, words) in [
            (["--bind", "x:1"], "'--bind' found; here it is --listen HOST:PORT"),
            (["-p", "8000"], "'-p' found; here it is --pid-file FILE, or --listen HOST:PORT"),
            (["-w4", "--pin"], "'-w' found; here it is --workers N"),
            (["--bind=x:1", "--pin"], "'--bind' found; here it is --listen HOST:PORT"),
            (["--env", "A=b"], "'--env' found; here it is --env-file FILE, or the environment"),
            (["--static-path-route", "/s"], "here it is --static /PREFIX=DIR"),
            (["--http1-header-read-timeout", "1"], "here it is --head-time-max TIME"),
            (["--log-file", "x"], "there is no such option here: messages go to standard"),
            (["--timeout", "30"], "'--timeout' found; here it is --hang-timeout TIME"),
            (["-k", "gthread"], "'-k' found; here it is --wsgi or --asgi"),
            (["--workers", "auto"], "or leave it out for one per physical core"),
        ] {
            assert!(refusal(&flags).contains(words), "{}", refusal(&flags));
        }
    }

    #[test]
    fn an_unknown_option_is_not_offered_as_a_value() {
        let said = refusal(&["--quux", "1"]);
        assert_eq!(said, "unexpected argument '--quux' found");
    }
}
