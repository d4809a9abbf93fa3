//! Compares what a client has received with what it has sent.

use super::plan::{End, Plan};

/// Checks the bytes that the client of `plans` has received. `upgraded` is what it has sent behind
/// the request that upgrades the connection, if there is one. Returns whether the connection
/// persists.
///
/// # Errors
/// What is wrong.
pub(super) fn check(
    plans: &[Plan],
    received: &[u8],
    upgraded: &[u8],
    ending: Ending,
) -> Result<bool, String> {
    let mut rest = received;
    let (was_reset, was_hurried) = (ending != Ending::Whole, ending == Ending::Hurried);
    if ending == Ending::Reset && !plans.iter().any(|plan| plan.end == End::Reset) {
        return Err(format!("a reset without a reason: {plans:?}"));
    }
    for plan in plans {
        let outcome = check_one(plan, &mut rest);
        match outcome {
            _ if was_reset && rest.is_empty() => return Ok(false),
            // Its request took too long.
            Err(what) if was_hurried && what == "status 408" => {
                let _text = take_until(&mut rest, b"\n");
                return if b"Request Timeout".starts_with(rest) { Ok(false) } else { end(rest) };
            }
            Err(what) => {
                let text = String::from_utf8_lossy(received);
                return Err(format!("{what}: {plan:?}, in {text:?}"));
            }
            Ok(_) if plan.end == End::Upgrade => {
                let is_echo = rest == upgraded || (was_reset && upgraded.starts_with(rest));
                return if is_echo { Ok(false) } else { Err("an upgrade lacks bytes".to_owned()) };
            }
            Ok(Last::Yes) if plan.may_close() || was_hurried => return end(rest),
            Ok(Last::No) if plan.is_last() => return Err(format!("{} persists", plan.id)),
            Ok(Last::Yes) => return Err(format!("{} closes", plan.id)),
            Ok(Last::No) => {}
        }
    }
    end(rest).map(|_| true)
}

/// How a connection may have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// Each request has its response.
    Whole,
    /// The last response may be incomplete, because of a handler that resets the connection.
    Reset,
    /// Any request may be the last one, with an incomplete response or without one: time has passed, a
    /// shutdown has begun, or the client has gone.
    Hurried,
}

/// Whether a response is the last one.
enum Last {
    Yes,
    No,
}

fn end(rest: &[u8]) -> Result<bool, String> {
    if rest.is_empty() {
        return Ok(false);
    }
    Err(format!("more than one response each: {:?}", String::from_utf8_lossy(rest)))
}

/// Checks one response at the start of `rest`, which is then behind it.
fn check_one(plan: &Plan, rest: &mut &[u8]) -> Result<Last, String> {
    let (head, status) = loop {
        let Some(head) = take_until(rest, b"\r\n\r\n") else {
            *rest = b"";
            return Err("no response".to_owned());
        };
        let head = str::from_utf8(head).map_err(|_| "no head".to_owned())?;
        match head.get(..12) {
            Some("HTTP/1.1 100") => {}
            Some(line) => break (head, &line[9..]),
            None => return Err("no status".to_owned()),
        }
    };
    if status != plan.status().to_string() {
        return Err(format!("status {status}"));
    }
    let last = if head.contains("\r\nConnection: close\r\n") { Last::Yes } else { Last::No };
    if plan.end == End::Upgrade || plan.is_head() {
        return Ok(last);
    }
    if plan.status() != 200 {
        // A short text with a length.
        if take_until(rest, b"\n").is_none() {
            *rest = b"";
            return Err("no text".to_owned());
        }
        return Ok(last);
    }
    let text = dechunk(rest)?;
    if text == plan.text() { Ok(last) } else { Err(format!("text {text:?}")) }
}

/// Takes what ends in `end`.
fn take_until<'a>(rest: &mut &'a [u8], end: &[u8]) -> Option<&'a [u8]> {
    let place = rest.windows(end.len()).position(|window| window == end)?;
    let (taken, next) = rest.split_at(place + end.len());
    *rest = next;
    Some(taken)
}

fn dechunk(rest: &mut &[u8]) -> Result<String, String> {
    let mut text = String::new();
    loop {
        let cut = || "the response is cut".to_owned();
        let line = take_until(rest, b"\r\n").map(str::from_utf8);
        let Some(Ok(line)) = line else {
            *rest = b"";
            return Err(cut());
        };
        let size =
            usize::from_str_radix(line.trim_end(), 16).map_err(|_| format!("chunk {line:?}"))?;
        if rest.len() < size + 2 {
            *rest = b"";
            return Err(cut());
        }
        let (chunk, next) = rest.split_at(size);
        text.push_str(&String::from_utf8_lossy(chunk));
        *rest = next.strip_prefix(b"\r\n").ok_or_else(|| format!("chunk {line:?}"))?;
        if size == 0 {
            return Ok(text);
        }
    }
}
