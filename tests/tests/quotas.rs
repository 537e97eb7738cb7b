//! Accounts and quotas of users and databases: what is counted, what is refused, and what is not.
//!
//! No test goes by time: a quota of these tests lets a few requests pass in a year, so none comes
//! back while a test runs.

use std::collections::BTreeMap;

use proto::value::Value;
use tests::http::send;
use tests::memcached::Connection;
use tests::server::free_port;
use tests::{Client, Server, check, play};

/// So many seconds that no token comes back.
const AGES: &str = "31622400";

type Row = BTreeMap<String, Value>;

fn row(value: &Value) -> Row {
    let Value::Map(pairs) = value else { panic!("a map: {value:?}") };
    pairs.iter().map(|(key, value)| (text(key), value.clone())).collect()
}

fn text(value: &Value) -> String {
    String::from_utf8_lossy(value.as_bytes().expect("a string")).into_owned()
}

fn integer(value: &Value) -> i64 {
    let Value::Integer(number) = value else { panic!("a number: {value:?}") };
    *number
}

/// The account of a user, or of a database.
fn account(client: &mut Client, kind: &str, name: &str) -> Row {
    let Value::Array(rows) = client.call(&["QUOTA", kind]) else { panic!("an array") };
    let is_it = |row: &Row| match kind {
        "USERS" => text(&row["user"]) == name,
        _ => integer(&row["db"]).to_string() == name,
    };
    rows.iter().map(row).find(is_it).unwrap_or_else(|| panic!("no account of {name}: {rows:?}"))
}

/// A client of user ada, which may do everything.
fn ada(server: &Server) -> Client {
    server.client3().call(&["ACL", "SETUSER", "ada", "on", ">word", "+@all", "~*", "&*"]);
    let mut client = server.client3();
    client.call(&["AUTH", "ada", "word"]);
    client
}

/// Gives ada, or a database, a quota.
fn set_quota(server: &Server, directive: &str, rules: &str) {
    let reply = server.client3().call(&["CONFIG", "SET", directive, rules]);
    assert_eq!(reply, Value::Simple(b"OK".into()), "{rules}");
}

fn per_age(limit: &str, amount: u64) -> String {
    format!("ada {limit} {amount}/{AGES}")
}

fn is_refused(reply: &Value) -> bool {
    matches!(reply, Value::Error(line) if line.starts_with(b"QUOTA "))
}

/// How many of so many requests are let pass, before the first that is refused and after it.
fn passes(client: &mut Client, times: usize, words: &[&str]) -> usize {
    (0..times).filter(|_| !is_refused(&client.call(words))).count()
}

#[test]
fn words_are_refused() {
    let server = Server::start(&[]);
    check(
        &mut server.client(),
        "
        > QUOTA
        (error) ERR wrong number of arguments for 'quota' command
        > QUOTA USERS all
        (error) ERR wrong number of arguments for 'quota|users' command
        > QUOTA USERS
        (empty array)
        > QUOTA DATABASES
        (empty array)
        > QUOTA RESET
        OK
        > CONFIG GET user-quota
        1) \"user-quota\"
        2) \"\"
        ",
    );
    let failed = "(error) ERR CONFIG SET failed (possibly related to argument 'user-quota') - ";
    for (rules, why) in [
        ("ada calls 5", "a quota limits requests, bytes-in, bytes-out, cpu-microseconds or memory"),
        ("ada memory 5", "a user has no memory to limit"),
    ] {
        let script = format!("> CONFIG SET user-quota \"{rules}\"\n{failed}{why}");
        check(&mut server.client(), &script);
    }
}

#[test]
fn what_is_off_is_not_counted() {
    let server = Server::start(&[]);
    let mut client = server.client3();
    client.call(&["SET", "key", "value"]);
    check(&mut client, "> QUOTA USERS\n(empty array)\n> QUOTA DATABASES\n(empty array)");
    let info = text(&client.call(&["INFO", "everything"]));
    assert!(!info.contains("Quotas"), "{info}");
}

