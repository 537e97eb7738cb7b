// Jedis over TLS with a certificate of its own: Encrypted.java PORT CA CERTIFICATE KEY USER, of which the files are in
// PEM, run from source with the library on the class path. USER is whom the server takes it for.

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.PrivateKey;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.Base64;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.Pipeline;
import redis.clients.jedis.exceptions.JedisException;

public final class Encrypted {
  private static Certificate certificate(String path) throws IOException, GeneralSecurityException {
    try (InputStream file = Files.newInputStream(Path.of(path))) {
      return CertificateFactory.getInstance("X.509").generateCertificate(file);
    }
  }

  private static PrivateKey key(String path) throws IOException, GeneralSecurityException {
    String text = Files.readString(Path.of(path)).replaceAll("-----[A-Z ]+-----|\\s", "");
    PKCS8EncodedKeySpec bytes = new PKCS8EncodedKeySpec(Base64.getDecoder().decode(text));
    return KeyFactory.getInstance("EC").generatePrivate(bytes);
  }

  private static SSLContext context(String[] arguments, boolean showsOwn) throws IOException, GeneralSecurityException {
    char[] none = new char[0];
    KeyStore trusted = KeyStore.getInstance("PKCS12");
    trusted.load(null, none);
    trusted.setCertificateEntry("authority", certificate(arguments[1]));
    TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
    trust.init(trusted);
    KeyStore own = KeyStore.getInstance("PKCS12");
    own.load(null, none);
    if (showsOwn) {
      Certificate[] chain = {certificate(arguments[2])};
      own.setKeyEntry("own", key(arguments[3]), none, chain);
    }
    KeyManagerFactory keys = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
    keys.init(own, none);
    SSLContext context = SSLContext.getInstance("TLS");
    context.init(keys.getKeyManagers(), trust.getTrustManagers(), null);
    return context;
  }

  private static Jedis connect(String[] arguments, boolean showsOwn) throws IOException, GeneralSecurityException {
    HostAndPort place = new HostAndPort("localhost", Integer.parseInt(arguments[0]));
    return new Jedis(
        place,
        DefaultJedisClientConfig.builder()
            .ssl(true)
            .sslSocketFactory(context(arguments, showsOwn).getSocketFactory())
            .build());
  }

  public static void main(String[] arguments) throws IOException, GeneralSecurityException {
    try (Jedis client = connect(arguments, true)) {
      if (!client.aclWhoAmI().equals(arguments[4])) {
        throw new AssertionError("served as " + client.aclWhoAmI());
      }
      try (Pipeline pipeline = client.pipelined()) {
        for (int i = 0; i < 1000; i++) {
          pipeline.set("jedis:" + i, "v".repeat(i));
        }
        pipeline.sync();
      }
      if (client.get("jedis:999").length() != 999) {
        throw new AssertionError("a value is not whole");
      }
    }
    try (Jedis client = connect(arguments, false)) {
      client.ping();
    } catch (JedisException refused) {
      return;
    }
    throw new AssertionError("served without a certificate");
  }
}
