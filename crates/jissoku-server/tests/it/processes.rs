//! Workers that are processes: shell scripts, which report over the last descriptor of
//! `sd_listen_fds(3)`.

use std::path::PathBuf;
use std::{fs, io};

use jissoku_os::reexec::ExecSpec;
use jissoku_server::{DynService, ProcessSettings, Server, Settings};

use crate::client::{Running, free_port, wait_until};

/// The first process is ready and requests a replacement. The second one cannot start. If the test
/// fails, the processes do not hold its output.
const SCRIPT: &str = r#"
    echo >>"$1"
    pipe=$((2 + LISTEN_FDS))
    case $(wc -l <"$1") in
        1) printf '\001\024\000\000' >&$pipe ;;
        2) exit 1 ;;
        *) printf '\001' >&$pipe ;;
    esac
    exec sleep 60 >/dev/null 2>&1
"#;

/// A file with a line for each process that was started.
fn starts() -> PathBuf {
    std::env::temp_dir().join(format!("jissoku-server-starts-{}", std::process::id()))
}

#[expect(clippy::unnecessary_wraps, reason = "the type of the field that it is for")]
fn program() -> io::Result<ExecSpec> {
    let arguments = ["sh", "-c", SCRIPT, "sh"].map(Into::into).into_iter();
    Ok(ExecSpec {
        program: "/bin/sh".into(),
        arguments: arguments.chain([starts().into_os_string()]).collect(),
        environment: vec![("PATH".into(), "/usr/bin:/bin".into())],
    })
}

#[test]
fn a_replacement_that_cannot_start_is_tried_again() {
    let processes = ProcessSettings {
        program,
        variables: Vec::new(),
        inherited: Vec::new(),
        report: |_| {},
        memory_max: None,
        start_timeout: None,
    };
    let server = Server::listen(Settings::new(free_port())).expect("a listener");
    let running = Running::start(server, DynService::processes(processes));
    let count = || fs::read(starts()).map_or(0, |lines| lines.len());
    wait_until("a third process is started", || count() == 3);
    drop(running);
    fs::remove_file(starts()).expect("the file can be removed");
}
