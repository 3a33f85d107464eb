import { expect, it } from 'vitest'
import { visible } from './windowing'

it.each([
  [0, 0, { from: 0, to: 0, above: 0, below: 0 }],
  [5, 0, { from: 0, to: 5, above: 0, below: 0 }],
  [10_000, 0, { from: 0, to: 32, above: 0, below: 299_040 }],
  [10_000, 30_000, { from: 988, to: 1_032, above: 29_640, below: 269_040 }],
  [10_000, 999_999, { from: 9_987, to: 10_000, above: 299_610, below: 0 }],
])('of %i rows at %i pixels a view has its part', (count, top, expected) => {
  expect(visible(count, 30, top, 600)).toEqual(expected)
})
