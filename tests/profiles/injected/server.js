// A server that burns a known share of each request's CPU time in injectedBurn.
//
//   server.js PORT BURN_PERMILLE [ORDINARY_PERMILLE FILE]
//
// As server.c. The CPU time is that of the process, of which the threads that compile have a small part.
// With INJECTED_EXPRESS=1 it is an application of Express, which NODE_PATH has to lead to.
const fs = require("node:fs");
const [port, burn, ordinary = 1000 - burn] = process.argv.slice(2, 5).map(Number);
const truth = process.argv[5] && fs.openSync(process.argv[5], "a");
const LOGGED = 32;
// About 1.1 ms: Node's own part of a request, 0.1 ms, has to be small beside it.
const UNITS = 1000000;

function injectedBurn(rounds) {
  let x = 1;
  for (let i = 0; i < rounds; i++) x = (Math.imul(x, 1664525) + 1013904223) | 0;
  return x;
}

function ordinaryWork(rounds) {
  let x = 2;
  for (let i = 0; i < rounds; i++) x = (Math.imul(x, 1664525) + 1013904223) | 0;
  return x;
}

function cpuUs() {
  const { user, system } = process.cpuUsage();
  return user + system;
}

let sink = 0;
let requests = 0;
let burntUs = 0;

function work() {
  const startUs = truth === undefined ? 0 : cpuUs();
  sink ^= injectedBurn((UNITS * burn) / 1000);
  if (truth !== undefined) burntUs += cpuUs() - startUs;
  sink ^= ordinaryWork((UNITS * ordinary) / 1000);
  if (truth === undefined || ++requests % LOGGED) return;
  fs.writeSync(truth, `${process.hrtime.bigint()} ${requests} ${burntUs * 1000}\n`);
}

function answer(request, response) {
  work();
  response.sendDate = false;
  response.end("ok");
}

const app = process.env.INJECTED_EXPRESS ? require("express")().get("/", answer) : answer;
require("node:http").createServer(app).listen(port, "127.0.0.1");
