//! Random commands of the family against a naive model: a `BTreeMap`, a cursor and a ring.

use std::collections::BTreeMap;

use base::number::format_f64;
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop, prop_oneof, proptest};
use proptest::sample::select;

use crate::testing::Session;

#[derive(Default)]
struct Model {
    elements: BTreeMap<u64, String>,
    next: u64,
    ring: u64,
}

#[derive(Clone, Debug)]
enum Step {
    Set(u64, Vec<String>),
    SetMany(Vec<(u64, String)>),
    Get(Vec<u64>),
    Range(u64, u64),
    Scan(u64, u64, Option<u64>),
    Remove(Vec<u64>),
    RemoveRanges(Vec<(u64, u64)>),
    Insert(Vec<String>),
    Ring(u64, Vec<String>),
    Seek(u64),
    Last(u64, bool),
    Operation(u64, u64, &'static str),
    Grep { ends: (u64, u64), needle: String, and: Option<String>, limit: Option<u64> },
    Sizes,
}

/// Indexes that meet, so that commands find what others put.
fn index() -> impl Strategy<Value = u64> {
    prop_oneof![12 => 0..40_u64, 2 => 0..2000_u64, 1 => (0..9_u64).prop_map(|far| far << 40)]
}

fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        (-20..20_i64).prop_map(|number| number.to_string()),
        (-8..8_i64).prop_map(|quarters| format!("{}", quarters as f64 / 4.0)),
        "[ab]{0,3}",
        "[ab]{30,60}",
    ]
}

fn values() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(value(), 1..12)
}

fn step() -> impl Strategy<Value = Step> {
    let many = |most: usize| prop::collection::vec(index(), 1..most);
    let pairs = prop::collection::vec((index(), value()), 1..6);
    let limit = || prop::option::of(1..6_u64);
    let operation = select(vec!["SUM", "MIN", "MAX", "AND", "OR", "XOR", "USED", "MATCH a"]);
    prop_oneof![
        3 => (index(), values()).prop_map(|(first, values)| Step::Set(first, values)),
        3 => pairs.prop_map(Step::SetMany),
        1 => many(6).prop_map(Step::Get),
        2 => (index(), index()).prop_map(|(start, end)| {
            Step::Range(start.min(3000), end.min(3000))
        }),
        2 => (index(), index(), limit())
            .prop_map(|(start, end, most)| Step::Scan(start, end, most)),
        2 => many(6).prop_map(Step::Remove),
        1 => prop::collection::vec((index(), index()), 1..3).prop_map(Step::RemoveRanges),
        3 => values().prop_map(Step::Insert),
        4 => (1..30_u64, values()).prop_map(|(size, values)| Step::Ring(size, values)),
        1 => index().prop_map(Step::Seek),
        3 => (0..50_u64, any::<bool>()).prop_map(|(count, back)| Step::Last(count, back)),
        3 => (index(), index(), operation).prop_map(|(start, end, what)| {
            Step::Operation(start, end, what)
        }),
        2 => ((index(), index()), "[ab1]{0,2}", prop::option::of("[ab2]{1}"), limit())
            .prop_map(|(ends, needle, and, limit)| Step::Grep { ends, needle, and, limit }),
        1 => Just(Step::Sizes),
    ]
}

fn bulk(value: Option<&String>) -> String {
    value.map_or("nil".to_owned(), |value| format!("\"{value}\""))
}

fn array(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(" "))
}

fn quoted(words: &[String]) -> String {
    words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(" ")
}

impl Model {
    fn len(&self) -> u64 {
        self.elements.keys().next_back().map_or(0, |last| last + 1)
    }

    /// Empty arrays are not there.
    fn settle(&mut self) {
        if self.elements.is_empty() {
            *self = Model::default();
        }
    }

    fn put(&mut self, index: u64, value: &str) -> u64 {
        u64::from(self.elements.insert(index, value.to_owned()).is_none())
    }

