//! Scripts over the commands of places; the replies are those of Redis 8.2, and for polygons of
//! Valkey 9.1.

use crate::testing::{Session, check};

#[test]
fn places_are_kept_and_found() {
    Session::new().check(PLACES, PLACES_REPLIED);
}

const PLACES: &str = r#"
        GEOADD g 13.361389 38.115556 Palermo 15.087269 37.502669 Catania 2.3488 48.8534 Paris
        GEOADD g NX 1 1 Paris
        GEOADD g XX CH 2.3489 48.8534 Paris
        GEOADD g CH 2.3489 48.8534 Paris
        SET s x
        ZSCORE g Palermo
        GEOPOS g Palermo x
        GEOPOS none x
        GEOPOS g
        GEOPOS s x
        GEOHASH g Palermo Paris x
        GEOHASH none x
        GEOHASH s x
        GEODIST g Palermo Catania
        GEODIST g Palermo Catania M
        GEODIST g Palermo Catania km
        GEODIST g Palermo Catania FT
        GEODIST g Palermo Catania mi
        GEODIST g Palermo Palermo
        GEODIST g Palermo x
        GEODIST none a b
        GEODIST s a b
        GEODIST s a b FOO
        GEODIST g Palermo Catania km km
        GEOADD g 200 10 x
        GEOADD g 10 90 x
        GEOADD g a 90 x
        GEOADD g NX XX 1 1 x
        GEOADD g NX 1 1
        GEOADD g NX CH CH
        GEOADD g 1 1 x 2
        GEOADD s 1 1 x
        GEOSEARCH g FROMLONLAT 15 37 BYRADIUS 200 km ASC WITHCOORD WITHDIST WITHHASH
        GEOSEARCH g FROMMEMBER Palermo BYBOX 400 400 km DESC WITHDIST
        GEOSEARCH g FROMMEMBER Palermo BYRADIUS 2000 km COUNT 2
        GEOSEARCH g FROMMEMBER Palermo BYRADIUS 2000 km COUNT 1 ANY
        GEOSEARCH g FROMMEMBER Palermo BYRADIUS 0 m
        GEOSEARCH g FROMMEMBER x BYRADIUS 200 km
        GEOSEARCH g FROMMEMBER Palermo FROMLONLAT 1 1 BYRADIUS 200 km
        GEOSEARCH g BYRADIUS 200 km ASC COUNT 1 ANY
        GEOSEARCH g FROMMEMBER Palermo ASC COUNT 1 ANY
        GEOSEARCH g FROMMEMBER Palermo BYRADIUS 200 km BYBOX 1 1 km
        GEOSEARCH g FROMMEMBER Palermo BYRADIUS 200 km ANY
        GEOSEARCH g FROMMEMBER Palermo BYRADIUS 200 km COUNT 0
        GEOSEARCH g FROMMEMBER Palermo BYRADIUS 200 km COUNT x
        GEOSEARCH g FROMMEMBER Palermo BYRADIUS 200 km COUNT
        GEOSEARCH g FROMMEMBER Palermo BYRADIUS x km
        GEOSEARCH g FROMMEMBER Palermo BYRADIUS -1 km
        GEOSEARCH g FROMMEMBER Palermo BYRADIUS 1 foo
        GEOSEARCH g FROMMEMBER Palermo BYBOX x 1 km
        GEOSEARCH g FROMMEMBER Palermo BYBOX 1 x km
        GEOSEARCH g FROMMEMBER Palermo BYBOX -1 1 km
        GEOSEARCH g FROMMEMBER Palermo BYBOX 1 1 foo
        GEOSEARCH g FROMMEMBER Palermo BYBOX 1 1
        GEOSEARCH g FROMMEMBER Palermo BYRADIUS 200 km STOREDIST
        GEOSEARCH none FROMMEMBER Palermo BYRADIUS 200 km
        GEOSEARCH none FROMMEMBER Palermo BYRADIUS x km
        GEOSEARCH s FROMMEMBER Palermo BYRADIUS x km
        GEOSEARCHSTORE d g FROMMEMBER Palermo BYRADIUS 200 km STOREDIST
        ZRANGE d 0 -1 WITHSCORES
        GEOSEARCHSTORE d g FROMLONLAT 15 37 BYBOX 400 400 km ASC COUNT 1
        ZRANGE d 0 -1 WITHSCORES
        GEOSEARCHSTORE d g FROMMEMBER Palermo BYRADIUS 200 km WITHDIST
        GEOSEARCHSTORE d none FROMMEMBER Palermo BYRADIUS 200 km
        EXISTS d
        GEORADIUS g 15 37 200 km WITHDIST WITHHASH ASC
        GEORADIUS g 15 37 200 km WITHCOORD DESC COUNT 1
        GEORADIUS g 15 37 200 km STOREDIST d
        ZRANGE d 0 -1
        GEORADIUS g 15 37 200 km STORE d
        ZRANGE d 0 -1 WITHSCORES
        GEORADIUS g 15 37 200 km STORE d WITHDIST
        GEORADIUS g 15 37 200 km STORE
        GEORADIUS g 200 37 200 km
        GEORADIUS none 20 37 x km
        GEORADIUS_RO g 15 37 200 km STORE d
        GEORADIUS_RO g 15 37 200 km ASC COUNT 1 ANY
        GEORADIUSBYMEMBER none a x km
        GEORADIUSBYMEMBER none a x km FOO
        GEORADIUSBYMEMBER none a x km STORE d
        GEORADIUSBYMEMBER g a x km
        GEORADIUSBYMEMBER g Palermo x km
        GEORADIUSBYMEMBER g Palermo 200 km WITHDIST
        GEORADIUSBYMEMBER g Palermo 200 km BYRADIUS 1 km
        GEORADIUSBYMEMBER_RO g Palermo 200 km DESC
        GEORADIUSBYMEMBER_RO g Palermo 200 km STORE d
        "#;

