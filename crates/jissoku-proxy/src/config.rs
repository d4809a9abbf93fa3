//! What all workers share: the servers to forward to, and how long they may take.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::IpAddr;
use std::sync::mpsc::Sender;
use std::sync::{Arc, OnceLock};

use jissoku_http::response_reader::RESPONSE_LIMITS;
use jissoku_server::{SecureListeners, TrustedProxies};

use crate::policy::configuration::{self, ClientEnd};
use crate::policy::fields::FieldRules;
use crate::policy::retry::{Budget, HedgeAfter, RetryPolicy};
use crate::policy::routes::{Rewrite, Rule};
use crate::server_set::{UpstreamGroup, UpstreamOptions};
use crate::target::Target;
use crate::{prober, resolver};

/// Bytes of bodies of gathered responses that a worker holds at most, unless it is said otherwise.
const GATHER_MEMORY: usize = 64 * 1024 * 1024;

/// A reverse proxy. Handlers read its fields, which do not change once workers use it.
#[derive(Debug)]
pub struct Gateway {
    pub(crate) upstreams: Vec<Arc<UpstreamGroup>>,
    pub(crate) timeouts: Timeouts,
    /// The name of this instance in Via, by which loops are noticed; a random one unless it is set. No
    /// other gateway that its requests pass may have it.
    pub via_name: Box<str>,
    /// The listeners whose clients use TLS.
    pub secure_listeners: SecureListeners,
    /// Referred to by [`Forwarding::hedge`].
    pub(crate) hedges: Vec<Hedge>,
    /// Referred to by [`Forwarding::deadline_field`].
    pub(crate) deadline_fields: Vec<Box<str>>,
    /// Referred to by [`Forwarding::edit`].
    pub(crate) edits: Vec<RouteEdit>,
    /// The index of what is changed of all requests without routes, and of their responses.
    pub(crate) common_edit: Option<usize>,
    /// Clients whose responses say how their requests were forwarded: Proxy-Status (RFC 9209), and
    /// times of its phases in Server-Timing.
    pub diagnostics_for: TrustedProxies,
    /// Bytes of bodies of gathered responses that a worker holds at most. Beyond it, requests are
    /// refused, and parts that are received fail.
    pub gather_memory: usize,
    /// Fields of a response of a server, at most.
    pub fields_max: u32,
    /// The threads that check servers and resolve names, which end when this is dropped.
    helpers: OnceLock<Vec<Sender<()>>>,
}

/// How one request is forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forwarding {
    /// The index of its upstream.
    pub upstream: usize,
    /// The time from the end of the request to the head of the response, in nanoseconds.
    pub head_ns: u64,
    /// The part of it after which another server is tried.
    pub try_ns: Option<u64>,
    /// When a request is sent again.
    pub retry: RetryPolicy,
    /// The index of what is said about second copies of late requests, if there are some.
    pub hedge: Option<usize>,
    /// Up to this size, the body of a request is collected before a server is chosen: it can be
    /// repeated, and a slow client does not occupy the server.
    pub collect_size: u64,
    /// What becomes of a request whose client has left.
    pub on_client_end: ClientEnd,
    /// The index of the field in which a server gets the time that is left, if it gets it.
    pub deadline_field: Option<usize>,
    /// The index of what is changed of messages, if something is.
    pub edit: Option<usize>,
}

/// What a route changes of its messages.
#[derive(Clone, Debug, Default)]
pub struct RouteEdit {
    /// The path that a server gets.
    pub rewrite: Rewrite,
    /// The fields of requests.
    pub request: FieldRules,
    /// The fields of responses.
    pub response: FieldRules,
}

impl RouteEdit {
    /// Whether nothing is changed.
    pub fn is_empty(&self) -> bool {
        self.rewrite == Rewrite::default() && self.request.is_empty() && self.response.is_empty()
    }
}

/// When second copies of a route's requests are sent. Handlers read its fields, which do not change.
#[derive(Debug)]
pub(crate) struct Hedge {
    pub(crate) after: HedgeAfter,
    /// Shared by all workers.
    pub(crate) budget: Budget,
}

/// How long the upstream server may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// To accept a connection, in nanoseconds.
    pub connect_ns: u64,
    /// From the end of the request to the head of the response.
    pub head_ns: u64,
    /// Between two parts of a response.
    pub read_ns: u64,
    /// How long an unused connection is kept. It should be less than the server keeps it, so that
    /// requests do not arrive at a connection that is being closed.
    pub idle_ns: u64,
    /// How long a tunnel is kept in which nothing is sent in either direction.
    pub tunnel_ns: u64,
}

impl Timeouts {
    /// The defaults. Node, uvicorn and httpd close unused connections after 5 s.
    pub const DEFAULT: Self = Self {
        connect_ns: 1_000_000_000,
        head_ns: 60_000_000_000,
        read_ns: 60_000_000_000,
        idle_ns: 4_000_000_000,
        tunnel_ns: 3_600_000_000_000,
    };
}

