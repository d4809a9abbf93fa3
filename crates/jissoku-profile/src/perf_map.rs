//! `/tmp/perf-PID.map`: names of code that a runtime generated, a line `START SIZE NAME` each, in
//! hexadecimal (`Documentation/jit-interface.txt` of perf).

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;

use crate::frame::Frame;

/// Names of generated code, by address.
#[derive(Debug, Default)]
pub struct PerfMap {
    /// By first address, each with its end and name; without overlap.
    entries: BTreeMap<u64, (u64, String)>,
}

impl PerfMap {
    /// Reads the lines; those that are none are left out.
    pub fn parse(text: &str) -> Self {
        let mut map = Self::default();
        for (start, size, name) in text.lines().filter_map(entry) {
            let end = start.saturating_add(size);
            map.clear(&(start..end));
            map.entries.insert(start, (end, name));
        }
        map
    }

    /// Removes what is in a range, or cuts it off: runtimes free code, and use its place again for
    /// code that may begin before it and reach over it.
    fn clear(&mut self, range: &Range<u64>) {
        let before = self.entries.range(..range.end).rev();
        let inside = before.take_while(|(_, (end, _))| *end > range.start);
        for start in inside.map(|(start, _)| *start).collect::<Vec<_>>() {
            let Some((end, name)) = self.entries.remove(&start) else { continue };
            if end > range.end {
                self.entries.insert(range.end, (end, name.clone()));
            }
            if start < range.start {
                self.entries.insert(start, (range.start, name));
            }
        }
    }

    /// Where the map of a process is; in a container it has another number and another `/tmp`.
    pub fn path(pid: i32) -> PathBuf {
        let inner = inner_pid(pid).unwrap_or(pid);
        let inside =
            PathBuf::from(format!("/proc/{pid}/root")).join(format!("tmp/perf-{inner}.map"));
        if inside.exists() { inside } else { PathBuf::from(format!("/tmp/perf-{pid}.map")) }
    }

    /// The function at an address.
    pub fn find(&self, address: u64) -> Option<Frame> {
        let (_, (end, name)) = self.entries.range(..=address).next_back()?;
        (address < *end).then(|| frame(name))
    }
}

fn inner_pid(pid: i32) -> Option<i32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    line.split_ascii_whitespace().last()?.parse().ok()
}

fn entry(line: &str) -> Option<(u64, u64, String)> {
    let mut words = line.splitn(3, ' ');
    let number = |word: &str| u64::from_str_radix(word.trim_start_matches("0x"), 16).ok();
    let (start, size) = (number(words.next()?)?, number(words.next()?)?);
    (size > 0).then_some((start, size, words.next()?.to_owned()))
}

/// A method of the JVM, `void com.example.Server.handle(int)`, without its type and parameters and
/// without the address of a hidden class (`Server$$Lambda$5/0x00007f590c000a08.run`).
fn method(name: &str) -> Option<String> {
    let (before, _parameters) = name.strip_suffix(')')?.split_once('(')?;
    let (_type, name) = before.rsplit_once(' ')?;
    let Some((class, rest)) = name.split_once("/0x") else {
        return (!name.is_empty()).then(|| name.to_owned());
    };
    Some(format!("{class}{}", rest.trim_start_matches(|digit: char| digit.is_ascii_hexdigit())))
}

