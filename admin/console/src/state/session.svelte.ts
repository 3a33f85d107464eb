// Who is signed in, and what they may see. Sign-in is here and in `api/credentials` alone.

import { answer, CallFailure, client } from '../api/client'
import { forget, hasCredentials, keep, whenEnded } from '../api/credentials'
import type { Member, Organization, ProjectItem } from '../api/types'
import { remember, remembered } from './preferences.svelte'
import { failureFor } from './resource.svelte'
import { go, router } from './router.svelte'
import { projectPath } from './routes'

/** Addresses that the server tells. */
export interface ServerInfo {
  version: string
  /** Address that events are sent to; `null` if the server does not know it. */
  ingest_url: string | null
}

interface Account {
  organizations: Organization[]
  member: Member | null
  server: ServerInfo
}

let account = $state.raw<Account | null>(null)
let failure = $state.raw<CallFailure | null>(null)
let isSignedIn = $state(hasCredentials())
let lastProjectId = $state(remembered<number | null>('project', null))

const organizations = $derived(account?.organizations ?? [])
const projects = $derived(organizations.flatMap((one) => one.teams))
const projectId = $derived(router.route.name === 'project' ? router.route.projectId : lastProjectId)
const project = $derived(
  projects.find((one) => one.id === projectId) ??
    (router.route.name === 'project' ? undefined : projects[0]),
)
const organization = $derived.by(() => {
  const { route } = router
  const id = route.name === 'organization' ? route.organizationId : project?.organization
  return organizations.find((one) => one.id === id) ?? (id ? undefined : organizations[0])
})

export const session = {
  get isSignedIn() {
    return isSignedIn
  },
  get account() {
    return account
  },
  get failure() {
    return failure
  },
  get organizations() {
    return organizations
  },
  /** Project of the page, or the last one. */
  get project(): ProjectItem | undefined {
    return project
  },
  get organization(): Organization | undefined {
    return organization
  },
  get ingestUrl(): string {
    return account?.server.ingest_url ?? `${location.protocol}//${location.hostname}:8000`
  },
}

whenEnded(() => {
  ;[isSignedIn, account, failure] = [false, null, null]
})

/** Signs in with a personal key. Throws a [`CallFailure`] if the server refuses it. */
export async function signIn(personalKey: string): Promise<void> {
  keep(personalKey)
  account = await read()
  ;[isSignedIn, failure] = [true, null]
}

export function signOut(): void {
  forget()
  go('/key')
}

/** Reads the account anew: at the start, and after organizations or projects changed. */
export async function refresh(): Promise<void> {
  try {
    account = await read()
    failure = null
  } catch (cause) {
    failure = failureFor(cause)
  }
}

/** Remembers the project that a person looks at. */
export function visit(id: number): void {
  if (id === lastProjectId) return
  lastProjectId = id
  remember('project', id)
}

/** Address of the first page: of the last project, or of the start if it has no event yet. */
export function firstPath(): string | null {
  if (!project) return null
  return projectPath(project.id, project.ingested_event ? 'home' : 'start')
}

async function read(): Promise<Account> {
  const [organizations, server] = await Promise.all([allOrganizations(), serverInfo()])
  return { organizations, server, member: await ownMembership() }
}

async function allOrganizations(): Promise<Organization[]> {
  const query = { limit: 1_000 }
  return (await answer(client.GET('/api/organizations/', { params: { query } }))).results
}

/** Own membership; `null` for a key that may not read members. */
async function ownMembership(): Promise<Member | null> {
  const path = { organization_id: '@current', user_uuid: '@me' }
  const calling = client.GET('/api/organizations/{organization_id}/members/{user_uuid}/', {
    params: { path },
  })
  return answer(calling).catch(() => null)
}

async function serverInfo(): Promise<ServerInfo> {
  const fallback = { version: '', ingest_url: null }
  const response = await fetch('/api/', { headers: { Accept: 'application/json' } }).catch(
    () => null,
  )
  if (!response?.ok) return fallback
  const found = (await response.json().catch(() => ({}))) as Partial<ServerInfo>
  return { ...fallback, ...found }
}
