//! Which processes belong to a server? `proc_pid_stat(5)` is asked.

use std::collections::BTreeMap;
use std::fs;
use std::io;

/// The process itself, every process of the session it leads, and all their descendants; ascending.
///
/// A daemon that leaves its session after its parent has gone is not found. Empty when `root` is gone.
///
/// # Errors
/// The error of reading `/proc`.
pub fn family(root: i32) -> io::Result<Vec<i32>> {
    let mut everyone = BTreeMap::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        // A process may end between the listing and the reading; then it is nobody's any more.
        let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { continue };
        if let Some(kin) = kin(&stat) {
            everyone.insert(pid, kin);
        }
    }
    Ok(everyone.keys().copied().filter(|&pid| belongs(pid, root, &everyone)).collect())
}

/// Parent and session of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kin {
    parent: i32,
    session: i32,
}

/// The name in parentheses may hold anything, parentheses too, so fields are counted after the last one.
fn kin(stat: &str) -> Option<Kin> {
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(1);
    let parent = fields.next()?.parse().ok()?;
    let session = fields.nth(1)?.parse().ok()?;
    Some(Kin { parent, session })
}

fn belongs(pid: i32, root: i32, everyone: &BTreeMap<i32, Kin>) -> bool {
    let mut at = pid;
    // Parents can change while they are read, so a cycle is possible in theory: climb only so far.
    for _ in 0..everyone.len() {
        let Some(kin) = everyone.get(&at) else { return false };
        if at == root || kin.session == root {
            return true;
        }
        at = kin.parent;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_its_own_family() {
        let me = i32::try_from(std::process::id()).expect("a pid is positive");
        assert!(family(me).expect("/proc can be read").contains(&me));
    }

    #[test]
    fn nobody_has_no_family() {
        assert_eq!(family(i32::MAX).expect("/proc can be read"), Vec::<i32>::new());
    }

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        let stat = "12 (a) b (c)) S 7 12 9 0 -1 4194560";
        assert_eq!(kin(stat), Some(Kin { parent: 7, session: 9 }));
    }

    #[test]
    fn a_session_and_its_grandchildren_belong_together() {
        let kin = |parent, session| Kin { parent, session };
        let everyone = BTreeMap::from([
            (1, kin(0, 1)),
            (5, kin(1, 5)),
            (6, kin(5, 5)),
            (7, kin(6, 7)),
            (8, kin(1, 5)),
            (9, kin(1, 9)),
        ]);
        let found: Vec<i32> = (1..=9).filter(|&pid| belongs(pid, 5, &everyone)).collect();
        assert_eq!(found, [5, 6, 7, 8]);
    }
}
