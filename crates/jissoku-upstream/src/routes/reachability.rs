//! Rules that no request can reach.
//!
//! Exact: a path or host that differs from every literal is covered by one pattern or by none, so
//! that only methods are ever covered by several rules together.

use super::rule::Rule;

/// The first rule that earlier ones cover, and one of these.
pub(super) fn first_unreachable(rules: &[Rule]) -> Option<(usize, usize)> {
    rules.iter().enumerate().find_map(|(index, rule)| {
        let earlier = rules.iter().take(index).enumerate();
        let covering: Vec<_> = earlier.filter(|(_, other)| other.covers_place(rule)).collect();
        let (first, _) = *covering.first()?;
        if let Some((by, _)) = covering.iter().find(|(_, other)| other.takes_every_method()) {
            return Some((index, *by));
        }
        let is_covered =
            |method: &str| covering.iter().any(|(_, other)| other.takes(method.as_bytes()));
        (!rule.takes_every_method() && rule.methods().all(is_covered)).then_some((index, first))
    })
}