#[test]
fn users_and_databases_are_counted() {
    let server = Server::start(&["--usage-accounting", "yes", "--worker-threads", "2"]);
    let (mut first, mut second) = (ada(&server), ada(&server));
    let mut client = server.client3();
    first.call(&["SELECT", "3"]);
    second.call(&["SELECT", "3"]);
    client.call(&["QUOTA", "RESET"]);
    let value = "v".repeat(5000);
    for client in [&mut first, &mut second] {
        client.call(&["SET", "key", &value]);
        client.call(&["GET", "key"]);
    }
    let of_ada = account(&mut client, "USERS", "ada");
    assert_eq!(integer(&of_ada["requests"]), 4);
    assert!((10_000..11_000).contains(&integer(&of_ada["bytes-in"])), "{of_ada:?}");
    assert!((10_000..11_000).contains(&integer(&of_ada["bytes-out"])), "{of_ada:?}");
    let of_database = account(&mut client, "DATABASES", "3");
    assert_eq!(integer(&of_database["requests"]), 4);
    assert!((5000..9000).contains(&integer(&of_database["memory"])), "{of_database:?}");
    // A client that has not said a name is the default user.
    assert_eq!(integer(&account(&mut client, "USERS", "default")["rejected"]), 0);
    let info = text(&client.call(&["INFO", "quotas"]));
    assert!(info.contains("quota_users_limited:0\r\n") && info.contains("quota_db3:"), "{info}");
    assert!(info.contains("quota_users_exhausted:0\r\n") && info.contains("exhausted=0"), "{info}");
    assert!(!info.contains("ada"), "INFO names nobody: {info}");
}

#[test]
fn exec_counts_each_request_once_and_a_script_is_one() {
    let server = Server::start(&["--usage-accounting", "yes"]);
    let mut client = ada(&server);
    let mut other = server.client3();
    other.call(&["QUOTA", "RESET"]);
    let requests = [vec!["MULTI"], vec!["INCR", "a"], vec!["INCR", "a"], vec!["EXEC"]];
    client.pipeline(&requests);
    assert_eq!(integer(&account(&mut other, "USERS", "ada")["requests"]), 4);
    client.call(&["EVAL", "for i = 1, 9 do redis.call('INCR', KEYS[1]) end", "1", "a"]);
    assert_eq!(integer(&account(&mut other, "USERS", "ada")["requests"]), 5);
    // So is one that waits, and one that leaves its worker.
    client.call(&["RPUSH", "list", "x"]);
    client.call(&["BLPOP", "list", "0"]);
    client.call(&["BLPOP", "list", "0.001"]);
    client.call(&["KEYSTATS", "BIG"]);
    let waited = integer(&account(&mut other, "USERS", "ada")["requests"]);
    assert_eq!(waited, 9);
}

#[test]
fn a_user_has_so_many_requests_on_all_connections() {
    let server = Server::start(&["--worker-threads", "2"]);
    let (mut first, mut second) = (ada(&server), ada(&server));
    set_quota(&server, "user-quota", &per_age("requests", 10));
    let (one, other) =
        (passes(&mut first, 6, &["GET", "a"]), passes(&mut second, 6, &["SET", "a", "1"]));
    assert_eq!((one, other), (6, 4));
    let left = |account: &Row| integer(&row(&account["remaining"])["requests"]);
    assert_eq!(left(&account(&mut server.client3(), "USERS", "ada")), 0);
    let refused = first.call(&["GET", "a"]);
    let line =
        format!("QUOTA user \"ada\" may have requests 10/{AGES} and has had them, try again later");
    assert_eq!(refused, Value::Error(line.into_bytes()));
    // Others are not held up, and what steers the server is not refused.
    let mut client = server.client3();
    assert_eq!(passes(&mut client, 50, &["GET", "a"]), 50);
    assert_eq!(passes(&mut first, 5, &["CONFIG", "GET", "port"]), 5);
    assert_eq!(passes(&mut first, 5, &["AUTH", "ada", "word"]), 5);
    assert!(is_refused(&first.call(&["GET", "a"])));
    assert!(text(&client.call(&["INFO", "errorstats"])).contains("errorstat_QUOTA:count=4"));
    assert_eq!(integer(&account(&mut client, "USERS", "ada")["rejected"]), 4);
    // Without the quota all is as it was; with another it begins anew.
    set_quota(&server, "user-quota", "");
    assert_eq!(passes(&mut first, 20, &["GET", "a"]), 20);
    set_quota(&server, "user-quota", &per_age("requests", 3));
    assert_eq!(passes(&mut second, 5, &["GET", "a"]), 3);
}

