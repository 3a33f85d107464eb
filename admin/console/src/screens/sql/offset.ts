// Positions in a query.

/** Offset in a text of a position that ClickHouse tells, in bytes from 1. */
export function offsetOf(text: string, position: number): number {
  const bytes = new TextEncoder().encode(text).subarray(0, Math.max(0, position - 1))
  return new TextDecoder().decode(bytes).length
}
