//! The users' way from configuration and files, and back.
//!
//! Invariants: a file or a line with a fault changes nothing; errors and logs name it without the
//! passwords that it holds; an ACL file is replaced as a whole, also by a crash.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use acl::{DeclareError, Declared, RuleError, User};
use base::io_error_text::strerror;
use config::settings::{ACLFILE, REQUIREPASS};
use config::{ConfigLine, DeferredDirective, UserLine};
use engine::runtime::log::log_warning;
use engine::runtime::replace_file;
use engine::shared::Shared;
use keyspace::Refusal;

const BOTH: &str = "Configuring users in the configuration file and an ACL file at the same time \
    is invalid. Please define either an ACL file or declare users directly, but not both.";

const NOT_SAVED: Refusal = Refusal::error(
    "ERR There was an error trying to save the ACLs. Please check the server logs for more \
     information",
);

/// Declares the users of the configuration or of the ACL file, before anybody is served.
pub(crate) fn declare(server: &Shared, lines: &[DeferredDirective]) -> Result<(), String> {
    let Some(path) = file(server) else {
        let declared = read_lines(server, lines)?;
        server.access.users.replace_all(declared, password(server).as_deref());
        return Ok(());
    };
    if !lines.is_empty() {
        return Err(BOTH.to_owned());
    }
    let loaded = load_file(server, &path);
    loaded.map(drop).map_err(|why| format!("Aborting startup because of ACL errors: {why}"))
}

fn read_lines(server: &Shared, lines: &[DeferredDirective]) -> Result<Declared, String> {
    let mut declared = Declared::new();
    for line in lines {
        let [name, words @ ..] = &*line.arguments else { continue };
        let shown = String::from_utf8_lossy(name);
        let why = match server.access.users.declare(&mut declared, name, words) {
            Ok(()) => continue,
            Err(DeclareError::Name) => "Spaces not allowed in ACL usernames".to_owned(),
            Err(DeclareError::Twice) => {
                "Duplicate user found. A user can only be defined once in config files".to_owned()
            }
            Err(DeclareError::Rule(error)) => {
                let word = String::from_utf8_lossy(error.word_without_secrets());
                match &error {
                    RuleError::Wrong { why, .. } => format!("{why} ({word})"),
                    RuleError::Unmatched { .. } => format!("Unmatched parenthesis ({word})"),
                }
            }
        };
        let text = format!("user {shown} ...");
        let place = ConfigLine { text, ..line.place.clone() };
        let why = format!("Error in user declaration '{shown}': {why}");
        return Err(place.refuse(why).to_string());
    }
    Ok(declared)
}

/// The ACL file, if there is one.
pub(crate) fn file(server: &Shared) -> Option<PathBuf> {
    let path = server.config.get(ACLFILE);
    (!path.is_empty()).then(|| PathBuf::from(OsStr::from_bytes(&path)))
}

/// What `requirepass` says. That holds for a default user of which no file says anything: in Redis
/// such a file lets everybody in.
fn password(server: &Shared) -> Option<Arc<[u8]>> {
    Some(server.config.get(REQUIREPASS)).filter(|password| !password.is_empty())
}

/// Puts the users of the file in the place of all others: the users that were changed or removed.
pub(crate) fn load_file(server: &Shared, path: &Path) -> Result<Vec<Arc<User>>, String> {
    let text = std::fs::read(path).map_err(|error| {
        format!("Error loading ACLs, opening file '{}': {}", path.display(), strerror(&error))
    })?;
    let declared = server.access.users.read_file(&text, &path.to_string_lossy())?;
    Ok(server.access.users.replace_all(declared, password(server).as_deref()))
}

/// Writes all users to the file.
pub(crate) fn save_file(server: &Shared, path: &Path) -> Result<(), Refusal> {
    replace_file::replace_atomically(path, &server.access.users.write_file()).map_err(|error| {
        let path = path.display();
        log_warning!(server.log, "Saving the users to '{path}' failed: {}", strerror(&error));
        NOT_SAVED
    })
}

/// The users for the configuration file, unless they have a file of their own.
pub(crate) fn lines(server: &Shared) -> Option<Vec<UserLine>> {
    let all =
        || server.access.users.all().iter().map(|user| server.access.users.words(user)).collect();
    file(server).is_none().then(all)
}

/// Brings the default user's password in line with `requirepass`.
pub(crate) fn adopt_password(server: &Shared) {
    server.access.users.set_default_password(password(server).as_deref());
}
