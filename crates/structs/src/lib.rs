//! The containers that hold the data: nothing in here knows of keys, clients or clocks.
//!
//! - [`arena`]: memory for small blocks, tightly packed.
//! - [`array`]: elements by index, most of which may be missing, small or large.
//! - [`table`]: the hash table of one slot, words of address and fingerprint.
//! - [`blob`]: a big byte string as a tree of shared leaves.
//! - [`heap`]: how much memory is in use.
//! - [`heavy_hitters`]: the heaviest of very many keys.
//! - [`hash`]: fields and values, small or large.
//! - [`members`]: the large form of hashes and sets.
//! - [`object`]: a value of any type as the keyspace holds it.
//! - [`intset`]: sorted integers of one width, in the bytes of Redis.
//! - [`bits`]: counting, searching, combining bits, and integers between them.
//! - [`hyperloglog`]: how many distinct elements there were, in the bytes of Redis.
//! - [`list`]: elements by position, small or large.
//! - [`listpack`]: short elements packed one after another, in the bytes of Redis.
//! - [`packing`]: the small forms, bytes in the layout of Redis.
//! - [`prefetch`]: having memory on its way before it is read.
//! - [`secret`]: the secret under which members are hashed.
//! - [`set`]: members, small or large.
//! - [`sorted_set`]: members with scores, in both forms.
//! - [`stream`]: entries by ID, and the groups that read them.
//! - [`tree`]: the counted tree of shared pages that every large container is.

pub mod arena;
pub mod array;
pub mod bits;
pub mod blob;
pub mod hash;
pub mod heap;
pub mod heavy_hitters;
pub mod hyperloglog;
pub mod intset;
pub mod list;
pub mod listpack;
pub mod members;
pub mod object;
pub mod packing;
pub mod prefetch;
pub mod secret;
pub mod set;
pub mod sorted_set;
pub mod stream;
pub mod table;
pub mod tree;
