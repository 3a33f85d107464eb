import { describe, expect, it } from 'vitest'
import { CallFailure, failureOf, isAbort, unreachable } from './failure'

describe('a failure', () => {
  it('has the words of the API', () => {
    const headers = { 'x-request-id': 'r1', 'retry-after': '7' }
    const body = { code: 'query_failed', detail: 'No.', attr: 'query', clickhouse: { position: 3 } }
    const failure = failureOf(new Response(null, { status: 400, headers }), body)
    expect(failure).toMatchObject({
      status: 400,
      code: 'query_failed',
      message: 'No.',
      attr: 'query',
      requestId: 'r1',
      position: 3,
      retryAfterSeconds: 7,
    })
  })

  it.each([null, 'no JSON', {}, { detail: 5 }])('tells the status if the body is %j', (body) => {
    const failure = failureOf(new Response(null, { status: 502 }), body)
    expect(failure.message).toContain('502')
    expect(failure.position).toBeNull()
  })

  it('of a connection tells what to check', () => {
    expect(unreachable(new TypeError('Failed to fetch')).code).toBe('unreachable')
    const known = new CallFailure(404, 'not_found', 'There is none.')
    expect(unreachable(known)).toBe(known)
  })

  it('is none if the call was aborted', () => {
    expect(isAbort(new DOMException('', 'AbortError'))).toBe(true)
    expect(isAbort(new Error('AbortError'))).toBe(false)
  })
})
