//! The rules as a whole: tables of what Redis says, and properties against a naive model.

mod model;
mod properties;

use std::sync::Arc;

use proto::{Args, OwnedArgs};

use crate::{
    AccessRequest, Catalogue, CatalogueEntry, Database, DeclareError, Declared, Denial, KeyAccess,
    Users,
};

/// The commands of the tests: names, categories, and which container each belongs to.
const COMMANDS: &[(&str, &[&str])] = &[
    ("get", &["@read", "@string", "@fast"]),
    ("set", &["@write", "@string", "@slow"]),
    ("mget", &["@read", "@string", "@fast"]),
    ("config", &["@slow"]),
    ("config|get", &["@admin", "@slow", "@dangerous"]),
    ("config|set", &["@admin", "@slow", "@dangerous"]),
    ("select", &["@fast", "@connection"]),
    ("auth", &["@fast", "@connection"]),
    ("publish", &["@pubsub", "@fast"]),
];

fn catalogue() -> Catalogue {
    let id = |name: &str| COMMANDS.iter().position(|(it, _)| *it == name);
    Catalogue::new(COMMANDS.iter().enumerate().map(|(number, (name, categories))| CatalogueEntry {
        id: number,
        name: (*name).to_owned(),
        categories: categories.to_vec(),
        container: name.split_once('|').and_then(|(container, _)| id(container)),
        is_exempt: *name == "auth",
    }))
}

fn users() -> Users {
    Users::new(Arc::new(catalogue()))
}

/// What becomes of a new user with these rules: how it is described, or the error.
fn described(rules: &str) -> String {
    let users = users();
    let words: Vec<&str> = rules.split(' ').collect();
    match users.set(b"u", &words) {
        Ok(user) => {
            let line = String::from_utf8(users.line(&user)).unwrap();
            line.strip_prefix("user u ").expect("so it begins").to_owned()
        }
        Err(error) => format!("{error:?}"),
    }
}

#[test]
fn descriptions_are_those_of_redis() {
    const DIGEST: &str = "30c952fab122c3f9759f02a6d95c3758b246b4fee239957b2d4fee46e26170c4";
    for (rules, expected) in [
        ("on", "on sanitize-payload"),
        ("on nopass", "on nopass sanitize-payload"),
        ("nopass >pw", &format!("off sanitize-payload #{DIGEST}")),
        (">pw nopass", "off nopass sanitize-payload"),
        ("SKIP-sanitize-payload", "off skip-sanitize-payload"),
        (&format!("#{DIGEST} >pw"), &format!("off sanitize-payload #{DIGEST}")),
        (&format!(">pw !{DIGEST}"), "off sanitize-payload"),
        (">pw <pw", "off sanitize-payload"),
    ] {
        assert_eq!(described(rules), format!("{expected} resetchannels -@all"), "{rules}");
    }
    for (rules, expected) in [
        ("", "resetchannels -@all"),
        ("+get -get", "resetchannels -@all -get"),
        ("+GET +set +get", "resetchannels -@all +set +get"),
        ("+get +@read -get", "resetchannels -@all +@read -get"),
        ("+@read +@write -@READ", "resetchannels -@all +@write -@read"),
        ("-get +@all -get +get", "resetchannels +@all +get"),
        ("+config|set +config", "resetchannels -@all +config"),
        ("+config +config|set", "resetchannels -@all +config +config|set"),
        ("+select|0 +select|A +select|0", "resetchannels -@all +select|a +select|0"),
        ("+select|0 -select", "resetchannels -@all -select"),
        ("+select|0 -@connection", "resetchannels -@all +select|0 -@connection"),
        ("~a ~* &x &*", "~* &* -@all"),
        ("%R~a %w~a %R~b %W~c %RW~d", "~a %R~b %W~c ~d resetchannels -@all"),
        ("%R %R~*", "%R~ %R~* resetchannels -@all"),
        ("~a %R~* %W~*", "~* resetchannels -@all"),
        ("&b &a &b", "resetchannels &b &a -@all"),
        ("~a allkeys resetkeys ~b", "~b resetchannels -@all"),
        ("db=2,+1 db=00,1,0", "resetchannels db=0,1 -@all"),
        ("resetdbs", "resetchannels resetdbs -@all"),
        ("db=1 alldbs", "resetchannels -@all"),
        (
            "(+get ~a) ( +set ) ()",
            "resetchannels -@all (~a resetchannels -@all +get) \
         (resetchannels -@all +set) (resetchannels -@all)",
        ),
        ("(~a) clearselectors", "resetchannels -@all"),
        ("(~a)b)", "resetchannels -@all (~a)b resetchannels -@all)"),
        // Redis leaves the quotes out, and reads the line again as something else.
        ("(\"~a)\" +get)", "resetchannels -@all (\"~a)\" resetchannels -@all +get)"),
        ("on nopass >x +@all ~* (+get) reset", "resetchannels -@all"),
    ] {
        let expected = format!("off sanitize-payload {expected}");
        assert_eq!(described(rules), expected, "{rules}");
    }
}