/// Node writes `JS:*name /path/file.js:3:5`, Python `py::name:/path/file.py`, the JVM a method.
fn frame(name: &str) -> Frame {
    let mut frame = Frame { library: "[jit]".to_owned(), ..Frame::default() };
    if let Some(rest) = name.strip_prefix("py::") {
        let (function, file) = rest.rsplit_once(':').unwrap_or((rest, ""));
        "[python]".clone_into(&mut frame.library);
        function.clone_into(&mut frame.function);
        frame.file = crate::frame::base_name(file);
        return frame;
    }
    let script = ["JS:", "LazyCompile:", "Function:", "Script:", "Eval:"];
    let Some(rest) = script.iter().find_map(|prefix| name.strip_prefix(prefix)) else {
        frame.function = method(name).unwrap_or_else(|| name.to_owned());
        return frame;
    };
    // `*` optimised, `~` interpreted, `^` baseline, `+` mid-tier.
    let rest = rest.trim_start_matches(['*', '~', '^', '+', '\'']);
    let (function, place) = rest.rsplit_once(' ').unwrap_or((rest, ""));
    let mut parts = place.rsplitn(3, ':');
    let (_column, line) = (parts.next(), parts.next());
    "[javascript]".clone_into(&mut frame.library);
    let anonymous = function.is_empty();
    frame.function = if anonymous { "(anonymous)".to_owned() } else { function.to_owned() };
    frame.file = parts.next().map(crate::frame::base_name).unwrap_or_default();
    frame.line = line.and_then(|line| line.parse().ok()).unwrap_or(0);
    frame
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_found_by_address() {
        let text = "1000 20 JS:*burn /srv/app/server.js:3:15\n\
                    1020 10 Lapp/Server;::burn\nno line\n2000 8 py::burn:/srv/app.py\n";
        let map = PerfMap::parse(text);
        let found = map.find(0x101f).expect("the first");
        assert_eq!((&*found.function, &*found.file, found.line), ("burn", "server.js", 3));
        assert_eq!(found.library, "[javascript]");
        assert_eq!(map.find(0x1020).expect("the second").function, "Lapp/Server;::burn");
        let python = map.find(0x2000).expect("the third");
        assert_eq!((&*python.function, &*python.file), ("burn", "app.py"));
        assert_eq!(map.find(0x1030), None);
        assert_eq!(map.find(0xfff), None);
    }

    #[test]
    fn methods_of_the_jvm_have_no_types_and_no_addresses() {
        let name = |text: &str| {
            let map = PerfMap::parse(&format!("1000 8 {text}\n"));
            map.find(0x1000).expect("a name").function
        };
        assert_eq!(
            name("void com.example.Server.handle(int, byte[])"),
            "com.example.Server.handle"
        );
        assert_eq!(
            name("java.lang.Object Server$$Lambda$5/0x00007f590c000a08.run()"),
            "Server$$Lambda$5.run"
        );
        assert_eq!(name("StubRoutines (1)"), "StubRoutines (1)");
        assert_eq!(name("Interpreter"), "Interpreter");
    }

    #[test]
    fn what_was_written_last_holds() {
        let map = PerfMap::parse("1000 20 old\n1000 10 new\n");
        assert_eq!(map.find(0x1008).expect("a name").function, "new");
        assert_eq!(map.find(0x1018).expect("a name").function, "old", "what is left of it");
    }

    #[test]
    fn what_was_freed_inside_of_later_code_is_forgotten() {
        let names = |text: &str, addresses: &[u64]| {
            let map = PerfMap::parse(text);
            let name = |address: &u64| map.find(*address).map(|frame| frame.function);
            addresses.iter().map(name).collect::<Vec<_>>()
        };
        let text = "1010 8 small\n1030 20 reaching\n1000 40 new\n";
        let (new, reaching) = (Some("new".to_owned()), Some("reaching".to_owned()));
        assert_eq!(
            names(text, &[0x1008, 0x1012, 0x1038, 0x1041, 0x1050]),
            [new.clone(), new.clone(), new, reaching, None]
        );
        let text = "1000 40 old\n1010 10 new\n";
        let (old, new) = (Some("old".to_owned()), Some("new".to_owned()));
        assert_eq!(names(text, &[0x1000, 0x1010, 0x1020]), [old.clone(), new, old]);
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "([0-9a-f]{1,17} [0-9a-f]{1,3} (JS:|py::)?[ -~]{0,20}\n){0,8}", address: u64) {
            let _found = PerfMap::parse(&text).find(address);
        }
    }
}
