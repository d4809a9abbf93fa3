//! Re-execution: starts the program as it is on disk, with the listeners of this process.
//!
//! The child gets them by `sd_listen_fds(3)`, followed by a pipe on which it reports readiness. If
//! it exits before that, the pipe is closed.

use std::ffi::{CString, OsString, c_char};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::Access;
use rustix::io::Errno;
use rustix::pipe::PipeFlags;
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, WaitStatus};

use crate::inherited::FIRST;
use crate::poll;

/// The name of the pipe in `LISTEN_FDNAMES`.
pub const READY: &str = "jissoku-ready";

/// What a child writes to the pipe when it is ready.
pub const IS_READY: u8 = 1;

/// What a child writes to the pipe if it cannot start and reports the reason to its user itself.
pub const HAS_REPORTED: u8 = 2;

/// Exit code of a child that could not become the program (as in `sh(1)`).
const NOT_FOUND: i32 = 127;

/// The largest number of a signal (`signal(7)`).
const SIGNAL_MAX: i32 = 64;

/// The key of the process id, and the size of its digits and a NUL.
const PID_KEY: &[u8; 11] = b"LISTEN_PID=";
const PID_SIZE: usize = 11;

/// The program, arguments and environment of the child.
#[derive(Debug)]
pub struct ExecSpec {
    /// The file to execute.
    pub program: PathBuf,
    /// Its arguments, including the program name.
    pub arguments: Vec<OsString>,
    /// Its environment, without the variables of `sd_listen_fds(3)`.
    pub environment: Vec<(OsString, OsString)>,
}

impl ExecSpec {
    /// The program and arguments of this process. The program is looked up by name again, to find a
    /// new version.
    ///
    /// # Errors
    /// The error of reading `/proc`, or `NotFound` when the program does not exist or is not
    /// executable.
    pub fn of_this_process(environment: Vec<(OsString, OsString)>) -> io::Result<Self> {
        let line = std::fs::read("/proc/self/cmdline")?;
        let line = line.strip_suffix(b"\0").unwrap_or(&line);
        let arguments: Vec<OsString> =
            line.split(|&byte| byte == 0).map(|part| OsString::from_vec(part.to_vec())).collect();
        let name = arguments.first().map_or_else(|| Path::new(""), Path::new);
        let path = environment.iter().find(|(key, _)| key == "PATH").map(|(_, value)| value);
        let program = find(name, path).ok_or_else(|| {
            let message = format!("cannot execute {}", name.display());
            io::Error::new(io::ErrorKind::NotFound, message)
        })?;
        Ok(Self { program, arguments, environment })
    }
}

/// Looks up a program in PATH (`execvp(3)`).
fn find(name: &Path, path: Option<&OsString>) -> Option<PathBuf> {
    let is_program = |at: &Path| at.is_file() && rustix::fs::access(at, Access::EXEC_OK).is_ok();
    if name.as_os_str().as_bytes().contains(&b'/') {
        return Some(name.to_owned()).filter(|at| is_program(at));
    }
    std::env::split_paths(path?).map(|folder| folder.join(name)).find(|at| is_program(at))
}

/// Whether a child outlives the thread that has started it, and so the process of that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attachment {
    /// It receives `SIGTERM` when the thread ends, from its first instruction on.
    Attached,
    /// It continues, as a predecessor that ends wants it to.
    Detached,
}

/// The status of the child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildStatus {
    /// It is starting.
    Pending,
    /// It is ready.
    Ready,
    /// It cannot start, and has reported the reason.
    Failed,
    /// It has exited.
    Exited,
}

/// A re-executed process.
#[derive(Debug)]
pub struct ReexecChild {
    pid: Pid,
    ready: OwnedFd,
}

