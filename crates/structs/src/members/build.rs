//! Many members at once, as they come from a file: sorted by hash, then laid into pages in order.
//!
//! Sorting goes in runs of a few megabytes, so that a hash of any size is built with no more
//! memory beside it than that.

use base::UnixMillis;

use super::page::MemberPage;
use super::text::{Long, Text};
use super::{Lifetime, MemberRef, Members, Payload, place};
use crate::secret;
use crate::tree::Tree;

/// Bytes of members and values that are sorted together.
const RUN: usize = 4 * 1024 * 1024;

/// Pages are filled so far, a size class of allocators: what is added later should not split them
/// all at once.
const FILL: usize = 3584;

/// What is longer is kept as it will lie beside a page, so that it is not copied twice.
const COPIED_MAX: usize = 1024;

/// Collects members.
pub struct Builder<P: Payload> {
    members: Members<P>,
    run: Vec<StagedMember>,
    /// The short members and values of the run.
    bytes: Vec<u8>,
    run_bytes: usize,
}

struct StagedMember {
    hash: u64,
    member: Kept,
    value: Kept,
    deadline: Option<UnixMillis>,
}

enum Kept {
    Short { start: u32, len: u32 },
    Long(Long),
}

impl<P: Payload> Builder<P> {
    /// Nothing collected yet.
    pub fn new() -> Builder<P> {
        Builder { members: Members::new(), run: Vec::new(), bytes: Vec::new(), run_bytes: 0 }
    }

    /// Adds a member. Of those that are equal, one of them stays; a count of what was added can
    /// tell.
    pub fn push(&mut self, new: MemberRef<'_>) {
        let mut buffer = Vec::new();
        let hash = secret::hasher().hash(new.member.as_bytes(&mut buffer));
        let (member, value) = (self.keep(new.member), self.keep(new.value));
        self.run.push(StagedMember { hash, member, value, deadline: new.deadline });
        self.run_bytes += size_of::<StagedMember>() + new.member.len() + new.value.len();
        if self.run_bytes >= RUN {
            self.end_run();
        }
    }

    /// All that was added.
    pub fn finish(mut self) -> Members<P> {
        self.end_run();
        self.members
    }

    fn keep(&mut self, text: Text<'_>) -> Kept {
        if text.len() > COPIED_MAX {
            return Kept::Long(text.to_long());
        }
        let start = self.bytes.len() as u32;
        text.append_to(&mut self.bytes);
        Kept::Short { start, len: text.len() as u32 }
    }

    fn end_run(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        let run = std::mem::take(&mut self.run);
        self.run_bytes = 0;
        // A hash and a number are quicker to move than what is collected.
        let mut order: Vec<(u64, u32)> =
            run.iter().zip(0..).map(|(staged, number)| (staged.hash, number)).collect();
        order.sort_unstable();
        if self.members.is_empty() {
            self.members.tree = Tree::from_leaves(Pages::new(&run, &order, &bytes));
            return;
        }
        for (_, number) in order {
            let new = run[number as usize].read(&bytes);
            let lifetime = new.deadline.map_or(Lifetime::Endless, Lifetime::Until);
            self.members.insert(new.member, new.value, lifetime);
        }
    }
}

impl<P: Payload> Default for Builder<P> {
    fn default() -> Builder<P> {
        Builder::new()
    }
}

impl StagedMember {
    fn read<'a>(&'a self, bytes: &'a [u8]) -> MemberRef<'a> {
        let text = |kept: &'a Kept| match kept {
            Kept::Short { start, len } => Text::Bytes(&bytes[*start as usize..][..*len as usize]),
            Kept::Long(long) => Text::Long(long),
        };
        MemberRef { member: text(&self.member), value: text(&self.value), deadline: self.deadline }
    }
}

/// The pages of a run.
struct Pages<'a, P> {
    run: &'a [StagedMember],
    /// The members that are to come, in the order of their hashes.
    order: std::slice::Iter<'a, (u64, u32)>,
    bytes: &'a [u8],
    payload: std::marker::PhantomData<P>,
}

impl<'a, P: Payload> Pages<'a, P> {
    fn new(run: &'a [StagedMember], order: &'a [(u64, u32)], bytes: &'a [u8]) -> Pages<'a, P> {
        Pages { run, order: order.iter(), bytes, payload: std::marker::PhantomData }
    }

    /// The member that comes next, and its hash.
    fn peek(&self) -> Option<(u64, MemberRef<'a>)> {
        let (hash, number) = self.order.as_slice().first()?;
        Some((*hash, self.run[*number as usize].read(self.bytes)))
    }
}

impl<P: Payload> Iterator for Pages<'_, P> {
    type Item = MemberPage<P>;

    fn next(&mut self) -> Option<MemberPage<P>> {
        let mut last = place(self.peek()?.0);
        let (mut members, mut size) = (Vec::<(u64, MemberRef<'_>)>::new(), 0);
        while let Some((hash, new)) = self.peek() {
            // Members of one place stay together.
            let more = MemberPage::<P>::size_of(new);
            if place(hash) != last && size + more > FILL {
                break;
            }
            last = place(hash);
            size += more;
            self.order.next();
            // Equal ones have one hash.
            let alike = members.iter_mut().rev().take_while(|(other, _)| *other == hash);
            match alike.into_iter().find(|(_, member)| member.member == new.member) {
                Some((_, member)) => *member = new,
                None => members.push((hash, new)),
            }
        }
        Some(MemberPage::of(&members))
    }
}
