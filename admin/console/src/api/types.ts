// Names of the API's types that pages use.

import type { components } from './schema'

type Schemas = components['schemas']

export type Organization = Schemas['Organization']
export type Project = Schemas['Project']
export type ProjectItem = Schemas['ProjectItem']
export type Member = Schemas['OrganizationMember']
export type Invite = Schemas['OrganizationInvite']
export type PersonalKey = Schemas['PersonalAPIKey']
export type Domain = Schemas['OrganizationDomain']
export type ActivityEntry = Schemas['ActivityLogEntry']
export type BatchExport = Schemas['BatchExport']
export type BatchExportRun = Schemas['BatchExportRun']
export type RunStatus = Schemas['BatchExportRunStatus']
export type LogEntry = Schemas['BatchExportLogEntry']
export type Backfill = Schemas['BatchExportBackfill']
export type TestStep = Schemas['BatchExportTestStep']
export type Import = Schemas['HistoricalMigration']
export type * from './pending'
