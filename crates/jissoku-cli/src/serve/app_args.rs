//! Flags for Python applications.

use std::path::{Path, PathBuf};

use clap::Args;
use jissoku_os::socket::Endpoint;
use jissoku_server::AnyService;

use super::failure::Failure;

/// The application to import, and the attributes of its server.
#[derive(Clone, Debug)]
pub struct AppRequest {
    /// The module, as in an import statement.
    pub module: String,
    /// The attribute of the module, possibly with dots.
    pub attribute: String,
    /// The directory to import from, before those of the Python path.
    pub directory: PathBuf,
    /// Whether the attribute is a function that returns the application.
    pub is_factory: bool,
    /// The addresses of the listeners.
    pub listeners: Vec<Endpoint>,
    /// Whether those on TCP speak TLS.
    pub is_secure: bool,
    /// Whether other processes serve the application, too.
    pub is_multiprocess: bool,
}

/// Why there is no application.
#[derive(Clone, Debug)]
pub enum AppError {
    /// It was named wrongly.
    Name(String),
    /// Its code has failed; the traceback is printed already.
    Code(String),
}

/// Imports an application. A program without Python has none.
pub type LoadApp = fn(&AppRequest) -> Result<AnyService, AppError>;

/// Flags for an application.
#[derive(Debug, Args)]
pub(super) struct AppArgs {
    /// Directory to import MODULE from, before those of the Python path
    #[arg(long, value_name = "DIR", default_value = ".")]
    app_dir: PathBuf,
    /// Call APP without arguments, and serve the application that it returns
    #[arg(long)]
    factory: bool,
}

impl AppArgs {
    /// Loads the application that the positional argument names.
    pub(super) fn service(
        &self,
        (module, attribute): (&str, &str),
        load: Option<LoadApp>,
        server: (Vec<Endpoint>, bool, bool),
    ) -> Result<AnyService, Failure> {
        let Some(load) = load else {
            return Err(Failure::of_input("this program has no Python: use the jissoku package"));
        };
        let (listeners, is_secure, is_multiprocess) = server;
        let request = AppRequest {
            module: module.to_owned(),
            attribute: attribute.to_owned(),
            directory: self.app_dir.clone(),
            is_factory: self.factory,
            listeners,
            is_secure,
            is_multiprocess,
        };
        load(&request).map_err(|error| match error {
            AppError::Name(sentence) => Failure::of_input(&sentence),
            AppError::Code(sentence) => Failure::of_work(&sentence),
        })
    }
}

/// The module and the attribute, if the positional argument is `MODULE:APP` rather than a
/// directory. A directory of such a name is written `./MODULE:APP`.
pub(super) fn parse(argument: Option<&Path>) -> Option<(&str, &str)> {
    let (module, attribute) = argument?.to_str()?.split_once(':')?;
    let is_name = |name: &str| {
        let is_start = |first: char| first.is_alphabetic() || first == '_';
        name.starts_with(is_start) && name.chars().all(|c| c.is_alphanumeric() || c == '_')
    };
    let is_dotted = |path: &str| path.split('.').all(is_name);
    (is_dotted(module) && is_dotted(attribute)).then_some((module, attribute))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn applications_are_distinguished_from_directories() {
        for app in ["app:app", "mysite.wsgi:application", "a_1.b:C.d", "modul\u{e9}:x"] {
            let (module, attribute) = app.split_once(':').expect("there is a colon");
            assert_eq!(parse(Some(Path::new(app))), Some((module, attribute)), "{app}");
        }
        for directory in
            ["./app:app", "app", "a:", ":a", "a:b:c", "a/b:c", "1:2", "a..b:c", "c:\\x"]
        {
            assert_eq!(parse(Some(Path::new(directory))), None, "{directory}");
        }
        assert_eq!(parse(None), None);
    }
}
