//! What stands between the clients and what is served: TLS, the access log, the numbers.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use jissoku_os::socket::Endpoint;
use jissoku_server::{
    AccessLog, Cause, Format, LogEnd, LogLosses, LogSink, Metrics, Observation, Running, Server,
    Settings, Site, Sockets, Tls,
};

use super::failure::{Failure, complain};

/// How long the end of the process waits for whoever reads the access log.
const LOG_PATIENCE: Duration = Duration::from_secs(5);

/// Flags about the edge.
#[derive(Debug, Args)]
pub(super) struct Edge {
    /// Speak TLS on every TCP listener, with the certificate chain in this PEM file
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The private key of that certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Write a line for every request to the end of FILE, or to standard output if that is -
    #[arg(long, value_name = "FILE", allow_hyphen_values = true)]
    access_log: Option<PathBuf>,
    /// How those lines look: common, combined or json
    #[arg(long, value_name = "FORMAT", default_value = "combined")]
    log_format: Format,
    /// Tell the server's own numbers at /metrics, on HOST:PORT or unix:PATH
    #[arg(long, value_name = "WHERE")]
    metrics: Option<Endpoint>,
}

impl Edge {
    /// The certificate and key as they are on disk now, if there are to be any.
    pub(super) fn tls(&self) -> Result<Option<Tls>, Failure> {
        let (Some(certificate), Some(key)) = (&self.tls_cert, &self.tls_key) else {
            return Ok(None);
        };
        Tls::load(certificate, key).map(Some).map_err(|error| Failure::of_input(&error))
    }

    /// Opens the log and the listener for the numbers, which is among `sockets` if this process succeeds
    /// another.
    pub(super) fn open(&self, sockets: &mut Sockets, causes: &[Cause]) -> Result<Notes, Failure> {
        let losses = Arc::default();
        let log = self.log(&losses)?;
        let (metrics, mut teller) = (Metrics::new(Some(Arc::clone(&losses))), Teller::Nobody);
        if let Some(endpoint) = &self.metrics {
            teller = teller_at(endpoint, &sockets.split_off(endpoint), causes)?;
        }
        let wanted = Wanted::by(self);
        let observation = wanted.observation(log.as_ref(), &metrics);
        Ok(Notes { wanted, log, losses, metrics, observation, teller, parting: Parting::default() })
    }

    /// Opens what is wanted now, and was not at the time of `notes`.
    pub(super) fn open_again(&self, notes: &Notes, causes: &[Cause]) -> Result<News, Failure> {
        let wanted = Wanted::by(self);
        let log = if wanted.log == notes.wanted.log {
            Change::Nothing
        } else {
            Change::To(self.log(&notes.losses)?)
        };
        let teller = match &wanted.metrics {
            same if *same == notes.wanted.metrics => Change::Nothing,
            Some(endpoint) => Change::To(teller_at(endpoint, &Sockets::default(), causes)?),
            None => Change::To(Teller::Nobody),
        };
        let written = match &log {
            Change::Nothing => notes.log.as_ref(),
            Change::To(log) => log.as_ref(),
        };
        let observation = wanted.observation(written, &notes.metrics);
        Ok(News { wanted, log, teller, observation })
    }

    fn log(&self, losses: &Arc<LogLosses>) -> Result<Option<AccessLog>, Failure> {
        let open = |path: &PathBuf| AccessLog::open_after(path, self.log_format, complain, losses);
        self.access_log.as_ref().map(open).transpose().map_err(|error| Failure::of_input(&error))
    }
}

fn teller_at(endpoint: &Endpoint, sockets: &Sockets, causes: &[Cause]) -> Result<Teller, Failure> {
    let meant_for_it = |cause: &Cause| match cause {
        Cause::CrashMetrics(count) => Some(Cause::Crash(*count)),
        _ => None,
    };
    let causes = causes.iter().filter_map(meant_for_it).collect();
    let settings = Settings { causes, ..Settings::new(endpoint.clone()) };
    let server = Server::listen_on(settings, sockets);
    server.map(Teller::Ready).map_err(|error| Failure::of_input(&error))
}

/// What the flags want noted.
#[derive(Debug, PartialEq, Eq)]
struct Wanted {
    log: Option<(PathBuf, Format)>,
    metrics: Option<Endpoint>,
}

impl Wanted {
    fn by(edge: &Edge) -> Self {
        let log = edge.access_log.as_ref().map(|path| (path.clone(), edge.log_format));
        Self { log, metrics: edge.metrics.clone() }
    }

