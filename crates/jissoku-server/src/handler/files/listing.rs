//! What is in a folder, as a page for people.

use std::cmp::Reverse;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;

use jissoku_http::date;
pub(super) use jissoku_os::file::Entry;
use jissoku_os::file::{Folder, Found, Kind};

use super::escape;

/// Names beyond this number are not shown: nobody reads so many, and they would be read anew for every look.
const ENTRIES_MAX: usize = 10_000;

/// What the page is.
pub(super) const TYPE: &str = "text/html; charset=utf-8";

/// The page for the folder `name`, which ends in a slash. `follow` makes of an entry what is shown, if it is.
pub(super) fn page(
    name: &[u8],
    folder: &Folder,
    follow: impl Fn(Entry) -> Option<Entry>,
) -> io::Result<Vec<u8>> {
    let found = folder.entries(ENTRIES_MAX + 1)?;
    let is_cut = found.len() > ENTRIES_MAX;
    let mut entries: Vec<Entry> = found.into_iter().take(ENTRIES_MAX).filter_map(follow).collect();
    entries.sort_by(|one, other| order(one).cmp(&order(other)));
    let title = escape::html(name);
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n\
         <style>body{{font-family:sans-serif}}td{{padding-right:2em}}\
         td+td{{text-align:right;font-variant-numeric:tabular-nums}}</style>\n\
         <h1>{title}</h1>\n<table>\n"
    );
    if name != b"/" {
        page.push_str("<tr><td><a href=\"../\">../</a><td><td>\n");
    }
    page.extend(entries.iter().map(row));
    page.push_str("</table>\n");
    let notice = is_cut.then(|| format!("<p>Only {ENTRIES_MAX} names are shown.</p>\n"));
    Ok((page + &notice.unwrap_or_default()).into_bytes())
}

/// A link, shown as what it leads to; `None` if that is nothing to be served.
pub(super) fn at_the_end_of(link: Entry, found: Found) -> Option<Entry> {
    match found {
        Found::Folder(_) => Some(Entry { kind: Kind::Folder, ..link }),
        Found::File(file) => {
            let identity = file.identity();
            let modified_s = u64::try_from(identity.mtime_ns / 1_000_000_000).unwrap_or(0);
            Some(Entry { kind: Kind::File, size: identity.size, modified_s, ..link })
        }
        Found::Nothing | Found::Forbidden => None,
    }
}

/// Folders first, and each kind by name.
fn order(entry: &Entry) -> (Reverse<bool>, &OsStr) {
    (Reverse(entry.kind == Kind::Folder), &entry.name)
}

fn row(entry: &Entry) -> String {
    let is_folder = entry.kind == Kind::Folder;
    let slash = if is_folder { "/" } else { "" };
    let link = escape::segment(entry.name.as_bytes());
    let text = escape::html(entry.name.as_bytes());
    let size = if is_folder { String::new() } else { entry.size.to_string() };
    let date = date::imf_fixdate(entry.modified_s);
    let date = String::from_utf8_lossy(&date);
    format!("<tr><td><a href=\"{link}{slash}\">{text}{slash}</a><td>{size}<td>{date}\n")
}
