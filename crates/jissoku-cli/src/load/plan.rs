//! From the command line of `load` to a plan.

use std::fs;
use std::path::PathBuf;

use jissoku_load::{
    Address, Driver, Expected, Idle, LanePlan, OnBusy, Plan, Request, Reuse, Shape, Think,
    Timepiece, Until, Verify, Version,
};
use jissoku_os::{clock, core, uring};

use super::{BusyChoice, ClockChoice, DriverChoice, IdleChoice, Load, VerifyChoice};
use crate::units;

const SECOND_NS: u64 = 1_000_000_000;

/// What `-d` is when neither it nor `-n` is given.
const DURATION_NS: u64 = 10 * SECOND_NS;

/// What `--warmup` is with `-d`.
const WARMUP_NS: u64 = SECOND_NS / 10 * 3;

impl Load {
    /// What is asked for, or the sentence that says what is wrong with it.
    pub(crate) fn plan(self) -> Result<Plan, String> {
        if self.watch.len() > self.urls.len() {
            let (watched, urls) = (self.watch.len(), self.urls.len());
            return Err(format!("{watched} processes are to be watched behind {urls} URLs"));
        }
        self.connect.check(&self.urls)?;
        if let Some(status) = self.expect_status.iter().find(|code| !(200..600).contains(*code)) {
            return Err(format!("{status} is no status that ends an exchange: 200 to 599 are"));
        }
        self.tls.check(&self.urls)?;
        let allowed = core::allowed().map_err(|error| format!("no core may be used: {error}"))?;
        if let Some(foreign) = self.cores.iter().flatten().find(|core| !allowed.contains(core)) {
            return Err(format!("core {foreign} is not among those we may use: {allowed:?}"));
        }
        if self.driver == DriverChoice::Uring && !uring::is_available() {
            return Err("this kernel gives us no io_uring: leave --driver out".to_owned());
        }
        let lanes = self.lanes()?;
        let is_paced_duet = self.rate.is_some() && lanes.len() > 1;
        let idle = match self.idle {
            Some(IdleChoice::Spin) => Idle::Spin,
            Some(IdleChoice::Hybrid) => Idle::Hybrid,
            None if is_paced_duet => Idle::Spin,
            Some(IdleChoice::Block) | None => Idle::Block,
        };
        let counted = self.requests.is_some() || self.arrival.is_trace();
        let (pace, arrival) = self.arrival.clone().at(self.rates())?;
        let plan = Plan {
            lanes,
            connections: self.most_connections(),
            threads: self.threads(allowed.len()),
            pipeline: self.pipeline,
            pace,
            arrival,
            on_busy: self.on_busy()?,
            deadline_ns: self.deadline,
            reuse: self.reuse(),
            think: self.think.unwrap_or(Think::Never),
            ramp_up_ns: self.ramp_up,
            warmup_ns: self.warmup.unwrap_or(if counted { 0 } else { WARMUP_NS }),
            until: Until {
                duration_ns: self.duration.or((!counted).then_some(DURATION_NS)),
                requests: self.requests,
            },
            timeout_ns: self.timeout,
            driver: match self.driver {
                DriverChoice::Auto | DriverChoice::Epoll => Driver::Epoll,
                DriverChoice::Uring => Driver::Uring,
            },
            clock: match self.clock {
                ClockChoice::Tsc => Timepiece::Best,
                ClockChoice::Monotonic => Timepiece::Kernel,
                ClockChoice::Batch => Timepiece::Batch,
            },
            buffering: self.connect.buffering(),
            keeps_entries: self.raw_log.is_some(),
            idle,
            seed: self.seed.unwrap_or_else(clock::monotonic_ns),
            local: self.connect.local_addr,
            cores: self.cores.unwrap_or_default(),
        };
        plan.check().map_err(|bad| bad.to_string())?;
        Ok(plan)
    }

