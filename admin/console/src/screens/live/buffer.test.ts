import { describe, expect, it } from 'vitest'
import type { LiveEvent } from '../../api/types'
import { KEPT_BYTES_MAX, KEPT_MAX, LiveBuffer } from './buffer'

const event = (id: string) => ({ id, fate: 'logged', event: id, bytes: 100 }) as LiveEvent

describe('the buffer of a live stream', () => {
  it('shows the newest event first, and each once', () => {
    const buffer = new LiveBuffer()
    expect(['1-a', '2-a', '1-a'].map((id) => buffer.add(event(id)))).toEqual([true, true, false])
    expect(buffer.newestFirst().map((one) => one.id)).toEqual(['2-a', '1-a'])
  })

  it('replaces an event that is stored, so that its row is drawn anew', () => {
    const buffer = new LiveBuffer()
    const first = event('1-a')
    buffer.add(first)
    buffer.store(['1-a', '9-z'])
    expect(buffer.newestFirst()[0]).toMatchObject({ id: '1-a', fate: 'stored' })
    expect(first.fate).toBe('logged')
  })

  it('keeps the last events, and finds them after older ones went', () => {
    const buffer = new LiveBuffer()
    const count = KEPT_MAX + 10_002
    for (let number = 0; number < count; number++) buffer.add(event(`${number}-a`))
    expect(buffer.arrived).toBe(count)
    expect(buffer.newestFirst()).toHaveLength(KEPT_MAX)
    buffer.store([`${count - 1}-a`, '0-a'])
    expect(buffer.newestFirst()[0]?.fate).toBe('stored')
  })

  it('keeps fewer events if they are large', () => {
    const buffer = new LiveBuffer()
    const large = 16 << 10
    for (let number = 0; number < 9_000; number++) {
      buffer.add({ ...event(`${number}-a`), bytes: large * (number % 2 ? 1 : 9) })
    }
    expect(buffer.length).toBeGreaterThanOrEqual(KEPT_BYTES_MAX / large)
    expect(buffer.length).toBeLessThan((KEPT_BYTES_MAX / large) * 1.1 + 1)
    expect(buffer.newestFirst()[0]?.id).toBe('8999-a')
  })

  it('counts on after it was cleared', () => {
    const buffer = new LiveBuffer()
    buffer.add(event('1-a'))
    buffer.clear()
    buffer.add(event('2-a'))
    buffer.store(['2-a'])
    expect([buffer.length, buffer.arrived]).toEqual([1, 2])
    expect(buffer.newestFirst()[0]?.fate).toBe('stored')
  })
})
