//! The page: well-formed, and nothing in it is loaded from elsewhere.

use super::super::html::page;
use super::{options, outcome};

/// Fails unless every element that begins also ends, in order.
pub(in crate::report) fn assert_balanced(html: &str) {
    const EMPTY: [&str; 2] = ["meta", "br"];
    let mut open: Vec<&str> = Vec::new();
    for tag in html.split('<').skip(1) {
        let (tag, _) = tag.split_once('>').expect("every tag ends");
        if tag.starts_with('!') || tag.ends_with('/') {
            continue;
        }
        let name = tag.split([' ', '\n']).next().expect("split gives one at least");
        match name.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name), "</{name}> ends something else"),
            None if EMPTY.contains(&name) => {}
            None => open.push(name),
        }
    }
    assert!(open.is_empty(), "{open:?} never end");
}

fn assert_loads_nothing(html: &str) {
    for sign in ["http:", "https:", "src=", "href=", "url(", "@import", "<script", "//"] {
        assert!(!html.contains(sign), "{sign} in the page");
    }
}

#[test]
fn a_page_is_well_formed_and_loads_nothing() {
    let mut options = options();
    options.cluster = true;
    let mut bad = outcome();
    bad.server = None;
    bad.generator.busiest_thread = 1.0;
    for outcomes in [vec![], vec![outcome()], vec![outcome(), bad]] {
        let page = page(&options, &outcomes);
        assert_balanced(&page);
        assert_loads_nothing(&page);
        assert!(!page.contains("NaN") && !page.contains("verysecret"));
    }
}

#[test]
fn a_page_shows_figures_plots_and_warnings() {
    let mut outcome = outcome();
    outcome.generator.busiest_thread = 1.0;
    let page = page(&options(), &[outcome]);
    let texts = [
        "2024-11-07 16:17 UTC",
        "<b>1.1k</b><span>requests per second",
        "<b>500.00 us</b><span>server CPU per request",
        "<b>9.00MB</b><span>server RSS",
        "the generator was the limit",
        "Throughput over time",
        "Latency over time",
        "Latency by percentile",
        "<b>300.00 us</b><span>of it in the kernel",
        "<td>Gets</td><td>2000</td><td>1000.0</td><td>750.0</td><td>250.0</td><td>1.001</td>",
    ];
    for text in texts {
        assert!(page.contains(text), "{text} is missing");
    }
}

#[test]
fn several_runs_stand_side_by_side() {
    let page = page(&options(), &[outcome(), outcome()]);
    for text in ["<h2>Run 2</h2>", "<h2>Average</h2>", "CPU time per request", "server, user"] {
        assert!(page.contains(text), "{text} is missing");
    }
}

#[test]
fn text_from_outside_is_escaped() {
    let mut options = options();
    options.server = "<script>alert('x')</script>&\"".into();
    let page = page(&options, &[outcome()]);
    assert!(!page.contains("<script>"));
    assert!(page.contains("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&amp;&quot;"));
}
