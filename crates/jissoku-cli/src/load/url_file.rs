//! `--urls FILE`: requests from a file, one per line: `URL`, `METHOD URL`, `METHOD URL BODY` or
//! `METHOD URL @FILE`. Empty lines and those that begin with # are skipped.

use std::fs;

use jissoku_load::Address;

/// The requests of a file, in order.
#[derive(Clone, Debug)]
pub(super) struct UrlFile(pub(super) Vec<UrlLine>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UrlLine {
    /// `None`: that of -m, with the body of -b.
    pub(super) method: Option<String>,
    pub(super) address: Address,
    pub(super) body: Vec<u8>,
}

pub(super) fn read(path: &str) -> Result<UrlFile, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("cannot read {path}: {error}"))?;
    parse(&text).map_err(|(number, why)| format!("{path}: line {number}: {why}"))
}

/// Parses a file; an error comes with the number of its line.
fn parse(text: &str) -> Result<UrlFile, (usize, String)> {
    let lines = (1..).zip(text.lines().map(str::trim));
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let lines = lines.map(|(number, line)| parse_line(line).map_err(|why| (number, why)));
    let lines: Vec<UrlLine> = lines.collect::<Result<_, _>>()?;
    if lines.is_empty() { Err((1, "there is no URL".to_owned())) } else { Ok(UrlFile(lines)) }
}

fn parse_line(line: &str) -> Result<UrlLine, String> {
    let (first, rest) = word(line);
    if is_method(first) && !rest.is_empty() {
        let (url, body) = word(rest);
        let body = super::text_or_file(body)?;
        return Ok(UrlLine { method: Some(first.to_owned()), address: address(url)?, body });
    }
    if !rest.is_empty() {
        let hint =
            if first.ends_with(':') { "; -H adds a header field to each request" } else { "" };
        return Err(format!(
            "write URL or METHOD URL [BODY|@FILE], each in a line of its own{hint}"
        ));
    }
    Ok(UrlLine { method: None, address: address(first)?, body: Vec::new() })
}

fn address(url: &str) -> Result<Address, String> {
    url.parse().map_err(|bad: jissoku_load::Invalid| bad.to_string())
}

/// The first word and the rest.
fn word(text: &str) -> (&str, &str) {
    let (first, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    (first, rest.trim_start())
}

fn is_method(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-')
}

impl UrlFile {
    /// The servers, each with its root as the URL, in the order in which they appear.
    pub(super) fn servers(&self) -> Vec<Address> {
        let mut servers = Vec::new();
        for server in self.0.iter().map(|line| line.address.root()) {
            if !servers.contains(&server) {
                servers.push(server);
            }
        }
        servers
    }

    /// The requests to one of these.
    pub(super) fn lines_of(&self, server: &Address) -> impl Iterator<Item = &UrlLine> {
        self.0.iter().filter(move |line| line.address.root() == *server)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_url_with_method_and_body() {
        let text = "# comment\n\n http://a/x \r\nPOST http://b:81/y a=b c\nM-SEARCH\thttp://a/z?q\nDELETE unix:/s:/u\n";
        let UrlFile(lines) = parse(text).expect("it is fine");
        let found: Vec<(Option<&str>, String, &[u8])> = lines
            .iter()
            .map(|line| (line.method.as_deref(), line.address.to_string(), &*line.body))
            .collect();
        let line = |method, url: &str, body: &'static [u8]| (method, url.to_owned(), body);
        assert_eq!(
            found,
            [
                line(None, "http://a/x", b""),
                line(Some("POST"), "http://b:81/y", b"a=b c"),
                line(Some("M-SEARCH"), "http://a/z?q", b""),
                line(Some("DELETE"), "unix:/s:/u", b""),
            ]
        );
    }

    #[test]
    fn requests_are_divided_among_servers() {
        let file = parse("http://a/1\nhttps://a/2\nhttp://a?3\nhttp://b/4\nunix:/s:/5\nhttp://a/6")
            .expect("fine");
        let names: Vec<String> = file.servers().iter().map(Address::to_string).collect();
        assert_eq!(names, ["http://a/", "https://a/", "http://b/", "unix:/s:/"]);
        let targets: Vec<&str> =
            file.lines_of(&file.servers()[0]).map(|line| line.address.request_target()).collect();
        assert_eq!(targets, ["/1", "/?3", "/6"]);
    }

    #[test]
    fn an_error_names_its_line() {
        for (text, number, why) in [
            ("", 1, "no URL"),
            ("# nothing\n", 1, "no URL"),
            ("http://a/\nftp://b/", 2, "ftp://b/"),
            ("http://a/ POST", 1, "METHOD URL"),
            ("GET", 1, "GET"),
            ("GET http://a/\n\nAccept: x", 3, "-H"),
            ("POST http://a/ @/nowhere/at/all", 1, "/nowhere/at/all"),
        ] {
            let (line, refusal) = parse(text).expect_err(text);
            assert!(line == number && refusal.contains(why), "{text:?}: {line}: {refusal}");
        }
    }
}
