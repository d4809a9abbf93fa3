//! How the parts stand in a JSON answer.

/// The form of a JSON answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Shape {
    /// `parts` is a list in the order of the plan.
    #[default]
    List,
    /// `parts` is an object by id.
    Object,
    /// The members of all parts that are objects, the first of a name; nothing else.
    Merge,
}
