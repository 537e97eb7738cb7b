//! From values to places along an axis, and the labelled ticks between them.
//! Invariant: every place is within 0 and 1 and every label finite, whatever the data hold: what
//! cannot be drawn on a scale (NaN, a zero on a logarithmic one) has no place.

/// How values are laid out along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Evenly, from zero.
    Linear,
    /// By powers of ten; only what is above zero has a place.
    Logarithmic,
    /// Quantiles (0 to 1) by their nines: 90%, 99% and 99.9% are evenly apart.
    Nines,
}

/// Larger values are drawn at this one: sums of such figures are still far from infinity.
const LARGEST: f64 = 1e18;
/// Smaller ones are drawn at zero, or at this one where the scale is logarithmic.
const SMALLEST: f64 = 1e-9;
/// As many nines as a count of requests can have.
const NINES_MAX: f64 = 12.0;

/// The part of a scale that an axis shows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    scale: Scale,
    /// In the coordinates of `project`.
    low: f64,
    high: f64,
}

/// A mark on an axis.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tick {
    pub(super) place: f64,
    pub(super) label: String,
}

impl Span {
    /// The span that shows all values that have a place; `None` if none has.
    pub(super) fn of(scale: Scale, values: impl Iterator<Item = f64>) -> Option<Span> {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for place in values.filter_map(|value| project(scale, value)) {
            (low, high) = (low.min(place), high.max(place));
        }
        if low > high {
            return None;
        }
        let (low, high) = match scale {
            Scale::Linear => whole_steps(low.min(0.0), high.max(0.0)),
            Scale::Logarithmic => (round_down(low), round_up(high)),
            Scale::Nines => (0.0, high.max(1.0)),
        };
        let high = if high > low { high } else { low + 1.0 };
        Some(Span { scale, low, high })
    }

    /// Where a value lies: 0 at the axis' beginning, 1 at its end.
    pub(super) fn place(&self, value: f64) -> Option<f64> {
        let place = (project(self.scale, value)? - self.low) / (self.high - self.low);
        Some(place.clamp(0.0, 1.0))
    }

    /// Where bars begin: at zero, or at the axis' beginning where zero has no place.
    pub(super) fn base(&self) -> f64 {
        self.place(0.0).unwrap_or(0.0)
    }

    pub(super) fn ticks(&self) -> Vec<Tick> {
        match self.scale {
            Scale::Linear => self.linear_ticks(),
            Scale::Logarithmic => self.logarithmic_ticks(),
            Scale::Nines => self.nines_ticks(),
        }
    }

    fn tick(&self, place: f64, label: String) -> Tick {
        Tick { place: (place - self.low) / (self.high - self.low), label }
    }

    fn linear_ticks(&self) -> Vec<Tick> {
        let step = nice_step(self.high - self.low);
        let (size, suffix) = unit(self.high.abs().max(self.low.abs()));
        let decimals = decimals_of(step / size);
        let count = ((self.high - self.low) / step).round() as usize;
        let values = (0..=count).map(|index| self.low + step * index as f64);
        values
            .map(|value| {
                let zero = value.abs() < step / 2.0;
                let label = format!("{:.decimals$}{suffix}", value / size);
                self.tick(value, if zero { "0".into() } else { label })
            })
            .collect()
    }

    fn logarithmic_ticks(&self) -> Vec<Tick> {
        let decades = self.high - self.low;
        let mantissas: &[f64] = if decades < 3.2 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let every = (decades / 7.0).ceil().max(1.0) as i32;
        let exponents = (self.low.floor() as i32..=self.high.ceil() as i32)
            .filter(|exponent| exponent.rem_euclid(every) == 0);
        let marks = exponents.flat_map(|exponent| {
            mantissas.iter().map(move |mantissa| mantissa * 10_f64.powi(exponent))
        });
        let near = 1e-9;
        marks
            .filter(|mark| (self.low - near..=self.high + near).contains(&mark.log10()))
            .map(|mark| self.tick(mark.log10(), short_number(mark)))
            .collect()
    }

