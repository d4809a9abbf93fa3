//! `jissoku completions` and `jissoku man`: what shells complete and `man` shows, from the definitions
//! that parse the command line.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, Command, ValueHint};
use clap_complete::Shell;
use serde::Deserialize;

/// Print what a shell needs to complete the command line
///
/// bash: jissoku completions bash > ~/.local/share/bash-completion/completions/jissoku
/// zsh: jissoku completions zsh > a folder of $fpath, as the file _jissoku
/// fish: jissoku completions fish > ~/.config/fish/completions/jissoku.fish
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Completions {
    shell: Shell,
    /// The verbs of the laboratory, whose definitions are not native, as JSON
    #[arg(long, hide = true, default_value = "[]")]
    more: String,
}

/// Write the manual pages, one per verb, into a folder
#[derive(Debug, clap::Args)]
pub(crate) struct Man {
    /// Is created if it does not exist, as in ~/.local/share/man/man1
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    #[arg(long, hide = true, default_value = "[]")]
    more: String,
}

#[derive(Debug, Deserialize)]
struct VerbSpec {
    name: String,
    about: String,
    /// All that its `--help` says before the options.
    description: String,
    parameters: Vec<ParameterSpec>,
}

/// An option of it, or a positional argument if it has no words.
#[derive(Debug, Deserialize)]
struct ParameterSpec {
    name: String,
    /// As on the command line: `-c`, `--connections`.
    words: Vec<String>,
    help: String,
    /// Of its group, if the verb has groups.
    heading: Option<String>,
    metavar: Option<String>,
    /// The possible values, if they are few.
    choices: Vec<String>,
    takes_value: bool,
    is_repeated: bool,
    is_path: bool,
}

impl Completions {
    pub(crate) fn run(&self, command: Command) -> u8 {
        finish("completions", || {
            let mut text = Vec::new();
            clap_complete::generate(
                self.shell,
                &mut all(command, &self.more)?,
                "jissoku",
                &mut text,
            );
            io::stdout().write_all(&text).map_err(|error| format!("cannot write: {error}"))
        })
    }
}

impl Man {
    pub(crate) fn run(&self, command: Command) -> u8 {
        finish("man", || {
            let command = with_all_texts(all(command, &self.more)?);
            let write = |folder: &Path| {
                std::fs::create_dir_all(folder)?;
                clap_mangen::generate_to(command, folder)
            };
            write(&self.folder).map_err(|error| format!("{}: {error}", self.folder.display()))
        })
    }
}

fn finish(verb: &str, work: impl FnOnce() -> Result<(), String>) -> u8 {
    let Err(message) = work() else { return 0 };
    // There is nowhere to report that stderr is closed.
    let _written = writeln!(io::stderr(), "jissoku {verb}: {message}");
    1
}

/// `command` without the distinction of common options, since a manual page has the text of all.
fn with_all_texts(command: Command) -> Command {
    command.mut_args(|arg| arg.hide_short_help(false)).mut_subcommands(with_all_texts)
}

/// The native verbs and those of the laboratory.
fn all(command: Command, more: &str) -> Result<Command, String> {
    // The laboratory has a verb `help` of its own.
    let command = command.disable_help_subcommand(true);
    let verbs: Vec<VerbSpec> =
        serde_json::from_str(more).map_err(|error| format!("--more: {error}"))?;
    let about = if verbs.is_empty() {
        "An HTTP server and a load generator"
    } else {
        "A laboratory for the speed of HTTP servers, with its own server and load generator"
    };
    Ok(command.about(about).subcommands(verbs.into_iter().map(VerbSpec::command)))
}

impl VerbSpec {
    fn command(self) -> Command {
        Command::new(self.name)
            .about(self.about)
            .long_about(self.description)
            .args(self.parameters.into_iter().map(ParameterSpec::argument))
    }
}

impl ParameterSpec {
    fn argument(self) -> Arg {
        let is_option = !self.words.is_empty();
        let action = match (self.takes_value, self.is_repeated && is_option) {
            (false, _) => ArgAction::SetTrue,
            (true, true) => ArgAction::Append,
            (true, false) => ArgAction::Set,
        };
        let mut argument = Arg::new(self.name).help(self.help).action(action);
        if let Some(heading) = self.heading {
            argument = argument.help_heading(heading);
        }
        for word in self.words {
            argument = match word.strip_prefix("--") {
                Some(long) if argument.get_long().is_none() => argument.long(long.to_owned()),
                Some(long) => argument.visible_alias(long.to_owned()),
                None => argument.short(word.trim_start_matches('-').chars().next()),
            };
        }
        if self.takes_value {
            argument = argument.value_name(self.metavar.unwrap_or_else(|| "VALUE".to_owned()));
            if self.is_path {
                argument = argument.value_hint(ValueHint::AnyPath);
            }
            if !self.choices.is_empty() {
                argument = argument.value_parser(PossibleValuesParser::new(self.choices));
            }
        }
        if self.is_repeated && !is_option {
            argument = argument.num_args(0..);
        }
        argument
    }
}
