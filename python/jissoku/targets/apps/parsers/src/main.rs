//! One server that reads its requests with any of five parsers, and their microbenchmark.
//!
//! parsers serve --parser NAME [--workers N] --listen HOST:PORT|unix:PATH
//! parsers bench [--rounds N] [--figures]

mod answer;
mod bench;
mod parser;
mod reader;
mod server;

use std::process::ExitCode;

use bench::{Form, bench};
use parser::{HttpParser, Httparse, Jissoku, Llhttp, Pico, Replayed};
use server::{Place, serve};

const USAGE: &str = "usage: parsers serve --parser NAME [--workers N] --listen HOST:PORT|unix:PATH
       parsers bench [--rounds N] [--figures]
       parsers version
The parsers are http-parser, llhttp, picohttpparser, httparse and jissoku-http;
http-parser-replayed makes http-parser's callbacks without parsing a head that it has seen.
";

const VERSION: &str = "parsers 1 of http-parser 2.9.4, llhttp 9.4.3, picohttpparser-sys 1.0.0, \
httparse 1.10.1 and jissoku-http";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match run(&words) {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err((code, sentence)) => {
            eprint!("{sentence}");
            ExitCode::from(code)
        }
    }
}

/// An exit code and what is said with it.
type Refused = (u8, String);

fn run(words: &[String]) -> Result<String, Refused> {
    match words.split_first().map(|(verb, rest)| (verb.as_str(), rest)) {
        Some(("serve", rest)) => serve_with(rest).map(|()| String::new()),
        Some(("bench", rest)) => {
            let rounds = value(rest, "--rounds").map_or(Ok(21), |text| number(&text))?;
            let wants_figures = rest.iter().any(|word| word == "--figures");
            let form = if wants_figures { Form::Figures } else { Form::Table };
            bench(rounds, form).map_err(|error| (1, format!("parsers: {error}\n")))
        }
        Some(("version", [])) => Ok(format!("{VERSION}\n")),
        _ => Err((2, String::from(USAGE))),
    }
}

fn serve_with(words: &[String]) -> Result<(), Refused> {
    let usage = || (2, String::from(USAGE));
    let workers = value(words, "--workers").map_or(Ok(1), |text| number(&text))?;
    let place = value(words, "--listen").ok_or_else(usage)?;
    let place = match place.strip_prefix("unix:") {
        Some(path) => Place::Unix(path.into()),
        None => Place::Tcp(place.parse().map_err(|_| usage())?),
    };
    let served = match value(words, "--parser").ok_or_else(usage)?.as_str() {
        "http-parser" => serve::<HttpParser>(&place, workers),
        "http-parser-replayed" => serve::<Replayed>(&place, workers),
        "llhttp" => serve::<Llhttp>(&place, workers),
        "picohttpparser" => serve::<Pico>(&place, workers),
        "httparse" => serve::<Httparse>(&place, workers),
        "jissoku-http" => serve::<Jissoku>(&place, workers),
        _ => return Err(usage()),
    };
    served.map_err(|error| (1, format!("parsers: the server broke: {error}\n")))
}

/// The word behind the last occurrence of a flag: what is added to a command decides.
fn value(words: &[String], flag: &str) -> Option<String> {
    let at = words.iter().rposition(|word| word == flag)?;
    words.get(at + 1).cloned()
}

fn number(text: &str) -> Result<usize, Refused> {
    match text.parse() {
        Ok(number @ 1..=1024) => Ok(number),
        _ => Err((2, format!("parsers: {text:?} is no number from 1 to 1024\n"))),
    }
}
