// Sessions of go-redis against a running server, in both protocols: session PORT SOCKET|- LEVEL.
// LEVEL is `newest` where the server knows the commands of Redis 8.10. Ends with `N passed, N failed`.
// Or through a failover: session failover PORT NAME.
// Or over TLS: session encrypted PORT CA CERTIFICATE KEY USER, with the user that it is taken for.
package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

var ctx = context.Background()

func expect(what string, actual, expected any) {
	if !reflect.DeepEqual(actual, expected) {
		fmt.Fprintf(os.Stderr, "%s: got %#v, expected %#v\n", what, actual, expected)
		os.Exit(1)
	}
}

func must(what string, condition bool) {
	expect(what, condition, true)
}

func texts(client *redis.Client) {
	expect("SET EX", client.Set(ctx, "name", "apus", 100*time.Second).Val(), "OK")
	expect("GET", client.Get(ctx, "name").Val(), "apus")
	expect("GET missing", client.Get(ctx, "missing").Err(), redis.Nil)
	expect("SET NX", client.SetNX(ctx, "name", "swift", 0).Val(), false)
	expect("SET XX KEEPTTL", client.SetXX(ctx, "name", "swift", redis.KeepTTL).Val(), true)
	expect("SET GET", client.SetArgs(ctx, "name", "Swift", redis.SetArgs{Get: true, KeepTTL: true}).Val(), "swift")
	expect("GETEX PERSIST", client.GetEx(ctx, "name", 0).Val(), "Swift")
	expect("TTL", client.TTL(ctx, "name").Val(), time.Duration(-1))
	expect("SETEX", client.SetEx(ctx, "name", "swift", time.Minute).Val(), "OK")
	expect("MSET", client.MSet(ctx, "a", 1, "b", 2).Val(), "OK")
	expect("MSETNX", client.MSetNX(ctx, "b", 1, "c", 2).Val(), false)
	expect("MGET", client.MGet(ctx, "a", "b", "missing").Val(), []any{"1", "2", nil})
	expect("INCR", client.Incr(ctx, "a").Val(), int64(2))
	expect("INCRBY", client.IncrBy(ctx, "a", 40).Val(), int64(42))
	expect("DECR", client.Decr(ctx, "a").Val(), int64(41))
	expect("DECRBY", client.DecrBy(ctx, "a", 41).Val(), int64(0))
	expect("INCRBYFLOAT", client.IncrByFloat(ctx, "a", 0.5).Val(), 0.5)
	expect("INCR text", client.Incr(ctx, "name").Err().Error(), "ERR value is not an integer or out of range")
	expect("APPEND", client.Append(ctx, "name", "s").Val(), int64(6))
	expect("SETRANGE", client.SetRange(ctx, "name", 0, "SW").Val(), int64(6))
	expect("GETRANGE", client.GetRange(ctx, "name", -2, -1).Val(), "ts")
	expect("STRLEN", client.StrLen(ctx, "name").Val(), int64(6))
	expect("GETSET", client.GetSet(ctx, "name", "x").Val(), "SWifts")
	expect("GETDEL", client.GetDel(ctx, "name").Val(), "x")
	client.MSet(ctx, "one", "ohmytext", "two", "mynewtext")
	expect("LCS", client.LCS(ctx, &redis.LCSQuery{Key1: "one", Key2: "two"}).Val().MatchString, "mytext")
	matches := client.LCS(ctx, &redis.LCSQuery{Key1: "one", Key2: "two", Idx: true, WithMatchLen: true}).Val()
	expect("LCS IDX", []any{matches.Len, len(matches.Matches)}, []any{int64(6), 2})
	expect("SetFromBuffer", client.SetFromBuffer(ctx, "raw", []byte("raw")).Err(), nil)
	expect("GetToBuffer", client.GetToBuffer(ctx, "raw", make([]byte, 8)).Err(), nil)
}

