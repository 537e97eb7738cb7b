// A session of go-redis against a running server: session PORT.
package main

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"time"

	"github.com/redis/go-redis/v9"
)

func expect(what string, actual, expected any) {
	if !reflect.DeepEqual(actual, expected) {
		fmt.Fprintf(os.Stderr, "%s: got %#v, expected %#v\n", what, actual, expected)
		os.Exit(1)
	}
}

func session(port string, protocol int) {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + port, Protocol: protocol})
	defer client.Close()
	expect("FLUSHALL", client.FlushAll(ctx).Err(), nil)
	expect("PING", client.Ping(ctx).Val(), "PONG")
	expect("SET", client.Set(ctx, "name", "apus", 100*time.Second).Val(), "OK")
	expect("GET", client.Get(ctx, "name").Val(), "apus")
	expect("GET missing", client.Get(ctx, "missing").Err(), redis.Nil)
	expect("MSET", client.MSet(ctx, "a", 1, "b", 2).Val(), "OK")
	expect("MGET", client.MGet(ctx, "a", "b", "missing").Val(), []any{"1", "2", nil})
	expect("INCRBY", client.IncrBy(ctx, "a", 41).Val(), int64(42))
	expect("INCR", client.Incr(ctx, "name").Err().Error(), "ERR value is not an integer or out of range")
	replies, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.Set(ctx, "c", "3", 0)
		pipe.Get(ctx, "c")
		return nil
	})
	expect("pipeline", err, nil)
	expect("pipeline", replies[1].(*redis.StringCmd).Val(), "3")
}

func main() {
	session(os.Args[1], 2)
	session(os.Args[1], 3)
	fmt.Println("2 passed, 0 failed")
}
