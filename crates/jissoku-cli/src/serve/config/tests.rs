use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::serve::Serve;

/// A directory with a configuration file; removed when dropped.
struct Folder(PathBuf);

impl Folder {
    fn with(text: &str) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("jissoku-config-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir(&folder).expect("a folder");
        std::fs::write(folder.join("serve.toml"), text).expect("a file");
        Self(folder)
    }

    fn read(&self, flags: &[&str]) -> Result<Serve, String> {
        let file = self.0.join("serve.toml").display().to_string();
        let all =
            [crate::serve::LAB_VERB, "--config", &file].into_iter().chain(flags.iter().copied());
        let all: Vec<String> = all.map(str::to_owned).collect();
        Serve::read(&all, None).map_err(|failure| failure.to_string())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).expect("the directory can be removed");
    }
}

/// The `Debug` form of the parsed flags contains each of `expected`.
fn check(text: &str, flags: &[&str], expected: &[&str]) {
    let folder = Folder::with(text);
    let serve = folder.read(flags).expect("all of it makes sense");
    let shown = format!("{serve:?}");
    for part in expected {
        let part = part.replace("{folder}", &folder.0.display().to_string());
        assert!(shown.contains(&part), "{part} in {shown}");
    }
}

#[test]
fn an_alias_is_a_key() {
    let text = "folder = '.'\nmime = ['log=text/plain', '*.x=a/b']\nspa = true\n\
                response-field = '*.js=A: 1'";
    check(text, &[], &["text/plain", "a/b", "spa: true", "response_field: [\"*.js=A: 1\"]"]);
}

#[test]
fn keys_are_flags() {
    let text = "contract = true\nworkers = 3\ndrain-window = '2s'\n\
                listen = ['127.0.0.1:1', '127.0.0.1:2']\npin = false\nsocket-mode = 660\n";
    let expected = [
        "contract: true",
        "workers: Some(3)",
        "drain_window: Some(2s)",
        "127.0.0.1:1",
        "pin: false",
    ];
    check(text, &[], &expected);
    check(text, &[], &["127.0.0.1:2", "socket_mode: Some(432)"]);
    check(
        "contract = true\nlisten = 'unix:/x'",
        &[],
        &[
            "listen: [Listener { endpoint: Unix(\"/x\"), options: ListenerOptions { protocol: Http, has_proxy_header: false, encryption: WithCertificate } }]",
        ],
    );
    check("app = 'a.b:c'\n", &[], &["folder: Some(\"a.b:c\")"]);
}

#[test]
fn the_drain_window_defaults_to_the_idle_timeout() {
    let window = |text: &str| {
        let serve = Folder::with(text).read(&[]).expect("all of it makes sense");
        let telemetry = jissoku_server::TelemetryConfig::default();
        serve.settings(&[], &telemetry, None).expect("the flags are valid").limits.drain_idle_ns
            / 1_000_000_000
    };
    assert_eq!(window("contract = true"), 75);
    assert_eq!(window("contract = true\nidle-time-max = '2m'"), 120);
    assert_eq!(window("contract = true\nidle-time-max = '2m'\ndrain-window = '3s'"), 3);
}

#[test]
fn flags_override_the_file() {
    let text = "contract = true\nworkers = 3\nlisten = '127.0.0.1:1'\n";
    let flags = ["--workers", "5", "--listen", "127.0.0.1:9"];
    check(
        text,
        &flags,
        &[
            "contract: true",
            "workers: Some(5)",
            "listen: [Listener { endpoint: Tcp(127.0.0.1:9), options: ListenerOptions { protocol: Http, has_proxy_header: false, encryption: WithCertificate } }]",
        ],
    );
    check(text, &["--fixed", "x"], &["contract: false", "fixed: Some(\"x\")"]);
}

#[test]
fn paths_are_relative_to_the_file() {
    let text = "folder = 'public'\nlisten = 'unix:a/b.sock'\npid-file = '/run/x.pid'\n";
    let expected = ["\"{folder}/public\"", "Unix(\"{folder}/a/b.sock\")", "\"/run/x.pid\""];
    check(text, &[], &expected);
}

#[test]
fn errors_name_their_line() {
    let cases = [
        (
            "contract = true\nworker = 3\n",
            "line 2: there is no key \"worker\"; did you mean \"workers\"?",
        ),
        (
            "contract = true\nlistn = 'a'\n",
            "line 2: there is no key \"listn\"; did you mean \"listen\"?",
        ),
        ("[[routes]]\npath = '/'\n", "line 1: there is no key \"routes\"; did you mean \"route\"?"),
        ("[upstreams.a]\n", "line 1: there is no key \"upstreams\"; did you mean \"upstream\"?"),
        ("apps = 'a.c'\n", "line 1: there is no key \"apps\"; did you mean \"app\"?"),
        ("handler = 'a.c'\n", "line 1: there is no key \"handler\" here; write app = \"NAME.c\""),
        (
            "contract = true\nproxy-pass = 'a'\n",
            "line 2: there is no key \"proxy-pass\"; there are folder,",
        ),
        ("contract = true\n\nworkers = 'x'\n", "line 3: invalid value 'x' for '--workers <N>'"),
        ("contract = true\nworkers = 0\n", "line 2: invalid value '0' for '--workers <N>'"),
        (
            "contract = 'yes'\n",
            "line 1: contract must be true or false, not a value of type string",
        ),
        ("contract = true\nworkers = true\n", "line 2: workers must be a string or a number"),
        ("contract = true\nlisten = [1, {}]\n", "line 2: listen must be a string, or a list"),
        (
            "contract = true\n[workers]\n",
            "workers must be a string or a number, not a value of type",
        ),
        ("contract = \n", "line 1: "),
        ("contract = true\ncontract = true\n", "line 2: "),
        ("config = 'other.toml'\n", "line 1: there is no key \"config\""),
        ("workers = 1\n", "nothing to serve"),
        ("contract = true\nworkers = 'auto'\n", "or leave it out for one per physical core"),
        (
            "contract = true\nfixed = 'x'\n",
            "serve.toml: the argument '--contract' cannot be used with",
        ),
    ];
    for (text, expected) in cases {
        let refusal = Folder::with(text).read(&[]).expect_err("it makes no sense");
        assert!(refusal.contains(expected), "{text:?}: {refusal}");
        assert!(!refusal.contains('\n'), "one sentence: {refusal}");
    }
}

#[test]
fn a_missing_file_is_named() {
    let all = ["serve", "--config", "/nowhere/at/all.toml"].map(str::to_owned);
    let refusal = Serve::read(&all, None).expect_err("there is no file").to_string();
    assert!(refusal.contains("/nowhere/at/all.toml"), "{refusal}");
}