const PLACES_REPLIED: &str = r#"
        :3
        :0
        :1
        :0
        +OK
        "3479099956230698"
        [["13.361389338970184" "38.1155563954963"] nil-array]
        [nil-array]
        []
        -WRONGTYPE Operation against a key holding the wrong kind of value
        ["sqc8b49rny0" "u09tvmqrtm0" nil]
        [nil]
        -WRONGTYPE Operation against a key holding the wrong kind of value
        "166274.1516"
        "166274.1516"
        "166.2742"
        "545518.8700"
        "103.3182"
        "0.0000"
        nil
        nil
        -WRONGTYPE Operation against a key holding the wrong kind of value
        -ERR unsupported unit provided. please use M, KM, FT, MI
        -ERR syntax error
        -ERR invalid longitude,latitude pair 200.000000,10.000000
        -ERR invalid longitude,latitude pair 10.000000,90.000000
        -ERR value is not a valid float
        -ERR syntax error
        -ERR syntax error
        -ERR syntax error
        -ERR syntax error
        -WRONGTYPE Operation against a key holding the wrong kind of value
        [["Catania" "56.4413" :3479447370796909 ["15.087267458438873" "37.50266842333162"]] \
        ["Palermo" "190.4424" :3479099956230698 ["13.361389338970184" "38.1155563954963"]]]
        [["Catania" "166.2742"] ["Palermo" "0.0000"]]
        ["Palermo" "Catania"]
        ["Palermo"]
        ["Palermo"]
        -ERR could not decode requested zset member
        -ERR syntax error
        -ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for GEOSEARCH
        -ERR exactly one of BYRADIUS and BYBOX can be specified for GEOSEARCH
        -ERR syntax error
        -ERR the ANY argument requires COUNT argument
        -ERR COUNT must be > 0
        -ERR value is not an integer or out of range
        -ERR syntax error
        -ERR need numeric radius
        -ERR radius cannot be negative
        -ERR unsupported unit provided. please use M, KM, FT, MI
        -ERR need numeric width
        -ERR need numeric height
        -ERR height or width cannot be negative
        -ERR unsupported unit provided. please use M, KM, FT, MI
        -ERR syntax error
        -ERR syntax error
        []
        -ERR need numeric radius
        -WRONGTYPE Operation against a key holding the wrong kind of value
        :2
        ["Palermo" "0" "Catania" "166.27415156960032"]
        :1
        ["Catania" "3479447370796909"]
        -ERR GEOSEARCHSTORE is not compatible with WITHDIST, WITHHASH and WITHCOORD options
        :0
        :0
        [["Catania" "56.4413" :3479447370796909] ["Palermo" "190.4424" :3479099956230698]]
        [["Palermo" ["13.361389338970184" "38.1155563954963"]]]
        :2
        ["Catania" "Palermo"]
        :2
        ["Palermo" "3479099956230698" "Catania" "3479447370796909"]
        -ERR STORE option in GEORADIUS is not compatible with WITHDIST, WITHHASH and WITHCOORD \
        options
        -ERR syntax error
        -ERR invalid longitude,latitude pair 200.000000,37.000000
        -ERR need numeric radius
        -ERR syntax error
        ["Palermo"]
        []
        -ERR syntax error
        :0
        -ERR could not decode requested zset member
        -ERR need numeric radius
        [["Palermo" "0.0000"] ["Catania" "166.2742"]]
        -ERR syntax error
        ["Catania" "Palermo"]
        -ERR syntax error
        "#;

