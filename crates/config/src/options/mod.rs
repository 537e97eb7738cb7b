//! The blocks of all options, one file per subject, and their one list.

pub(super) mod clients;
pub(super) mod cluster;
pub(super) mod encoding;
pub(super) mod keydb;
pub(super) mod logging;
pub(super) mod memcached;
pub(super) mod memory;
pub(super) mod monitoring;
pub(super) mod network;
pub(super) mod persistence;
pub(super) mod process;
pub(super) mod replication;
pub(super) mod security;
pub(super) mod threads;
pub(super) mod tls;

use super::option::ConfigOption;

/// The options of one subject.
#[derive(Clone, Copy)]
pub struct OptionGroup {
    /// What they are about.
    pub title: &'static str,
    /// In the order in which they are told of.
    pub options: &'static [ConfigOption],
}

/// All groups, in the order of the configuration file.
pub const GROUPS: [OptionGroup; 15] = [
    OptionGroup { title: "Network", options: network::OPTIONS },
    OptionGroup { title: "TLS", options: tls::OPTIONS },
    OptionGroup { title: "Clients", options: clients::OPTIONS },
    OptionGroup { title: "Users and passwords", options: security::OPTIONS },
    OptionGroup { title: "The process", options: process::OPTIONS },
    OptionGroup { title: "Threads and cores", options: threads::OPTIONS },
    OptionGroup { title: "The log", options: logging::OPTIONS },
    OptionGroup { title: "Insight", options: monitoring::OPTIONS },
    OptionGroup { title: "Memory", options: memory::OPTIONS },
    OptionGroup { title: "Forms of values", options: encoding::OPTIONS },
    OptionGroup { title: "Snapshots and the append-only file", options: persistence::OPTIONS },
    OptionGroup { title: "Replication", options: replication::OPTIONS },
    OptionGroup { title: "Redis Cluster", options: cluster::OPTIONS },
    OptionGroup { title: "Of KeyDB", options: keydb::OPTIONS },
    OptionGroup { title: "memcached", options: memcached::OPTIONS },
];

const COUNT: usize = {
    let (mut count, mut group) = (0, 0);
    while group < GROUPS.len() {
        count += GROUPS[group].options.len();
        group += 1;
    }
    count
};

/// All options.
pub static ALL: [ConfigOption; COUNT] = {
    let mut all = [GROUPS[0].options[0]; COUNT];
    let (mut count, mut group) = (0, 0);
    while group < GROUPS.len() {
        let mut index = 0;
        while index < GROUPS[group].options.len() {
            all[count] = GROUPS[group].options[index];
            count += 1;
            index += 1;
        }
        group += 1;
    }
    all
};

const LAYOUT: ([usize; COUNT], usize, usize) = {
    let mut cells = [0; COUNT];
    let (mut numbers, mut texts, mut index) = (0, 0, 0);
    while index < COUNT {
        match ALL[index].kind.width() {
            0 => {
                cells[index] = texts;
                texts += 1;
            }
            width => {
                cells[index] = numbers;
                numbers += width;
            }
        }
        index += 1;
    }
    (cells, numbers, texts)
};

/// Where each option's value is: the first of its number cells, or its text cell.
pub(super) static CELLS: [usize; COUNT] = LAYOUT.0;

/// How many numbers all options have together.
pub(super) const NUMBER_CELLS: usize = LAYOUT.1;

/// How many options are texts.
pub(super) const TEXT_CELLS: usize = LAYOUT.2;

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::super::kind::{Kind, PreviousValue, Unit};
    use super::super::store::default_of;
    use super::{ALL, ConfigOption};

    #[test]
    fn names_are_unique_and_lower_case() {
        let mut seen = HashSet::new();
        for name in ALL.iter().flat_map(ConfigOption::names) {
            assert!(seen.insert(name), "{name} twice");
            let legal = |byte: u8| byte.is_ascii_lowercase() || b"-_0123456789".contains(&byte);
            assert!(name.bytes().all(legal), "{name}");
        }
    }

    #[test]
    fn every_option_says_what_it_is() {
        for option in &ALL {
            assert!(option.doc.ends_with('.'), "{}", option.name);
            assert!(option.doc.len() > 10 && !option.doc.contains('\n'), "{}", option.name);
            let cost = option.cost;
            assert!(cost.is_empty() || cost.ends_with('.') && !cost.contains('\n'), "{cost}");
        }
    }

    #[test]
    fn every_default_survives_being_shown() {
        for (index, option) in ALL.iter().enumerate() {
            let value = default_of(index);
            let standing = PreviousValue { value, by_earlier_line: false };
            let shown = option.kind.show(value);
            let parsed = option.kind.parse_one(&shown, standing);
            assert_eq!(parsed.as_ref(), Ok(value), "{}", option.name);
            assert_eq!(option.kind.width(), value.numbers().len(), "{}", option.name);
        }
    }

    #[test]
    fn every_default_survives_being_written_to_a_file() {
        for (index, option) in ALL.iter().enumerate() {
            let default = default_of(index);
            let mut value = default.clone();
            for (count, line) in option.kind.lines(default).iter().enumerate() {
                let arguments = base::quote::split_arguments(line.as_bytes()).unwrap();
                let standing = PreviousValue { value: &value, by_earlier_line: count > 0 };
                value = option.kind.parse(&arguments, standing).unwrap();
            }
            assert_eq!(value, *default, "{}", option.name);
        }
    }

    #[test]
    fn ranges_are_ranges() {
        for option in &ALL {
            if let Kind::Number { least, most, unit, signed } = option.kind {
                assert!(least < most, "{}", option.name);
                let has_shares = matches!(unit, Unit::BytesOrPercent | Unit::BytesOrShare);
                assert!(signed || least >= 0 || has_shares, "{}", option.name);
                assert!(!has_shares || least == -100, "{}", option.name);
            }
        }
    }
}
