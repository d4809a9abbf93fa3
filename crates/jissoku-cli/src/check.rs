//! `jissoku check`: whether a configuration file is valid, and which of its routes takes a request.

use std::io::{self, Write as _};
use std::path::PathBuf;

use crate::serve::Serve;

/// Check a configuration file of serve, and explain which route takes a request
///
/// Reads what the file names, such as directories and certificates, opens no listener and imports no
/// application. Exit code 1: no route takes the request. Exit code 2: the file has errors; each is a
/// sentence with its line.
#[derive(Debug, clap::Args)]
pub(crate) struct Check {
    /// The file, as for jissoku serve --config
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// An URL, or a path for a request without a host
    #[arg(value_name = "URL")]
    url: Option<String>,
    /// The method of the request
    #[arg(short, long, default_value = "GET", requires = "url")]
    method: String,
}

impl Check {
    pub(crate) fn run(&self) -> u8 {
        match self.check() {
            Ok((code, text)) => {
                // A closed stdout has no reader.
                let _written = io::stdout().write_all(text.as_bytes());
                code
            }
            Err(sentences) => {
                for sentence in sentences {
                    // There is nowhere to report that stderr is closed.
                    let _written = writeln!(io::stderr(), "jissoku check: {sentence}");
                }
                2
            }
        }
    }

    /// The exit code and the text for standard output, or all errors.
    fn check(&self) -> Result<(u8, String), Vec<String>> {
        let serve = Serve::checked(&self.file).map_err(|failure| failure.sentences())?;
        let file = self.file.display();
        let Some(url) = &self.url else {
            return Ok((0, format!("{file} is valid: {}\n", serve.content_name())));
        };
        if !url.starts_with('/') && !url.contains("://") {
            return Err(vec![format!("{url} is not an URL and not a path: write http://{url}")]);
        }
        let redirect = serve.redirect_of(url);
        let url = redirect.as_ref().map_or(url, |(_, other)| other);
        let (code, text) = match serve.explain(&self.method, url) {
            Some(explanation) => (u8::from(!explanation.is_taken), explanation.text),
            None => (0, format!("{file} has no routes: {} serves it\n", serve.content_name())),
        };
        Ok(match &redirect {
            Some((listener, other)) => (
                code,
                format!("308: the listener {listener} redirects it to {other}, there:\n{text}"),
            ),
            None => (code, text),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(name: &str, text: &str, url: Option<&str>) -> Result<(u8, String), Vec<String>> {
        let file = std::env::temp_dir().join(format!("{name}-{}.toml", std::process::id()));
        std::fs::write(&file, text).expect("a file");
        let url = url.map(str::to_owned);
        let check = Check { url, file: file.clone(), method: "GET".to_owned() };
        let result = check.check();
        std::fs::remove_file(file).expect("the file is ours");
        result
    }

    #[test]
    fn the_exit_code_says_whether_a_route_takes_the_request() {
        let text = "[[route]]\npath = '/a/{b}'\nfixed = 'x'\n";
        let taken = (0, "line 1, /a/{b}: a fixed response, b = c\n".to_owned());
        assert_eq!(checked("check-taken", text, Some("http://host/a/c?d")), Ok(taken));
        let (code, said) = checked("check-none", text, Some("/a")).expect("the file is valid");
        assert_eq!((code, said.starts_with("404")), (1, true));
    }

    #[test]
    fn a_file_without_routes_says_what_serves_all() {
        let (code, said) = checked("check-plain", "fixed = 'x'\n", None).expect("it is valid");
        assert!(code == 0 && said.ends_with(" is valid: a fixed text\n"), "{said}");
        let (code, said) = checked("check-all", "fixed = 'x'\n", Some("/")).expect("it is valid");
        assert!(code == 0 && said.ends_with(" has no routes: a fixed text serves it\n"), "{said}");
    }

    #[test]
    fn an_url_has_a_scheme() {
        let wrong = checked("check-url", "fixed = 'x'\n", Some("shop.example/api"));
        let why = "shop.example/api is not an URL and not a path: write http://shop.example/api";
        assert_eq!(wrong, Err(vec![why.to_owned()]));
    }

    #[test]
    fn every_error_is_a_sentence_with_its_line() {
        let text = "driver = 'none'\nquiet = true\nwrokers = 1\nlisten = '127.0.0.1'\n\n[[route]]\npath = '/a'\nto = 'app'\n\n\
                    [[route]]\npath = 'b'\nfixed = 'x'\n\n\
                    [upstream.shop]\nservers = ['h:1']\nbalence = 'x'\nvia = 1\n";
        let wrong = checked("check-errors", text, None).expect_err("it is wrong");
        let lines = [1, 3, 4, 8, 11, 16, 17].map(|line| format!("line {line}: "));
        assert_eq!(wrong.len(), lines.len(), "{wrong:#?}");
        for (sentence, line) in wrong.iter().zip(lines) {
            assert!(sentence.contains("check-errors") && sentence.contains(&line), "{wrong:#?}");
        }
        assert!(wrong[1].ends_with("did you mean \"workers\"?"), "{wrong:#?}");
    }

    #[test]
    fn what_the_file_names_is_opened() {
        for (name, text, expected) in [
            ("check-folder", "folder = '/nowhere/at/all'\n", "/nowhere/at/all"),
            ("check-tls", "fixed = 'x'\ntls-cert = '/no/cert'\ntls-key = '/no/key'\n", "/no/"),
            ("check-route", "[[route]]\npath = '/a/**'\nfolder = '/no/folder'\n", "/no/folder"),
            ("check-user", "fixed = 'x'\nuser = 'no-such-user'\n", "no-such-user"),
            ("check-not-toml", "fixed = \n", "line 1: "),
            ("check-empty", "workers = 1\n", "nothing to serve"),
            ("check-lab", "workers = 1\ncontract = true\n", "line 2: contract is for the lab"),
        ] {
            let wrong = checked(name, text, None).expect_err("it is wrong");
            assert!(wrong.len() == 1 && wrong[0].contains(expected), "{wrong:#?}");
        }
    }
}