    fn observation(&self, log: Option<&AccessLog>, metrics: &Arc<Metrics>) -> Observation {
        Observation {
            log: log.map(AccessLog::sink).cloned(),
            metrics: self.metrics.is_some().then(|| Arc::clone(metrics)),
        }
    }
}

/// What is noted while the process lives.
#[derive(Debug)]
pub(super) struct Notes {
    wanted: Wanted,
    log: Option<AccessLog>,
    losses: Arc<LogLosses>,
    metrics: Arc<Metrics>,
    observation: Observation,
    teller: Teller,
    parting: Parting,
}

/// What is noted from a reload on, if it succeeds: only what is another than before is here.
#[derive(Debug)]
pub(super) struct News {
    wanted: Wanted,
    log: Change<Option<AccessLog>>,
    teller: Change<Teller>,
    observation: Observation,
}

/// What a reload makes of something.
#[derive(Debug)]
enum Change<T> {
    Nothing,
    To(T),
}

impl News {
    /// What workers have to know to take notes.
    pub(super) const fn observation(&self) -> &Observation {
        &self.observation
    }
}

/// What is wanted no more, and has not ended yet.
#[derive(Debug, Default)]
struct Parting {
    logs: Vec<LogEnd>,
    tellers: Vec<Running>,
}

/// The server that tells the numbers.
#[derive(Debug)]
enum Teller {
    Nobody,
    Ready(Server),
    Running(Running),
}

impl Notes {
    /// What workers have to know to take notes.
    pub(super) const fn observation(&self) -> &Observation {
        &self.observation
    }

    /// Begins to tell.
    pub(super) fn start(&mut self) -> Result<(), Failure> {
        self.teller = match std::mem::replace(&mut self.teller, Teller::Nobody) {
            Teller::Ready(server) => {
                let started = server.start(Site::Metrics(Arc::clone(&self.metrics)));
                Teller::Running(started.map_err(|error| Failure::of_work(&error))?)
            }
            teller => teller,
        };
        Ok(())
    }

    /// Goes on as `news` says. Workers of before still write to the log of before, which ends with them.
    /// Returns whether the numbers are told elsewhere now.
    pub(super) fn adopt(&mut self, news: News) -> Result<bool, Failure> {
        let News { wanted, log, teller, observation } = news;
        (self.wanted, self.observation) = (wanted, observation);
        if let Change::To(log) = log {
            let old = std::mem::replace(&mut self.log, log);
            self.parting.logs.retain(|log| !log.wait(Duration::ZERO));
            self.parting.logs.extend(old.map(AccessLog::retire));
        }
        let Change::To(teller) = teller else { return Ok(false) };
        if let Teller::Running(mut old) = std::mem::replace(&mut self.teller, teller) {
            old.stop().map_err(|error| Failure::of_work(&error))?;
            self.parting.tellers.push(old);
        }
        self.start().map(|()| true)
    }

    /// The server that tells the numbers, once it does.
    pub(super) const fn teller(&mut self) -> Option<&mut Running> {
        match &mut self.teller {
            Teller::Running(running) => Some(running),
            Teller::Nobody | Teller::Ready(_) => None,
        }
    }

    /// Takes note that the server that tells the numbers has ended. The next reload starts another, if it
    /// ended unasked.
    pub(super) fn bury_teller(&mut self) {
        if let Teller::Running(old) = std::mem::replace(&mut self.teller, Teller::Nobody) {
            self.wanted.metrics = None;
            if let Err(error) = old.join() {
                complain(&format!("the numbers are not told before the next reload: {error}"));
            }
        }
    }

    /// Somebody has moved the log away.
    pub(super) fn reopen(&self) {
        if let Some(log) = self.log.as_ref().map(AccessLog::sink) {
            LogSink::reopen(log);
        }
    }

    /// The workers have ended: nothing more is to be noted.
    pub(super) fn finish(self) -> Result<(), Failure> {
        let mut tellers = self.parting.tellers;
        match self.teller {
            Teller::Running(running) => tellers.push(running),
            Teller::Ready(server) => server.close(),
            Teller::Nobody => {}
        }
        let told = tellers.into_iter().try_for_each(|mut teller| {
            teller.stop()?;
            teller.join()
        });
        let log_ended = self.log.is_none_or(|log| log.finish(LOG_PATIENCE).is_some());
        if !(log_ended && self.parting.logs.iter().all(|log| log.wait(LOG_PATIENCE))) {
            complain("the last lines of the access log are lost: nobody takes them");
        }
        told.map_err(|error| Failure::of_work(&error))
    }
}
