"""Sessions of redis-py against a running server, sync and asyncio, in both protocols: session.py PORT SOCKET|- LEVEL.
LEVEL is `newest` where the server knows the commands of Redis 8.10. Ends with `N passed, N failed`."""

import asyncio
import os
import sys
import time
import warnings

import redis
import redis.asyncio
from redis.backoff import NoBackoff
from redis.retry import Retry

warnings.simplefilter("ignore")
PORT, SOCKET, LEVEL = int(sys.argv[1]), sys.argv[2], sys.argv[3]


def fails(text, call, *arguments, **options):
    try:
        call(*arguments, **options)
    except redis.ResponseError as error:
        assert text in str(error), error
    else:
        raise AssertionError(f"must fail: {text}")


def strings(client):
    assert client.set("name", "apus", ex=100) is True
    assert client.get("name") == "apus"
    assert 0 < client.ttl("name") <= 100
    assert client.set("name", "swift", nx=True) is None
    assert client.set("name", "swift", xx=True, get=True, keepttl=True) == "apus"
    assert client.getex("name", persist=True) == "swift"
    assert client.ttl("name") == -1
    assert client.mset({"a": "1", "b": "2"}) is True
    assert client.msetnx({"b": "3", "c": "4"}) is False
    assert client.mget("a", "b", "missing") == ["1", "2", None]
    assert client.incrby("a", 41) == 42
    assert client.decrby("a", 2) == 40
    assert client.incrbyfloat("a", "0.5") == 40.5
    assert client.append("name", "s") == 6
    assert client.setrange("name", 0, "SW") == 6
    assert client.getrange("name", 0, 2) == "SWi"
    assert client.substr("name", 0, 1) == "SW"
    assert client.strlen("name") == 6
    assert client.getdel("name") == "SWifts"
    assert client.getset("name", "x") is None
    assert client.setnx("name", "y") is False
    assert client.setex("name", 10, "z") is True
    assert client.psetex("name", 10_000, "z") is True
    client.mset({"one": "ohmytext", "two": "mynewtext"})
    assert client.lcs("one", "two") == "mytext"
    assert client.lcs("one", "two", len=True) == 6
    fails("value is not an integer or out of range", client.incr, "name")


def newest(client):
    client.flushdb()
    assert client.msetex({"a": "1", "b": "2"}, ex=100) == 1
    assert client.msetex({"a": "3", "c": "3"}, data_persist_option=redis.commands.core.DataPersistOptions.NX) == 0
    digest = client.digest("a")
    assert len(digest) == 16 and client.digest("missing") is None
    assert client.set("a", "2", ifeq="9") is None
    assert client.set("a", "2", ifeq="1") is True
    assert client.set("a", "3", ifne="2", get=True) == "2"
    assert client.set("a", "4", ifdne=digest) is None or client.get("a") == "4"
    assert client.set("a", "5", ifdeq=digest) is None
    client.set("a", "1")
    assert client.set("a", "6", ifdeq=digest) is True
    assert client.delex("a", ifeq="5") == 0
    assert client.delex("a", ifne="5") == 1
    client.set("a", "1")
    assert client.delex("a", ifdeq=digest) == 1
    assert [float(number) for number in client.increx("n", byint=5, ubound=7, ex=100)] == [5, 5]
    assert [float(number) for number in client.increx("n", byint=5, ubound=7)] == [5, 0]
    assert [float(number) for number in client.increx("n", byint=5, ubound=7, saturate=True)] == [7, 2]
    assert [float(number) for number in client.increx("n", byfloat="0.5", persist=True)] == [7.5, 0.5]
    assert client.ttl("n") == -1


