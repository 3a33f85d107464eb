-- Indexes of the catalog, for SQLite and PostgreSQL alike.

CREATE INDEX projects_of_organization ON projects (organization_id);
CREATE UNIQUE INDEX organization_domains_verified_once
    ON organization_domains (domain) WHERE verified_at IS NOT NULL;
CREATE UNIQUE INDEX organization_domains_claimed_once
    ON organization_domains (organization_id, domain);
CREATE INDEX organization_domains_in_order
    ON organization_domains (organization_id, created_at, id);

CREATE UNIQUE INDEX organization_memberships_once
    ON organization_memberships (organization_id, user_id);
CREATE INDEX organization_memberships_of_user ON organization_memberships (user_id);
CREATE INDEX organization_memberships_in_order
    ON organization_memberships (organization_id, joined_at, id);
CREATE INDEX organization_memberships_by_level
    ON organization_memberships (organization_id, level);
CREATE UNIQUE INDEX roles_once ON roles (organization_id, name_key);
CREATE INDEX roles_of_maker ON roles (created_by_id);
CREATE INDEX roles_in_order ON roles (organization_id, created_at, id);
CREATE UNIQUE INDEX role_memberships_once ON role_memberships (membership_id, role_id);
CREATE INDEX role_memberships_in_order ON role_memberships (role_id, joined_at, id);
CREATE UNIQUE INDEX organization_invites_once
    ON organization_invites (organization_id, email_key);
CREATE INDEX organization_invites_of_inviter ON organization_invites (created_by_id);
CREATE INDEX organization_invites_in_order
    ON organization_invites (organization_id, created_at, id);
CREATE INDEX organization_invites_by_address ON organization_invites (email_key);
CREATE INDEX personal_api_keys_of_user ON personal_api_keys (user_id);
CREATE INDEX personal_api_keys_revoked
    ON personal_api_keys (revoked_at) WHERE revoked_at IS NOT NULL;
CREATE INDEX personal_api_keys_expiring
    ON personal_api_keys (expires_at) WHERE expires_at IS NOT NULL;

CREATE INDEX activity_log_newest
    ON activity_log (organization_id, created_at DESC, id DESC, scope);
CREATE INDEX activity_log_of_scope
    ON activity_log (organization_id, scope, created_at DESC, id DESC);
CREATE INDEX activity_log_of_item
    ON activity_log (organization_id, item_id, created_at DESC, id DESC, scope);
CREATE INDEX idempotency_keys_by_age ON idempotency_keys (created_at);
CREATE INDEX proxy_records_of_organization ON proxy_records (organization_id, created_at, id);
CREATE INDEX proxy_records_due ON proxy_records (check_at);
CREATE UNIQUE INDEX proxy_records_proven_once
    ON proxy_records (domain) WHERE status IN ('valid', 'warning');
CREATE UNIQUE INDEX proxy_records_claimed_once ON proxy_records (organization_id, domain);
CREATE INDEX proxy_records_of_maker ON proxy_records (created_by);

CREATE UNIQUE INDEX plugins_url_once ON plugins (organization_id, url);
CREATE INDEX plugins_global ON plugins (is_global, id);
CREATE UNIQUE INDEX plugin_configs_once ON plugin_configs (team_id, plugin_id);
CREATE INDEX plugin_configs_of_plugin ON plugin_configs (plugin_id);

CREATE INDEX batch_exports_of_organization ON batch_exports (organization_id, created_at, id);
CREATE INDEX batch_exports_of_team ON batch_exports (team_id, created_at, id);
CREATE INDEX batch_exports_due ON batch_exports (paused, next_window_end);
CREATE INDEX batch_export_backfills_in_order
    ON batch_export_backfills (batch_export_id, created_at, id);
CREATE INDEX batch_export_backfills_open
    ON batch_export_backfills (batch_export_id, created_at, id) WHERE finished_at IS NULL;
CREATE UNIQUE INDEX batch_export_runs_in_order ON batch_export_runs (batch_export_id, ordinal);
CREATE INDEX batch_export_runs_by_window
    ON batch_export_runs (batch_export_id, data_interval_start);
CREATE INDEX batch_export_runs_of_backfill ON batch_export_runs (backfill_id, status);
CREATE INDEX batch_export_runs_by_status ON batch_export_runs (status, created_at);
CREATE UNIQUE INDEX batch_export_runs_once_a_backfill
    ON batch_export_runs (backfill_id, data_interval_end);
CREATE UNIQUE INDEX batch_export_runs_once
    ON batch_export_runs (batch_export_id, data_interval_end) WHERE backfill_id IS NULL;
CREATE INDEX batch_export_runs_by_end ON batch_export_runs (finished_at, id);
CREATE INDEX batch_export_logs_of_export ON batch_export_logs (batch_export_id, logged_at, id);
CREATE INDEX batch_export_logs_of_run ON batch_export_logs (run_id, logged_at, id);
CREATE INDEX batch_export_logs_by_time ON batch_export_logs (logged_at, id);

CREATE INDEX persons_changed ON persons (version, team_id, id);
CREATE INDEX person_distinct_ids_changed ON person_distinct_ids (version, team_id, distinct_id);
CREATE INDEX person_distinct_ids_identified
    ON person_distinct_ids (team_id, person_id, identified_at, identified_by);
CREATE INDEX groups_changed ON groups (version, team_id, group_type, group_key);

CREATE INDEX historical_migrations_of_organization
    ON historical_migrations (organization_id, created_at, id);
CREATE INDEX historical_migrations_of_team ON historical_migrations (team_id, state);
