// The common contract on node:http, without a package.
//
// node_server.js LISTEN FILES, where LISTEN is HOST:PORT or unix:PATH. Of WORKERS one is one plain
// process; more of them are forked by node:cluster, whose primary hands out connections in turn.
"use strict";

const cluster = require("node:cluster");
const fs = require("node:fs");
const http = require("node:http");
const path = require("node:path");

const [listen, files] = process.argv.slice(2);
const workers = process.env.WORKERS;
const hello = "Hello, World!";

function text(response, body) {
  response.writeHead(200, { "Content-Type": "text/plain", "Content-Length": body.length });
  response.end(body);
}

function fortyTwo(response) {
  response.sendDate = false; // The contract of /42 names every field; this one is not among them.
  response.writeHead(200, {
    "Server": "bench",
    "Connection": "keep-alive",
    "Content-Type": "text/plain",
    "Content-Length": 2,
  });
  response.end("42");
}

function absent(response) {
  response.writeHead(404, { "Content-Type": "text/plain", "Content-Length": 9 });
  response.end("Not Found");
}

function delay(query, response) {
  const ms = /^ms=(\d{1,5})$/.exec(query);
  if (ms === null) {
    absent(response);
    return;
  }
  setTimeout(text, Number(ms[1]), response, hello);
}

function file(name, response) {
  if (!/^[\w-][\w.-]*$/.test(name)) {
    absent(response);
    return;
  }
  const full = path.join(files, name);
  fs.stat(full, (error, stat) => {
    if (error || !stat.isFile()) {
      absent(response);
      return;
    }
    response.writeHead(200, {
      "Content-Type": "application/octet-stream",
      "Content-Length": stat.size,
    });
    fs.createReadStream(full).on("error", () => response.destroy()).pipe(response);
  });
}

function answer(request, response) {
  const url = request.url;
  if (request.method !== "GET") {
    absent(response);
  } else if (url === "/") {
    text(response, hello);
  } else if (url === "/42") {
    fortyTwo(response);
  } else if (url.startsWith("/delay?")) {
    delay(url.slice("/delay?".length), response);
  } else if (url.startsWith("/files/")) {
    file(url.slice("/files/".length), response);
  } else {
    absent(response);
  }
}

function serve() {
  const server = http.createServer({ keepAliveTimeout: 75_000 }, answer);
  if (listen.startsWith("unix:")) {
    server.listen(listen.slice("unix:".length));
  } else {
    const colon = listen.lastIndexOf(":");
    server.listen(Number(listen.slice(colon + 1)), listen.slice(0, colon));
  }
}

if (Number(workers) > 1 && cluster.isPrimary) {
  for (let index = 0; index < Number(workers); index += 1) {
    cluster.fork();
  }
  cluster.on("exit", (worker, code, signal) => {
    console.error(`worker ${worker.id} ended: ${signal ?? code}`);
    process.exit(1);
  });
} else {
  serve();
}
