//! `--from "wrk -t4 -c100 -d30s URL"`: the command line of another load generator, as one of
//! `jissoku load`. `tools.rs` has the options of each.

mod tool;
mod tools;

use std::fs;
use std::io::{self, Write as _};

use crate::units;
use tool::{Default, Meaning, Style, Tool};
use tools::TOOLS;

/// Stand for options of other tools that are the default here; they only exclude other defaults.
const MARKERS: [&str; 1] = ["--keepalive"];

/// Replaces `--from LINE` in the words of `jissoku load`, and says on stderr what it stands for.
///
/// # Errors
/// A message that names the option without a counterpart.
pub(crate) fn expand(words: Vec<String>) -> Result<Vec<String>, String> {
    let is_option = |word: &String| word == "--from" || word.starts_with("--from=");
    if words.get(1).is_none_or(|verb| verb != "load") {
        return Ok(words);
    }
    let Some(at) = words.iter().position(is_option) else { return Ok(words) };
    let (line, end) = match (words[at].split_once('='), words.get(at + 1)) {
        (Some((_, line)), _) => (line, at + 1),
        (None, Some(line)) => (line.as_str(), at + 2),
        (None, None) => return Ok(words),
    };
    let (translated, tool) = translate(line)?;
    let all = [&words[..at], &translated, &words[end..]].concat();
    let shown: Vec<String> = all[1..].iter().map(|word| quoted(word)).collect();
    let mut text = format!("jissoku {}\n", shown.join(" "));
    for differs in tool.differs {
        text.extend(["  unlike ", tool.names[0], ": ", differs, "\n"]);
    }
    // The error is ignored: stderr may be closed.
    let _written = io::stderr().write_all(text.as_bytes());
    Ok(all)
}

/// The words for `jissoku load`, and the tool.
fn translate(line: &str) -> Result<(Vec<String>, &'static Tool), String> {
    let words = split(line)?;
    let (program, mut rest) = words.split_first().ok_or("--from: the command line is empty")?;
    let name = program.rsplit('/').next().unwrap_or_default();
    let tool = TOOLS.iter().find(|tool| tool.names.contains(&name)).ok_or_else(|| {
        let names: Vec<&str> = TOOLS.iter().flat_map(|tool| tool.names).copied().collect();
        format!("--from {name}: unknown; known are {}", names.join(", "))
    })?;
    if name == "k6" {
        rest = rest.strip_prefix(&["run".to_owned()]).ok_or("--from k6: write k6 run ...")?;
    }
    let mut parser = Parser { name, tool, options: Vec::new(), operands: Vec::new() };
    parser.read(rest)?;
    Ok((parser.finish()?, tool))
}

/// Collects options of `jissoku load` with their values.
struct Parser<'a> {
    name: &'a str,
    tool: &'static Tool,
    options: Vec<(String, Option<String>)>,
    operands: Vec<String>,
}

