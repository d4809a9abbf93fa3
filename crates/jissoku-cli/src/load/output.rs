//! Where reports are written, and in which format.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use jissoku_load::report::{Format, hgrm, write_records};
use jissoku_load::{Histogram, Outcome};

/// The file of a GitHub Actions step summary.
const SUMMARY: &str = "GITHUB_STEP_SUMMARY";

/// A format and its file; `None` for stdout.
#[derive(Clone, Debug)]
pub(crate) struct Output {
    pub(super) format: Format,
    file: Option<PathBuf>,
}

/// Parses `json` or `json=run.json`.
pub(crate) fn output(text: &str) -> Result<Output, String> {
    let (name, file) = match text.split_once('=') {
        Some((_, "")) => {
            return Err(format!("{text}: the file name is missing, as in json=run.json"));
        }
        Some((name, file)) => (name, Some(file.into())),
        None => (text, None),
    };
    Ok(Output { format: name.parse()?, file })
}

impl Output {
    pub(super) fn to_stdout(format: Format) -> Self {
        Self { format, file: None }
    }

    /// The file that the report goes to; `None`: stdout.
    pub(super) fn destination(&self) -> Option<PathBuf> {
        let summary = std::env::var_os(SUMMARY).filter(|_| self.format == Format::Github);
        self.file.clone().or_else(|| summary.map(PathBuf::from))
    }

    /// Writes a report to its destination.
    pub(super) fn write(&self, text: &str) -> Result<(), String> {
        match self.destination() {
            Some(file) if self.file.is_some() => write_file(&file, text),
            Some(summary) => {
                opened(&summary)?.write_all(text.as_bytes()).map_err(unwritten(&summary))
            }
            None => {
                let mut out = io::stdout().lock();
                let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
                written.map_err(|error| format!("cannot write to stdout: {error}"))
            }
        }
    }
}

pub(super) fn is_github_actions() -> bool {
    std::env::var_os("GITHUB_ACTIONS").is_some_and(|value| value == "true")
}

/// Prints a workflow command.
pub(super) fn annotate(text: &str) {
    // The error is ignored: stdout may be closed.
    let _written = io::stdout().lock().write_all(text.as_bytes());
}

/// Redirects the one report for stdout to a file.
pub(super) fn redirect(outputs: &mut [Output], file: PathBuf) -> Result<(), String> {
    let mut bound = outputs.iter_mut().filter(|output| output.file.is_none());
    match (bound.next(), bound.next()) {
        (Some(output), None) => output.file = Some(file),
        (None, _) => return Err("-o has no effect: every --format has a file".to_owned()),
        (_, Some(_)) => {
            return Err(
                "-o requires a single report for stdout: write --format json=FILE".to_owned()
            );
        }
    }
    Ok(())
}

/// The latencies of all targets as percentile text.
pub(super) fn hgrm_text(outcome: &Outcome) -> String {
    let (mut all, mut others) = (Histogram::new(), 0);
    for target in &outcome.targets {
        all.add(&target.counters.latency);
        others += target.counters.waited.count();
    }
    hgrm::percentiles(&all, others)
}

/// Writes the latencies of all targets as percentile text.
pub(super) fn write_hgrm(file: &Path, outcome: &Outcome) -> Result<(), String> {
    write_file(file, &hgrm_text(outcome))
}

/// Writes the request log.
pub(super) fn write_raw(file: &Path, outcome: &Outcome) -> Result<(), String> {
    let written =
        fs::File::create(file).and_then(|out| write_records(outcome, &mut io::BufWriter::new(out)));
    written.map_err(unwritten(file))
}

pub(super) fn write_file(file: &Path, text: &str) -> Result<(), String> {
    fs::write(file, text).map_err(unwritten(file))
}

/// The file, whose end is written.
fn opened(file: &Path) -> Result<fs::File, String> {
    OpenOptions::new().append(true).create(true).open(file).map_err(unwritten(file))
}

fn unwritten(file: &Path) -> impl FnOnce(io::Error) -> String {
    move |error| format!("cannot write {}: {error}", file.display())
}

/// Files that can be written. Those that did not exist before, and are still empty in the end, are
/// removed.
#[derive(Debug, Default)]
pub(super) struct ReservedFiles {
    created: Vec<PathBuf>,
}

impl ReservedFiles {
    /// Opens a file for writing, so that it is known before a measurement whether that is possible.
    /// What it holds stays until there are results.
    pub(super) fn add(&mut self, file: &Path) -> Result<(), String> {
        let is_new = !file.exists();
        opened(file)?;
        if is_new {
            self.created.push(file.to_owned());
        }
        Ok(())
    }
}

impl Drop for ReservedFiles {
    fn drop(&mut self) {
        for file in &self.created {
            if fs::metadata(file).is_ok_and(|found| found.is_file() && found.len() == 0) {
                // The error is ignored: an empty file is left over then.
                let _removed = fs::remove_file(file);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_may_have_a_file() {
        assert!(output("json").expect("it is one").file.is_none());
        let to_file = output("csv=a=b.csv").expect("it is one");
        assert_eq!((to_file.format, to_file.file.clone()), (Format::Csv, Some("a=b.csv".into())));
        let mut both = [output("json").expect("it is one"), to_file];
        redirect(&mut both, "run.json".into()).expect("one goes to stdout");
        assert_eq!(both[0].file, Some("run.json".into()));
        assert!(redirect(&mut both, "run.json".into()).is_err());
        let mut two = [output("json").expect("it is one"), output("csv").expect("it is one")];
        assert!(redirect(&mut two, "run.json".into()).is_err());
        for text in ["", "xml", "json=", "=x"] {
            assert!(output(text).is_err(), "{text:?}");
        }
    }
}
