//! `--env-file`: environment variables of an application, in the common part of what tools for
//! `.env` files read. What they read differently is refused.

use std::path::Path;

use super::failure::Failure;
use super::inputs::Inputs;

/// Larger files are refused: they hold something else.
const SIZE_MAX: usize = 1 << 20;

/// The variables of a file, in its order.
pub(super) fn read(path: &Path, inputs: &Inputs) -> Result<Vec<(String, String)>, Failure> {
    let refuse = |why: &str| Failure::of_input(&format!("{}{why}", path.display()));
    let bytes = inputs.read(path).map_err(|error| {
        Failure::of_input(&format!("--env-file: cannot read {}: {error}", path.display()))
    })?;
    if bytes.len() > SIZE_MAX {
        return Err(refuse(": a file of variables has at most 1 MiB"));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + String::from_utf8_lossy(before).matches('\n').count();
        refuse(&format!(", line {line}: this is not UTF-8"))
    })?;
    parse(&text).map_err(|(line, why)| refuse(&format!(", line {line}: {why}")))
}

/// The variables of a text, or the number of the first line that is wrong, and why.
fn parse(text: &str) -> Result<Vec<(String, String)>, (usize, String)> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut variables: Vec<(String, String)> = Vec::new();
    let (mut rest, mut line) = (text, 1);
    while !rest.is_empty() {
        let (first, after) = rest.split_once('\n').unwrap_or((rest, ""));
        let trimmed = first.trim();
        if trimmed.is_empty() || trimmed.starts_with('#') {
            (rest, line) = (after, line + 1);
            continue;
        }
        let refuse = |why: String| (line, why);
        let (name, value_start) = name_of(first).map_err(refuse)?;
        let (value, after) = value_of(&rest[value_start..]).map_err(refuse)?;
        if value.contains('\0') {
            return Err(refuse(format!("the value of {name} has a NUL")));
        }
        if variables.iter().any(|(known, _)| known == name) {
            return Err(refuse(format!("{name} is set already")));
        }
        variables.push((name.to_owned(), value));
        line += rest[..rest.len() - after.len()].matches('\n').count();
        rest = after;
    }
    Ok(variables)
}

/// The name in a line, and where its value begins.
fn name_of(line: &str) -> Result<(&str, usize), String> {
    let form = "write NAME=VALUE, with a name of ASCII letters, digits and _";
    let (before, value) = line.split_once('=').ok_or(form)?;
    let name = before.trim();
    let name = match name.strip_prefix("export") {
        Some(rest) if rest.starts_with([' ', '\t']) => rest.trim_start(),
        _ => name,
    };
    let is_start = |first: char| first.is_ascii_alphabetic() || first == '_';
    if !name.starts_with(is_start) || !name.chars().all(|c| is_start(c) || c.is_ascii_digit()) {
        return Err(form.to_owned());
    }
    let blank = value.len() - value.trim_start_matches([' ', '\t']).len();
    Ok((name, line.len() - value.len() + blank))
}

/// The value that `text` begins with, and the lines after it.
fn value_of(text: &str) -> Result<(String, &str), String> {
    let (value, rest) = match text.chars().next() {
        Some('\'') => {
            let (value, rest) = text[1..].split_once('\'').ok_or("the quote has no end")?;
            (value.to_owned(), rest)
        }
        Some('"') => quoted(&text[1..])?,
        _ => return unquoted(text),
    };
    let (end, after) = rest.split_once('\n').unwrap_or((rest, ""));
    let end = end.trim();
    if !end.is_empty() && !end.starts_with('#') {
        return Err(format!("{end:?} follows the quoted value"));
    }
    Ok((value, after))
}

/// The value before a double quote, without its escapes, and what follows the quote.
fn quoted(text: &str) -> Result<(String, &str), String> {
    let mut value = String::new();
    let mut signs = text.char_indices();
    while let Some((at, sign)) = signs.next() {
        match sign {
            '"' => return Ok((value, &text[at + 1..])),
            '\\' => value.push(match signs.next().map(|(_, sign)| sign) {
                Some('n') => '\n',
                Some('r') => '\r',
                Some('t') => '\t',
                Some(sign @ ('\\' | '"' | '$')) => sign,
                Some(other) => {
                    return Err(format!("\\{other} has no meaning: write \\\\{other}, or '...'"));
                }
                None => break,
            }),
            '$' if text[at..].starts_with("${") => return Err(EXPANSION.to_owned()),
            sign => value.push(sign),
        }
    }
    Err("the quote has no end".to_owned())
}

