//! `jissoku serve`: serves a directory, a Python application, another server, a fixed text, the
//! benchmark contract or an echo until a signal.
//!
//! Each file defines a group of flags; this one combines them into settings and content.

mod app_args;
mod app_name;
mod config;
mod content_args;
mod edit_args;
mod elsewhere;
mod end_watch;
mod env_file;
mod failure;
mod files;
mod gateway_args;
mod handler_args;
mod handler_file;
mod help_groups;
mod init;
mod inputs;
mod instance;
mod limits;
mod listen;
mod main_thread;
mod process;
mod process_args;
mod route_table;
mod stores;
mod summary;
mod supervision_args;
mod systemd_env;
mod telemetry_args;
mod watch;
mod worker_args;

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use clap::parser::ValueSource;
use clap::{ArgGroup, Args, Command, FromArgMatches, Id};
use jissoku_os::socket::Endpoint;
use jissoku_proxy::RouteContent;
use jissoku_proxy::policy::configuration::Explanation;
use jissoku_server::{
    DynService, Limits, ListenerSharing, ProcessSettings, SecureListeners, Settings,
    TelemetryConfig,
};
use jissoku_store::Store;

use crate::help;
pub use app_args::{AppError, AppRequest, AsgiRequest, LoadApp, PreparationRequest};
use app_name::AppName;
pub use failure::verb;
use failure::{Failure, SUCCESS};
use handler_file::HandlerFile;
use inputs::Inputs;

/// The group of flags that choose the content.
const CONTENT_GROUP: &str = "what";

/// The verb with the flags that only the laboratory needs.
pub(crate) const LAB_VERB: &str = "lab serve";

/// Serve a directory, a Python application, another server or a fixed text
///
/// Its groups of flags are in the order of their headings in the help.
#[derive(Debug, Args)]
#[command(long_about = None, group(
    ArgGroup::new(CONTENT_GROUP).args(["folder", "fixed", "contract", "echo", "to", "redirect"]).multiple(true)
))]
pub(crate) struct Serve {
    #[command(flatten)]
    files: files::FileArgs,
    #[command(flatten)]
    content: content_args::ContentArgs,
    #[command(flatten)]
    gateway: gateway_args::GatewayArgs,
    #[command(flatten)]
    config: config::Config,
    #[command(flatten)]
    listen: listen::Listen,
    #[command(flatten)]
    workers: worker_args::WorkerArgs,
    #[command(flatten)]
    app: app_args::AppArgs,
    #[command(flatten)]
    handler: handler_args::HandlerArgs,
    #[command(flatten)]
    limits: limits::LimitArgs,
    #[command(flatten)]
    tls: listen::TlsArgs,
    #[command(flatten)]
    telemetry: telemetry_args::TelemetryArgs,
    #[command(flatten)]
    supervision: supervision_args::SupervisionArgs,
    #[command(flatten)]
    process: process_args::ProcessArgs,
    #[command(flatten)]
    stores: stores::StoreArgs,
    /// Whether the application is a Python object of this process, rather than to be imported.
    #[arg(skip)]
    app_is_given: bool,
    /// The routes of the configuration file, unless it has none or flags override them.
    #[arg(skip)]
    routes: Option<route_table::RouteTable>,
    /// The stores of the configuration file.
    #[arg(skip)]
    store_tables: stores::StoreTables,
    /// What was read of files that say how to serve.
    #[arg(skip)]
    inputs: Inputs,
    /// The configuration, if it is to be printed.
    #[arg(skip)]
    printed: Option<String>,
}

/// Serves until SIGTERM or SIGINT and prints the addresses to standard output. `arguments` begin
/// with the subcommand.
pub(crate) fn run(arguments: &[String], load: Option<&LoadApp>) -> u8 {
    failure::name_verb(arguments.first().map_or("serve", String::as_str));
    let outcome = if init::is_first() {
        init::run()
    } else {
        process::run(arguments, load).map(|()| SUCCESS)
    };
    outcome.unwrap_or_else(|failure| failure.print())
}

impl Serve {
    /// The flags, as their help shows them. `verb` is `serve` or [`LAB_VERB`].
    pub(crate) fn command(verb: &str) -> Command {
        let command = Self::augment_args(Command::new("serve").bin_name(format!("jissoku {verb}")));
        help::in_groups(command, &help_groups::GROUPS).mut_args(|arg| {
            let is_of_lab = content_args::LAB_IDS.split(' ').any(|id| arg.get_id().as_str() == id);
            arg.hide(is_of_lab && verb != LAB_VERB)
        })
    }

