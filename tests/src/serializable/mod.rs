//! Whether histories of list-append transactions are strictly serializable, in the manner of Elle:
//! a list tells in which order it was appended to, so what each read saw orders the transactions,
//! and a cycle of these orders and of real time is proof of an anomaly.
//!
//! Invariant: [`check`] is a pure function of a history, and whatever it finds cannot happen where
//! transactions take effect one by one, each between its invocation and its completion.

mod cycles;
mod graph;
mod history;
mod orders;
mod workload;

pub use history::{Element, Findings, Key, Kind, Operation, Outcome, Transaction};
pub use workload::{Fault, Plan, run};

/// What is wrong with a history: nothing, if it is strictly serializable as far as it shows.
pub fn check(history: &[Transaction]) -> Findings {
    let mut findings = Findings::default();
    let orders = orders::derive(history, &mut findings);
    let graph = graph::build(history, &orders);
    cycles::find(history, &graph, &mut findings);
    findings
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::{Duration, Instant};

    use base::random::Random;

    use super::history::Class;
    use super::{Key, Kind, Operation, Outcome, Transaction, check};

    fn append(key: Key, element: u64) -> Operation {
        Operation::Append { key, element, length: None }
    }

    fn read(key: Key, list: &[u64]) -> Operation {
        Operation::Read { key, list: list.to_vec() }
    }

    /// Transactions that all overlap, in the order of their clients.
    fn at_once(all: &[&[Operation]]) -> Vec<Transaction> {
        let transaction = |(client, operations): (usize, &&[Operation])| Transaction {
            client,
            invoked: 0,
            completed: 100,
            outcome: Outcome::Committed,
            operations: operations.to_vec(),
        };
        all.iter().enumerate().map(transaction).collect()
    }

    /// Transactions of one client, one after the other.
    fn in_turn(all: &[&[Operation]]) -> Vec<Transaction> {
        let mut history = at_once(all);
        for (number, transaction) in history.iter_mut().enumerate() {
            transaction.client = 0;
            transaction.invoked = 10 * number as u64;
            transaction.completed = transaction.invoked + 5;
        }
        history
    }

    #[track_caller]
    fn assert_finds(history: &[Transaction], kinds: &[Kind]) {
        let findings = check(history);
        assert_eq!(findings.kinds(), kinds, "{findings}");
    }

    #[test]
    fn a_serializable_history_has_no_anomaly() {
        assert_finds(&[], &[]);
        assert_finds(&at_once(&[&[append(1, 1), read(1, &[1])], &[read(1, &[])]]), &[]);
        // Two orders are possible as long as nobody saw either.
        assert_finds(&at_once(&[&[append(1, 1)], &[append(1, 2)]]), &[]);
        assert_finds(&in_turn(&[&[append(1, 1)], &[append(1, 2)], &[read(1, &[1, 2])]]), &[]);
        let skew = at_once(&[
            &[read(1, &[]), append(2, 2)],
            &[read(2, &[2]), append(1, 1)],
            &[read(1, &[1]), read(2, &[2])],
        ]);
        assert_finds(&skew, &[]);
    }

    #[test]
    fn a_value_from_nowhere_is_found() {
        assert_finds(&at_once(&[&[read(1, &[7])]]), &[Kind::OutOfNowhere]);
    }

    #[test]
    fn a_value_that_comes_twice_is_found() {
        assert_finds(&at_once(&[&[append(1, 1)], &[read(1, &[1, 1])]]), &[Kind::Duplicate]);
    }

    #[test]
    fn orders_that_contradict_each_other_are_found() {
        let history =
            at_once(&[&[append(1, 1)], &[append(1, 2)], &[read(1, &[1, 2])], &[read(1, &[2, 1])]]);
        assert_finds(&history, &[Kind::IncompatibleOrder]);
    }

    #[test]
    fn a_transaction_that_does_not_see_itself_is_found() {
        let unseen = at_once(&[&[append(1, 1), read(1, &[])]]);
        assert_finds(&unseen, &[Kind::Internal]);
        let changing = at_once(&[&[read(1, &[]), read(1, &[1])], &[append(1, 1)]]);
        let single = Kind::Cycle { class: Class::GSingle, in_real_time: false };
        assert_finds(&changing, &[Kind::Internal, single]);
    }

    #[test]
    fn a_lost_append_is_found() {
        let history = in_turn(&[&[append(1, 1)], &[append(1, 2)], &[read(1, &[1])]]);
        let stale = Kind::Cycle { class: Class::GSingle, in_real_time: true };
        assert_finds(&history, &[Kind::LostAppend, stale]);
    }

    #[test]
    fn a_length_that_contradicts_the_order_is_found() {
        let told = Operation::Append { key: 1, element: 2, length: Some(1) };
        let history = at_once(&[&[append(1, 1)], &[told], &[read(1, &[1, 2])]]);
        assert_finds(&history, &[Kind::WrongLength]);
    }

    #[test]
    fn g1a_is_found() {
        let mut history = at_once(&[&[append(1, 1)], &[read(1, &[1])]]);
        history[0].outcome = Outcome::Aborted;
        assert_finds(&history, &[Kind::AbortedRead]);
    }

    #[test]
    fn g1b_is_found() {
        let history =
            at_once(&[&[append(1, 1), append(1, 2)], &[read(1, &[1])], &[read(1, &[1, 2])]]);
        // The transaction that saw the half is before the other half, and after the first.
        let single = Kind::Cycle { class: Class::GSingle, in_real_time: false };
        assert_finds(&history, &[Kind::IntermediateRead, single]);
    }

    #[track_caller]
    fn assert_cycle(history: &[Transaction], class: Class, in_real_time: bool) {
        assert_finds(history, &[Kind::Cycle { class, in_real_time }]);
    }

    #[test]
    fn g0_is_found() {
        let history = at_once(&[
            &[append(1, 1), append(2, 1)],
            &[append(1, 2), append(2, 2)],
            &[read(1, &[1, 2])],
            &[read(2, &[2, 1])],
        ]);
        assert_cycle(&history, Class::G0, false);
    }

    #[test]
    fn g1c_is_found() {
        let history = at_once(&[&[append(1, 1), read(2, &[2])], &[append(2, 2), read(1, &[1])]]);
        assert_cycle(&history, Class::G1c, false);
    }

    #[test]
    fn g_single_is_found() {
        // One reader saw half of what another transaction did.
        let history = at_once(&[&[append(1, 1), append(2, 2)], &[read(1, &[1]), read(2, &[])]]);
        assert_cycle(&history, Class::GSingle, false);
        // Lost update: both read the same, and both appended.
        let history = at_once(&[
            &[read(1, &[]), append(1, 1)],
            &[read(1, &[]), append(1, 2)],
            &[read(1, &[1, 2])],
        ]);
        assert_cycle(&history, Class::GSingle, false);
    }

    #[test]
    fn g2_is_found() {
        // Write skew: each read what the other then changed.
        let history = at_once(&[&[read(1, &[]), append(2, 2)], &[read(2, &[]), append(1, 1)]]);
        assert_cycle(&history, Class::G2, false);
    }

    #[test]
    fn what_contradicts_real_time_is_found() {
        let order = in_turn(&[&[append(1, 1)], &[append(1, 2)], &[read(1, &[2, 1])]]);
        assert_cycle(&order, Class::G0, true);
        let future = in_turn(&[&[read(1, &[1])], &[append(1, 1)]]);
        assert_cycle(&future, Class::G1c, true);
        let stale = in_turn(&[&[append(1, 1)], &[read(1, &[])], &[read(1, &[1])]]);
        let findings = check(&stale);
        let single = Kind::Cycle { class: Class::GSingle, in_real_time: true };
        assert!(findings.kinds().contains(&single), "{findings}");
    }

    #[test]
    fn a_fork_that_no_single_list_shows_is_found() {
        // Two readers disagree about which of two appends was first.
        let history = at_once(&[
            &[append(1, 1)],
            &[append(2, 2)],
            &[read(1, &[1]), read(2, &[])],
            &[read(1, &[]), read(2, &[2])],
        ]);
        assert_cycle(&history, Class::G2, false);
    }

    #[test]
    fn what_nobody_knows_the_end_of_may_have_happened() {
        let mut history = in_turn(&[&[append(1, 1)], &[read(1, &[])], &[read(1, &[1])]]);
        history[0].outcome = Outcome::Unknown;
        assert_finds(&history, &[]);
        history[2].operations = vec![read(1, &[])];
        assert_finds(&history, &[]);
        // But not before it began.
        history[0].invoked = 1_000;
        history[2].operations = vec![read(1, &[1])];
        assert_cycle(&history, Class::G1c, true);
    }

    /// A history that one thread could have made, in which the transactions overlap all the same.
    fn serial(count: usize, seed: u64) -> Vec<Transaction> {
        const CLIENTS: usize = 16;
        let mut random = Random::from_seed(seed);
        let mut lists: BTreeMap<Key, Vec<u64>> = BTreeMap::new();
        let mut free_at = [0; CLIENTS];
        let mut history = Vec::new();
        for number in 0..count {
            let moment = 10 * number as u64;
            let client = number % CLIENTS;
            let mut operations = Vec::new();
            for part in 0..1 + random.below(4) {
                let key = (number / 300) as Key * 8 + random.below(8) as Key;
                let list = lists.entry(key).or_default();
                if random.below(2) == 0 {
                    list.push(8 * number as u64 + part);
                    let (element, length) = (8 * number as u64 + part, Some(list.len()));
                    operations.push(Operation::Append { key, element, length });
                } else {
                    operations.push(Operation::Read { key, list: list.clone() });
                }
            }
            let invoked = moment.saturating_sub(random.below(60)).max(free_at[client]);
            let completed = moment + 1 + random.below(60);
            free_at[client] = completed + 1;
            let outcome = Outcome::Committed;
            history.push(Transaction { client, invoked, completed, outcome, operations });
        }
        history
    }

    #[test]
    fn a_serial_history_of_many_transactions_passes_in_seconds() {
        let history = serial(100_000, 1);
        let begin = Instant::now();
        assert_finds(&history, &[]);
        // An algorithm that is not linear would take hours.
        assert!(begin.elapsed() < Duration::from_secs(60), "{:?}", begin.elapsed());
    }

    #[test]
    fn one_torn_transaction_among_many_is_found() {
        for seed in 0..20 {
            let mut history = serial(2_000, seed);
            assert_finds(&history, &[]);
            let mut random = Random::from_seed(seed);
            let is_torn = (0..10_000).any(|_| tear(&mut history, &mut random));
            assert!(is_torn, "seed {seed} has no transaction to tear");
            assert!(!check(&history).is_empty(), "seed {seed}");
        }
    }

    /// Takes the last element from a read that saw what another transaction had done before the
    /// reader began.
    fn tear(history: &mut [Transaction], random: &mut Random) -> bool {
        let at = random.below(history.len() as u64) as usize;
        let invoked = history[at].invoked;
        let ended_before = |element: u64| history[(element / 8) as usize].completed < invoked;
        let found = history[at].operations.iter().position(|operation| match operation {
            Operation::Read { list, .. } => list.last().is_some_and(|last| ended_before(*last)),
            Operation::Append { .. } => false,
        });
        let Some(operation) = found else { return false };
        if let Operation::Read { list, .. } = &mut history[at].operations[operation] {
            list.pop();
        }
        true
    }
}
