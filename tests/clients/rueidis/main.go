// A session of rueidis, which keeps copies of what it reads by default: session PORT. Each read says
// whether it came from a copy, so that copies that are old, or never kept, are found. Ends with
// `N passed, N failed`.
package main

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"time"

	"github.com/redis/rueidis"
)

var ctx = context.Background()

func expect(what string, actual, expected any) {
	if !reflect.DeepEqual(actual, expected) {
		fmt.Fprintf(os.Stderr, "%s: got %#v, expected %#v\n", what, actual, expected)
		os.Exit(1)
	}
}

// Waits until something is so; an invalidation is under way for a moment.
func eventually(what string, condition func() bool) {
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if condition() {
			return
		}
	}
	expect(what, "never", "at last")
}

func connect(port string, options rueidis.ClientOption) rueidis.Client {
	options.InitAddress = []string{"127.0.0.1:" + port}
	options.ForceSingleClient = true
	client, err := rueidis.NewClient(options)
	expect("connect", err, nil)
	return client
}

func do(client rueidis.Client, words ...string) rueidis.RedisResult {
	return client.Do(ctx, client.B().Arbitrary(words...).Build())
}

// Reads a key through the copies: the value, and whether it was one.
func read(client rueidis.Client, key string) (string, bool) {
	result := client.DoCache(ctx, client.B().Get().Key(key).Cache(), time.Minute)
	text, err := result.ToString()
	if rueidis.IsRedisNil(err) {
		return "nil", result.IsCacheHit()
	}
	expect("GET "+key, err, nil)
	return text, result.IsCacheHit()
}

func value(client rueidis.Client, key string) string {
	text, _ := read(client, key)
	return text
}

func isCopy(client rueidis.Client, key string) bool {
	_, hit := read(client, key)
	return hit
}

func copies(reader, writer rueidis.Client) {
	do(writer, "SET", "key", "one")
	expect("first", isCopy(reader, "key"), false)
	expect("second", isCopy(reader, "key"), true)
	for round := range 200 {
		text := strconv.Itoa(round)
		do(writer, "SET", "key", text)
		eventually("told of SET", func() bool { return value(reader, "key") == text })
		eventually("kept again", func() bool { return isCopy(reader, "key") })
	}
	do(writer, "DEL", "key")
	eventually("told of DEL", func() bool { return value(reader, "key") == "nil" })
	// That there is nothing is kept too.
	eventually("nothing is kept", func() bool { return isCopy(reader, "key") })
	do(writer, "SET", "key", "there")
	eventually("told of what comes", func() bool { return value(reader, "key") == "there" })
	do(writer, "SET", "short", "x", "PX", "50")
	expect("before its time is over", value(reader, "short"), "x")
	eventually("its time is over", func() bool { return value(reader, "short") == "nil" })
	eventually("kept again", func() bool { return isCopy(reader, "key") })
	do(writer, "FLUSHALL")
	eventually("told of FLUSHALL", func() bool { return value(reader, "key") == "nil" })
}

func many(reader, writer rueidis.Client) {
	keys := make([]string, 100)
	for i := range keys {
		keys[i] = "many:" + strconv.Itoa(i)
		do(writer, "SET", keys[i], "0")
	}
	sum := func() (total int64) {
		values, err := rueidis.MGetCache(reader, ctx, time.Minute, keys)
		expect("MGET", err, nil)
		for _, value := range values {
			number, err := value.AsInt64()
			expect("a number", err, nil)
			total += number
		}
		return total
	}
	expect("all", sum(), int64(0))
	do(writer, "EVAL", "for i = 1, #KEYS do redis.call('incr', KEYS[i]) end", "2", keys[3], keys[5])
	eventually("told of a script", func() bool { return sum() == 2 })
	do(writer, "MSET", keys[1], "10", keys[2], "20")
	eventually("told of MSET", func() bool { return sum() == 32 })
	do(writer, "HSET", "hash", "f", "1")
	field := func() string {
		text, _ := reader.DoCache(ctx, reader.B().Hget().Key("hash").Field("f").Cache(), time.Minute).ToString()
		return text
	}
	expect("HGET", field(), "1")
	do(writer, "HINCRBY", "hash", "f", "1")
	eventually("told of HINCRBY", func() bool { return field() == "2" })
}

func broadcasts(port string, writer rueidis.Client) {
	told := make(chan string, 1000)
	reader := connect(port, rueidis.ClientOption{
		ClientTrackingOptions: []string{"PREFIX", "b:", "BCAST"},
		OnInvalidations: func(messages []rueidis.RedisMessage) {
			for _, message := range messages {
				if key, err := message.ToString(); err == nil {
					told <- key
				}
			}
		},
	})
	defer reader.Close()
	expect("nothing yet", value(reader, "b:key"), "nil")
	do(writer, "SET", "other", "1")
	do(writer, "SET", "b:key", "1")
	select {
	case key := <-told:
		expect("told of", key, "b:key")
	case <-time.After(10 * time.Second):
		expect("told of", "nothing", "b:key")
	}
	eventually("the new value", func() bool { return value(reader, "b:key") == "1" })
}

func main() {
	port := os.Args[1]
	writer := connect(port, rueidis.ClientOption{DisableCache: true})
	defer writer.Close()
	reader := connect(port, rueidis.ClientOption{})
	defer reader.Close()
	do(writer, "FLUSHALL")
	copies(reader, writer)
	many(reader, writer)
	broadcasts(port, writer)
	fmt.Println("1 passed, 0 failed")
}
