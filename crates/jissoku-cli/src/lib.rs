//! The command line of the native verbs: `serve`, `load`, `floor`, `oracle`, and the load in the
//! shapes of other tools. One definition, used by the binary and, through `jissoku-python`, by the installed command.

mod floor;
mod load;
mod oracle;
mod serve;
mod shapes;
mod units;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(name = "jissoku", version, about = "The native verbs of jissoku")]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Serve(Box<serve::Serve>),
    Load(Box<load::Load>),
    Floor(floor::Floor),
    Oracle(oracle::Oracle),
    Wrk(shapes::wrk::Wrk),
    Wrk2(shapes::wrk2::Wrk2),
    Ab(shapes::ab::Ab),
    Hey(Box<shapes::hey::Hey>),
    Oha(Box<shapes::oha::Oha>),
}

/// Runs `jissoku VERB …` and returns the exit code: 0 fine, 1 the work failed, 2 bad input,
/// 4 undecided or invalid, 130 interrupted.
#[must_use]
pub fn run(arguments: impl IntoIterator<Item = String>) -> u8 {
    let mut arguments: Vec<String> = arguments.into_iter().collect();
    // It reads its own, again and again: at every reload.
    if arguments.get(1).is_some_and(|verb| verb == "serve") {
        return serve::run(&arguments[1..]);
    }
    if arguments.get(1).is_some_and(|verb| verb == "hey") {
        let words = shapes::hey::spelled(arguments.split_off(2));
        arguments.extend(words);
    }
    let verb = match Arguments::try_parse_from(&arguments) {
        Ok(Arguments { verb }) => verb,
        Err(refusal) => {
            // Clap's refusals carry the usage; help and version are no refusals and exit with 0.
            let _shown = refusal.print();
            return u8::try_from(refusal.exit_code()).unwrap_or(2);
        }
    };
    match verb {
        Verb::Serve(_) => serve::run(&arguments[1..]),
        Verb::Load(load) => load.run(),
        Verb::Floor(floor) => floor.run(),
        Verb::Oracle(oracle) => oracle.run(),
        Verb::Wrk(wrk) => wrk.run(),
        Verb::Wrk2(wrk2) => wrk2.run(),
        Verb::Ab(ab) => ab.run(),
        Verb::Hey(hey) => hey.run(),
        Verb::Oha(oha) => oha.run(),
    }
}

/// As [`run`], for `main`.
#[must_use]
pub fn main() -> ExitCode {
    run(std::env::args()).into()
}