    /// Parses the arguments, at start-up and at every reload.
    fn read(arguments: &[String], load: Option<&LoadApp>) -> Result<Self, Failure> {
        Self::read_with(arguments, load, Inputs::default())
    }

    /// As [`Serve::read`], with files that were read before.
    fn read_with(
        arguments: &[String],
        load: Option<&LoadApp>,
        inputs: Inputs,
    ) -> Result<Self, Failure> {
        let verb = arguments.first().map_or("", |verb| verb);
        let command = Self::command(verb);
        let config::Merged { arguments, routes, stores, file } =
            config::merge(&command, arguments, &|name| std::env::var_os(name), &inputs)?;
        let matches = command.clone().try_get_matches_from(arguments).map_err(Failure::Usage)?;
        let is_given = |id: &&str| matches.value_source(id) == Some(ValueSource::CommandLine);
        if let Some(id) = content_args::LAB_IDS.split(' ').find(is_given)
            && verb != LAB_VERB
        {
            return Err(content_args::only_in_lab(&format!("--{}", id.replace('_', "-"))));
        }
        if routes.is_none() && matches.get_one::<Id>(CONTENT_GROUP).is_none() {
            return Err(Failure::of_input(
                "nothing to serve: name a directory, an application (MODULE:APP), --to URL, --fixed \
                 TEXT, or --config FILE with one of these; see jissoku serve --help",
            ));
        }
        let refusal = worker_args::refusal_of_times(&matches);
        if let Some(why) = refusal.or_else(|| listen::refusal_of_keys(&matches)) {
            return Err(Failure::of_input(&format!("--{why}")));
        }
        let app_is_given = load.is_some_and(LoadApp::is_given);
        let serve = Self::from_arg_matches(&matches).map_err(Failure::Usage)?;
        let printed = serve.config.print_config.then(|| {
            let tables = file.as_ref().map(|(path, text)| (&**path, &**text));
            let text = tables.map_or("", |(_, text)| text);
            let tables = tables.filter(|_| routes.is_some());
            config::print::text(&command, &matches, tables, (&stores, text))
        });
        Ok(Self { app_is_given, routes, store_tables: stores, inputs, printed, ..serve })
    }

    /// The server of a configuration file, if it could be started: what the file names can be read.
    pub(crate) fn checked(file: &Path) -> Result<Self, Failure> {
        let arguments = ["serve".to_owned(), format!("--config={}", file.display())];
        let serve = Self::read(&arguments, None)?;
        serve.settings(&[], &TelemetryConfig::default(), None)?;
        serve.process.find()?;
        let rules = &serve.files.response_field;
        if serve.runs_code() {
            serve.files.beside_app()?;
        }
        if serve.routes.is_some() {
            serve.route_content(&SecureListeners::default(), None)?;
        } else if !serve.runs_code()
            && serve.gateway.service(<_>::default(), 0, rules, &serve.inputs)?.is_none()
        {
            serve.content.service(serve.files.folder(), || serve.files.load(), 1)?;
        }
        Ok(serve)
    }

    /// The listener of a URL's port and the URL that it redirects to, if it does.
    pub(crate) fn redirect_of(&self, url: &str) -> Option<(String, String)> {
        self.listen.redirect_of(url, self.tls.is_given())
    }

    /// Explains which of the routes takes a request, if there are some.
    pub(crate) fn explain(&self, method: &str, url: &str) -> Option<Explanation> {
        self.routes.as_ref().map(|routes| routes.explain(method, url))
    }

