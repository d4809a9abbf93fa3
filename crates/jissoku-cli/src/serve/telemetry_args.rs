//! The access log and the metrics endpoint: flags, and their state while the process runs.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use jissoku_lab::fixtures::{Faulty, InjectedFault};
use jissoku_os::poll;
use jissoku_os::socket::Endpoint;
use jissoku_server::{
    AccessLog, DynService, LogDroppedRecords, LogEnd, LogFormat, LogSink, Metrics, MetricsPage,
    ParentPipe, RunningServer, Server, Settings, Sockets, StoreSample, TelemetryConfig,
};
use jissoku_store::Store;

use super::failure::{Failure, print_error};

/// How long the process waits at exit for the access log to be flushed.
const LOG_FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// How often a worker process sends its counters.
const COUNTERS_INTERVAL: Duration = Duration::from_millis(250);

/// Flags for the access log and metrics.
#[derive(Debug, Args)]
pub(super) struct TelemetryArgs {
    /// Append a line per request to FILE, or write it to standard output for -
    #[arg(long, value_name = "FILE", allow_hyphen_values = true)]
    access_log: Option<PathBuf>,
    /// Format of the access log: common, combined, extended (combined with times and requests to
    /// other servers) or json
    #[arg(long, value_name = "FORMAT", default_value = "combined")]
    log_format: LogFormat,
    /// Serve OpenMetrics at /metrics on HOST:PORT or unix:PATH
    #[arg(long, value_name = "WHERE")]
    metrics: Option<Endpoint>,
}

impl TelemetryArgs {
    /// Opens the log and the metrics listener, which is among `sockets` after a re-exec.
    pub(super) fn open(
        &self,
        sockets: &mut Sockets,
        injected_faults: &[InjectedFault],
        worker: Option<usize>,
    ) -> Result<Telemetry, Failure> {
        let dropped = Arc::default();
        let log = self.log(&dropped)?;
        let (metrics, mut metrics_server) =
            (Metrics::new(Some(Arc::clone(&dropped))), MetricsServer::Disabled);
        // A worker sends its counters to its parent.
        if let Some(endpoint) = self.metrics.as_ref().filter(|_| worker.is_none()) {
            let page = metrics_page(&metrics, injected_faults);
            metrics_server = metrics_server_at(endpoint, &sockets.split_off(endpoint), page)?;
        }
        let wanted = Wanted::by(self);
        let telemetry = wanted.telemetry(log.as_ref(), &metrics);
        Ok(Telemetry {
            wanted,
            log,
            dropped,
            metrics,
            config: telemetry,
            metrics_server,
            retired: Retired::default(),
        })
    }

    /// Opens logs and listeners whose flags have changed since `telemetry_state`.
    pub(super) fn open_again(
        &self,
        telemetry_state: &Telemetry,
        injected_faults: &[InjectedFault],
    ) -> Result<TelemetryUpdate, Failure> {
        let wanted = Wanted::by(self);
        let log = if wanted.log == telemetry_state.wanted.log {
            None
        } else {
            Some(self.log(&telemetry_state.dropped)?)
        };
        let metrics_server = match &wanted.metrics {
            same if *same == telemetry_state.wanted.metrics => None,
            Some(endpoint) => {
                let page = metrics_page(&telemetry_state.metrics, injected_faults);
                Some(metrics_server_at(endpoint, &Sockets::default(), page)?)
            }
            None => Some(MetricsServer::Disabled),
        };
        let written = log.as_ref().unwrap_or(&telemetry_state.log).as_ref();
        let telemetry = wanted.telemetry(written, &telemetry_state.metrics);
        Ok(TelemetryUpdate { wanted, log, metrics_server, telemetry })
    }

    fn log(&self, dropped: &Arc<LogDroppedRecords>) -> Result<Option<AccessLog>, Failure> {
        let open = |path: &PathBuf| {
            // Opened again after the application has changed the working directory.
            let absolute = Some(path).filter(|path| **path != *"-").map(std::path::absolute);
            let path = absolute.and_then(Result::ok).unwrap_or_else(|| path.clone());
            AccessLog::open(&path, self.log_format, print_error, dropped)
        };
        self.access_log.as_ref().map(open).transpose().map_err(|error| Failure::of_input(&error))
    }
}