def keys(client):
    client.flushdb()
    client.mset({f"key:{number}": number for number in range(500)})
    assert client.dbsize() == 500
    assert sorted(client.scan_iter("key:*", count=50)) == sorted(client.keys("key:*"))
    assert list(client.scan_iter(_type="list")) == []
    assert client.randomkey().startswith("key:")
    assert client.exists("key:1", "key:2", "missing") == 2
    assert client.touch("key:1", "missing") == 1
    assert client.type("key:1") == "string"
    assert client.rename("key:1", "renamed") is True
    assert client.renamenx("renamed", "key:2") is False
    assert client.copy("renamed", "copied") is True
    assert client.copy("renamed", "copied", replace=True) is True
    assert client.move("copied", 1) is True
    assert client.delete("renamed", "missing") == 1
    assert client.unlink("key:2", "key:3") == 2
    assert client.expire("key:4", 100) is True
    assert client.expire("key:4", 200, lt=True) is False
    assert client.pexpire("key:4", 300_000, gt=True) is True
    assert client.expireat("key:5", int(time.time()) + 100, nx=True) is True
    assert client.pexpireat("key:5", int(time.time() + 200) * 1000, xx=True) is True
    assert client.pexpiretime("key:5") // 1000 == client.expiretime("key:5")
    assert 0 < client.pttl("key:4") <= 300_000
    assert client.persist("key:4") is True
    assert client.object("encoding", "key:4") == "int"
    assert client.object("refcount", "key:4") >= 1
    assert client.object("idletime", "key:4") is not None
    fails("no such key", client.rename, "missing", "other")
    client.swapdb(0, 1)
    assert client.dbsize() == 1
    client.swapdb(0, 1)
    client.flushall(asynchronous=True)
    assert client.dbsize() == 0


