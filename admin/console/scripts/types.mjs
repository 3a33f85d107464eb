// Writes src/api/schema.d.ts: types of the operations that the pages call, out of the server's
// OpenAPI document. `npm run types -- http://127.0.0.1:8010/api/schema/` (or a file) renews them;
// with `--check` it fails if they are not current.
import openapi, { astToString } from 'openapi-typescript'
import { readFile, writeFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'

// Operations that no page calls are left out, as their types are longer than the pages.
const LEFT_OUT = [/plugin/, /pipeline/, /proxy_record/, /role/, /^\/api\/projects\/.*batch_exports/]
const METHODS = ['get', 'post', 'patch', 'delete']
const ERROR = {
  description: '',
  content: { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } },
}
const target = fileURLToPath(new URL('../src/api/schema.d.ts', import.meta.url))

const options = process.argv.slice(2)
const place = options.find((option) => !option.startsWith('--'))
if (!place) throw new Error('Name the address or file of the OpenAPI document.')
const text = /^https?:/.test(place)
  ? await (await fetch(place)).text()
  : await readFile(place, 'utf8')
const types = astToString(await openapi(reduced(JSON.parse(text))))

if (options.includes('--check')) {
  if ((await readFile(target, 'utf8')) !== types) {
    throw new Error('src/api/schema.d.ts is not current: run `npm run types -- <document>`.')
  }
} else {
  await writeFile(target, types)
}

/** Document with the operations that pages call, and the components that these need. */
function reduced(document) {
  const paths = {}
  for (const [path, methods] of Object.entries(document.paths)) {
    if (LEFT_OUT.some((pattern) => pattern.test(path))) continue
    const kept = Object.entries(methods).filter(([method]) => METHODS.includes(method))
    paths[path] = Object.fromEntries(kept.map(([method, operation]) => [method, plain(operation)]))
  }
  const components = {}
  const found = [paths]
  for (let part = found.pop(); part !== undefined; part = found.pop()) {
    for (const [, kind, name] of JSON.stringify(part).matchAll(
      /"#\/components\/(\w+)\/([^"]+)"/g,
    )) {
      components[kind] ??= {}
      if (name in components[kind]) continue
      components[kind][name] = document.components[kind][name]
      found.push(components[kind][name])
    }
  }
  return { openapi: document.openapi, info: document.info, paths, components }
}

/** Operation without its errors, which all have one body, and without long texts. */
function plain(operation) {
  const answers = Object.entries(operation.responses).filter(([status]) => status < '300')
  const responses = answers.map(([status, { content }]) => [status, { description: '', content }])
  return {
    operationId: operation.operationId,
    parameters: operation.parameters,
    requestBody: operation.requestBody,
    responses: Object.fromEntries([...responses, ['default', ERROR]]),
  }
}
