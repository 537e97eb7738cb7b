//! A library as FUNCTION LOAD gets it, and what it registers.
//!
//! Invariant: a library's identity is never used twice in a process, so an interpreter that has
//! compiled one can never take it for another of the same name.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::ScriptError;
use crate::shebang::{self, Flags};

static NEXT_IDENTITY: AtomicU64 = AtomicU64::new(0);

/// A library's source.
#[derive(Debug)]
pub struct Library {
    source: Box<[u8]>,
    name: Box<[u8]>,
    identity: u64,
    body: usize,
}

/// A function that a library has registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registration {
    /// The name by which FCALL calls it.
    pub name: Box<[u8]>,
    /// What FUNCTION LIST tells of it.
    pub description: Option<Box<[u8]>>,
    /// What the function promises.
    pub flags: Flags,
}

impl Library {
    /// Reads a library's shebang; an interpreter's `load` tells what it registers.
    pub fn parse(source: &[u8]) -> Result<Library, ScriptError> {
        if !source.starts_with(b"#!") {
            return Err(ScriptError::new("ERR Missing library metadata"));
        }
        let Some(shebang) = shebang::split(source) else {
            return Err(ScriptError::new("ERR Invalid library metadata"));
        };
        let mut name = None;
        for setting in &shebang.settings {
            let Some(value) = strip_prefix_any_case(setting, b"name=") else {
                let text = [b"ERR Invalid metadata value given: ", *setting].concat();
                return Err(ScriptError::new(text));
            };
            if name.replace(value).is_some() {
                let text = "ERR Invalid metadata value, name argument was given multiple times";
                return Err(ScriptError::new(text));
            }
        }
        let Some(name) = name else {
            return Err(ScriptError::new("ERR Library name was not given"));
        };
        if !is_name(name) {
            let rule = "Library names can only contain letters, numbers, or underscores(_) and \
                        must be at least one character long";
            return Err(ScriptError::new(format!("ERR {rule}")));
        }
        let engine = shebang.engine.strip_prefix(b"#!").unwrap_or_default();
        if !engine.eq_ignore_ascii_case(b"lua") {
            let text = [b"ERR Engine '", engine, b"' not found"].concat();
            return Err(ScriptError::new(text));
        }
        Ok(Library {
            name: name.into(),
            source: source.into(),
            identity: NEXT_IDENTITY.fetch_add(1, Ordering::Relaxed),
            body: source.len() - shebang.body.len(),
        })
    }

    /// The whole source, its shebang included.
    pub fn source(&self) -> &[u8] {
        &self.source
    }

    /// The library's name.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// The bytes of memory held.
    pub fn memory(&self) -> usize {
        self.source.len() + self.name.len() + size_of::<Library>()
    }

    pub(crate) fn identity(&self) -> u64 {
        self.identity
    }

    /// The Lua.
    pub(crate) fn body(&self) -> &[u8] {
        &self.source[self.body..]
    }
}

/// Whether a library or a function may be called so.
pub(crate) fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}

fn strip_prefix_any_case<'a>(text: &'a [u8], prefix: &[u8]) -> Option<&'a [u8]> {
    let (start, rest) = text.split_at_checked(prefix.len())?;
    start.eq_ignore_ascii_case(prefix).then_some(rest)
}