/// Sends the counters, and those of stores.
fn send_all(parent: &ParentPipe, metrics: &Metrics) -> io::Result<()> {
    parent.send_counters(metrics)?;
    let stores = jissoku_store::counts_of_server();
    stores.iter().try_for_each(|(name, counts)| parent.send_store_counts(name, counts))
}

/// A store as this process sees it; `None` if it cannot be read.
fn sample(store: &Store) -> Option<StoreSample> {
    let stats = store.stats().ok()?;
    Some(StoreSample {
        name: store.name().to_owned(),
        entries: stats.entries,
        bytes: stats.used_bytes,
        counts: store.counts(),
    })
}

/// A metrics server that listens and is not started.
fn metrics_server_at(
    endpoint: &Endpoint,
    sockets: &Sockets,
    page: DynService,
) -> Result<MetricsServer, Failure> {
    let server = Server::listen_on(Settings::new(endpoint.clone()), sockets);
    let server = server.map_err(|error| Failure::of_input(&error))?;
    Ok(MetricsServer::Ready(server, page))
}

/// The page of `metrics`, with the faults that concern it.
fn metrics_page(metrics: &Arc<Metrics>, injected_faults: &[InjectedFault]) -> DynService {
    let page = MetricsPage::new(Arc::clone(metrics));
    let of_page = |fault: &InjectedFault| match fault {
        InjectedFault::CrashMetrics(count) => Some(InjectedFault::Crash(*count)),
        _ => None,
    };
    match injected_faults.iter().find_map(of_page) {
        Some(fault) => Faulty::new(page.into(), &[fault], 1).into(),
        None => page.into(),
    }
}

/// The flags of the log and the metrics.
#[derive(Debug, PartialEq, Eq)]
struct Wanted {
    log: Option<(PathBuf, LogFormat)>,
    metrics: Option<Endpoint>,
}

impl Wanted {
    fn by(telemetry: &TelemetryArgs) -> Self {
        let log = telemetry.access_log.as_ref().map(|path| (path.clone(), telemetry.log_format));
        Self { log, metrics: telemetry.metrics.clone() }
    }

    fn telemetry(&self, log: Option<&AccessLog>, metrics: &Arc<Metrics>) -> TelemetryConfig {
        TelemetryConfig {
            log: log.map(AccessLog::sink).cloned(),
            metrics: self.metrics.is_some().then(|| Arc::clone(metrics)),
        }
    }
}

/// The telemetry of the running process.
#[derive(Debug)]
pub(super) struct Telemetry {
    wanted: Wanted,
    log: Option<AccessLog>,
    dropped: Arc<LogDroppedRecords>,
    metrics: Arc<Metrics>,
    config: TelemetryConfig,
    metrics_server: MetricsServer,
    retired: Retired,
}

/// Changes of telemetry that a reload makes if it succeeds; `None` stays as it is.
#[derive(Debug)]
#[expect(clippy::option_option, reason = "the log may stay, or there may be none from now on")]
pub(super) struct TelemetryUpdate {
    wanted: Wanted,
    log: Option<Option<AccessLog>>,
    metrics_server: Option<MetricsServer>,
    telemetry: TelemetryConfig,
}

impl TelemetryUpdate {
    /// The configuration that workers need.
    pub(super) const fn telemetry(&self) -> &TelemetryConfig {
        &self.telemetry
    }
}

/// Logs and servers that were replaced and have not ended yet.
#[derive(Debug, Default)]
struct Retired {
    logs: Vec<LogEnd>,
    metrics_servers: Vec<RunningServer>,
}

#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one per process")]
enum MetricsServer {
    Disabled,
    Ready(Server, DynService),
    Running(RunningServer),
}

impl Telemetry {
    /// The configuration that workers need.
    pub(super) const fn telemetry(&self) -> &TelemetryConfig {
        &self.config
    }

