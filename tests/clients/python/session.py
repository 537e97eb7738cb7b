"""A session of redis-py against a running server, sync and asyncio, in both protocols: session.py PORT."""

import asyncio
import sys

import redis
import redis.asyncio


def sync_session(port, protocol):
    client = redis.Redis(host="127.0.0.1", port=port, protocol=protocol, decode_responses=True)
    client.flushall()
    assert client.ping() is True
    assert client.set("name", "apus", ex=100) is True
    assert client.get("name") == "apus"
    assert 0 < client.ttl("name") <= 100
    assert client.mset({"a": "1", "b": "2"}) is True
    assert client.mget("a", "b", "missing") == ["1", "2", None]
    assert client.incrby("a", 41) == 42
    with client.pipeline(transaction=False) as pipeline:
        assert pipeline.set("c", "3").get("c").delete("c").exists("c").execute() == [True, "3", 1, 0]
    try:
        client.incr("name")
    except redis.ResponseError as error:
        assert str(error) == "value is not an integer or out of range"
    else:
        raise AssertionError("INCR of a text must fail")
    client.close()


async def async_session(port, protocol):
    client = redis.asyncio.Redis(host="127.0.0.1", port=port, protocol=protocol)
    await client.flushall()
    assert await client.set("name", b"\x00\xff") is True
    assert await client.get("name") == b"\x00\xff"
    replies = await asyncio.gather(*(client.incr("counter") for _ in range(50)))
    assert sorted(replies) == list(range(1, 51))
    await client.aclose()


def main():
    port = int(sys.argv[1])
    for protocol in (2, 3):
        sync_session(port, protocol)
        asyncio.run(async_session(port, protocol))
    print("4 passed, 0 failed")


main()
