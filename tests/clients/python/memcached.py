"""A session of pymemcache, in the text protocol, against a running server: memcached.py PORT.
Ends with `N passed, N failed`."""

import sys

from pymemcache.client.base import Client, PooledClient
from pymemcache.exceptions import MemcacheClientError, MemcacheServerError

ADDRESS = ("127.0.0.1", int(sys.argv[1]))


def fails(kind, call, *arguments, **options):
    try:
        call(*arguments, **options)
    except kind:
        return
    raise AssertionError(f"must fail with {kind.__name__}")


def stores(client):
    assert client.set("name", b"apus", expire=100, flags=7, noreply=False) is True
    assert client.get("name") == b"apus"
    assert client.add("name", b"other", noreply=False) is False
    assert client.replace("none", b"other", noreply=False) is False
    assert client.append("name", b"!", noreply=False) is True
    assert client.prepend("name", b"an ", noreply=False) is True
    assert client.get("name") == b"an apus!"
    assert client.set("quiet", b"\r\n\x00END\r\n", noreply=True) is True
    assert client.get("quiet") == b"\r\n\x00END\r\n"
    assert client.set_many({"a": b"1", "b": b"2"}, noreply=False) == []
    assert client.get_many(["a", "b", "none"]) == {"a": b"1", "b": b"2"}
    large = b"x" * 1_000_000
    assert client.set("large", large, noreply=False) is True
    assert client.get("large") == large
    fails(MemcacheServerError, client.set, "large", b"x" * 2_000_000, noreply=False)
    assert client.get("large") is None, "a value that is too large takes the old one with it"


def swaps(client):
    assert client.set("swapped", b"1", noreply=False) is True
    value, token = client.gets("swapped")
    assert value == b"1"
    assert client.cas("swapped", b"2", token, noreply=False) is True
    assert client.cas("swapped", b"3", token, noreply=False) is False
    assert client.cas("none", b"3", token, noreply=False) is None
    tokens = client.gets_many(["swapped", "none"])
    assert list(tokens) == ["swapped"] and tokens["swapped"][0] == b"2"
    assert tokens["swapped"][1] != token


def numbers(client):
    assert client.set("number", b"40", noreply=False) is True
    assert client.incr("number", 2) == 42
    assert client.decr("number", 50) == 0
    assert client.incr("none", 1) is None
    assert client.set("text", b"abc", noreply=False) is True
    fails(MemcacheClientError, client.incr, "text", 1)


def rest(client):
    assert client.touch("name", 1000, noreply=False) is True
    assert client.touch("none", 1000, noreply=False) is False
    assert client.raw_command("gat 2000 name", end_tokens=b"END\r\n") == b"VALUE name 7 8\r\nan apus!\r\n"
    assert client.set("gone", b"", expire=-1, noreply=False) is True
    assert client.get("gone") is None
    assert client.delete("name", noreply=False) is True
    assert client.delete("name", noreply=False) is False
    assert client.raw_command("mg a v f t", end_tokens=b"\r\n1\r\n") == b"VA 1 f0 t-1"
    assert client.raw_command("mn") == b"MN"
    assert client.version().startswith(b"1.6")
    figures = client.stats()
    assert figures[b"curr_items"] > 0 and figures[b"pid"] > 0
    assert isinstance(client.stats("settings"), dict)
    client.flush_all(noreply=False)
    assert client.get("a") is None
    client.quit()


def pool():
    pooled = PooledClient(ADDRESS, max_pool_size=4)
    assert pooled.set("pooled", b"yes", noreply=False) is True
    assert pooled.get("pooled") == b"yes"
    pooled.close()


PARTS = [stores, swaps, numbers, rest]
ONE = Client(ADDRESS, connect_timeout=10, timeout=60)
for part in PARTS:
    part(ONE)
pool()
print(f"{len(PARTS) + 1} passed, 0 failed")