    /// Starts a thread that sends the counters to the parent process, if there are metrics.
    pub(super) fn send_counters(&self, parent: &ParentPipe) -> Result<(), Failure> {
        if self.wanted.metrics.is_none() {
            return Ok(());
        }
        let (metrics, parent) = (Arc::clone(&self.metrics), parent.clone());
        let sender = std::thread::Builder::new().name("counters".to_owned());
        let started = sender.spawn(move || {
            while poll::wait_readable(&[], Some(COUNTERS_INTERVAL)).is_ok()
                && send_all(&parent, &metrics).is_ok()
            {}
        });
        started.map(drop).map_err(|error| Failure::of_work(&error))
    }

    /// Sends the counters after the last request.
    pub(super) fn send_last_counters(&self, parent: &ParentPipe) {
        if self.wanted.metrics.is_some() {
            // The error is ignored: the parent may have exited.
            let _sent = send_all(parent, &self.metrics);
        }
    }

    /// The page has these stores from now on.
    pub(super) fn set_stores(&self, stores: &[Store]) {
        let stores = stores.to_vec();
        self.metrics.set_stores(move || stores.iter().filter_map(sample).collect());
    }

    /// Starts the metrics server.
    pub(super) fn start(&mut self) -> Result<(), Failure> {
        self.metrics_server =
            match std::mem::replace(&mut self.metrics_server, MetricsServer::Disabled) {
                MetricsServer::Ready(server, page) => {
                    let started = server.start(page);
                    MetricsServer::Running(started.map_err(|error| Failure::of_work(&error))?)
                }
                metrics_server => metrics_server,
            };
        Ok(())
    }

    /// Applies `update`. Draining workers still write to the previous log, which ends with them.
    /// Returns whether the metrics endpoint has changed.
    pub(super) fn adopt(&mut self, update: TelemetryUpdate) -> Result<bool, Failure> {
        let TelemetryUpdate { wanted, log, metrics_server, telemetry } = update;
        (self.wanted, self.config) = (wanted, telemetry);
        if let Some(log) = log {
            let old = std::mem::replace(&mut self.log, log);
            self.retired.logs.retain(|log| !log.wait(Duration::ZERO));
            self.retired.logs.extend(old.map(AccessLog::retire));
        }
        let Some(metrics_server) = metrics_server else { return Ok(false) };
        if let MetricsServer::Running(mut old) =
            std::mem::replace(&mut self.metrics_server, metrics_server)
        {
            old.stop().map_err(|error| Failure::of_work(&error))?;
            self.retired.metrics_servers.push(old);
        }
        self.start().map(|()| true)
    }

    /// The metrics server, once it runs.
    pub(super) const fn metrics_server(&mut self) -> Option<&mut RunningServer> {
        match &mut self.metrics_server {
            MetricsServer::Running(running) => Some(running),
            MetricsServer::Disabled | MetricsServer::Ready(..) => None,
        }
    }

    /// Joins the metrics server after it stopped. The next reload starts another one, if it failed.
    pub(super) fn reap_metrics_server(&mut self) {
        if let MetricsServer::Running(old) =
            std::mem::replace(&mut self.metrics_server, MetricsServer::Disabled)
        {
            self.wanted.metrics = None;
            if let Err(error) = old.join() {
                print_error(&format!("metrics are not served until the next reload: {error}"));
            }
        }
    }

    /// Reopens the access log after a rotation.
    pub(super) fn reopen(&self) {
        if let Some(log) = self.log.as_ref().map(AccessLog::sink) {
            LogSink::reopen(log);
        }
    }

    /// Flushes the log and stops the metrics server, once all workers have exited.
    pub(super) fn finish(self) -> Result<(), Failure> {
        let mut metrics_servers = self.retired.metrics_servers;
        match self.metrics_server {
            MetricsServer::Running(running) => metrics_servers.push(running),
            MetricsServer::Ready(server, _) => server.close(),
            MetricsServer::Disabled => {}
        }
        let stopped = metrics_servers.into_iter().try_for_each(|mut metrics_server| {
            metrics_server.stop()?;
            metrics_server.join()
        });
        let log_ended = self.log.is_none_or(|log| log.finish(LOG_FLUSH_TIMEOUT).is_some());
        if !(log_ended && self.retired.logs.iter().all(|log| log.wait(LOG_FLUSH_TIMEOUT))) {
            print_error("the last lines of the access log are lost: the writer is blocked");
        }
        stopped.map_err(|error| Failure::of_work(&error))
    }
}
