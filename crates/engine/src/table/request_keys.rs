//! The keys of a request, and what it does to each: for COMMAND GETKEYS and for the rules of users.
//!
//! Invariant: keys are found the way the lock plan finds them, so the two never disagree.

use commands::Role;
use commands::arguments::is;
use commands::keys::Access;
use keyspace::Refusal;
use proto::Args;
use smallvec::SmallVec;

use crate::table::command_table::CommandEntry;

/// The keys of a request: where they stand, and what it does to them.
pub type RequestKeys = SmallVec<[(usize, Access); 4]>;

/// The keys of a request; an error if its counts lie.
pub fn find(entry: &CommandEntry, request: Args<'_>) -> Result<RequestKeys, Refusal> {
    // There are no more of them than arguments that arrived.
    let mut keys = RequestKeys::new();
    // Shard channels are placed as keys are, and are none.
    for spec in entry.spec.keys.iter().filter(|spec| !spec.access.has(Access::NOT_KEY)) {
        let access = access(entry, spec.access, request);
        spec.visit(request, |index| keys.push((index, access)))?;
    }
    Ok(keys)
}

/// What this request does to a key: the access of SET and of BITFIELD depends on their options.
fn access(entry: &CommandEntry, declared: Access, request: Args<'_>) -> Access {
    if !declared.has(Access::VARIABLE_FLAGS) {
        return declared;
    }
    if entry.spec.role != Role::StoreText {
        let ways = if only_gets(request) { Access::RO } else { Access::RW.and(Access::UPDATE) };
        return ways.and(Access::ACCESS);
    }
    match request.iter().skip(3).any(|option| is(option, "GET")) {
        true => Access::RW.and(Access::ACCESS).and(Access::UPDATE),
        false => Access::OW.and(Access::UPDATE),
    }
}

/// Whether all operations of a BITFIELD are GET, and none is cut short.
fn only_gets(request: Args<'_>) -> bool {
    let mut index = 2;
    while let Some(word) = request.get(index) {
        index += match word {
            _ if is(word, "GET") => 3,
            _ if is(word, "OVERFLOW") => 2,
            _ => return false,
        };
    }
    index == request.len().max(2)
}
