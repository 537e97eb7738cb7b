//! The text of an ACL file: one line `user NAME RULE...` for each user.
//!
//! Invariants: a file with any fault gives no users at all, and an error that names every line at
//! fault, but no password; what is written, read again, gives the same users.

use std::fmt::Write;

use crate::fault::RuleError;
use crate::users::{DeclareError, Declared, Users};

impl Users {
    /// The users that a file declares; `path` is how errors call it.
    pub fn read_file(&self, text: &[u8], path: &str) -> Result<Declared, String> {
        let mut declared = Declared::new();
        let mut errors = String::new();
        for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
            // A NUL ends a line, as it does in C.
            let line = line.split(|byte| *byte == 0).next().unwrap_or_default().trim_ascii();
            if !line.is_empty() {
                let place = Place { path, line: index + 1 };
                self.read_line(line, place, &mut declared, &mut errors);
            }
        }
        if errors.is_empty() {
            return Ok(declared);
        }
        Err(errors
            + "WARNING: ACL errors detected, no change to the previously active ACL rules \
                      was performed")
    }

    fn read_line(&self, line: &[u8], at: Place<'_>, declared: &mut Declared, errors: &mut String) {
        let mut words = line.split(|byte| *byte == b' ');
        let first = words.next();
        let Some(name) = words.next().filter(|_| first == Some(b"user")) else {
            at.push_error(errors, " should start with user keyword followed by the username. ");
            return;
        };
        let words: Vec<&[u8]> = words.collect();
        let Err(error) = self.declare(declared, name, &words) else { return };
        let shown = String::from_utf8_lossy(name);
        match error {
            DeclareError::Name => {
                errors.push('\'');
                at.push_error(
                    errors,
                    &format!(": username '{shown}' contains invalid characters. "),
                );
            }
            DeclareError::Twice => {
                let line = at.line;
                write!(errors, "WARNING: Duplicate user '{shown}' found on line {line}. ")
                    .expect("writing to a String cannot fail");
            }
            DeclareError::Rule(RuleError::Wrong { why, .. }) => {
                at.push_error(errors, &format!(": {why}. "));
            }
            DeclareError::Rule(RuleError::Unmatched { .. }) => {
                at.push_error(errors, ": Unmatched parenthesis in selector definition. ");
            }
        }
    }

    /// The file that declares the users of now.
    pub fn write_file(&self) -> Vec<u8> {
        let mut text = Vec::new();
        for user in self.all() {
            text.extend(self.line(&user));
            text.push(b'\n');
        }
        text
    }
}

/// Where in which file.
#[derive(Clone, Copy)]
struct Place<'a> {
    path: &'a str,
    line: usize,
}

impl Place<'_> {
    fn push_error(self, errors: &mut String, what: &str) {
        let Place { path, line } = self;
        write!(errors, "{path}:{line}{what}").expect("writing to a String cannot fail");
    }
}
