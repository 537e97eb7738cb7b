//! The title of the process, as `ps` shows it.
//!
//! Invariant: no password is shown, whatever `set-proc-title` says.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::OnceLock;

use base::process_title;
use config::settings::{BIND, PORT, PROC_TITLE_TEMPLATE, SET_PROC_TITLE, TLS_PORT, UNIXSOCKET};
use config::{Config, Profile, without_secrets};

/// What the process was called by.
static PROGRAM: OnceLock<OsString> = OnceLock::new();

/// Shows the title that the configuration asks for, or the arguments without passwords.
pub fn begin(program: &OsStr, arguments: &[OsString], config: &Config) {
    // A process is called once.
    let _ = PROGRAM.set(program.to_owned());
    if config.get(SET_PROC_TITLE) {
        return update(config, config.get(PORT));
    }
    let given: Vec<Vec<u8>> = arguments.iter().cloned().map(OsString::into_vec).collect();
    let all = [vec![program.as_bytes().to_vec()], without_secrets(&given)].concat();
    process_title::show(&process_title::joined(&all));
}

/// Shows a changed configuration; `port` is the one that is listened on.
pub fn update(config: &Config, port: u16) {
    if let Some(program) = PROGRAM.get()
        && config.get(SET_PROC_TITLE)
    {
        process_title::show(&fill(config, program.as_bytes(), port));
    }
}

/// The template with its variables filled in, without blanks around it.
fn fill(config: &Config, program: &[u8], port: u16) -> Vec<u8> {
    let template = config.get(PROC_TITLE_TEMPLATE);
    let mut filled = Vec::new();
    let mut rest = &*template;
    while let Some(begin) = rest.iter().position(|byte| *byte == b'{') {
        filled.extend_from_slice(&rest[..begin]);
        let end = rest[begin..].iter().position(|byte| *byte == b'}');
        let end = begin + end.expect("the template was checked");
        filled.extend(variable(config, &rest[begin + 1..end], program, port));
        rest = &rest[end + 1..];
    }
    filled.extend_from_slice(rest);
    filled.trim_ascii().to_vec()
}

fn variable(config: &Config, name: &[u8], program: &[u8], port: u16) -> Vec<u8> {
    let socket = config.get(UNIXSOCKET);
    match name {
        b"title" => program.to_vec(),
        b"listen-addr" if port == 0 && !socket.is_empty() => [b"unixsocket:", &*socket].concat(),
        b"listen-addr" => {
            let bind = config.get(BIND).into_iter().next();
            let address = bind.map_or_else(|| "*".to_owned(), |bind| bind.address);
            format!("{address}:{port}").into_bytes()
        }
        b"port" => port.to_string().into_bytes(),
        b"tls-port" => config.get(TLS_PORT).to_string().into_bytes(),
        b"unixsocket" => socket.to_vec(),
        b"config-file" => {
            config.path().map_or_else(|| b"-".to_vec(), |path| path.as_os_str().as_bytes().to_vec())
        }
        b"server-mode" if config.profile() == Profile::Sentinel => b"[sentinel]".to_vec(),
        // A server has no mode of its own yet.
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use config::Config;

    use super::fill;

    #[test]
    fn a_title_is_as_redis_shows_it() {
        let config = Config::new();
        assert_eq!(fill(&config, b"apus", 6379), b"apus *:6379");
        config.put(b"bind", b"127.0.0.1 ::1");
        let template = b"  {title}|{port}|{tls-port}|{unixsocket}|{config-file}|{server-mode}|x  ";
        config.put(b"proc-title-template", template);
        assert_eq!(fill(&config, b"/bin/apus", 7), b"/bin/apus|7|0||-||x");
        config.put(b"unixsocket", b"/a.sock");
        config.put(b"proc-title-template", b"{listen-addr}");
        assert_eq!(fill(&config, b"apus", 0), b"unixsocket:/a.sock");
        assert_eq!(fill(&config, b"apus", 7), b"127.0.0.1:7");
    }
}
