// A server that burns a known share of each request's CPU time in injectedBurn.
const [port, burnt] = process.argv.slice(2).map(Number);
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

let sink = 0;
require("node:http")
  .createServer((request, response) => {
    sink ^= injectedBurn((UNITS * burnt) / 1000);
    sink ^= ordinaryWork((UNITS * (1000 - burnt)) / 1000);
    response.sendDate = false;
    response.end("ok");
  })
  .listen(port, "127.0.0.1");
