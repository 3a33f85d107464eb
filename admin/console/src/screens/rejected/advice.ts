// What to do about the codes of rejected events.

const ADVICE: Record<string, string> = {
  missing_event:
    'Give each event a name. To save these, set `event`, or rename the field that has it.',
  invalid_event: 'The name has to be a text of 1 to 200 characters. Set `event` to one.',
  event_name_too_long: 'Shorten the name to 200 characters. Put details into properties.',
  missing_distinct_id: 'Say who did it: set `distinct_id`, or rename the field that has it.',
  invalid_distinct_id: 'The distinct id has to be a text or a number. Rename or set `distinct_id`.',
  distinct_id_too_long: 'Shorten the distinct id to 200 characters.',
  invalid_timestamp: 'Send times as ISO 8601, as in 2026-11-29T14:38:00Z. Drop or set `timestamp`.',
  invalid_uuid: 'Drop `uuid`, and the server makes one; or send a UUID as text.',
  invalid_properties: 'Properties have to be an object. Drop the field that is none, or set it.',
  invalid_json: 'The event is no JSON. It cannot be sent again as it is: mend the client.',
  event_too_large: 'The event is longer than 1 MiB. Drop what is large, or send less.',
  invalid_historical_migration: 'It has to be true or false. Drop `historical_migration`.',
}

/** Advice on a code; general words for codes that are not known here. */
export function adviceOn(code: string): string {
  return ADVICE[code] ?? 'The detail says what is wrong. Mend the client, then send these again.'
}
