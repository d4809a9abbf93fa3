//! A kept drawing of each kind, byte for byte but for line breaks between its elements. `JSK_GOLDEN=1 cargo test -p jissoku-charts` writes them
//! again; look at them in a browser then.

use std::path::Path;

use crate::{Chart, Kind, Series, draw};

#[expect(clippy::disallowed_methods, reason = "a test is its own outermost layer")]
fn check(chart: &Chart<'_>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tests/golden");
    let path = folder.join(format!("{}.svg", chart.kind.word()));
    let drawing = draw(chart).expect("it can be drawn").replace("><", ">\n<");
    if std::env::var("JSK_GOLDEN").is_ok() {
        std::fs::create_dir_all(&folder).expect("the folder is made");
        std::fs::write(&path, &drawing).expect("it is written");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(drawing == kept, "{} differs; it is now\n{drawing}", path.display());
}

#[test]
fn a_line() {
    let today = [120.0, 180.0, 90.0, f64::NAN, 260.0, 310.0, 280.0];
    let series = [
        Series { name: "today", values: &today },
        Series { name: "yesterday", values: &[100.0, 110.0, 130.0, 150.0, 140.0, 160.0, 155.0] },
    ];
    check(&Chart {
        title: "Requests",
        unit: "requests per second",
        labels: &["9:00", "10:00", "11:00", "12:00"],
        ..Chart::new(Kind::Line, &series)
    });
}

#[test]
fn bars() {
    let series = [
        Series { name: "sent", values: &[12_000.0, 30_500.0, 7_000.0] },
        Series { name: "saved", values: &[-4_000.0, 2_500.0, f64::NAN] },
    ];
    check(&Chart {
        title: "Bytes <by> type",
        labels: &["HTML", "images", "scripts & styles"],
        x_title: "type",
        ..Chart::new(Kind::Bar, &series)
    });
}

#[test]
fn a_histogram() {
    let values: Vec<f64> =
        (0_u32..200).map(|n| f64::from(n * 37 % 101 + n * 53 % 89) / 10.0).collect();
    let series = [Series { name: "", values: &values }];
    let texts = Chart { title: "Latency", x_title: "ms", ..Chart::new(Kind::Histogram, &series) };
    check(&Chart { unit: "requests", ..texts });
}

#[test]
fn a_sparkline() {
    let series = [Series { name: "", values: &[3.0, 5.0, 4.0, 8.0, 7.0, 9.0, 6.0] }];
    check(&Chart { title: "Requests in the last minute", ..Chart::new(Kind::Sparkline, &series) });
}

#[test]
fn a_ring() {
    let series = [Series { name: "", values: &[940.0, 45.0, 12.0, 3.0] }];
    check(&Chart {
        title: "Responses",
        unit: "responses",
        labels: &["2xx", "3xx", "4xx", "5xx"],
        ..Chart::new(Kind::Ring, &series)
    });
}