#[test]
fn faults_are_those_of_redis() {
    for (rules, word, why) in [
        ("+foo", "+foo", "Unknown"),
        ("-@foo", "-@foo", "Unknown"),
        ("+", "+", "Unknown"),
        ("+config|foo", "+config|foo", "Unknown"),
        ("-select|0", "-select|0", "Unknown"),
        ("+select|0|1", "+select|0|1", "Unknown"),
        ("+@read|x", "+@read|x", "Unknown"),
        ("+get|", "+get|", "Syntax"),
        ("+config|", "+config|", "Syntax"),
        ("+config|set|x", "+config|set|x", "ArgumentOfSubcommand"),
        ("foo", "foo", "Syntax"),
        ("%~x", "%~x", "Syntax"),
        ("%RR~x", "%RR~x", "Syntax"),
        ("%Rx", "%Rx", "Syntax"),
        ("%", "%", "Syntax"),
        ("~a\0b", "~a\0b", "Syntax"),
        ("~a\tb", "~a\tb", "Syntax"),
        (")", ")", "Syntax"),
        ("(on)", "(on)", "Syntax"),
        ("((~a))", "((~a))", "Syntax"),
        ("(+get >pw)", "(+get >pw)", "Syntax"),
        ("(\"~a)", "(\"~a)", "Syntax"),
        ("~* ~a", "~a", "PatternBehindAll"),
        ("&* &a", "&a", "ChannelBehindAll"),
        ("<pw", "<pw", "NoSuchPassword"),
        ("#12", "#12", "Digest"),
        ("!", "!", "Digest"),
        ("db=", "db=", "Syntax"),
        ("db=1,,2", "db=1,,2", "Syntax"),
        ("db=-1", "db=-1", "DatabaseRange"),
        ("db=2147483648", "db=2147483648", "DatabaseRange"),
        ("db=99999999999999999999999", "db=99999999999999999999999", "DatabaseRange"),
    ] {
        let users = users();
        let words: Vec<&str> = rules.split(' ').collect();
        let error = users.set(b"u", &words).err().unwrap();
        let crate::RuleError::Wrong { word: found, why: fault } = error else {
            panic!("{rules:?}: {error:?}");
        };
        assert_eq!((&*found, &*format!("{fault:?}")), (word.as_bytes(), why), "{rules:?}");
        assert!(users.named(b"u").is_none(), "a user with a wrong rule is not made");
    }
    for open in ["(", "((", "(+get ~a", "foo (", "(+get)x"] {
        assert!(described(open).starts_with("Unmatched"), "{open}");
    }
}

/// A request for `words` that reads the keys at these places.
fn ask(users: &Users, words: &str, keys: &[(usize, KeyAccess)]) -> Result<(), Denial> {
    let args: OwnedArgs = words.split(' ').map(str::as_bytes).collect();
    let command = users.catalogue().find(words.split(' ').next().unwrap().as_bytes()).unwrap();
    let channels: &[usize] = if words.starts_with("publish") { &[1] } else { &[] };
    let asked = AccessRequest {
        command,
        args: args.as_args(),
        keys,
        channels,
        channels_are_patterns: false,
        databases: &[(0, Database::Number(0))],
    };
    users.named(b"u").unwrap().rules().check(&asked)
}