def binary(port, protocol):
    client = redis.Redis(host="127.0.0.1", port=port, protocol=protocol)
    for size in (0, 70_000, 1 << 20):
        value = os.urandom(size)
        assert client.set(b"\x00\xff\r\n", value) is True
        assert client.get(b"\x00\xff\r\n") == value
        assert client.getrange(b"\x00\xff\r\n", size // 2, size // 2 + 9) == value[size // 2 :][:10]
    payload = client.dump(b"\x00\xff\r\n")
    assert client.restore("restored", 0, payload) in (b"OK", True)
    assert client.get("restored") == value
    assert client.restore("restored", 5_000, payload, replace=True) in (b"OK", True)
    fails("Target key name already exists", client.restore, "restored", 0, payload)
    fails("payload version or checksum", client.restore, "bad", 0, b"\x00" + payload[1:-1])
    client.close()


def pipelines(client):
    with client.pipeline(transaction=False) as pipeline:
        assert pipeline.set("c", "3").get("c").delete("c").exists("c").execute() == [True, "3", 1, 0]
        for number in range(10_000):
            pipeline.incr(f"n:{number % 100}")
        assert pipeline.execute()[-1] == 100
        pipeline.set("c", "x").incr("c").get("c")
        replies = pipeline.execute(raise_on_error=False)
        assert replies[0] is True and isinstance(replies[1], redis.ResponseError) and replies[2] == "x"


def connection(client, port, protocol):
    assert client.ping() is True
    assert client.echo("hello") == "hello"
    named = redis.Redis(host="127.0.0.1", port=port, protocol=protocol, client_name="session", db=3, decode_responses=True)
    assert named.client_getname() == "session"
    own = named.client_info()
    assert int(own["db"]) == 3 and own["lib-name"].startswith("redis-py") and int(own["resp"]) == protocol
    assert int(own["id"]) == named.client_id()
    assert any(other["name"] == "session" for other in client.client_list())
    assert client.client_list(client_id=[own["id"]])[0]["name"] == "session"
    assert named.client_setname("renamed") and named.client_getname() == "renamed"
    assert named.client_no_evict("ON") and named.client_no_touch("OFF")
    assert client.client_pause(1) and client.client_unpause()
    # The killed connection is replaced unseen, and its name and database with it.
    assert client.client_kill_filter(_id=own["id"]) == 1
    named.set_retry(Retry(NoBackoff(), 1))
    assert named.client_getname() == "session" and named.client_info()["db"] == 3
    fails("DB index is out of range", redis.Redis(port=port, db=99, protocol=protocol).ping)
    named.close()


def server(client):
    assert len(client.time()) == 2
    info = client.info("everything")
    assert info["tcp_port"] == PORT and info["used_memory"] > 0 and info["connected_clients"] >= 1
    assert list(client.info("server", "clients"))
    assert client.config_get("maxmemory*")["maxmemory"] == "0"
    assert client.config_set("slowlog-log-slower-than", 0) is True
    client.get("slow")
    assert client.slowlog_len() >= 1 and client.slowlog_get(10)[-1]["duration"] >= 0
    assert client.config_set("slowlog-log-slower-than", 10_000) and client.slowlog_reset() is True
    assert client.config_resetstat() is True
    assert client.command_count() > 50
    assert "get" in [name.lower() for name in client.command_list()]
    assert client.command_getkeys("MSET", "a", "1", "b", "2") == ["a", "b"]
    assert client.command()["get"]["arity"] == 2 and client.execute_command("COMMAND DOCS", "get")
    assert client.lastsave()
    assert client.role()[0] == "master"
    assert "ver" in client.lolwut().lower()
    client.set("sized", "x" * 1000)
    assert client.memory_usage("sized") > 1000
    assert client.memory_stats() and client.memory_purge() is True
    assert client.latency_latest() == [] and client.latency_reset() == 0
    assert client.wait(0, 10) == 0


def login(port, protocol):
    """A password set at run time: known to old connections, asked of new ones."""
    client = redis.Redis(host="127.0.0.1", port=port, protocol=protocol)
    client.config_set("requirepass", "secret")
    try:
        try:
            redis.Redis(host="127.0.0.1", port=port, protocol=protocol).ping()
        except redis.AuthenticationError:
            pass
        else:
            raise AssertionError("a password was set")
        for options in ({"password": "secret"}, {"username": "default", "password": "secret"}):
            assert redis.Redis(host="127.0.0.1", port=port, protocol=protocol, **options).ping() is True
        try:
            redis.Redis(host="127.0.0.1", port=port, protocol=protocol, password="wrong").ping()
        except redis.AuthenticationError as error:
            assert "invalid username-password pair" in str(error)
    finally:
        client.config_set("requirepass", "")


def sync_session(port, protocol):
    client = redis.Redis(host="127.0.0.1", port=port, protocol=protocol, decode_responses=True)
    client.flushall()
    strings(client)
    keys(client)
    binary(port, protocol)
    pipelines(client)
    connection(client, port, protocol)
    server(client)
    login(port, protocol)
    if LEVEL == "newest":
        newest(client)
    if SOCKET != "-":
        local = redis.Redis(unix_socket_path=SOCKET, protocol=protocol, db=2)
        assert local.set("local", "yes") is True and local.client_info()["db"] == 2
    client.close()


async def async_session(port, protocol):
    client = redis.asyncio.Redis(host="127.0.0.1", port=port, protocol=protocol, client_name="async")
    await client.flushall()
    assert await client.set("name", b"\x00\xff") is True
    assert await client.get("name") == b"\x00\xff"
    replies = await asyncio.gather(*(client.incr("counter") for _ in range(50)))
    assert sorted(replies) == list(range(1, 51))
    assert await client.client_getname() == b"async" or await client.client_getname() == "async"
    async with client.pipeline(transaction=False) as pipeline:
        for number in range(1000):
            pipeline.set(f"key:{number}", number)
        assert await pipeline.execute() == [True] * 1000
    assert len([key async for key in client.scan_iter("key:*")]) == 1000
    assert await client.dbsize() == 1002
    if LEVEL == "newest":
        assert await client.msetex({"a": "1", "b": "2"}, px=100_000) == 1
        assert await client.set("a", "2", ifeq="1") is True
        assert await client.delex("a", ifdeq=await client.digest("a")) == 1
        assert [float(number) for number in await client.increx("n", byint=5)] == [5, 5]
    await client.aclose()


def main():
    for protocol in (2, 3):
        sync_session(PORT, protocol)
        asyncio.run(async_session(PORT, protocol))
    print("4 passed, 0 failed")


main()
