import { expect, it } from 'vitest'
import { ago, duration, exactTimeOfDay, ofClickHouse, ofInput } from './time'

const now = new Date('2026-11-29T12:00:00Z')

it.each([
  ['2026-11-29T12:00:00Z', 'now'],
  ['2026-11-29T11:59:15Z', '45 seconds ago'],
  ['2026-11-29T11:00:01Z', '59 minutes ago'],
  ['2026-11-28T12:00:00Z', 'yesterday'],
  ['2026-11-29T15:00:00Z', 'in 3 hours'],
  ['2024-11-29T12:00:00Z', '2 years ago'],
])('%s is %s', (at, expected) => {
  expect(ago(new Date(at), now)).toBe(expected)
})

it.each([
  [850, '850 ms'],
  [2_500, '2.5 s'],
  [61_000, '61 s'],
  [600_000, '10 min'],
  [86_400_000, '24 h'],
  [432_000_000, '5 days'],
])('%i ms are %s', (ms, expected) => {
  expect(duration(ms)).toBe(expected)
})

it('reads times of ClickHouse as UTC', () => {
  expect(ofClickHouse('2026-11-29 12:00:00.000000').getTime()).toBe(now.getTime())
})

it('reads empty inputs as no time', () => {
  expect(ofInput('')).toBeUndefined()
  expect(ofInput('2026-11-29T12:00')).toMatch(/^2026-11-/)
})

it('shows milliseconds with three digits', () => {
  expect(exactTimeOfDay(new Date(2026, 10, 29, 12, 0, 0, 7))).toBe('12:00:00.007')
})