/// The value up to the end of the line, or to a comment, and the lines after it.
fn unquoted(text: &str) -> Result<(String, &str), String> {
    let (line, after) = text.split_once('\n').unwrap_or((text, ""));
    let is_comment = |at: usize| at == 0 || line[..at].ends_with([' ', '\t']);
    let end = line.match_indices('#').map(|(at, _)| at).find(|&at| is_comment(at));
    let value = line[..end.unwrap_or(line.len())].trim();
    if value.contains("${") {
        return Err(EXPANSION.to_owned());
    }
    Ok((value.to_owned(), after))
}

const EXPANSION: &str =
    "variables in values are not expanded: write its value, or '...' if ${ is meant";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_plain_or_quoted() {
        let text = "\u{feff}# a comment\r\n\nA=1\r\n export B = two words  # said\nC=\nD='a \"b\" ${x} \\n' \n\
                    E=\"a\\n\\\"b\\\" \\$ \\\\ 'c'\"# end\n_F1=a#b'c\"d\nG='-----BEGIN\nx\n-----END' # key\n\
                    H=\"one\ntwo\"\nI=a=b$c\nexport=x\nJ=\u{e9}\nK=#";
        let expected = [
            ("A", "1"),
            ("B", "two words"),
            ("C", ""),
            ("D", "a \"b\" ${x} \\n"),
            ("E", "a\n\"b\" $ \\ 'c'"),
            ("_F1", "a#b'c\"d"),
            ("G", "-----BEGIN\nx\n-----END"),
            ("H", "one\ntwo"),
            ("I", "a=b$c"),
            ("export", "x"),
            ("J", "\u{e9}"),
            ("K", ""),
        ];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(parse(text), Ok(expected.to_vec()));
    }

    #[test]
    fn an_odd_line_is_refused_with_its_number() {
        for (text, line, why) in [
            ("A=1\nB\n", 2, "write NAME=VALUE"),
            ("=x", 1, "write NAME=VALUE"),
            ("1A=x", 1, "write NAME=VALUE"),
            ("A-B=x", 1, "write NAME=VALUE"),
            ("A B=x", 1, "write NAME=VALUE"),
            ("export  A B=x", 1, "write NAME=VALUE"),
            ("\u{e9}=x", 1, "write NAME=VALUE"),
            ("A\0=x", 1, "write NAME=VALUE"),
            ("set A=x", 1, "write NAME=VALUE"),
            ("A=x\0y", 1, "NUL"),
            ("A='x\ny\n\n", 1, "no end"),
            ("\nA=\"x", 2, "no end"),
            ("A=\"x\\", 1, "no end"),
            ("A=\"x\\d\"", 1, "\\d has no meaning"),
            ("A='a\nb'\n\nB='x'y", 4, "follows the quoted value"),
            ("A=${HOME}/x", 1, "not expanded"),
            ("A=\"${HOME}\"", 1, "not expanded"),
            ("A=1\n# x\nA=2", 3, "A is set already"),
        ] {
            let (seen, message) = parse(text).expect_err(text);
            assert!(seen == line && message.contains(why), "{text:?}: {seen}, {message}");
        }
    }

    #[test]
    fn a_file_that_is_no_text_is_refused_with_its_line() {
        let path = std::env::temp_dir().join(format!("jissoku-env-{}", std::process::id()));
        let refusal = |bytes: &[u8]| {
            std::fs::write(&path, bytes).expect("a file");
            read(&path, &Inputs::default()).expect_err("it is no text").to_string()
        };
        assert!(refusal(b"A=1\nB=\xff").ends_with(", line 2: this is not UTF-8"));
        assert!(refusal(&vec![b'#'; SIZE_MAX + 1]).contains("at most 1 MiB"));
        std::fs::remove_file(&path).expect("it can be removed");
        let gone = read(&path, &Inputs::default()).expect_err("it is gone").to_string();
        assert!(gone.starts_with("--env-file: cannot read"), "{gone}");
    }
}