impl ReexecChild {
    /// Starts the child with `sockets`, which are passed by name.
    ///
    /// # Errors
    /// The error of `pipe(2)`, `dup(2)` or `fork(2)`, and `InvalidInput` for a NUL in a name. That
    /// the program cannot be executed shows in [`ReexecChild::status`].
    pub fn start(
        spec: &ExecSpec,
        sockets: &[(String, impl AsFd)],
        attachment: Attachment,
    ) -> io::Result<Self> {
        let (ready, say_ready) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        let fds = sockets.iter().map(|(_, fd)| fd.as_fd()).chain([say_ready.as_fd()]);
        let names = sockets.iter().map(|(name, _)| name.as_str()).chain([READY]);
        let prepared =
            PreparedExec::new(spec, &fds.collect::<Vec<_>>(), &names.collect::<Vec<_>>())?;
        Ok(Self { pid: prepared.spawn(attachment)?, ready })
    }

    /// Its process id.
    pub fn pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// Waits until it is ready or has exited.
    pub fn status(&self) -> ChildStatus {
        let mut message = [0; 1];
        match rustix::io::read(&self.ready, &mut message) {
            Ok(0) => ChildStatus::Exited,
            Ok(_) if message == [HAS_REPORTED] => ChildStatus::Failed,
            Ok(_) => ChildStatus::Ready,
            Err(_) => ChildStatus::Pending,
        }
    }

