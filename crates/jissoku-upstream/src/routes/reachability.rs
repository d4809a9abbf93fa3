//! Rules that no request can reach.
//!
//! Exact. A segment or host that differs from every literal is covered by one pattern or by none,
//! so only two things are covered by several rules together: the methods of a rule, and the paths
//! of a prefix, which are the prefix alone, with a slash, and what is below it.

use super::rule::Rule;

/// Stands for a method that no rule names; not a token, so that none can.
const OTHER_METHOD: &str = "";

/// The first rule that earlier ones cover, and one of these.
pub(super) fn first_unreachable(rules: &[Rule]) -> Option<(usize, usize)> {
    let depth_max = rules.iter().map(|rule| rule.path().depth()).max().unwrap_or_default();
    rules.iter().enumerate().find_map(|(index, rule)| {
        let earlier = rules.get(..index)?;
        let mut methods: Vec<&str> = rule.methods().collect();
        if methods.is_empty() {
            methods = rules.iter().flat_map(Rule::methods).collect();
            methods.push(OTHER_METHOD);
        }
        let covering = methods.iter().map(|method| covering(earlier, rule, method, depth_max));
        let all: Option<Vec<usize>> = covering.collect();
        Some((index, *all?.last()?))
    })
}

/// One of the rules that together take every request of `method` that fits `rule`.
fn covering(earlier: &[Rule], rule: &Rule, method: &str, depth_max: usize) -> Option<usize> {
    let covers = |other: &Rule| other.takes(method.as_bytes()) && other.covers_place(rule);
    if let Some(by) = earlier.iter().position(covers) {
        return Some(by);
    }
    // No rule has a segment beyond the deepest one's.
    if rule.path().depth() > depth_max {
        return None;
    }
    let parts = rule.path().split_prefix()?;
    let found = parts
        .into_iter()
        .map(|path| covering(earlier, &rule.clone().with_path(path), method, depth_max));
    found.collect::<Option<Vec<usize>>>()?.pop()
}
