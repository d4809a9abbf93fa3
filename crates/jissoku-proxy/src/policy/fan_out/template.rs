//! Where a part's request goes: `app:/users/{id}`, an upstream and a path with the route's variables.

use crate::policy::routes::{Captures, PathPattern};

const FORM: &str = "a part is an upstream and a path, as in \"app:/users/{id}\"";

/// A parsed template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartTemplate {
    upstream: String,
    pieces: Vec<Piece>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    /// The index of a variable of the route.
    Variable(usize),
}

impl PartTemplate {
    /// Parses a template for a route with this path.
    ///
    /// # Errors
    ///
    /// What cannot become a request target.
    pub fn parse(text: &str, route: &PathPattern) -> Result<Self, String> {
        let (upstream, target) = text.split_once(':').ok_or(FORM)?;
        if upstream.is_empty() || !target.starts_with('/') {
            return Err(FORM.to_owned());
        }
        let (path, query) = target.split_once('?').map_or((target, None), |(p, q)| (p, Some(q)));
        let mut pieces = Vec::new();
        let mut rest = path;
        while let Some((text, tail)) = rest.split_once('{') {
            let (name, tail) = tail.split_once('}').ok_or(FORM)?;
            let index = route.variables().position(|known| known == name);
            let index =
                index.ok_or_else(|| format!("the route's path has no variable {{{name}}}"))?;
            pieces.extend([Piece::Text(text.to_owned()), Piece::Variable(index)]);
            rest = tail;
        }
        let mut end = rest.to_owned();
        if let Some(query) = query {
            if query.contains(['{', '}']) {
                return Err("variables are for the path, not for the query".to_owned());
            }
            end.push('?');
            end.push_str(query);
        }
        pieces.push(Piece::Text(end));
        let template = Self { upstream: upstream.to_owned(), pieces };
        template.check()?;
        Ok(template)
    }

    /// A variable can stand for any segment without hazards: `x` is one of them.
    fn check(&self) -> Result<(), String> {
        let example: String = self
            .pieces
            .iter()
            .map(|piece| match piece {
                Piece::Text(text) => text.as_str(),
                Piece::Variable(_) => "x",
            })
            .collect();
        let path = example.split('?').next().unwrap_or_default();
        let is_target = example.bytes().all(|byte| byte > 0x20 && byte != 0x7f && byte != b'#');
        let is_path = crate::policy::routes::ambiguity_of(path.as_bytes()).is_none()
            && !path.contains(['{', '}']);
        let why = "the part's path has a byte or segment that is refused";
        if is_target && is_path { Ok(()) } else { Err(why.to_owned()) }
    }

    /// The upstream's name.
    pub fn upstream(&self) -> &str {
        &self.upstream
    }

    /// The target for a request with this path. `None` if a variable next to other text makes a
    /// path that would be refused, such as `..`: 400.
    pub fn target(&self, path: &[u8], captures: &Captures) -> Option<Vec<u8>> {
        let mut target = Vec::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => target.extend_from_slice(text.as_bytes()),
                Piece::Variable(index) => {
                    target.extend_from_slice(path.get(captures.span(*index)?)?);
                }
            }
        }
        let path = target.split(|&byte| byte == b'?').next().unwrap_or_default();
        crate::policy::routes::ambiguity_of(path).is_none().then_some(target)
    }
}
