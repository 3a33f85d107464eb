// The last events of a live stream.

import type { LiveEvent } from '../../api/types'

/** Events that are kept; older ones go. */
export const KEPT_MAX = 100_000
/** Bytes of events that are kept. */
export const KEPT_BYTES_MAX = 64 << 20
/** Bytes of an event up to which the stream has its properties. */
const SHOWN_BYTES_MAX = 16 << 10
/** Share by which the buffer may be larger before the oldest go, so that few calls move them. */
const SPARE = 1.1

/** Events in the order of their arrival. Changed events are new objects. */
export class LiveBuffer {
  #events: LiveEvent[] = []
  /** Number of the first event that is kept, counted over all that came. */
  #first = 0
  #places = new Map<string, number>()
  #bytes = 0

  get length(): number {
    return this.#events.length
  }

  /** Number of events that came, counted over the whole stream. */
  get arrived(): number {
    return this.#first + this.#events.length
  }

  /** Adds an event, unless it is there: a stream that comes back shows some again. */
  add(event: LiveEvent): boolean {
    if (this.#places.has(event.id)) return false
    this.#places.set(event.id, this.arrived)
    this.#events.push(event)
    this.#bytes += sizeOf(event)
    const isFull = this.#bytes > KEPT_BYTES_MAX * SPARE
    if (isFull || this.#events.length > KEPT_MAX * SPARE) this.#trim()
    return true
  }

  /** Marks events as stored in ClickHouse. */
  store(ids: readonly string[]): void {
    for (const id of ids) {
      const index = (this.#places.get(id) ?? -1) - this.#first
      const event = this.#events[index]
      if (event) this.#events[index] = { ...event, fate: 'stored' }
    }
  }

  /** Events, the newest first. */
  newestFirst(): LiveEvent[] {
    return this.#events.slice(-KEPT_MAX).reverse()
  }

  clear(): void {
    this.#first += this.#events.length
    this.#events = []
    this.#places.clear()
    this.#bytes = 0
  }

  #trim(): void {
    let count = 0
    for (const event of this.#events) {
      if (this.#events.length - count <= KEPT_MAX && this.#bytes <= KEPT_BYTES_MAX) break
      this.#places.delete(event.id)
      this.#bytes -= sizeOf(event)
      count += 1
    }
    this.#events.splice(0, count)
    this.#first += count
  }
}

/** Bytes of an event as it is shown. */
function sizeOf(event: LiveEvent): number {
  return Math.min(event.bytes, SHOWN_BYTES_MAX)
}
