import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.Grpc;
import io.grpc.HandlerRegistry;
import io.grpc.InsecureChannelCredentials;
import io.grpc.InsecureServerCredentials;
import io.grpc.MethodDescriptor;
import io.grpc.MethodDescriptor.MethodType;
import io.grpc.Server;
import io.grpc.ServerMethodDefinition;
import io.grpc.StatusRuntimeException;
import io.grpc.internal.GrpcUtil;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.ServerCalls;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.TimeUnit;

/**
 * A grpc-java application whose only knowledge of its backends comes from a management server.
 *
 * <p>It starts two backends that answer every call with their own name, and obeys JSON commands on
 * standard input, one a line; each is answered by one JSON event on standard output:
 *
 * <pre>
 * {"command": "connect"}               -> {"event": "connected"}
 * {"command": "call", "seconds": N}    -> {"event": "answer", ...}
 * </pre>
 *
 * <p>The bootstrap is the file that GRPC_XDS_BOOTSTRAP names; it is read when the channel is made. The
 * program ends when its standard input does.
 */
public final class Peer {
  private static final String TARGET = "xds:///svc";
  private static final MethodDescriptor<String, String> METHOD =
      MethodDescriptor.<String, String>newBuilder()
          .setType(MethodType.UNARY)
          .setFullMethodName("interop.Echo/WhoAreYou")
          .setRequestMarshaller(new Text())
          .setResponseMarshaller(new Text())
          .build();

  public static void main(String[] args) throws IOException {
    JsonObject backends = new JsonObject();
    for (String name : new String[] {"first", "second"}) {
      backends.addProperty(name, startBackend(name));
    }
    JsonObject ready = event("ready");
    ready.addProperty("version", GrpcUtil.getGrpcBuildVersion().getImplementationVersion());
    ready.add("backends", backends);
    say(ready);

    Channel channel = null;
    BufferedReader lines =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      JsonObject told = JsonParser.parseString(line).getAsJsonObject();
      if (told.get("command").getAsString().equals("connect")) {
        channel = Grpc.newChannelBuilder(TARGET, InsecureChannelCredentials.create()).build();
        say(event("connected"));
      } else {
        say(call(channel, told.get("seconds").getAsDouble()));
      }
    }
    // Not a normal end: channels and servers have threads of their own.
    System.exit(0);
  }

  /** The port of a server that answers every method of every service with its name. */
  private static int startBackend(String name) throws IOException {
    ServerMethodDefinition<String, String> whoAreYou =
        ServerMethodDefinition.create(
            METHOD,
            ServerCalls.asyncUnaryCall(
                (request, response) -> {
                  response.onNext(name);
                  response.onCompleted();
                }));
    HandlerRegistry registry =
        new HandlerRegistry() {
          @Override
          public ServerMethodDefinition<?, ?> lookupMethod(String method, String authority) {
            return whoAreYou;
          }
        };
    Server server =
        io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder.forAddress(
                new InetSocketAddress("127.0.0.1", 0), InsecureServerCredentials.create())
            .fallbackHandlerRegistry(registry)
            .build()
            .start();
    return server.getPort();
  }

  /** One RPC: who answered it, or how it failed. */
  private static JsonObject call(Channel channel, double seconds) {
    JsonObject answer = event("answer");
    CallOptions options =
        CallOptions.DEFAULT.withDeadlineAfter((long) (seconds * 1000), TimeUnit.MILLISECONDS);
    try {
      answer.addProperty("backend", ClientCalls.blockingUnaryCall(channel, METHOD, options, ""));
      answer.addProperty("code", "OK");
      answer.add("details", JsonNull.INSTANCE);
    } catch (StatusRuntimeException failed) {
      answer.add("backend", JsonNull.INSTANCE);
      answer.addProperty("code", failed.getStatus().getCode().name());
      answer.addProperty("details", failed.getStatus().getDescription());
    }
    return answer;
  }

  private static JsonObject event(String kind) {
    JsonObject event = new JsonObject();
    event.addProperty("event", kind);
    return event;
  }

  private static void say(JsonObject event) {
    System.out.println(event);
  }

  /** A message that is a text. */
  private static final class Text implements MethodDescriptor.Marshaller<String> {
    @Override
    public InputStream stream(String text) {
      return new ByteArrayInputStream(text.getBytes(StandardCharsets.UTF_8));
    }

    @Override
    public String parse(InputStream bytes) {
      try {
        return new String(bytes.readAllBytes(), StandardCharsets.UTF_8);
      } catch (IOException error) {
        throw new UncheckedIOException(error);
      }
    }
  }
}