#[test]
fn the_denial_told_is_that_of_whoever_got_furthest() {
    let read = |places: &[usize]| -> Vec<(usize, KeyAccess)> {
        places.iter().map(|place| (*place, KeyAccess::READ)).collect()
    };
    for (rules, request, keys, expected) in [
        ("+mget ~a (+mget ~b)", "mget b c", &[1, 2][..], Err(Denial::Key(2))),
        ("+mget ~a (+mget ~b)", "mget b b", &[1, 2], Ok(())),
        ("+mget ~b (+mget ~a)", "mget b c", &[1, 2], Err(Denial::Key(2))),
        ("+get ~a (+mget ~b)", "get b", &[1], Err(Denial::Key(1))),
        ("+get ~a (+mget ~b)", "set b", &[1], Err(Denial::Command)),
        ("~a &x (+publish)", "publish c", &[], Err(Denial::Channel(1))),
        ("+get ~a db=1", "get a", &[1], Err(Denial::Database(0))),
        ("~a db=1", "get a", &[1], Err(Denial::Database(0))),
        ("(+get db=1)", "get a", &[1], Err(Denial::Command)),
        ("+get ~a db=1 (+get ~b)", "get a", &[1], Err(Denial::Key(1))),
        ("+select|0", "select 0", &[], Ok(())),
        ("+select|0", "select 1", &[], Err(Denial::Command)),
        ("+select|ab", "select AB", &[], Ok(())),
        ("+select|0 -@connection", "select 0", &[], Err(Denial::Command)),
        ("-@all -auth", "auth x", &[], Ok(())),
        ("+get %W~a", "get a", &[1], Err(Denial::Key(1))),
        ("+get %W~a %R~a*", "get a", &[1], Ok(())),
    ] {
        let users = users();
        users.set(b"u", &rules.split(' ').collect::<Vec<_>>()).unwrap();
        assert_eq!(ask(&users, request, &read(keys)), expected, "{rules}: {request}");
    }
}

#[test]
fn one_pattern_must_allow_all_that_is_needed() {
    let users = users();
    users.set(b"u", &["+set", "%R~a*", "%W~*b"]).unwrap();
    let asked = |key: &str, needs| ask(&users, &format!("set {key}"), &[(1, needs)]).is_ok();
    let both = KeyAccess::READ.and(KeyAccess::WRITE);
    assert!(asked("ab", KeyAccess::READ) && asked("ab", KeyAccess::WRITE) && !asked("ab", both));
    assert!(asked("ax", KeyAccess::NOTHING) && !asked("xx", KeyAccess::NOTHING));
}

#[test]
fn all_keys_that_begin_so_must_be_allowed_by_one_pattern() {
    for (rules, prefix, expected) in [
        ("~*", "a", true),
        ("%W~*", "a", true),
        ("%R~*", "a", false),
        ("~user:*", "user:", true),
        ("~user:*", "user:1", true),
        ("~user:*", "user", false),
        ("~user:?*", "user:", false),
        ("~user:", "user:", false),
        ("~user:*:x", "user:", false),
        ("~user:**", "user:", false),
        ("~us[e]r:*", "user:", false),
        ("%R~user:* %W~user:v*", "user:v", true),
        ("%R~user:* %W~user:v*", "user:", false),
    ] {
        let users = users();
        users.set(b"u", &[&["+set"], &*rules.split(' ').collect::<Vec<_>>()].concat()).unwrap();
        let asked = ask(&users, &format!("set {prefix}"), &[(1, KeyAccess::WRITE.of_all())]);
        assert_eq!(asked.is_ok(), expected, "{rules}: {prefix}");
    }
}

