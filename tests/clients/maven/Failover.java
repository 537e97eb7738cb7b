// Jedis through a failover: Failover.java PORT NAME, of a Sentinel and of what it watches, run from source with the
// library on the class path. Says `ready` when it writes, and `moved` when it writes somewhere else.

import java.util.Set;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.RedisSentinelClient;
import redis.clients.jedis.exceptions.JedisException;

public final class Failover {
  private static final long PATIENCE_MS = 60_000;

  public static void main(String[] arguments) throws InterruptedException {
    HostAndPort sentinel = new HostAndPort("127.0.0.1", Integer.parseInt(arguments[0]));
    String name = arguments[1];
    try (Jedis asked = new Jedis(sentinel)) {
      if (!asked.sentinelMaster(name).get("flags").equals("master")) {
        throw new AssertionError("no primary");
      }
    }
    try (RedisSentinelClient client =
        RedisSentinelClient.builder().masterName(name).sentinels(Set.of(sentinel)).build()) {
      client.set("written", "before");
      HostAndPort first = client.getCurrentMaster();
      System.out.println("ready");
      long until = System.currentTimeMillis() + PATIENCE_MS;
      while (true) {
        try {
          boolean isWritten = client.set("written", "behind").equals("OK");
          if (isWritten && !client.getCurrentMaster().equals(first)) {
            break;
          }
        } catch (JedisException error) {
          // Neither here nor there yet.
        }
        if (System.currentTimeMillis() > until) {
          throw new AssertionError("never");
        }
        Thread.sleep(50);
      }
      if (!client.get("written").equals("behind")) {
        throw new AssertionError("what was written is gone");
      }
    }
    System.out.println("moved");
  }
}
