// Forms of destinations, out of the schemas of the server's document: new fields need no change here.

/** Part of a JSON schema that a form looks at. */
interface Schema {
  $ref?: string
  type?: string | string[]
  enum?: unknown[]
  const?: unknown
  default?: unknown
  description?: string
  examples?: unknown[]
  properties?: Record<string, Schema>
  required?: string[]
  oneOf?: Schema[]
  writeOnly?: boolean
  items?: Schema
}

export interface Document {
  components: { schemas: Record<string, Schema> }
}

export type FieldKind = 'text' | 'long' | 'secret' | 'number' | 'choice' | 'truth' | 'list'

/** Field of a destination's form. */
export interface FormField {
  name: string
  kind: FieldKind
  label: string
  hint: string
  example: string
  choices: string[]
  isRequired: boolean
}

/** Kind of destination, with its fields, the required ones first. */
export interface DestinationForm {
  type: string
  description: string
  fields: FormField[]
}

const LONG = /json|key_file|certificate|private_key|service_account/i

/** Forms of all destinations that a document has. */
export function destinationForms(document: Document): DestinationForm[] {
  const variants = document.components.schemas.NewBatchExportDestination?.oneOf ?? []
  return variants.map((variant) => {
    const schema = resolved(document, variant)
    const config = resolved(document, schema.properties?.config ?? {})
    const required = new Set(config.required)
    const fields = Object.entries(config.properties ?? {}).map(([name, field]) =>
      formField(name, resolved(document, field), required.has(name)),
    )
    return {
      type: String(schema.properties?.type?.const ?? ''),
      description: firstSentence(schema.description ?? ''),
      fields: fields.sort((one, other) => Number(other.isRequired) - Number(one.isRequired)),
    }
  })
}

/** Config of a destination as the API takes it; empty fields are left out. */
export function configOf(form: DestinationForm, values: Record<string, string>): object {
  const config: Record<string, unknown> = {}
  for (const { name, kind } of form.fields) {
    const text = values[name]?.trim() ?? ''
    if (text === '') continue
    if (kind === 'number') config[name] = Number(text)
    else if (kind === 'truth') config[name] = text === 'true'
    else if (kind === 'list') config[name] = text.split('\n').filter(Boolean)
    else config[name] = text
  }
  return config
}

function formField(name: string, schema: Schema, isRequired: boolean): FormField {
  const types = [schema.type ?? []].flat()
  const choices = (schema.enum ?? []).filter((one) => one !== null).map(String)
  const example = schema.default ?? schema.examples?.[0] ?? ''
  return {
    name,
    kind: kindOf(name, schema, types, choices),
    label: words(name),
    hint: schema.description ?? '',
    example: typeof example === 'object' ? JSON.stringify(example) : String(example),
    choices,
    isRequired,
  }
}

function kindOf(name: string, schema: Schema, types: string[], choices: string[]): FieldKind {
  if (choices.length > 0) return 'choice'
  if (types.includes('boolean')) return 'truth'
  if (types.includes('array')) return 'list'
  if (types.includes('integer') || types.includes('number')) return 'number'
  if (LONG.test(name)) return 'long'
  return schema.writeOnly ? 'secret' : 'text'
}

function resolved(document: Document, schema: Schema): Schema {
  const name = schema.$ref?.split('/').at(-1)
  return name === undefined ? schema : (document.components.schemas[name] ?? {})
}

function words(name: string): string {
  const text = name.replaceAll('_', ' ')
  return text.charAt(0).toUpperCase() + text.slice(1)
}

function firstSentence(text: string): string {
  return /^.*?\.(?=\s|$)/.exec(text)?.[0] ?? text
}
