//! Threads of other processes, stopped for as long as their memory is read (`ptrace(2)`).

use std::io;
use std::ptr;

/// The event of a stop that was asked for, and of a process that is stopped (`PTRACE_EVENT_STOP`).
const EVENT_STOP: i32 = 128;

/// A thread that the calling thread traces, from when it is asked to stop.
///
/// The thread continues when this is dropped. If it has not stopped by then, it continues as if it had not been
/// asked when the calling thread ends, so that a sampler that is killed leaves nothing stopped.
#[derive(Debug)]
pub struct Tracee {
    tid: i32,
    /// The signal that it stopped for, which it gets when it continues; 0: none.
    signal: Option<i32>,
}

impl Tracee {
    /// Asks a thread to stop. It executes at most a few more instructions of its program: if it is in
    /// a system call, it stops when that ends.
    ///
    /// # Errors
    /// `EPERM` without permission, `ESRCH` if it has ended.
    pub fn interrupt(tid: i32) -> io::Result<Self> {
        request(libc::PTRACE_SEIZE, tid, 0)?;
        request(libc::PTRACE_INTERRUPT, tid, 0)?;
        Ok(Self { tid, signal: None })
    }

    /// Whether it has stopped by now.
    ///
    /// # Errors
    /// `ESRCH`: it has ended.
    pub fn is_stopped(&mut self) -> io::Result<bool> {
        if self.signal.is_some() {
            return Ok(true);
        }
        let Some(status) = wait(self.tid)? else { return Ok(false) };
        if !libc::WIFSTOPPED(status) {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        // The next signal may have been first; it is not lost.
        let is_asked = status >> 16 == EVENT_STOP;
        self.signal = Some(if is_asked { 0 } else { libc::WSTOPSIG(status) });
        Ok(true)
    }
}

impl Drop for Tracee {
    fn drop(&mut self) {
        if let Some(signal) = self.signal {
            // One that was killed meanwhile needs no more.
            let _detached = request(libc::PTRACE_DETACH, self.tid, signal);
        }
    }
}

/// The type of ptrace's requests: an enum of glibc, an int of musl.
#[cfg(not(target_env = "musl"))]
type Request = libc::c_uint;
#[cfg(target_env = "musl")]
type Request = libc::c_int;

#[expect(unsafe_code, reason = "there is no safe wrapper that keeps every signal")]
fn request(request: Request, tid: i32, data: i32) -> io::Result<()> {
    let none: *mut libc::c_void = ptr::null_mut();
    // SAFETY: none of the requests used here reads or writes memory of this process: `data` is a
    // number of a signal or of options.
    let status = unsafe { libc::ptrace(request, tid, none, libc::c_long::from(data)) };
    if status < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[expect(unsafe_code, reason = "the safe wrappers know fewer signals than the kernel")]
fn wait(tid: i32) -> io::Result<Option<i32>> {
    let mut status = 0;
    // SAFETY: the kernel writes an integer to `status`, which lives until the call returns.
    let found = unsafe { libc::waitpid(tid, &raw mut status, libc::WNOHANG | libc::__WALL) };
    match found {
        0 => Ok(None),
        found if found < 0 => Err(io::Error::last_os_error()),
        _ => Ok(Some(status)),
    }
}

/// Fills `into` from the memory of a process.
///
/// # Errors
/// `EPERM` without permission, `ESRCH` if it has ended, `EFAULT` if not all of it is mapped.
#[expect(unsafe_code, reason = "there is no safe wrapper")]
pub fn read_memory(pid: i32, address: u64, into: &mut [u8]) -> io::Result<()> {
    let length = into.len();
    let address = usize::try_from(address).map_err(|_| io::ErrorKind::InvalidInput)?;
    let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: length };
    let remote = libc::iovec { iov_base: ptr::without_provenance_mut(address), iov_len: length };
    // SAFETY: the kernel writes at most `length` bytes to `into`, which is borrowed mutably, and reads
    // those of the other process only.
    let read = unsafe { libc::process_vm_readv(pid, &raw const local, 1, &raw const remote, 1, 0) };
    match usize::try_from(read) {
        Err(_) => Err(io::Error::last_os_error()),
        Ok(read) if read < length => Err(io::Error::from_raw_os_error(libc::EFAULT)),
        Ok(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::{Child, Command};

    use super::*;

    fn spinning() -> Child {
        Command::new("sh").args(["-c", "while :; do :; done"]).spawn().expect("a shell starts")
    }

    fn state(pid: i32) -> char {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
        stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next()).expect("it has a state")
    }

    #[test]
    fn a_thread_stops_and_goes_on() {
        let mut child = spinning();
        let pid = i32::try_from(child.id()).expect("a process number");
        match Tracee::interrupt(pid) {
            Ok(mut tracee) => {
                while !tracee.is_stopped().expect("it runs") {}
                assert_eq!(state(pid), 't');
                drop(tracee);
                assert_ne!(state(pid), 't');
            }
            Err(error) => eprintln!("not allowed to stop a process here: {error}"),
        }
        child.kill().expect("it runs");
        child.wait().expect("it has ended");
        let gone = Tracee::interrupt(pid).map_err(|error| error.raw_os_error());
        assert_eq!(gone.err(), Some(Some(libc::ESRCH)));
    }

    #[test]
    fn memory_is_read_whole_or_not() {
        let own = i32::try_from(std::process::id()).expect("a process number");
        let text = *b"memory";
        let mut found = [0; 6];
        let address = text.as_ptr().addr() as u64;
        read_memory(own, address, &mut found).expect("one may read one's own memory");
        assert_eq!(found, text);
        assert!(read_memory(own, 8, &mut found).is_err());
    }
}
