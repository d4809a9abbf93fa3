//! What is drawn, and its limits.

use crate::error::Error;
use crate::kind::Kind;
use crate::limits::{
    BARS_MAX, BINS_MAX, PARTS_MAX, SERIES_MAX, SIZE_MAX, TEXT_MAX, VALUE_MAX, VALUES_MAX, present,
};

/// Where a chart is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// Alone or in any page: it has its own style, background and visible title.
    #[default]
    Anywhere,
    /// In a page that has [`crate::STYLE_SHEET`] and a heading of its own.
    Page,
}

/// Values with a name, which may be empty.
#[derive(Clone, Copy, Debug)]
pub struct Series<'a> {
    /// Its name in the legend.
    pub name: &'a str,
    /// NaN, and what is beyond [`VALUE_MAX`], is absent.
    pub values: &'a [f64],
}

/// A chart. All texts may be empty, and are plain text: they are escaped when they are written.
#[derive(Clone, Copy, Debug)]
pub struct Chart<'a> {
    /// What it is.
    pub kind: Kind,
    /// Its name.
    pub title: &'a str,
    /// Its contents in words. Empty: made of the values.
    pub description: &'a str,
    /// What the values are, such as `requests per second`; above the axis.
    pub unit: &'a str,
    /// What the other axis is; below it.
    pub x_title: &'a str,
    /// The values.
    pub series: &'a [Series<'a>],
    /// Names of the bars or of the parts of a ring, as many as values; of a line, any number of texts
    /// at equal distances below its axis, in place of numbers.
    pub labels: &'a [&'a str],
    /// Where the values of a line are, in ascending order. Empty: at 0, 1, 2 and so on.
    pub positions: &'a [f64],
    /// What the axis of a line, a sparkline or bars contains at least, if the two differ.
    pub reach: (f64, f64),
    /// How many ranges a histogram has. 0: as many as its values suggest, with round bounds.
    pub bins: usize,
    /// Width and height in pixels; 0: as the kind has it.
    pub size: (u32, u32),
    /// Where it is shown.
    pub place: Place,
}

