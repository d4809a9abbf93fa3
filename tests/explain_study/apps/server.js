// A server of Node's own modules with a fault behind each path: node server.js PORT
'use strict'
const dns = require('node:dns')
const fs = require('node:fs')
const http = require('node:http')
const path = require('node:path')

const site = process.env.SITE
const rows = Array.from({ length: 1500 }, (_, id) => ({ id, name: `item ${id}`, price: id / 7, tags: ['a', 'b', 'c'] }))
const log = fs.openSync(path.join(site, 'app.log'), 'a')
const kept = []
const lock = new Int32Array(new SharedArrayBuffer(4))

const text = (response, body, fields = {}) => {
  response.writeHead(200, { 'Content-Type': 'text/plain', 'Content-Length': Buffer.byteLength(body), ...fields })
  response.end(body)
}

const handlers = {
  '/clean': (response) => text(response, '42'),
  '/close': (response) => text(response, '42', { Connection: 'close' }),
  '/json': (response) => text(response, JSON.stringify(rows)),
  '/lookup': (response) => dns.lookup('localhost', () => text(response, '42')),
  '/sync': (response) => {
    fs.writeSync(log, 'a line of a log\n')
    fs.fsyncSync(log)
    text(response, '42')
  },
  '/upstream': (response) => {
    const to = { port: process.env.HTTP_PORT, path: '/page.html', agent: new http.Agent({ keepAlive: false }) }
    http.get(to, (answer) => {
      answer.resume()
      answer.on('end', () => text(response, '42'))
    })
  },
  '/wait': (response) => {
    Atomics.wait(lock, 0, 0, 20)
    text(response, '42')
  },
  '/garbage': (response) => {
    kept.push(Array.from({ length: 2000 }, (_, id) => ({ id, name: `item ${id}` })))
    if (kept.length > 100) kept.shift()
    text(response, '42')
  },
}

const absent = (response) => {
  response.writeHead(404)
  response.end()
}

http.createServer((request, response) => (handlers[request.url] ?? absent)(response)).listen(Number(process.argv[2]), '127.0.0.1')
