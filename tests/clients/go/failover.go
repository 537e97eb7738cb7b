// go-redis through a failover: session failover PORT NAME, of a Sentinel and of what it watches.
// Says `ready` when it writes, and `moved` when it writes somewhere else.
package main

import (
	"fmt"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
)

const patience = 60 * time.Second

func eventually(what string, condition func() bool) {
	for until := time.Now().Add(patience); !condition(); time.Sleep(50 * time.Millisecond) {
		must(what, time.Now().Before(until))
	}
}

// What the Sentinel itself says, in both protocols.
func askSentinel(address, name string, protocol int) string {
	sentinel := redis.NewSentinelClient(&redis.Options{Addr: address, Protocol: protocol})
	defer sentinel.Close()
	place := sentinel.GetMasterAddrByName(ctx, name).Val()
	expect("GET-MASTER-ADDR-BY-NAME", len(place), 2)
	expect("MASTER", sentinel.Master(ctx, name).Val()["port"], place[1])
	expect("MASTERS", len(sentinel.Masters(ctx).Val()), 1)
	expect("REPLICAS", len(sentinel.Replicas(ctx, name).Val()), 1)
	expect("SENTINELS", len(sentinel.Sentinels(ctx, name).Val()), 0)
	expect("CKQUORUM", sentinel.CkQuorum(ctx, name).Err(), nil)
	return net.JoinHostPort(place[0], place[1])
}

func failover(port, name string) {
	address := "127.0.0.1:" + port
	first := askSentinel(address, name, 2)
	expect("both protocols", askSentinel(address, name, 3), first)
	follow := func(replicaOnly bool) *redis.Client {
		options := redis.FailoverOptions{MasterName: name, SentinelAddrs: []string{address}, ReplicaOnly: replicaOnly}
		return redis.NewFailoverClient(&options)
	}
	primary, replica := follow(false), follow(true)
	defer primary.Close()
	defer replica.Close()
	expect("SET", primary.Set(ctx, "written", "before", 0).Val(), "OK")
	eventually("the replica has it", func() bool { return replica.Get(ctx, "written").Val() == "before" })
	place := func() string { return primary.ConfigGet(ctx, "port").Val()["port"] }
	before := place()
	fmt.Println("ready")
	eventually("it writes somewhere else", func() bool {
		now := place()
		return now != "" && now != before && primary.Set(ctx, "written", "behind", 0).Err() == nil
	})
	expect("GET", primary.Get(ctx, "written").Val(), "behind")
	// The next one is told before the failover is over.
	sentinel := redis.NewSentinelClient(&redis.Options{Addr: address})
	defer sentinel.Close()
	eventually("it is over", func() bool { return sentinel.Master(ctx, name).Val()["port"] != before })
	must("another address", askSentinel(address, name, 3) != first)
	fmt.Println("moved")
}