impl Default for Timeouts {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl Forwarding {
    /// As without routes.
    pub fn new(upstream: usize, head_ns: u64) -> Self {
        Self {
            upstream,
            head_ns,
            try_ns: None,
            retry: RetryPolicy::default(),
            hedge: None,
            collect_size: configuration::COLLECT_SIZE,
            on_client_end: ClientEnd::default(),
            deadline_field: None,
            edit: None,
        }
    }
}

impl Gateway {
    /// Forwards all requests to `target`.
    pub fn new(target: Target, timeouts: Timeouts) -> Self {
        let options = UpstreamOptions::new(timeouts.idle_ns);
        Self::of(vec![UpstreamGroup::unnamed(vec![target], options)], timeouts)
    }

    /// Forwards to several upstreams, by the [`Forwarding`] of each request.
    pub fn of(upstreams: Vec<UpstreamGroup>, timeouts: Timeouts) -> Self {
        let upstreams = upstreams.into_iter().map(Arc::new).collect();
        Self {
            upstreams,
            timeouts,
            via_name: format!("jissoku-{:010x}", RandomState::new().hash_one(()) >> 24).into(),
            secure_listeners: SecureListeners::default(),
            hedges: Vec::new(),
            deadline_fields: Vec::new(),
            edits: Vec::new(),
            common_edit: None,
            diagnostics_for: TrustedProxies::default(),
            gather_memory: GATHER_MEMORY,
            fields_max: RESPONSE_LIMITS.fields_count_max,
            helpers: OnceLock::new(),
        }
    }

    /// How the requests of a route are forwarded to its upstream.
    pub fn add_route(
        &mut self,
        route: &configuration::Route,
        rule: &Rule,
        upstream: usize,
    ) -> Forwarding {
        let edit = RouteEdit {
            rewrite: rule.rewrite.clone().unwrap_or_default(),
            request: route.request_fields.clone(),
            response: route.response_fields.clone(),
        };
        let deadline_field = route.deadline_field.as_deref();
        Forwarding {
            upstream,
            head_ns: route.head_ns.unwrap_or(self.timeouts.head_ns),
            try_ns: route.try_ns,
            retry: route.retry,
            hedge: route.hedge.map(|hedge| self.add_hedge(hedge)),
            collect_size: route.collect_size,
            on_client_end: route.on_client_end,
            deadline_field: deadline_field.map(|name| push(&mut self.deadline_fields, name.into())),
            edit: self.add_edit(edit),
        }
    }

    pub(crate) fn add_hedge(&mut self, hedge: configuration::Hedge) -> usize {
        let configuration::Hedge { after, budget } = hedge;
        push(&mut self.hedges, Hedge { after, budget: Budget::new(budget) })
    }

    /// Changes all requests and their responses, if there are no routes.
    pub fn edit_all(&mut self, edit: RouteEdit) {
        self.common_edit = self.add_edit(edit);
    }

    /// The index for [`Forwarding::edit`], if something is changed.
    pub fn add_edit(&mut self, edit: RouteEdit) -> Option<usize> {
        (!edit.is_empty()).then(|| push(&mut self.edits, edit))
    }

    /// Whether responses to a client say how its request was forwarded; `None` is one of a Unix socket.
    pub(crate) fn is_diagnosed(&self, client: Option<IpAddr>) -> bool {
        !self.diagnostics_for.is_empty() && self.diagnostics_for.trusts(client)
    }

    /// Starts the threads that check servers and resolve names, unless they are under way.
    pub(crate) fn start_helpers(&self) -> io::Result<()> {
        if self.helpers.get().is_none() {
            let mut started = Vec::new();
            for upstream in &self.upstreams {
                started.extend(prober::start(upstream)?);
                started.extend(resolver::start(upstream)?);
            }
            // Those of another worker that was faster are as good, and these end.
            let _surplus = self.helpers.set(started);
        }
        Ok(())
    }

    /// The upstream of this name.
    pub fn upstream(&self, name: &str) -> Option<&UpstreamGroup> {
        self.upstreams.iter().map(|upstream| &**upstream).find(|upstream| upstream.name() == name)
    }

    /// Lets the workers of `old`, which serve their last requests after a reload, use the servers of
    /// this one: those that were removed may be stopped.
    pub fn take_over(&self, old: &Self) {
        for upstream in &old.upstreams {
            if let Some(next) = self.upstream(upstream.name()) {
                if next.options.policy.health.is_none() {
                    next.forget_probes();
                }
                next.replace(upstream);
            }
        }
    }
}

/// Returns the index of what is added.
fn push<T>(all: &mut Vec<T>, one: T) -> usize {
    all.push(one);
    all.len() - 1
}
