import { describe, expect, it } from 'vitest'
import type { EventStats } from '../api/types'
import { linesOf, stepsOf, sumOf } from './series'

const counts = { accepted: 0, rejected: 0, historical: 0, bytes: 0 }
const stats: EventStats = {
  step: 'hour',
  after: '2026-11-29T10:00:00Z',
  before: '2026-11-29T13:00:00Z',
  since: '2026-11-01T00:00:00Z',
  accepted_until: '2026-11-29T13:00:00Z',
  rejected_until: '2026-11-29T13:00:00Z',
  totals: counts,
  results: [
    { ...counts, at: '2026-11-29T10:00:00Z', name: 'a', accepted: 1 },
    { ...counts, at: '2026-11-29T12:00:00Z', name: 'b', accepted: 5 },
    { ...counts, at: '2026-11-29T12:00:00Z', name: null, accepted: 2, rejected: 3 },
    { ...counts, at: '2026-11-28T12:00:00Z', name: 'a', accepted: 100 },
  ],
}

describe('sums by time', () => {
  it('have a step for each hour, also for those without events', () => {
    expect(stepsOf(stats)).toHaveLength(3)
    expect(sumOf(stats, 'accepted')).toEqual([1, 0, 7])
  })

  it('are a line a group, the largest first', () => {
    expect(linesOf(stats, 'accepted', 'others')).toEqual([
      { label: 'b', values: [0, 0, 5] },
      { label: 'others', values: [0, 0, 2] },
      { label: 'a', values: [1, 0, 0] },
    ])
    expect(linesOf(stats, 'accepted', 'others', 1)).toHaveLength(1)
    expect(linesOf(stats, 'rejected', 'others')).toEqual([{ label: 'others', values: [0, 0, 3] }])
  })
})
