//! The function of charts.

use std::ffi::{CString, c_char, c_int};
use std::ptr;

use super::{Call, RawRequest, Str};
use crate::chart::Chart;

/// `jsk_series`.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Series {
    pub(super) name: *const c_char,
    pub(super) values: *const f64,
    pub(super) count: usize,
}

/// `jsk_chart`.
#[repr(C)]
#[derive(Debug)]
pub(super) struct RawChart {
    pub(super) title: *const c_char,
    pub(super) description: *const c_char,
    pub(super) unit: *const c_char,
    pub(super) x_title: *const c_char,
    pub(super) series: *const Series,
    pub(super) series_count: usize,
    pub(super) labels: *const *const c_char,
    pub(super) label_count: usize,
    pub(super) positions: *const f64,
    pub(super) reach_low: f64,
    pub(super) reach_high: f64,
    pub(super) bins: u32,
    pub(super) width: u32,
    pub(super) height: u32,
}

pub(super) type Draw =
    unsafe extern "C" fn(*mut RawRequest, c_int, *const RawChart, *mut Str) -> Str;

/// Texts as C has them: those that end with a zero, and NULL in place of empty ones.
struct CTexts(Vec<CString>);

impl CTexts {
    /// `None` if there is a zero in one.
    fn of(texts: &[&str]) -> Option<Self> {
        texts.iter().map(|&text| CString::new(text).ok()).collect::<Option<_>>().map(Self)
    }

    fn pointers(&self) -> Vec<*const c_char> {
        let pointer = |text: &CString| if text.is_empty() { ptr::null() } else { text.as_ptr() };
        self.0.iter().map(pointer).collect()
    }
}

impl<'r> Call<'r> {
    /// Draws a chart, or returns why there is none.
    pub(crate) fn chart(self, kind: c_int, chart: &Chart<'_>) -> Result<&'r [u8], String> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let draw = function!(self.server, chart).ok_or("the server is older than charts")?;
        let longest = chart.series.iter().map(|(_, values)| values.len()).max().unwrap_or(0);
        if !chart.positions.is_empty() && chart.positions.len() != longest {
            return Err(format!("there are {} positions, not {longest}", chart.positions.len()));
        }
        let texts = [chart.title, chart.description, chart.unit, chart.x_title];
        let names: Vec<&str> = chart.series.iter().map(|(name, _)| *name).collect();
        let [texts, names, labels] = [&texts[..], &names, chart.labels]
            .map(|texts| CTexts::of(texts).ok_or("a text has a zero in it"));
        let (texts, names, labels) = (texts?, names?, labels?);
        let (texts, names) = (texts.pointers(), names.pointers());
        // Also an empty label is one.
        let labels: Vec<_> = labels.0.iter().map(|label| label.as_ptr()).collect();
        let series = names.iter().zip(chart.series).map(|(&name, (_, values))| Series {
            name,
            values: values.as_ptr(),
            count: values.len(),
        });
        let series: Vec<Series> = series.collect();
        let raw = RawChart {
            title: texts[0],
            description: texts[1],
            unit: texts[2],
            x_title: texts[3],
            series: series.as_ptr(),
            series_count: series.len(),
            labels: labels.as_ptr(),
            label_count: labels.len(),
            positions: if longest == 0 || chart.positions.is_empty() {
                ptr::null()
            } else {
                chart.positions.as_ptr()
            },
            reach_low: chart.reach.0,
            reach_high: chart.reach.1,
            bins: chart.bins,
            width: chart.size.0,
            height: chart.size.1,
        };
        let mut why = Str { ptr: ptr::null(), len: 0 };
        // SAFETY: the request is there, and all that the chart points to outlives the call.
        let drawing = unsafe { draw(self.request.as_ptr(), kind, &raw const raw, &raw mut why) };
        drawing.bytes().ok_or_else(|| text(why.bytes().unwrap_or_default()))
    }
}