/// What is read ahead, and would share locks, is counted one by one.
#[test]
fn a_pipeline_gets_no_more_than_its_requests_one_by_one() {
    let server = Server::start(&[]);
    for words in [vec!["SET", "a", "1"], vec!["GET", "a"], vec!["PING"]] {
        let mut client = ada(&server);
        set_quota(&server, "user-quota", "");
        set_quota(&server, "user-quota", &per_age("requests", 13));
        let replies = client.pipeline(&vec![words.clone(); 40]);
        let passed = replies.iter().take_while(|reply| !is_refused(reply)).count();
        assert_eq!(passed, 13, "{words:?}");
        assert!(replies[13..].iter().all(is_refused), "{words:?}");
    }
}

#[test]
fn bytes_and_time_are_limited() {
    let server = Server::start(&[]);
    let mut client = ada(&server);
    let value = "v".repeat(1000);
    set_quota(&server, "user-quota", &per_age("bytes-in", 2500));
    assert_eq!(passes(&mut client, 6, &["SET", "a", &value]), 3);
    set_quota(&server, "user-quota", &per_age("bytes-out", 2500));
    assert_eq!(passes(&mut client, 6, &["GET", "a"]), 3);
    // A script that counts takes a microsecond at least.
    set_quota(&server, "user-quota", &per_age("cpu-microseconds", 1));
    let script = ["EVAL", "local n = 0 for i = 1, 20000 do n = n + i end return n", "0"];
    assert_eq!(passes(&mut client, 3, &script), 1);
}

#[test]
fn what_was_let_in_is_not_torn() {
    let server = Server::start(&[]);
    let mut client = ada(&server);
    set_quota(&server, "user-quota", &per_age("requests", 3));
    // EXEC ends what was let in, though nothing is left.
    let multi = ["> MULTI\nOK", "> INCR a\nQUEUED", "> INCR a\nQUEUED"].join("\n");
    check(&mut client, &(multi + "\n> EXEC\n1) (integer) 1\n2) (integer) 2"));
    // With nothing left MULTI and WATCH are let in, or what comes behind them would run by itself
    // as soon as something is: all that is queued is refused.
    check(&mut client, "> WATCH a\nOK\n> MULTI\nOK\n> INCR a\n~ (error) QUOTA *");
    let aborted = "(error) EXECABORT Transaction discarded because of previous errors.";
    check(&mut client, &format!("> EXEC\n{aborted}\n> EXEC\n(error) ERR EXEC without MULTI"));
    // One that is refused while it is queued is refused whole.
    set_quota(&server, "user-quota", &per_age("requests", 2));
    check(&mut client, "> MULTI\nOK\n> INCR a\nQUEUED");
    assert!(is_refused(&client.call(&["INCR", "a"])));
    check(
        &mut client,
        "> EXEC\n(error) EXECABORT Transaction discarded because of previous errors.",
    );
    // A script runs to its end, whatever it takes.
    set_quota(&server, "user-quota", &per_age("requests", 1));
    let script = "for i = 1, 9 do redis.call('INCR', KEYS[1]) end return 'done'";
    assert_eq!(text(&client.call(&["EVAL", script, "1", "a"])), "done");
    assert_eq!(text(&server.client3().call(&["GET", "a"])), "11");
}

