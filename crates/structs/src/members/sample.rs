//! Numbers drawn without repetition.

use std::collections::HashSet;

use base::Random;

/// When more than one in so many is drawn, all numbers are gone through.
const SPARSE: u64 = 8;

/// `count` different numbers below `bound`, each set of numbers equally likely; all of them if
/// there are not so many. Takes memory for the numbers drawn.
pub fn sample(bound: u64, count: u64, random: &mut Random) -> Vec<u64> {
    let count = count.min(bound);
    if count > bound / SPARSE {
        // Each number is taken with the probability of what is still to be drawn among the rest.
        let mut left = count;
        let mut draw = |number: &u64| {
            let taken = random.below(bound - number) < left;
            left -= u64::from(taken);
            taken
        };
        return (0..bound).filter(&mut draw).collect();
    }
    // Floyd's method: of a number drawn already, the highest one is taken instead.
    let mut drawn = HashSet::new();
    (bound - count..bound)
        .map(|highest| {
            let number = random.below(highest + 1);
            let number = if drawn.contains(&number) { highest } else { number };
            drawn.insert(number);
            number
        })
        .collect()
}
