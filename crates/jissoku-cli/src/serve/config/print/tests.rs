use std::path::PathBuf;

use clap::ArgAction;

use crate::serve::{LAB_VERB, Serve};

/// Valid values of flags without a default; of those that may be repeated, two.
const VALUES: &[(&str, &[&str])] = &[
    ("request-field", &["X-A: {client} \"b\"", "+X-B: c", "-X-C"]),
    ("response-field", &["*.js=X-A: b=c", "X-B: \"d\""]),
    ("app-dir", &["/srv/app"]),
    ("cflags", &["-g -O0"]),
    ("libs", &["-lz"]),
    ("chdir", &["/srv/a \"b\""]),
    ("env-file", &["/srv/.env"]),
    ("log-config", &["/srv/log.yaml"]),
    ("log-level", &["info"]),
    ("root-path", &["/api"]),
    ("request-id", &["X-Trace-Id"]),
    ("static", &["/static=/srv/a b", "/media=/srv/\"m\""]),
    ("not-found", &["404.html"]),
    ("cache-control", &["*.css=max-age=3600", "**=no-store"]),
    ("content-type", &["*.log=text/plain; charset=utf-8", "*.x=a/b"]),
    ("upstream-tls-ca", &["/a b.pem"]),
    ("upstream-tls-name", &["a.example"]),
    ("via-name", &["edge-1"]),
    ("diagnostics-for", &["10.0.0.0/8,unix"]),
    ("listen", &["127.0.0.1:0", "unix:/run/x.sock,uwsgi"]),
    ("socket-mode", &["660"]),
    ("trusted-proxies", &["10.0.0.1,unix"]),
    ("workers", &["3"]),
    ("cores", &["0,1"]),
    ("drain-window", &["2s"]),
    ("drain-timeout", &["3s"]),
    ("drain-streams", &["10m"]),
    ("stop-timeout", &["5s"]),
    ("body-memory-max", &["2MiB"]),
    ("body-size-max", &["3MiB"]),
    ("request-line-size-max", &["9KiB"]),
    ("field-size-max", &["9KiB"]),
    ("fields-size-max", &["40KiB"]),
    ("access-log", &["-"]),
    ("hang-timeout", &["30s"]),
    ("start-timeout", &["0"]),
    ("worker-memory-max", &["1GiB"]),
    ("pid-file", &["/run/x.pid"]),
    ("store-folder", &["/srv/stores"]),
];

/// Flags that need another, or exclude one.
const ALONE: [&[&str]; 4] = [
    &["--listing"],
    &["--tls-cert=/a.pem", "--tls-key=/b.pem"],
    &["--user=www-data", "--group=\u{e9}"],
    &["--metrics=unix:/run/m.sock"],
];

const CONTENTS: [&str; 6] = [
    "/srv/www",
    "a.b:app",
    "a:make('\\n\u{7f}')",
    "--to=http://127.0.0.1:1",
    "--fixed=\"a\"\n\\b",
    "--redirect=301=https://{hostname}{target}",
];

/// Arguments for each flag; `None` for one that needs a value here.
fn samples() -> Vec<(String, Option<Vec<String>>)> {
    let excluded = "config help help-all print-config to redirect fixed tls-cert tls-key user group \
                    metrics pin asgi spa listing strip-prefix upstream-tls-insecure add-prefix";
    let command = Serve::command("serve");
    let flags = command.get_arguments().filter(|arg| !arg.is_hide_set());
    let named = flags.filter_map(|arg| arg.get_long().map(|name| (arg, name.to_owned())));
    named
        .filter(|(_, name)| !excluded.split(' ').any(|other| other == name))
        .map(|(arg, name)| {
            let value = VALUES.iter().find(|(other, _)| *other == name).map(|(_, values)| *values);
            let default = arg.get_default_values().first().and_then(|value| value.to_str());
            let given = |value: &str| format!("--{name}={value}");
            let arguments = match (arg.get_action(), value, default) {
                (ArgAction::SetTrue, ..) => Some(vec![format!("--{name}")]),
                (_, Some(values), _) => Some(values.iter().map(|value| given(value)).collect()),
                (_, None, Some(default)) => Some(vec![given(default)]),
                _ => None,
            };
            (name, arguments)
        })
        .collect()
}

fn read(arguments: &[String]) -> Serve {
    let all: Vec<String> =
        ["serve", "--print-config"].map(str::to_owned).iter().chain(arguments).cloned().collect();
    Serve::read(&all, None).unwrap_or_else(|failure| panic!("{arguments:?}: {failure}"))
}

/// What is parsed, without the name of the file and what is printed.
fn parsed(serve: Serve) -> (String, String) {
    let printed = serve.printed.clone().expect("it is printed");
    let config = crate::serve::config::Config { config: None, print_config: false };
    (format!("{:?}", Serve { printed: None, config, routes: None, ..serve }), printed)
}

