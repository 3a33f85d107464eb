// What people do in the console, in a real browser. Takes the server from MILLRACE_CONSOLE, a JSON:
//
//     console_url, ingest_url, project_api_key, personal_key   of a running server
//     other_personal_key                                       of somebody of another organization
//
// A word chooses tests by a part of their names. Ends with 1 if one fails.

import axe from 'axe-core'
import { open } from './browser.mjs'
import { goTo, screensOf } from './screens.mjs'

const target = JSON.parse(process.env.MILLRACE_CONSOLE)
const chosen = process.argv[2] ?? ''
/** Time in which an event has to be seen live, from when it was sent. */
const SEEN_MS_MAX = Number(process.env.MILLRACE_CONSOLE_SEEN_MS ?? 2_000)

const TESTS = {
  a_wrong_key_is_refused_and_a_link_survives_the_sign_in,
  a_first_event_turns_the_start_page_green_and_is_seen_live,
  the_live_stream_is_filtered_by_its_address_and_paused_by_a_key,
  a_rejected_event_is_edited_checked_and_sent_again,
  a_query_is_charted_and_an_error_is_shown_where_it_is,
  a_table_of_10_000_rows_scrolls_and_draws_what_is_seen,
  a_project_a_key_and_an_invite_are_made_by_forms,
  an_export_is_tested_made_and_paused_by_forms,
  a_revoked_key_is_thrown_out,
  two_tenants_see_nothing_of_each_other,
  every_screen_passes_axe_in_light_and_dark,
  screens_are_reached_by_keyboard,
}

let failed = 0
for (const [name, test] of Object.entries(TESTS)) {
  if (!name.includes(chosen)) continue
  const began = Date.now()
  try {
    await test()
    console.log(`ok      ${name} (${Date.now() - began} ms)`)
  } catch (error) {
    failed += 1
    console.log(`FAILED  ${name}\n${error.stack ?? error}`)
  }
}
process.exit(failed > 0 ? 1 : 0)

function assert(condition, words) {
  if (!condition) throw new Error(words)
}

/** Runs a part of a test in a browser, which has to stay quiet. */
async function inBrowser(options, run) {
  const { browser, page, faults } = await open(options)
  try {
    await run(page)
    assert(faults.length === 0, `the browser complains:\n${faults.join('\n')}`)
  } finally {
    await browser.close()
  }
}

function signedIn(run) {
  return inBrowser({ personalKey: target.personal_key }, run)
}

