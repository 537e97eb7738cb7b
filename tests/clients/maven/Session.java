// Sessions of Jedis against a running server, in both protocols: Session.java PORT SOCKET|- LEVEL, run from source
// with the library on the class path. LEVEL is `newest` where the server knows the commands of Redis 8.10.

import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Random;
import java.util.Set;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisClientConfig;
import redis.clients.jedis.Pipeline;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.Response;
import redis.clients.jedis.args.ExpiryOption;
import redis.clients.jedis.args.FlushMode;
import redis.clients.jedis.exceptions.JedisException;
import redis.clients.jedis.params.ClientKillParams;
import redis.clients.jedis.params.GetExParams;
import redis.clients.jedis.params.IncrexParams;
import redis.clients.jedis.params.LCSParams;
import redis.clients.jedis.params.MSetExParams;
import redis.clients.jedis.params.RestoreParams;
import redis.clients.jedis.params.ScanParams;
import redis.clients.jedis.params.SetParams;
import redis.clients.jedis.util.CompareCondition;

public final class Session {
  private static void expect(String what, Object actual, Object expected) {
    if (!Objects.equals(actual, expected)) {
      System.err.println(what + ": got " + actual + ", expected " + expected);
      System.exit(1);
    }
  }

  private static void must(String what, boolean condition) {
    expect(what, condition, true);
  }

  private static String failure(Runnable call) {
    try {
      call.run();
    } catch (JedisException error) {
      return error.getMessage();
    }
    return "no error";
  }

  private static void strings(Jedis client) {
    expect("SET", client.set("name", "apus", SetParams.setParams().ex(100)), "OK");
    expect("GET", client.get("name"), "apus");
    expect("SET NX", client.set("name", "swift", SetParams.setParams().nx()), null);
    expect("SET GET", client.setGet("name", "swift", SetParams.setParams().xx().keepTtl()), "apus");
    expect("GETEX", client.getEx("name", GetExParams.getExParams().persist()), "swift");
    expect("TTL", client.ttl("name"), -1L);
    expect("MSET", client.mset("a", "1", "b", "2"), "OK");
    expect("MSETNX", client.msetnx("b", "1", "c", "2"), 0L);
    expect("MGET", client.mget("a", "b", "missing"), Arrays.asList("1", "2", null));
    expect("INCR", client.incr("a"), 2L);
    expect("INCRBY", client.incrBy("a", 40), 42L);
    expect("DECR", client.decr("a"), 41L);
    expect("DECRBY", client.decrBy("a", 41), 0L);
    expect("INCRBYFLOAT", client.incrByFloat("a", 0.5), 0.5);
    expect("INCR text", failure(() -> client.incr("name")), "ERR value is not an integer or out of range");
    expect("APPEND", client.append("name", "s"), 6L);
    expect("SETRANGE", client.setrange("name", 0, "SW"), 6L);
    expect("GETRANGE", client.getrange("name", -2, -1), "ts");
    expect("STRLEN", client.strlen("name"), 6L);
    expect("GETDEL", client.getDel("name"), "SWifts");
    expect("SETEX", client.setex("name", 10, "x"), "OK");
    expect("PSETEX", client.psetex("name", 10000, "x"), "OK");
    client.mset("one", "ohmytext", "two", "mynewtext");
    expect("LCS", client.lcs("one", "two", LCSParams.LCSParams()).getMatchString(), "mytext");
    expect("LCS IDX", client.lcs("one", "two", LCSParams.LCSParams().idx().withMatchLen()).getMatches().size(), 2);
  }

  private static void newest(Jedis client) {
    client.flushDB();
    expect("MSETEX", client.msetex(new MSetExParams().ex(100), "a", "1", "b", "2"), true);
    expect("MSETEX NX", client.msetex(new MSetExParams().nx(), "a", "1", "c", "2"), false);
    String digest = client.digestKey("a");
    CompareCondition same = CompareCondition.valueEq("1");
    expect("SET IFEQ", client.set("a", "2", SetParams.setParams().condition(same)), "OK");
    expect("SET IFEQ", client.set("a", "2", SetParams.setParams().condition(same)), null);
    CompareCondition changed = CompareCondition.digestNe(digest);
    expect("SET IFDNE", client.set("a", "3", SetParams.setParams().condition(changed)), "OK");
    expect("DELEX IFDEQ", client.delex("a", CompareCondition.digestEq(digest)), 0L);
    expect("DELEX IFNE", client.delex("a", CompareCondition.valueNe("1")), 1L);
    expect("INCREX", client.increx("n"), List.of(1L, 1L));
    expect("INCREX UBOUND", client.increx("n", 5, IncrexParams.increxParams().ubound(3)), List.of(1L, 0L));
  }

