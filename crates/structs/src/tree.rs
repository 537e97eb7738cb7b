//! The tree that every large container is: counted, ordered or positional, shared by clones.
//! Its shape and why: docs/decisions/containers.md.

/// What a tree's lowest nodes hold: a page of elements of one container.
pub trait Leaf: Clone {
    /// What separates leaves: every element of a leaf is at or above the leaf's bound and below
    /// the next leaf's. `()` where elements are found by position only.
    type Bound: Clone;
    /// What inner nodes keep of each child.
    type Summary: Summary;

    /// Count and more of the elements here.
    fn summary(&self) -> Self::Summary;
    /// Bytes that the elements take: a leaf is split above `LEAF_MAX`, and joined with a neighbour
    /// when both fit well into one.
    fn size(&self) -> usize;
    /// Bytes of memory, with what lies beside the page.
    fn memory(&self) -> usize;
    /// Moves the upper part into a new leaf and tells its bound. `at_end`: elements come in rising
    /// order, so the lower part should stay as full as it can.
    fn split(&mut self, at_end: bool) -> (Self::Bound, Self);
    /// Takes over all elements of the next leaf.
    fn absorb(&mut self, next: Self);
}

/// What inner nodes keep of each child; forms a monoid with `Default` as its unit.
pub trait Summary: Copy + Default {
    /// The summary of both.
    #[must_use]
    fn plus(self, other: Self) -> Self;
    /// How many elements.
    fn count(self) -> u64;
}
