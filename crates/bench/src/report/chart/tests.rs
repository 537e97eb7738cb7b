//! Charts of any data are drawn within their frame.

use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_oneof, proptest};

use super::super::tests::html::assert_balanced;
use super::scale::Span;
use super::{Axis, Bars, Line, Scale, bars, escape, lines, short_number, thin_out};

const SCALES: [Scale; 3] = [Scale::Linear, Scale::Logarithmic, Scale::Nines];

/// Numbers of every kind, the awkward ones often.
fn numbers() -> impl Strategy<Value = f64> {
    let awkward = [
        0.0,
        -0.0,
        1.0,
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::MAX,
        f64::MIN,
        f64::MIN_POSITIVE,
        1e-300,
    ];
    prop_oneof![
        any::<f64>(),
        proptest::sample::select(awkward.to_vec()),
        (0.0..1.0_f64),
        (0.0..1e6_f64),
        Just(42.0),
    ]
}

/// Every number in a place attribute or a path is within the drawing, give or take a label.
fn assert_within_frame(figure: &str) {
    assert_balanced(figure);
    assert!(!figure.contains("NaN") && !figure.contains("inf\""), "{figure}");
    for attribute in [" x=\"", " y=\"", " cx=\"", " cy=\"", " height=\"", " width=\""] {
        for rest in figure.split(attribute).skip(1) {
            let number = rest.split('"').next().expect("split gives one at least");
            let number: f64 = number.parse().expect("a number");
            assert!((-1.0..=541.0).contains(&number), "{attribute}{number} in {figure}");
        }
    }
}

proptest! {
    #[test]
    fn lines_of_any_data_stay_within_the_frame(
        points in vec(vec((numbers(), numbers()), 0..40), 0..10),
        scales in (0..3_usize, 0..3_usize),
        title in ".{0,20}",
    ) {
        let data: Vec<Line> =
            points.into_iter().map(|points| Line { name: title.clone(), points }).collect();
        let x = Axis { label: &title, scale: SCALES[scales.0] };
        let y = Axis { label: "ms", scale: SCALES[scales.1] };
        assert_within_frame(&lines(&title, x, y, &data));
    }

    #[test]
    fn bars_of_any_data_stay_within_the_frame(
        values in vec(vec(numbers(), 0..8), 0..10),
        groups in vec(".{0,40}", 0..8),
        scale in 0..3_usize,
    ) {
        let data: Vec<Bars> =
            values.into_iter().map(|values| Bars { name: "some".into(), values }).collect();
        let y = Axis { label: "ms", scale: SCALES[scale] };
        assert_within_frame(&bars("title", y, &groups, &data));
    }

    #[test]
    fn ticks_are_few_and_rise(values in vec(numbers(), 1..5), scale in 0..3_usize) {
        if let Some(span) = Span::of(SCALES[scale], values.into_iter()) {
            let ticks = span.ticks();
            assert!((2..=16).contains(&ticks.len()), "{ticks:?}");
            assert!(ticks.windows(2).all(|pair| pair[0].place < pair[1].place), "{ticks:?}");
            assert!(ticks.windows(2).all(|pair| pair[0].label != pair[1].label), "{ticks:?}");
        }
    }
}

fn tick_labels(scale: Scale, values: &[f64]) -> Vec<String> {
    let span = Span::of(scale, values.iter().copied()).expect("they have places");
    span.ticks().into_iter().map(|tick| tick.label).collect()
}

#[test]
fn ticks_are_round_numbers_with_units() {
    assert_eq!(tick_labels(Scale::Linear, &[0.0, 1.1e6]), ["0", "0.5M", "1.0M", "1.5M"]);
    // Widened to whole steps of 500 it asks for steps of 1,000.
    assert_eq!(tick_labels(Scale::Linear, &[-2128.7]), ["-3k", "-2k", "-1k", "0", "1k"]);
    assert_eq!(tick_labels(Scale::Linear, &[7.0, 9.7]), ["0", "2", "4", "6", "8", "10"]);
    assert_eq!(tick_labels(Scale::Linear, &[0.0, 4e4]), ["0", "10k", "20k", "30k", "40k"]);
    assert_eq!(
        tick_labels(Scale::Logarithmic, &[0.06, 3.0]),
        ["0.05", "0.1", "0.2", "0.5", "1", "2", "5"]
    );
    assert_eq!(
        tick_labels(Scale::Logarithmic, &[0.01, 2e3]),
        ["0.01", "0.1", "1", "10", "100", "1k"]
    );
    assert_eq!(tick_labels(Scale::Nines, &[0.9995]), ["0%", "50%", "90%", "99%", "99.9%"]);
}

#[test]
fn numbers_are_short() {
    let cases = [
        (0.0, "0"),
        (0.05, "0.05"),
        (1.0, "1"),
        (12.345, "12.3"),
        (123.0, "123"),
        (1250.0, "1.25k"),
        (100_000.0, "100k"),
        (1_234_567.0, "1.23M"),
        (f64::NAN, "-"),
    ];
    for (value, text) in cases {
        assert_eq!(short_number(value), text);
    }
}

#[test]
fn no_data_say_so_and_a_gap_parts_a_line() {
    let axis = Axis { label: "s", scale: Scale::Linear };
    assert!(lines("t", axis, axis, &[]).contains("no data"));
    assert!(bars("t", axis, &[], &[]).contains("no data"));
    let line = Line { name: "a".into(), points: vec![(0.0, 1.0), (1.0, f64::NAN), (2.0, 1.0)] };
    let figure = lines("t", axis, axis, &[line]);
    let path = figure.split(" d=\"").nth(1).expect("a path").split('"').next().expect("its end");
    assert_eq!(path.matches('M').count(), 2, "{path}");
}

#[test]
fn thinning_out_keeps_every_spike() {
    let mut points: Vec<(f64, f64)> = (0..50_000).map(|second| (f64::from(second), 1.0)).collect();
    points[31_337].1 = 99.0;
    let thin = thin_out(&points);
    assert!(thin.len() <= 1200, "{}", thin.len());
    assert!(thin.contains(&(31_337.0, 99.0)));
    assert!(thin.windows(2).all(|pair| pair[0].0 <= pair[1].0));
}

#[test]
fn markup_in_text_is_escaped() {
    assert_eq!(escape("<a b=\"c\">&'\u{7}"), "&lt;a b=&quot;c&quot;&gt;&amp;&#39; ");
}
