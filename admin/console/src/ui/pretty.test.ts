import { expect, it } from 'vitest'
import { inCell, pretty } from './pretty'

it.each([
  ['{"a":1}', '{\n  "a": 1\n}'],
  ['{"a":', '{"a":'],
  [{ a: 1 }, '{\n  "a": 1\n}'],
])('%j is indented if it is JSON', (value, expected) => {
  expect(pretty(value)).toBe(expected)
})

it.each([
  [null, '–'],
  ['', ''],
  [0, '0'],
  [{ a: [1] }, '{"a":[1]}'],
])('%j is a line in a cell', (value, expected) => {
  expect(inCell(value)).toBe(expected)
})