  private static void keys(Jedis client) {
    client.flushDB();
    Pipeline pipeline = client.pipelined();
    for (int number = 0; number < 3000; number++) {
      pipeline.set("key:" + number, "" + number);
    }
    pipeline.sync();
    expect("DBSIZE", client.dbSize(), 3000L);
    Set<String> seen = new HashSet<>();
    String cursor = "0";
    do {
      var page = client.scan(cursor, new ScanParams().match("key:*").count(100), "string");
      seen.addAll(page.getResult());
      cursor = page.getCursor();
    } while (!cursor.equals("0"));
    expect("SCAN", seen.size(), 3000);
    expect("KEYS", client.keys("key:1?").size(), 10);
    must("RANDOMKEY", client.randomKey().startsWith("key:"));
    expect("EXISTS", client.exists("key:1", "key:1", "missing"), 2L);
    expect("TOUCH", client.touch("key:1", "missing"), 1L);
    expect("TYPE", client.type("key:1"), "string");
    expect("RENAME", client.rename("key:1", "renamed"), "OK");
    expect("RENAMENX", client.renamenx("renamed", "key:2"), 0L);
    expect("COPY", client.copy("renamed", "copied", true), true);
    expect("MOVE", client.move("copied", 1), 1L);
    expect("DEL", client.del("renamed", "missing"), 1L);
    expect("UNLINK", client.unlink("key:2", "key:3"), 2L);
    expect("EXPIRE", client.expire("key:4", 100, ExpiryOption.NX), 1L);
    expect("PEXPIRE", client.pexpire("key:4", 50000, ExpiryOption.GT), 0L);
    expect("EXPIREAT", client.expireAt("key:4", 4102444800L), 1L);
    expect("EXPIRETIME", client.expireTime("key:4"), 4102444800L);
    expect("PEXPIREAT", client.pexpireAt("key:4", 4102444800001L), 1L);
    expect("PEXPIRETIME", client.pexpireTime("key:4"), 4102444800001L);
    must("PTTL", client.pttl("key:4") > 1000);
    expect("PERSIST", client.persist("key:4"), 1L);
    expect("OBJECT ENCODING", client.objectEncoding("key:4"), "int");
    must("OBJECT", client.objectRefcount("key:4") >= 1 && client.objectIdletime("key:4") >= 0);
    expect("SWAPDB", client.swapDB(0, 1), "OK");
    expect("FLUSHDB", client.flushDB(FlushMode.ASYNC), "OK");
    expect("FLUSHALL", client.flushAll(FlushMode.SYNC), "OK");
  }

  private static void binary(Jedis client) {
    byte[] key = {0, -1, 13, 10};
    for (int size : new int[] {0, 70_000, 1 << 20}) {
      byte[] value = new byte[size];
      new Random(size).nextBytes(value);
      expect("SET", client.set(key, value), "OK");
      must("GET " + size, Arrays.equals(client.get(key), value));
      byte[] payload = client.dump(key);
      expect("RESTORE", client.restore("restored", 0, payload, RestoreParams.restoreParams().replace()), "OK");
      must("RESTORE " + size, Arrays.equals(client.get("restored".getBytes()), value));
    }
    must("BUSYKEY", failure(() -> client.restore("restored", 0, new byte[] {1})).contains("BUSYKEY"));
  }

  private static void pipelines(Jedis client) {
    Pipeline pipeline = client.pipelined();
    pipeline.set("c", "x");
    Response<Long> wrong = pipeline.incr("c");
    Response<String> reply = pipeline.get("c");
    pipeline.sync();
    expect("pipeline", reply.get(), "x");
    must("pipeline", failure(wrong::get).contains("not an integer"));
  }