#[test]
fn all_databases_must_be_open_to_who_touches_all() {
    for (rules, expected) in [("alldbs", true), ("db=0,1", false), ("resetdbs", false)] {
        let users = users();
        let rules = users.set(b"u", &["+@all", rules]).unwrap().rules();
        let command = users.catalogue().find(b"set").unwrap();
        let asked = AccessRequest {
            command,
            args: Args::default(),
            keys: &[],
            channels: &[],
            channels_are_patterns: false,
            databases: &[(0, Database::All)],
        };
        assert_eq!(rules.check(&asked).is_ok(), expected);
    }
}

#[test]
fn a_user_may_read_all_keys_where_its_rules_open_all_for_reading() {
    for (rules, expected) in [
        ("+get allkeys", true),
        ("+get %R~*", true),
        ("+get %W~*", false),
        ("+get ~a*", false),
        ("~* (+get ~a)", false),
        ("-@all (+get %R~*)", true),
    ] {
        let users = users();
        let rules = users.set(b"u", &rules.split(' ').collect::<Vec<_>>()).unwrap().rules();
        let command = users.catalogue().find(b"get").unwrap();
        assert_eq!(rules.may_read_all_keys(command, Args::default()), expected, "{command}");
    }
}

#[test]
fn channels_as_patterns_are_allowed_letter_by_letter() {
    let users = users();
    let rules = users.set(b"u", &["&foo*", "&b?"]).unwrap().rules();
    for (name, is_pattern, expected) in [
        ("foo", false, true),
        ("bb", false, true),
        ("b", false, false),
        ("foo*", true, true),
        ("foo1", true, false),
        ("*", true, false),
    ] {
        assert_eq!(rules.may_use_channel(name.as_bytes(), is_pattern), expected, "{name}");
    }
}

#[test]
fn the_bits_follow_the_rules() {
    let users = users();
    let user = users.set(b"u", &["on"]).unwrap();
    let before = user.version();
    assert!(!user.is_unlimited() && !user.is_open());
    for (rules, unlimited, open) in [
        ("+@all ~* &*", true, false),
        ("nopass", true, true),
        ("-get", false, true),
        ("+get", true, true),
        ("db=0", false, true),
        ("alldbs off", true, false),
        ("resetkeys", false, false),
    ] {
        users.set(b"u", &rules.split(' ').collect::<Vec<_>>()).unwrap();
        assert_eq!((user.is_unlimited(), user.is_open()), (unlimited, open), "{rules}");
    }
    assert_eq!(user.version(), before + 7);
    let default = users.default_user();
    assert!(default.is_unlimited() && default.is_open());
}

#[test]
fn a_user_enters_by_any_of_its_passwords_while_it_is_on() {
    let users = users();
    let may = |name: &str, password: &str| {
        users.authenticate(name.as_bytes(), password.as_bytes()).is_some()
    };
    users.set(b"u", &["on", ">one", ">two"]).unwrap();
    assert!(may("u", "one") && may("u", "two") && !may("u", "three") && !may("v", "one"));
    assert!(may("default", "anything") && !may("v", "anything"), "the default user needs none");
    users.set(b"u", &["off"]).unwrap();
    assert!(!may("u", "one"));
    users.set_default_password(Some(b"secret"));
    assert!(may("default", "secret") && !may("default", "") && !users.default_user().is_open());
    users.set_default_password(None);
    assert!(may("default", "") && users.default_user().is_open());
}

#[test]
fn users_come_and_go() {
    let users = users();
    let user = users.set(b"u", &["on"]).unwrap();
    assert!(users.remove(DEFAULT).is_none() && users.remove(b"v").is_none());
    assert!(Arc::ptr_eq(&users.remove(b"u").unwrap(), &user) && user.is_deleted());
    let again = users.set(b"u", &["on"]).unwrap();
    assert!(!Arc::ptr_eq(&again, &user) && !again.is_deleted());
    users.set_all_channels(true);
    let line = users.line(&users.set(b"v", &["(+get)", "reset", "(+get)"]).unwrap());
    assert_eq!(line, b"user v off sanitize-payload &* -@all (&* -@all +get)");
}