func newest(client *redis.Client) {
	client.FlushDB(ctx)
	expiry := &redis.ExpirationOption{Mode: redis.EX, Value: 100}
	expect("MSETEX", client.MSetEX(ctx, redis.MSetEXArgs{Expiration: expiry}, "a", "1", "b", "2").Val(), int64(1))
	expect("MSETEX NX", client.MSetEX(ctx, redis.MSetEXArgs{Condition: redis.NX}, "a", "1", "c", "2").Val(), int64(0))
	digest := client.Digest(ctx, "a").Val()
	expect("SET IFEQ", client.SetIFEQ(ctx, "a", "2", "1", 0).Val(), "OK")
	expect("SET IFEQ GET", client.SetIFEQGet(ctx, "a", "3", "2", 0).Val(), "2")
	expect("SET IFNE", client.SetIFNE(ctx, "a", "4", "3", 0).Err(), redis.Nil)
	expect("SET IFNE GET", client.SetIFNEGet(ctx, "a", "1", "4", 0).Val(), "3")
	expect("SET IFDEQ", client.SetIFDEQ(ctx, "a", "5", digest, 0).Val(), "OK")
	expect("SET IFDEQ GET", client.SetIFDEQGet(ctx, "a", "6", client.Digest(ctx, "a").Val(), 0).Val(), "5")
	expect("SET IFDNE", client.SetIFDNE(ctx, "a", "7", digest, 0).Val(), "OK")
	expect("SET IFDNE GET", client.SetIFDNEGet(ctx, "a", "1", digest, 0).Val(), "7")
	expect("DELEX IFEQ", client.DelExArgs(ctx, "a", redis.DelExArgs{Mode: "IFEQ", MatchValue: "2"}).Val(), int64(0))
	expect("DELEX IFDNE", client.DelExArgs(ctx, "a", redis.DelExArgs{Mode: "IFDNE", MatchDigest: digest}).Val(), int64(0))
	expect("DELEX IFDEQ", client.DelExArgs(ctx, "a", redis.DelExArgs{Mode: "IFDEQ", MatchDigest: digest}).Val(), int64(1))
	whole := redis.IncrEXIntArgs{By: 5, HasBy: true, UBound: 7, HasUBound: true, Expiration: expiry, ENX: true}
	expect("INCREX", client.IncrEXInt(ctx, "n", whole).Err(), nil)
	whole.Saturate = true
	expect("INCREX SATURATE", client.IncrEXInt(ctx, "n", whole).Err(), nil)
	expect("INCREX value", client.Get(ctx, "n").Val(), "7")
	expect("INCREX BYFLOAT", client.IncrEXFloat(ctx, "n", redis.IncrEXFloatArgs{By: 0.5}).Err(), nil)
	expect("INCREX float", client.Get(ctx, "n").Val(), "7.5")
}

func keys(client *redis.Client) {
	client.FlushDB(ctx)
	for i := range 300 {
		client.Set(ctx, "key:"+strconv.Itoa(i), i, 0)
	}
	expect("DBSIZE", client.DBSize(ctx).Val(), int64(300))
	seen := map[string]bool{}
	for iterator := client.Scan(ctx, 0, "key:*", 20).Iterator(); iterator.Next(ctx); {
		seen[iterator.Val()] = true
	}
	expect("SCAN", len(seen), 300)
	list, _, err := client.ScanType(ctx, 0, "", 1000, "list").Result()
	must("SCAN TYPE", err == nil && len(list) == 0)
	expect("KEYS", len(client.Keys(ctx, "key:1?").Val()), 10)
	must("RANDOMKEY", strings.HasPrefix(client.RandomKey(ctx).Val(), "key:"))
	expect("EXISTS", client.Exists(ctx, "key:1", "key:1", "missing").Val(), int64(2))
	expect("TOUCH", client.Touch(ctx, "key:1", "missing").Val(), int64(1))
	expect("TYPE", client.Type(ctx, "key:1").Val(), "string")
	expect("RENAME", client.Rename(ctx, "key:1", "renamed").Val(), "OK")
	expect("RENAMENX", client.RenameNX(ctx, "renamed", "key:2").Val(), false)
	expect("COPY", client.Copy(ctx, "renamed", "copied", 0, false).Val(), int64(1))
	expect("COPY REPLACE", client.Copy(ctx, "renamed", "copied", 0, true).Val(), int64(1))
	expect("MOVE", client.Move(ctx, "copied", 1).Val(), true)
	expect("DEL", client.Del(ctx, "renamed", "missing").Val(), int64(1))
	expect("UNLINK", client.Unlink(ctx, "key:2", "key:3").Val(), int64(2))
	expect("EXPIRE", client.Expire(ctx, "key:4", time.Minute).Val(), true)
	expect("EXPIRE NX", client.ExpireNX(ctx, "key:4", time.Minute).Val(), false)
	expect("EXPIRE XX", client.ExpireXX(ctx, "key:4", time.Minute).Val(), true)
	expect("EXPIRE GT", client.ExpireGT(ctx, "key:4", time.Hour).Val(), true)
	expect("EXPIRE LT", client.ExpireLT(ctx, "key:4", 2*time.Hour).Val(), false)
	when := time.Now().Add(time.Hour).Truncate(time.Second)
	expect("EXPIREAT", client.ExpireAt(ctx, "key:4", when).Val(), true)
	expect("EXPIRETIME", client.ExpireTime(ctx, "key:4").Val(), time.Duration(when.Unix())*time.Second)
	expect("PEXPIREAT", client.PExpireAt(ctx, "key:4", when).Val(), true)
	expect("PEXPIRETIME", client.PExpireTime(ctx, "key:4").Val(), time.Duration(when.UnixMilli())*time.Millisecond)
	expect("PEXPIRE", client.PExpire(ctx, "key:4", time.Minute).Val(), true)
	must("PTTL", client.PTTL(ctx, "key:4").Val() > 50*time.Second)
	expect("PERSIST", client.Persist(ctx, "key:4").Val(), true)
	expect("OBJECT ENCODING", client.ObjectEncoding(ctx, "key:4").Val(), "int")
	must("OBJECT REFCOUNT", client.ObjectRefCount(ctx, "key:4").Val() >= 1)
	expect("OBJECT IDLETIME", client.ObjectIdleTime(ctx, "key:4").Err(), nil)
	expect("SWAPDB", client.Do(ctx, "SWAPDB", 0, 1).Val(), "OK")
	expect("DBSIZE", client.DBSize(ctx).Val(), int64(1))
	expect("FLUSHDB ASYNC", client.FlushDBAsync(ctx).Val(), "OK")
	expect("FLUSHALL ASYNC", client.FlushAllAsync(ctx).Val(), "OK")
}

