//! The command line of the native verbs: `serve`, `load`, `floor`, `oracle`, `check`, `sample`,
//! `store`, `completions` and `man`. One definition, used by the binary and, through `jissoku-python`, by the installed command.

mod check;
mod completions;
mod floor;
mod help;
mod load;
mod network;
mod oracle;
mod sample;
mod serve;
mod store;
mod units;
mod usage;

pub use load::returned::{LoadReport, load_report};
pub use serve::{AppError, AppRequest, AsgiRequest, LoadApp, PreparationRequest, verb};

use std::io::Write as _;
use std::process::ExitCode;

use clap::{Command, CommandFactory, FromArgMatches, Parser, Subcommand};
pub use jissoku_profile::flame_graph;
pub use units::{duration_ns, size};

/// Profile and commit of this build, as in `release, 1a2b3c4d5e`.
pub const BUILD: &str = env!("JISSOKU_BUILD");

const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("JISSOKU_BUILD"), ")");

#[derive(Debug, Parser)]
#[command(name = "jissoku", version = VERSION, about = "The native verbs of jissoku")]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Serve(Box<serve::Serve>),
    Lab(Lab),
    Load(Box<load::Load>),
    Floor(floor::Floor),
    Oracle(oracle::Oracle),
    Check(check::Check),
    Sample(sample::Sample),
    Store(store::StoreCommand),
    Completions(completions::Completions),
    Man(completions::Man),
}

/// What only the laboratory needs
#[derive(Debug, clap::Args)]
struct Lab {
    #[command(subcommand)]
    verb: LabVerb,
}

#[derive(Debug, Subcommand)]
enum LabVerb {
    Serve(Box<serve::Serve>),
    Network(Box<network::Network>),
}

/// All verbs, with the help that they print.
fn command() -> Command {
    Arguments::command()
        .mut_subcommand("serve", |_| serve::Serve::command("serve"))
        .mut_subcommand("lab", |lab| {
            lab.mut_subcommand("serve", |_| serve::Serve::command(serve::LAB_VERB))
        })
        .mut_subcommand("load", |load| help::in_groups(load, &load::help_groups::GROUPS))
}

/// Verbs that no longer exist, and what to write.
const REPLACED: [(&str, &str); 2] =
    [("routes", "jissoku check FILE [URL]"), ("wrk", "jissoku load --from 'wrk ...'")];

/// Runs `jissoku VERB …` and returns the exit code: 0 fine, 1 the work failed, 2 bad input,
/// 4 undecided or invalid, 130 interrupted.
#[must_use]
pub fn run(arguments: impl IntoIterator<Item = String>) -> u8 {
    run_with(arguments, None)
}

/// As [`run`], with a function that imports Python applications.
#[must_use]
pub fn run_with(arguments: impl IntoIterator<Item = String>, load: Option<&LoadApp>) -> u8 {
    let arguments: Vec<String> = arguments.into_iter().collect();
    // The server parses its arguments again at every reload.
    if arguments.get(1).is_some_and(|verb| verb == "serve") {
        return serve::run(&arguments[1..], load);
    }
    if let [_, lab, serve, rest @ ..] = &*arguments
        && (&**lab, &**serve) == ("lab", "serve")
    {
        let verb = serve::LAB_VERB.to_owned();
        return serve::run(&[&[verb], rest].concat(), load);
    }
    let arguments = match load::from::expand(arguments) {
        Ok(arguments) => arguments,
        Err(refusal) => return usage::print_error(&refusal, 2),
    };
    let verb = arguments.get(1).map_or("", String::as_str);
    if let Some((old, new)) = REPLACED.iter().find(|(old, _)| *old == verb) {
        // There is nowhere to report that stderr is closed.
        let _written = writeln!(std::io::stderr(), "jissoku {old}: write {new} in its place");
        return 2;
    }
    let parsed = command().try_get_matches_from(&arguments);
    let verb = match parsed.and_then(|matches| Arguments::from_arg_matches(&matches)) {
        Ok(Arguments { verb }) => verb,
        // Help and version arrive here too, with exit code 0.
        Err(refusal) => return usage::print(&program(&arguments), &refusal),
    };
    match verb {
        // Handled above, in all forms.
        Verb::Serve(_) | Verb::Lab(Lab { verb: LabVerb::Serve(_) }) => 2,
        Verb::Lab(Lab { verb: LabVerb::Network(network) }) => network.run(),
        Verb::Load(load) => load.run(),
        Verb::Floor(floor) => floor.run(),
        Verb::Oracle(oracle) => oracle.run(),
        Verb::Check(check) => check.run(),
        Verb::Sample(sample) => sample.run(),
        Verb::Store(store) => store.run(),
        Verb::Completions(completions) => completions.run(command()),
        Verb::Man(man) => man.run(command()),
    }
}

/// What the user has called: a verb, unless there is no such verb.
fn program(arguments: &[String]) -> String {
    let command = command();
    let verb = arguments.get(1).filter(|verb| command.find_subcommand(verb).is_some());
    verb.map_or_else(|| "jissoku".to_owned(), |verb| format!("jissoku {verb}"))
}

/// As [`run`], for `main`.
#[must_use]
pub fn main() -> ExitCode {
    run(std::env::args()).into()
}
