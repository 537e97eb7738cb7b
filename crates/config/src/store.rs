//! Where the values live, how they are read, and how CONFIG GET and SET reach them.

use std::collections::{BTreeMap, HashMap};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use base::glob;

use super::kind::{PreviousValue, Value, ValueError};
use super::option::{ConfigOption, Mutability, Status};
use super::options::{ALL, CELLS, NUMBER_CELLS, TEXT_CELLS};
use super::profile::Profile;
use super::settings::{self, REPLICAOF};
use super::special;

/// The values of all options, shared by all threads.
///
/// Every value stands alone: code that needs two options that agree reads them where they cannot
/// change.
pub struct Config {
    numbers: [AtomicI64; NUMBER_CELLS],
    texts: [RwLock<Arc<[u8]>>; TEXT_CELLS],
    /// The configuration file that the server was started with, as an absolute path.
    path: Option<PathBuf>,
    profile: Profile,
}

/// A typed handle to one option: `config.get(PORT)`.
pub struct Setting<T> {
    pub(super) cell: usize,
    pub(super) is: PhantomData<T>,
}

/// What a value can be read as.
pub trait Readable: Sized + 'static {
    /// What an option's kind must be to be read so.
    const SHAPE: Shape;
    /// Reads the cell of an option whose kind has that shape.
    fn read(config: &Config, cell: usize) -> Self;
}

/// Which kinds a [`Readable`] type takes, checked when the server is compiled.
pub enum Shape {
    /// `yes` or `no`.
    Bool,
    /// A number that lies within this range.
    Number(i64, i64),
    /// One of these words.
    Choice(&'static [&'static str]),
    /// So many numbers of a special form.
    Numbers(usize),
    /// A text.
    Text,
}

/// A CONFIG SET that was checked, and has changed nothing yet.
pub struct Draft {
    /// The configuration as it would be.
    pub config: Config,
    /// The options that were named, in their order.
    pub options: Vec<DraftedOption>,
    values: Vec<(usize, Value)>,
}

/// An option of a CONFIG SET.
#[derive(Debug, PartialEq, Eq)]
pub struct DraftedOption {
    /// The name of its block.
    pub name: &'static str,
    /// What the client called it.
    pub called: String,
    /// Whether its value would be another.
    pub is_new: bool,
}

/// Why CONFIG SET changed nothing; its text is the error's, prefix included.
#[derive(Debug, PartialEq, Eq)]
pub enum SetError {
    /// A name without a value.
    Odd,
    /// No such option; the name as the client sent it.
    Unknown(Vec<u8>),
    /// An option that cannot have that value, or not now.
    Refused {
        /// The option as the client named it.
        name: String,
        /// Why, in Redis' words.
        why: ValueError,
    },
}

impl Config {
    /// All defaults.
    pub fn new() -> Config {
        let config = Config {
            numbers: [const { AtomicI64::new(0) }; NUMBER_CELLS],
            texts: std::array::from_fn(|_| RwLock::default()),
            path: None,
            profile: Profile::Server,
        };
        for index in 0..ALL.len() {
            config.store(index, default_of(index));
        }
        config
    }

    /// All that holds for such a process unless it is told otherwise.
    pub(super) fn of(profile: Profile) -> Config {
        let config = Config { profile, ..Config::new() };
        config.put_all(profile.usual());
        config
    }

    /// What the process is.
    pub fn profile(&self) -> Profile {
        self.profile
    }

    /// The value of an option.
    #[inline]
    pub fn get<T: Readable>(&self, setting: Setting<T>) -> T {
        T::read(self, setting.cell)
    }

