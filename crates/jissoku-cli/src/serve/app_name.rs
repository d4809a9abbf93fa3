//! The name of a Python application.

use std::fmt;
use std::path::Path;

const USUAL_NAMES: [&str; 3] = ["application", "app", "api"];

/// Calls that make an application.
const USUAL_CLASSES: [&str; 8] = [
    "Flask(",
    "FastAPI(",
    "Starlette(",
    "Quart(",
    "Litestar(",
    "Bottle(",
    "get_wsgi_application(",
    "get_asgi_application(",
];

/// A module and what is served of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AppName {
    /// As in an import statement.
    pub(super) module: String,
    /// An attribute, possibly with dots.
    pub(super) attribute: String,
    /// The arguments of a call of the attribute, as Python source, if it is to be called.
    pub(super) arguments: Option<String>,
}

impl AppName {
    /// Parses the positional argument, `MODULE:APP` or `MODULE:FACTORY(ARGUMENTS)`, unless it is a
    /// directory. A directory that is written like an application is `./NAME:NAME`.
    pub(super) fn parse(argument: Option<&Path>) -> Option<Self> {
        let (module, rest) = argument?.to_str()?.split_once(':')?;
        let (attribute, arguments) = match rest.split_once('(') {
            Some((attribute, call)) => (attribute, Some(call.trim_end().strip_suffix(')')?)),
            None => (rest, None),
        };
        (is_dotted(module) && is_dotted(attribute)).then(|| Self {
            module: module.to_owned(),
            attribute: attribute.to_owned(),
            arguments: arguments.map(str::to_owned),
        })
    }

    /// What to write instead of an argument that is not a directory, if it seems to name an
    /// application: a module without an attribute, as gunicorn serves it, or the path of a module.
    pub(super) fn suggestion(argument: &Path) -> Option<String> {
        let text = argument.to_str().filter(|_| !argument.is_dir())?;
        let (module, attribute) = match text.split_once(':') {
            Some((module, attribute)) => (module, attribute.to_owned()),
            None => (text, attribute_in(argument).unwrap_or_else(|| "application".to_owned())),
        };
        let is_path = text.contains(':') && module.contains('/');
        let Some(file) = module.strip_suffix(".py").or(is_path.then_some(module)) else {
            return is_dotted(module).then(|| format!("{module}:{attribute}"));
        };
        let file = file.strip_prefix("./").unwrap_or(file);
        let module = file.replace('/', ".");
        if is_dotted(&module) {
            return Some(format!("{module}:{attribute}"));
        }
        let (folder, module) = file.rsplit_once('/')?;
        is_dotted(module).then(|| format!("{module}:{attribute} --app-dir {folder}"))
    }
}

impl fmt::Display for AppName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.module, self.attribute)?;
        match &self.arguments {
            Some(arguments) => write!(formatter, "({arguments})"),
            None => Ok(()),
        }
    }
}

/// The attribute of a file of Python that seems to be its application, by the lines that are not
/// indented; the file is not imported. `APP` if there is none.
fn attribute_in(file: &Path) -> Option<String> {
    let text = std::fs::read_to_string(file).ok()?;
    let mut names = Vec::new();
    for line in text.lines() {
        let function = line.strip_prefix("async ").unwrap_or(line).strip_prefix("def ");
        let call = function.is_some() && line.trim_end().ends_with("():");
        let end = if function.is_some() { '(' } else { '=' };
        let Some((name, value)) = function.unwrap_or(line).split_once(end) else { continue };
        let name = name.split(':').next().unwrap_or_default().trim_end();
        if is_dotted(name) && !name.contains('.') && !value.starts_with('=') {
            let is_made = USUAL_CLASSES.iter().any(|class| value.contains(class));
            names.push((name, is_made, call));
        }
    }
    let usual = USUAL_NAMES.iter().find(|usual| names.iter().any(|(name, ..)| name == *usual));
    let made = names.iter().find(|(_, is_made, _)| *is_made).map(|(name, ..)| name);
    if let Some(name) = usual.or(made) {
        return Some((*name).to_owned());
    }
    let factory = names.iter().find(|(name, _, call)| *call && name.ends_with("_app"));
    Some(factory.map_or_else(|| "APP".to_owned(), |(name, ..)| format!("{name}()")))
}

