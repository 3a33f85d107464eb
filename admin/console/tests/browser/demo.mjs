// Starts a server with events of a small shop in a temporary folder, and takes pictures of its
// console: `node demo.mjs MILLRACE [FOLDER [SCREENS [KINDS]]]`.

import { spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const START_MS_MAX = 120_000
const DAY_MS = 86_400_000
const EVENTS = 3_000
const NAMES = ['$pageview', '$pageview', '$pageview', '$pageleave', 'added to cart', 'purchased']
const root = fileURLToPath(new URL('../..', import.meta.url))
const [program, ...words] = process.argv.slice(2)
const home = mkdtempSync(join(tmpdir(), 'millrace-demo-'))
const addresses = ['INGEST', 'ADMIN', 'HEALTH', 'CLICKHOUSE'].map((name) => [
  `MILLRACE_${name}_ADDR`,
  '127.0.0.1:0',
])
const env = { ...process.env, ...Object.fromEntries(addresses), MILLRACE_DATA_DIR: `${home}/data` }
const stdio = ['ignore', 'ignore', 'inherit']
const server = spawn(program, ['serve', '--log-level', 'warn'], { env, stdio })

try {
  const target = await started()
  await send(target)
  await make(target)
  const script = join(root, 'tests/browser/screenshots.mjs')
  const options = {
    cwd: root,
    stdio: 'inherit',
    env: { ...process.env, MILLRACE_CONSOLE: JSON.stringify(target) },
  }
  process.exitCode = spawnSync('node', [script, ...words], options).status ?? 1
} finally {
  server.kill('SIGTERM')
  await new Promise((resolve) => server.once('exit', resolve))
  rmSync(home, { recursive: true })
}

/** Waits for the addresses of a start, which the server writes once all are known. */
async function started() {
  const file = `${home}/data/credentials.json`
  const began = Date.now()
  while (Date.now() - began < START_MS_MAX) {
    await pause(500)
    const found = existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : {}
    if (!found.clickhouse_url) continue
    return {
      console_url: found.admin_url,
      ingest_url: found.ingest_url,
      project_api_key: found.project_api_key,
      personal_key: found.personal_api_key,
    }
  }
  throw new Error('The server did not start.')
}

/** Sends events of a week, some of which are rejected. */
async function send(target) {
  const batch = Array.from({ length: EVENTS }, (_, index) => event(index))
  batch.push(...Array.from({ length: 20 }, () => ({ event: 'signed up', properties: {} })))
  batch.push(...Array.from({ length: 9 }, (_, n) => ({ ...event(n), timestamp: 'yesterday' })))
  for (let from = 0; from < batch.length; from += 500) {
    const part = batch.slice(from, from + 500)
    const body = JSON.stringify({ api_key: target.project_api_key, batch: part })
    const headers = { 'Content-Type': 'application/json' }
    await fetch(`${target.ingest_url}/batch/`, { method: 'POST', headers, body })
  }
}

function event(index) {
  // The same each time, and more of them lately.
  const share = ((index * 7_919) % EVENTS) / EVENTS
  const user = `user-${index % 97}`
  const plan = ['free', 'team', 'pro'][index % 3]
  const at = new Date(Date.now() - share * share * 6 * DAY_MS)
  return {
    event: index % 29 === 0 ? 'signed up' : NAMES[index % NAMES.length],
    distinct_id: user,
    timestamp: at.toISOString(),
    properties: {
      $lib: ['web', 'web', 'posthog-python'][index % 3],
      $current_url: `https://shop.example.com/products/${index % 40}`,
      plan,
      ...(index % 29 === 0 ? { $set: { email: `${user}@example.com`, plan } } : {}),
    },
  }
}

/** Makes an export, a project and an invite. */
async function make(target) {
  const call = async (path, body) => {
    const headers = {
      Authorization: `Bearer ${target.personal_key}`,
      'Content-Type': 'application/json',
    }
    const init = { method: body ? 'POST' : 'GET', headers, body: body && JSON.stringify(body) }
    return (await fetch(target.console_url + path, init)).json()
  }
  const of = `/api/organizations/${(await call('/api/organizations/')).results[0].id}`
  const destination = { type: 'NoOp', config: {} }
  const made = { name: 'Events by the hour', interval: 'hour', destination }
  await call(`${of}/batch_exports/`, made)
  await call(`${of}/projects/`, { name: 'Mobile app' })
  await call(`${of}/invites/`, { target_email: 'grace@example.com', send_email: false })
  await pause(5_000)
}

function pause(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
