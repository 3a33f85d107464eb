// Every screen with its address, and what brings it into the state of a picture or a check.

/** Screens of the first project of whoever owns the key. */
export async function screensOf(target) {
  const read = async (path) => {
    const headers = { Authorization: `Bearer ${target.personal_key}` }
    return (await fetch(target.console_url + path, { headers })).json()
  }
  const [organization] = (await read('/api/organizations/')).results
  const project = organization.teams[0]
  const exports = (await read(`/api/organizations/${organization.id}/batch_exports/`)).results
  const [of, all] = [`/projects/${project.id}`, `/organizations/${organization.id}`]
  const query = encodeURIComponent('SELECT nope FROM events')
  return [
    { name: 'home', path: `${of}/home`, ready: 'main .figure' },
    { name: 'start', path: `${of}/start`, ready: '#snippet pre' },
    { name: 'live', path: `${of}/live`, prepare: sendSome },
    { name: 'live-open', path: `${of}/live`, prepare: both(sendSome, openFirst) },
    { name: 'live-empty', path: `${of}/live?event=nothing`, ready: 'main .empty' },
    { name: 'rejected', path: `${of}/rejected`, ready: 'main table' },
    { name: 'rejected-open', path: `${of}/rejected`, prepare: openFirst },
    { name: 'rejected-event', path: `${of}/rejected`, prepare: both(openFirst, openEvent) },
    { name: 'events', path: `${of}/events`, ready: 'main table' },
    { name: 'events-open', path: `${of}/events`, prepare: openFirst },
    { name: 'persons', path: `${of}/persons`, ready: 'main table' },
    { name: 'persons-open', path: `${of}/persons`, prepare: openFirst },
    { name: 'sql', path: `${of}/sql`, prepare: runQuery },
    { name: 'sql-error', path: `${of}/sql?q=${query}`, ready: 'main .notice' },
    { name: 'imports', path: `${of}/imports`, ready: 'main pre' },
    { name: 'exports', path: `${of}/exports`, ready: 'main table, main .empty' },
    { name: 'exports-new', path: `${of}/exports/new`, ready: 'main form' },
    ...exports.slice(0, 1).map(({ id }) => ({
      name: 'exports-one',
      path: `${of}/exports/${id}`,
      ready: 'main dl',
    })),
    { name: 'members', path: `${all}/members`, ready: 'main table' },
    { name: 'invites', path: `${all}/invites`, ready: 'main form' },
    { name: 'projects', path: `${all}/projects`, ready: 'main table' },
    { name: 'keys', path: `${all}/keys`, ready: 'main table' },
    { name: 'domains', path: `${all}/domains`, ready: 'main form' },
    { name: 'activity', path: `${all}/activity`, ready: 'main table, main .empty' },
    { name: 'operator', path: '/operator', ready: 'main section' },
    { name: 'unknown', path: `${of}/nowhere`, ready: 'main .empty' },
  ]
}

/** Brings a page to a screen. */
export async function goTo(page, target, screen) {
  await page.goto(target.console_url + screen.path)
  if (screen.ready) await page.locator(screen.ready).first().waitFor()
  await screen.prepare?.(page)
  await page.waitForFunction(() => !document.querySelector('main .loading, dialog .loading'))
}

function both(first, second) {
  return async (page) => (await first(page), await second(page))
}

async function openFirst(page) {
  await page.locator('main table .open').first().click()
}

async function openEvent(page) {
  await page.locator('main .events li a').first().click()
  await page.locator('dialog textarea').waitFor()
}

async function sendSome(page) {
  const button = page.getByRole('button', { name: 'Send a test event' })
  await page.getByText('connected', { exact: true }).waitFor()
  for (let count = 0; count < 3; count++) await button.click()
  await page.locator('main table .open').first().waitFor()
}

async function runQuery(page) {
  await page.getByRole('button', { name: 'Run', exact: true }).click()
  await page.locator('main .answer .scroll table').waitFor()
}
