//! From command-line options to a plan.

use std::fs;
use std::path::PathBuf;

use jissoku_load::{
    Address, Driver, Expected, Idle, OnBusy, OpeningHandshake, Order, Plan, Rate, Request,
    RequestSpec, ResponseFraming, Reuse, StopCondition, TargetPlan, Think, Verify, Version,
};
use jissoku_os::{affinity, clock, uring};

use super::Load;
use super::url_file::UrlLine;
use crate::units;

/// The payload of WebSocket messages if `-b` is not given.
const MESSAGE: &[u8] = b"a message of thirty-two bytes...";

const SECOND_NS: u64 = 1_000_000_000;

/// The default of `-d` if `-n` is not given.
const DURATION_NS: u64 = 10 * SECOND_NS;

/// The default of `--warmup` with `-d`.
const WARMUP_NS: u64 = SECOND_NS / 10 * 3;

impl Load {
    /// The plan, or a message about invalid options.
    pub(crate) fn plan(self) -> Result<Plan, String> {
        if self.watch.len() > self.urls.len() {
            let (watched, urls) = (self.watch.len(), self.urls.len());
            return Err(format!("{watched} processes to watch, but only {urls} URLs"));
        }
        self.connect.check(&self.urls)?;
        if let Some(status) = self.expect_status.iter().find(|code| !(200..600).contains(*code)) {
            return Err(format!("invalid status {status}: give 200 to 599"));
        }
        self.tls.check(&self.urls)?;
        let allowed = affinity::allowed()
            .map_err(|error| format!("cannot read the CPU affinity: {error}"))?;
        if let Some(foreign) = self.cores.iter().flatten().find(|core| !allowed.contains(core)) {
            return Err(format!("core {foreign} is not available; available are {allowed:?}"));
        }
        if self.driver == Driver::Uring && !uring::is_available() {
            return Err(
                "io_uring is not available on this kernel: leave --driver uring out".to_owned()
            );
        }
        let targets = self.targets()?;
        let reuse = self.reuse_of(&targets);
        let is_paced_pair = self.rate.is_some() && targets.len() > 1;
        let spins = is_paced_pair || self.slices.slice.is_some();
        let idle = self.idle.unwrap_or(if spins { Idle::Spin } else { Idle::Block });
        let counted = self.requests.is_some() || self.arrival.is_trace();
        let (pace, arrival) = self.arrival.clone().at(self.rates())?;
        let plan = Plan {
            targets,
            connections: self.connections_max(),
            threads: self.threads(allowed.len()),
            pipeline: self.pipeline,
            pace,
            arrival,
            on_busy: self.on_busy()?,
            deadline_ns: self.deadline,
            order: self.request_order(),
            reuse,
            think: self.think.unwrap_or(Think::Never),
            ramp_up_ns: self.ramp_up,
            warmup_ns: self.warmup.unwrap_or(if counted { 0 } else { WARMUP_NS }),
            slice_ns: self.slices.slice,
            slot_ns: self.slices.slot,
            settling_requests: self.slices.settle,
            warmup_requests: self.slices.warmup_requests,
            idle_watch_ns: self.slices.idle_watch,
            stop: StopCondition {
                duration_ns: self.duration.or((!counted).then_some(DURATION_NS)),
                requests: self.requests,
            },
            timeout_ns: self.timeout,
            driver: self.driver,
            clock: self.clock,
            buffering: self.connect.buffering(),
            keeps_records: self.raw_log.is_some(),
            idle,
            seed: self.seed.unwrap_or_else(clock::monotonic_ns),
            local: self.connect.local_addr,
            cores: self.cores.unwrap_or_default(),
        };
        plan.check().map_err(|bad| bad.to_string())?;
        Ok(plan)
    }

    fn request_order(&self) -> Order {
        self.url_file.as_ref().map_or(Order::PerConnection, |_| self.order)
    }

    /// With several numbers of connections, the plan has the largest; each measurement sets its
    /// own.
    fn connections_max(&self) -> usize {
        self.connections.iter().copied().max().unwrap_or(0)
    }

    fn threads(&self, allowed: usize) -> usize {
        let fewest = self.connections.iter().copied().min().unwrap_or(1);
        let cores = self.cores.as_ref().map_or(allowed / 2, Vec::len);
        self.threads.unwrap_or_else(|| cores.clamp(1, fewest.max(1)))
    }

    fn rates(&self) -> Option<(Rate, Rate)> {
        let first = || self.series.first_rps().map(Rate::per_second);
        self.rate.or_else(|| first().map(|rate| (rate, rate)))
    }

    fn on_busy(&self) -> Result<OnBusy, String> {
        let most = || self.connections_max().saturating_mul(10);
        match (self.on_busy, self.max_connections) {
            (OnBusy::Open { .. }, given) => {
                Ok(OnBusy::Open { connections_max: given.unwrap_or_else(most) })
            }
            (_, Some(_)) => Err("--max-connections requires --on-busy open".to_owned()),
            (on_busy, None) => Ok(on_busy),
        }
    }

