// Serves the built pages as `millrace-admin` does, and passes calls on to a server: for work on the
// pages without building the program. Settings: MILLRACE_ADMIN_URL, MILLRACE_INGEST_URL, PORT and,
// to answer what that server lacks, MILLRACE_CONSOLE_MOCK=1.

import { existsSync, readFileSync, statSync } from 'node:fs'
import { createServer, request as httpRequest } from 'node:http'
import { fileURLToPath } from 'node:url'
import { mocked, show } from './mock.mjs'

const bundle = fileURLToPath(new URL('../../bundle', import.meta.url))
const PAGES = /^\/(?:$|key\/?$|operator\/?$|projects\/|organizations\/)/
const TYPES = {
  html: 'text/html; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
  svg: 'image/svg+xml',
  md: 'text/plain; charset=utf-8',
}

const adminUrl = process.env.MILLRACE_ADMIN_URL ?? 'http://127.0.0.1:8010'
const ingestUrl = process.env.MILLRACE_INGEST_URL ?? 'http://127.0.0.1:8000'
const isMocked = process.env.MILLRACE_CONSOLE_MOCK === '1'
const policy =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; " +
  `connect-src 'self' ${ingestUrl}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`

const server = createServer(async (request, response) => {
  const url = new URL(request.url, 'http://localhost')
  if (serveFile(url, response)) return
  const sent = await gathered(request)
  // An older server knows no scope of events.
  const body = isMocked ? Buffer.from(sent.toString().replace('"event:read",', '')) : sent
  if (url.pathname === '/api/') {
    const links = { version: '0.1.0', ingest_url: isMocked ? `${origin()}/ingest` : ingestUrl }
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(links))
  } else if (isMocked && url.pathname.startsWith('/ingest')) {
    if (request.method === 'POST') for (const event of JSON.parse(body).batch ?? []) show(event)
    pass(request, response, ingestUrl + url.pathname.slice('/ingest'.length), body)
  } else if (!isMocked || !mocked(request, response, url, body)) {
    pass(request, response, adminUrl + request.url, body)
  }
})
server.listen(Number(process.env.PORT ?? 0), '127.0.0.1', () => console.log(origin()))

function origin() {
  return `http://127.0.0.1:${server.address().port}`
}

function serveFile({ pathname }, response) {
  const file = bundle + (PAGES.test(pathname) ? '/index.html' : pathname)
  if (pathname.startsWith('/api') || !existsSync(file) || !statSync(file).isFile()) return false
  const type = TYPES[file.split('.').at(-1)] ?? 'application/octet-stream'
  response.writeHead(200, { 'content-type': type, 'content-security-policy': policy })
  response.end(readFileSync(file))
  return true
}

function pass(request, response, target, body) {
  const { method } = request
  const headers = { ...request.headers, 'content-length': body.length }
  const passed = httpRequest(target, { method, headers }, (answer) => {
    response.writeHead(answer.statusCode, answer.headers)
    answer.pipe(response)
  })
  passed.on('error', () => response.headersSent || response.writeHead(502).end())
  response.on('close', () => passed.destroy())
  passed.end(body)
}

async function gathered(request) {
  const pieces = []
  for await (const piece of request) pieces.push(piece)
  return Buffer.concat(pieces)
}
