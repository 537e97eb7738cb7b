//! Whose rights the process has: root can give them up for those of another user.
//!
//! Invariants: they are given up as a whole, by the one thread there is yet, so whatever comes
//! later has no others; who cannot give them up does not serve.

use std::{env, fs};

use rustix::fs::{Gid, Uid};
use rustix::process::geteuid;
use rustix::thread::{set_thread_gid, set_thread_groups, set_thread_uid};

/// Where users stand, a line each.
const USERS: &str = "/etc/passwd";

/// Takes on the rights of a user, if the process has those of root.
pub(crate) fn take_on(name: &[u8]) -> Result<(), String> {
    if !geteuid().is_root() {
        return Ok(());
    }
    let shown = String::from_utf8_lossy(name);
    let users = fs::read(USERS).map_err(|why| format!("Can't read {USERS}: {why}"))?;
    let (user, group) =
        find(&users, name).ok_or_else(|| format!("Can't find the user {shown} in {USERS}"))?;
    // A process that is no longer root can neither choose a group nor go back.
    set_thread_groups(&[])
        .and_then(|()| set_thread_gid(Gid::from_raw(group)))
        .and_then(|()| set_thread_uid(Uid::from_raw(user)))
        .map_err(|why| format!("Can't take on the rights of {shown}: {why}"))?;
    // Nothing that a relative path could name can be reached from a directory that is closed.
    if env::set_current_dir(".").is_err() {
        env::set_current_dir("/").map_err(|why| format!("Can't chdir to '/': {why}"))?;
    }
    Ok(())
}

/// The numbers of a user and of its group, from lines `name:password:user:group:...`.
fn find(users: &[u8], name: &[u8]) -> Option<(u32, u32)> {
    let number = |text: Option<&[u8]>| {
        let number = base::number::parse_u64(text?)?;
        // The greatest one stands for none.
        u32::try_from(number).ok().filter(|number| *number != u32::MAX)
    };
    users.split(|byte| *byte == b'\n').find_map(|line| {
        let mut fields = line.split(|byte| *byte == b':');
        let is_named = !name.is_empty() && fields.next() == Some(name);
        let mut numbers = fields.skip(1);
        is_named.then(|| number(numbers.next()).zip(number(numbers.next())))?
    })
}

#[cfg(test)]
mod tests {
    use super::find;

    #[test]
    fn a_user_has_a_line_with_two_numbers() {
        let users = b"root:x:0:0:root:/root:/bin/bash\n\nodd:x:y:1\nshort:x:1\n:x:5:5::\n\
                      none:x:4294967295:1\nmemcache:x:112:118:,,,:/nonexistent:/bin/false\n";
        assert_eq!(find(users, b"root"), Some((0, 0)));
        assert_eq!(find(users, b"memcache"), Some((112, 118)));
        for name in ["", "odd", "short", "none", "memcach", "nobody", "x", "root:x:0"] {
            assert_eq!(find(users, name.as_bytes()), None, "{name}");
        }
    }
}
