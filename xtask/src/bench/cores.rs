//! Which cores the servers and the generator run on. Invariant: they share a core only where the
//! machine leaves no choice, and the record says so.

use super::process::{field, read};

/// The cores that this process may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cores(Vec<u32>);

impl Cores {
    pub(super) fn read() -> Result<Self, String> {
        let status = read("/proc/self/status")?;
        let list = field(&status, "Cpus_allowed_list:").and_then(Self::parse);
        list.ok_or_else(|| "the kernel tells no cores".to_owned())
    }

    /// A list as the kernel writes it: `0-3,8`.
    fn parse(list: &str) -> Option<Self> {
        let mut cores = Vec::new();
        for part in list.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            cores.extend(first.parse::<u32>().ok()?..=last.parse().ok()?);
        }
        (!cores.is_empty()).then_some(Self(cores))
    }

    /// The core of a server that has one.
    pub(super) fn server(&self) -> String {
        self.0[0].to_string()
    }

    /// The core of a generator beside it.
    pub(super) fn generator(&self) -> String {
        self.0[self.0.len().min(2) - 1].to_string()
    }

    /// The cores of servers that want several: half of them, or both of two.
    pub(super) fn servers(&self) -> Vec<String> {
        let half = if self.are_shared() { self.0.len() } else { self.0.len() / 2 };
        self.0[..half].iter().map(u32::to_string).collect()
    }

    /// The cores of the generator beside `servers`.
    pub(super) fn generators(&self) -> String {
        let first = if self.are_shared() { 0 } else { self.0.len() / 2 };
        join(&self.0[first..])
    }

    /// Whether several servers and the generator have to share their cores.
    pub(super) fn are_shared(&self) -> bool {
        self.0.len() < 4
    }

    /// All of them, for a process that is not bound.
    pub(super) fn all(&self) -> String {
        join(&self.0)
    }
}

fn join(cores: &[u32]) -> String {
    cores.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::Cores;

    #[test]
    fn servers_and_generator_share_only_where_they_must() {
        let cores = |list: &str| Cores::parse(list).expect("a list");
        let shown = |list: &str| {
            let cores = cores(list);
            (cores.server(), cores.generator(), cores.servers().join(","), cores.generators())
        };
        let expected = |texts: [&str; 4]| {
            let [server, generator, servers, generators] = texts.map(str::to_owned);
            (server, generator, servers, generators)
        };
        assert_eq!(shown("3"), expected(["3", "3", "3", "3"]));
        assert_eq!(shown("0-1"), expected(["0", "1", "0,1", "0,1"]));
        assert_eq!(shown("0-2,8-10"), expected(["0", "1", "0,1,2", "8,9,10"]));
        assert_eq!(Cores::parse("x"), None);
    }
}