func binary(client *redis.Client) {
	for _, size := range []int{0, 70_000, 1 << 20} {
		value := make([]byte, size)
		rand.Read(value)
		expect("SET", client.Set(ctx, "\x00\xff\r\n", value, 0).Err(), nil)
		back, err := client.Get(ctx, "\x00\xff\r\n").Bytes()
		must("GET "+strconv.Itoa(size), err == nil && bytes.Equal(back, value))
		payload := client.Dump(ctx, "\x00\xff\r\n").Val()
		expect("RESTORE", client.RestoreReplace(ctx, "restored", time.Minute, payload).Val(), "OK")
		back, err = client.Get(ctx, "restored").Bytes()
		must("RESTORE "+strconv.Itoa(size), err == nil && bytes.Equal(back, value))
	}
	expect("BUSYKEY", client.Restore(ctx, "restored", 0, "").Err() == nil, false)
}

func pipelines(client *redis.Client) {
	replies, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.Set(ctx, "c", "3", 0)
		pipe.Get(ctx, "c")
		for i := range 5000 {
			pipe.Incr(ctx, "n:"+strconv.Itoa(i%50))
		}
		return nil
	})
	expect("pipeline", err, nil)
	expect("pipeline", replies[1].(*redis.StringCmd).Val(), "3")
	expect("pipeline", replies[5001].(*redis.IntCmd).Val(), int64(100))
}

func connection(client *redis.Client, options redis.Options) {
	expect("PING", client.Ping(ctx).Val(), "PONG")
	expect("ECHO", client.Echo(ctx, "hello").Val(), "hello")
	options.ClientName, options.DB, options.MaxRetries, options.PoolSize = "session", 3, 2, 1
	named := redis.NewClient(&options)
	defer named.Close()
	expect("CLIENT GETNAME", named.ClientGetName(ctx).Val(), "session")
	own := named.ClientInfo(ctx).Val()
	must("CLIENT INFO", own.DB == 3 && own.Name == "session" && own.Resp == options.Protocol && strings.HasPrefix(own.LibName, "go-redis"))
	expect("CLIENT ID", named.ClientID(ctx).Val(), own.ID)
	must("CLIENT LIST", strings.Contains(client.ClientList(ctx).Val(), "name=session"))
	expect("CLIENT PAUSE", client.ClientPause(ctx, time.Millisecond).Val(), true)
	expect("CLIENT UNPAUSE", client.ClientUnpause(ctx).Val(), true)
	expect("CLIENT UNBLOCK", client.ClientUnblock(ctx, own.ID).Val(), int64(0))
	expect("CLIENT KILL", client.ClientKillByFilter(ctx, "ID", strconv.FormatInt(own.ID, 10)).Val(), int64(1))
	expect("reconnected", named.ClientGetName(ctx).Val(), "session")
	must("reconnected", named.ClientInfo(ctx).Val().DB == 3)
	options.DB = 99
	expect("SELECT", redis.NewClient(&options).Ping(ctx).Err().Error(), "ERR DB index is out of range")
}

