import { describe, expect, it } from 'vitest'
import { chartOf } from './chart'
import { offsetOf } from './offset'

const column = (name: string, type: string) => ({ name, type })
const HOURS = ['2026-11-29 10:00:00', '2026-11-29 11:00:00']
const TEN = Date.parse('2026-11-29T10:00:00Z') / 1_000

describe('the chart of an answer', () => {
  it('has lines over a time, whatever the order of rows', () => {
    const columns = [column('t', "DateTime('UTC')"), column('n', 'UInt64'), column('m', 'Float64')]
    const chart = chartOf(columns, [
      [HOURS[1], '2', 3.5],
      [HOURS[0], 1, null],
    ])
    expect(chart).toMatchObject({ at: [TEN, TEN + 3_600], isTime: true, isBars: false })
    expect(chart?.series).toEqual([
      { label: 'n', values: [1, 2] },
      { label: 'm', values: [null, 3.5] },
    ])
  })

  it('has a line for each text of a second column', () => {
    const columns = [
      column('d', 'Date'),
      column('e', 'LowCardinality(String)'),
      column('n', 'UInt64'),
    ]
    const chart = chartOf(columns, [
      ['2026-11-29', 'a', 1],
      ['2026-11-29', 'b', 2],
      ['2026-11-30', 'a', 3],
    ])
    expect(chart?.series).toEqual([
      { label: 'a', values: [1, 3] },
      { label: 'b', values: [2, null] },
    ])
  })

  it('has bars for texts', () => {
    const columns = [column('e', 'String'), column('n', 'Nullable(UInt64)')]
    const chart = chartOf(columns, [
      ['a', 1],
      ['b', 2],
    ])
    expect(chart).toMatchObject({ isBars: true, labels: ['a', 'b'], at: [0, 1] })
  })

  it.each([
    ['one row', [column('t', 'Date'), column('n', 'UInt8')], [['2026-11-29', 1]]],
    [
      'no numbers',
      [column('a', 'String'), column('b', 'String')],
      [
        ['a', 'b'],
        ['c', 'd'],
      ],
    ],
    ['one column', [column('n', 'UInt64')], [[1], [2]]],
    [
      'many texts',
      [column('e', 'String'), column('n', 'UInt8')],
      Array.from({ length: 41 }, () => ['e', 1]),
    ],
  ])('is left out for %s', (_, columns, rows) => {
    expect(chartOf(columns, rows)).toBeNull()
  })
})

it.each([
  ['SELECT x', 8, 7],
  ["SELECT 'ä', x", 13, 11],
  ['', 1, 0],
])('in %s byte %i is at %i', (text, position, expected) => {
  expect(offsetOf(text, position)).toBe(expected)
})
