//! The server process: start-up, the event loop for signals, reload and re-exec.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use jissoku_os::clock;
use jissoku_os::reexec::{Attachment, ChildStatus, ExecSpec, ReexecChild};
use jissoku_os::socket::Endpoint;
use jissoku_proxy::RouteContent;
use jissoku_server::{
    RunningServer, SecureListeners, Server, ServerEvent, Settings, SignalSet, Sockets, Tls,
};
use jissoku_store::Store;

use super::end_watch::{self, EndWatch};
use super::failure::{Failure, print_error};
use super::process_args::PidFile;
use super::systemd_env::SystemdEnv;
use super::telemetry_args::Telemetry;
use super::{LoadApp, Serve, instance, main_thread, watch};
use crate::usage::print_line;

/// A new process that cannot serve closes its pipe, and then says why and exits: for so long it may.
const EXIT_PATIENCE: Duration = Duration::from_secs(5);

/// Serves with the flags in `arguments` until a signal ends it.
pub(super) fn run(arguments: &[String], load: Option<&LoadApp>) -> Result<(), Failure> {
    let mut systemd = SystemdEnv::read()?;
    let inputs = std::mem::take(&mut systemd.inputs);
    let serve = Serve::read_with(arguments, load, inputs)?;
    if let Some(text) = &serve.printed {
        print_line(text.trim_end());
        return Ok(());
    }
    if let Some(parent) = systemd.parent_pipe() {
        // Before the application is imported, which may take for ever.
        end_watch::end_with_parent(parent, serve.stop_time())?;
    }
    match load {
        Some(load) if serve.calls_app(systemd.worker)? => {
            let rest = |load: &LoadApp| run_with(arguments, Some(load), serve, systemd);
            main_thread::serve_beside(load, rest)
        }
        _ => run_with(arguments, load, serve, systemd),
    }
}

fn run_with(
    arguments: &[String],
    load: Option<&LoadApp>,
    mut serve: Serve,
    mut systemd: SystemdEnv,
) -> Result<(), Failure> {
    // Before the application is imported, so that a file written later counts as changed.
    let mut watched = if systemd.worker.is_none() { serve.watched() } else { None };
    let again = watched.as_mut().map(|watched| (arguments, watched));
    let started = Started::begin_when_importable(&mut serve, load, &mut systemd, again);
    let Started { running, signals, given, pid_file, routes, stores, telemetry_state, secure } =
        started.map_err(|failure| {
            // Before a predecessor ends this process.
            let code = failure.print();
            systemd.notify_failure();
            Failure::Reported { code }
        })?;
    let has_processes = serve.has_processes()?;
    let worker = systemd.worker;
    let mut server_process = ServerProcess {
        arguments,
        load,
        program_timeout: serve.program_timeout()?,
        imports_app: serve.app().is_some() && !has_processes,
        has_processes: has_processes && worker.is_none(),
        worker,
        given,
        running,
        signals,
        systemd,
        pid_file,
        routes,
        stores,
        telemetry_state,
        watcher: watch::Watcher::default(),
        end_watch: None,
    };
    server_process.telemetry_state.set_stores(&server_process.stores);
    server_process.telemetry_state.start()?;
    server_process.begin(&serve, &secure)?;
    let counters = server_process.systemd.parent_pipe();
    if let Some(parent) = &counters {
        server_process.telemetry_state.send_counters(parent)?;
    }
    server_process.watcher.watch(watched)?;
    server_process.event_loop()?;
    let ended = server_process.running.join().map_err(|error| Failure::of_work(&error));
    if let Some(parent) = &counters {
        server_process.telemetry_state.send_last_counters(parent);
    }
    ended.and(server_process.telemetry_state.finish())
}

/// A server whose workers are ready.
struct Started {
    running: RunningServer,
    signals: SignalSet,
    /// Addresses of inherited listeners.
    given: Vec<Endpoint>,
    pid_file: Option<PidFile>,
    routes: Option<Arc<RouteContent>>,
    stores: Vec<Store>,
    telemetry_state: Telemetry,
    secure: SecureListeners,
}

