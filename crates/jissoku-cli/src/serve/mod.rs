//! `jissoku serve`: a folder, a fixed text, the common contract or an echo, until a signal comes.
//!
//! One file per theme holds its flags and what they mean; here they become a server and a site.

mod answers;
mod config;
mod edge;
mod failure;
mod files;
mod identity;
mod limits;
mod listen;
mod process;
mod run;
mod surroundings;

use clap::{ArgGroup, Args, Command, FromArgMatches};
use jissoku_os::socket::Endpoint;
use jissoku_server::{Limits, Observation, Settings, Site};

use failure::{FINE, Failure};

/// The group of flags that say what is served.
const WHAT: &str = "what";

/// Serves a folder, a fixed text, the common contract or an echo.
#[derive(Debug, Args)]
#[command(group(
    ArgGroup::new(WHAT).args(["folder", "fixed", "contract", "echo"]).required(true).multiple(true)
))]
pub(crate) struct Serve {
    #[command(flatten)]
    files: files::FileArgs,
    #[command(flatten)]
    answers: answers::Answers,
    #[command(flatten)]
    listen: listen::Listen,
    #[command(flatten)]
    edge: edge::Edge,
    #[command(flatten)]
    run: run::Run,
    #[command(flatten)]
    identity: identity::Identity,
    #[command(flatten)]
    config: config::Config,
    // Last, because its heading goes on to the end.
    #[command(flatten)]
    limits: limits::LimitArgs,
}

/// Serves until SIGTERM or SIGINT, and says on standard output where. `arguments` begin with the verb.
pub(crate) fn run(arguments: &[String]) -> u8 {
    match process::live(arguments) {
        Ok(()) => FINE,
        Err(failure) => failure.tell(),
    }
}

impl Serve {
    /// Understands the arguments, at the start and at every reload.
    fn read(arguments: &[String]) -> Result<Self, Failure> {
        let command = Self::augment_args(Command::new("serve").bin_name("jissoku serve"));
        let arguments = config::merge(&command, arguments)?;
        let matches = command.try_get_matches_from(arguments).map_err(Failure::Usage)?;
        Self::from_arg_matches(&matches).map_err(Failure::Usage)
    }

    /// How a generation of workers is set up; `given` is where somebody else has opened listeners.
    fn settings(&self, given: &[Endpoint], observation: &Observation) -> Result<Settings, Failure> {
        self.answers.check(self.files.folder())?;
        let crew = self.run.crew()?;
        Ok(Settings {
            endpoints: self.listen.endpoints(given),
            socket_mode: self.listen.socket_mode,
            workers: crew.workers,
            cores: crew.cores,
            limits: self.run.parting(self.limits.over(Limits::DEFAULT)),
            driver: self.run.driver()?,
            causes: self.answers.causes(),
            observation: observation.clone(),
            tls: self.edge.tls()?,
        })
    }

    /// What it serves.
    fn site(&self) -> Result<Site, Failure> {
        if self.answers.is_forty_two(self.files.folder()) {
            return Ok(answers::Answers::forty_two());
        }
        Ok(self.answers.site(self.files.load()?))
    }
}

#[cfg(test)]
mod tests {
    use super::failure::BAD_INPUT;

    fn check_refused(arguments: &[&str]) {
        let all = ["jissoku", "serve"].iter().chain(arguments).map(ToString::to_string);
        assert_eq!(crate::run(all), BAD_INPUT, "{arguments:?}");
    }

    #[test]
    fn bad_input_is_refused_before_anything_starts() {
        check_refused(&[]);
        check_refused(&["--workers", "1"]);
        check_refused(&["/nowhere/at/all"]);
        check_refused(&["--contract", "--workers", "0"]);
        check_refused(&["--contract", "--delay", "soon"]);
        check_refused(&["--contract", "--delay", "-1s"]);
        check_refused(&["--contract", "--delay", "2h"]);
        check_refused(&["--contract", "--busy-ns", "-1"]);
        check_refused(&["--contract", "--listen", "nonsense"]);
        check_refused(&["--contract", "--listen", "unix:/nowhere/at/all"]);
        check_refused(&["--contract", "--cores", "4095"]);
        check_refused(&["--contract", "--driver", "select"]);
        check_refused(&["--contract", "--fixed", "x"]);
        check_refused(&["--fixed", "x", "."]);
        check_refused(&[".", "--delay", "1s"]);
        check_refused(&["--contract", "--cores", "0", "--pin"]);
        check_refused(&["--contract", "--drain-window", "25h"]);
        check_refused(&["--contract", "--socket-mode", "999"]);
        check_refused(&["--contract", "--user", "nobody-of-that-name"]);
        check_refused(&["--contract", "--group", "root"]);
        check_refused(&["--contract", "--tls-cert", "/nowhere/at/all"]);
        check_refused(&["--contract", "--tls-key", "/nowhere/at/all"]);
        check_refused(&["--contract", "--tls-cert", "/dev/null", "--tls-key", "/dev/null"]);
        check_refused(&["--contract", "--access-log", "/nowhere/at/all"]);
        check_refused(&["--contract", "--log-format", "xml"]);
        check_refused(&["--contract", "--metrics", "nonsense"]);
        check_refused(&["--contract", "--listen", "127.0.0.1:0", "--pid-file", "/nowhere/at/all"]);
        check_refused(&["--echo", "--delay", "1s"]);
        check_refused(&["--echo", "--cause", "magic"]);
        check_refused(&["--echo", "--cause", "open=0"]);
        check_refused(&["--echo", "."]);
        check_refused(&["--echo", "--contract"]);
        check_refused(&["e5", "--contract", "--delay", "1s"]);
        check_refused(&["--echo", "--connections-max", "0"]);
        check_refused(&["--echo", "--body-size-max", "lots"]);
        check_refused(&["--echo", "--idle-time-max", "-1s"]);
    }

    #[test]
    fn a_port_in_use_is_refused() {
        let somebody = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = somebody.local_addr().expect("an address").to_string();
        check_refused(&["--contract", "--listen", &address]);
        check_refused(&["--contract", "--workers", "2", "--listen", &address]);
        check_refused(&["--contract", "--metrics", &address]);
    }
}
