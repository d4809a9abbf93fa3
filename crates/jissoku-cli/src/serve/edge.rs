//! What stands between the clients and what is served: TLS, the access log, the numbers.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use jissoku_os::socket::Endpoint;
use jissoku_server::{
    AccessLog, Format, LogSink, Metrics, Observation, Running, Server, Settings, Site, Sockets, Tls,
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
    /// another. Both stay as they are over reloads.
    pub(super) fn open(&self, sockets: &mut Sockets) -> Result<Notes, Failure> {
        let open = |path: &PathBuf| AccessLog::open(path, self.log_format, complain);
        let log = self
            .access_log
            .as_ref()
            .map(open)
            .transpose()
            .map_err(|error| Failure::of_input(&error))?;
        let sink = log.as_ref().map(AccessLog::sink).cloned();
        let mut notes = Notes {
            log,
            observation: Observation { log: sink.clone(), metrics: None },
            teller: Teller::Nobody,
        };
        if let Some(endpoint) = &self.metrics {
            let sockets = sockets.split_off(endpoint);
            let server = Server::listen_on(Settings::new(endpoint.clone()), &sockets)
                .map_err(|error| Failure::of_input(&error))?;
            notes.observation.metrics = Some(Metrics::new(sink));
            notes.teller = Teller::Ready(server);
        }
        Ok(notes)
    }
}

/// What is noted while the process lives.
#[derive(Debug)]
pub(super) struct Notes {
    log: Option<AccessLog>,
    observation: Observation,
    teller: Teller,
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
        let metrics = self.observation.metrics.as_ref().map(Arc::clone);
        self.teller = match (std::mem::replace(&mut self.teller, Teller::Nobody), metrics) {
            (Teller::Ready(server), Some(metrics)) => {
                let started = server.start(Site::Metrics(metrics));
                Teller::Running(started.map_err(|error| Failure::of_work(&error))?)
            }
            (teller, _) => teller,
        };
        Ok(())
    }

    /// The server that tells the numbers, once it does.
    pub(super) const fn teller(&mut self) -> Option<&mut Running> {
        match &mut self.teller {
            Teller::Running(running) => Some(running),
            Teller::Nobody | Teller::Ready(_) => None,
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
        let told = match self.teller {
            Teller::Running(mut running) => running.stop().and_then(|()| running.join()),
            Teller::Ready(server) => {
                server.close();
                Ok(())
            }
            Teller::Nobody => Ok(()),
        };
        if let Some(log) = self.log
            && log.finish(LOG_PATIENCE).is_none()
        {
            complain("the last lines of the access log are lost: nobody takes them");
        }
        told.map_err(|error| Failure::of_work(&error))
    }
}