    /// Receives what the child has written to its pipe: once it is ready, whatever it says beyond
    /// that. 0 is the end. Waits unless the pipe is readable.
    ///
    /// # Errors
    /// The error of `read(2)`.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::read(&self.ready, buffer)?)
    }

    /// Ends a child that has closed its pipe, and gives it until `patience` is over to exit by itself:
    /// it may not have said yet why it ends.
    ///
    /// # Errors
    /// The error of `pidfd_open(2)`, `poll(2)` or `waitpid(2)`.
    pub fn end_within(self, patience: Duration) -> io::Result<String> {
        let waited = self.exit_fd().and_then(|exit| poll::is_readable_within(&exit, patience));
        let how = self.end()?;
        waited.map(|_| how)
    }

    /// Kills the child, if it is running, and returns its exit status as text.
    ///
    /// # Errors
    /// The error of `waitpid(2)`.
    pub fn end(self) -> io::Result<String> {
        // It may have exited already.
        let _ended = rustix::process::kill_process(self.pid, Signal::KILL);
        loop {
            match rustix::process::waitpid(Some(self.pid), WaitOptions::empty()) {
                Ok(Some((_, status))) => return Ok(describe(status)),
                Ok(None) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn describe(status: WaitStatus) -> String {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (_, Some(signal)) => format!("signal {signal}"),
        _ => "an unknown status".to_owned(),
    }
}

/// How a child has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChildExit {
    /// Its exit code, unless a signal ended it.
    pub code: Option<i32>,
    /// The same as text.
    pub description: String,
}

impl ReexecChild {
    /// A descriptor that becomes readable when the child exits (`pidfd_open(2)`).
    ///
    /// # Errors
    /// The error of `pidfd_open(2)`.
    pub fn exit_fd(&self) -> io::Result<OwnedFd> {
        Ok(rustix::process::pidfd_open(self.pid, PidfdFlags::empty())?)
    }

    /// Sends `SIGHUP`.
    ///
    /// # Errors
    /// The error of `kill(2)`.
    pub fn drain(&self) -> io::Result<()> {
        Ok(rustix::process::kill_process(self.pid, Signal::HUP)?)
    }

    /// Sends `SIGUSR2`.
    ///
    /// # Errors
    /// The error of `kill(2)`.
    pub fn hand_over(&self) -> io::Result<()> {
        Ok(rustix::process::kill_process(self.pid, Signal::USR2)?)
    }

    /// Sends `SIGTERM`.
    ///
    /// # Errors
    /// The error of `kill(2)`.
    pub fn stop(&self) -> io::Result<()> {
        Ok(rustix::process::kill_process(self.pid, Signal::TERM)?)
    }

    /// Sends the signal of this number.
    ///
    /// # Errors
    /// The error of `kill(2)`, and `InvalidInput` for a number that is no signal.
    pub fn send_signal(&self, number: i32) -> io::Result<()> {
        let signal = Signal::from_named_raw(number).ok_or(io::ErrorKind::InvalidInput)?;
        Ok(rustix::process::kill_process(self.pid, signal)?)
    }

    /// Sends `SIGABRT`, on which an interpreter writes its stacks (`faulthandler`).
    ///
    /// # Errors
    /// The error of `kill(2)`.
    pub fn abort(&self) -> io::Result<()> {
        Ok(rustix::process::kill_process(self.pid, Signal::ABORT)?)
    }

    /// Sends `SIGKILL`.
    ///
    /// # Errors
    /// The error of `kill(2)`.
    pub fn kill(&self) -> io::Result<()> {
        Ok(rustix::process::kill_process(self.pid, Signal::KILL)?)
    }

    /// Waits until the child has exited.
    ///
    /// # Errors
    /// The error of `waitpid(2)`.
    pub fn wait(self) -> io::Result<ChildExit> {
        loop {
            match rustix::process::waitpid(Some(self.pid), WaitOptions::empty()) {
                Ok(Some((_, status))) => {
                    let code = status.exit_status();
                    return Ok(ChildExit { code, description: describe(status) });
                }
                Ok(None) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Reaps a child of this process that has exited, whichever it is. Does not wait.
pub fn reap_any() -> Option<(i32, ChildExit)> {
    let (pid, status) = rustix::process::wait(WaitOptions::NOHANG).ok()??;
    let exit = ChildExit { code: status.exit_status(), description: describe(status) };
    Some((pid.as_raw_nonzero().get(), exit))
}

impl AsFd for ReexecChild {
    /// Becomes readable when its status changes.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ready.as_fd()
    }
}

/// Everything the child needs, allocated before the fork: after it, allocation is not allowed.
#[derive(Debug)]
struct PreparedExec {
    program: CString,
    arguments: Vec<CString>,
    environment: Vec<CString>,
    /// Numbered above their final numbers.
    fds: Vec<OwnedFd>,
}

impl PreparedExec {
    fn new(spec: &ExecSpec, fds: &[BorrowedFd<'_>], names: &[&str]) -> io::Result<Self> {
        let above = FIRST + RawFd::try_from(fds.len()).map_err(io::Error::other)?;
        let duplicate = |fd: &BorrowedFd<'_>| rustix::io::fcntl_dupfd_cloexec(fd, above);
        let text = |text: &[u8]| CString::new(text).map_err(io::Error::from);
        let mut environment = vec![
            text(format!("LISTEN_FDS={}", fds.len()).as_bytes())?,
            text(format!("LISTEN_FDNAMES={}", names.join(":")).as_bytes())?,
        ];
        for (key, value) in &spec.environment {
            if !key.as_bytes().starts_with(b"LISTEN_") {
                environment.push(text(&[key.as_bytes(), b"=", value.as_bytes()].concat())?);
            }
        }
        let arguments = spec.arguments.iter().map(|argument| text(argument.as_bytes()));
        Ok(Self {
            program: text(spec.program.as_os_str().as_bytes())?,
            arguments: arguments.collect::<io::Result<_>>()?,
            environment,
            fds: fds.iter().map(duplicate).collect::<Result<_, _>>()?,
        })
    }

    #[expect(unsafe_code, reason = "the child has to set LISTEN_PID between fork and exec")]
    fn spawn(&self, attachment: Attachment) -> io::Result<Pid> {
        let pointers = |texts: &[CString]| texts.iter().map(|text| text.as_ptr()).collect();
        let mut arguments: Vec<*const c_char> = pointers(&self.arguments);
        arguments.push(std::ptr::null());
        let mut pid_text = [0; PID_KEY.len() + PID_SIZE];
        let mut environment: Vec<*const c_char> = pointers(&self.environment);
        let pid_index = environment.len();
        let parent = rustix::process::getpid();
        // Slots for LISTEN_PID, which only the child knows, and for the end of the list.
        environment.extend([std::ptr::null(); 2]);
        // The child makes system calls and touches memory that was made ready above, and nothing
        // else, until it executes or exits: it allocates nothing and takes no lock.
        if let Some(pid) = fork_without_handlers()? {
            return Ok(pid);
        }
        if attachment == Attachment::Attached && !attach(parent) {
            // SAFETY: nothing is to run at the end of a process that never was one of its own.
            unsafe { libc::_exit(NOT_FOUND) };
        }
        for (fd, number) in self.fds.iter().zip(FIRST..) {
            // SAFETY: both are plain numbers; whatever was open under the second is not used any
            // more.
            unsafe { libc::dup2(fd.as_raw_fd(), number) };
        }
        write_pid(&mut pid_text);
        // Taken after writing, because a later `&mut` would invalidate the pointer.
        environment[pid_index] = pid_text.as_ptr().cast();
        // SAFETY: the strings end in NUL and the lists in a null pointer, and all of them are
        // alive.
        unsafe {
            libc::execve(self.program.as_ptr(), arguments.as_ptr(), environment.as_ptr());
        }
        // SAFETY: nothing is to run at the end of a process that never was one of its own.
        unsafe { libc::_exit(NOT_FOUND) }
    }
}

/// Has the kernel send `SIGTERM` to this child when the thread that has forked it ends; returns
/// whether the parent is still there. It holds for the program that the child executes, too.
fn attach(parent: Pid) -> bool {
    // The error is ignored: a worker also watches the pipe to its parent.
    let _requested = rustix::process::set_parent_process_death_signal(Some(Signal::TERM));
    rustix::process::getppid() == Some(parent)
}

/// Forks; returns `None` in the child, which may only make system calls. It has the default actions
/// for all signals with a handler, from its first instruction on: a handler of this process would
/// write to the sockets that the child has inherited, and this process would take its signal for
/// one of its own.
#[expect(unsafe_code, reason = "there is no safe function for a fork or an action")]
fn fork_without_handlers() -> io::Result<Option<Pid>> {
    // SAFETY: all bits 0 are a valid set of signals, and a valid action.
    let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = unsafe { std::mem::zeroed() };
    // SAFETY: it is a local variable.
    unsafe { libc::sigfillset(&raw mut all) };
    // SAFETY: both are local variables, and set.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before) };
    // SAFETY: the child makes system calls only, as the caller has to.
    let child = unsafe { libc::fork() };
    let error = io::Error::last_os_error();
    if child == 0 {
        (1..=SIGNAL_MAX).for_each(reset_handler);
    }
    // SAFETY: `before` was set above. What was blocked meanwhile is delivered now.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut()) };
    if child < 0 { Err(error) } else { Ok(Pid::from_raw(child)) }
}

/// Sets the default action of a signal that has a handler; one that is ignored stays so.
#[expect(unsafe_code, reason = "there is no safe function for an action")]
fn reset_handler(signal: i32) {
    // SAFETY: all bits 0 are a valid `sigaction`.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is that of a local variable; a number without a signal is an error.
    let found = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) };
    if found == 0 && ![libc::SIG_DFL, libc::SIG_IGN].contains(&action.sa_sigaction) {
        action.sa_sigaction = libc::SIG_DFL;
        // SAFETY: as above; the default action has no precondition.
        unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
    }
}

/// Formats `LISTEN_PID=` and the id of this process, without allocating.
fn write_pid(text: &mut [u8; PID_KEY.len() + PID_SIZE]) {
    text[..PID_KEY.len()].copy_from_slice(PID_KEY);
    let mut digits = [0; PID_SIZE];
    let mut left = std::process::id();
    let mut start = PID_SIZE - 1;
    while left > 0 {
        start -= 1;
        digits[start] = b'0' + (left % 10) as u8;
        left /= 10;
    }
    let size = PID_SIZE - start;
    text[PID_KEY.len()..][..size].copy_from_slice(&digits[start..]);
}

#[cfg(test)]
mod tests;