#[test]
fn a_database_may_have_so_much_memory() {
    let server = Server::start(&["--db-quota", "3", "memory", "20000"]);
    let mut client = server.client3();
    client.call(&["SELECT", "3"]);
    let value = "v".repeat(5000);
    let set = |client: &mut Client, key: &str| client.call(&["SET", key, &value]);
    let stored = (0..20).take_while(|it| !is_refused(&set(&mut client, &it.to_string()))).count();
    assert!((3..=4).contains(&stored), "{stored}");
    let refused = "(error) QUOTA database 3 may have memory 20000 and has more";
    let discarded =
        format!("(error) EXECABORT Transaction discarded because of: {}", &refused[8..]);
    // Reads, and what makes room, go on; others do not write there by another way.
    check(&mut client, &format!("> APPEND 0 x\n{refused}\n> EXPIRE 0 1000\n(integer) 1"));
    check(&mut client, "> EVAL \"return redis.call('SET', 'x', 'y')\" 0\n~ (error) QUOTA *");
    check(
        &mut client,
        &format!("> MULTI\nOK\n> DEL 0\nQUEUED\n> SET x y\nQUEUED\n> EXEC\n{discarded}"),
    );
    let mut other = server.client3();
    other.call(&["SET", "outside", "x"]);
    check(&mut other, &format!("> MOVE outside 3\n{refused}\n> COPY outside in DB 3\n{refused}"));
    check(
        &mut other,
        &format!(
            "> MULTI\nOK\n> SET b c\nQUEUED\n> SELECT 3\nQUEUED\n> SET x y\nQUEUED\n\
             > EXEC\n{discarded}"
        ),
    );
    check(&mut other, "> GET b\n(nil)\n> SET b c\nOK\n> SWAPDB 3 4\nOK\n> SWAPDB 3 4\nOK");
    check(&mut client, "> DEL 0\n(integer) 1\n> UNLINK 1\n(integer) 1\n> SET x y\nOK");
    let of_it = account(&mut client, "DATABASES", "3");
    assert_eq!(integer(&of_it["memory-max"]), 20_000);
    assert!(integer(&of_it["rejected"]) > 0, "{of_it:?}");
}

#[test]
fn a_database_has_rates_of_its_own() {
    let server = Server::start(&[]);
    set_quota(&server, "db-quota", &format!("5 requests 4/{AGES}"));
    let mut client = server.client3();
    client.call(&["SELECT", "5"]);
    // SELECT counts where it leads to.
    assert_eq!(passes(&mut client, 6, &["GET", "a"]), 3);
    let line =
        format!("QUOTA database 5 may have requests 4/{AGES} and has had them, try again later");
    assert_eq!(client.call(&["GET", "a"]), Value::Error(line.into_bytes()));
    assert_eq!(passes(&mut server.client3(), 20, &["GET", "a"]), 20);
}

/// What a database is booked with.
fn booked(client: &mut Client, database: &str, limit: &str) -> i64 {
    integer(&account(client, "DATABASES", database)[limit])
}

/// The time of all accounts of a kind together.
fn time_of(client: &mut Client, kind: &str) -> i64 {
    let Value::Array(rows) = client.call(&["QUOTA", kind]) else { panic!("an array") };
    rows.iter().map(|it| integer(&row(it)["cpu-microseconds"])).sum()
}

/// Words sent one by one behind MULTI; their replies.
fn transact(client: &mut Client, requests: &[&[&str]]) -> Vec<Value> {
    client.call(&["MULTI"]);
    requests.iter().map(|words| client.call(words)).collect()
}

#[test]
fn what_is_queued_is_asked_for_in_the_database_that_select_leads_to() {
    let server = Server::start(&[]);
    set_quota(&server, "db-quota", &format!("5 requests 3/{AGES}"));
    let (mut client, mut other) = (server.client3(), server.client3());
    // SELECT counts where it leads to; nothing is torn: the third SET is refused, and so is EXEC.
    let replies = transact(
        &mut client,
        &[&["SET", "a", "1"], &["SELECT", "5"], &["SET", "b", "1"], &["SET", "c", "1"]],
    );
    assert!(!replies.iter().any(is_refused), "{replies:?}");
    let line =
        format!("QUOTA database 5 may have requests 3/{AGES} and has had them, try again later");
    assert_eq!(client.call(&["SET", "d", "1"]), Value::Error(line.into_bytes()));
    let aborted = "(error) EXECABORT Transaction discarded because of previous errors.";
    check(&mut client, &format!("> EXEC\n{aborted}\n> EXISTS a\n(integer) 0"));
    assert_eq!(booked(&mut other, "5", "rejected"), 1);
    // The way back is open, and so is all that runs elsewhere.
    let replies = transact(&mut client, &[&["SELECT", "5"], &["SELECT", "0"], &["SET", "a", "1"]]);
    assert!(is_refused(&replies[1]) && !is_refused(&replies[0]), "{replies:?}");
    check(&mut client, "> DISCARD\nOK\n> SET a 1\nOK");
    check(&mut other, "> SELECT 5\nOK\n> EXISTS b\n~ (error) QUOTA *");
}

