// Tables and columns of a project, for completion.

import { rowsOf } from '../../api/query'

/** Columns by table. */
export type QuerySchema = Record<string, string[]>

const SQL =
  "SELECT table, name FROM system.columns WHERE database = currentDatabase() AND table != 'tokens' ORDER BY table, position"

/** Reads the tables that a query may name; `tokens` is the engine's own. */
export async function schemaOf(projectId: number, signal: AbortSignal): Promise<QuerySchema> {
  const rows = await rowsOf<{ table: string; name: string }>(projectId, SQL, signal)
  const schema: QuerySchema = {}
  for (const { table, name } of rows) (schema[table] ??= []).push(name)
  return schema
}
