import { describe, expect, it } from 'vitest'
import { configOf, destinationForms, type Document } from './form'

const document: Document = {
  components: {
    schemas: {
      NewBatchExportDestination: { oneOf: [{ $ref: '#/components/schemas/NewDisk' }] },
      NewDisk: {
        description: 'Files. And more of them.',
        properties: {
          type: { const: 'Disk' },
          config: { $ref: '#/components/schemas/DiskConfig' },
        },
      },
      DiskConfig: {
        required: ['path'],
        properties: {
          compression: { type: ['string', 'null'], enum: ['gzip', null] },
          include_events: { type: ['array', 'null'], items: { type: 'string' } },
          is_new: { type: 'boolean', default: false },
          max_file_size_mb: { type: ['integer', 'null'], examples: [512] },
          password: { type: 'string', writeOnly: true },
          path: { type: 'string', description: 'Folder.' },
          service_account_key: { type: 'string', writeOnly: true },
        },
      },
    },
  },
}

describe('the form of a destination', () => {
  const [form] = destinationForms(document)

  it('has a field for each of the schema, required ones first', () => {
    expect(form).toMatchObject({ type: 'Disk', description: 'Files.' })
    expect(form?.fields.map(({ name, kind }) => [name, kind])).toEqual([
      ['path', 'text'],
      ['compression', 'choice'],
      ['include_events', 'list'],
      ['is_new', 'truth'],
      ['max_file_size_mb', 'number'],
      ['password', 'secret'],
      ['service_account_key', 'long'],
    ])
    expect(form?.fields[1]?.choices).toEqual(['gzip'])
    expect(form?.fields[4]?.example).toBe('512')
  })

  it('makes a config of texts, without what is empty', () => {
    const values = { path: ' a/b ', max_file_size_mb: '5', is_new: 'true', compression: '' }
    const config = configOf(form!, { ...values, include_events: 'a\nb\n' })
    expect(config).toEqual({
      path: 'a/b',
      max_file_size_mb: 5,
      is_new: true,
      include_events: ['a', 'b'],
    })
  })
})
