#![expect(unsafe_code, reason = "signals of a forked child are raised")]

use super::*;
use crate::signal::Signals;

const PATIENCE: Duration = Duration::from_mins(1);

fn spec(program: &str, arguments: &[&str]) -> ExecSpec {
    let arguments = arguments.iter().map(OsString::from).collect();
    let environment = vec![("KEPT".into(), "yes".into()), ("LISTEN_FDS".into(), "9".into())];
    ExecSpec { program: program.into(), arguments, environment }
}

fn start(spec: &ExecSpec) -> ReexecChild {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    ReexecChild::start(spec, &[("web".to_owned(), listener)], Attachment::Detached)
        .expect("a process")
}

#[test]
fn the_child_knows_what_it_was_given() {
    let script = "test $LISTEN_PID = $$ && test $LISTEN_FDS = 2 && test $KEPT = yes \
                  && test $LISTEN_FDNAMES = web:jissoku-ready && test -S /dev/fd/3 \
                  && echo >&4 && exec 4>&- && exit 7";
    let child = start(&spec("/bin/sh", &["sh", "-c", script]));
    assert_eq!(child.status(), ChildStatus::Ready);
    assert_eq!(child.status(), ChildStatus::Exited);
    assert_eq!(child.end_within(PATIENCE).expect("it is our child"), "exit code 7");
}

#[test]
fn a_program_that_cannot_be_executed_ends_at_once() {
    let child = start(&spec("/nowhere/at/all", &["x"]));
    assert_eq!(child.status(), ChildStatus::Exited);
    assert_eq!(child.end_within(PATIENCE).expect("it is our child"), "exit code 127");
}

#[test]
fn a_child_that_has_closed_its_pipe_may_say_why_and_exit() {
    let child = start(&spec("/bin/sh", &["sh", "-c", "exec 4>&-; sleep 0.2; exit 3"]));
    assert_eq!(child.status(), ChildStatus::Exited);
    assert_eq!(child.end_within(PATIENCE).expect("it is our child"), "exit code 3");
    let child = start(&spec("/bin/sh", &["sh", "-c", "exec 4>&-; exec sleep 600"]));
    assert_eq!(child.end_within(Duration::ZERO).expect("it is our child"), "signal 9");
}

#[test]
fn one_that_says_nothing_is_ended() {
    let child = start(&spec("/bin/sh", &["sh", "-c", "exec sleep 600"]));
    assert!(child.pid() > 1);
    assert_eq!(child.end().expect("it is our child"), "signal 9");
}

#[test]
fn programs_are_found_as_a_shell_finds_them() {
    assert_eq!(find(Path::new("/bin/sh"), None), Some("/bin/sh".into()));
    assert_eq!(find(Path::new("sh"), Some(&"/nowhere:/bin".into())), Some("/bin/sh".into()));
    assert_eq!(find(Path::new("sh"), None), None);
    assert_eq!(find(Path::new("/nowhere/sh"), None), None);
    assert_eq!(find(Path::new("/etc/passwd"), None), None);
}

#[test]
fn the_process_finds_itself() {
    let environment = std::env::vars_os().collect();
    let spec = ExecSpec::of_this_process(environment).expect("/proc can be read");
    assert!(spec.program.is_file());
}

#[test]
fn a_signal_of_the_child_before_it_executes_does_not_notify_its_parent() {
    let signal = libc::SIGXCPU;
    let mut signals = Signals::register(&[signal]).expect("it can be registered");
    match fork_without_handlers().expect("a process") {
        None => {
            // SAFETY: to send a signal has no precondition.
            unsafe { libc::raise(signal) };
            // SAFETY: it has no precondition.
            unsafe { libc::_exit(0) };
        }
        Some(child) => {
            let waited = rustix::process::waitpid(Some(child), WaitOptions::empty());
            let (_, status) = waited.expect("it is our child").expect("it has ended");
            assert_eq!(status.terminating_signal(), Some(signal), "it is ended by its signal");
            assert_eq!(signals.count(), 0);
            // The handler of this process is still there.
            // SAFETY: to send a signal has no precondition.
            unsafe { libc::raise(signal) };
            assert_eq!(signals.count(), 1);
        }
    }
}