#[test]
fn places_equally_far_come_as_they_are_found() {
    check(
        "ZADD g 0 c 1 b 1 a 1 d
         GEORADIUSBYMEMBER g a 200 km COUNT 2
         GEORADIUSBYMEMBER g a 200 km COUNT 1 DESC
         GEOSEARCH g FROMMEMBER d BYRADIUS 1 km ASC COUNT 3
         GEORADIUSBYMEMBER g a 1 km STORE one STORE two COUNT 2
         GEORADIUS g 0 0 1 km STORE one STOREDIST store STORE STORE
         GEORADIUSBYMEMBER g a 1 km STOREDIST store STORE STORE STORE three
         EXISTS one two three",
        r#":4
         ["a" "b"]
         ["c"]
         ["a" "b" "d"]
         :2
         :0
         :4
         :2"#,
    );
}

#[test]
fn places_in_resp3() {
    Session::new().resp3().check(
        r#"
        GEOADD g 13.361389 38.115556 Palermo
        GEOPOS g Palermo x
        GEODIST g Palermo Palermo
        GEOSEARCH g FROMMEMBER Palermo BYRADIUS 1 km WITHCOORD WITHDIST WITHHASH
        GEORADIUS none 1 1 1 km
        "#,
        r#"
        :1
        [[,13.361389338970184 ,38.1155563954963] nil]
        "0.0000"
        [["Palermo" "0.0000" :3479099956230698 [,13.361389338970184 ,38.1155563954963]]]
        []
        "#,
    );
}

