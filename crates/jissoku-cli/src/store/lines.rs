//! What `jissoku store` prints and reads: entries as lines, of `scan --values` and for `import`, and
//! errors.

use std::io::{BufRead, Read as _};

use jissoku_store::{Change, Error, KEY_SIZE_MAX, Store, Ttl, VALUE_SIZE_MAX};

use crate::usage::Failure;

/// Lines of one transaction, for which other writers wait.
const COUNT: usize = 1000;

/// Bytes of such lines, but for the last one.
const SIZE: usize = 1 << 20;

/// Bytes of a line at most: each byte may be escaped, as `\x00`.
const LINE_SIZE_MAX: usize = 4 * (KEY_SIZE_MAX + VALUE_SIZE_MAX) + 2;

/// What a person reads of an error of a store, and the exit code.
#[expect(clippy::needless_pass_by_value, reason = "as map_err calls it")]
pub(super) fn failure(error: Error) -> Failure {
    Failure::new(error.to_string(), if error.is_bad_input() { 2 } else { 1 })
}

/// A key or a value in one line: text as it is, other bytes escaped.
pub(super) fn printable(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.chars().any(|sign| sign.is_control() || sign == '\\') => text.to_owned(),
        _ => bytes.escape_ascii().to_string(),
    }
}

/// What [`printable`] was made of; `None` if it does not write such a backslash.
fn unescaped(text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.iter().copied();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        bytes.push(match rest.next()? {
            b't' => b'\t',
            b'n' => b'\n',
            b'r' => b'\r',
            b'x' => hexadecimal(rest.next()?)? << 4 | hexadecimal(rest.next()?)?,
            byte @ (b'\\' | b'\'' | b'"') => byte,
            _ => return None,
        });
    }
    Some(bytes)
}

fn hexadecimal(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

/// The key and the value of a line.
fn entry_of(line: &[u8]) -> Result<(Vec<u8>, Vec<u8>), &'static str> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let tab = line.iter().position(|&byte| byte == b'\t').ok_or("it has no tab behind the key")?;
    let (key, value) = (unescaped(&line[..tab]), unescaped(&line[tab + 1..]));
    key.zip(value).ok_or(r"a backslash in it begins none of \\ \t \n \r \' and \x00 to \xff")
}

/// Writes the entries of all lines, many in one transaction.
pub(super) fn import(mut input: impl BufRead, store: &Store, ttl: Ttl) -> Result<(), Failure> {
    let mut written = 0;
    let (mut entries, mut size) = (Vec::new(), 0);
    loop {
        let mut line = Vec::new();
        let mut limited = input.by_ref().take(LINE_SIZE_MAX as u64);
        let read = limited.read_until(b'\n', &mut line);
        let read = read.map_err(|error| Failure::new(format!("cannot read: {error}"), 1))?;
        if read > 0 {
            let number = written + entries.len();
            entries.push(entry_of(&line).map_err(|why| at_line((number, written), why, 2))?);
        }
        size += read;
        if read == 0 || entries.len() == COUNT || size >= SIZE {
            put(store, &entries, written, ttl)?;
            written += entries.len();
            (entries, size) = (Vec::new(), 0);
        }
        if read == 0 {
            return Ok(());
        }
    }
}

fn put(
    store: &Store,
    entries: &[(Vec<u8>, Vec<u8>)],
    written: usize,
    ttl: Ttl,
) -> Result<(), Failure> {
    let changes = entries.iter().map(|(key, value)| (&key[..], Some(&value[..])));
    let done = store.put_many(&changes.collect::<Vec<Change<'_>>>(), ttl);
    done.map_err(|error| match error {
        Error::Entry { index, error } => {
            let Failure { message, code } = failure(*error);
            at_line((written + index, written), &message, code)
        }
        error => failure(error),
    })
}

/// A failure of the line with this index, and how many lines are written.
fn at_line((index, written): (usize, usize), why: &str, code: u8) -> Failure {
    let before = match written {
        0 => "nothing is written".to_owned(),
        count => format!("{count} lines are written"),
    };
    Failure::new(format!("line {}: {why}; {before}", index + 1), code)
}

#[cfg(test)]
mod tests {
    use jissoku_store::Options;

    use super::*;

    #[test]
    fn what_is_no_text_is_escaped() {
        assert_eq!(printable("größe".as_bytes()), "größe");
        assert_eq!(printable(b"a\tb\\"), "a\\tb\\\\");
        assert_eq!(printable(&[0, 255]), "\\x00\\xff");
    }

    #[test]
    fn what_is_printed_can_be_read() {
        for pair in 0..=u16::MAX {
            let bytes = pair.to_be_bytes();
            let text = format!("{}\t{}\n", printable(&bytes), printable("größe\\".as_bytes()));
            let expected = (bytes.to_vec(), "größe\\".into());
            assert_eq!(entry_of(text.as_bytes()), Ok(expected), "{text}");
        }
        for wrong in ["\\", "\\x", "\\x0", "\\x0g", "\\a"] {
            assert_eq!(unescaped(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn lines_are_written_up_to_the_first_transaction_that_fails() {
        let name = format!("jissoku-cli-import-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let store = Store::open(&folder, "shop", Some(&Options::DEFAULT)).expect("it opens");
        let import = |text: &str| import(text.as_bytes(), &store, Ttl::Default);
        let entries = || store.stats().expect("it is readable").entries;
        import("").expect("there is nothing to do");
        import("a\t1\nb\\n\t\\x00\tc").expect("the lines are in order");
        assert_eq!(store.get(b"b\n").expect("it is readable"), Some(b"\0\tc".to_vec()));
        for (text, why) in [
            ("c\t1\nd\n", "line 2: it has no tab behind the key; nothing is written"),
            ("c\t1\n\n", "line 2: it has no tab behind the key; nothing is written"),
            ("c\t\\y\n", "line 1: a backslash in it begins none of"),
            ("c\t1\n\t1\n", "line 2: a key has 1 to 500 bytes, and this one 0; nothing is written"),
        ] {
            let failure = import(text).expect_err("a line is wrong");
            assert!(failure.message.starts_with(why) && failure.code == 2, "{}", failure.message);
            assert_eq!(entries(), 2);
        }
        let lines: Vec<_> = (0..2500).map(|number| format!("{number}\tv\n")).collect();
        let failure = import(&(lines.concat() + "\t\n")).expect_err("a key is empty");
        assert!(failure.message.starts_with("line 2501: "), "{}", failure.message);
        assert!(failure.message.ends_with("; 2000 lines are written"), "{}", failure.message);
        assert_eq!(entries(), 2002);
        drop(store);
        std::fs::remove_dir_all(folder).expect("it is ours");
    }
}
