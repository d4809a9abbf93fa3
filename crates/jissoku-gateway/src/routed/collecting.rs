//! Requests that are collected before they are sent to several servers.

use std::net::IpAddr;

use jissoku_http::Method;
use jissoku_server::{DynamicResponse, OwnedOrigin, RequestHead};
use jissoku_upstream::fan_out::read_batch;

use super::client_address::address_of;
use super::content::RouteContent;
use crate::client::Client;
use crate::gather::{CollectedRequest, Gathering};
use crate::handler::GatewayHandler;

/// A larger body is not broadcast: each server gets a copy of it from memory.
const BROADCAST_SIZE_MAX: usize = 64 * 1024;

/// A larger batch is refused.
const BATCH_SIZE_MAX: usize = 1024 * 1024;

/// What is done with a request when it is complete.
#[derive(Clone, Copy, Debug)]
pub(super) enum Purpose {
    /// By the route of this index.
    Broadcast(usize),
    /// By the route of this index.
    Batch(usize),
}

/// A request that is not complete yet.
#[derive(Debug)]
pub(super) struct Collecting {
    purpose: Purpose,
    pub(super) request: CollectedRequest,
}

impl Collecting {
    /// Begins with the head of a request; else the response.
    pub(super) fn begin(
        request: &RequestHead<'_>,
        purpose: Purpose,
    ) -> Result<Self, DynamicResponse> {
        let size_max = match purpose {
            Purpose::Broadcast(_) => BROADCAST_SIZE_MAX,
            Purpose::Batch(_) if request.method() != Method::Post => {
                return Err(DynamicResponse::text(405, "Allow: POST\r\n", b"Method Not Allowed\n"));
            }
            Purpose::Batch(_) => BATCH_SIZE_MAX,
        };
        Ok(Self { purpose, request: CollectedRequest::new(request, size_max) })
    }

    /// The request is complete: has its parts sent; else the response.
    pub(super) fn finish(
        &self,
        gateway: &mut GatewayHandler,
        content: &RouteContent,
        client: (&Client, Option<IpAddr>),
        now_ns: u64,
    ) -> Result<Gathering, DynamicResponse> {
        let request = &self.request;
        if request.is_too_large {
            return Err(DynamicResponse::text(413, "", b"Content Too Large\n"));
        }
        match self.purpose {
            Purpose::Broadcast(index) => {
                gateway.begin_broadcast(client.0, request, &content.broadcasts[index], now_ns)
            }
            Purpose::Batch(index) => {
                let batch = &content.batches[index];
                let items = read_batch(&request.body, &batch.policy).map_err(|error| {
                    DynamicResponse::text(400, "", format!("{error}\n").as_bytes())
                })?;
                let origin = request.origin.as_ref().map(OwnedOrigin::as_origin);
                let (head, bytes) = (&request.head, &*request.head_bytes);
                let of_client = RequestHead { head, bytes, now_ns, origin: origin.as_ref() };
                let address = address_of(&of_client, client.1);
                let routes = items
                    .iter()
                    .map(|item| content.find_part((batch, item), &of_client, address))
                    .collect();
                gateway.begin_batch(client.0, request, (&batch.plan, &items, routes), now_ns)
            }
        }
    }
}