    fn nines_ticks(&self) -> Vec<Tick> {
        let nines = (1..=self.high as usize).map(|nines| {
            let label = match nines {
                1 => "90%".into(),
                2 => "99%".into(),
                more => format!("99.{}%", "9".repeat(more - 2)),
            };
            self.tick(nines as f64, label)
        });
        // Where many nines share the axis, the labels of 0% and 50% would run into each other.
        let half = (self.high < 4.0).then(|| self.tick(2_f64.log10(), "50%".into()));
        [self.tick(0.0, "0%".into())].into_iter().chain(half).chain(nines).collect()
    }
}

/// The coordinate in which a scale is even.
fn project(scale: Scale, value: f64) -> Option<f64> {
    if value.is_nan() {
        return None;
    }
    match scale {
        Scale::Linear if value.abs() < SMALLEST => Some(0.0),
        Scale::Linear => Some(value.clamp(-LARGEST, LARGEST)),
        Scale::Logarithmic => (value > 0.0).then(|| value.clamp(SMALLEST, LARGEST).log10()),
        Scale::Nines => {
            (0.0..1.0).contains(&value).then(|| (-(1.0 - value).log10()).clamp(0.0, NINES_MAX))
        }
    }
}

/// The bounds moved apart to multiples of the step that suits the span they then have.
fn whole_steps(low: f64, high: f64) -> (f64, f64) {
    let mut step = nice_step(if high > low { high - low } else { 1.0 });
    loop {
        let bounds = (step * (low / step).floor(), step * (high / step).ceil().max(1.0));
        let wider = nice_step(bounds.1 - bounds.0);
        if wider <= step {
            return bounds;
        }
        step = wider;
    }
}

/// The step of 1, 2 or 5 times a power of ten that divides `length` into four to ten parts.
fn nice_step(length: f64) -> f64 {
    let rough = length / 5.0;
    let power = 10_f64.powf(rough.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|mantissa| mantissa * power);
    steps.into_iter().find(|step| *step >= rough * 0.999).unwrap_or(10.0 * power)
}

fn round_down(place: f64) -> f64 {
    let marks = [5.0, 2.0, 1.0].map(|mantissa: f64| place.floor() + mantissa.log10());
    marks.into_iter().find(|mark| *mark <= place + 1e-9).unwrap_or(place.floor())
}

fn round_up(place: f64) -> f64 {
    let marks = [1.0, 2.0, 5.0].map(|mantissa: f64| place.floor() + mantissa.log10());
    marks.into_iter().find(|mark| *mark >= place - 1e-9).unwrap_or(place.floor() + 1.0)
}

/// The unit that numbers of this size are written in.
fn unit(size: f64) -> (f64, &'static str) {
    const UNITS: [(f64, &str); 6] =
        [(1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    UNITS.into_iter().find(|(unit, _)| size >= *unit * 0.9999).unwrap_or((1.0, ""))
}

/// How many decimals tell multiples of `step` apart.
fn decimals_of(step: f64) -> usize {
    (-(step * 1.001).log10().floor()).clamp(0.0, 12.0) as usize
}

/// A number in up to three significant digits and a unit: `0.05`, `2`, `1.25k`, `12M`.
#[must_use]
pub fn short_number(value: f64) -> String {
    if !value.is_finite() {
        return "-".into();
    }
    // Beyond, digits would only be noise.
    let value = value.clamp(-1e21, 1e21);
    let (size, suffix) = unit(value.abs());
    let scaled = value / size;
    let whole_digits = if scaled == 0.0 { 1.0 } else { scaled.abs().log10().floor() + 1.0 };
    let decimals = (3.0 - whole_digits).clamp(0.0, 12.0) as usize;
    let text = format!("{scaled:.decimals$}");
    let text = match text.split_once('.') {
        Some(_) => text.trim_end_matches('0').trim_end_matches('.'),
        None => &text,
    };
    format!("{text}{suffix}")
}
