//! Rules for Cache-Control and Content-Type by file name: `*.css=max-age=3600`.
//!
//! `*` matches anything within a segment, `**` anything at all, `?` one character except a slash. A
//! pattern without a slash matches the last segment; one with a slash matches the whole name below
//! the root.

/// The value of a field for names that match a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    pattern: Vec<u8>,
    value: String,
}

impl Rule {
    /// Reads `PATTERN=VALUE`.
    ///
    /// # Errors
    /// A message with the expected form.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (pattern, value) = text.split_once('=').unwrap_or_default();
        let is_value = |byte: u8| byte == b' ' || byte.is_ascii_graphic();
        if pattern.is_empty() || value.trim().is_empty() || !value.bytes().all(is_value) {
            return Err("write PATTERN=VALUE, such as '*.css=max-age=3600'".to_owned());
        }
        let pattern = pattern.strip_prefix('/').map_or_else(
            || pattern.as_bytes().to_vec(),
            // A leading slash only anchors the pattern at the root.
            |rest| if rest.contains('/') { rest.into() } else { pattern.into() },
        );
        Ok(Self { pattern, value: value.trim().to_owned() })
    }

    /// `name` begins with a slash.
    fn matches(&self, name: &[u8]) -> bool {
        let name = name.strip_prefix(b"/").unwrap_or(name);
        if let Some(pattern) = self.pattern.strip_prefix(b"/") {
            return matches(pattern, name);
        }
        if self.pattern.contains(&b'/') {
            return matches(&self.pattern, name);
        }
        matches(&self.pattern, name.rsplit(|&byte| byte == b'/').next().unwrap_or(name))
    }
}

/// The value of the first rule that matches one of the names: that of a request, and that of the
/// file that is sent, which is the index of a directory.
pub(super) fn first<'a>(rules: &'a [Rule], names: &[&[u8]]) -> Option<&'a str> {
    let is_match = |rule: &&Rule| names.iter().any(|name| rule.matches(name));
    rules.iter().find(is_match).map(|rule| &*rule.value)
}

/// Matches by dynamic programming over the prefixes of `name`: the time is at most the size of the
/// pattern times that of the name.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let mut is_match = vec![false; name.len() + 1];
    is_match[0] = true;
    let mut rest = pattern;
    while let [sign, tail @ ..] = rest {
        rest = tail;
        match (sign, tail) {
            (b'*', [b'*', tail @ ..]) => {
                rest = tail;
                spread(&mut is_match, name, |_| true);
            }
            (b'*', _) => spread(&mut is_match, name, |byte| byte != b'/'),
            (b'?', _) => step(&mut is_match, name, |byte| byte != b'/'),
            (sign, _) => step(&mut is_match, name, |byte| byte == *sign),
        }
    }
    is_match[name.len()]
}

fn spread(is_match: &mut [bool], name: &[u8], is_allowed: impl Fn(u8) -> bool) {
    for (at, &byte) in name.iter().enumerate() {
        is_match[at + 1] |= is_match[at] && is_allowed(byte);
    }
}

fn step(is_match: &mut [bool], name: &[u8], is_allowed: impl Fn(u8) -> bool) {
    for (at, &byte) in name.iter().enumerate().rev() {
        is_match[at + 1] = is_match[at] && is_allowed(byte);
    }
    is_match[0] = false;
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(pattern: &str, name: &str, expected: bool) {
        let rule = Rule::parse(&format!("{pattern}=no-store")).expect("a rule");
        assert_eq!(rule.matches(name.as_bytes()), expected, "{pattern:?} and {name:?}");
    }

    #[test]
    fn patterns_match_by_segment_and_depth() {
        check("*.css", "/a.css", true);
        check("*.css", "/deep/down/a.css", true);
        check("*.css", "/a.css/b", false);
        check("/*.css", "/a.css", true);
        check("/*.css", "/deep/a.css", false);
        check("assets/*", "/assets/a", true);
        check("/assets/*", "/assets/a", true);
        check("assets/*", "/assets/a/b", false);
        check("assets/*", "/x/assets/a", false);
        check("assets/**", "/assets/a/b", true);
        check("**/a?c", "/x/y/abc", true);
        check("**/a?c", "/x/y/a/c", false);
        check("*", "/", true);
        check("*", "/anything/at.all", true);
        check("a*b*c", "/aXbbYc", true);
        check("a*b*c", "/aXbbY", false);
    }

    #[test]
    fn invalid_rules_are_refused() {
        for text in ["", "=", "*.css", "*.css=", "=no-store", "*.css= ", "a=b\r\nc: d", "a=\u{e9}"]
        {
            assert!(Rule::parse(text).is_err(), "{text:?}");
        }
        let rules = ["*.css=max-age=60, public", "*=no-store"].map(Rule::parse);
        let rules: Vec<Rule> = rules.into_iter().collect::<Result<_, _>>().expect("rules");
        assert_eq!(first(&rules, &[b"/a.css"]), Some("max-age=60, public"));
        assert_eq!(first(&rules, &[b"/a.js"]), Some("no-store"));
        assert_eq!(first(&rules[..1], &[b"/a.js"]), None);
        assert_eq!(first(&rules[..1], &[b"/a/", b"/a/x.css"]), Some("max-age=60, public"));
    }

    proptest! {
        #[test]
        fn matching_agrees_with_backtracking(pattern in "[ab/*?]{1,8}", name in "[ab/]{0,8}") {
            fn slow(pattern: &[u8], name: &[u8]) -> bool {
                match (pattern, name) {
                    ([], []) => true,
                    ([b'*', b'*', rest @ ..], _) => {
                        (0..=name.len()).any(|size| slow(rest, &name[size..]))
                    }
                    ([b'*', rest @ ..], _) => {
                        let size = name.iter().position(|&b| b == b'/').unwrap_or(name.len());
                        (0..=size).any(|size| slow(rest, &name[size..]))
                    }
                    ([b'?', rest @ ..], [byte, tail @ ..]) => *byte != b'/' && slow(rest, tail),
                    ([sign, rest @ ..], [byte, tail @ ..]) => sign == byte && slow(rest, tail),
                    _ => false,
                }
            }
            let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
            prop_assert_eq!(matches(pattern, name), slow(pattern, name));
        }
    }
}
