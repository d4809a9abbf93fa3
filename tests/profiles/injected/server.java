// A server that burns a known share of each request's CPU time in injectedBurn.
//
//   Server PORT BURN_PERMILLE [ORDINARY_PERMILLE FILE]
//
// As server.c. The server calls its handlers from one thread.

import com.sun.net.httpserver.HttpServer;
import java.io.FileWriter;
import java.io.IOException;
import java.io.PrintWriter;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.net.InetSocketAddress;

class Server {
    // Some 15 ms: the part of the interpreter and of the compiler has to be small beside it.
    static final int UNITS = 15_000_000;
    // A second has some 30 requests.
    static final int LOGGED = 4;

    static volatile int sink;
    static ThreadMXBean clock;
    static PrintWriter truth;
    static long requests;
    static long burntNs;

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

    static void work(int burn, int ordinary) {
        long startNs = truth == null ? 0 : clock.getCurrentThreadCpuTime();
        int x = injectedBurn(UNITS / 1000 * burn);
        if (truth != null) burntNs += clock.getCurrentThreadCpuTime() - startNs;
        sink = x ^ ordinaryWork(UNITS / 1000 * ordinary);
        if (truth == null || ++requests % LOGGED != 0) return;
        truth.println(System.nanoTime() + " " + requests + " " + burntNs);
        truth.flush();
    }

    public static void main(String[] words) throws IOException {
        int burn = Integer.parseInt(words[1]);
        int ordinary = words.length > 2 ? Integer.parseInt(words[2]) : 1000 - burn;
        if (words.length > 3) {
            clock = ManagementFactory.getThreadMXBean();
            truth = new PrintWriter(new FileWriter(words[3], true));
        }
        byte[] body = "ok".getBytes();
        var address = new InetSocketAddress("127.0.0.1", Integer.parseInt(words[0]));
        HttpServer server = HttpServer.create(address, 64);
        server.createContext("/", request -> {
            work(burn, ordinary);
            request.sendResponseHeaders(200, body.length);
            request.getResponseBody().write(body);
            request.close();
        });
        server.start();
    }
}
