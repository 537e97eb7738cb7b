//! Small charts as SVG inside a page: lines and grouped bars, drawn without a script, a font or a
//! picture from anywhere else. Colours come from [`STYLE`], so a chart follows the reader's light
//! or dark surroundings.
//!
//! Invariant: any data give a well-formed figure; what has no place on its scale is left out, and
//! no data at all give a figure that says so.

mod scale;

use std::fmt::Write;

pub use scale::{Scale, short_number};

use scale::{Span, Tick};

/// The style sheet of all charts; a page carries it once. The sheet defines the colours `--ink`,
/// `--quiet`, `--rule`, `--paper` and `--panel`, which the page may use as well.
pub const STYLE: &str = include_str!("chart/style.css");

/// Colours in `STYLE`; a ninth line takes the first again.
const COLOURS: usize = 8;
/// The drawing's own units; the drawing is scaled to the width of its column.
const WIDTH: f64 = 540.0;
const HEIGHT: f64 = 300.0;
/// Around the plot: room for labels.
const LEFT: f64 = 52.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 48.0;
/// More points than the drawing has columns are thinned out to this many.
const POINTS_MAX: usize = 1200;
/// Up to so many points of a line, each is marked and tells its value.
const MARKED_MAX: usize = 60;
/// Up to so many bars carry their value.
const LABELLED_MAX: usize = 24;

/// One line of a chart.
#[derive(Clone, Debug, Default)]
pub struct Line {
    /// As the legend shows it.
    pub name: String,
    /// Places in the units of the axes, from left to right; NaN makes a gap.
    pub points: Vec<(f64, f64)>,
}

/// One bar in each group of a chart.
#[derive(Clone, Debug, Default)]
pub struct Bars {
    /// As the legend shows it.
    pub name: String,
    /// A value per group; NaN or a missing one leaves its place empty.
    pub values: Vec<f64>,
}

/// What an axis shows, with its unit, and how.
#[derive(Clone, Copy, Debug)]
pub struct Axis<'a> {
    /// Such as `seconds` or `latency, ms`.
    pub label: &'a str,
    /// How values are laid out.
    pub scale: Scale,
}

/// A chart of lines over a common axis, as an HTML figure.
#[must_use]
pub fn lines(title: &str, x: Axis<'_>, y: Axis<'_>, lines: &[Line]) -> String {
    let all = || lines.iter().flat_map(|line| &line.points);
    let spans = (
        Span::of(x.scale, all().filter(|point| !point.1.is_nan()).map(|point| point.0)),
        Span::of(y.scale, all().filter(|point| !point.0.is_nan()).map(|point| point.1)),
    );
    let (Some(across), Some(up)) = spans else {
        return empty(title);
    };
    let mut drawing = frame(&up, y.label, x.label);
    for tick in across.ticks() {
        drawing.push_str(&vertical_tick(&tick));
    }
    for (index, line) in lines.iter().enumerate() {
        drawing.push_str(&one_line(index, line, &across, &up));
    }
    figure(title, lines.iter().map(|line| &*line.name), &drawing)
}

/// A chart of bars side by side in named groups, as an HTML figure.
#[must_use]
pub fn bars(title: &str, y: Axis<'_>, groups: &[String], series: &[Bars]) -> String {
    let values = series.iter().flat_map(|bars| bars.values.iter().copied().take(groups.len()));
    let Some(up) = Span::of(y.scale, values) else {
        return empty(title);
    };
    let mut drawing = frame(&up, y.label, "");
    let group_width = (WIDTH - LEFT - RIGHT) / groups.len().max(1) as f64;
    let bar_width = (group_width * 0.76 / series.len().max(1) as f64).min(64.0);
    let labelled = groups.len() * series.len() <= LABELLED_MAX;
    for (group, name) in groups.iter().enumerate() {
        let middle = LEFT + group_width * (group as f64 + 0.5);
        drawing.push_str(&group_label(middle, name, group_width));
        let first = middle - bar_width * series.len() as f64 / 2.0;
        for (index, bars) in series.iter().enumerate() {
            let Some(value) = bars.values.get(group).copied() else { continue };
            let Some(place) = up.place(value) else { continue };
            let left = first + bar_width * index as f64;
            let (from, to) = (height_of(up.base()), height_of(place));
            let _ = write!(
                drawing,
                "<rect class=\"fill c{}\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" \
                 height=\"{:.1}\"><title>{}: {} {}</title></rect>",
                index % COLOURS,
                left + bar_width * 0.04,
                to.min(from),
                bar_width * 0.92,
                (from - to).abs().max(0.5),
                escape(name),
                escape(&bars.name),
                short_number(value),
            );
            if labelled {
                let (x, y) = (left + bar_width / 2.0, to.min(from) - 5.0);
                drawing.push_str(&label(x, y, "middle", "value", &short_number(value)));
            }
        }
    }
    figure(title, series.iter().map(|bars| &*bars.name), &drawing)
}

/// Text as it may stand in HTML, in quotes too.
#[must_use]
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            // Control characters have no place in a page.
            control if control.is_control() => escaped.push(' '),
            other => escaped.push(other),
        }
    }
    escaped
}

