//! Flame graphs as SVG, by inferno.

use inferno::flamegraph::{self, Options};

/// Whether a reader can search and zoom, which takes a script inside the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interaction {
    /// With the script, for an image that is opened alone.
    Script,
    /// Without, for an image inside a page.
    None,
}

/// Draws collapsed stacks: lines `outer;inner COUNT`, or `outer;inner BEFORE AFTER`, which gives a
/// differential flame graph. The same lines give the same bytes.
///
/// # Errors
/// A sentence: no line is one of a stack.
pub fn draw(
    lines: &str,
    title: &str,
    count_name: &str,
    interaction: Interaction,
) -> Result<String, String> {
    let mut options = Options::default();
    title.clone_into(&mut options.title);
    count_name.clone_into(&mut options.count_name);
    options.deterministic = true;
    options.no_javascript = interaction == Interaction::None;
    options.image_width = Some(1200);
    let mut svg = Vec::new();
    flamegraph::from_lines(&mut options, lines.lines(), &mut svg)
        .map_err(|error| format!("no flame graph: {error}"))?;
    String::from_utf8(svg).map_err(|error| format!("no flame graph: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_become_an_image() {
        let lines = "nginx;ngx_worker;deflate 900\nnginx;ngx_worker;writev 100\n";
        let svg = draw(lines, "CPU time", "ns", Interaction::None).expect("an image");
        assert!(svg.contains("deflate"));
        let alone = draw(lines, "CPU time", "ns", Interaction::Script).expect("an image");
        assert!(alone.len() > svg.len() + 1000, "the script is in it");
        assert_eq!(draw(lines, "CPU time", "ns", Interaction::None), Ok(svg));
        let both = draw("a;b 10 20\na;c 30 5\n", "Difference", "ns", Interaction::Script);
        assert!(both.expect("an image").contains("Difference"));
        assert!(draw("", "", "", Interaction::None).is_err());
    }
}