    fn targets(&self) -> Result<Vec<TargetPlan>, String> {
        let target = |(number, address): (usize, &Address)| {
            let address = self.connect.apply(address);
            let specs = self.specs(&address)?;
            let tls = self.tls.config_for(&address)?;
            let handshake = self.websocket.map(|_| OpeningHandshake::new(&address, &self.headers));
            let handshake = handshake.transpose().map_err(|bad| bad.to_string())?;
            let watch_pid = self.watch.get(number).copied();
            Ok(TargetPlan { tls, handshake, specs, watch_pid, address })
        };
        self.urls.iter().enumerate().map(target).collect()
    }

    fn specs(&self, address: &Address) -> Result<Vec<RequestSpec>, String> {
        if let Some(message_type) = self.websocket {
            let spec = RequestSpec::message(message_type, self.message(), self.expected()?);
            return Ok(vec![spec.map_err(|bad| bad.to_string())?]);
        }
        if let Some(file) = &self.url_file {
            let servers = self.urls.iter().filter(|server| self.connect.apply(server) == *address);
            let lines = servers.flat_map(|server| file.lines_of(server));
            return lines.map(|line| self.spec_of_line(line)).collect();
        }
        if self.raw.is_empty() {
            let body = self.body.clone().unwrap_or_default();
            let request = self.request(self.method.clone(), body);
            let template = request.render(address, self.reuse()).map_err(|bad| bad.to_string())?;
            let (framing, expected) =
                (ResponseFraming::of_method(&request.method), self.expected()?);
            return Ok(vec![RequestSpec { name: request.method, template, framing, expected }]);
        }
        let spec = |path: &PathBuf| {
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            let text = fs::read(path)
                .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
            RequestSpec::raw(&name, &text, address, self.expected()?).map_err(|bad| bad.to_string())
        };
        self.raw.iter().map(spec).collect()
    }

    /// A request with the fields and the version that are asked for.
    fn request(&self, method: String, body: Vec<u8>) -> Request {
        let version = if self.http_1_0 { Version::Http10 } else { Version::Http11 };
        Request { method, fields: self.headers.clone(), version, body }
    }

    fn spec_of_line(&self, line: &UrlLine) -> Result<RequestSpec, String> {
        let address = self.connect.apply(&line.address);
        let request = match &line.method {
            Some(method) => self.request(method.clone(), line.body.clone()),
            None => self.request(self.method.clone(), self.body.clone().unwrap_or_default()),
        };
        let template = request
            .render(&address, self.reuse())
            .map_err(|bad| format!("{}: {bad}", line.address))?;
        let name = format!("{} {}", request.method, address.request_target());
        let framing = ResponseFraming::of_method(&request.method);
        Ok(RequestSpec { name, template, framing, expected: self.expected()? })
    }

    /// The payload of each WebSocket message.
    fn message(&self) -> &[u8] {
        self.body.as_deref().unwrap_or(MESSAGE)
    }

    fn expected(&self) -> Result<Expected, String> {
        let written = self.expect_body.as_deref().and_then(|body| body.strip_prefix(b"sha256:"));
        let digest = written.map(|hex| units::digest(&String::from_utf8_lossy(hex))).transpose()?;
        let is_known = self.expect_body.is_some() || self.websocket.is_some();
        let unsaid = if is_known { Verify::All } else { Verify::Length };
        let verify = self.verify.unwrap_or(unsaid);
        if verify == Verify::None && self.expect_len.is_some() {
            return Err("--expect-len and --verify none exclude each other".to_owned());
        }
        if verify != Verify::All && digest.is_some() {
            return Err("--expect-body sha256:... requires --verify all".to_owned());
        }
        let echo = self.websocket.filter(|_| self.expect_len.is_none());
        let body = self.expect_body.clone().or_else(|| echo.map(|_| self.message().to_vec()));
        let body = body.filter(|_| digest.is_none());
        let mut expected = Expected::new(verify, self.expect_status.clone(), body);
        if let Some(size) = self.expect_len {
            expected = expected.of_length(size);
        }
        Ok(match digest {
            Some(digest) => expected.of_digest(digest),
            None => expected,
        })
    }

    /// A request that says so is the last of its connection, whatever the options are.
    fn reuse_of(&self, targets: &[TargetPlan]) -> Reuse {
        let mut specs = targets.iter().flat_map(|target| &target.specs);
        if specs.any(RequestSpec::asks_for_close) { Reuse::Close } else { self.reuse() }
    }

    fn reuse(&self) -> Reuse {
        match self.requests_per_conn {
            _ if self.no_keepalive => Reuse::Close,
            Some(count) => Reuse::Requests(count),
            None => Reuse::KeepAlive,
        }
    }
}
