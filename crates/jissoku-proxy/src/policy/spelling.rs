//! The name that was probably meant by one that there is not.

/// What is said of a name that is none of `names`: the nearest one, or all.
pub fn instead_of(name: &str, names: &[&str]) -> String {
    match nearest(name, names) {
        Some(meant) => format!("did you mean {meant:?}?"),
        None => format!("there are {}", names.join(", ")),
    }
}

/// The name with the fewest differences, if they are few.
fn nearest<'a>(name: &str, names: &[&'a str]) -> Option<&'a str> {
    let name = name.replace('_', "-").to_ascii_lowercase();
    let differences_max = name.len().div_ceil(3).max(1);
    let near = names.iter().map(|other| (differences(name.as_bytes(), other.as_bytes()), *other));
    near.filter(|(count, _)| *count <= differences_max).min().map(|(_, other)| other)
}

/// How many bytes have to be replaced, inserted or removed, or neighbours exchanged.
fn differences(one: &[u8], other: &[u8]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=other.len()).collect();
    for (row, byte) in one.iter().enumerate() {
        let mut next = vec![row + 1];
        for (column, wanted) in other.iter().enumerate() {
            let at =
                |row: &[usize], index: usize| row.get(index).copied().unwrap_or(usize::MAX - 1);
            let replaced = at(&last, column) + usize::from(byte != wanted);
            let mut least = replaced.min(at(&last, column + 1) + 1).min(at(&next, column) + 1);
            let earlier = (row.checked_sub(1), column.checked_sub(1));
            if let (Some(row), Some(column)) = earlier
                && (one.get(row), other.get(column)) == (Some(wanted), Some(byte))
            {
                least = least.min(at(&before, column) + 1);
            }
            next.push(least);
        }
        before = std::mem::replace(&mut last, next);
    }
    last.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_finds_its_name_and_another_word_the_whole_list() {
        let names = ["workers", "listen", "idle-time", "to", "rate"];
        for (name, meant) in [
            ("worker", "workers"),
            ("wrokers", "workers"),
            ("Listen", "listen"),
            ("idle_time", "idle-time"),
            ("idletime", "idle-time"),
            ("too", "to"),
            ("rates", "rate"),
            ("raty", "rate"),
        ] {
            let said = instead_of(name, &names);
            assert_eq!(said, format!("did you mean {meant:?}?"), "{name}");
        }
        for name in ["", "x", "proxy-pass", "l\u{e9}sten-to-everything"] {
            let said = instead_of(name, &names);
            assert_eq!(said, "there are workers, listen, idle-time, to, rate", "{name}");
        }
    }
}