    /// The settings of a worker pool; `given` are the addresses of inherited listeners, and
    /// `worker` is the index of this process if it is a worker.
    fn settings(
        &self,
        given: &[Endpoint],
        telemetry: &TelemetryConfig,
        worker: Option<usize>,
    ) -> Result<Settings, Failure> {
        self.content.check(self.files.folder())?;
        let handlers = self.handler_files();
        let has_other_files = !handlers.is_empty() || self.config.config.is_some();
        let app = self.app();
        self.app.check(app.as_ref(), has_other_files, self.app_is_given, &self.inputs)?;
        if worker.is_none() {
            // A worker has the shared object, even if the source is gone.
            self.handler.check(&handlers)?;
        }
        let (has_routes, forwards) = (self.routes.is_some(), self.gateway.is_given());
        self.files.check(self.runs_code(), has_routes, forwards)?;
        self.gateway.check()?;
        let mut placement = self.workers.placement(self.runs_code())?;
        let has_processes = self.has_processes()?;
        self.supervision.check(has_processes)?;
        if let Some(index) = worker {
            placement = placement.of_worker(index);
        }
        let tls = self.tls.load(&self.inputs)?;
        let endpoints = match worker {
            Some(_) => given.to_vec(),
            None => self.listen.endpoints(given, std::env::var_os("PORT").as_deref())?,
        };
        let settings = Settings {
            listener_options: self.listen.options(&endpoints, tls.is_some())?,
            trusted_proxies: self.listen.trusted_proxies.clone(),
            request_id: self.listen.request_id.clone(),
            forwarded_fields: self.listen.forwarded_fields,
            endpoints,
            socket_mode: self.listen.socket_mode,
            workers: placement.workers,
            cores: placement.cores,
            limits: self.workers.with_shutdown_limits(self.limits(), self.app.reload),
            driver: self.workers.driver()?,
            telemetry: telemetry.clone(),
            tls,
            hang_watch: worker.and_then(|_| self.supervision.hang_watch(self.app.reload)),
            replace_after: None,
            moves_connections: has_processes && worker.is_none(),
            parent: None,
            listener_sharing: if has_processes {
                ListenerSharing::Exclusive
            } else {
                ListenerSharing::default()
            },
        };
        Ok(jissoku_lab::fixtures::adjust(settings, &self.content.cause))
    }

    /// The limits of the flags. A body that any route takes is received; the others have their limits
    /// when it is known which takes a request.
    fn limits(&self) -> Limits {
        let mut limits = self.limits.over(if self.app().is_some() {
            Limits::APPLICATION
        } else {
            Limits::DEFAULT
        });
        let size_max = &mut limits.request.body_size_max;
        *size_max = self.routes.as_ref().map_or(*size_max, |it| it.body_size_max(*size_max));
        limits
    }

    /// The name of the Python application, if one is to be served.
    fn app(&self) -> Option<AppName> {
        match &self.routes {
            Some(routes) => routes.app(),
            None => AppName::parse(self.files.folder()),
        }
    }

    /// The handlers in C that are to be served.
    fn handler_files(&self) -> Vec<HandlerFile> {
        match &self.routes {
            Some(routes) => routes.handlers(),
            None => HandlerFile::parse(self.files.folder()).into_iter().collect(),
        }
    }

    /// Whether code of the user responds: an application or a handler.
    fn runs_code(&self) -> bool {
        self.app().is_some() || !self.handler_files().is_empty()
    }

    /// The files that are watched for changes, as they are now; `None` without `--reload`.
    fn watched(&self) -> Option<watch::Watched> {
        let of_app = self.app().map(|_| self.app.watched());
        let handlers = self.handler_files();
        let named = [&self.config.config, &self.app.env_file].into_iter().flatten();
        let files = of_app
            .into_iter()
            .chain(handlers.iter().map(HandlerFile::watched))
            .chain(named.cloned().map(watch::Files::One));
        self.app.reload.then(|| watch::Watched::of(files.collect()))
    }

    /// Whether the workers are processes: those of a handler or an application, except of one that
    /// is an object of this process and has one worker.
    fn has_processes(&self) -> Result<bool, Failure> {
        Ok(self.runs_code() && (!self.app_is_given || self.has_several_workers()?))
    }

    /// How long a new program may take until it is ready: its first worker process, and then the
    /// others.
    fn program_timeout(&self) -> Result<Option<Duration>, Failure> {
        let count = if self.has_processes()? { 2 } else { 1 };
        Ok(self.supervision.start_timeout(self.app.reload).map(|timeout| timeout * count))
    }

    /// How long connections are served after a signal to stop.
    fn stop_time(&self) -> Duration {
        let limits = self.workers.with_shutdown_limits(self.limits(), self.app.reload);
        Duration::from_nanos(limits.stop_ns_max)
    }

    /// Whether the process calls the application: that of `worker`, or the only one.
    fn calls_app(&self, worker: Option<usize>) -> Result<bool, Failure> {
        Ok(self.app().is_some() && (worker.is_some() || !self.has_processes()?))
    }

    /// Names the folder of the stores to this process, and opens the stores unless it is a worker of
    /// another: its application opens those that it uses.
    fn open_stores(&self, worker: Option<usize>) -> Result<Vec<Store>, Failure> {
        self.stores.name_folder(&self.store_tables);
        if worker.is_some() { Ok(Vec::new()) } else { self.stores.open(&self.store_tables) }
    }