    fn resize(&mut self, size: u64) {
        let len = self.len();
        let newest = if self.next == 0 { len } else { self.next.min(len) };
        // From the newest backwards, as if the whole array were a ring.
        let slots = || (0..newest).rev().chain((newest..len).rev());
        let old = std::mem::take(&mut self.elements);
        if len > size {
            let kept: Vec<&String> =
                slots().map_while(|slot| old.get(&slot)).take(size as usize).collect();
            self.next = kept.len() as u64;
            self.elements = (0..).zip(kept.into_iter().rev().cloned()).collect();
        } else if self.ring > 0 && size > self.ring && newest < len {
            let turned = (newest..len).chain(0..newest).zip(0..);
            let pair = |(slot, place): (u64, u64)| Some((place, old.get(&slot)?.clone()));
            self.elements = turned.filter_map(pair).collect();
            self.next = len;
        } else {
            self.elements = old;
        }
        self.ring = size;
    }

    fn in_span(&self, start: u64, end: u64) -> Vec<(u64, &String)> {
        let range = start.min(end)..=start.max(end);
        let mut items: Vec<_> =
            self.elements.range(range).map(|(at, value)| (*at, value)).collect();
        if start > end {
            items.reverse();
        }
        items
    }

    fn aggregate(&self, start: u64, end: u64, what: &str) -> String {
        let values: Vec<&String> =
            self.in_span(start, end).into_iter().map(|(_, value)| value).collect();
        let numbers: Vec<f64> = values.iter().filter_map(|value| value.parse().ok()).collect();
        let text = |number: Option<f64>| {
            number.map_or("nil".to_owned(), |number| {
                format!("\"{}\"", String::from_utf8_lossy(&format_f64(number)))
            })
        };
        let bits = |combine: fn(i64, i64) -> i64| {
            let bits = numbers.iter().map(|number| *number as i64).reduce(combine);
            bits.map_or("nil".to_owned(), |bits| format!(":{bits}"))
        };
        match what {
            // Quarters add up exactly.
            "SUM" => text((!numbers.is_empty()).then(|| numbers.iter().sum::<f64>() + 0.0)),
            "MIN" => text(numbers.iter().copied().reduce(f64::min)),
            "MAX" => text(numbers.iter().copied().reduce(f64::max)),
            "AND" => bits(|one, other| one & other),
            "OR" => bits(|one, other| one | other),
            "XOR" => bits(|one, other| one ^ other),
            "USED" => format!(":{}", values.len()),
            _ => format!(":{}", values.iter().filter(|value| **value == "a").count()),
        }
    }

    /// The request of a step, and the reply that it must give.
    fn take(&mut self, step: &Step) -> (String, String) {
        match self.change(step) {
            Some(taken) => taken,
            None => self.ask(step),
        }
    }

    fn change(&mut self, step: &Step) -> Option<(String, String)> {
        Some(match step {
            Step::Set(first, values) => {
                let added: u64 =
                    (*first..).zip(values).map(|(at, value)| self.put(at, value)).sum();
                (format!("ARSET a {first} {}", quoted(values)), format!(":{added}"))
            }
            Step::SetMany(pairs) => {
                let added: u64 = pairs.iter().map(|(at, value)| self.put(*at, value)).sum();
                let words = pairs.iter().map(|(at, value)| format!(" {at} \"{value}\""));
                (format!("ARMSET a{}", words.collect::<String>()), format!(":{added}"))
            }
            Step::Remove(indexes) => {
                let words: String = indexes.iter().map(|index| format!(" {index}")).collect();
                let gone = indexes.iter().filter(|at| self.elements.remove(at).is_some()).count();
                (format!("ARDEL a{words}"), format!(":{gone}"))
            }
            Step::RemoveRanges(ranges) => {
                let before = self.elements.len();
                for (start, end) in ranges {
                    let range = *start.min(end)..=*start.max(end);
                    self.elements.retain(|at, _| !range.contains(at));
                }
                let words: String =
                    ranges.iter().map(|(start, end)| format!(" {start} {end}")).collect();
                let gone = before - self.elements.len();
                (format!("ARDELRANGE a{words}"), format!(":{gone}"))
            }
            Step::Insert(values) => {
                for value in values {
                    self.put(self.next, value);
                    self.next += 1;
                }
                (format!("ARINSERT a {}", quoted(values)), format!(":{}", self.next - 1))
            }
            Step::Ring(size, values) => {
                self.resize(*size);
                for value in values {
                    let slot = self.next % size;
                    self.put(slot, value);
                    self.next = slot + 1;
                }
                (format!("ARRING a {size} {}", quoted(values)), format!(":{}", self.next - 1))
            }
            Step::Seek(next) => {
                let exists = !self.elements.is_empty();
                self.next = if exists { *next } else { 0 };
                (format!("ARSEEK a {next}"), format!(":{}", u8::from(exists)))
            }
            _ => return None,
        })
    }