    /// Of a series it is the most that is asked for, and each measurement has its own.
    fn most_connections(&self) -> usize {
        self.connections.iter().copied().max().unwrap_or(0)
    }

    fn threads(&self, allowed: usize) -> usize {
        let fewest = self.connections.iter().copied().min().unwrap_or(1);
        let cores = self.cores.as_ref().map_or(allowed / 2, Vec::len);
        self.threads.unwrap_or_else(|| cores.clamp(1, fewest.max(1)))
    }

    fn rates(&self) -> Option<(u64, u64)> {
        self.rate.or_else(|| self.series.first_rps().map(|rate_rps| (rate_rps, rate_rps)))
    }

    fn on_busy(&self) -> Result<OnBusy, String> {
        if self.max_connections.is_some() && self.on_busy != BusyChoice::Open {
            return Err("--max-connections goes with --on-busy open".to_owned());
        }
        let connections_max =
            self.max_connections.unwrap_or(self.most_connections().saturating_mul(10));
        Ok(match self.on_busy {
            BusyChoice::Queue => OnBusy::Queue,
            BusyChoice::Drop => OnBusy::Drop,
            BusyChoice::Open => OnBusy::Open { connections_max },
        })
    }

    fn lanes(&self) -> Result<Vec<LanePlan>, String> {
        let lane = |(number, address): (usize, &Address)| {
            let address = self.connect.lead(address);
            let shapes = self.shapes(&address)?;
            let tls = self.tls.towards(&address)?;
            Ok(LanePlan { tls, shapes, watch: self.watch.get(number).copied(), address })
        };
        self.urls.iter().enumerate().map(lane).collect()
    }

    /// What is sent to one URL.
    fn shapes(&self, address: &Address) -> Result<Vec<Shape>, String> {
        if self.raw.is_empty() {
            let request = Request {
                method: self.method.clone(),
                fields: self.headers.clone(),
                version: if self.http_1_0 { Version::Http10 } else { Version::Http11 },
                body: self.body.clone().unwrap_or_default(),
            };
            let wire = request.render(address, self.reuse()).map_err(|bad| bad.to_string())?;
            let (head_only, expected) = (request.is_head(), self.expected()?);
            return Ok(vec![Shape { name: request.method, wire, head_only, expected }]);
        }
        let shape = |path: &PathBuf| {
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            let text = fs::read(path)
                .map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
            Shape::raw(&name, &text, address, self.expected()?).map_err(|bad| bad.to_string())
        };
        self.raw.iter().map(shape).collect()
    }

    fn expected(&self) -> Result<Expected, String> {
        let written = self.expect_body.as_deref().and_then(|body| body.strip_prefix(b"sha256:"));
        let digest = written.map(|hex| units::digest(&String::from_utf8_lossy(hex))).transpose()?;
        let unsaid =
            if self.expect_body.is_some() { VerifyChoice::All } else { VerifyChoice::Length };
        let verify = match self.verify.unwrap_or(unsaid) {
            VerifyChoice::None => Verify::None,
            VerifyChoice::Length => Verify::Length,
            VerifyChoice::All => Verify::All,
        };
        if verify == Verify::None && self.expect_len.is_some() {
            return Err("--expect-len and --verify none exclude each other".to_owned());
        }
        if verify != Verify::All && digest.is_some() {
            return Err("--expect-body sha256:... goes with --verify all".to_owned());
        }
        let body = self.expect_body.clone().filter(|_| digest.is_none());
        let mut expected = Expected::new(verify, self.expect_status.clone(), body);
        if let Some(size) = self.expect_len {
            expected = expected.of_length(size);
        }
        Ok(match digest {
            Some(digest) => expected.of_digest(digest),
            None => expected,
        })
    }

    fn reuse(&self) -> Reuse {
        match self.requests_per_conn {
            _ if self.no_keepalive => Reuse::Close,
            Some(count) => Reuse::Requests(count),
            None => Reuse::KeepAlive,
        }
    }
}
