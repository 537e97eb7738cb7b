//! The user at the terminal: asked for a password, warned of one that others can read.
//!
//! Invariant: a password that is typed is not shown, and the terminal is left as it was.

use std::io::{BufRead, IsTerminal, Write};

use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};

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
