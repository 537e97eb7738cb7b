//! Places, every option word of every command, in both protocols. The scripts are proven on the
//! real servers that know the commands.

use tests::script::afresh;
use tests::{Oracle, Server};

/// Known to every real server, and the same in both protocols.
const COMMON: &str = r#"
    > GEOADD g 13.361389 38.115556 Palermo 15.087269 37.502669 Catania
    (integer) 2
    > GEOADD g NX 1 1 Palermo
    (integer) 0
    > GEOADD g XX CH 13.4 38.1 Palermo
    (integer) 1
    > GEODIST g Palermo Catania
    "162484.5721"
    > GEODIST g Palermo Catania M
    "162484.5721"
    > GEODIST g Palermo Catania KM
    "162.4846"
    > GEODIST g Palermo Catania FT
    "533085.8665"
    > GEODIST g Palermo Catania MI
    "100.9635"
    > GEOHASH g Palermo x
    1) "sqc88zvsdd0"
    2) (nil)
    > GEOSEARCH g FROMLONLAT 15 37 BYRADIUS 200 KM ASC WITHDIST WITHHASH
    1) 1) "Catania"
       2) "56.4413"
       3) (integer) 3479447370796909
    2) 1) "Palermo"
       2) "186.7460"
       3) (integer) 3479099937378871
    > GEOSEARCH g FROMMEMBER Palermo BYBOX 400000 400000 M DESC
    1) "Catania"
    2) "Palermo"
    > GEOSEARCH g FROMMEMBER Palermo BYRADIUS 900000 FT COUNT 1 ANY ASC
    1) "Palermo"
    > GEOSEARCH g FROMMEMBER Palermo BYBOX 400 400 MI ASC
    1) "Palermo"
    2) "Catania"
    > GEOSEARCHSTORE d g FROMLONLAT 15 37 BYRADIUS 200 KM ASC COUNT 1 STOREDIST
    (integer) 1
    > GEOSEARCHSTORE d g FROMMEMBER Palermo BYBOX 400000 400000 M DESC COUNT 1 ANY
    (integer) 1
    > GEOSEARCHSTORE d g FROMMEMBER Palermo BYRADIUS 900000 FT
    (integer) 2
    > GEOSEARCHSTORE d g FROMMEMBER Palermo BYBOX 400 400 MI
    (integer) 2
    > GEORADIUS g 15 37 200 KM WITHDIST WITHHASH ASC COUNT 2 ANY
    1) 1) "Catania"
       2) "56.4413"
       3) (integer) 3479447370796909
    2) 1) "Palermo"
       2) "186.7460"
       3) (integer) 3479099937378871
    > GEORADIUS g 15 37 200000 M DESC STORE d
    (integer) 2
    > GEORADIUS g 15 37 900000 FT STOREDIST d
    (integer) 2
    > GEORADIUS g 15 37 200 MI ASC
    1) "Catania"
    2) "Palermo"
    > GEORADIUS_RO g 15 37 200 KM WITHDIST WITHHASH ASC COUNT 2 ANY
    1) 1) "Catania"
       2) "56.4413"
       3) (integer) 3479447370796909
    2) 1) "Palermo"
       2) "186.7460"
       3) (integer) 3479099937378871
    > GEORADIUS_RO g 15 37 200000 M DESC
    1) "Palermo"
    2) "Catania"
    > GEORADIUS_RO g 15 37 900000 FT ASC
    1) "Catania"
    2) "Palermo"
    > GEORADIUS_RO g 15 37 200 MI ASC
    1) "Catania"
    2) "Palermo"
    > GEORADIUSBYMEMBER g Palermo 200 KM WITHDIST WITHHASH ASC COUNT 2 ANY
    1) 1) "Palermo"
       2) "0.0000"
       3) (integer) 3479099937378871
    2) 1) "Catania"
       2) "162.4846"
       3) (integer) 3479447370796909
    > GEORADIUSBYMEMBER g Palermo 200000 M DESC STORE d
    (integer) 2
    > GEORADIUSBYMEMBER g Palermo 900000 FT STOREDIST d
    (integer) 2
    > GEORADIUSBYMEMBER g Palermo 200 MI ASC
    1) "Palermo"
    2) "Catania"
    > GEORADIUSBYMEMBER_RO g Palermo 200 KM WITHDIST WITHHASH ASC COUNT 2 ANY
    1) 1) "Palermo"
       2) "0.0000"
       3) (integer) 3479099937378871
    2) 1) "Catania"
       2) "162.4846"
       3) (integer) 3479447370796909
    > GEORADIUSBYMEMBER_RO g Palermo 200000 M DESC
    1) "Catania"
    2) "Palermo"
    > GEORADIUSBYMEMBER_RO g Palermo 900000 FT ASC
    1) "Palermo"
    2) "Catania"
    > GEORADIUSBYMEMBER_RO g Palermo 200 MI ASC
    1) "Palermo"
    2) "Catania"
