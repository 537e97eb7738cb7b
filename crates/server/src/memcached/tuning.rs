//! The commands that steer memcached's slabs, its lists by age, its crawler and its flash storage.
//!
//! None of those is here, so nothing is steered. Invariant: what is said is checked, and answered
//! as memcached 1.6.18 answers it, so that a program that configures a cache by them gets on.

use base::number::{parse_i64, parse_u64};
use proto::memcached::{Failure, Response};

type Answer = Response<'static>;

const UNKNOWN: Answer = Response::Failed(Failure::Unknown);
const BAD_FORMAT: Answer = Response::Failed(Failure::BadFormat);

/// What a crawl of classes, or a dump, answers that are none.
pub(super) const BAD_CLASS: &[u8] = b"BADCLASS invalid class id";

/// The classes of slabs that items may belong to in any memcached.
pub(super) const CLASSES: std::ops::Range<u64> = 1..64;

/// Those that there are in one with its defaults, the one of free pages among them.
const DEFAULT_CLASSES: std::ops::Range<i64> = 0..40;

/// The longest that the crawler may sleep between two items, in microseconds.
const SLEEP_MAX_US: i64 = 1_000_000;

/// What the two lists of newer items may take together, in percent.
const PERCENT_MAX: u64 = 80;

/// `slabs reassign FROM TO` and `slabs automove LEVEL`.
pub(super) fn slabs(words: &[&[u8]]) -> Answer {
    match words {
        [b"reassign", from, to] => match (parse_i64(from), parse_i64(to)) {
            (Some(from), Some(to)) if from == to => {
                Response::Line(b"SAME src and dst class are identical")
            }
            (Some(from), Some(to)) if [from, to].iter().all(|id| DEFAULT_CLASSES.contains(id)) => {
                Response::Line(b"NOSPARE source class has no spare pages")
            }
            (Some(_), Some(_)) => Response::Line(b"BADCLASS invalid src or dst class id"),
            _ => BAD_FORMAT,
        },
        [b"automove", b"ratio"] => UNKNOWN,
        [b"automove", b"ratio", ratio, ..] => ok_if(parse_float(ratio).is_some()),
        [b"automove", level, ..] => match parse_u64(level) {
            Some(level) => ok_if(level <= 2),
            None => BAD_FORMAT,
        },
        _ => UNKNOWN,
    }
}

/// `lru mode|tune|temp_ttl`: what leaves first is `maxmemory-policy`'s to say.
pub(super) fn lru(words: &[&[u8]]) -> Answer {
    match words {
        [b"mode", b"flat" | b"segmented", ..] => Response::Ok,
        [b"temp_ttl", seconds, ..] => ok_if(parse_i64(seconds).is_some()),
        [b"tune", hot, warm, hot_factor, warm_factor, ..] => {
            let percents = parse_u64(hot).zip(parse_u64(warm));
            let factors = parse_float(hot_factor).zip(parse_float(warm_factor));
            match percents.zip(factors) {
                None => UNKNOWN,
                Some(((hot, warm), _)) if hot.saturating_add(warm) > PERCENT_MAX => {
                    Response::Line(b"ERROR hot and warm pcts must not exceed 80")
                }
                Some((_, (hot, warm))) if hot <= 0.0 || warm <= 0.0 => {
                    Response::Line(b"ERROR hot/warm age factors must be greater than 0")
                }
                Some(_) => Response::Ok,
            }
        }
        _ => UNKNOWN,
    }
}

/// `lru_crawler`, but for its dumps: what expires is looked for all the time.
pub(super) fn lru_crawler(words: &[&[u8]]) -> Answer {
    match words {
        [b"enable" | b"disable"] => Response::Ok,
        [b"crawl", which] if classes(which).is_some() => Response::Ok,
        [b"crawl", _] => Response::Line(BAD_CLASS),
        [b"sleep", micros] => match parse_i64(micros) {
            Some(0..=SLEEP_MAX_US) => Response::Ok,
            Some(0..) => Response::Failed(Failure::Client("sleep must be one second or less")),
            _ => BAD_FORMAT,
        },
        [b"tocrawl", items] => match parse_i64(items) {
            Some(0..) => Response::Ok,
            _ => BAD_FORMAT,
        },
        _ => UNKNOWN,
    }
}

/// Whether the first class of slabs, where all items are, is among these, which are `all`, `hash`
/// or numbers with commas between them; `None` if they are no classes.
pub(super) fn classes(which: &[u8]) -> Option<bool> {
    if matches!(which, b"all" | b"hash") {
        return Some(true);
    }
    let ids = which.split(|byte| *byte == b',').filter(|id| !id.is_empty());
    let ids: Option<Vec<u64>> = ids.map(parse_u64).collect();
    let ids = ids.filter(|ids| ids.iter().all(|id| CLASSES.contains(id)))?;
    Some(ids.contains(&1))
}

/// `extstore NAME VALUE`.
pub(super) fn external_store(words: &[&[u8]]) -> Answer {
    match words {
        [b"free_memchunks", class, chunks, ..] => {
            let is_class = parse_u64(class).is_some_and(|class| class < CLASSES.end);
            ok_if(is_class && parse_u64(chunks).is_some())
        }
        [b"max_frag", share, ..] => ok_if(parse_float(share).is_some()),
        [
            b"item_size" | b"item_age" | b"low_ttl" | b"recache_rate" | b"compact_under"
            | b"drop_under" | b"max_sleep" | b"drop_unread",
            number,
            ..,
        ] => ok_if(parse_u64(number).is_some()),
        _ => UNKNOWN,
    }
}

fn ok_if(is_right: bool) -> Answer {
    if is_right { Response::Ok } else { UNKNOWN }
}

fn parse_float(text: &[u8]) -> Option<f64> {
    str::from_utf8(text).ok()?.parse().ok()
}
