"""redis-py through a failover, sync and asyncio: failover.py PORT NAME, of a Sentinel and of what it watches.
Says `ready` when it writes, and `moved` when it writes somewhere else."""

import asyncio
import sys
import time

import redis.asyncio.sentinel
import redis.sentinel

PORT, NAME = int(sys.argv[1]), sys.argv[2]
ADDRESSES = [("127.0.0.1", PORT)]
PATIENCE_S = 60


def eventually(call):
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            if call():
                return
        except redis.RedisError:
            pass
        assert time.monotonic() < until, "never"
        time.sleep(0.05)


def state(sentinel):
    one = sentinel.sentinel_master(NAME)
    assert one["name"] == NAME and one["is_master"] and one["num-slaves"] == 1, one
    assert sentinel.sentinel_masters()[NAME]["port"] == one["port"]
    assert sentinel.sentinel_slaves(NAME)[0]["is_slave"]
    assert sentinel.sentinel_sentinels(NAME) == []
    sentinel.sentinel_ckquorum(NAME)
    assert sentinel.sentinel_get_master_addr_by_name(NAME) == ("127.0.0.1", one["port"])


for version in 2, 3:
    state(redis.Redis(port=PORT, protocol=version, decode_responses=True))
sentinel = redis.sentinel.Sentinel(ADDRESSES, socket_timeout=1)
first = sentinel.discover_master(NAME)
assert sentinel.discover_slaves(NAME)
primary = sentinel.master_for(NAME, socket_timeout=1)
replica = sentinel.slave_for(NAME, socket_timeout=1)
assert primary.set("written", "before")
eventually(lambda: replica.get("written") == b"before")
print("ready", flush=True)
eventually(lambda: sentinel.discover_master(NAME) != first and primary.set("written", "behind"))
eventually(lambda: primary.get("written") == b"behind")


async def write():
    sentinel = redis.asyncio.sentinel.Sentinel(ADDRESSES, socket_timeout=1)
    primary = sentinel.master_for(NAME)
    assert await primary.set("written", "later")
    assert await sentinel.discover_master(NAME) != first
    await primary.aclose()


asyncio.run(write())
print("moved", flush=True)
