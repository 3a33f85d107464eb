import { expect, it } from 'vitest'
import { snippets } from './snippets'

it('names the address and the key of the project in each snippet', () => {
  const made = snippets('https://in.example.com', 'phc_key')
  expect(made.map((snippet) => snippet.id)).toEqual(['curl', 'python', 'node', 'browser'])
  for (const { code } of made) {
    expect(code).toContain('https://in.example.com')
    expect(code).toContain('phc_key')
  }
})