    /// The configuration file, when there is one.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    pub(super) fn set_path(&mut self, path: PathBuf) {
        self.path = Some(path);
    }

    /// The value that CONFIG GET shows for the option of that name, or alias.
    pub fn show(&self, name: &[u8]) -> Option<Vec<u8>> {
        let index = find(name)?;
        Some(ALL[index].kind.show(&self.load(index)))
    }

    /// Names and values that match one of the patterns, sorted by name. A name without wildcards
    /// is answered as it was asked for.
    pub fn matching(&self, patterns: &[&[u8]]) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut found = BTreeMap::new();
        for pattern in patterns {
            if glob::is_literal(pattern) {
                if let Some((index, name)) = NAMES.get(&pattern.to_ascii_lowercase()) {
                    found.entry(*name).or_insert_with(|| (pattern.to_vec(), *index));
                }
                continue;
            }
            for (index, option) in ALL.iter().enumerate() {
                for name in option.names() {
                    if !option.hidden && glob::matches(pattern, name.as_bytes(), true) {
                        found.entry(name).or_insert_with(|| (name.as_bytes().to_vec(), index));
                    }
                }
            }
        }
        let value = |index: usize| ALL[index].kind.show(&self.load(index));
        found.into_values().map(|(shown, index)| (shown, value(index))).collect()
    }

    /// CONFIG SET, up to where it would change anything: `pairs` alternates names and values, and
    /// `local` says whether the client is on this machine. The caller that publishes it serialises
    /// calls.
    pub fn draft(&self, pairs: &[&[u8]], local: bool) -> Result<Draft, SetError> {
        let (pairs, []) = pairs.as_chunks::<2>() else { return Err(SetError::Odd) };
        let mut indices = Vec::with_capacity(pairs.len());
        for (count, [name, _]) in pairs.iter().enumerate() {
            let index = find(name).ok_or_else(|| SetError::Unknown(name.to_vec()))?;
            self.check_access(&ALL[index], local).map_err(|why| refused(name, why))?;
            if pairs[..count].iter().any(|[earlier, _]| earlier.eq_ignore_ascii_case(name)) {
                return Err(refused(name, "duplicate parameter".into()));
            }
            indices.push(index);
        }
        let mut values = Vec::with_capacity(pairs.len());
        for (index, [name, text]) in indices.iter().zip(pairs) {
            let current = self.load(*index);
            let standing = PreviousValue { value: &current, by_earlier_line: false };
            let value = ALL[*index].kind.parse_one(text, standing);
            let value = value.map_err(|why| refused(name, why))?;
            check_is_there(*index, &value).map_err(|why| refused(name, why))?;
            values.push((current.clone(), value));
        }
        let mut draft = Draft { config: self.copy(), options: Vec::new(), values: Vec::new() };
        for ((index, [called, _]), (before, value)) in indices.into_iter().zip(pairs).zip(values) {
            let (name, called, is_new) = (ALL[index].name, lossy(called), before != value);
            draft.options.push(DraftedOption { name, called, is_new });
            draft.config.store(index, &value);
            draft.values.push((index, value));
        }
        Ok(draft)
    }

    /// Lets everybody see what was drafted.
    pub fn publish(&self, draft: &Draft) {
        draft.values.iter().for_each(|(index, value)| self.store(*index, value));
    }

    /// A draft that is published at once, for options without effects that could fail.
    pub fn set_many(&self, pairs: &[&[u8]], local: bool) -> Result<(), SetError> {
        self.draft(pairs, local).map(|draft| self.publish(&draft))
    }

    fn copy(&self) -> Config {
        let copy = Config { path: self.path.clone(), profile: self.profile, ..Config::new() };
        (0..ALL.len()).for_each(|index| copy.store(index, &self.load(index)));
        copy
    }

    /// Sets options that are known to be there and to take that.
    pub(super) fn put_all(&self, lines: &[(&str, &str)]) {
        lines.iter().for_each(|(name, text)| self.put_one(name.as_bytes(), text.as_bytes()));
    }

    /// REPLICAOF names another primary: CONFIG GET and REWRITE are to tell it. In a cluster
    /// `nodes.conf` does, and no configuration file may.
    pub fn set_primary(&self, primary: Option<(&str, u16)>) {
        if self.get(settings::CLUSTER_ENABLED) {
            return;
        }
        let text = primary.map_or(String::new(), |(host, port)| format!("{host} {port}"));
        let index = find(b"replicaof").expect("there is such an option");
        self.store(index, &Value::text(text.as_bytes()));
    }

    /// The primary that REPLICAOF, or the file, names.
    pub fn primary(&self) -> Option<(Arc<[u8]>, u16)> {
        let text = self.get(REPLICAOF);
        let (host, port) = special::split_primary(&text)?;
        Some((Arc::from(host), port))
    }

    /// Sets an option that no client may change.
    #[cfg(any(test, feature = "testing"))]
    pub fn put(&self, name: &[u8], text: &[u8]) {
        self.put_one(name, text);
    }

    fn put_one(&self, name: &[u8], text: &[u8]) {
        let index = find(name).expect("there is such an option");
        let current = self.load(index);
        let standing = PreviousValue { value: &current, by_earlier_line: false };
        let value = ALL[index].kind.parse_one(text, standing);
        self.store(index, &value.expect("the option takes that"));
    }

    pub(super) fn load(&self, index: usize) -> Value {
        let cell = CELLS[index];
        match ALL[index].kind.width() {
            0 => Value::Text(self.text(cell)),
            width => Value::Numbers(
                (cell..cell + width)
                    .map(|cell| self.numbers[cell].load(Ordering::Relaxed))
                    .collect(),
            ),
        }
    }

    pub(super) fn store(&self, index: usize, value: &Value) {
        let cell = CELLS[index];
        match value {
            Value::Numbers(numbers) => {
                for (cell, number) in self.numbers[cell..].iter().zip(numbers) {
                    cell.store(*number, Ordering::Relaxed);
                }
            }
            Value::Text(text) => {
                *self.texts[cell].write().unwrap_or_else(PoisonError::into_inner) = text.clone();
            }
        }
    }

    fn check_access(&self, option: &ConfigOption, local: bool) -> Result<(), ValueError> {
        match option.mutability {
            Mutability::Live => Ok(()),
            Mutability::Startup => Err(ValueError::Borrowed("can't set immutable config")),
            Mutability::Protected if self.get(settings::ENABLE_PROTECTED_CONFIGS).allows(local) => {
                Ok(())
            }
            Mutability::Protected => Err(ValueError::Borrowed("can't set protected config")),
        }
    }

    pub(super) fn number(&self, cell: usize) -> i64 {
        self.numbers[cell].load(Ordering::Relaxed)
    }

    fn text(&self, cell: usize) -> Arc<[u8]> {
        Arc::clone(&self.texts[cell].read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Default for Config {
    fn default() -> Config {
        Config::new()
    }
}

/// All names in lower case, each with its option.
static NAMES: LazyLock<HashMap<Vec<u8>, (usize, &'static str)>> = LazyLock::new(|| {
    let all = ALL.iter().enumerate();
    let named = all.flat_map(|(index, option)| option.names().map(move |name| (index, name)));
    named.map(|(index, name)| (name.to_ascii_lowercase().into_bytes(), (index, name))).collect()
});

/// The place in the list of the option of that name, or alias, in any case.
pub(super) fn find(name: &[u8]) -> Option<usize> {
    NAMES.get(&name.to_ascii_lowercase()).map(|(index, _)| *index)
}

/// The value that the option at `index` has unless told otherwise.
pub(super) fn default_of(index: usize) -> &'static Value {
    // Read once, because the default of `dir` is where the process was started.
    static DEFAULTS: LazyLock<Vec<Value>> =
        LazyLock::new(|| ALL.iter().map(parse_default).collect());
    &DEFAULTS[index]
}