    /// What the routes of the configuration file serve, if it has some.
    fn route_content(
        &self,
        secure: &SecureListeners,
        previous: Option<&RouteContent>,
    ) -> Result<Option<Arc<RouteContent>>, Failure> {
        let Some(routes) = &self.routes else { return Ok(None) };
        let size_max_of = |limits| self.limits.over(limits).request.body_size_max;
        let facts =
            (secure.clone(), size_max_of(Limits::DEFAULT), size_max_of(Limits::APPLICATION));
        routes.content(&self.files, &self.gateway, facts, previous, &self.inputs).map(Some)
    }

    /// How worker processes are started, with these shared objects of handlers.
    fn processes(&self, libraries: Vec<File>) -> Result<ProcessSettings, Failure> {
        self.routes.iter().try_for_each(|routes| routes.read_authorities(&self.inputs))?;
        let inherited = self.inputs.for_workers(libraries);
        Ok(ProcessSettings {
            inherited: inherited.map_err(|error| Failure::of_work(&error))?,
            ..self.supervision.processes(self.app.reload)
        })
    }

    fn has_several_workers(&self) -> Result<bool, Failure> {
        Ok(self.workers.placement(true)?.workers > 1)
    }

    /// The service of a worker pool that listens on `listeners`, and the content of its routes, if
    /// it has some. `worker` is as in [`Serve::settings`]; `previous` is the content of routes
    /// before a reload.
    fn service(
        &self,
        load: Option<&LoadApp>,
        (listeners, secure): (Vec<Endpoint>, &SecureListeners),
        worker: Option<usize>,
        previous: Option<&RouteContent>,
    ) -> Result<(DynService, Option<Arc<RouteContent>>), Failure> {
        if let Some(app) = self.app() {
            let load = load.ok_or_else(|| {
                Failure::of_input("this program has no Python: use the jissoku package")
            })?;
            if worker.is_none() && self.has_processes()? {
                return Ok((DynService::processes(self.processes(Vec::new())?), None));
            }
            let is_multiprocess = self.has_several_workers()?;
            let routes = self.route_content(secure, previous)?;
            let server = (listeners, secure.clone(), is_multiprocess);
            let folders = self.files.beside_app()?;
            let content = if folders.is_empty() {
                routes.clone()
            } else {
                let limits = self.limits.over(Limits::APPLICATION);
                Some(Arc::new(RouteContent::beside_app(folders, limits.request.body_size_max)))
            };
            let service = self.app.service(app, load, server, content, &self.inputs)?;
            return Ok((service, routes));
        }
        let handlers = self.handler_files();
        if !handlers.is_empty() {
            if worker.is_none() {
                return Ok((self.handler_processes(&handlers)?, None));
            }
            let routes = self.route_content(secure, previous)?;
            return Ok((self.handler_service(&handlers, secure, routes.as_ref())?, routes));
        }
        if let Some(content) = self.route_content(secure, previous)? {
            return Ok((content.without_app().into(), Some(content)));
        }
        let body_size_max = self.limits().request.body_size_max;
        let rules = &self.files.response_field;
        if let Some(service) =
            self.gateway.service(secure.clone(), body_size_max, rules, &self.inputs)?
        {
            return Ok((service, None));
        }
        let workers = self.workers.placement(false)?.workers;
        let service = self.content.service(self.files.folder(), || self.files.load(), workers)?;
        Ok((service, None))
    }
}

#[cfg(test)]
mod tests {
    use super::failure::BAD_INPUT;

    fn check_refused(arguments: &[&str]) {
        let all = ["jissoku", "lab", "serve"].iter().chain(arguments).map(ToString::to_string);
        assert_eq!(crate::run(all), BAD_INPUT, "{arguments:?}");
    }

