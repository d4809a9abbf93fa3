//! Options of hey and oha that nothing here answers to: each is refused in a sentence.

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, Error, FromArgMatches};

/// One of them.
struct Refusal {
    name: &'static str,
    short: Option<char>,
    takes: Takes,
    why: &'static str,
}

#[derive(PartialEq)]
enum Takes {
    Nothing,
    Value,
}

const fn refusal(name: &'static str, takes: Takes, why: &'static str) -> Refusal {
    Refusal { name, short: None, takes, why }
}

const fn short(name: &'static str, short: char, why: &'static str) -> Refusal {
    Refusal { name, short: Some(short), takes: Takes::Value, why }
}

const HTTP_2: &str = "HTTP/1.1 is all that is spoken here";
const PROXY: &str = "no proxies are used here: --connect-to of jissoku load leads elsewhere";
const MANY: &str =
    "one URL is asked here: --raw of jissoku load sends several requests in rotation";
const BODIES: &str = "bodies are a string (-d) or a file (-D)";
const BURST: &str = "there are no bursts here: --pipeline of jissoku load sends several at once";
const AWS: &str = "nothing is signed here";
const CERTIFICATE: &str = "we have no certificate of our own to show";
const FAMILY: &str = "the name is looked up once, and its first address taken: write the address";

const REFUSALS: [Refusal; 27] = [
    refusal("h2", Takes::Nothing, HTTP_2),
    refusal("http2", Takes::Nothing, HTTP_2),
    short("proxy", 'x', PROXY),
    refusal("proxy-header", Takes::Value, PROXY),
    refusal("proxy-http-version", Takes::Value, PROXY),
    refusal("proxy-http2", Takes::Nothing, PROXY),
    refusal("burst-delay", Takes::Value, BURST),
    refusal("burst-rate", Takes::Value, BURST),
    refusal("rand-regex-url", Takes::Nothing, MANY),
    refusal("urls-from-file", Takes::Nothing, MANY),
    refusal("max-repeat", Takes::Value, MANY),
    refusal("dump-urls", Takes::Value, MANY),
    short("body-lines", 'Z', BODIES),
    short("form", 'F', BODIES),
    refusal("aws-session", Takes::Value, AWS),
    refusal("aws-sigv4", Takes::Value, AWS),
    refusal("cert", Takes::Value, CERTIFICATE),
    refusal("key", Takes::Value, CERTIFICATE),
    refusal("ipv4", Takes::Nothing, FAMILY),
    refusal("ipv6", Takes::Nothing, FAMILY),
    refusal("no-pre-lookup", Takes::Nothing, FAMILY),
    refusal("connect-timeout", Takes::Value, "connecting has no time-out of its own here"),
    refusal(
        "stats-success-breakdown",
        Takes::Nothing,
        "all figures are of right answers here: --raw-log of jissoku load has every request",
    ),
    refusal("db-url", Takes::Value, "there is no database: --raw-log of jissoku load is a file"),
    refusal("fps", Takes::Value, "there is no screen that is drawn: one line tells the progress"),
    refusal("debug", Takes::Nothing, "nothing is dumped here: ask with curl -v"),
    refusal(
        "more",
        Takes::Nothing,
        "all is told at once: --raw-log of jissoku load has every request",
    ),
];

/// Takes the options, and keeps the sentence that refuses the first of them.
#[derive(Debug)]
pub(super) struct Refusals(Option<String>);

impl Refusals {
    /// The sentence, if there is one.
    pub(super) fn check(&self) -> Result<(), String> {
        self.0.clone().map_or(Ok(()), Err)
    }
}

impl clap::Args for Refusals {
    fn augment_args(command: Command) -> Command {
        REFUSALS.iter().fold(command, |command, it| {
            let action = match it.takes {
                Takes::Nothing => ArgAction::SetTrue,
                Takes::Value => ArgAction::Append,
            };
            let arg = Arg::new(it.name).long(it.name).hide(true).action(action);
            let arg = if it.takes == Takes::Value { arg.allow_hyphen_values(true) } else { arg };
            command.arg(match it.short {
                Some(short) => arg.short(short),
                None => arg,
            })
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Refusals {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let given = |it: &&Refusal| matches.value_source(it.name) == Some(ValueSource::CommandLine);
        let sentence = |Refusal { name, short, why, .. }: &Refusal| {
            let option = short.map_or_else(|| format!("--{name}"), |short| format!("-{short}"));
            format!("{option}: {why}")
        };
        Ok(Self(REFUSALS.iter().find(given).map(sentence)))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// For options of which one value is what is done anyway.
pub(super) fn only(
    wanted: &'static str,
    why: &'static str,
) -> impl Fn(&str) -> Result<String, String> + Clone {
    move |text| if text == wanted { Ok(text.to_owned()) } else { Err(why.to_owned()) }
}
