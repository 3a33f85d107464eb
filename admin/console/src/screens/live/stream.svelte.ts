// Live stream of a project as state of its screen.

import type { CallFailure } from '../../api/client'
import { watch, type LiveFilter } from '../../api/live'
import type { LiveEvent, LiveRate } from '../../api/types'
import { LiveBuffer } from './buffer'

/** Time between two drawings, however many events come meanwhile. */
const DRAW_MS = 150

export type StreamState = 'connecting' | 'open' | 'broken'

export class LiveStream {
  rows = $state.raw<LiveEvent[]>([])
  rate = $state.raw<LiveRate | null>(null)
  state = $state<StreamState>('connecting')
  failure = $state.raw<CallFailure | null>(null)
  isPaused = $state(false)
  /** Events that came since the pause began. */
  waiting = $state(0)
  /** Events that the server sent and the connection had no capacity for. */
  dropped = $state(0)
  #buffer = new LiveBuffer()
  #drawn = 0
  #timer: ReturnType<typeof setTimeout> | null = null

  /** Watches until the returned function is called. */
  open(projectId: number, filter: LiveFilter): () => void {
    const controller = new AbortController()
    this.clear()
    this.state = 'connecting'
    this.failure = null
    const receiver = {
      opened: () => (this.state = 'open'),
      event: (event: LiveEvent) => void (this.#buffer.add(event) && this.#draw()),
      stored: (ids: string[]) => (this.#buffer.store(ids), this.#draw()),
      rate: (rate: LiveRate) => ((this.rate = rate), (this.dropped += rate.dropped)),
      broken: (failure: CallFailure | null) => {
        this.state = 'broken'
        this.failure = failure
      },
    }
    void watch(projectId, filter, receiver, controller.signal)
    return () => {
      controller.abort()
      if (this.#timer !== null) clearTimeout(this.#timer)
      this.#timer = null
    }
  }

  clear(): void {
    this.#buffer.clear()
    this.rows = []
    this.rate = null
    this.waiting = this.dropped = 0
    this.#drawn = this.#buffer.arrived
  }

  togglePause(): void {
    this.isPaused = !this.isPaused
    this.#show()
  }

  #draw(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = null
      this.#show()
    }, DRAW_MS)
  }

  #show(): void {
    if (this.isPaused) {
      this.waiting = this.#buffer.arrived - this.#drawn
      return
    }
    this.rows = this.#buffer.newestFirst()
    this.#drawn = this.#buffer.arrived
    this.waiting = 0
  }
}
