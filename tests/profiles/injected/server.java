// A server that burns a known share of each request's CPU time in injectedBurn.

import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;

class Server {
    // Some 15 ms: the part of the interpreter and of the compiler has to be small beside it.
    static final int UNITS = 15_000_000;

    static volatile int sink;

    static int injectedBurn(int rounds) {
        int x = 1;
        for (int i = 0; i < rounds; i++) x = x * 1664525 + 1013904223;
        return x;
    }

    static int ordinaryWork(int rounds) {
        int x = 2;
        for (int i = 0; i < rounds; i++) x = x * 1664525 + 1013904223;
        return x;
    }

    public static void main(String[] words) throws Exception {
        int burnt = UNITS / 1000 * Integer.parseInt(words[1]);
        byte[] body = "ok".getBytes();
        var address = new InetSocketAddress("127.0.0.1", Integer.parseInt(words[0]));
        HttpServer server = HttpServer.create(address, 64);
        server.createContext("/", request -> {
            sink = injectedBurn(burnt) ^ ordinaryWork(UNITS - burnt);
            request.sendResponseHeaders(200, body.length);
            request.getResponseBody().write(body);
            request.close();
        });
        server.start();
    }
}
