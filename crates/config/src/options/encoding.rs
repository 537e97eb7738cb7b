//! Options: how values are stored.

use super::super::kind::{integer, unsigned, unsigned_memory};
use super::super::option::{ACCEPTED, ConfigOption, LIVE_OPTION, NOT_YET};
use super::super::settings::settings;

/// How values are stored.
pub(super) const OPTIONS: &[ConfigOption] = &[
    ConfigOption {
        name: "hash-max-listpack-entries",
        aliases: &["hash-max-ziplist-entries"],
        kind: unsigned(0, i64::MAX),
        default: "512",
        doc: "Fields up to which a hash is packed.",
        cost: "A packed hash is looked through from its start, one that is not takes more \
        memory.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "hash-max-listpack-value",
        aliases: &["hash-max-ziplist-value"],
        kind: unsigned_memory(0, i64::MAX),
        default: "64",
        doc: "Bytes of a field or value up to which a hash is packed.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "hash-min-template-entries",
        kind: integer(0, i64::MAX),
        default: "0",
        doc: "Fields from which hashes share their field names.",
        ..NOT_YET
    },
    ConfigOption {
        name: "hash-max-template-entries",
        kind: integer(0, i64::MAX),
        default: "0",
        doc: "Fields up to which hashes share their field names.",
        ..NOT_YET
    },
    ConfigOption {
        name: "hash-rdb-load-min-template-entries",
        kind: integer(0, i64::MAX),
        default: "0",
        doc: "Fields from which loaded hashes share their field names.",
        ..NOT_YET
    },
    ConfigOption {
        name: "hash-rdb-load-max-template-entries",
        kind: integer(0, i64::MAX),
        default: "0",
        doc: "Fields up to which loaded hashes share their field names.",
        ..NOT_YET
    },
    ConfigOption {
        name: "hash-rdb-load-template-disassembly-threshold",
        kind: integer(0, i64::MAX),
        default: "0",
        doc: "Keys below which loaded hashes stop sharing their field names.",
        ..NOT_YET
    },
    ConfigOption {
        name: "list-max-listpack-size",
        aliases: &["list-max-ziplist-size"],
        kind: integer(i32::MIN as i64, i32::MAX as i64),
        default: "-2",
        doc: "Entries, or below 0 a size class, of one node of a list.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "list-compress-depth",
        kind: integer(0, i32::MAX as i64),
        default: "0",
        doc: "How many nodes at each end of a list stay uncompressed; 0 compresses none.",
        ..NOT_YET
    },
    ConfigOption {
        name: "set-max-intset-entries",
        kind: unsigned(0, i64::MAX),
        default: "512",
        doc: "Members up to which a set of integers is packed.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "set-max-listpack-entries",
        kind: unsigned(0, i64::MAX),
        default: "128",
        doc: "Members up to which a set is packed.",
        cost: "A packed set is looked through from its start, one that is not takes more memory.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "set-max-listpack-value",
        kind: unsigned(0, i64::MAX),
        default: "64",
        doc: "Bytes of a member up to which a set is packed.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "zset-max-listpack-entries",
        aliases: &["zset-max-ziplist-entries"],
        kind: unsigned(0, i64::MAX),
        default: "128",
        doc: "Members up to which a sorted set is packed.",
        cost: "A packed sorted set is looked through from its start, one that is not takes more \
        memory.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "zset-max-listpack-value",
        aliases: &["zset-max-ziplist-value"],
        kind: unsigned_memory(0, i64::MAX),
        default: "64",
        doc: "Bytes of a member up to which a sorted set is packed.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "stream-node-max-bytes",
        kind: unsigned_memory(0, i64::MAX),
        default: "4096",
        doc: "Bytes of one node of a stream.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "stream-node-max-entries",
        kind: integer(0, i64::MAX),
        default: "100",
        doc: "Entries of one node of a stream.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "stream-idmp-duration",
        kind: integer(1, 86_400),
        default: "100",
        doc: "Seconds that a stream remembers a producer's message ids.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "stream-idmp-maxsize",
        kind: integer(1, 10_000),
        default: "100",
        doc: "How many message ids a stream remembers of a producer.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "hll-sparse-max-bytes",
        kind: unsigned_memory(0, i64::MAX),
        default: "3000",
        doc: "Bytes up to which a HyperLogLog is sparse.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "array-slice-size",
        kind: integer(1, i64::MAX),
        default: "4096",
        doc: "Elements of one slice of an array; here pages end where their bytes do.",
        ..ACCEPTED
    },
    ConfigOption {
        name: "array-sparse-kmax",
        kind: integer(0, i64::MAX),
        default: "10",
        doc: "Sparseness at which a slice of an array becomes sparse.",
        ..ACCEPTED
    },
    ConfigOption {
        name: "array-sparse-kmin",
        kind: integer(0, i64::MAX),
        default: "5",
        doc: "Sparseness at which a slice of an array becomes dense.",
        ..ACCEPTED
    },
    ConfigOption {
        name: "vset-force-single-threaded-execution",
        default: "no",
        doc: "Runs vector searches on one thread.",
        ..NOT_YET
    },
];

settings! {
    HASH_MAX_LISTPACK_ENTRIES: usize = "hash-max-listpack-entries";
    HASH_MAX_LISTPACK_VALUE: usize = "hash-max-listpack-value";
    HLL_SPARSE_MAX_BYTES: usize = "hll-sparse-max-bytes";
    LIST_MAX_LISTPACK_SIZE: i64 = "list-max-listpack-size";
    SET_MAX_INTSET_ENTRIES: usize = "set-max-intset-entries";
    SET_MAX_LISTPACK_ENTRIES: usize = "set-max-listpack-entries";
    SET_MAX_LISTPACK_VALUE: usize = "set-max-listpack-value";
    STREAM_IDMP_DURATION: usize = "stream-idmp-duration";
    STREAM_IDMP_MAXSIZE: usize = "stream-idmp-maxsize";
    STREAM_NODE_MAX_BYTES: usize = "stream-node-max-bytes";
    STREAM_NODE_MAX_ENTRIES: usize = "stream-node-max-entries";
    ZSET_MAX_LISTPACK_ENTRIES: usize = "zset-max-listpack-entries";
    ZSET_MAX_LISTPACK_VALUE: usize = "zset-max-listpack-value";
}
