//! `jissoku routes`: which route of a configuration file takes a request.

use std::io::{self, Write as _};
use std::path::PathBuf;

use jissoku_proxy::policy::configuration::Configuration;

/// Explain which route of a configuration file takes a request
///
/// Checks the tables [upstream.NAME] and [[route]] of the file. Exit code 1: no route takes the
/// request. Exit code 2: the file has an error.
#[derive(Debug, clap::Args)]
pub(crate) struct Routes {
    /// An URL, or a path for a request without a host
    #[arg(value_name = "URL")]
    url: String,
    /// The file with the routes
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// The method of the request
    #[arg(short, long, default_value = "GET")]
    method: String,
}

impl Routes {
    pub(crate) fn run(&self) -> u8 {
        match self.explain() {
            Ok((code, text)) => {
                // A closed stdout has no reader.
                let _written = io::stdout().write_all(text.as_bytes());
                code
            }
            Err(message) => {
                // There is nowhere to report that stderr is closed.
                let _written = writeln!(io::stderr(), "jissoku routes: {message}");
                2
            }
        }
    }

    fn explain(&self) -> Result<(u8, String), String> {
        let file = self.config.display();
        let text = std::fs::read_to_string(&self.config)
            .map_err(|error| format!("cannot read {file}: {error}"))?;
        let configuration =
            Configuration::parse(&text).map_err(|problem| format!("{file}, {problem}"))?;
        let explanation = configuration.explain(&self.method, &self.url);
        Ok((u8::from(!explanation.is_taken), explanation.text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explained(name: &str, text: &str, url: &str) -> Result<(u8, String), String> {
        let config = std::env::temp_dir().join(format!("{name}-{}.toml", std::process::id()));
        std::fs::write(&config, text).expect("a file");
        let routes =
            Routes { url: url.to_owned(), config: config.clone(), method: "GET".to_owned() };
        let result = routes.explain();
        std::fs::remove_file(config).expect("the file is ours");
        result
    }

    #[test]
    fn the_exit_code_says_whether_a_route_takes_the_request() {
        let text = "[[route]]\npath = '/a/{b}'\nfixed = 'x'\n";
        let taken = (0, "line 1, /a/{b}: a fixed response, b = c\n".to_owned());
        assert_eq!(explained("routes-taken", text, "http://host/a/c?d"), Ok(taken));
        let (code, said) = explained("routes-none", text, "/a").expect("the file is valid");
        assert_eq!((code, said.starts_with("404")), (1, true));
    }

    #[test]
    fn an_error_names_the_file_and_the_line() {
        let text = "\n[[route]]\npath = '/a'\nto = 'app'\n";
        let error = explained("routes-error", text, "/a").expect_err("there is no upstream");
        assert!(error.contains("routes-error") && error.contains(", line 4: "), "{error}");
    }
}
