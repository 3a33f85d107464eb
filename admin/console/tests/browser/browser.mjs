// A browser whose pages have to be quiet: no message in the console, no violation of the policy.

import { existsSync } from 'node:fs'
import { chromium } from 'playwright-core'

const PATHS = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome']
const TIMEOUT_MS = Number(process.env.MILLRACE_CONSOLE_TIMEOUT_MS ?? 20_000)

/** Opens a page of a signed-in person; `faults` gets what the browser complains about. */
export async function open({ personalKey, ...options }) {
  const executablePath = PATHS.find((path) => existsSync(path))
  const browser = await chromium.launch({
    executablePath,
    args: ['--no-sandbox'],
    timeout: 120_000,
  })
  const settings = { timezoneId: 'Europe/Berlin', locale: 'en-GB', ...options }
  const context = await browser.newContext(settings)
  if (personalKey) {
    const keep = (key) => sessionStorage.setItem('millrace.personal_key', key)
    await context.addInitScript(keep, personalKey)
  }
  const page = await context.newPage()
  page.setDefaultTimeout(TIMEOUT_MS)
  page.setDefaultNavigationTimeout(TIMEOUT_MS)
  const faults = []
  page.on('pageerror', (error) => faults.push(String(error.stack ?? error)))
  page.on('console', (message) => {
    // The browser tells of each answer without success; pages show these.
    const isAnswer = message.text().startsWith('Failed to load resource')
    if (['error', 'warning'].includes(message.type()) && !isAnswer) faults.push(message.text())
  })
  return { browser, context, page, faults }
}
