//! `jissoku routes`: which route of a configuration file takes a request.

use std::io::{self, Write as _};
use std::path::PathBuf;

use jissoku_upstream::configuration::Configuration;

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