/// A pipeline is queued at once where nothing is limited.
#[test]
fn a_pipeline_behind_multi_evades_no_quota() {
    let server = Server::start(&[]);
    set_quota(&server, "db-quota", &format!("5 requests 10/{AGES}"));
    let mut client = server.client3();
    let mut requests = vec![vec!["MULTI"], vec!["SELECT", "5"]];
    requests.extend(vec![vec!["INCR", "a"]; 40]);
    let replies = client.pipeline(&requests);
    let queued = replies.iter().skip(2).take_while(|reply| !is_refused(reply)).count();
    assert_eq!(queued, 9);
    assert!(replies[11..].iter().all(is_refused), "{replies:?}");
    check(&mut client, "> EXEC\n~ (error) EXECABORT *");
}

#[test]
fn exec_is_booked_where_its_commands_ran() {
    let server = Server::start(&["--usage-accounting", "yes"]);
    let mut other = server.client3();
    let value = "v".repeat(5000);
    let mut client = ada(&server);
    check(&mut client, "> SELECT 5\nOK");
    client.call(&["SET", "big", &value]);
    check(&mut client, "> SELECT 0\nOK");
    let script = "redis.call('SELECT', 6) for i = 1, 20000 do redis.call('INCR', 'n') end \
                  redis.call('SELECT', 5) return redis.call('GET', 'big')";
    for last in ["0", "5"] {
        other.call(&["QUOTA", "RESET"]);
        transact(&mut client, &[&["SELECT", "5"], &["GET", "big"], &["SELECT", last], &["PING"]]);
        client.call(&["EXEC"]);
        let of_ada = account(&mut other, "USERS", "ada");
        assert_eq!(integer(&of_ada["requests"]), 6);
        let of_five = booked(&mut other, "5", "bytes-out");
        let of_zero = integer(&of_ada["bytes-out"]) - of_five;
        assert!((5000..5200).contains(&of_five), "{of_five}");
        assert!((1..300).contains(&of_zero), "{of_zero}");
        // MULTI and the SELECT that leads away, and EXEC itself.
        let requests = if last == "0" { 4 } else { 2 };
        assert_eq!(booked(&mut other, "5", "requests"), 6 - requests);
    }
    // A script within EXEC: its time is that of the database in which it counted.
    client.call(&["SELECT", "0"]);
    other.call(&["QUOTA", "RESET"]);
    transact(&mut client, &[&["SELECT", "7"], &["EVAL", script, "0"]]);
    client.call(&["EXEC"]);
    let of_six = booked(&mut other, "6", "cpu-microseconds");
    let (of_users, of_databases) = (time_of(&mut other, "USERS"), time_of(&mut other, "DATABASES"));
    assert!(of_six > 0 && of_databases - of_users < of_six, "{of_databases} of {of_users}");
    assert_eq!(booked(&mut other, "6", "requests"), 1);
    assert!(booked(&mut other, "5", "bytes-out") >= 5000);
}

#[test]
fn a_script_is_asked_for_and_booked_where_select_leads_it() {
    let server = Server::start(&[]);
    let mut other = server.client3();
    let value = "v".repeat(5000);
    other.call(&["SELECT", "5"]);
    other.call(&["SET", "big", &value]);
    other.call(&["SELECT", "0"]);
    set_quota(&server, "db-quota", &format!("5 bytes-out 12000/{AGES}"));
    let mut client = server.client3();
    let reading = "redis.call('SELECT', 5) return #redis.call('GET', 'big')";
    // Each reads five thousand bytes there, whatever it tells its client.
    assert_eq!(passes(&mut client, 5, &["EVAL", reading, "0"]), 3);
    assert_eq!(booked(&mut other, "5", "requests"), 3);
    assert_eq!(booked(&mut other, "5", "rejected"), 2);
    assert!((15_000..16_000).contains(&booked(&mut other, "5", "bytes-out")));
    let line = format!("QUOTA database 5 may have bytes-out 12000/{AGES}");
    let refused = client.call(&["EVAL", reading, "0"]);
    assert!(matches!(&refused, Value::Error(said) if said.starts_with(line.as_bytes())));
    // What has written goes to its end, and what is a part of a transaction is not torn.
    let writing = "redis.call('SET', KEYS[1], '1') redis.call('SELECT', 5) \
                   return redis.call('SET', 'b', '2')";
    check(&mut client, &format!("> EVAL \"{writing}\" 1 a\nOK"));
    check(&mut client, &format!("> MULTI\nOK\n> SET c 1\nQUEUED\n> EVAL \"{reading}\" 0\nQUEUED"));
    check(&mut client, "> EXEC\n1) OK\n2) (integer) 5000");
    assert!(booked(&mut other, "5", "bytes-out") >= 20_000);
    check(&mut client, "> EXISTS a c\n(integer) 2");
    // A script that stays is not asked for another's database.
    check(&mut client, "> EVAL \"redis.call('SELECT', 0) return 1\" 0\n(integer) 1");
}

