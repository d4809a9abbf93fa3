//! Directory listings in HTML.

use std::cmp::Reverse;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;

use jissoku_http::date;
pub(super) use jissoku_os::file::DirEntry;
use jissoku_os::file::{Dir, Kind, LookupResult};

use super::escape;

/// Maximum number of listed names: the listing is generated again at each revalidation.
const ENTRIES_MAX: usize = 10_000;

/// Content-Type of a listing.
pub(super) const TYPE: &str = "text/html; charset=utf-8";

/// The page for the folder `name`, which ends in a slash. `follow` resolves an entry, or returns
/// `None` for one that is not listed.
pub(super) fn page(
    name: &[u8],
    folder: &Dir,
    follow: impl Fn(DirEntry) -> Option<DirEntry>,
) -> io::Result<Vec<u8>> {
    let found = folder.entries(ENTRIES_MAX + 1)?;
    let is_cut = found.len() > ENTRIES_MAX;
    let mut entries: Vec<DirEntry> =
        found.into_iter().take(ENTRIES_MAX).filter_map(follow).collect();
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

/// The entry for the target of a link; `None` if it would not be served.
pub(super) fn at_the_end_of(link: DirEntry, found: LookupResult) -> Option<DirEntry> {
    match found {
        LookupResult::Dir(_) => Some(DirEntry { kind: Kind::Dir, ..link }),
        LookupResult::File(file) => {
            let stamp = file.stamp();
            let modified_s = u64::try_from(stamp.mtime_ns / 1_000_000_000).unwrap_or(0);
            Some(DirEntry { kind: Kind::File, size: stamp.size, modified_s, ..link })
        }
        LookupResult::Nothing | LookupResult::Forbidden => None,
    }
}

/// Directories first, each kind by name.
fn order(entry: &DirEntry) -> (Reverse<bool>, &OsStr) {
    (Reverse(entry.kind == Kind::Dir), &entry.name)
}

fn row(entry: &DirEntry) -> String {
    let is_folder = entry.kind == Kind::Dir;
    let slash = if is_folder { "/" } else { "" };
    let link = escape::segment(entry.name.as_bytes());
    let text = escape::html(entry.name.as_bytes());
    let size = if is_folder { String::new() } else { entry.size.to_string() };
    let date = date::imf_fixdate(entry.modified_s);
    let date = String::from_utf8_lossy(&date);
    format!("<tr><td><a href=\"{link}{slash}\">{text}{slash}</a><td>{size}<td>{date}\n")
}