#[test]
fn polygons_are_searched() {
    Session::new().check(
        r#"
        GEOADD g 13.361389 38.115556 Palermo 15.087269 37.502669 Catania 2.3488 48.8534 Paris
        GEOSEARCH g BYPOLYGON 2 1 1 2 2
        GEOSEARCH g BYPOLYGON x 1 1 2 2
        GEOSEARCH g BYPOLYGON -1 1 1 2 2
        GEOSEARCH g BYPOLYGON 3 1 1 2 2
        GEOSEARCH g BYPOLYGON 4 1 1 2 2 3 3
        GEOSEARCH g BYPOLYGON 3 1 1 2 2 3 x
        GEOSEARCH g BYPOLYGON 3 1 1 2 2 3 99
        GEOSEARCH g BYPOLYGON 99999999999999999999 1 1 2 2
        GEOSEARCH g BYPOLYGON 3 12 36 17 36 15 40 WITHDIST WITHHASH ASC
        GEOSEARCH g BYPOLYGON 4 0 30 20 30 20 60 0 60 WITHDIST ASC
        GEOSEARCH g FROMMEMBER Palermo BYPOLYGON 3 12 36 17 36 15 40
        GEOSEARCH g BYPOLYGON 3 12 36 17 36 15 40 FROMLONLAT 1 1
        GEOSEARCH g BYPOLYGON 3 12 36 17 36 15 40 BYRADIUS 1 km
        GEOSEARCH g BYPOLYGON 3 12 36 17 36 15 40 BYPOLYGON 3 12 36 17 36 15 40
        GEOSEARCH none BYPOLYGON 3 12 36 17 36 15 40
        GEOSEARCHSTORE d g BYPOLYGON 3 12 36 17 36 15 40 STOREDIST
        ZRANGE d 0 -1
        "#,
        r#"
        :3
        -ERR GEOSEARCH BYPOLYGON must have at least 3 vertices
        -ERR invalid number of vertices
        -ERR GEOSEARCH BYPOLYGON must have at least 3 vertices
        -ERR GEOSEARCH BYPOLYGON must have at least 3 vertices
        -ERR GEOSEARCH BYPOLYGON must have at least 3 vertices
        -ERR value is not a valid float
        -ERR invalid longitude,latitude pair 3.000000,99.000000
        -ERR invalid number of vertices
        [["Catania" "41268.9614" :3479447370796909]]
        [["Paris" "691783.5716"] ["Palermo" "860693.6262"] ["Catania" "978706.6007"]]
        -ERR syntax error
        -ERR syntax error
        -ERR syntax error
        ["Catania"]
        []
        :1
        ["Catania"]
        "#,
    );
}

#[test]
fn places_are_journalled_as_scores() {
    let mut session = Session::new();
    let table: &[(&str, &str, &[&str])] = &[
        (
            "GEOADD g NX CH 13.361389 38.115556 a",
            "ZADD g NX CH 3479099956230698 a",
            &["new g", "zadd g"],
        ),
        ("GEOADD g NX 1 1 a", "", &[]),
        ("GEOADD g 13.361389 38.115556 a", "", &[]),
        (
            "GEOSEARCHSTORE d g FROMMEMBER a BYRADIUS 1 m",
            "GEOSEARCHSTORE d g FROMMEMBER a BYRADIUS 1 m",
            &["new d", "geosearchstore d"],
        ),
        (
            "GEORADIUS g 13 38 100 km STORE d",
            "GEORADIUS g 13 38 100 km STORE d",
            &["overwritten d", "georadiusstore d"],
        ),
        ("GEORADIUS g 13 38 1 m STORE d", "GEORADIUS g 13 38 1 m STORE d", &["del d"]),
        ("GEORADIUS g 13 38 1 m", "", &[]),
    ];
    for (request, journalled, events) in table {
        session.call(request);
        assert_eq!(session.journal().join("; "), *journalled, "{request}");
        assert_eq!(session.events(), *events, "{request}");
    }
}

#[test]
fn a_search_of_the_whole_world_goes_elsewhere() {
    let mut session = Session::new();
    for number in 0..3000 {
        let longitude = f64::from(number % 360) - 180.0;
        session.call(&format!("GEOADD g {longitude} {} {number}", number % 85));
    }
    session.call("GEOSEARCH g FROMLONLAT 0.5 0.5 BYRADIUS 1 km");
    assert!(!session.ran_heavy());
    let reply = session.call("GEOSEARCH g FROMLONLAT 0 0 BYRADIUS 30000 km");
    assert!(session.ran_heavy());
    assert_eq!(reply.matches('"').count(), 6000);
}
