"""A session of python-memcached, which pickles objects and compresses values by itself, against a
running server: pure_memcached.py PORT. Ends with `N passed, N failed`."""

import sys

import memcache

SERVER = f"127.0.0.1:{sys.argv[1]}"


def stores(client):
    assert client.set("name", "apus", time=100) is True
    assert client.get("name") == "apus"
    assert client.add("name", "other") is False
    assert client.replace("none", "other") is False
    assert client.append("name", "!") is True
    assert client.prepend("name", "an ") is True
    assert client.get("name") == "an apus!"
    assert client.set_multi({"a": 1, "b": b"2", "c": {"deep": [3]}}, key_prefix="many:") == []
    found = client.get_multi(["a", "b", "c", "none"], key_prefix="many:")
    assert found == {"a": 1, "b": b"2", "c": {"deep": [3]}}
    text = "compressible " * 10_000
    assert client.set("packed", text, min_compress_len=1000) is True
    assert client.get("packed") == text
    assert client.delete_multi(["a", "b"], key_prefix="many:") == 1
    assert client.get("many:a") is None


def swaps(client):
    assert client.set("swapped", "1") is True
    assert client.gets("swapped") == "1"
    assert client.cas("swapped", "2") is True
    assert client.gets("swapped") == "2"
    other = memcache.Client([SERVER])
    assert other.set("swapped", "3") is True
    assert client.cas("swapped", "4") is False
    assert client.get("swapped") == "3"
    other.disconnect_all()


def numbers(client):
    assert client.set("number", "40") is True
    assert client.incr("number", 2) == 42
    assert client.decr("number", 50) == 0
    assert client.incr("none") is None
    assert client.set("number", 2**40) is True
    assert client.get("number") == 2**40


def rest(client):
    assert client.touch("name", 1000) == 1
    assert client.touch("none", 1000) == 0
    assert client.set("gone", "", time=-1) is True
    assert client.get("gone") is None
    assert client.delete("name") == 1
    assert client.get("name") is None
    [(address, figures)] = client.get_stats()
    assert address.startswith(SERVER) and int(figures["curr_items"]) > 0
    assert client.get_stats("settings")[0][1]["evictions"] == "on"
    assert "active_slabs" in client.get_slab_stats()[0][1]
    client.flush_all()
    assert client.get("swapped") is None
    client.disconnect_all()


PARTS = [stores, swaps, numbers, rest]
ONE = memcache.Client([SERVER], cache_cas=True, socket_timeout=60)
for part in PARTS:
    part(ONE)
print(f"{len(PARTS)} passed, 0 failed")