    #[test]
    fn bad_input_is_refused_before_anything_starts() {
        check_refused(&[]);
        check_refused(&["--workers", "1"]);
        check_refused(&["/nowhere/at/all"]);
        check_refused(&["--contract", "--workers", "0"]);
        check_refused(&["--contract", "--delay", "soon"]);
        check_refused(&["--contract", "--delay", "-1s"]);
        check_refused(&["--contract", "--delay", "2h"]);
        check_refused(&["--contract", "--busy-ns", "-1"]);
        check_refused(&["--contract", "--listen", "nonsense"]);
        check_refused(&["--contract", "--listen", "unix:/nowhere/at/all"]);
        check_refused(&["--contract", "--cores", "4095"]);
        check_refused(&["--contract", "--driver", "select"]);
        check_refused(&["--contract", "--fixed", "x"]);
        check_refused(&["--fixed", "x", "."]);
        check_refused(&[".", "--delay", "1s"]);
        check_refused(&["--contract", "--cores", "0", "--pin"]);
        check_refused(&["--contract", "--drain-window", "25h"]);
        check_refused(&["--contract", "--drain-streams", "25h"]);
        check_refused(&["--contract", "--drain-streams", "1m"]);
        check_refused(&["--contract", "--drain-streams", "1m", "--drain-timeout", "61s"]);
        check_refused(&["--contract", "--socket-mode", "999"]);
        check_refused(&["--contract", "--user", "no-such-user"]);
        check_refused(&["--contract", "--group", "root"]);
        check_refused(&["--contract", "--tls-cert", "/nowhere/at/all"]);
        check_refused(&["--contract", "--tls-key", "/nowhere/at/all"]);
        check_refused(&["--contract", "--tls-cert", "/dev/null", "--tls-key", "/dev/null"]);
        check_refused(&["--contract", "--access-log", "/nowhere/at/all"]);
        check_refused(&["--contract", "--log-format", "xml"]);
        check_refused(&["--contract", "--metrics", "nonsense"]);
        check_refused(&["--contract", "--listen", "127.0.0.1:0", "--pid-file", "/nowhere/at/all"]);
        check_refused(&["--contract", "--listen", "127.0.0.1:0,scgi"]);
        check_refused(&["--contract", "--trusted-proxies", "nearby"]);
        check_refused(&["--contract", "--forwarded-fields", "via"]);
        check_refused(&["--echo", "--delay", "1s"]);
        check_refused(&["--echo", "--cause", "magic"]);
        check_refused(&["--echo", "--cause", "open=0"]);
        check_refused(&["--echo", "."]);
        check_refused(&["--to", "ftp://127.0.0.1:1"]);
        check_refused(&["--to", "https://127.0.0.1:1", "--upstream-tls-ca", "/nowhere/at/all"]);
        check_refused(&["--to", "http://127.0.0.1:1", "--upstream-tls-insecure"]);
        check_refused(&["--to", "http://127.0.0.1:1/a/../b"]);
        check_refused(&["--to", "http://127.0.0.1:1/a,http://127.0.0.1:2"]);
        check_refused(&["--to", "http://127.0.0.1:1/a", "--add-prefix", "/b"]);
        check_refused(&["--to", "http://127.0.0.1:1", "--strip-prefix", "/a/"]);
        check_refused(&["--contract", "--strip-prefix", "/a"]);
        check_refused(&["--redirect", "https://{host}{query}"]);
        check_refused(&["--redirect", "304=https://{host}/"]);
        check_refused(&["--redirect", "/a", "--to", "http://127.0.0.1:1"]);
        check_refused(&["--redirect", "/a", "--strip-prefix", "/b"]);
        check_refused(&["--redirect", "/a", "--response-field", "Location: /b"]);
        check_refused(&["--contract", "--request-field", "A: b"]);
        check_refused(&["--to", "http://127.0.0.1:1", "--request-field", "Host: b"]);
        check_refused(&["--to", "http://127.0.0.1:1", "--response-field", "A: {unknown}"]);
        check_refused(&[".", "--response-field", "-A"]);
        check_refused(&["--to", "http://127.0.0.1:1", "."]);
        check_refused(&["--echo", "--contract"]);
        check_refused(&["e5", "--contract", "--delay", "1s"]);
        check_refused(&["--echo", "--connections-max", "0"]);
        check_refused(&["--echo", "--body-size-max", "lots"]);
        check_refused(&["--echo", "--idle-time-max", "-1s"]);
        check_refused(&["--echo", "--factory"]);
        check_refused(&["--echo", "--asgi"]);
        check_refused(&["--echo", "--max-requests", "9"]);
        check_refused(&["--echo", "--worker-memory-max", "9MiB"]);
    }

    #[test]
    fn a_port_in_use_is_refused() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        check_refused(&["--contract", "--listen", &address]);
        check_refused(&["--contract", "--workers", "2", "--listen", &address]);
        check_refused(&["--contract", "--metrics", &address]);
    }
}
