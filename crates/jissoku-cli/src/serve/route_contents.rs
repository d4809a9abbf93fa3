//! What serves the requests of each route, collected route by route.

use std::sync::Arc;

use jissoku_proxy::policy::configuration::{Hedge, Route, RouteAction, Upstream};
use jissoku_proxy::policy::fan_out::Plan;
use jissoku_proxy::policy::redirect::Redirect;
use jissoku_proxy::policy::routes::Rule;
use jissoku_proxy::{Content, Forwarding, GatherRoute, RouteEdit, TextWithFields};
use jissoku_server::{Files, Fixed};

use super::failure::Failure;

/// The contents of routes, and what they refer to.
#[derive(Debug, Default)]
pub(super) struct RouteContents<'a> {
    pub(super) contents: Vec<Content>,
    pub(super) folders: Vec<Arc<Files>>,
    /// The names of the folders.
    opened: Vec<&'a str>,
    pub(super) texts: Vec<Arc<Fixed>>,
    pub(super) texts_with_fields: Vec<TextWithFields>,
    pub(super) redirects: Vec<Arc<Redirect>>,
    pub(super) gathers: Vec<Arc<GatherRoute>>,
    pub(super) hedges: Vec<Hedge>,
    pub(super) deadline_fields: Vec<&'a str>,
    pub(super) edits: Vec<RouteEdit>,
    /// The time for the head of a response, of routes that do not say it.
    head_ns: u64,
}

impl<'a> RouteContents<'a> {
    /// The contents of no route yet. `head_ns` is the time for the head of a response, where a route has
    /// none.
    pub(super) fn new(head_ns: u64) -> Self {
        Self { head_ns, ..Self::default() }
    }

    /// Adds the content of one of the routes, whose rule is `rule`. A folder is opened by `open`, once.
    pub(super) fn add(
        &mut self,
        (route, rule): (&'a Route, &Rule),
        upstreams: &[Upstream],
        open: impl Fn(&str) -> Result<Files, Failure>,
    ) -> Result<(), Failure> {
        let hedge = route.hedge.map(|hedge| {
            self.hedges.push(hedge);
            self.hedges.len() - 1
        });
        let deadline_field = route.deadline_field.as_deref().map(|name| {
            self.deadline_fields.push(name);
            self.deadline_fields.len() - 1
        });
        let head_ns = route.head_ns.unwrap_or(self.head_ns);
        let edit = RouteEdit {
            rewrite: rule.rewrite().cloned().unwrap_or_default(),
            request: route.request_fields.clone(),
            response: route.response_fields.clone(),
        };
        let edit = (!edit.is_empty()).then(|| {
            self.edits.push(edit);
            self.edits.len() - 1
        });
        let extras = Extras { hedge, deadline_field, edit, head_ns };
        let content = match &route.action {
            RouteAction::Folder(folder) => {
                if !self.opened.contains(&folder.as_str()) {
                    self.folders.push(Arc::new(open(folder)?));
                    self.opened.push(folder);
                }
                let place = self.opened.iter().position(|other| other == folder);
                Content::Folder(place.unwrap_or_default())
            }
            RouteAction::Fixed(text) if !route.response_fields.is_empty() => {
                let text = TextWithFields::new(text, route.response_fields.clone());
                self.texts_with_fields.push(text);
                Content::FixedWithFields(self.texts_with_fields.len() - 1)
            }
            RouteAction::Fixed(text) => {
                self.texts.push(Arc::new(Fixed::new(text)));
                Content::Fixed(self.texts.len() - 1)
            }
            RouteAction::Redirect(redirect) => {
                let fields = route.response_fields.clone();
                self.redirects.push(Arc::new(redirect.as_ref().clone().with_fields(fields)));
                Content::Redirect(self.redirects.len() - 1)
            }
            RouteAction::Forward(upstream) => {
                Content::Forward(forwarding(route, *upstream, extras))
            }
            RouteAction::App(_) => Content::App,
            RouteAction::Gather(plan) => {
                let route = gather(plan, route, upstreams, extras);
                self.gathers.push(Arc::new(route));
                Content::Gather(self.gathers.len() - 1)
            }
        };
        self.contents.push(content);
        Ok(())
    }
}

/// What a route says beyond itself.
#[derive(Clone, Copy, Debug)]
struct Extras {
    /// The index of its second copies.
    hedge: Option<usize>,
    /// The index of the field for the time that is left.
    deadline_field: Option<usize>,
    /// The index of what it changes of messages.
    edit: Option<usize>,
    /// The time for the head of a response.
    head_ns: u64,
}

fn gather(plan: &Plan, route: &Route, upstreams: &[Upstream], extras: Extras) -> GatherRoute {
    let forwardings = plan.parts.iter().map(|part| {
        let name = part.template.upstream();
        // A part that names an unknown upstream was refused when the file was read.
        let index = upstreams.iter().position(|upstream| upstream.name == name);
        forwarding(route, index.unwrap_or_default(), extras)
    });
    let fields = route.response_fields.clone();
    GatherRoute::new(plan.clone(), forwardings.collect()).with_fields(fields)
}

/// How the requests of a route are forwarded to the upstream of this index.
fn forwarding(route: &Route, upstream: usize, extras: Extras) -> Forwarding {
    let Route { try_ns, retry, collect_size, on_client_end, .. } = *route;
    let Extras { hedge, deadline_field, edit, head_ns } = extras;
    Forwarding {
        upstream,
        head_ns,
        try_ns,
        retry,
        hedge,
        collect_size,
        on_client_end,
        deadline_field,
        edit,
    }
}
