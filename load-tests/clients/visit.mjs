// Opens a page in a real Chromium, clicks its button, and prints what happened.
//
//     node visit.mjs PAGE.html EVENT
//
// Serves the file on a port of its own and ends when posthog-js got a response to an event of that
// name.
// Prints a JSON object: `requests` as {method, url, status}, `failed` as URLs, `console` as lines.
import { accessSync, constants, readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { delimiter, join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { chromium } from 'playwright-core'

const USAGE = 'usage: node visit.mjs PAGE.html EVENT'
const NAMES = ['chromium', 'chromium-browser', 'google-chrome']
// Nothing leaves this machine.
const ARGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
]

function executable() {
  const paths = NAMES.flatMap((name) => process.env.PATH.split(delimiter).map((folder) => join(folder, name)))
  const found = paths.find((path) => {
    try {
      accessSync(path, constants.X_OK)
      return true
    } catch {
      return false
    }
  })
  if (!found) throw new Error(`there is no ${NAMES[0]}`)
  return found
}

function serve(html) {
  const server = createServer((request, response) => {
    const isPage = request.url === '/'
    response.writeHead(isPage ? 200 : 204, { 'content-type': 'text/html; charset=utf-8' })
    response.end(isPage ? html : '')
  })
  return new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(server)))
}

// posthog-js compresses bodies and does not say so.
function text(body) {
  if (!body) return ''
  return (body[0] === 0x1f && body[1] === 0x8b ? gunzipSync(body) : body).toString()
}

// posthog-js sends no events of a browser that it takes for a robot.
function pretend() {
  Object.defineProperty(Navigator.prototype, 'webdriver', { get: () => false })
  Object.defineProperty(Navigator.prototype, 'userAgentData', { get: () => undefined })
}

async function visit(browser, url, event) {
  const userAgent = 'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36'
  const context = await browser.newContext({ userAgent })
  await context.addInitScript(pretend)
  const page = await context.newPage()
  const seen = { requests: [], failed: [], console: [] }
  page.on('console', (message) => seen.console.push(`${message.type()}: ${message.text()}`))
  page.on('pageerror', (error) => seen.console.push(`error: ${error.message}`))
  page.on('requestfailed', (request) => seen.failed.push(request.url()))
  page.on('response', (response) => {
    const request = response.request()
    seen.requests.push({ method: request.method(), url: request.url(), status: response.status() })
  })
  const answered = page.waitForResponse((response) => text(response.request().postDataBuffer()).includes(`"${event}"`))
  // Other failures are reported below.
  answered.catch(() => {})
  await page.goto(url, { waitUntil: 'load' })
  await page.click('button')
  await answered.catch((error) => seen.console.push(`error: no ${event} was sent: ${error.message}`))
  return seen
}

async function main([path, event]) {
  if (!path || !event) throw new Error(USAGE)
  const server = await serve(readFileSync(path))
  const browser = await chromium.launch({ executablePath: executable(), args: ARGS })
  try {
    const seen = await visit(browser, `http://127.0.0.1:${server.address().port}/`, event)
    process.stdout.write(JSON.stringify(seen) + '\n')
  } finally {
    await browser.close()
    server.close()
  }
}

main(process.argv.slice(2)).catch((error) => {
  console.error(error.message)
  process.exitCode = 1
})
