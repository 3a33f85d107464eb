// Part of a long list that is on the screen.

/** Rows to draw, and the heights in their place above and below, in pixels. */
export interface Window {
  from: number
  to: number
  above: number
  below: number
}

/** Rows beyond the edges, so that scrolling shows no gap. */
const MARGIN = 12

/** Rows of `count` that a view of `height` pixels shows when it is scrolled to `top`. */
export function visible(count: number, row: number, top: number, height: number): Window {
  const first = Math.max(0, Math.min(count - 1, Math.floor(top / row)))
  const from = Math.max(0, first - MARGIN)
  const to = Math.min(count, first + Math.ceil(height / row) + MARGIN)
  return { from, to, above: from * row, below: (count - to) * row }
}