    fn ask(&self, step: &Step) -> (String, String) {
        match step {
            Step::Get(indexes) => {
                let words: String = indexes.iter().map(|index| format!(" {index}")).collect();
                let told = array(indexes.iter().map(|index| bulk(self.elements.get(index))));
                (format!("ARMGET a{words}"), told)
            }
            Step::Range(start, end) => {
                let mut slots: Vec<u64> = (*start.min(end)..=*start.max(end)).collect();
                if start > end {
                    slots.reverse();
                }
                let told = array(slots.iter().map(|slot| bulk(self.elements.get(slot))));
                (format!("ARGETRANGE a {start} {end}"), told)
            }
            Step::Scan(start, end, most) => {
                let word = most.map_or(String::new(), |most| format!(" LIMIT {most}"));
                let items = self.in_span(*start, *end).into_iter();
                let items = items.take(most.map_or(usize::MAX, |most| most as usize));
                let told = array(items.map(|(at, value)| format!("[:{at} \"{value}\"]")));
                (format!("ARSCAN a {start} {end}{word}"), told)
            }
            Step::Last(count, back) => (
                format!("ARLASTITEMS a {count}{}", if *back { " REV" } else { "" }),
                self.last(*count, *back),
            ),
            Step::Operation(start, end, what) => {
                (format!("AROP a {start} {end} {what}"), self.aggregate(*start, *end, what))
            }
            Step::Grep { ends: (start, end), needle, and, limit } => {
                let limit_word = limit.map_or(String::new(), |limit| format!(" LIMIT {limit}"));
                let and_word =
                    and.as_ref().map_or(String::new(), |and| format!(" AND GLOB *{and}*"));
                let found = self.in_span(*start, *end).into_iter().filter(|(_, value)| {
                    value.contains(needle) && and.as_ref().is_none_or(|and| value.contains(and))
                });
                let found = found.take(limit.map_or(usize::MAX, |limit| limit as usize));
                let told = array(found.map(|(at, _)| format!(":{at}")));
                (format!("ARGREP a {start} {end} MATCH \"{needle}\"{and_word}{limit_word}"), told)
            }
            Step::Sizes => ("ARLEN a".to_owned(), format!(":{}", self.len())),
            _ => unreachable!("the others change something"),
        }
    }

    fn last(&self, count: u64, back: bool) -> String {
        let newest = if self.next == 0 { self.len() } else { self.next };
        let most = count.min(self.elements.len() as u64);
        let before = (0..most.min(newest)).map(|offset| newest - 1 - offset);
        let wrapped = (0..most - most.min(newest)).map(|offset| self.len() - 1 - offset);
        let mut slots: Vec<u64> = before.chain(wrapped).collect();
        if !back {
            slots.reverse();
        }
        array(slots.iter().map(|slot| bulk(self.elements.get(slot))))
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn commands_agree_with_the_model(steps in prop::collection::vec(step(), 1..50)) {
        let (mut session, mut model) = (Session::new(), Model::default());
        for step in &steps {
            let (request, expected) = model.take(step);
            model.settle();
            assert_eq!(session.call(&request), expected, "{request}");
            let state = format!("[{} {} {}]", session.call("ARCOUNT a"), session.call("ARNEXT a"),
                session.call("EXISTS a"));
            let (count, next) = (model.elements.len(), model.next);
            assert_eq!(state, format!("[:{count} :{next} :{}]", u8::from(count > 0)), "{request}");
        }
    }
}
