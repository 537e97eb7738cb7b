//! The user at the terminal: asked for a password, warned of one that others can read, shown long
//! replies page by page.
//!
//! Invariant: a password that is typed is not shown, and the terminal is left as it was.

use std::io::{BufRead, IsTerminal, Write};
use std::process::{Command, Stdio};

use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr,
};

use crate::options::Options;

const WARNING: &str = "Warning: Using a password with '-a' or '-u' option on the command line \
                       interface may not be safe.";

/// Takes the password from where the options say that it is.
pub(crate) fn complete_login(options: &mut Options) -> Result<(), String> {
    if options.asks_password {
        options.login.password = Some(ask_password()?);
    } else if options.login.password.is_none() {
        options.login.password = std::env::var("REDISCLI_AUTH").ok().filter(|it| !it.is_empty());
    } else if options.shows_password && options.warns_of_password {
        eprintln!("{WARNING}");
    }
    Ok(())
}

fn ask_password() -> Result<String, String> {
    let failed = |error: std::io::Error| format!("The password cannot be read: {error}");
    let input = std::io::stdin();
    let before = input.is_terminal().then(|| tcgetattr(&input)).transpose();
    let before = before.map_err(|error| failed(error.into()))?;
    if let Some(before) = &before {
        let mut quiet = before.clone();
        quiet.local_modes.remove(LocalModes::ECHO);
        let set = tcsetattr(&input, OptionalActions::Flush, &quiet);
        set.map_err(|error| failed(error.into()))?;
        let mut out = std::io::stderr();
        let _ = write!(out, "Please input password: ");
    }
    let mut line = String::new();
    let read = input.lock().read_line(&mut line);
    if let Some(before) = &before {
        let _ = tcsetattr(&input, OptionalActions::Flush, before);
        eprintln!();
    }
    read.map_err(failed)?;
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}

/// While this lives, each key is there once it is pressed, and is not shown; signals stay.
pub(crate) struct CbreakMode {
    /// What the terminal was like, if there is one.
    before: Option<Termios>,
}

impl CbreakMode {
    pub(crate) fn begin() -> CbreakMode {
        let input = std::io::stdin();
        let before = tcgetattr(&input).ok();
        if let Some(before) = &before {
            let mut single = before.clone();
            single.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
            single.special_codes[SpecialCodeIndex::VMIN] = 1;
            single.special_codes[SpecialCodeIndex::VTIME] = 0;
            // A terminal that cannot be told gives keys line by line.
            let _ = tcsetattr(&input, OptionalActions::Now, &single);
        }
        CbreakMode { before }
    }
}

impl Drop for CbreakMode {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, before);
        }
    }
}

/// Shows a text through the user's pager if it is longer than the terminal; whether that was done.
pub(crate) fn page(text: &[u8]) -> bool {
    let out = std::io::stdout();
    let rows = tcgetwinsize(&out).map_or(0, |size| usize::from(size.ws_row));
    let lines = text.iter().filter(|byte| **byte == b'\n').count();
    if !out.is_terminal() || rows == 0 || lines < rows {
        return false;
    }
    let pager = std::env::var_os("PAGER").filter(|it| !it.is_empty());
    let pager = pager.unwrap_or_else(|| "less -R".into());
    let started = Command::new("sh").arg("-c").arg(pager).stdin(Stdio::piped()).spawn();
    let Ok(mut child) = started else { return false };
    if let Some(mut input) = child.stdin.take() {
        // A user that has read enough ends the pager.
        let _ = input.write_all(text);
    }
    // A pager that is not installed has shown nothing.
    child.wait().is_ok_and(|status| status.code() != Some(NOT_FOUND))
}

/// How a shell ends that does not find the program.
const NOT_FOUND: i32 = 127;
