//! Configuration files of any bytes: an error in one line, or a configuration whose text, brought
//! up to date, is read as the same one.
#![no_main]

use config::{ALL, Config, LoadError, Profile, Startup};
use libfuzzer_sys::fuzz_target;

/// A file that names others has these read.
const NAMES_FILES: &[u8] = b"include";

fuzz_target!(|data: &[u8]| {
    let lower = data.to_ascii_lowercase();
    let names = |word: &[u8]| lower.windows(word.len()).any(|part| part == word);
    if names(NAMES_FILES) {
        return;
    }
    let profile = match data.first() {
        Some(b's') => Profile::Sentinel,
        _ => Profile::Server,
    };
    let Ok(startup) = read(profile, data) else { return };
    let mut text = data.to_vec();
    // To bring the others up to date adds nothing.
    for option in ALL.iter().filter(|option| names(option.name.as_bytes())) {
        text = startup.config.rewritten_for(option.name.as_bytes(), &text, None);
    }
    let again = match read(profile, &text) {
        Ok(again) => again,
        Err(error) => panic!("{error}\nin {}", text.escape_ascii()),
    };
    for option in ALL {
        let [before, after] = [&startup.config, &again.config].map(|it| shown(it, option.name));
        assert_eq!(before, after, "{}", option.name);
    }
});

fn read(profile: Profile, mut text: &[u8]) -> Result<Startup, LoadError> {
    Startup::read(profile, ["-".into()], &mut text)
}

fn shown(config: &Config, name: &str) -> Option<String> {
    config.show(name.as_bytes()).map(|value| value.escape_ascii().to_string())
}