/// Whether these are names of Python, separated by dots.
fn is_dotted(text: &str) -> bool {
    let is_name = |name: &str| {
        let is_start = |first: char| first.is_alphabetic() || first == '_';
        name.starts_with(is_start) && name.chars().all(|c| c.is_alphanumeric() || c == '_')
    };
    text.split('.').all(is_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<(&str, &str, Option<&str>)>) {
        let expected = expected.map(|(module, attribute, arguments)| AppName {
            module: module.to_owned(),
            attribute: attribute.to_owned(),
            arguments: arguments.map(str::to_owned),
        });
        assert_eq!(AppName::parse(Some(Path::new(text))), expected, "{text}");
        if let Some(name) = expected {
            assert_eq!(name.to_string(), text);
        }
    }

    #[test]
    fn applications_are_distinguished_from_directories() {
        for app in ["app:app", "mysite.wsgi:application", "a_1.b:C.d", "modul\u{e9}:x"] {
            let (module, attribute) = app.split_once(':').expect("there is a colon");
            check(app, Some((module, attribute, None)));
        }
        for directory in
            ["./app:app", "app", "a.b", "a:", ":a", "a:b:c", "a/b:c", "1:2", "a..b:c", "c:\\x"]
        {
            check(directory, None);
        }
        assert_eq!(AppName::parse(None), None);
    }

    #[test]
    fn a_factory_may_be_called_with_arguments() {
        check("app:create_app()", Some(("app", "create_app", Some(""))));
        let arguments = "'x:y', debug=True, n=(1, 2)";
        let name = format!("a.b:make.app({arguments})");
        check(&name, Some(("a.b", "make.app", Some(arguments))));
        check("app:create_app(", None);
        check("app:()", None);
    }

    #[test]
    fn modules_and_their_paths_are_suggested_as_names() {
        for (text, expected) in [
            ("mysite.wsgi", "mysite.wsgi:application"),
            ("app", "app:application"),
            ("mysite/wsgi.py", "mysite.wsgi:application"),
            ("./wsgi.py", "wsgi:application"),
            ("mysite/wsgi.py:app", "mysite.wsgi:app"),
            ("./app.py:create_app()", "app:create_app()"),
            ("/srv/site/wsgi.py:app", "wsgi:app --app-dir /srv/site"),
            ("../wsgi.py", "wsgi:application --app-dir .."),
        ] {
            assert_eq!(AppName::suggestion(Path::new(text)).as_deref(), Some(expected), "{text}");
        }
        let path = AppName::suggestion(Path::new("flaskapp/shop:app"));
        assert_eq!(path.as_deref(), Some("flaskapp.shop:app"));
        for text in ["./nowhere", "/nowhere/at/all", ".", "my-site", "a-b:c"] {
            assert_eq!(AppName::suggestion(Path::new(text)), None, "{text}");
        }
    }

    #[test]
    fn the_attribute_of_a_file_is_found_without_its_import() {
        let folder = std::env::temp_dir().join(format!("attributes-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        for (text, expected) in [
            ("app = Flask(__name__)\n", "app"),
            ("app: Any = make()\napplication = app\n", "application"),
            ("def app(environ, start_response):\n    x = Flask(1)\n", "app"),
            ("async def app(scope, receive, send):\n    pass\n", "app"),
            ("shop = FastAPI(debug=True)\n", "shop"),
            ("def create_app():\n    app = Flask(__name__)\n", "create_app()"),
            ("import os\nx == 1\na.app = 2\n", "APP"),
        ] {
            let file = folder.join("shop.py");
            std::fs::write(&file, text).expect("a file");
            assert_eq!(attribute_in(&file).as_deref(), Some(expected), "{text}");
        }
        std::fs::remove_dir_all(folder).expect("the folder is ours");
    }
}
