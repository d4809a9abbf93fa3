//! Flags that hey and oha have in common, as ours.

use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jissoku_load::Address;

/// What both are told in the same letters.
#[derive(Debug, clap::Args)]
pub(super) struct Alike {
    /// Where to, as `http://HOST:PORT/PATH`
    pub(super) url: Address,
    /// Requests in all [default: 200]
    #[arg(short = 'n', value_name = "N")]
    pub(super) requests: Option<String>,
    /// Connections
    #[arg(short = 'c', value_name = "N", default_value_t = 50)]
    pub(super) connections: usize,
    /// Length of the measurement instead of a number of requests
    #[arg(short = 'z', value_name = "TIME")]
    pub(super) duration: Option<String>,
    /// Method
    #[arg(short, long, default_value = "GET")]
    pub(super) method: String,
    /// Header field 'Name: value'; may be given several times
    #[arg(short = 'H', value_name = "FIELD")]
    headers: Vec<String>,
    /// Time-out of a request
    #[arg(short = 't', value_name = "TIME")]
    pub(super) timeout: Option<String>,
    /// Value of the field Accept
    #[arg(short = 'A', value_name = "TYPES")]
    accept: Option<String>,
    /// Request body
    #[arg(short = 'd', value_name = "TEXT", conflicts_with = "body_file")]
    body: Option<String>,
    /// Request body from a file
    #[arg(short = 'D', value_name = "FILE")]
    body_file: Option<PathBuf>,
    /// Value of the field Content-Type
    #[arg(short = 'T', value_name = "TYPE")]
    content_type: Option<String>,
    /// USER:PASSWORD, sent as they are (Basic)
    #[arg(short = 'a', value_name = "USER:PASSWORD")]
    user: Option<String>,
    /// Value of the field Host
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// Ask for no compressed answers
    #[arg(long)]
    disable_compression: bool,
    /// One connection for each request
    #[arg(long)]
    disable_keepalive: bool,
}

/// What a tool sends without being told.
pub(super) struct Habits {
    /// How it spells a method.
    pub(super) method: fn(&str) -> String,
    pub(super) accept: Option<&'static str>,
    pub(super) encodings: &'static str,
    pub(super) content_type: Option<&'static str>,
    /// What the time-out is.
    pub(super) timeout: &'static str,
    /// Requests, where neither they nor a time is given.
    pub(super) requests: &'static str,
}

/// Longer than anybody waits: both tools know an endless time-out, and we do not.
pub(super) const ENDLESS: &str = "10000h";

impl Alike {
    /// Our own words for it; the URL comes last.
    pub(super) fn translate(
        &self,
        habits: &Habits,
        more: &[String],
    ) -> Result<Vec<String>, String> {
        let timeout = match self.timeout.as_deref() {
            None => habits.timeout,
            Some("0") => ENDLESS,
            Some(timeout) => timeout,
        };
        let mut words = vec![
            format!("--connections={}", self.connections),
            format!("--timeout={timeout}"),
            format!("--method={}", (habits.method)(&self.method)),
            "--verify=none".to_owned(),
        ];
        if let Some(duration) = &self.duration {
            words.push(format!("--duration={duration}"));
            words.push("--warmup=0".to_owned());
        } else {
            let requests = self.requests.as_deref().unwrap_or(habits.requests);
            words.push(format!("--requests={requests}"));
        }
        words.extend(self.fields(habits).into_iter().map(|field| format!("--header={field}")));
        if self.body.as_ref().is_some_and(|body| body.starts_with('@')) {
            return Err("a body that begins with @ cannot be told from a file's name here: put it into a file, and give -D FILE".to_owned());
        }
        words.extend(self.body.iter().map(|body| format!("--body={body}")));
        words.extend(self.body_file.iter().map(|file| format!("--body=@{}", file.display())));
        words.extend(self.host.iter().map(|host| format!("--host={host}")));
        if self.disable_keepalive {
            words.push("--no-keepalive".to_owned());
        }
        words.extend_from_slice(more);
        words.push(self.url.to_string());
        Ok(words)
    }

    /// Header fields: those that were given, and those that the tool sends by itself.
    fn fields(&self, habits: &Habits) -> Vec<String> {
        let encodings = (!self.disable_compression).then_some(habits.encodings);
        let user = self.user.as_ref().map(|user| format!("Basic {}", STANDARD.encode(user)));
        let own = [
            ("Accept", self.accept.as_deref().or(habits.accept)),
            ("Accept-Encoding", encodings),
            ("Content-Type", self.content_type.as_deref().or(habits.content_type)),
            ("Authorization", user.as_deref()),
        ];
        let own = own.into_iter().filter_map(|(name, value)| Some((name, value?)));
        let own = own.filter(|(name, _)| !self.has(name));
        self.headers
            .iter()
            .cloned()
            .chain(own.map(|(name, value)| format!("{name}: {value}")))
            .collect()
    }

    fn has(&self, name: &str) -> bool {
        let names = self.headers.iter().filter_map(|field| field.split_once(':'));
        names.into_iter().any(|(given, _)| given.trim().eq_ignore_ascii_case(name))
    }

    /// Says so where both a number and a time were given.
    pub(super) fn remark(&self) -> Option<String> {
        let requests = self.requests.as_ref().filter(|_| self.duration.is_some())?;
        Some(format!("-n {requests} does not count beside -z"))
    }
}
