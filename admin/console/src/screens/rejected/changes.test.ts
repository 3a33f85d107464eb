import { describe, expect, it } from 'vitest'
import { changesOf, objectOf, valueOf } from './changes'

describe('an edited event', () => {
  const before = { event: '', distinct_id: 'ada', properties: { plan: 'pro', n: 1 } }

  it.each([
    ['nothing changed', before, { set: {}, drop: [] }],
    ['a field was set', { ...before, event: 'e' }, { set: { event: 'e' }, drop: [] }],
    [
      'a field was dropped',
      { event: '', properties: before.properties },
      { set: {}, drop: ['distinct_id'] },
    ],
    [
      'properties changed one by one',
      { ...before, properties: { plan: 'team', more: [1] } },
      { set: { 'properties.plan': 'team', 'properties.more': [1] }, drop: ['properties.n'] },
    ],
    [
      'properties became no object',
      { ...before, properties: 'none' },
      { set: { properties: 'none' }, drop: [] },
    ],
  ])('has the changes if %s', (_, after, expected) => {
    expect(changesOf(before, after)).toEqual(expected)
  })
})

it.each([
  ['{"a":1}', { a: 1 }],
  ['[1]', null],
  ['null', null],
  ['{"a":', null],
])('%s is an object or none', (json, expected) => {
  expect(objectOf(json)).toEqual(expected)
})

it.each([
  ['7', 7],
  ['true', true],
  ['"7"', '7'],
  ['signed up', 'signed up'],
  ['', ''],
])('%s is read as a value', (text, expected) => {
  expect(valueOf(text)).toEqual(expected)
})
