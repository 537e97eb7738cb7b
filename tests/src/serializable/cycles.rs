//! Cycles, found in the components of the graph, named by what they are made of, and told.
//! Invariant: each component is told by one cycle, of the worst class that was found in it.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt::Write;

use super::graph::{Edge, Graph, Node, Reason, Reasons, components};
use super::history::{Class, Findings, Kind, Transaction, describe};

/// In how many components cycles are looked for: a broken server leaves thousands.
const LOOKED_AT: usize = 16;

/// How many reads before an append are tried for a cycle with only one of them. Beyond that, in
/// huge components, a cycle may be called G2 though there is one of G-single.
const TRIED: usize = 1_000;

/// From how many members of a component a short cycle is looked for.
const BEGINNINGS: usize = 8;

/// Notes what cycles there are.
pub(super) fn find(history: &[Transaction], graph: &Graph, findings: &mut Findings) {
    let nodes: Vec<Node> = graph.nodes().collect();
    let all = components(graph, &nodes, order_of(Class::G2, true));
    for members in all.iter().take(LOOKED_AT) {
        let (kind, cycle) = classify(graph, members);
        findings.note(kind, || tell(history, graph, &cycle));
    }
}

/// A cycle: each node with the step that leads on from it.
type Cycle = Vec<(Node, Edge)>;

/// What the cycles of a class are made of, beside its one read before an append.
fn order_of(class: Class, in_real_time: bool) -> Reasons {
    let reasons = Reasons::of(match class {
        Class::G0 => &[Reason::Append],
        Class::G1c | Class::GSingle => &[Reason::Append, Reason::Read],
        Class::G2 => &[Reason::Append, Reason::Read, Reason::ReadBefore],
    });
    if in_real_time { reasons.and(Reason::Time) } else { reasons }
}

fn classify(graph: &Graph, members: &[Node]) -> (Kind, Cycle) {
    for in_real_time in [false, true] {
        for class in [Class::G0, Class::G1c, Class::GSingle, Class::G2] {
            let reasons = order_of(class, in_real_time);
            let cycle = match class {
                Class::GSingle => cycle_of_one(graph, members, reasons),
                _ => any_cycle(graph, members, reasons),
            };
            if let Some(cycle) = cycle {
                return (Kind::Cycle { class, in_real_time }, cycle);
            }
        }
    }
    unreachable!("a component of all reasons has a cycle of all reasons");
}

fn any_cycle(graph: &Graph, members: &[Node], reasons: Reasons) -> Option<Cycle> {
    let found = components(graph, members, reasons);
    let inside: HashSet<Node> = found.first()?.iter().copied().collect();
    let beginnings = found[0].iter().take(BEGINNINGS);
    let cycles = beginnings.filter_map(|begin| path(graph, &inside, (*begin, *begin), reasons));
    cycles.min_by_key(Vec::len)
}

/// A cycle with exactly one read before an append.
fn cycle_of_one(graph: &Graph, members: &[Node], reasons: Reasons) -> Option<Cycle> {
    let inside: HashSet<Node> = members.iter().copied().collect();
    let before = Reasons::of(&[Reason::ReadBefore]);
    let steps = members.iter().flat_map(|from| {
        let steps = graph.steps(*from, before).filter(|step| inside.contains(&step.to));
        steps.map(|step| (*from, *step))
    });
    steps.take(TRIED).find_map(|(from, step)| {
        let mut cycle = path(graph, &inside, (step.to, from), reasons)?;
        cycle.push((from, step));
        Some(cycle)
    })
}

/// A shortest path of at least one step.
fn path(
    graph: &Graph,
    inside: &HashSet<Node>,
    (from, to): (Node, Node),
    reasons: Reasons,
) -> Option<Cycle> {
    let mut came: HashMap<Node, (Node, Edge)> = HashMap::new();
    let mut queue = VecDeque::from([from]);
    while let Some(node) = queue.pop_front() {
        for step in graph.steps(node, reasons).filter(|step| inside.contains(&step.to)) {
            if came.contains_key(&step.to) {
                continue;
            }
            came.insert(step.to, (node, *step));
            if step.to == to {
                return Some(walk(&came, from, to));
            }
            queue.push_back(step.to);
        }
    }
    None
}

fn walk(came: &HashMap<Node, (Node, Edge)>, from: Node, to: Node) -> Cycle {
    let mut steps = vec![came[&to]];
    while steps[steps.len() - 1].0 != from {
        let (node, _) = steps[steps.len() - 1];
        steps.push(came[&node]);
    }
    steps.reverse();
    steps
}

fn tell(history: &[Transaction], graph: &Graph, cycle: &Cycle) -> String {
    let is_transaction = |node: Node| node < graph.transactions;
    let begin = cycle.iter().position(|(node, _)| is_transaction(*node)).unwrap_or_default();
    let mut story = String::new();
    for (node, step) in cycle[begin..].iter().chain(&cycle[..begin]) {
        // Moments between two transactions are left out.
        if !is_transaction(*node) {
            continue;
        }
        let reason = match step.reason {
            Reason::Append => format!("appended to {} before", step.key),
            Reason::Read => format!("appended to {} what was read by", step.key),
            Reason::ReadBefore => format!("read {} before it was appended to by", step.key),
            Reason::Time => "was over before the begin of".to_owned(),
        };
        let line = describe(history, *node as usize);
        write!(story, "{line}\n  {reason}\n").expect("writing to a String cannot fail");
    }
    story + "the first of these"
}
