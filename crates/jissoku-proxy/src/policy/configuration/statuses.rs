//! Lists of statuses.

use std::ops::RangeInclusive;

use toml::de::DeValue;

use super::table::{Refusal, Table, integer, refuse, wrong};
use crate::policy::statuses::Statuses;

/// Reads a list of statuses and of ranges of statuses, such as `[500, "502-504"]`, all of which are
/// within `permitted`; `None` without this key.
pub(super) fn read(
    table: &mut Table<'_, '_>,
    key: &'static str,
    permitted: RangeInclusive<u16>,
) -> Result<Option<Statuses>, Refusal> {
    let Some(value) = table.value(key) else { return Ok(None) };
    let what = "a list of statuses and of ranges, such as [500, \"502-504\"]";
    let DeValue::Array(values) = value.get_ref() else {
        return Err(wrong(key, what, value.get_ref(), value));
    };
    let (least, most) = (*permitted.start(), *permitted.end());
    let mut statuses = Statuses::NONE;
    for value in values {
        match value.get_ref() {
            DeValue::Integer(_) => {
                let status = integer(key, value, i64::from(least)..=i64::from(most))?;
                statuses.insert(status..=status);
            }
            DeValue::String(text) => {
                let range = range(text).filter(|range| {
                    !range.is_empty() && least <= *range.start() && *range.end() <= most
                });
                statuses.insert(range.ok_or_else(|| {
                    let why = format!("{key} has ranges within {least}-{most}, not {text:?}");
                    refuse(value.span(), &why)
                })?);
            }
            other => return Err(wrong(key, what, other, value)),
        }
    }
    if statuses.is_empty() {
        return Err(refuse(value.span(), &format!("{key} is an empty list")));
    }
    Ok(Some(statuses))
}

/// As `502-504`.
fn range(text: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = text.split_once('-')?;
    let is_status = |text: &str| text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_digit());
    let both = is_status(first) && is_status(last);
    both.then(|| Some(first.parse().ok()?..=last.parse().ok()?)).flatten()
}
