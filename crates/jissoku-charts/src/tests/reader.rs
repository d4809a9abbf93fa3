//! Reads a drawing as a program that knows XML does, and checks what every drawing promises.

use quick_xml::Reader;
use quick_xml::XmlVersion;
use quick_xml::events::{BytesStart, Event};

/// A box.
#[derive(Clone, Debug, Default)]
pub(super) struct Rectangle {
    pub(super) class: String,
    pub(super) y: f64,
    pub(super) height: f64,
}

/// What was found.
#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    pub(super) title: String,
    pub(super) description: String,
    pub(super) texts: Vec<String>,
    pub(super) boxes: Vec<Rectangle>,
}

/// Reads a drawing; panics unless it is well formed, has numbers in its coordinates, and draws within
/// its view box.
pub(super) fn read(drawing: &str) -> Found {
    let is_allowed = |sign| !matches!(sign, '\0'..='\t' | '\u{b}'..' ' | '\u{fffe}' | '\u{ffff}');
    assert!(drawing.chars().all(is_allowed));
    let mut reader = Reader::from_str(drawing);
    let (mut found, mut open, mut size) = (Found::default(), Vec::new(), (0.0, 0.0));
    loop {
        match reader.read_event().expect("it is well formed") {
            Event::Start(start) => {
                element(&start, &mut size, &mut found);
                open.push(name(&start));
            }
            Event::Empty(start) => element(&start, &mut size, &mut found),
            Event::End(_) => drop(open.pop()),
            Event::Text(text) => {
                let text = text.decode().expect("it is UTF-8");
                append(&open, &text, &mut found);
            }
            Event::GeneralRef(reference) => {
                let name = reference.decode().expect("it is UTF-8");
                let sign = match &*name {
                    "amp" => "&",
                    "lt" => "<",
                    "gt" => ">",
                    "quot" => "\"",
                    "#39" => "'",
                    other => panic!("&{other}; is not written"),
                };
                append(&open, sign, &mut found);
            }
            Event::Eof => break,
            other => panic!("{other:?} is not written"),
        }
    }
    assert!(open.is_empty(), "{open:?} stay open");
    found
}

fn name(start: &BytesStart<'_>) -> String {
    String::from_utf8_lossy(start.name().as_ref()).into_owned()
}

/// Collects the text of an element.
fn append(open: &[String], text: &str, found: &mut Found) {
    let names: Vec<&str> = open.iter().map(String::as_str).collect();
    match names[..] {
        ["svg", "title"] => found.title.push_str(text),
        ["svg", "desc"] => found.description.push_str(text),
        ["svg", "text"] => {
            if let Some(last) = found.texts.last_mut() {
                last.push_str(text);
            }
        }
        _ => {}
    }
}

fn element(start: &BytesStart<'_>, size: &mut (f64, f64), found: &mut Found) {
    let attributes: Vec<(String, String)> = start
        .attributes()
        .map(|attribute| {
            let attribute = attribute.expect("it is well formed");
            let value = attribute.normalized_value(XmlVersion::Explicit1_0).expect("it is text");
            (String::from_utf8_lossy(attribute.key.as_ref()).into_owned(), value.into_owned())
        })
        .collect();
    let get = |name: &str| {
        attributes.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    };
    let numbers = |name: &str| numbers(get(name).unwrap_or("0"));
    let number = |name: &str| numbers(name)[0];
    let (x, y, width, height) = (number("x"), number("y"), number("width"), number("height"));
    match &*name(start) {
        "svg" => {
            assert_eq!(
                (get("role"), get("xmlns")),
                (Some("img"), Some("http://www.w3.org/2000/svg"))
            );
            *size = (width, height);
            assert_eq!(numbers("viewBox"), [0.0, 0.0, width, height]);
        }
        "rect" => {
            assert!(width >= 0.0 && height >= 0.0, "{attributes:?}");
            let class = get("class").unwrap_or_default().to_owned();
            found.boxes.push(Rectangle { class, y, height });
            inside((x, y), *size);
            inside((x + width, y + height), *size);
        }
        "text" => {
            found.texts.push(String::new());
            inside((x, y), *size);
        }
        "circle" => {
            let (x, y, r) = (number("cx"), number("cy"), number("r"));
            let outer = r + get("stroke-width").map_or(0.0, |_| number("stroke-width")) / 2.0;
            inside((x - outer, y - outer), *size);
            inside((x + outer, y + outer), *size);
            numbers("stroke-dasharray");
            numbers("stroke-dashoffset");
        }
        "path" => points(get("d").expect("it has a path"), *size),
        "title" | "desc" | "style" => {}
        other => panic!("<{other}> is not written"),
    }
}

/// Checks the points of a path: of each part two numbers a time, then perhaps H or h with one.
fn points(path: &str, size: (f64, f64)) {
    for part in path.split('M').skip(1) {
        let (line, across) = part.split_once(['H', 'h']).unwrap_or((part, ""));
        let line = numbers(line);
        assert_eq!(line.len() % 2, 0, "{path}");
        for point in line.chunks(2) {
            inside((point[0], point[1]), size);
        }
        if !across.is_empty() {
            inside((numbers(across)[0], 0.0), size);
        }
    }
}

fn numbers(text: &str) -> Vec<f64> {
    let number = |word: &str| {
        assert!(word.bytes().all(|byte| byte.is_ascii_digit() || b"-.".contains(&byte)), "{text}");
        word.parse().expect("it is a number")
    };
    text.split(' ').map(number).collect()
}

/// A tenth of a pixel is lost by rounding each of two numbers.
fn inside((x, y): (f64, f64), (width, height): (f64, f64)) {
    let is_inside = x >= -0.2 && y >= -0.2 && x <= width + 0.2 && y <= height + 0.2;
    assert!(is_inside, "{x}, {y} is not within {width} x {height}");
}
