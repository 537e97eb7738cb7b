"""A cluster client of redis-py at work while slots move: each value that it has written it reads.

Its argument is the port of a node. It says `ready` once it works, and goes on until the key `stop`
is there. Any error that the client lets through ends it.
"""

import itertools
import sys

from redis.cluster import RedisCluster

KEYS = 500


def main(port):
    client = RedisCluster(host="127.0.0.1", port=port, decode_responses=True)
    written = {}
    for number in itertools.count():
        key = f"work:{number % KEYS}"
        if key in written:
            assert client.get(key) == str(written[key]), key
        assert client.set(key, number)
        written[key] = number
        # Keys of one slot in one command, of which some may have moved already.
        tagged = {f"{{{key}}}{end}": str(number) for end in "abc"}
        assert client.mset(tagged)
        if number == KEYS:
            print("ready", flush=True)
        if number % 50 == 0 and client.exists("stop"):
            break
    for key, number in written.items():
        assert client.get(key) == str(number), key
    print(f"done {number}", flush=True)


main(int(sys.argv[1]))
