import { expect, it } from 'vitest'
import { bytes, compact, count, counted, percent, rate } from './number'

it.each([
  [count(12345), '12,345'],
  [compact(9999), '9,999'],
  [compact(12345), '12.3K'],
  [compact(5_600_000), '5.6M'],
  [counted(1, 'event'), '1 event'],
  [counted(0, 'entry', 'entries'), '0 entries'],
  [bytes(0), '0 B'],
  [bytes(1023), '1023 B'],
  [bytes(1536), '1.5 KiB'],
  [bytes(200 * 1024 * 1024), '200 MiB'],
  [percent(0, 0), '0 %'],
  [percent(1, 1_000_000), '< 0.01 %'],
  [percent(1, 250), '0.4 %'],
  [percent(1, 3), '33.3 %'],
  [percent(2, 2), '100 %'],
  [rate(0), '0/s'],
  [rate(0.4567), '0.46/s'],
  [rate(12_345), '12.3K/s'],
])('%s is written as %s', (written, expected) => {
  expect(written).toBe(expected)
})