impl Started {
    /// Starts the server. If the application cannot be imported and its files are watched, it is
    /// tried again after each change, with flags that are read again: `again` are the arguments and
    /// these files.
    fn begin_when_importable(
        serve: &mut Serve,
        load: Option<&LoadApp>,
        systemd: &mut SystemdEnv,
        again: Option<(&[String], &mut watch::Watched)>,
    ) -> Result<Self, Failure> {
        let mut signals = None;
        // A predecessor continues if this process fails.
        let Some((arguments, watched)) = again.filter(|_| !systemd.has_predecessor()) else {
            return Self::begin(serve, load, systemd, &mut signals);
        };
        let sockets = systemd.sockets.clone();
        loop {
            let failure = match Self::begin(serve, load, systemd, &mut signals) {
                Ok(started) => return Ok(started),
                Err(Failure::Stopped) => return Err(Failure::Stopped),
                Err(failure) => failure,
            };
            // Only workers have failed if there are signals already.
            let Some(signals) = &mut signals else { return Err(failure) };
            failure.print();
            *serve = loop {
                if !watched.wait_for_change_or_signal(signals)? {
                    return Err(Failure::Stopped);
                }
                match Serve::read(arguments, load) {
                    Ok(serve) => break serve,
                    Err(failure) => failure.print(),
                };
            };
            if let Some(now) = serve.watched() {
                watched.replace(now);
            }
            systemd.sockets = sockets.clone();
        }
    }

    /// Starts the server. If its workers fail, `signals` are those that it has registered; they are
    /// used again by the next call.
    fn begin(
        serve: &Serve,
        load: Option<&LoadApp>,
        systemd: &mut SystemdEnv,
        signals: &mut Option<SignalSet>,
    ) -> Result<Self, Failure> {
        let worker = systemd.worker;
        let telemetry_state =
            serve.telemetry.open(&mut systemd.sockets, &serve.content.cause, worker)?;
        let given = systemd.sockets.endpoints();
        let user = if worker.is_none() { serve.process.find()? } else { None };
        let mut settings = serve.settings(&given, telemetry_state.telemetry(), worker)?;
        settings.parent = systemd.parent_pipe();
        settings.replace_after = serve.supervision.requests_max();
        let secure = settings.secure_listeners();
        if worker.is_none() {
            print_warnings(&settings);
        }
        let server = Server::listen_on(settings, &systemd.sockets)
            .map_err(|error| Failure::of_input(&error))?;
        // From here on the server is their only owner.
        systemd.sockets = Sockets::default();
        // The privileged operations are done. The content is opened by the user that will reload
        // it.
        let pid_file = if worker.is_none() { serve.process.pid_file() } else { Ok(None) };
        let prepared = pid_file.and_then(|pid_file| {
            if let Some(user) = user {
                let given = pid_file.as_ref().map_or(Ok(()), |file| user.chown(file));
                given
                    .and_then(|()| user.drop_privileges())
                    .map_err(|error| Failure::of_input(&error))?;
            }
            let stores = serve.open_stores(worker)?;
            let service = serve.service(load, (server.endpoints(), &secure), worker, None)?;
            Ok((pid_file, stores, service))
        });
        let (pid_file, stores, (service, routes)) = match prepared {
            Ok(prepared) => prepared,
            Err(failure) => {
                server.close();
                return Err(failure);
            }
        };
        if worker.is_none() {
            serve.process.warn(&server.endpoints());
        }
        // Registered before the server reports that it listens, so that no signal kills it
        // half-way.
        let registered = signals.take().map_or_else(SignalSet::listen, Ok);
        let mut registered = registered.map_err(|error| Failure::of_work(&error))?;
        registered.has_application = serve.calls_app(worker)?;
        jissoku_os::signal::ignore_sigpipe();
        // The error is ignored: with a lower limit, fewer connections can be open.
        let _raised = jissoku_os::process::raise_descriptor_limit();
        let running = match server.start_unless_stopped(service, Some(&registered)) {
            Ok(running) => running,
            Err(error) => {
                *signals = Some(registered);
                return Err(Failure::of_start(&error));
            }
        };
        let signals = registered;
        Ok(Self { running, signals, given, pid_file, routes, stores, telemetry_state, secure })
    }
}

struct ServerProcess<'a> {
    arguments: &'a [String],
    load: Option<&'a LoadApp>,
    /// How long a re-executed process may take until it is ready; then it is killed.
    program_timeout: Option<Duration>,
    /// Whether this process imports a Python application.
    imports_app: bool,
    has_processes: bool,
    /// The index of this process, if it is a worker of another.
    worker: Option<usize>,
    /// Addresses of inherited listeners.
    given: Vec<Endpoint>,
    running: RunningServer,
    signals: SignalSet,
    systemd: SystemdEnv,
    pid_file: Option<PidFile>,
    routes: Option<Arc<RouteContent>>,
    /// Those of the configuration file, unless this process is a worker of another. This process
    /// synchronises and sweeps them.
    stores: Vec<Store>,
    telemetry_state: Telemetry,
    watcher: watch::Watcher,
    /// Set once this process is to end, if it runs an application.
    end_watch: Option<EndWatch>,
}