impl<'a> Chart<'a> {
    /// A chart with nothing but values.
    pub const fn new(kind: Kind, series: &'a [Series<'a>]) -> Self {
        Self {
            kind,
            title: "",
            description: "",
            unit: "",
            x_title: "",
            series,
            labels: &[],
            positions: &[],
            reach: (0.0, 0.0),
            bins: 0,
            size: (0, 0),
            place: Place::Anywhere,
        }
    }

    /// Width and height in pixels.
    pub(crate) fn pixels(&self) -> (u32, u32) {
        let usual = self.kind.size();
        let or_usual = |given: u32, usual| if given == 0 { usual } else { given };
        (or_usual(self.size.0, usual.0), or_usual(self.size.1, usual.1))
    }

    /// The values of the longest series.
    pub(crate) fn length(&self) -> usize {
        self.series.iter().map(|series| series.values.len()).max().unwrap_or_default()
    }

    /// All values that are there.
    pub(crate) fn present(&self) -> impl Iterator<Item = f64> {
        self.series.iter().flat_map(|series| series.values).copied().filter_map(present)
    }

    /// The values of a kind with one series.
    pub(crate) fn values(&self) -> &'a [f64] {
        self.series.first().map(|series| series.values).unwrap_or_default()
    }

    /// The name of the value at `index` of a series.
    pub(crate) fn label(&self, index: usize) -> String {
        self.labels.get(index).map_or_else(|| (index + 1).to_string(), |&label| label.to_owned())
    }

    /// The name of a series.
    pub(crate) fn name(&self, index: usize) -> String {
        match self.series.get(index) {
            Some(series) if !series.name.is_empty() => series.name.to_owned(),
            _ => (index + 1).to_string(),
        }
    }

    /// The lowest and the highest value, and what the axis contains at least; `None` if there is
    /// nothing of it.
    pub(crate) fn bounds(&self) -> Option<(f64, f64)> {
        let reach = [self.reach.0, self.reach.1];
        let asked = if (reach[1] - reach[0]).abs() > 0.0 { &reach[..] } else { &[] };
        let wider = |found: Option<(f64, f64)>, value: f64| match found {
            None => Some((value, value)),
            Some((low, high)) => Some((low.min(value), high.max(value))),
        };
        self.present().chain(asked.iter().copied()).fold(None, wider)
    }

    /// Whether it can be drawn.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let (width, height) = self.pixels();
        let (least_width, least_height) = self.kind.size_min();
        if !(least_width..=SIZE_MAX).contains(&width)
            || !(least_height..=SIZE_MAX).contains(&height)
        {
            return Err(Error(format!(
                "a {} has {least_width} x {least_height} to {SIZE_MAX} x {SIZE_MAX} pixels, \
                 not {width} x {height}",
                self.kind.word()
            )));
        }
        let series = self.series.len();
        if series > SERIES_MAX {
            return Err(Error::series(series));
        }
        let has_one = matches!(self.kind, Kind::Histogram | Kind::Sparkline | Kind::Ring);
        if has_one && series > 1 {
            return Err(Error(format!("a {} has one series, not {series}", self.kind.word())));
        }
        let count: usize = self.series.iter().map(|series| series.values.len()).sum();
        if count > VALUES_MAX {
            return Err(Error(format!("a chart has at most {VALUES_MAX} values, not {count}")));
        }
        if self.bins > BINS_MAX {
            let bins = self.bins;
            return Err(Error(format!("a histogram has at most {BINS_MAX} bins, not {bins}")));
        }
        if present(self.reach.0).is_none() || present(self.reach.1).is_none() {
            return Err(Error(format!("the axis reaches to numbers up to {VALUE_MAX:e} only")));
        }
        self.check_texts()?;
        match self.kind {
            Kind::Line | Kind::Sparkline => self.check_positions(),
            Kind::Bar => self.check_bars(),
            Kind::Ring => self.check_parts(),
            Kind::Histogram => Ok(()),
        }
    }

    fn check_texts(&self) -> Result<(), Error> {
        let texts = [self.title, self.description, self.unit, self.x_title];
        let names = self.series.iter().map(|series| series.name);
        let all = texts.into_iter().chain(names).chain(self.labels.iter().copied());
        match all.map(str::len).max() {
            Some(size) if size > TEXT_MAX => {
                Err(Error(format!("a text of a chart has at most {TEXT_MAX} bytes, not {size}")))
            }
            _ if self.labels.len() > BARS_MAX => Err(Error::label_count(self.labels.len())),
            _ => Ok(()),
        }
    }

    fn check_positions(&self) -> Result<(), Error> {
        let (count, length) = (self.positions.len(), self.length());
        if count > 0 && count != length {
            return Err(Error(format!("there are {count} positions for {length} values")));
        }
        let is_wrong = |index: &usize| {
            let before = index.checked_sub(1).map_or(-VALUE_MAX, |before| self.positions[before]);
            present(self.positions[*index]).is_none_or(|position| position < before)
        };
        let Some(index) = (0..count).find(is_wrong) else { return Ok(()) };
        Err(Error(format!(
            "position {} is lower than the one before it, or not a number up to {VALUE_MAX:e}",
            index + 1
        )))
    }

    /// Whether there are no labels, or as many as values.
    fn check_labels(&self, values: usize) -> Result<(), Error> {
        match self.labels.len() {
            labels if labels > 0 && labels != values => {
                Err(Error(format!("there are {labels} labels for {values} values")))
            }
            _ => Ok(()),
        }
    }

    fn check_bars(&self) -> Result<(), Error> {
        self.check_labels(self.length())?;
        let bars = self.length() * self.series.len();
        if bars > BARS_MAX {
            return Err(Error(format!("a chart has at most {BARS_MAX} bars, not {bars}")));
        }
        Ok(())
    }

    fn check_parts(&self) -> Result<(), Error> {
        let values = self.values();
        self.check_labels(values.len())?;
        if values.len() > PARTS_MAX {
            let count = values.len();
            return Err(Error(format!("a ring has at most {PARTS_MAX} parts, not {count}")));
        }
        let Some(index) = values.iter().position(|value| *value < 0.0) else { return Ok(()) };
        Err(Error(format!("part {} of the ring is negative", index + 1)))
    }
}