#[test]
fn a_client_of_memcached_is_a_user() {
    let port = free_port();
    let server = Server::start(&["--memcached-port", &port.to_string()]);
    set_quota(&server, "user-quota", &format!("default requests 5/{AGES}"));
    let mut connection = Connection::to(port);
    let said: Vec<String> = (0..7).map(|_| connection.line("get k\r\n")).collect();
    // What set the quota may count, too.
    let served = said.iter().take_while(|line| *line == "END\r\n").count();
    assert!((4..=5).contains(&served), "{said:?}");
    assert!(said[served..].iter().all(|line| line.starts_with("SERVER_ERROR QUOTA ")), "{said:?}");
    let pipeline = connection.line(&"get k\r\n".repeat(3));
    assert_eq!(pipeline.matches("SERVER_ERROR QUOTA ").count(), 3, "{pipeline}");
}

#[test]
fn quotas_are_kept_in_the_file() {
    let mut server = Server::start_with_config("user-quota ada requests 5/60\n", &[]);
    let mut client = server.client3();
    let shown =
        |client: &mut Client, name: &str| text(&row(&client.call(&["CONFIG", "GET", name]))[name]);
    assert_eq!(shown(&mut client, "user-quota"), "ada requests 5/60");
    set_quota(&server, "user-quota", "ada requests 6/60 bob bytes-out 1kb");
    set_quota(&server, "db-quota", "3 memory 1gb 3 requests 7");
    check(&mut client, "> CONFIG REWRITE\nOK");
    server.kill();
    server.restart();
    let mut client = server.client3();
    assert_eq!(shown(&mut client, "user-quota"), "ada requests 6/60 bob bytes-out 1024");
    assert_eq!(shown(&mut client, "db-quota"), "3 memory 1073741824 3 requests 7");
    let bob = account(&mut client, "USERS", "bob");
    assert_eq!(text(&row(&bob["limits"])["bytes-out"]), "1024/1");
}

#[test]
fn a_replica_is_never_refused() {
    let primary = Server::start(&["--user-quota", "default", "cpu-microseconds", "1000000000/1"]);
    let replica = Server::start(&["--db-quota", "0", "memory", "1"]);
    let port = primary.port().to_string();
    replica.client().call(&["REPLICAOF", "127.0.0.1", &port]);
    let mut client = primary.client3();
    for number in 0..50 {
        client.call(&["SET", &number.to_string(), "x"]);
    }
    tests::server::eventually("the replica has all", || {
        replica.client().call(&["DBSIZE"]) == Value::Integer(50)
    });
}

#[test]
fn names_of_users_are_told_by_http_to_those_who_may_run_the_command() {
    let port = free_port();
    let text = port.to_string();
    let server = Server::start(&["--http-port", &text, "--usage-accounting", "yes"]);
    ada(&server).call(&["SET", "a", "b"]);
    let told = send(port, "GET", "/metrics", "", "").body;
    assert!(told.contains("apus_user_requests_total{user=\"ada\"} "), "{told}");
    assert!(told.contains("apus_db_requests_total{db=\"0\"} "), "{told}");
    play(&server, "bob> ACL SETUSER eve on >word +info\nOK");
    let eve = "Authorization: Basic ZXZlOndvcmQ=\r\n";
    let told = send(port, "GET", "/metrics", eve, "").body;
    assert!(told.contains("apus_db_requests_total") && !told.contains("user=\"ada\""), "{told}");
}
