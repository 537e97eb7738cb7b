// A session of Jedis against a running server: Session.java PORT, run from source with the library on the class path.

import java.util.Arrays;
import java.util.Objects;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.Pipeline;
import redis.clients.jedis.Response;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.params.SetParams;

public final class Session {
  private static void expect(String what, Object actual, Object expected) {
    if (!Objects.equals(actual, expected)) {
      System.err.println(what + ": got " + actual + ", expected " + expected);
      System.exit(1);
    }
  }

  private static String failure(Runnable call) {
    try {
      call.run();
    } catch (JedisDataException error) {
      return error.getMessage();
    }
    return "no error";
  }

  public static void main(String[] arguments) {
    try (Jedis client = new Jedis("127.0.0.1", Integer.parseInt(arguments[0]))) {
      client.flushAll();
      expect("PING", client.ping(), "PONG");
      expect("SET", client.set("name", "apus", SetParams.setParams().ex(100)), "OK");
      expect("GET", client.get("name"), "apus");
      expect("MSET", client.mset("a", "1", "b", "2"), "OK");
      expect("MGET", client.mget("a", "b", "missing"), Arrays.asList("1", "2", null));
      expect("INCRBY", client.incrBy("a", 41), 42L);
      expect("INCR", failure(() -> client.incr("name")), "ERR value is not an integer or out of range");
      Pipeline pipeline = client.pipelined();
      pipeline.set("c", "3");
      Response<String> reply = pipeline.get("c");
      pipeline.sync();
      expect("pipeline", reply.get(), "3");
    }
    System.out.println("1 passed, 0 failed");
  }
}