async function call(method, path, body, key = target.personal_key) {
  const headers = { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' }
  const init = { method, headers, body: body && JSON.stringify(body) }
  const response = await fetch(target.console_url + path, init)
  const text = await response.text()
  return text && JSON.parse(text)
}

/** Names that no other run has. */
function fresh(word) {
  return `${word} ${Date.now().toString(36)}${Math.random().toString(36).slice(2, 6)}`
}

async function project() {
  return (await call('GET', '/api/organizations/')).results[0].teams[0]
}

async function a_wrong_key_is_refused_and_a_link_survives_the_sign_in() {
  await inBrowser({}, async (page) => {
    const { id } = await project()
    await page.goto(`${target.console_url}/projects/${id}/events?period=7d`)
    await page.getByLabel('Personal key').fill('phx_wrong')
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.getByText('This key is not valid').waitFor()
    await page.getByLabel('Personal key').fill(target.personal_key)
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.getByRole('heading', { name: 'Events', exact: true }).waitFor()
    assert(page.url().endsWith(`/projects/${id}/events?period=7d`), page.url())
  })
}

async function a_first_event_turns_the_start_page_green_and_is_seen_live() {
  const { id } = await project()
  await signedIn(async (start) => {
    await start.goto(`${target.console_url}/projects/${id}/start`)
    const live = await start.context().newPage()
    await live.goto(`${target.console_url}/projects/${id}/live`)
    await live.getByText('connected', { exact: true }).waitFor()
    await start.getByRole('button', { name: 'Send a test event' }).click()
    const sentAt = Date.now()
    await live.locator('main table').getByText('test event').first().waitFor()
    const seenMs = Date.now() - sentAt
    assert(seenMs < SEEN_MS_MAX, `seen after ${seenMs} ms`)
    await start.getByText('An event arrived').waitFor()
    await live.locator('main table').getByText('stored', { exact: true }).first().waitFor()
  })
}

async function the_live_stream_is_filtered_by_its_address_and_paused_by_a_key() {
  const { id } = await project()
  await signedIn(async (page) => {
    await page.goto(`${target.console_url}/projects/${id}/live?event=nothing`)
    await page.getByText('connected', { exact: true }).waitFor()
    await page.getByRole('button', { name: 'Send a test event' }).click()
    await page.getByText('The test event was accepted.').waitFor()
    await page.getByText('No event that matches yet').waitFor()
    await page.getByRole('textbox', { name: 'Event', exact: true }).fill('test event')
    await page.getByRole('textbox', { name: 'Event', exact: true }).press('Enter')
    await page.waitForURL(/event=test/)
    await page.getByText('connected', { exact: true }).waitFor()
    await page.getByRole('button', { name: 'Send a test event' }).click()
    await page.locator('main table .open').first().waitFor()
    await page.locator('h1').click()
    await page.keyboard.press('Space')
    await page.getByRole('button', { name: /Go on/ }).waitFor()
    await page.getByRole('button', { name: 'Send a test event' }).click()
    await page.getByRole('button', { name: 'Go on (1 new)' }).click()
    await page.locator('main table .open').nth(1).waitFor()
    await page.locator('main table .open').first().click()
    await page.locator('.detail').getByText('sent_from').waitFor()
  })
}

async function a_rejected_event_is_edited_checked_and_sent_again() {
  const { id } = await project()
  const event = { event: 'mended', properties: { plan: 'team' } }
  const body = JSON.stringify({ api_key: target.project_api_key, batch: [event] })
  const headers = { 'Content-Type': 'application/json' }
  await fetch(`${target.ingest_url}/batch/`, { method: 'POST', headers, body })
  await signedIn(async (page) => {
    await page.goto(`${target.console_url}/projects/${id}/rejected`)
    const code = page.locator('main table .open').getByText('missing_distinct_id')
    while (!(await code.isVisible())) {
      await page.waitForTimeout(500)
      await page.reload()
      await page.locator('main table, main .empty').first().waitFor()
    }
    await code.click()
    await page.locator('main .events li a').first().click()
    const dialog = page.getByRole('dialog')
    const text = dialog.getByLabel('Event')
    const edited = {
      ...JSON.parse(await text.inputValue()),
      distinct_id: 'ada',
      timestamp: undefined,
    }
    await text.fill(JSON.stringify(edited))
    await dialog.getByRole('button', { name: 'Check' }).click()
    await dialog.getByText('1 event would be accepted').waitFor()
    await dialog.getByRole('button', { name: 'Send again' }).click()
    await dialog.getByText('1 event sent and stored').waitFor()
    await dialog.getByRole('button', { name: 'Close' }).click()
    await page.locator('main .events').getByText('resent').first().waitFor()
  })
}

/** Writes a query in place of the one in the editor, as people do. */
async function write(page, sql) {
  await page.getByRole('textbox', { name: 'Query', exact: true }).click()
  await page.keyboard.press('Control+A')
  await page.keyboard.type(sql)
}

async function a_query_is_charted_and_an_error_is_shown_where_it_is() {
  const { id } = await project()
  const sql = 'SELECT number AS n, number * 2 AS twice FROM numbers(20)'
  await signedIn(async (page) => {
    await page.goto(`${target.console_url}/projects/${id}/sql?q=${encodeURIComponent(sql)}`)
    await page.locator('.answer figure canvas').waitFor()
    await page.getByText('20 rows', { exact: true }).waitFor()
    await write(page, 'SELECT 1 FROM events WHERE (')
    await page.keyboard.press('Control+Enter')
    await page.locator('main [role=alert]').waitFor()
    await write(page, "SELECT 'shown' AS word")
    await page.keyboard.press('Control+Enter')
    await page.locator('.answer').getByText('shown', { exact: true }).waitFor()
  })
}

async function a_table_of_10_000_rows_scrolls_and_draws_what_is_seen() {
  const { id } = await project()
  const sql = 'SELECT number, toString(number) AS text FROM numbers(10000)'
  await signedIn(async (page) => {
    await page.goto(`${target.console_url}/projects/${id}/sql?q=${encodeURIComponent(sql)}`)
    const table = page.getByRole('region', { name: 'Answer of the query' })
    await table.locator('tbody tr').nth(5).waitFor()
    const frames = await table.evaluate(async (element) => {
      const times = []
      let before = performance.now()
      for (let step = 0; step < 120; step++) {
        element.scrollTop += 3_200
        const now = await new Promise((resolve) => requestAnimationFrame(resolve))
        times.push(now - before)
        before = now
      }
      return times.sort((one, other) => one - other)
    })
    const rows = await table.locator('tbody tr').count()
    console.log(`        frames while scrolling: median ${frames[60].toFixed(1)} ms, longest
        ${frames[119].toFixed(1)} ms; ${rows} rows of 10 000 are drawn`)
    assert(rows < 200, `${rows} rows are drawn`)
    await table.getByText('9999', { exact: true }).first().waitFor()
  })
}

async function a_project_a_key_and_an_invite_are_made_by_forms() {
  const { organization } = await project()
  const [name, label] = [fresh('Shop'), fresh('Key')]
  const email = `${fresh('ada').replace(' ', '.')}@example.com`
  await signedIn(async (page) => {
    await page.goto(`${target.console_url}/organizations/${organization}/projects`)
    await page.getByLabel('Name').fill(name)
    await page.getByRole('button', { name: 'Create' }).click()
    await page.getByRole('link', { name }).waitFor()
    await page.getByRole('link', { name: 'Your keys' }).click()
    await page.getByRole('button', { name: 'New key' }).click()
    await page.getByLabel('Label').fill(label)
    await page.getByRole('button', { name: 'Create' }).click()
    await page.getByText(/^phx_\w{40,}$/).waitFor()
    await page.getByRole('dialog').getByRole('button', { name: 'Close' }).click()
    await page.getByText(label).first().waitFor()
    await page.getByRole('link', { name: 'Invites' }).click()
    await page.getByLabel('E-mail address').fill(email)
    await page.getByRole('button', { name: 'Invite', exact: true }).click()
    await page.getByRole('table').getByText(email).waitFor()
  })
}

async function an_export_is_tested_made_and_paused_by_forms() {
  const { id } = await project()
  const name = fresh('Try')
  await signedIn(async (page) => {
    await page.goto(`${target.console_url}/projects/${id}/exports/new`)
    await page.getByLabel('Name', { exact: true }).fill(name)
    await page.getByLabel('Destination').selectOption('NoOp')
    await page.getByRole('button', { name: 'Test the destination' }).click()
    await page.getByRole('heading', { name: 'Test' }).waitFor()
    await page.getByRole('button', { name: 'Create the export' }).click()
    await page.getByRole('heading', { name }).waitFor()
    await page.getByRole('button', { name: 'Pause' }).click()
    await page.getByText('paused').waitFor()
    await page.getByRole('button', { name: 'Go on' }).click()
    await page.getByText('active').waitFor()
    await page.getByRole('button', { name: 'Delete' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click()
    await page.waitForURL(/\/exports$/)
  })
}

async function a_revoked_key_is_thrown_out() {
  const body = { label: fresh('Gone'), scopes: ['*'] }
  const key = await call('POST', '/api/personal_api_keys/', body)
  await inBrowser({ personalKey: key.value }, async (page) => {
    await page.goto(target.console_url)
    await page.getByRole('link', { name: 'Events', exact: true }).waitFor()
    await call('DELETE', `/api/personal_api_keys/${key.id}/`)
    // The page may have noticed by itself, and have no link any more.
    const link = page.getByRole('link', { name: 'Events', exact: true })
    await link.click({ timeout: 2_000 }).catch(() => {})
    await page.getByLabel('Personal key').waitFor()
  })
}

async function two_tenants_see_nothing_of_each_other() {
  if (!target.other_personal_key) return
  const { id } = await project()
  await inBrowser({ personalKey: target.other_personal_key }, async (page) => {
    for (const screen of ['home', 'live', 'sql', 'exports']) {
      await page.goto(`${target.console_url}/projects/${id}/${screen}`)
      await page.getByText('There is no such page').waitFor()
    }
    const theirs = page.locator(`#place option[value="p${id}"]`)
    assert((await theirs.count()) === 0, 'a project of others can be chosen')
  })
}

async function every_screen_passes_axe_in_light_and_dark() {
  const screens = await screensOf(target)
  const found = []
  for (const colorScheme of ['light', 'dark']) {
    await inBrowser({ personalKey: target.personal_key, colorScheme }, async (page) => {
      for (const screen of screens) {
        await goTo(page, target, screen)
        // The policy of the page allows no script of others, which the browser's own debugger may run.
        await page.evaluate(axe.source)
        const { violations } = await page.evaluate(() => window.axe.run())
        for (const { id, impact, nodes } of violations) {
          if (!['serious', 'critical'].includes(impact)) continue
          const where = nodes.slice(0, 3).map((node) => `${node.html} ${node.failureSummary}`)
          found.push(`${screen.name} ${colorScheme}: ${id}\n    ${where.join('\n    ')}`)
        }
      }
    })
  }
  assert(found.length === 0, found.join('\n'))
}

async function screens_are_reached_by_keyboard() {
  await signedIn(async (page) => {
    await page.goto(target.console_url)
    await page.getByRole('link', { name: 'Events', exact: true }).waitFor()
    for (const [key, title] of [
      ['r', 'Rejected'],
      ['x', 'Exports'],
      ['p', 'Persons'],
    ]) {
      await page.keyboard.press('g')
      await page.keyboard.press(key)
      await page.getByRole('heading', { name: title, exact: true }).waitFor()
    }
    await page.keyboard.press('/')
    await page.keyboard.type('ada')
    await page.keyboard.press('Enter')
    await page.waitForURL(/search=ada/)
    await page.locator('h1').click()
    await page.keyboard.press('?')
    await page.getByRole('dialog', { name: 'Keyboard' }).waitFor()
    await page.keyboard.press('Escape')
    await page.getByRole('dialog').waitFor({ state: 'detached' })
  })
}
