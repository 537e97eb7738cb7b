//! What was asked for on the command line. Invariant: a plan repeats itself by its command.

use super::build::Build;
use super::sections::{ALL, Section};

/// Rounds of a record: fewer say too little about the spread.
const ROUNDS: usize = 5;

/// What to measure, and how much of it.
pub(super) struct Plan {
    /// In the order of `ALL`.
    pub(super) sections: Vec<&'static Section>,
    pub(super) build: Build,
    pub(super) rounds: usize,
    /// What times and numbers of keys are multiplied by.
    pub(super) scale: f64,
    /// The record is called so, behind its date.
    pub(super) name: String,
    /// An older build of ours, which is the only peer then.
    pub(super) before: Option<String>,
}

impl Plan {
    pub(super) fn parse(arguments: &[String]) -> Result<Self, String> {
        let (mut rounds, mut scale, mut name) = (ROUNDS, 1.0, "bench".to_owned());
        let (mut build, mut wanted, mut before) = (Build::Plain, Vec::<&str>::new(), None);
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            if !word.starts_with('-') {
                if !ALL.iter().any(|section| section.name == word) {
                    let names: Vec<&str> = ALL.iter().map(|section| section.name).collect();
                    return Err(format!("no section {word}; there are {}", names.join(" ")));
                }
                wanted.push(word);
                continue;
            }
            if word == "--tuned" {
                build = Build::Tuned;
                continue;
            }
            let value = words.next().ok_or_else(|| format!("{word} needs a value"))?;
            let wrong = || format!("{word} does not take {value}");
            match word.as_str() {
                "--rounds" => {
                    let count = value.parse().ok().filter(|count| *count > 0);
                    rounds = count.ok_or_else(wrong)?;
                }
                "--scale" => {
                    let factor = value.parse().ok().filter(|factor| (0.001..=1.0).contains(factor));
                    scale = factor.ok_or_else(wrong)?;
                }
                "--name" => {
                    let plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
                    if value.is_empty() || !value.chars().all(plain) {
                        return Err(wrong());
                    }
                    name.clone_from(value);
                }
                "--before" => before = Some(value.clone()),
                _ => {
                    return Err(format!(
                        "{word}: want --rounds N, --scale F, --name NAME, --before PROGRAM, --tuned"
                    ));
                }
            }
        }
        let chosen = |section: &&Section| wanted.is_empty() || wanted.contains(&section.name);
        let sections = ALL.iter().filter(chosen).collect();
        Ok(Self { sections, build, rounds, scale, name, before })
    }

    /// Whether all that README quotes is measured in full, so that it may quote it.
    pub(super) fn is_quoted(&self) -> bool {
        let is_here = |wanted: &Section| self.sections.iter().any(|it| it.name == wanted.name);
        self.is_recorded()
            && self.before.is_none()
            && ALL.iter().filter(|section| section.is_quoted()).all(is_here)
    }

    /// Whether what is measured is measured in full.
    pub(super) fn is_recorded(&self) -> bool {
        self.rounds >= ROUNDS && self.scale >= 1.0
    }

    /// The command that does the same again.
    pub(super) fn command(&self) -> String {
        let mut command = "cargo xtask bench".to_owned();
        if self.sections.len() < ALL.len() {
            for section in &self.sections {
                command.push(' ');
                command.push_str(section.name);
            }
        }
        command += &format!(" --rounds {}", self.rounds);
        if self.scale < 1.0 {
            command += &format!(" --scale {}", self.scale);
        }
        if self.build == Build::Tuned {
            command += " --tuned";
        }
        if let Some(before) = &self.before {
            command += &format!(" --before {before}");
        }
        command + " --name " + &self.name
    }

    /// So many seconds or keys, scaled; at least one.
    pub(super) fn scaled(&self, count: u64) -> u64 {
        ((count as f64 * self.scale).round() as u64).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::super::sections::ALL;
    use super::Plan;

    fn parse(line: &str) -> Result<Plan, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Plan::parse(&words)
    }

    #[test]
    fn a_plan_repeats_itself_by_its_command() {
        for line in [
            "",
            "--rounds 3",
            "idle loads --scale 0.5",
            "keys --name other --rounds 7",
            "--tuned idle",
            "loads --before target/old/apus",
        ] {
            let command = parse(line).expect("a plan").command();
            let again = parse(command.strip_prefix("cargo xtask bench ").expect("the verb"));
            assert_eq!(again.expect("a plan").command(), command, "{line}");
            assert_eq!(command.contains(" --tuned"), line.contains("--tuned"), "{line}");
        }
    }

    #[test]
    fn sections_are_all_or_those_that_were_named() {
        assert_eq!(parse("").expect("a plan").sections.len(), ALL.len());
        let plan = parse("idle keys").expect("a plan");
        let names: Vec<&str> = plan.sections.iter().map(|section| section.name).collect();
        assert_eq!(names, ["keys", "idle"]);
    }

    #[test]
    fn only_a_full_measurement_is_recorded() {
        let quoted = ALL.iter().filter(|section| section.is_quoted()).map(|section| section.name);
        let quoted = quoted.collect::<Vec<_>>().join(" ");
        for (line, recorded, whole) in [
            ("", true, true),
            ("idle", true, false),
            (&quoted, true, true),
            ("--before old", true, false),
            (quoted.strip_prefix("loads").expect("it is the first"), true, false),
            ("--rounds 4", false, false),
            ("--scale 0.9", false, false),
        ] {
            let plan = parse(line).expect("a plan");
            assert_eq!((plan.is_recorded(), plan.is_quoted()), (recorded, whole), "{line}");
        }
    }

    #[test]
    fn a_plan_that_measures_nothing_is_refused() {
        let lines = [
            "--rounds",
            "--rounds 0",
            "--rounds x",
            "--scale 0",
            "--scale 2",
            "--other 1",
            "nonsense",
            "--name a/b",
        ];
        for line in lines {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
