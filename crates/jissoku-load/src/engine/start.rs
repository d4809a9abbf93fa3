//! A start at a time that is given, so that several load generators start together.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::AsFd;

use jissoku_os::clock;
use jissoku_os::epoll::{self, Epoll, Interest};

use crate::engine::control::{Control, RunError, Starter};

/// The longest line: twenty digits and its end, with room for spaces.
const LINE_MAX: usize = 64;

/// Says that all workers are connected, waits for the time of the start, and returns how far it is
/// ahead in nanoseconds.
pub(crate) fn await_start(starter: Starter<'_>, control: Control<'_>) -> Result<u64, RunError> {
    (starter.on_armed)();
    let line = read_line(starter, control)?;
    let start_ns: u64 = line
        .trim()
        .parse()
        .map_err(|_| RunError::NotStarted { reason: "its time is no number of nanoseconds" })?;
    start_ns
        .checked_sub(clock::monotonic_ns())
        .ok_or(RunError::NotStarted { reason: "its time had passed when it came" })
}

/// Reads up to the end of a line, unless the run is interrupted before.
fn read_line(starter: Starter<'_>, control: Control<'_>) -> Result<String, RunError> {
    let epoll = Epoll::new()?;
    epoll.add(control.interrupt, 0, Interest::IN)?;
    epoll.add(starter.line.as_fd(), 1, Interest::IN)?;
    let mut pipe = File::from(starter.line.try_clone_to_owned()?);
    let (mut event, mut line, mut part) = ([epoll::no_event()], String::new(), [0; LINE_MAX]);
    while !line.ends_with('\n') {
        if epoll.wait(&mut event, None)? == 0 {
            continue;
        }
        if event[0].data.u64() == 0 {
            return Err(RunError::Interrupted);
        }
        let count = match pipe.read(&mut part) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        line.push_str(&String::from_utf8_lossy(&part[..count]));
        if count == 0 || line.len() > LINE_MAX {
            return Err(RunError::NotStarted { reason: "there was no line with its time" });
        }
    }
    Ok(line)
}