"#;

/// Coordinates, which the protocols write differently; as Redis 8.2 has it.
const IN_RESP2: &str = r#"
    > GEOADD g 13.361389 38.115556 Palermo
    (integer) 1
    > GEOPOS g Palermo x
    1) 1) "13.361389338970184"
       2) "38.1155563954963"
    2) (nil)
    > GEOSEARCH g FROMMEMBER Palermo BYRADIUS 1 KM WITHCOORD
    1) 1) "Palermo"
       2) 1) "13.361389338970184"
          2) "38.1155563954963"
    > GEORADIUS g 13 38 100 KM WITHCOORD
    1) 1) "Palermo"
       2) 1) "13.361389338970184"
          2) "38.1155563954963"
    > GEORADIUS_RO g 13 38 100 KM WITHCOORD
    1) 1) "Palermo"
       2) 1) "13.361389338970184"
          2) "38.1155563954963"
    > GEORADIUSBYMEMBER g Palermo 1 KM WITHCOORD
    1) 1) "Palermo"
       2) 1) "13.361389338970184"
          2) "38.1155563954963"
    > GEORADIUSBYMEMBER_RO g Palermo 1 KM WITHCOORD
    1) 1) "Palermo"
       2) 1) "13.361389338970184"
          2) "38.1155563954963"
"#;

/// The same in RESP3.
const IN_RESP3: &str = r#"
    > GEOADD g 13.361389 38.115556 Palermo
    (integer) 1
    > GEOPOS g Palermo x
    1) 1) (double) 13.361389338970184
       2) (double) 38.1155563954963
    2) (nil)
    > GEOSEARCH g FROMMEMBER Palermo BYRADIUS 1 KM WITHCOORD
    1) 1) "Palermo"
       2) 1) (double) 13.361389338970184
          2) (double) 38.1155563954963
    > GEORADIUS g 13 38 100 KM WITHCOORD
    1) 1) "Palermo"
       2) 1) (double) 13.361389338970184
          2) (double) 38.1155563954963
    > GEORADIUS_RO g 13 38 100 KM WITHCOORD
    1) 1) "Palermo"
       2) 1) (double) 13.361389338970184
          2) (double) 38.1155563954963
    > GEORADIUSBYMEMBER g Palermo 1 KM WITHCOORD
    1) 1) "Palermo"
       2) 1) (double) 13.361389338970184
          2) (double) 38.1155563954963
    > GEORADIUSBYMEMBER_RO g Palermo 1 KM WITHCOORD
    1) 1) "Palermo"
       2) 1) (double) 13.361389338970184
          2) (double) 38.1155563954963
"#;

/// Valkey's own.
const POLYGONS: &str = r#"
    > GEOADD g 13.361389 38.115556 Palermo 15.087269 37.502669 Catania
    (integer) 2
    > GEOSEARCH g BYPOLYGON 3 12 36 17 36 15 40 ASC
    1) "Catania"
    > GEOSEARCHSTORE d g BYPOLYGON 3 12 36 17 36 15 40
    (integer) 1
"#;

#[test]
fn places_answer_as_written() {
    let server = Server::start(&[]);
    for protocol in ["2", "3"] {
        afresh(&server, protocol, COMMON);
        afresh(&server, protocol, POLYGONS);
    }
    afresh(&server, "2", IN_RESP2);
    afresh(&server, "3", IN_RESP3);
}

#[test]
fn the_real_servers_write_the_same() {
    for oracle in Oracle::ALL {
        let server = oracle.start(&[]);
        for protocol in ["2", "3"] {
            afresh(&server, protocol, COMMON);
        }
    }
    let server = Oracle::redis82();
    afresh(&server, "2", IN_RESP2);
    afresh(&server, "3", IN_RESP3);
    let server = Oracle::valkey91();
    for protocol in ["2", "3"] {
        afresh(&server, protocol, POLYGONS);
    }
}
