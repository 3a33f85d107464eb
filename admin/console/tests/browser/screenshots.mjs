// Makes a picture of every screen, light, dark and on a phone, in the folder that is named; a second
// word chooses screens by a part of their names, a third one kinds.

import { mkdirSync } from 'node:fs'
import { open } from './browser.mjs'
import { goTo, screensOf } from './screens.mjs'

const KINDS = {
  light: { colorScheme: 'light', viewport: { width: 1280, height: 860 } },
  dark: { colorScheme: 'dark', viewport: { width: 1280, height: 860 } },
  phone: { colorScheme: 'light', viewport: { width: 390, height: 844 }, hasTouch: true },
}

const [folder = 'screenshots', name = '', kinds = Object.keys(KINDS).join()] = process.argv.slice(2)
const target = JSON.parse(process.env.MILLRACE_CONSOLE)
mkdirSync(folder, { recursive: true })
const screens = (await screensOf(target)).filter((screen) => screen.name.match(name))
for (const kind of kinds.split(',')) {
  const { browser, page, faults } = await open({ personalKey: target.personal_key, ...KINDS[kind] })
  for (const screen of screens) {
    await goTo(page, target, screen).catch((error) => faults.push(`${screen.name}: ${error}`))
    await page.waitForTimeout(400)
    await page.screenshot({ path: `${folder}/${screen.name}-${kind}.png`, fullPage: true })
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)
    if (wide > 0) faults.push(`${screen.name} is ${wide} pixels too wide`)
  }
  for (const fault of faults) console.log(`${kind}: ${fault}`)
  await browser.close()
}