/// Refuses a value that somebody counts on and that nothing here would follow.
pub(super) fn check_is_there(index: usize, value: &Value) -> Result<(), ValueError> {
    let is_missing = ALL[index].status == Status::Missing && value != default_of(index);
    if is_missing { Err("this is not supported yet".into()) } else { Ok(()) }
}

fn parse_default(option: &ConfigOption) -> Value {
    let nothing = Value::Numbers(Vec::new());
    let standing = PreviousValue { value: &nothing, by_earlier_line: false };
    let text = option.default.as_bytes();
    // Tests parse each default; only a text, the working directory, can be gone elsewhere.
    option.kind.parse_one(text, standing).unwrap_or_else(|_| Value::text(text))
}

fn refused(name: &[u8], why: ValueError) -> SetError {
    SetError::refused(&lossy(name), why)
}

fn lossy(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

impl SetError {
    /// The option of that name cannot have its value, or its effect failed.
    pub fn refused(name: &str, why: impl Into<ValueError>) -> SetError {
        SetError::Refused { name: name.to_owned(), why: why.into() }
    }

    /// The error line for the client.
    pub fn line(&self) -> Vec<u8> {
        match self {
            SetError::Odd => b"ERR syntax error".to_vec(),
            SetError::Unknown(name) => {
                let name = base::quote::shown(name, usize::MAX);
                let text = b"ERR Unknown option or number of arguments for CONFIG SET - '";
                [text, name, b"'"].concat()
            }
            SetError::Refused { name, why } => {
                format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {why}")
                    .into_bytes()
            }
        }
    }
}

impl<T> Clone for Setting<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Setting<T> {}

impl Readable for bool {
    const SHAPE: Shape = Shape::Bool;

    #[inline]
    fn read(config: &Config, cell: usize) -> bool {
        config.number(cell) != 0
    }
}

impl Readable for Arc<[u8]> {
    const SHAPE: Shape = Shape::Text;

    fn read(config: &Config, cell: usize) -> Arc<[u8]> {
        config.text(cell)
    }
}

impl<const N: usize> Readable for [i64; N] {
    const SHAPE: Shape = Shape::Numbers(N);

    #[inline]
    fn read(config: &Config, cell: usize) -> [i64; N] {
        std::array::from_fn(|place| config.number(cell + place))
    }
}

macro_rules! readable_numbers {
    ($($number:ty: $least:expr, $most:expr;)*) => {$(
        impl Readable for $number {
            const SHAPE: Shape = Shape::Number($least, $most);

            #[inline]
            fn read(config: &Config, cell: usize) -> $number {
                // The option's range lies within the type's: `setting` checks it.
                config.number(cell) as $number
            }
        }
    )*};
}

readable_numbers! {
    i64: i64::MIN, i64::MAX;
    u64: 0, i64::MAX;
    usize: 0, i64::MAX;
    u32: 0, u32::MAX as i64;
    i32: i32::MIN as i64, i32::MAX as i64;
    u16: 0, u16::MAX as i64;
    u8: 0, u8::MAX as i64;
}
