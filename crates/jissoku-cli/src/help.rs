//! Help in two sizes: `--help` prints the common options of a command, `--help-all` all of them, both
//! in groups.

use clap::{Arg, ArgAction, Command};

/// Options with a common heading.
pub(crate) struct Group {
    pub(crate) heading: &'static str,
    /// The identifiers of options that `--help` prints, separated by spaces.
    pub(crate) common: &'static str,
    /// Those that only `--help-all` prints.
    pub(crate) others: &'static str,
}

impl Group {
    pub(crate) fn ids(&self) -> impl Iterator<Item = &'static str> {
        [self.common, self.others].into_iter().flat_map(str::split_ascii_whitespace)
    }
}

/// Options that are in no group.
const OTHERS: &str = "Others";

/// `command` with its options in `groups`, and the options that print them.
pub(crate) fn in_groups(command: Command, groups: &[Group]) -> Command {
    let grouped = command.disable_help_flag(true).mut_args(|arg| {
        let id = arg.get_id().as_str();
        let place_of = |group: &&Group| group.ids().position(|other| other == id);
        let Some(group) = groups.iter().find(|group| place_of(group).is_some()) else {
            return arg.help_heading(OTHERS).hide_short_help(true);
        };
        let place = place_of(&group).unwrap_or_default();
        let is_common = group.common.split_ascii_whitespace().any(|other| other == id);
        arg.help_heading(group.heading).display_order(place).hide_short_help(!is_common)
    });
    grouped
        .next_help_heading("Help")
        .arg(
            Arg::new("help")
                .short('h')
                .long("help")
                .help("Print the common options")
                .action(ArgAction::HelpShort),
        )
        .arg(
            Arg::new("help_all")
                .long("help-all")
                .help("Print all options")
                .action(ArgAction::HelpLong),
        )
}

#[cfg(test)]
pub(crate) fn check(command: &Command, groups: &[Group]) {
    let grouped = || groups.iter().flat_map(Group::ids);
    let known: Vec<&str> = command.get_arguments().map(|arg| arg.get_id().as_str()).collect();
    for id in grouped() {
        assert!(known.contains(&id), "{id} is no option");
        assert_eq!(grouped().filter(|other| *other == id).count(), 1, "{id} is in one group");
    }
    let alone: Vec<_> = command
        .get_arguments()
        .filter(|arg| arg.get_help_heading() == Some(OTHERS) && !arg.is_hide_set())
        .map(Arg::get_id)
        .collect();
    assert!(alone.is_empty(), "in no group of the help: {alone:?}");
    let common = groups.iter().flat_map(|group| group.common.split_ascii_whitespace()).count();
    assert!((10..=16).contains(&common), "{common} common options");
}