  private static void connection(Jedis client, HostAndPort address, RedisProtocol protocol) {
    expect("PING", client.ping(), "PONG");
    expect("ECHO", client.echo("hello"), "hello");
    JedisClientConfig config =
        DefaultJedisClientConfig.builder().protocol(protocol).clientName("session").database(3).build();
    try (Jedis named = new Jedis(address, config)) {
      expect("CLIENT GETNAME", named.clientGetname(), "session");
      must("CLIENT INFO", named.clientInfo().contains(" db=3 ") && named.clientInfo().contains("lib-name=jedis"));
      must("CLIENT LIST", client.clientList(named.clientId()).contains("name=session"));
      expect("CLIENT SETNAME", named.clientSetname("other"), "OK");
      expect("SELECT", named.select(4), "OK");
      must("SELECT", failure(() -> named.select(99)).contains("DB index is out of range"));
      expect("CLIENT NO-EVICT", named.clientNoEvictOn(), "OK");
      expect("CLIENT KILL", client.clientKill(new ClientKillParams().id("" + named.clientId())), 1L);
      must("killed", !failure(named::ping).equals("no error"));
    }
    expect("CLIENT PAUSE", client.clientPause(1), "OK");
    expect("CLIENT UNPAUSE", client.clientUnpause(), "OK");
    try (RedisClient pooled = RedisClient.builder().hostAndPort(address).clientConfig(config).build()) {
      expect("pool", pooled.set("pooled", "yes"), "OK");
      expect("pool", pooled.get("pooled"), "yes");
    }
  }

  private static void server(Jedis client) {
    expect("TIME", client.time().size(), 2);
    must("INFO", client.info().contains("redis_version:"));
    expect("CONFIG GET", client.configGet("maxmemory"), Map.of("maxmemory", "0"));
    expect("CONFIG SET", client.configSet("slowlog-log-slower-than", "0"), "OK");
    client.get("slow");
    must("SLOWLOG", client.slowlogLen() > 0 && client.slowlogGet(1).size() == 1);
    expect("CONFIG SET", client.configSet("slowlog-log-slower-than", "10000"), "OK");
    expect("SLOWLOG RESET", client.slowlogReset(), "OK");
    expect("CONFIG RESETSTAT", client.configResetStat(), "OK");
    must("COMMAND COUNT", client.commandCount() > 50);
    expect("COMMAND INFO", client.commandInfo("get").get("get").getArity(), 2L);
    must("COMMAND DOCS", client.commandDocs("get").containsKey("get"));
    must("COMMAND LIST", client.commandList().contains("get"));
    expect("COMMAND GETKEYS", client.commandGetKeys("MSET", "a", "1", "b", "2"), List.of("a", "b"));
    must("LASTSAVE", client.lastsave() > 0);
    expect("ROLE", client.role().get(0), "master");
    client.set("sized", "x".repeat(1000));
    must("MEMORY USAGE", client.memoryUsage("sized") > 1000);
    expect("WAIT", client.waitReplicas(0, 1), 0L);
  }

  private static JedisClientConfig user(RedisProtocol protocol, String password) {
    return DefaultJedisClientConfig.builder().protocol(protocol).user("default").password(password).build();
  }

  private static void login(Jedis client, HostAndPort address, RedisProtocol protocol) {
    expect("CONFIG SET", client.configSet("requirepass", "secret"), "OK");
    JedisClientConfig nobody = DefaultJedisClientConfig.builder().protocol(protocol).build();
    must("NOAUTH", failure(() -> new Jedis(address, nobody).ping()).contains("NOAUTH"));
    must("WRONGPASS", failure(() -> new Jedis(address, user(protocol, "no")).ping()).contains("WRONGPASS"));
    expect("AUTH", new Jedis(address, user(protocol, "secret")).ping(), "PONG");
    expect("CONFIG SET", client.configSet("requirepass", ""), "OK");
  }

  private static void session(HostAndPort address, RedisProtocol protocol, boolean isNewest) {
    try (Jedis client = new Jedis(address, DefaultJedisClientConfig.builder().protocol(protocol).build())) {
      client.flushAll();
      strings(client);
      keys(client);
      binary(client);
      pipelines(client);
      connection(client, address, protocol);
      server(client);
      login(client, address, protocol);
      if (isNewest) {
        newest(client);
      }
    }
  }

  public static void main(String[] arguments) {
    HostAndPort address = new HostAndPort("127.0.0.1", Integer.parseInt(arguments[0]));
    session(address, RedisProtocol.RESP2, arguments[2].equals("newest"));
    session(address, RedisProtocol.RESP3, arguments[2].equals("newest"));
    System.out.println("2 passed, 0 failed");
  }
}