impl Parser<'_> {
    fn read(&mut self, words: &[String]) -> Result<(), String> {
        let mut words = words.iter().map(String::as_str);
        while let Some(word) = words.next() {
            let is_long = word.starts_with("--") || self.tool.style == Style::Go;
            if word == "--" {
                self.operands.extend(words.by_ref().map(str::to_owned));
            } else if !word.starts_with('-') || word == "-" {
                self.operands.push(word.to_owned());
            } else if is_long {
                let (option, value) = match word.split_once('=') {
                    Some((option, value)) => (option, Some(value)),
                    None => (word, None),
                };
                let option = if self.tool.style == Style::Go && option.starts_with("--") {
                    &option[1..]
                } else {
                    option
                };
                self.add(option, |_| value, &mut words)?;
            } else {
                self.read_cluster(word, &mut words)?;
            }
        }
        Ok(())
    }

    /// Reads `-kc5`.
    fn read_cluster<'w>(
        &mut self,
        word: &'w str,
        words: &mut impl Iterator<Item = &'w str>,
    ) -> Result<(), String> {
        for (at, letter) in word.char_indices().skip(1) {
            let rest = &word[at + letter.len_utf8()..];
            let attached =
                |takes_value: bool| Some(rest).filter(|rest| takes_value && !rest.is_empty());
            if self.add(&format!("-{letter}"), attached, words)? {
                break;
            }
        }
        Ok(())
    }

    /// Translates an option; returns whether it has a value.
    fn add<'w>(
        &mut self,
        option: &str,
        attached: impl Fn(bool) -> Option<&'w str>,
        words: &mut impl Iterator<Item = &'w str>,
    ) -> Result<bool, String> {
        let name = self.name;
        let mut rows = self.tool.options.iter();
        let row = rows.find(|(names, _)| names.split(' ').any(|known| known == option));
        let (_, meaning) = row.ok_or_else(|| format!("--from {name}: unknown option {option}"))?;
        let takes_value = !matches!(meaning, Meaning::Flag(_) | Meaning::Ignored | Meaning::No(_));
        let mut value = String::new();
        if takes_value {
            let found = attached(true).or_else(|| words.next());
            found
                .ok_or_else(|| format!("--from {name}: {option} requires a value"))?
                .clone_into(&mut value);
        }
        let bad = |why: &str| format!("--from {name}: {option}: {why}");
        match *meaning {
            Meaning::Copy(ours) => self.push(ours, Some(value)),
            Meaning::Count(ours) => {
                let count = units::count(&value).map_err(|why| bad(&why))?;
                self.push(ours, Some(count.to_string()));
            }
            Meaning::File(ours) => self.push(ours, Some(format!("@{value}"))),
            Meaning::Field(field) => self.push("-H", Some(format!("{field}: {value}"))),
            Meaning::Upload(method) => {
                self.push("-m", Some(method.to_owned()));
                self.push("-b", Some(format!("@{value}")));
            }
            Meaning::Flag(words) => self.push_words(words),
            Meaning::Value(values, why) => {
                let row = values.iter().find(|(known, _)| *known == value);
                self.push_words(row.ok_or_else(|| bad(why))?.1);
            }
            Meaning::Ignored | Meaning::IgnoredValue => {}
            Meaning::No(why) => return Err(bad(why)),
        }
        Ok(takes_value)
    }

    fn push(&mut self, option: &str, value: Option<String>) {
        self.options.push((option.to_owned(), value));
    }

    /// Adds options, each with its value behind it, or one without.
    fn push_words(&mut self, words: &[&str]) {
        for pair in words.chunks(2) {
            self.push(pair[0], pair.get(1).map(|&value| value.to_owned()));
        }
    }

    fn has(&self, option: &str) -> bool {
        self.options.iter().any(|(given, _)| given == option)
    }

    fn finish(mut self) -> Result<Vec<String>, String> {
        let Self { name, tool, .. } = self;
        let [operand] = self.operands.as_slice() else {
            let found = self.operands.len();
            return Err(format!("--from {name}: {found} URLs: give one"));
        };
        let mut operand = operand.clone();
        if name == "k6" {
            let script = fs::read_to_string(&operand)
                .map_err(|error| format!("--from k6: cannot read {operand}: {error}"))?;
            let pause;
            (operand, pause) =
                read_script(&script).map_err(|why| format!("--from k6: {operand}: {why}"))?;
            self.options
                .extend(pause.map(|pause| ("--think".to_owned(), Some(format!("{pause}s")))));
        }
        if tool.duration_wins && self.has("-d") {
            self.options.retain(|(option, _)| option != "-n");
        }
        for Default { option, value, unless } in tool.defaults {
            if !self.has(option) && !self.has(unless) {
                self.push(option, value.map(str::to_owned));
            }
        }
        if tool.trusts_all && operand.starts_with("https:") {
            self.push("--insecure", None);
        }
        // Its value is the operand.
        self.options.sort_by_key(|(option, _)| option == "--urls");
        self.options.retain(|(option, _)| !MARKERS.contains(&option.as_str()));
        let words = self.options.into_iter().flat_map(|(option, value)| [Some(option), value]);
        Ok(words.flatten().chain([operand]).collect())
    }
}

/// The URL of the only request in a script of k6, and the pause after it in seconds.
fn read_script(script: &str) -> Result<(String, Option<String>), &'static str> {
    let call = |name: &str| {
        let mut parts = script.split(name).skip(1);
        let arguments =
            parts.next().map(|rest| rest.split_once(')').map_or("", |found| found.0).trim());
        (arguments, parts.count())
    };
    let (Some(argument), 0) = call("http.") else {
        return Err("only a script with one request is supported, http.get('URL')");
    };
    let argument = argument.strip_prefix("get(").map(str::trim).unwrap_or_default();
    let quote = argument.chars().next().filter(|sign| "'\"`".contains(*sign));
    let url = quote.and_then(|quote| argument.strip_prefix(quote)?.strip_suffix(quote));
    let url = url.filter(|url| !url.contains(['$', '\'', '"', '`']));
    let url = url.ok_or("only http.get with one literal URL is supported")?;
    match call("sleep(") {
        (None, _) => Ok((url.to_owned(), None)),
        (Some(time), 0) if time.parse::<f64>().is_ok() => {
            Ok((url.to_owned(), Some(time.to_owned())))
        }
        _ => Err("only one sleep of a given number of seconds is supported"),
    }
}

/// Splits a command line as a shell does: quotes and backslashes, no expansion.
fn split(line: &str) -> Result<Vec<String>, String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut signs = line.chars();
    while let Some(sign) = signs.next() {
        match (quote, sign) {
            (Some(open), _) if sign == open => quote = None,
            (None | Some('"'), '\\') => {
                word.get_or_insert_default().extend(signs.next().filter(|next| *next != '\n'));
            }
            (None, '\'' | '"') => {
                quote = Some(sign);
                word.get_or_insert_default();
            }
            (None, _) if sign.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(sign),
        }
    }
    words.extend(word);
    if quote.is_some() {
        Err(format!("--from: a quote is not closed in {line}"))
    } else {
        Ok(words)
    }
}

/// A word as a shell reads it.
fn quoted(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_=+./:,@%".contains(&byte);
    if !word.is_empty() && word.bytes().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests;
