// A session of gomemcache, in the text protocol: session PORT. Ends with `N passed, N failed`.
package main

import (
	"fmt"
	"os"
	"reflect"

	"github.com/bradfitz/gomemcache/memcache"
)

func expect(what string, actual, expected any) {
	if !reflect.DeepEqual(actual, expected) {
		fmt.Fprintf(os.Stderr, "%s: got %#v, expected %#v\n", what, actual, expected)
		os.Exit(1)
	}
}

func value(client *memcache.Client, key string) string {
	item, err := client.Get(key)
	if err == memcache.ErrCacheMiss {
		return "nothing"
	}
	expect("get "+key, err, nil)
	return string(item.Value)
}

func stores(client *memcache.Client) {
	item := &memcache.Item{Key: "name", Value: []byte("apus"), Flags: 7, Expiration: 100}
	expect("set", client.Set(item), nil)
	found, err := client.Get("name")
	expect("get", err, nil)
	expect("value and flags", []any{string(found.Value), found.Flags}, []any{"apus", uint32(7)})
	expect("add", client.Add(item), memcache.ErrNotStored)
	expect("replace", client.Replace(&memcache.Item{Key: "none", Value: nil}), memcache.ErrNotStored)
	expect("append", client.Append(&memcache.Item{Key: "name", Value: []byte("!")}), nil)
	expect("prepend", client.Prepend(&memcache.Item{Key: "name", Value: []byte("an ")}), nil)
	expect("both ends", value(client, "name"), "an apus!")
	expect("binary", client.Set(&memcache.Item{Key: "bytes", Value: []byte("\r\n\x00END\r\n")}), nil)
	expect("binary", value(client, "bytes"), "\r\n\x00END\r\n")
	large := make([]byte, 900_000)
	expect("large", client.Set(&memcache.Item{Key: "large", Value: large}), nil)
	expect("large", len(value(client, "large")), len(large))
}

func swaps(client *memcache.Client) {
	expect("set", client.Set(&memcache.Item{Key: "swapped", Value: []byte("1")}), nil)
	mine, err := client.Get("swapped")
	expect("gets", err, nil)
	theirs, err := client.Get("swapped")
	expect("gets", err, nil)
	mine.Value = []byte("mine")
	expect("cas", client.CompareAndSwap(mine), nil)
	theirs.Value = []byte("theirs")
	expect("cas", client.CompareAndSwap(theirs), memcache.ErrCASConflict)
	expect("cas", value(client, "swapped"), "mine")
	expect("delete", client.Delete("swapped"), nil)
	expect("cas of nothing", client.CompareAndSwap(theirs), memcache.ErrCacheMiss)
}

func numbers(client *memcache.Client) {
	expect("set", client.Set(&memcache.Item{Key: "number", Value: []byte("40")}), nil)
	number, err := client.Increment("number", 2)
	expect("incr", []any{number, err}, []any{uint64(42), nil})
	number, err = client.Decrement("number", 50)
	expect("decr", []any{number, err}, []any{uint64(0), nil})
	_, err = client.Increment("none", 1)
	expect("incr of nothing", err, memcache.ErrCacheMiss)
}

func rest(client *memcache.Client) {
	expect("touch", client.Touch("name", 1000), nil)
	expect("touch", client.Touch("none", 1000), memcache.ErrCacheMiss)
	found, err := client.GetMulti([]string{"name", "none", "number"})
	expect("get of many", []any{len(found), err}, []any{2, nil})
	expect("gone at once", client.Set(&memcache.Item{Key: "gone", Value: nil, Expiration: -1}), nil)
	expect("gone at once", value(client, "gone"), "nothing")
	expect("delete", client.Delete("none"), memcache.ErrCacheMiss)
	expect("ping", client.Ping(), nil)
	expect("flush_all", client.FlushAll(), nil)
	expect("after flush_all", value(client, "name"), "nothing")
}

func main() {
	client := memcache.New("127.0.0.1:" + os.Args[1])
	for _, part := range []func(*memcache.Client){stores, swaps, numbers, rest} {
		part(client)
	}
	fmt.Println("4 passed, 0 failed")
}
