//! Rules for Content-Type and other fields by file name: `*.css=max-age=3600`.
//!
//! `*` matches anything within a segment, `**` anything at all, `?` one character except a slash. A
//! pattern without a slash matches the last segment; one with a slash matches the whole name below
//! the root. A word, `css` or `.css`, matches the extension too.

use crate::is_whole_token;

/// Larger values are refused: clients have limits for fields.
const VALUE_SIZE_MAX: usize = 4096;

/// Fields that the server sets, and what to use instead.
const RESERVED: [(&str, &str); 16] = [
    ("content-type", "use --content-type"),
    ("content-encoding", "use --precompressed"),
    ("x-content-type-options", "it is always nosniff"),
    ("accept-ranges", "the server sets it"),
    ("allow", "the server sets it"),
    ("connection", "the server sets it"),
    ("content-length", "the server sets it"),
    ("content-range", "the server sets it"),
    ("date", "the server sets it"),
    ("etag", "the server sets it"),
    ("keep-alive", "the server sets it"),
    ("last-modified", "the server sets it"),
    ("location", "the server sets it"),
    ("trailer", "the server sets it"),
    ("transfer-encoding", "the server sets it"),
    ("upgrade", "the server sets it"),
];

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
        if pattern.is_empty() || !is_value(value) {
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
        let segment = name.rsplit(|&byte| byte == b'/').next().unwrap_or(name);
        matches(&self.pattern, segment) || self.is_extension_of(segment)
    }

    /// Whether the pattern is a word, and the extension of `segment`.
    fn is_extension_of(&self, segment: &[u8]) -> bool {
        let word = self.pattern.strip_prefix(b".").unwrap_or(&self.pattern);
        let is_word = !word.iter().any(|byte| b"*?.".contains(byte));
        is_word && segment.strip_suffix(word).is_some_and(|stem| stem.ends_with(b"."))
    }
}

/// A field of responses for names that match a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldRule {
    name: String,
    rule: Rule,
}

impl FieldRule {
    /// Reads `NAME: VALUE`, or `PATTERN=NAME: VALUE`.
    ///
    /// # Errors
    /// A message with the expected form.
    pub fn parse(text: &str) -> Result<Self, String> {
        let form =
            || "write [PATTERN=]NAME: VALUE, such as '*.js=X-Robots-Tag: noindex'".to_owned();
        let (before, value) = text.split_once(':').ok_or_else(form)?;
        // A name has no equals sign.
        let (pattern, name) = before.rsplit_once('=').unwrap_or(("*", before));
        if pattern.is_empty() || !is_whole_token(name.as_bytes()) || !is_value(value) {
            return Err(form());
        }
        let lower = name.to_ascii_lowercase();
        if let Some((_, why)) = RESERVED.iter().find(|(reserved, _)| *reserved == lower) {
            return Err(format!("{name} cannot be set: {why}"));
        }
        Ok(Self { name: name.to_owned(), rule: Rule::parse(&format!("{pattern}={value}"))? })
    }

    /// A rule for Cache-Control.
    pub fn cache_control(rule: Rule) -> Self {
        Self { name: "Cache-Control".to_owned(), rule }
    }

    /// Whether the field limits how long caches may keep a response.
    fn is_of_caches(&self) -> bool {
        ["cache-control", "cdn-cache-control", "surrogate-control", "expires"]
            .iter()
            .any(|name| self.name.eq_ignore_ascii_case(name))
    }
}

/// The header lines for one of the names, of each field that of the first rule that matches.
pub fn fields(rules: &[FieldRule], names: &[&[u8]]) -> Fields {
    let mut fields = Fields::default();
    let mut seen: Vec<&str> = Vec::new();
    for field in rules {
        let is_seen = seen.iter().any(|name| name.eq_ignore_ascii_case(&field.name));
        if !is_seen && names.iter().any(|name| field.rule.matches(name)) {
            seen.push(&field.name);
            let line = format!("{}: {}\r\n", field.name, field.rule.value);
            fields.all.push_str(&line);
            if !field.is_of_caches() {
                fields.of_errors.push_str(&line);
            }
        }
    }
    fields.has_cache_control = seen.iter().any(|name| name.eq_ignore_ascii_case("cache-control"));
    fields
}

/// Header lines of the responses for a name.
#[derive(Debug, Default)]
pub struct Fields {
    /// Of the file.
    pub all: String,
    /// Of redirects and errors: how long a file may be cached says nothing of these.
    pub of_errors: String,
    /// One of `all` is Cache-Control.
    pub has_cache_control: bool,
}

/// Printable ASCII that is not blank.
fn is_value(value: &str) -> bool {
    let is_sign = |byte: u8| byte == b' ' || byte.is_ascii_graphic();
    !value.trim().is_empty() && value.len() <= VALUE_SIZE_MAX && value.bytes().all(is_sign)
}

/// The value of the first rule that matches one of the names: that of a request, and that of the
/// file that is sent, which is the index of a directory.
pub fn first<'a>(rules: &'a [Rule], names: &[&[u8]]) -> Option<&'a str> {
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
        check("css", "/deep/a.css", true);
        check(".css", "/a.min.css", true);
        check("/css", "/css", true);
        check("css", "/a.scss", false);
        check("css", "/css/a", false);
        check("Makefile", "/sub/Makefile", true);
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

    #[test]
    fn field_rules_have_a_name_and_perhaps_a_pattern() {
        let lines = |texts: &[&str], name: &str| {
            let rules: Vec<FieldRule> =
                texts.iter().map(|text| FieldRule::parse(text).expect("a rule")).collect();
            let Fields { all, of_errors, .. } = fields(&rules, &[name.as_bytes()]);
            (all, of_errors)
        };
        let rules = ["*.js=A: 1", "a:2", "B: x=y: z", "js=Cache-Control: no-store"];
        let others = "A: 1\r\nB: x=y: z\r\n".to_owned();
        let expected = (format!("{others}Cache-Control: no-store\r\n"), others);
        assert_eq!(lines(&rules, "/x.js"), expected);
        let expected = "a: 2\r\nB: x=y: z\r\n".to_owned();
        assert_eq!(lines(&rules, "/x"), (expected.clone(), expected));
    }

    #[test]
    fn no_rule_injects_a_field() {
        let long = format!("A: {}", "x".repeat(VALUE_SIZE_MAX));
        for text in [
            "",
            "A",
            "A:",
            "A: ",
            ": x",
            "=A: x",
            "*.js=: x",
            "A B: x",
            "A\r\nB: x",
            "A: x\r\nB: y",
            "A: x\ny",
            "A: x\0y",
            "A: \u{e9}",
            "\u{e9}: x",
            "*\r\nB: y=A\r\n: x",
            "A: x\ty",
            "*=content-length: 1",
            "Transfer-Encoding: chunked",
            "*.js=Content-Type: a/b",
            "Location: https://example.org",
            "Connection: close",
            &long,
        ] {
            assert!(FieldRule::parse(text).is_err(), "{text:?}");
        }
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
