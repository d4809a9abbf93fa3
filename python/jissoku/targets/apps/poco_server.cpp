// The common contract on POCO's HTTPServer, as its documentation shows how to write a server.
//
// poco_server LISTEN FILES, where LISTEN is 127.0.0.1:PORT or unix:PATH. POCO gives every open
// connection a thread, which waits for its requests with poll and answers them.
#include "contract.h"

#include <Poco/Environment.h>
#include <Poco/Net/HTTPRequestHandler.h>
#include <Poco/Net/HTTPRequestHandlerFactory.h>
#include <Poco/Net/HTTPServer.h>
#include <Poco/Net/HTTPServerRequest.h>
#include <Poco/Net/HTTPServerResponse.h>
#include <Poco/Net/ServerSocket.h>
#include <Poco/Thread.h>
#include <Poco/ThreadPool.h>
#include <Poco/Timespan.h>

#include <iostream>
#include <string>

using namespace Poco::Net;

// One for each connection that is open at a time; they are started when they are needed.
constexpr int THREADS_MAX = 4096;
constexpr int IDLE_S = 75;

static std::string folder_path;
static int folder;

static void text(HTTPServerResponse &response, const char *body, std::size_t size) {
    response.setContentType("text/plain");
    response.sendBuffer(body, size);
}

static void absent(HTTPServerResponse &response) {
    response.setStatusAndReason(HTTPResponse::HTTP_NOT_FOUND);
    response.setContentLength(0);
    response.send();
}

class Contract : public HTTPRequestHandler {
  public:
    void handleRequest(HTTPServerRequest &request, HTTPServerResponse &response) override {
        const std::string &path = request.getURI();
        long ms = contract_delay_ms(path.c_str());
        off_t size;
        int fd;
        if (request.getMethod() != HTTPRequest::HTTP_GET) {
            absent(response);
        } else if (path == "/") {
            text(response, HELLO, sizeof HELLO - 1);
        } else if (path == "/42") {
            response.erase("Date");  // the contract of /42 names every field, and this is none
            response.set("Server", "bench");
            if (response.getKeepAlive()) response.set("Connection", "keep-alive");
            text(response, "42", 2);
        } else if (ms >= 0) {
            Poco::Thread::sleep(ms);
            text(response, HELLO, sizeof HELLO - 1);
        } else if ((fd = contract_open(folder, path.c_str(), &size)) >= 0) {
            close(fd);  // POCO opens it by its name
            response.sendFile(folder_path + path.substr(6), "application/octet-stream");
        } else {
            absent(response);
        }
    }
};

class Factory : public HTTPRequestHandlerFactory {
  public:
    HTTPRequestHandler *createRequestHandler(const HTTPServerRequest &) override {
        return new Contract;
    }
};

static ServerSocket listener(const std::string &where) {
    ServerSocket socket;
    if (where.rfind("unix:", 0) == 0) {
        socket.bind(SocketAddress(SocketAddress::UNIX_LOCAL, where.substr(5)), false);
    } else {
        socket.bind(SocketAddress(where), true);
    }
    socket.listen(BACKLOG);
    return socket;
}

int main(int argc, char **argv) {
    if (argc == 2 && std::string(argv[1]) == "--version") {
        unsigned version = Poco::Environment::libraryVersion();  // 0xAABBCCDD (Poco/Version.h)
        std::cout << "POCO " << (version >> 24) << '.' << (version >> 16 & 255) << '.'
                  << (version >> 8 & 255) << '\n';
        return 0;
    }
    if (argc != 3) {
        std::cerr << "usage: poco_server LISTEN FILES\n";
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    folder_path = argv[2];
    folder = contract_folder(argv[2]);
    Poco::ThreadPool pool(4, THREADS_MAX, IDLE_S);
    HTTPServerParams::Ptr params = new HTTPServerParams;
    params->setMaxThreads(THREADS_MAX);
    params->setMaxQueued(THREADS_MAX);
    params->setKeepAliveTimeout(Poco::Timespan(IDLE_S, 0));
    params->setMaxKeepAliveRequests(0);  // without end
    HTTPServer server(new Factory, pool, listener(argv[1]), params);
    server.start();
    for (;;) pause();
}
