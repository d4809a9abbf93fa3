//! What a GET or HEAD gets of an entry: in which coding, how much, or that the client has it already.

use std::sync::Arc;

use jissoku_http::coding::{Accepted, Coding};
use jissoku_http::condition::{self, Outcome, Validators};
use jissoku_http::range::{self, Wanted};
use jissoku_http::{Method, Noted};
use jissoku_os::clock;

use super::entry::{Choice, Forms, Held, What};
use super::form::Form;
use super::{Asked, Made, Page, parts};

/// The page for a request; `None` if there is nothing.
#[inline]
pub(super) fn page(held: Arc<Held>, asked: &Asked<'_>) -> Option<Page> {
    match &held.entry().what {
        What::Forms(_) if is_plain(asked) => Some(Page::File(held, Choice::Whole(None))),
        What::Forms(forms) => match shown(forms, asked) {
            Shown::Kept(choice) => Some(Page::File(held, choice)),
            Shown::Made(made) => Some(Page::Made(Box::new(made))),
        },
        What::Moved { location, .. } if !asked.query.is_empty() => {
            let query = String::from_utf8_lossy(asked.query);
            let fields = format!("Location: {location}{query}\r\n");
            Some(Page::Made(Box::new(Made::text(301, &fields, b"Moved Permanently\n"))))
        }
        What::Moved { .. } | What::Forbidden(_) => Some(Page::File(held, Choice::Whole(None))),
        What::Missing => None,
    }
}

enum Shown {
    Kept(Choice),
    Made(Made),
}

/// Whether nothing in the head changes the answer.
#[inline]
fn is_plain(asked: &Asked<'_>) -> bool {
    let noted = asked.head.noted;
    !noted.has(Noted::RANGE) && !noted.has(Noted::CONDITION) && !noted.has(Noted::CODING)
}

fn shown(forms: &Forms, asked: &Asked<'_>) -> Shown {
    let noted = asked.head.noted;
    let coding =
        if noted.has(Noted::CODING) && !forms.coded.is_empty() { best(forms, asked) } else { None };
    let form = forms.form(coding);
    let outcome = if noted.has(Noted::CONDITION) { judge(form, asked) } else { Outcome::Holds };
    match outcome {
        Outcome::Failed => {
            return Shown::Made(Made::text(412, "", b"Precondition Failed\n"));
        }
        Outcome::NotModified => return Shown::Kept(Choice::NotModified(coding)),
        // For every other method, Range means nothing (RFC 9110 section 14.2).
        Outcome::Holds if noted.has(Noted::RANGE) && asked.head.method == Method::Get => {
            match wanted(form, asked) {
                Wanted::Whole => {}
                Wanted::Parts(ranges) => return Shown::Made(parts::partial(form, &ranges)),
                Wanted::Unsatisfiable => return Shown::Made(parts::unsatisfiable(form)),
            }
        }
        Outcome::Holds | Outcome::HoldsWhole => {}
    }
    Shown::Kept(Choice::Whole(coding))
}

fn best(forms: &Forms, asked: &Asked<'_>) -> Option<Coding> {
    let mut accepted = Accepted::default();
    for value in values(asked, b"accept-encoding") {
        accepted.add(value);
    }
    accepted.best(|coding| forms.has(coding))
}

fn judge(form: &Form, asked: &Asked<'_>) -> Outcome {
    let validators = Validators { etag: form.etag.as_bytes(), modified_s: form.modified_s };
    let now_s = clock::wall_ns() / 1_000_000_000;
    condition::judge(asked.head.fields(asked.bytes), &validators, now_s)
}

/// What is wanted of `form`. Two Ranges are none.
fn wanted(form: &Form, asked: &Asked<'_>) -> Wanted {
    let mut values = values(asked, b"range");
    match (values.next(), values.next()) {
        (Some(value), None) => range::read(value, form.size),
        _ => Wanted::Whole,
    }
}

fn values<'a>(asked: &Asked<'a>, name: &'static [u8]) -> impl Iterator<Item = &'a [u8]> {
    let fields = asked.head.fields(asked.bytes);
    fields.filter(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value)
}