fn check(number: usize, arguments: &[String]) {
    let (first, printed) = parsed(read(arguments));
    let name = format!("jissoku-printed-{}-{number}.toml", std::process::id());
    let file = std::env::temp_dir().join(name);
    std::fs::write(&file, &printed).expect("a file");
    let (second, again) = parsed(read(&[format!("--config={}", file.display())]));
    std::fs::remove_file(&file).expect("the file is ours");
    assert_eq!(first, second, "{arguments:?}\n{printed}");
    assert_eq!(printed, again, "{arguments:?}");
}

#[test]
fn what_is_printed_gives_the_same_flags() {
    let samples = samples();
    let missing: Vec<_> =
        samples.iter().filter(|(_, it)| it.is_none()).map(|(name, _)| name).collect();
    assert!(missing.is_empty(), "add a value of these to VALUES: {missing:?}");
    let alone = ALONE.map(|flags| flags.iter().map(ToString::to_string).collect());
    let all: Vec<Vec<String>> =
        samples.into_iter().filter_map(|(_, flags)| flags).chain(alone).collect();
    let mut random = 1_u64;
    for number in 0..60 {
        let mut arguments = vec![CONTENTS[number % CONTENTS.len()].to_owned()];
        for flags in &all {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            // A third of the flags, and once all of them.
            if number == 0 || (random >> 33).is_multiple_of(3) {
                arguments.extend_from_slice(flags);
            }
        }
        check(number, &arguments);
    }
}

#[test]
fn routes_and_flags_of_the_file_are_printed_with_absolute_paths() {
    let folder: PathBuf =
        std::env::temp_dir().join(format!("jissoku-print-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let (file, printed_file) = (folder.join("serve.toml"), folder.join("printed.toml"));
    let text = "listen = 'unix:a.sock'\nworkers = 2\n\n\
                [upstream.'a b']\nservers = ['127.0.0.1:1', '127.0.0.1:2']\n\
                protocol = 'https'\ntls-ca = 'ca.pem'\n\n\
                [[route]]\npath = '/a/{x}'\nfolder = 'public'\n\n\
                [[route]]\npath = '/**'\nto = 'a b'\n";
    std::fs::write(&file, text).expect("a file");
    let arguments = [format!("--config={}", file.display()), "--workers=3".to_owned()];
    let serve = read(&arguments);
    let printed = serve.printed.clone().expect("it is printed");
    let at = folder.display();
    for line in [
        format!("listen = [\"unix:{at}/a.sock\"]\n"),
        "workers = \"3\"\n".to_owned(),
        "# idle-time-max = \"75s\"\n".to_owned(),
        "[upstream.\"a b\"]\n".to_owned(),
        "servers = [\"127.0.0.1:1\", \"127.0.0.1:2\"]\n".to_owned(),
        format!("folder = \"{at}/public\"\n"),
        format!("tls-ca = \"{at}/ca.pem\"\n"),
    ] {
        assert!(printed.contains(&line), "{line} in {printed}");
    }
    std::fs::write(&printed_file, &printed).expect("a file");
    let again = read(&[format!("--config={}", printed_file.display())]);
    assert_eq!(again.printed.as_deref(), Some(&*printed));
    for (url, expected) in [("/a/1", "x = 1"), ("/b", "to upstream a b")] {
        for serve in [&serve, &again] {
            let explanation = serve.explain("GET", url).expect("there are routes");
            assert!(explanation.is_taken && explanation.text.contains(expected), "{explanation:?}");
        }
    }
    std::fs::remove_dir_all(folder).expect("the folder is ours");
}

#[test]
fn flags_that_replace_the_routes_are_printed_without_them() {
    let file = std::env::temp_dir().join(format!("jissoku-replaced-{}.toml", std::process::id()));
    std::fs::write(&file, "[[route]]\npath = '/**'\nfixed = 'x'\n").expect("a file");
    let arguments = [format!("--config={}", file.display()), "--fixed=y".to_owned()];
    let printed = read(&arguments).printed.expect("it is printed");
    std::fs::remove_file(file).expect("the file is ours");
    assert!(printed.contains("fixed = \"y\"\n") && !printed.contains("[[route]]"), "{printed}");
}

#[test]
fn the_laboratory_is_printed_for_itself_only() {
    let flags = [LAB_VERB, "--contract", "--delay=2s", "--print-config"].map(str::to_owned);
    let printed = Serve::read(&flags, None).expect("it is valid").printed.expect("it is printed");
    assert!(printed.contains("contract = true\ndelay = \"2s\"\n"), "{printed}");
    let product = read(&["--fixed=x".to_owned()]).printed.expect("it is printed");
    assert!(!product.contains("delay"), "{product}");
}