func server(client *redis.Client) {
	must("TIME", time.Since(client.Time(ctx).Val()) < time.Minute)
	must("INFO", strings.Contains(client.Info(ctx, "server").Val(), "redis_version:"))
	must("INFO all", len(client.InfoMap(ctx, "everything").Val()) > 8)
	expect("CONFIG GET", client.ConfigGet(ctx, "maxmemory").Val(), map[string]string{"maxmemory": "0"})
	expect("CONFIG SET", client.ConfigSet(ctx, "slowlog-log-slower-than", "0").Val(), "OK")
	client.Get(ctx, "slow")
	must("SLOWLOG GET", len(client.SlowLogGet(ctx, 10).Val()) > 0)
	must("SLOWLOG LEN", client.SlowLogLen(ctx).Val() > 0)
	expect("CONFIG SET", client.ConfigSet(ctx, "slowlog-log-slower-than", "10000").Val(), "OK")
	expect("SLOWLOG RESET", client.SlowLogReset(ctx).Val(), "OK")
	expect("CONFIG RESETSTAT", client.ConfigResetStat(ctx).Val(), "OK")
	must("COMMAND", client.Command(ctx).Val()["get"].Arity == 2)
	must("COMMAND LIST", len(client.CommandList(ctx, &redis.FilterBy{Pattern: "get*"}).Val()) >= 5)
	expect("COMMAND GETKEYS", client.CommandGetKeys(ctx, "MSET", "a", 1, "b", 2).Val(), []string{"a", "b"})
	expect("COMMAND GETKEYSANDFLAGS", client.CommandGetKeysAndFlags(ctx, "GET", "a").Err(), nil)
	must("LASTSAVE", client.LastSave(ctx).Val() > 0)
	client.Set(ctx, "sized", strings.Repeat("x", 1000), 0)
	must("MEMORY USAGE", client.MemoryUsage(ctx, "sized").Val() > 1000)
	expect("LATENCY", client.Latency(ctx).Err(), nil)
	expect("LATENCY RESET", client.LatencyReset(ctx).Err(), nil)
	expect("WAIT", client.Wait(ctx, 0, time.Millisecond).Val(), int64(0))
}

// A password set at run time: known to old connections, asked of new ones.
func login(client *redis.Client, options redis.Options) {
	old := client.Conn()
	defer old.Close()
	expect("CONFIG SET", old.ConfigSet(ctx, "requirepass", "secret").Val(), "OK")
	options.MaxRetries = -1
	refused := redis.NewClient(&options).Ping(ctx).Err()
	must("NOAUTH", refused != nil && strings.HasPrefix(refused.Error(), "NOAUTH"))
	options.Password = "wrong"
	refused = redis.NewClient(&options).Ping(ctx).Err()
	must("WRONGPASS", refused != nil && strings.HasPrefix(refused.Error(), "WRONGPASS"))
	options.Password = "secret"
	expect("AUTH", redis.NewClient(&options).Ping(ctx).Val(), "PONG")
	options.Username = "default"
	expect("AUTH default", redis.NewClient(&options).Ping(ctx).Val(), "PONG")
	expect("CONFIG SET", old.ConfigSet(ctx, "requirepass", "").Val(), "OK")
}

func session(port, socket, level string, protocol int) {
	options := redis.Options{Addr: "127.0.0.1:" + port, Protocol: protocol}
	client := redis.NewClient(&options)
	defer client.Close()
	expect("FLUSHALL", client.FlushAll(ctx).Err(), nil)
	texts(client)
	keys(client)
	binary(client)
	pipelines(client)
	connection(client, options)
	server(client)
	login(client, options)
	if level == "newest" {
		newest(client)
	}
	if socket != "-" {
		local := redis.NewClient(&redis.Options{Network: "unix", Addr: socket, Protocol: protocol, DB: 2})
		defer local.Close()
		expect("Unix socket", local.Set(ctx, "local", "yes", 0).Val(), "OK")
	}
}

// Connects over TLS, with a certificate and, in vain, without one.
func encrypted(args []string) {
	port, authority, certificate, key, user := args[0], args[1], args[2], args[3], args[4]
	text, err := os.ReadFile(authority)
	expect("the authority", err, nil)
	roots := x509.NewCertPool()
	must("its certificate", roots.AppendCertsFromPEM(text))
	own, err := tls.LoadX509KeyPair(certificate, key)
	expect("the certificate", err, nil)
	config := &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{own}}
	client := redis.NewClient(&redis.Options{Addr: "localhost:" + port, TLSConfig: config})
	defer client.Close()
	expect("ACL WHOAMI", client.Do(ctx, "ACL", "WHOAMI").Val(), user)
	_, err = client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i := 0; i < 1000; i++ {
			pipe.Set(ctx, "go:"+strconv.Itoa(i), strings.Repeat("v", i), 0)
		}
		return nil
	})
	expect("a pipeline", err, nil)
	expect("GET", client.Get(ctx, "go:999").Val(), strings.Repeat("v", 999))
	bare := &tls.Config{RootCAs: roots}
	stranger := redis.NewClient(&redis.Options{Addr: "localhost:" + port, TLSConfig: bare})
	defer stranger.Close()
	must("no service without a certificate", stranger.Ping(ctx).Err() != nil)
}

func main() {
	switch os.Args[1] {
	case "failover":
		failover(os.Args[2], os.Args[3])
		return
	case "encrypted":
		encrypted(os.Args[2:])
		return
	}
	session(os.Args[1], os.Args[2], os.Args[3], 2)
	session(os.Args[1], os.Args[2], os.Args[3], 3)
	fmt.Println("2 passed, 0 failed")
}