fn figure<'a>(title: &str, names: impl Iterator<Item = &'a str>, drawing: &str) -> String {
    let mut legend = String::new();
    for (index, name) in names.enumerate().filter(|(_, name)| !name.is_empty()) {
        let colour = index % COLOURS;
        let _ = write!(legend, "<li><i class=\"c{colour}\"></i>{}</li>", escape(name));
    }
    let legend =
        if legend.is_empty() { legend } else { format!("<ul class=\"legend\">{legend}</ul>") };
    let title = escape(title);
    format!(
        "<figure class=\"chart\"><figcaption>{title}</figcaption>{legend}\
         <svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{title}\">{drawing}</svg>\
         </figure>\n"
    )
}

fn empty(title: &str) -> String {
    let note = label(WIDTH / 2.0, HEIGHT / 2.0, "middle", "quiet", "no data");
    figure(title, std::iter::empty(), &note)
}

/// The horizontal rules with their labels, and what the axes show.
fn frame(up: &Span, y_label: &str, x_label: &str) -> String {
    let rule = |y: f64| {
        let right = WIDTH - RIGHT;
        format!("<line class=\"rule\" x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{right}\" y2=\"{y:.1}\"/>")
    };
    let mut drawing = rule(height_of(0.0));
    for tick in up.ticks() {
        let y = height_of(tick.place);
        drawing.push_str(&rule(y));
        drawing.push_str(&label(LEFT - 8.0, y + 4.0, "end", "tick", &tick.label));
    }
    let middle = (LEFT + WIDTH - RIGHT) / 2.0;
    drawing.push_str(&label(6.0, 14.0, "start", "quiet", y_label));
    drawing.push_str(&label(middle, HEIGHT - 6.0, "middle", "quiet", x_label));
    drawing
}

fn vertical_tick(tick: &Tick) -> String {
    let (x, bottom) = (across_of(tick.place), HEIGHT - BOTTOM);
    let mark = format!(
        "<line class=\"rule\" x1=\"{x:.1}\" y1=\"{bottom:.1}\" x2=\"{x:.1}\" y2=\"{:.1}\"/>",
        bottom + 5.0
    );
    mark + &label(x, bottom + 19.0, "middle", "tick", &tick.label)
}

fn one_line(index: usize, line: &Line, across: &Span, up: &Span) -> String {
    let colour = index % COLOURS;
    let points = thin_out(&line.points);
    let (mut path, mut marks) = (String::new(), String::new());
    let mut pen_is_down = false;
    for &(x, y) in points.iter() {
        let (Some(right), Some(height)) = (across.place(x), up.place(y)) else {
            pen_is_down = false;
            continue;
        };
        let (right, height) = (across_of(right), height_of(height));
        let command = if pen_is_down { 'L' } else { 'M' };
        let _ = write!(path, "{command}{right:.1} {height:.1}");
        pen_is_down = true;
        if points.len() <= MARKED_MAX {
            let _ = write!(
                marks,
                "<circle class=\"fill c{colour}\" cx=\"{right:.1}\" cy=\"{height:.1}\" r=\"2.6\">\
                 <title>{}: {} at {}</title></circle>",
                escape(&line.name),
                short_number(y),
                short_number(x),
            );
        }
    }
    if path.is_empty() {
        return path;
    }
    format!("<path class=\"line c{colour}\" d=\"{path}\"/>{marks}")
}

/// The smallest and the largest of each stretch, so that no spike is lost.
fn thin_out(points: &[(f64, f64)]) -> std::borrow::Cow<'_, [(f64, f64)]> {
    if points.len() <= POINTS_MAX {
        return points.into();
    }
    let stretches = points.chunks(points.len().div_ceil(POINTS_MAX / 2));
    let kept = stretches.flat_map(|stretch| {
        let by_height = |left: &&(f64, f64), right: &&(f64, f64)| left.1.total_cmp(&right.1);
        let lowest = stretch.iter().min_by(by_height);
        let highest = stretch.iter().max_by(by_height);
        let mut pair: Vec<(f64, f64)> = lowest.into_iter().chain(highest).copied().collect();
        pair.sort_by(|left, right| left.0.total_cmp(&right.0));
        pair
    });
    kept.collect::<Vec<_>>().into()
}

fn group_label(middle: f64, name: &str, width: f64) -> String {
    // A character of this font is about seven units wide.
    let fits = ((width / 7.0) as usize).max(3);
    let shown = if name.chars().count() > fits {
        name.chars().take(fits - 2).chain("..".chars()).collect()
    } else {
        name.to_owned()
    };
    label(middle, HEIGHT - BOTTOM + 19.0, "middle", "tick", &shown)
}

fn label(x: f64, y: f64, anchor: &str, class: &str, text: &str) -> String {
    let text = escape(text);
    format!(
        "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>"
    )
}

fn across_of(place: f64) -> f64 {
    LEFT + place * (WIDTH - LEFT - RIGHT)
}

fn height_of(place: f64) -> f64 {
    HEIGHT - BOTTOM - place * (HEIGHT - TOP - BOTTOM)
}

#[cfg(test)]
mod tests;