impl ServerProcess<'_> {
    fn begin(&mut self, serve: &Serve, secure: &SecureListeners) -> Result<(), Failure> {
        if self.worker.is_some() {
            return if self.systemd.notify_predecessor() {
                Ok(())
            } else {
                Err(Failure::of_work("the server has ended"))
            };
        }
        // Before the addresses are printed, so that their reader finds the file.
        if let Some(Err(error)) = self.pid_file.as_mut().map(PidFile::fill) {
            print_error(&format!("cannot write the process id: {error}"));
        }
        let endpoints = self.running.endpoints();
        let is_uwsgi = serve.listen.uwsgi_listeners(&endpoints);
        for (index, endpoint) in endpoints.into_iter().enumerate() {
            print_line(&match endpoint {
                Endpoint::Tcp(address) if is_uwsgi[index] => {
                    format!("listening on uwsgi://{address}")
                }
                Endpoint::Tcp(address) if secure.has(index) => {
                    format!("listening on https://{address}/")
                }
                Endpoint::Tcp(address) => format!("listening on http://{address}/"),
                Endpoint::Unix(path) => format!("listening on unix:{}", path.display()),
            });
        }
        self.print_metrics_endpoints();
        for line in serve.summary()? {
            print_line(&line);
        }
        // The error is ignored: a predecessor that has exited has stopped serving.
        let _is_there = self.systemd.notify_predecessor();
        self.systemd.notify_status("READY=1\n", "serving");
        Ok(())
    }

    fn print_metrics_endpoints(&mut self) {
        for endpoint in self
            .telemetry_state
            .metrics_server()
            .map(|metrics_server| metrics_server.endpoints())
            .unwrap_or_default()
        {
            print_line(&match endpoint {
                Endpoint::Tcp(address) => format!("metrics on http://{address}/metrics"),
                Endpoint::Unix(path) => format!("metrics on unix:{}", path.display()),
            });
        }
    }

    fn event_loop(&mut self) -> Result<(), Failure> {
        loop {
            match self.wait(None)? {
                ServerEvent::Reload if self.worker.is_some() => {
                    self.running.hand_over().map_err(|error| Failure::of_work(&error))?;
                }
                ServerEvent::Reexec if self.worker.is_some() => {
                    self.running.move_connections().map_err(|error| Failure::of_work(&error))?;
                }
                // An interpreter does not reload imported modules, so new code needs a new
                // process.
                ServerEvent::Reload | ServerEvent::Reexec if self.imports_app => {
                    while self.replace()? {}
                }
                // New worker processes open the log by its name.
                ServerEvent::ReopenLog if self.has_processes => {
                    self.telemetry_state.reopen();
                    self.reload();
                }
                ServerEvent::Reload => self.reload(),
                ServerEvent::Reexec => {
                    if self.replace()? {
                        self.reload();
                    }
                }
                ServerEvent::Stopping => {
                    self.systemd.notify_status("STOPPING=1\n", "stopping");
                    if self.imports_app || self.worker.is_some() {
                        let time = self.running.time_of_end();
                        self.end_watch = Some(EndWatch::start(time, self.worker.is_some())?);
                    }
                }
                ServerEvent::Stopped => return Ok(()),
                other => self.handle_event(&other),
            }
        }
    }

    /// Handles events that can occur in any state.
    fn handle_event(&mut self, event: &ServerEvent) {
        match event {
            ServerEvent::ReopenLog => self.telemetry_state.reopen(),
            ServerEvent::WorkerRestarted(index, why) => {
                report_restart(&format!("worker {index}"), why);
            }
            ServerEvent::WorkerNotRestarted(index, why) => {
                print_error(&format!("worker {index} is tried again later: {why}"));
            }
            ServerEvent::AuxWorkerRestarted(_, why) => {
                report_restart("the metrics worker", why);
            }
            ServerEvent::AuxStopped => self.telemetry_state.reap_metrics_server(),
            _ => {}
        }
    }

    fn wait(&mut self, child: Option<(&ReexecChild, Duration)>) -> Result<ServerEvent, Failure> {
        let other = child.map(|(child, patience)| (child.as_fd(), patience));
        let event =
            self.running.wait(&mut self.signals, other, self.telemetry_state.metrics_server());
        event.map_err(|error| Failure::of_work(&error))
    }

    /// Reloads the configuration and the content; on failure the old ones stay in service.
    fn reload(&mut self) {
        self.announce_reload();
        let outcome = Serve::read(self.arguments, self.load).and_then(|serve| {
            // Before what they hold is read, and even if that is not served.
            self.watcher.watch(serve.watched())?;
            let update = serve.telemetry.open_again(&self.telemetry_state, &serve.content.cause)?;
            let settings = serve.settings(&self.given, update.telemetry(), None)?;
            let stores = serve.open_stores(None)?;
            let previous = self.routes.as_deref();
            let listeners = (Vec::new(), &settings.secure_listeners());
            let (service, routes) = serve.service(self.load, listeners, None, previous)?;
            let reloaded = self.running.reload(&settings, service, Some(&self.signals));
            reloaded.map_err(|error| Failure::of_input(&error))?;
            if let (Some(old), Some(new)) = (&self.routes, &routes) {
                new.gateway.take_over(&old.gateway);
            }
            self.routes = routes;
            self.telemetry_state.set_stores(&stores);
            self.stores = stores;
            print_warnings(&settings);
            self.program_timeout = serve.program_timeout()?;
            if self.telemetry_state.adopt(update)? {
                self.print_metrics_endpoints();
            }
            Ok(())
        });
        match outcome {
            Ok(()) => {
                print_line("reloaded");
                self.systemd.notify_status("READY=1\n", "serving");
            }
            Err(failure) => self.keep_old(&format!("not reloaded: {failure}")),
        }
    }

    fn announce_reload(&self) {
        let now_us = clock::monotonic_ns() / 1_000;
        self.systemd.notify(&format!("RELOADING=1\nMONOTONIC_USEC={now_us}"));
    }

    fn keep_old(&self, why: &str) {
        print_error(why);
        self.systemd.notify_status("READY=1\n", why);
    }

    /// Re-executes the program and hands over once the new process is ready. Returns whether a
    /// reload was requested meanwhile and is still to be done.
    fn replace(&mut self) -> Result<bool, Failure> {
        self.announce_reload();
        let mut sockets = self.running.sockets();
        // Last, where the new process expects it.
        sockets.extend(
            self.telemetry_state
                .metrics_server()
                .map(|metrics_server| metrics_server.sockets())
                .unwrap_or_default(),
        );
        let child = ExecSpec::of_this_process(instance::environment())
            .and_then(|image| ReexecChild::start(&image, &sockets, Attachment::Detached));
        let child = match child {
            Ok(child) => child,
            Err(error) => {
                self.keep_old(&format!("not replaced: {error}"));
                return Ok(false);
            }
        };
        let timeout = self.program_timeout.unwrap_or(Duration::MAX);
        let timeout_ns = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        let deadline_ns = clock::monotonic_ns().saturating_add(timeout_ns);
        let mut patience = Duration::ZERO;
        let mut wants_reload = false;
        let why = loop {
            let left_ns = deadline_ns.saturating_sub(clock::monotonic_ns());
            match self.wait(Some((&child, Duration::from_nanos(left_ns))))? {
                ServerEvent::Reload => wants_reload = true,
                // A re-exec is already in progress.
                ServerEvent::Reexec => {}
                ServerEvent::TimedOut => {
                    break format!("was not ready within {timeout:?} (--start-timeout)");
                }
                ServerEvent::Stopping | ServerEvent::Stopped => {
                    self.systemd.notify_status("STOPPING=1\n", "stopping");
                    let _ended = child.end();
                    return Ok(false);
                }
                ServerEvent::OtherReadable if child.status() == ChildStatus::Ready => {
                    self.hand_over(&child)?;
                    return Ok(false);
                }
                ServerEvent::OtherReadable => {
                    patience = EXIT_PATIENCE;
                    break "ended before it was ready".to_owned();
                }
                other => self.handle_event(&other),
            }
        };
        let pid = child.pid();
        let how = child.end_within(patience).unwrap_or_else(|error| error.to_string());
        self.keep_old(&format!("not replaced: process {pid} {why} ({how})"));
        Ok(wants_reload)
    }

    fn hand_over(&mut self, child: &ReexecChild) -> Result<(), Failure> {
        // The new process watches its files.
        self.watcher.watch(None)?;
        let pid = child.pid();
        self.systemd.notify_last(&format!("MAINPID={pid}\nREADY=1"));
        let handed = self.running.hand_over();
        let metrics =
            self.telemetry_state.metrics_server().map_or(Ok(()), RunningServer::hand_over);
        // Last: from here on no new connection is accepted by this process.
        print_line(&format!("process {pid} serves now"));
        handed.and(metrics).map_err(|error| Failure::of_work(&error))
    }
}

fn report_restart(who: &str, why: &str) {
    print_error(&format!("{who} has failed with its connections and was replaced: {why}"));
}

/// Prints what is wrong with the certificates, although they can be used.
fn print_warnings(settings: &Settings) {
    for warning in settings.tls.iter().flat_map(Tls::warnings) {
        print_error(warning);
    }
}
