import { expect, it } from 'vitest'
import { curlOfCall, curlOfEvent, quoted } from './curl'

it('quotes what a shell would change', () => {
  expect(quoted(`it's $HOME`)).toBe(`'it'\\''s $HOME'`)
})

it('writes a read without its method', () => {
  expect(curlOfCall('http://a/api/')).toBe(
    `curl 'http://a/api/' \\\n  -H "Authorization: Bearer $PERSONAL_KEY"`,
  )
})

it('writes a change with its method and body', () => {
  const command = curlOfCall('http://a/', 'POST', { name: 'x' })
  expect(command).toContain("curl -X POST 'http://a/'")
  expect(command).toContain(`-d '{"name":"x"}'`)
})

it('writes an event with the key of its project', () => {
  const command = curlOfEvent('http://in', 'phc_a', { event: 'e' })
  expect(command).toContain(`-d '{"api_key":"phc_a","batch":[{"event":"e"}]}'`)
})