const DEFAULT: &[u8] = crate::DEFAULT_USER;

#[test]
fn a_user_that_stands_in_a_file_again_stays_and_has_its_rules() {
    let users = users();
    let [same, other, gone] = [b"same", b"othr", b"gone"].map(|it| users.set(it, &["on"]).unwrap());
    let default = users.default_user();
    let file = b"user same on\n\n  user othr off \r\nuser new on nopass\n";
    let declared = users.read_file(file, "users.acl").unwrap();
    let touched = users.replace_all(declared, None);
    let mut names = touched.iter().map(|it| it.name()).collect::<Vec<_>>();
    names.sort_unstable();
    assert_eq!(names, [b"gone", b"othr"]);
    assert!(!same.is_deleted() && !other.is_deleted() && gone.is_deleted());
    for (name, user) in [(b"same", &same), (b"othr", &other)] {
        assert!(Arc::ptr_eq(&users.named(name).unwrap(), user));
    }
    assert!(users.named(b"gone").is_none() && !other.rules().is_on());
    let declared = users.read_file(b"user default on >x +@all\n", "users.acl").unwrap();
    let touched = users.replace_all(declared, None);
    assert!(touched.iter().any(|it| Arc::ptr_eq(it, &default)) && !default.is_deleted());
    assert!(!default.is_unlimited() && Arc::ptr_eq(&users.default_user(), &default));
    users.replace_all(Declared::new(), Some(b"secret"));
    assert!(default.is_unlimited() && !default.is_open());
}

#[test]
fn a_file_with_faults_names_them_all_and_no_password() {
    let users = users();
    let file = b"user a foo >hidden\nuser b on (+get\nxx\n# no\nuser a on\nuser a on\n\
        user c\ton\nuser\nuser d >hidden +nope\0\n";
    let error = users.read_file(file, "/f").err().unwrap();
    assert_eq!(
        error,
        "/f:1: Syntax error. /f:2: Unmatched parenthesis in selector definition. /f:3 should \
         start with user keyword followed by the username. /f:4 should start with user keyword \
         followed by the username. WARNING: Duplicate user 'a' found on line 6. '/f:7: username \
         'c\ton' contains invalid characters. /f:8 should start with user keyword followed by the \
         username. /f:9: Unknown command or category name in ACL. WARNING: ACL errors detected, \
         no change to the previously active ACL rules was performed"
    );
    assert!(users.read_file(b"user a on\0 foo\n", "/f").is_ok(), "a NUL ends a line");
    let mut declared = Declared::new();
    assert_eq!(users.declare(&mut declared, b"a b", &["on"]), Err(DeclareError::Name));
    assert_eq!(users.declare(&mut declared, b"", &["on"]), Ok(()));
    assert_eq!(users.declare(&mut declared, b"", &["on"]), Err(DeclareError::Twice));
}

/// H82: long rules and many of them cost no more than to read them.
#[test]
fn hostile_rules_are_cheap() {
    let many =
        |sign: &str| -> Vec<String> { (0..100_000).map(|it| format!("{sign}{it}")).collect() };
    let users = users();
    for rules in [many("~"), many("&"), many("+select|"), many(">")] {
        users.set(b"u", &rules).unwrap();
        users.set(b"u", &rules).unwrap();
    }
    users.set(b"v", &many("(~)").iter().map(|_| "(~a)").collect::<Vec<_>>()).unwrap();
    assert_eq!(users.named(b"v").unwrap().rules().selectors(users.catalogue()).len(), 100_000);
    let long = format!("~{}", "a*".repeat(1 << 19));
    users.set(b"w", &["+get", &long]).unwrap();
    assert!(described(&"(".repeat(1 << 20)).starts_with("Unmatched"));
    assert!(described(&"( ".repeat(1 << 17)).starts_with("Unmatched"));
    assert!(described(&"+get|".repeat(1 << 17)).starts_with("Wrong"));
}
