//! A refused command line in one sentence, as the other commands of jissoku report errors.

use std::io::{self, Write as _};

use clap::Error;
use clap::error::ErrorKind;
use jissoku_os::socket::Endpoint;

/// Prints why arguments were refused, or the help that they request, and returns the exit code.
///
/// `program` is what the user calls it, such as `jissoku load`.
pub(crate) fn print(program: &str, refusal: &Error) -> u8 {
    let is_help = refusal.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    if is_help || refusal.exit_code() == 0 {
        // The error of printing is ignored: stdout may be closed.
        let _printed = refusal.print();
    } else {
        // There is nowhere to report that stderr is closed.
        let _written = writeln!(io::stderr(), "{}", line(program, refusal));
    }
    u8::try_from(refusal.exit_code()).unwrap_or(2)
}

fn line(program: &str, refusal: &Error) -> String {
    format!("{program}: {}; see {program} --help", sentence(refusal))
}

/// The error, with clap's suggestion if there is one.
pub(crate) fn sentence(refusal: &Error) -> String {
    let tip = tip(refusal).map(|tip| format!("; {tip}")).unwrap_or_default();
    format!("{}{tip}", reason(refusal))
}

/// Clap's first paragraph, which is the error; the usage follows.
pub(crate) fn reason(refusal: &Error) -> String {
    let text = refusal.to_string();
    let lines = text.lines().take_while(|line| !line.is_empty());
    let sentence = lines.map(str::trim).collect::<Vec<_>>().join(" ");
    sentence.strip_prefix("error: ").unwrap_or(&sentence).to_owned()
}

/// Clap's suggestion, unless it is to pass an unknown option as a value.
pub(crate) fn tip(refusal: &Error) -> Option<String> {
    let text = refusal.to_string();
    let tip = text.lines().find_map(|line| line.trim().strip_prefix("tip: "))?;
    (!tip.contains("as a value, use")).then(|| tip.to_owned())
}

/// Why a measurement is not made, and the exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(super) message: String,
    pub(super) code: u8,
}

impl Failure {
    pub(crate) fn new(message: impl Into<String>, code: u8) -> Self {
        Self { message: message.into(), code }
    }

    /// Prints the failure of this verb of jissoku, and returns the exit code.
    pub(crate) fn print(&self, verb: &str) -> u8 {
        // The error is ignored: stderr may be closed.
        let _written = writeln!(io::stderr(), "jissoku {verb}: {}", self.message);
        self.code
    }
}

/// The exit code and the message of a failure.
pub(crate) type ExitError = (u8, String);

/// The exit code of a verb of jissoku, which prints why it failed.
pub(crate) fn exit_code(verb: &str, ended: Result<(), ExitError>) -> u8 {
    ended.map_or_else(|(code, message)| Failure::new(message, code).print(verb), |()| 0)
}

/// Prints a line to standard output.
pub(crate) fn print_line(line: &str) {
    let mut stdout = io::stdout().lock();
    // The error is ignored: stdout may be closed.
    let _written = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
}

/// Prints where a server of the laboratory listens.
pub(crate) fn announce(endpoint: &Endpoint) {
    print_line(&match endpoint {
        Endpoint::Tcp(address) => format!("listening on http://{address}/"),
        Endpoint::Unix(path) => format!("listening on unix:{}", path.display()),
    });
}

/// Prints an error of `jissoku load` and returns the exit code.
pub(crate) fn print_error(sentence: &str, code: u8) -> u8 {
    Failure::new(sentence, code).print("load")
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::Arguments;

    fn check(arguments: &[&str], expected: &str) {
        let all = ["jissoku"].iter().chain(arguments);
        let refusal = Arguments::try_parse_from(all).expect_err("the arguments are wrong");
        let program = format!("jissoku {}", arguments[0]);
        assert_eq!(
            line(&program, &refusal),
            format!("{program}: {expected}; see {program} --help")
        );
    }

    #[test]
    fn every_verb_reports_wrong_arguments_in_one_sentence() {
        let no_url = "the following required arguments were not provided: <URL>...";
        let no_file = "the following required arguments were not provided: <FILE>";
        let no_pid = "the following required arguments were not provided: <PID>...";
        check(&["load"], no_url);
        check(&["check"], no_file);
        check(&["sample"], no_pid);
        check(&["load", "--quux"], "unexpected argument '--quux' found");
        check(
            &["load", "--connection", "1", "http://h/"],
            "unexpected argument '--connection' found; a similar argument exists: '--connections'",
        );
    }
}
