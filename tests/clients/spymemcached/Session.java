// A session of spymemcached against a running server, in the text and in the binary protocol: Session.java PORT, run
// from source with the library on the class path. Ends with `N passed, N failed`.

import java.net.InetSocketAddress;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.TimeUnit;
import net.spy.memcached.CASResponse;
import net.spy.memcached.CASValue;
import net.spy.memcached.ConnectionFactoryBuilder;
import net.spy.memcached.ConnectionFactoryBuilder.Protocol;
import net.spy.memcached.MemcachedClient;

public final class Session {
  private static void expect(String what, Object actual, Object expected) {
    if (!Objects.equals(actual, expected)) {
      System.err.println(what + ": got " + actual + ", expected " + expected);
      System.exit(1);
    }
  }

  private static void stores(MemcachedClient client) throws Exception {
    expect("set", client.set("name", 100, "apus").get(), true);
    expect("get", client.get("name"), "apus");
    expect("add", client.add("name", 0, "other").get(), false);
    expect("replace", client.replace("none", 0, "other").get(), false);
    expect("append", client.append("name", "!").get(), true);
    expect("prepend", client.prepend("name", "an ").get(), true);
    expect("both ends", client.get("name"), "an apus!");
    // An object leaves its kind in the flags.
    expect("set", client.set("number", 0, 4711L).get(), true);
    expect("a number", client.get("number"), 4711L);
    byte[] bytes = {0, 13, 10, -1, -128};
    expect("set", client.set("bytes", 0, bytes).get(), true);
    expect("bytes", Arrays.equals((byte[]) client.get("bytes"), bytes), true);
    // A long text is compressed, which is in the flags too.
    String text = "apus ".repeat(20_000);
    expect("set", client.set("text", 0, text).get(), true);
    expect("text", client.get("text"), text);
  }

  private static void swaps(MemcachedClient client) throws Exception {
    CASValue<Object> found = client.gets("name");
    expect("gets", found.getValue(), "an apus!");
    expect("cas", client.cas("name", found.getCas(), "swift"), CASResponse.OK);
    expect("cas", client.cas("name", found.getCas(), "late"), CASResponse.EXISTS);
    expect("cas", client.cas("none", found.getCas(), "late"), CASResponse.NOT_FOUND);
    expect("get", client.get("name"), "swift");
  }

  private static void rest(MemcachedClient client) throws Exception {
    expect("incr", client.incr("counter", 1, 40), 40L);
    expect("incr", client.incr("counter", 2), 42L);
    expect("decr", client.decr("counter", 50), 0L);
    expect("incr", client.incr("none", 1), -1L);
    Map<String, Object> bulk = client.getBulk(List.of("name", "none", "number"));
    expect("many", bulk, Map.of("name", "swift", "number", 4711L));
    expect("touch", client.touch("name", 1000).get(), true);
    expect("delete", client.delete("name").get(), true);
    expect("delete", client.delete("name").get(), false);
    String version = client.getVersions().values().iterator().next();
    expect("version", version.startsWith("1.6"), true);
    Map<String, String> figures = client.getStats().values().iterator().next();
    expect("items", Long.parseLong(figures.get("curr_items")) > 0, true);
    expect("flush", client.flush().get(), true);
    expect("after flush", client.get("number"), null);
  }

  public static void main(String[] arguments) throws Exception {
    System.setProperty("net.spy.log.LoggerImpl", "net.spy.memcached.compat.log.SunLogger");
    java.util.logging.Logger.getLogger("net.spy.memcached").setLevel(java.util.logging.Level.OFF);
    InetSocketAddress address = new InetSocketAddress("127.0.0.1", Integer.parseInt(arguments[0]));
    for (Protocol protocol : List.of(Protocol.TEXT, Protocol.BINARY)) {
      ConnectionFactoryBuilder builder = new ConnectionFactoryBuilder().setProtocol(protocol).setOpTimeout(60_000);
      MemcachedClient client = new MemcachedClient(builder.build(), List.of(address));
      stores(client);
      swaps(client);
      rest(client);
      client.shutdown(10, TimeUnit.SECONDS);
    }
    System.out.println("6 passed, 0 failed");
    System.exit(0);
  }
}
