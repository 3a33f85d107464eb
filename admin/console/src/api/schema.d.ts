export interface paths {
    "/api/docs/": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["docs_retrieve"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/organizations/": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["organizations_list"];
        put?: never;
        post: operations["organizations_create"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/organizations/{organization_id}/": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["organizations_retrieve"];
        put?: never;
        post?: never;
        delete: operations["organizations_destroy"];
        options?: never;
        head?: never;
        patch: operations["organizations_partial_update"];
        trace?: never;
    };
    "/api/organizations/{organization_id}/activity/": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["organizations_activity_list"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/organizations/{organization_id}/batch_exports/": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["organizations_batch_exports_list"];
        put?: never;
        post: operations["organizations_batch_exports_create"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/organizations/{organization_id}/batch_exports/test/": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["organizations_batch_exports_test_retrieve"];
        put?: never;
        post: operations["organizations_batch_exports_test"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/organizations/{organization_id}/batch_exports/{id}/": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["organizations_batch_exports_retrieve"];
        put?: never;
        post?: never;
        delete: operations["organizations_batch_exports_destroy"];
        options?: never;
        head?: never;
        patch: operations["organizations_batch_exports_partial_update"];
        trace?: never;
    };
    "/api/organizations/{organization_id}/batch_exports/{id}/backfill/": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["organizations_batch_exports_backfill"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/organizations/{organization_id}/batch_exports/{id}/backfills/": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["organizations_batch_exports_backfills_list"];
        put?: never;
        post: operations["organizations_batch_exports_backfills_create"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/organizations/{organization_id}/batch_exports/{id}/backfills/{backfill_id}/": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["organizations_batch_exports_backfills_retrieve"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/organizations/{organization_id}/batch_exports/{id}/backfills/{backfill_id}/cancel/": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["organizations_batch_exports_backfills_cancel"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/organizations/{organization_id}/batch_exports/{id}/logs/": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["organizations_batch_exports_logs_retrieve"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/organizations/{organization_id}/batch_exports/{id}/pause/": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["organizations_batch_exports_pause"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/organizations/{organization_id}/batch_exports/{id}/runs/": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["organizations_batch_exports_runs_list"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/organizations/{organization_id}/batch_exports/{id}/runs/{run_id}/": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["organizations_batch_exports_runs_retrieve"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/organizations/{organization_id}/batch_exports/{id}/runs/{run_id}/cancel/": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["organizations_batch_exports_runs_cancel"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/organizations/{organization_id}/batch_exports/{id}/runs/{run_id}/logs/": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["organizations_batch_exports_runs_logs_list"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/organizations/{organization_id}/batch_exports/{id}/runs/{run_id}/retry/": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["organizations_batch_exports_runs_retry"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/organizations/{organization_id}/batch_exports/{id}/unpause/": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["organizations_batch_exports_unpause"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/organizations/{organization_id}/domains/": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["organizations_domains_list"];
        put?: never;
        post: operations["organizations_domains_create"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/organizations/{organization_id}/domains/{id}/": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["organizations_domains_retrieve"];
        put?: never;
        post?: never;
        delete: operations["organizations_domains_destroy"];
        options?: never;
        head?: never;
        patch: operations["organizations_domains_partial_update"];
        trace?: never;
    };
    "/api/organizations/{organization_id}/domains/{id}/verify/": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["organizations_domains_verify"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/organizations/{organization_id}/historical_migrations/": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["organizations_historical_migrations_list"];
        put?: never;
        post: operations["organizations_historical_migrations_create"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/organizations/{organization_id}/historical_migrations/{id}/": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["organizations_historical_migrations_retrieve"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch: operations["organizations_historical_migrations_partial_update"];
        trace?: never;
    };
    "/api/organizations/{organization_id}/historical_migrations/{id}/approve/": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["organizations_historical_migrations_approve"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/organizations/{organization_id}/historical_migrations/{id}/reject/": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["organizations_historical_migrations_reject"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/organizations/{organization_id}/invites/": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["organizations_invites_list"];
        put?: never;
        post: operations["organizations_invites_create"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/organizations/{organization_id}/invites/bulk/": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["organizations_invites_bulk"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/organizations/{organization_id}/invites/{id}/": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        delete: operations["organizations_invites_destroy"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/organizations/{organization_id}/invites/{id}/resend/": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["organizations_invites_resend"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/organizations/{organization_id}/members/": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["organizations_members_list"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/organizations/{organization_id}/members/{user_uuid}/": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["organizations_members_retrieve"];
        put?: never;
        post?: never;
        delete: operations["organizations_members_destroy"];
        options?: never;
        head?: never;
        patch: operations["organizations_members_partial_update"];
        trace?: never;
    };
    "/api/organizations/{organization_id}/projects/": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["organizations_projects_list"];
        put?: never;
        post: operations["organizations_projects_create"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/organizations/{organization_id}/projects/{project_id}/": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["organizations_projects_retrieve"];
        put?: never;
        post?: never;
        delete: operations["organizations_projects_destroy"];
        options?: never;
        head?: never;
        patch: operations["organizations_projects_partial_update"];
        trace?: never;
    };
    "/api/organizations/{organization_id}/projects/{project_id}/activity/": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["organizations_projects_activity_list"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/organizations/{organization_id}/projects/{project_id}/is_generating_demo_data/": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["organizations_projects_is_generating_demo_data_retrieve"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/organizations/{organization_id}/projects/{project_id}/reset_token/": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch: operations["organizations_projects_reset_token"];
        trace?: never;
    };
    "/api/personal_api_keys/": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["personal_api_keys_list"];
        put?: never;
        post: operations["personal_api_keys_create"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/personal_api_keys/{id}/": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["personal_api_keys_retrieve"];
        put?: never;
        post?: never;
        delete: operations["personal_api_keys_destroy"];
        options?: never;
        head?: never;
        patch: operations["personal_api_keys_partial_update"];
        trace?: never;
    };
    "/api/personal_api_keys/{id}/roll/": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["personal_api_keys_roll"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/projects/{project_id}/clickhouse_user/": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["projects_clickhouse_user_retrieve"];
        put?: never;
        post: operations["projects_clickhouse_user"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/projects/{project_id}/query/": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["projects_query"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/projects/{project_id}/query/{query_id}/": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        delete: operations["projects_query_destroy"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/schema/": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["schema_retrieve"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/signup/{token}/": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["signup_retrieve"];
        put?: never;
        post: operations["signup_create"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /** @description The body of an error. */
        Error: {
            /** @description Field that caused the error, if one did; nested fields are joined with `__`. */
            attr: string | null;
            /** @description Error of ClickHouse; only of queries. */
            clickhouse?: components["schemas"]["ClickHouseError"] | null;
            /** @description Code of the error, for programs. */
            code: string;
            /** @description Message of the error and how to resolve it, for people. */
            detail: string;
            /** @description Family of the error. */
            type: string;
        };
        /** @description A page of a list. */
        OrganizationPage: {
            /**
             * Format: uint64
             * @description Length of the whole list.
             */
            count: number;
            /**
             * Format: uri
             * @description Address of the next page; null at the end.
             */
            next: string | null;
            /**
             * Format: uri
             * @description Address of the previous page; null at the beginning.
             */
            previous: string | null;
            /** @description Rows of this page. */
            results: components["schemas"]["Organization"][];
        };
        /**
         * NewOrganization
         * @description Fields of a new organization.
         */
        NewOrganization: {
            /** @description True if front ends must require a second factor; null: not decided. */
            enforce_2fa?: boolean | null;
            /** @description True if members get a mail when somebody joins; true if not given. */
            is_member_join_email_enabled?: boolean;
            /** @description Name of the organization. */
            name: string;
        };
        /** @description An organization as the caller sees it. */
        Organization: {
            /** @description Features that the organization may use. */
            available_product_features: components["schemas"]["ProductFeature"][];
            /** Format: date-time */
            created_at: string;
            customer_id: string | null;
            enforce_2fa: boolean | null;
            /** Format: uuid */
            id: string;
            is_member_join_email_enabled: boolean;
            /** @description Number of members, as a string. */
            member_count: string;
            /** @description True if members below administrator may change exports and plugins. */
            members_can_write_pipelines: boolean;
            /**
             * Format: int16
             * @description Level of the caller: 1 member, 8 administrator, 15 owner.
             */
            membership_level: number;
            /** @description Metadata as JSON in a string. */
            metadata: string;
            name: string;
            /**
             * Format: int16
             * @description Access of the organization to plugins: 0 none, 3 configure, 6 install, 9 root.
             */
            plugins_access_level: number;
            /** @description Short name for addresses, derived from the name at creation. */
            slug: string;
            /** @description Projects of the organization. */
            teams: components["schemas"]["ProjectItem"][];
            /** Format: date-time */
            updated_at: string;
        };
        /**
         * PatchOrganization
         * @description Fields of an organization to change.
         */
        PatchOrganization: {
            /** @description True if front ends must require a second factor; null: not decided. */
            enforce_2fa?: boolean | null;
            /** @description True if members get a mail when somebody joins. */
            is_member_join_email_enabled?: boolean;
            /** @description True if members below administrator may change exports and plugins. */
            members_can_write_pipelines?: boolean;
            /** @description Name of the organization. The slug stays. */
            name?: string;
        };
        /** @description A page of a list. */
        ActivityLogEntryPage: {
            /**
             * Format: uint64
             * @description Length of the whole list.
             */
            count: number;
            /**
             * Format: uri
             * @description Address of the next page; null at the end.
             */
            next: string | null;
            /**
             * Format: uri
             * @description Address of the previous page; null at the beginning.
             */
            previous: string | null;
            /** @description Rows of this page. */
            results: components["schemas"]["ActivityLogEntry"][];
        };
        /** @description A page of a list. */
        BatchExportPage: {
            /**
             * Format: uint64
             * @description Length of the whole list.
             */
            count: number;
            /**
             * Format: uri
             * @description Address of the next page; null at the end.
             */
            next: string | null;
            /**
             * Format: uri
             * @description Address of the previous page; null at the beginning.
             */
            previous: string | null;
            /** @description Rows of this page. */
            results: components["schemas"]["BatchExport"][];
        };
        /**
         * NewBatchExport
         * @description Fields of a new batch export.
         */
        NewBatchExport: {
            destination: components["schemas"]["NewBatchExportDestination"];
            /**
             * Format: date-time
             * @description Time after which no run starts.
             */
            end_at?: string | null;
            /**
             * @description Query that selects rows and columns: one SELECT in ClickHouse's SQL over `events`, `persons`
             *     or `groups`; null: all rows.
             */
            hogql_query?: string | null;
            /** @description Interval of the runs: `hour`, `day`, `week` or `every N minutes`, with N from 5 to 59. */
            interval: string;
            /**
             * Format: date-time
             * @description Time of the last pause in another system; it is shown, and has no effect.
             */
            last_paused_at?: string | null;
            /** @description Kind of rows to export; `events` if not given. */
            model?: components["schemas"]["BatchExportModel"];
            name: string;
            /** @description True if the export begins paused; false if not given. */
            paused?: boolean;
            /**
             * Format: date-time
             * @description Time before which no run starts.
             */
            start_at?: string | null;
            /**
             * Format: int64
             * @description Id of the project whose rows are exported; the organization's first project if not given.
             *     Ignored in paths below a project, which name it.
             */
            team_id?: number;
        };
        /** @description A batch export. */
        BatchExport: {
            /** Format: date-time */
            created_at: string;
            destination: components["schemas"]["BatchExportDestination"];
            /**
             * Format: date-time
             * @description Time after which no run starts.
             */
            end_at: string | null;
            /** @description Query that selects rows and columns; null: all. */
            hogql_query: string | null;
            /** Format: uuid */
            id: string;
            /** @description Interval of the runs: `hour`, `day`, `week` or `every N minutes`. */
            interval: string;
            /** Format: date-time */
            last_paused_at: string | null;
            /** Format: date-time */
            last_updated_at: string;
            /** @description Newest runs, newest first, at most ten. */
            latest_runs: components["schemas"]["BatchExportRun"][];
            model: components["schemas"]["BatchExportModel"];
            name: string;
            paused: boolean;
            /** @description Columns and values of the query. */
            schema: unknown;
            /**
             * Format: date-time
             * @description Time before which no run starts.
             */
            start_at: string | null;
            /**
             * Format: int64
             * @description Id of the project whose rows are exported.
             */
            team_id: number;
        };
        /** @description Steps of a test. */
        BatchExportTest: {
            steps: components["schemas"]["BatchExportTestStep"][];
        };
        /**
         * BatchExportTestRequest
         * @description Destination to test.
         */
        BatchExportTestRequest: {
            /**
             * Format: uuid
             * @description Id of an export whose destination is tested, or would be changed. Fields that are not given
             *     have the export's values, secrets included.
             */
            batch_export?: string;
            /** @description Type of the destination and its fields. */
            destination?: components["schemas"]["PatchBatchExportDestination"];
        };
        /**
         * PatchBatchExport
         * @description Fields of a batch export to change.
         */
        PatchBatchExport: {
            destination?: components["schemas"]["PatchBatchExportDestination"];
            /**
             * Format: date-time
             * @description Time after which no run starts.
             */
            end_at?: string | null;
            /**
             * @description Query that selects rows and columns: one SELECT in ClickHouse's SQL over `events`, `persons`
             *     or `groups`; null: all rows.
             */
            hogql_query?: string | null;
            /** @description Interval of the runs: `hour`, `day`, `week` or `every N minutes`, with N from 5 to 59. */
            interval?: string;
            /**
             * Format: date-time
             * @description Time of the last pause in another system; it is shown, and has no effect.
             */
            last_paused_at?: string | null;
            model?: components["schemas"]["BatchExportModel"];
            name?: string;
            paused?: boolean;
            /**
             * Format: date-time
             * @description Time before which no run starts.
             */
            start_at?: string | null;
        };
        /**
         * BatchExportBackfillRange
         * @description Range of times to backfill.
         */
        BatchExportBackfillRange: {
            /**
             * Format: date-time
             * @description End of the range; null: now. At most one interval in the future.
             */
            end_at?: string | null;
            /**
             * Format: date-time
             * @description Start of the range; null: the beginning.
             */
            start_at?: string | null;
        };
        /** @description A batch export and its new backfill. */
        BatchExportWithBackfill: {
            /**
             * Format: uuid
             * @description Id of the backfill; null if none was requested or nothing was missed. `backfills/` has its
             *     progress, and the reason if it has no runs.
             */
            backfill_id: string | null;
            /** Format: date-time */
            created_at: string;
            destination: components["schemas"]["BatchExportDestination"];
            /**
             * Format: date-time
             * @description Time after which no run starts.
             */
            end_at: string | null;
            /** @description Query that selects rows and columns; null: all. */
            hogql_query: string | null;
            /** Format: uuid */
            id: string;
            /** @description Interval of the runs: `hour`, `day`, `week` or `every N minutes`. */
            interval: string;
            /** Format: date-time */
            last_paused_at: string | null;
            /** Format: date-time */
            last_updated_at: string;
            /** @description Newest runs, newest first, at most ten. */
            latest_runs: components["schemas"]["BatchExportRun"][];
            model: components["schemas"]["BatchExportModel"];
            name: string;
            paused: boolean;
            /** @description Columns and values of the query. */
            schema: unknown;
            /**
             * Format: date-time
             * @description Time before which no run starts.
             */
            start_at: string | null;
            /**
             * Format: int64
             * @description Id of the project whose rows are exported.
             */
            team_id: number;
        };
        /** @description A page of a list. */
        BatchExportBackfillPage: {
            /**
             * Format: uint64
             * @description Length of the whole list.
             */
            count: number;
            /**
             * Format: uri
             * @description Address of the next page; null at the end.
             */
            next: string | null;
            /**
             * Format: uri
             * @description Address of the previous page; null at the beginning.
             */
            previous: string | null;
            /** @description Rows of this page. */
            results: components["schemas"]["BatchExportBackfill"][];
        };
        /** @description A backfill of a batch export. */
        BatchExportBackfill: {
            /**
             * Format: uuid
             * @description Id of the export.
             */
            batch_export: string;
            /** Format: date-time */
            created_at: string;
            /**
             * Format: date-time
             * @description End of the range; null: the time of its creation.
             */
            end_at: string | null;
            /** Format: date-time */
            finished_at: string | null;
            /** Format: uuid */
            id: string;
            /** Format: date-time */
            last_updated_at: string;
            /** @description Reason why it has no runs, or failed; null otherwise. */
            message: string | null;
            progress: components["schemas"]["BatchExportBackfillProgress"];
            /**
             * Format: date-time
             * @description Start of the range; null: the beginning.
             */
            start_at: string | null;
            status: components["schemas"]["BatchExportRunStatus"];
        };
        /**
         * Nothing
         * @description The body is ignored.
         */
        Nothing: unknown;
        /** @description A batch export and a page of its log. */
        BatchExportWithLogs: {
            /**
             * Format: uint64
             * @description Length of the whole list.
             */
            count: number;
            /** Format: date-time */
            created_at: string;
            destination: components["schemas"]["BatchExportDestination"];
            /**
             * Format: date-time
             * @description Time after which no run starts.
             */
            end_at: string | null;
            /** @description Query that selects rows and columns; null: all. */
            hogql_query: string | null;
            /** Format: uuid */
            id: string;
            /** @description Interval of the runs: `hour`, `day`, `week` or `every N minutes`. */
            interval: string;
            /** Format: date-time */
            last_paused_at: string | null;
            /** Format: date-time */
            last_updated_at: string;
            /** @description Newest runs, newest first, at most ten. */
            latest_runs: components["schemas"]["BatchExportRun"][];
            model: components["schemas"]["BatchExportModel"];
            name: string;
            /**
             * Format: uri
             * @description Address of the next page; null at the end.
             */
            next: string | null;
            paused: boolean;
            /**
             * Format: uri
             * @description Address of the previous page; null at the beginning.
             */
            previous: string | null;
            /** @description Rows of this page. */
            results: components["schemas"]["BatchExportLogEntry"][];
            /** @description Columns and values of the query. */
            schema: unknown;
            /**
             * Format: date-time
             * @description Time before which no run starts.
             */
            start_at: string | null;
            /**
             * Format: int64
             * @description Id of the project whose rows are exported.
             */
            team_id: number;
        };
        /** @description A page of a list. */
        BatchExportRunPage: {
            /**
             * Format: uint64
             * @description Length of the whole list.
             */
            count: number;
            /**
             * Format: uri
             * @description Address of the next page; null at the end.
             */
            next: string | null;
            /**
             * Format: uri
             * @description Address of the previous page; null at the beginning.
             */
            previous: string | null;
            /** @description Rows of this page. */
            results: components["schemas"]["BatchExportRun"][];
        };
        /** @description A run of a batch export. */
        BatchExportRun: {
            /**
             * Format: uuid
             * @description Id of the backfill; null for a scheduled run.
             */
            backfill: string | null;
            /**
             * Format: uuid
             * @description Id of the export.
             */
            batch_export: string;
            /**
             * Format: int64
             * @description Number of bytes delivered, as they were sent.
             */
            bytes_exported: number | null;
            /** Format: date-time */
            created_at: string;
            /** @description Position at which the run resumes after a restart. */
            cursor: string | null;
            /** Format: date-time */
            data_interval_end: string;
            /**
             * Format: date-time
             * @description Start of the window; null: the beginning.
             */
            data_interval_start: string | null;
            /** Format: date-time */
            finished_at: string | null;
            /** Format: uuid */
            id: string;
            /** Format: date-time */
            last_updated_at: string;
            latest_error: string | null;
            /**
             * Format: int64
             * @description Number of rows delivered.
             */
            records_completed: number | null;
            /**
             * Format: int64
             * @description Number of rows in the window.
             */
            records_total_count: number | null;
            status: components["schemas"]["BatchExportRunStatus"];
        };
        /** @description A page of a list. */
        BatchExportLogEntryPage: {
            /**
             * Format: uint64
             * @description Length of the whole list.
             */
            count: number;
            /**
             * Format: uri
             * @description Address of the next page; null at the end.
             */
            next: string | null;
            /**
             * Format: uri
             * @description Address of the previous page; null at the beginning.
             */
            previous: string | null;
            /** @description Rows of this page. */
            results: components["schemas"]["BatchExportLogEntry"][];
        };
        /**
         * BatchExportUnpause
         * @description Options for unpausing an export.
         */
        BatchExportUnpause: {
            /** @description True to export the rows of the pause, too. */
            backfill?: boolean;
        };
        /** @description A page of a list. */
        OrganizationDomainPage: {
            /**
             * Format: uint64
             * @description Length of the whole list.
             */
            count: number;
            /**
             * Format: uri
             * @description Address of the next page; null at the end.
             */
            next: string | null;
            /**
             * Format: uri
             * @description Address of the previous page; null at the beginning.
             */
            previous: string | null;
            /** @description Rows of this page. */
            results: components["schemas"]["OrganizationDomain"][];
        };
        /**
         * NewOrganizationDomain
         * @description Fields of a claimed domain.
         */
        NewOrganizationDomain: {
            /** @description Domain name, in any case and any script. */
            domain: string;
            /** @description Address at which front ends receive the identity provider's assertions. */
            saml_acs_url?: string | null;
            /** @description Entity id of the identity provider. */
            saml_entity_id?: string | null;
            /** @description Certificate of the identity provider: PEM, or its Base64 content. */
            saml_x509_cert?: string | null;
        };
        /** @description A domain that an organization claims. */
        OrganizationDomain: {
            /** @description Domain name in Punycode, lower case. */
            domain: string;
            /** @description True if the three fields of SAML are set. */
            has_saml: boolean;
            /** Format: uuid */
            id: string;
            is_verified: boolean;
            jit_provisioning_enabled: boolean;
            saml_acs_url: string | null;
            saml_entity_id: string | null;
            saml_x509_cert: string | null;
            /** @description Enforced login: `saml`, `google-oauth2`, `github`, `gitlab`, or empty. */
            sso_enforcement: string;
            /** @description Text that the TXT record must have; it never changes. */
            verification_challenge: string;
            /** Format: date-time */
            verified_at: string | null;
        };
        /**
         * PatchOrganizationDomain
         * @description Fields of a domain to change.
         */
        PatchOrganizationDomain: {
            /** @description Domain name; it can be changed only until the domain is verified. */
            domain?: string;
            /**
             * @description True if front ends create an account for a person who logs in with an address of the domain.
             *     It can be set only once the domain is verified.
             */
            jit_provisioning_enabled?: boolean;
            /** @description Address at which front ends receive the identity provider's assertions. */
            saml_acs_url?: string | null;
            /** @description Entity id of the identity provider. */
            saml_entity_id?: string | null;
            /** @description Certificate of the identity provider: PEM, or its Base64 content. */
            saml_x509_cert?: string | null;
            /**
             * @description Login that addresses of the domain must use; empty: any. It can be set only once the domain
             *     is verified.
             * @enum {string}
             */
            sso_enforcement?: "" | "saml" | "google-oauth2" | "github" | "gitlab";
        };
        /** @description A page of a list. */
        HistoricalMigrationPage: {
            /**
             * Format: uint64
             * @description Length of the whole list.
             */
            count: number;
            /**
             * Format: uri
             * @description Address of the next page; null at the end.
             */
            next: string | null;
            /**
             * Format: uri
             * @description Address of the previous page; null at the beginning.
             */
            previous: string | null;
            /** @description Rows of this page. */
            results: components["schemas"]["HistoricalMigration"][];
        };
        /**
         * NewHistoricalMigration
         * @description Fields of a requested import.
         */
        NewHistoricalMigration: {
            /**
             * Format: int64
             * @description Most events in a minute.
             */
            events_per_minute: number;
            /** @description Method of the import, for people. */
            method: string;
            /** @description Source of the events, for people. */
            source: string;
            /**
             * Format: int64
             * @description Id of the project that gets the events; the organization's first project if not given.
             */
            team_id?: number;
            /**
             * Format: int64
             * @description Number of events in all.
             */
            total_events: number;
        };
        /** @description An import of past events that an organization requested. */
        HistoricalMigration: {
            /** Format: date-time */
            created_at: string;
            /**
             * Format: date-time
             * @description Time of the approval or rejection.
             */
            decided_at: string | null;
            /**
             * Format: int64
             * @description Number of events imported since the approval.
             */
            events_imported: number;
            /**
             * Format: int64
             * @description Most events in a minute.
             */
            events_per_minute: number;
            /** Format: uuid */
            id: string;
            /** @description Method of the import, for people. */
            method: string;
            /** @description Note of the operator who decided. */
            note: string | null;
            /** @description Source of the events, for people. */
            source: string;
            state: components["schemas"]["HistoricalMigrationState"];
            /**
             * Format: int64
             * @description Id of the project that gets the events.
             */
            team_id: number;
            /**
             * Format: int64
             * @description Most events in all.
             */
            total_events: number;
        };
        /**
         * PatchHistoricalMigration
         * @description Fields of an import to change.
         */
        PatchHistoricalMigration: {
            /** @description New state: the import is done, or given up. */
            state?: components["schemas"]["EndState"];
        };
        /**
         * HistoricalMigrationDecision
         * @description Decision of the operator on an import.
         */
        HistoricalMigrationDecision: {
            /** @description Note for the organization that requested the import. */
            note?: string | null;
        };
        /** @description A page of a list. */
        OrganizationInvitePage: {
            /**
             * Format: uint64
             * @description Length of the whole list.
             */
            count: number;
            /**
             * Format: uri
             * @description Address of the next page; null at the end.
             */
            next: string | null;
            /**
             * Format: uri
             * @description Address of the previous page; null at the beginning.
             */
            previous: string | null;
            /** @description Rows of this page. */
            results: components["schemas"]["OrganizationInvite"][];
        };
        /**
         * NewOrganizationInvite
         * @description Fields of a new invite.
         */
        NewOrganizationInvite: {
            /** @description Name for the greeting in the mail. */
            first_name?: string;
            /**
             * @description Level of the new member, not above yours; 1 if not given.
             * @enum {integer}
             */
            level?: 1 | 8 | 15;
            /** @description Message to the recipient. */
            message?: string | null;
            /** @description Private projects that the invite gives access to, with levels not above yours. */
            private_project_access?: components["schemas"]["PrivateProjectAccessInput"][] | null;
            /** @description True to send a mail; true if not given. */
            send_email?: boolean;
            /**
             * Format: email
             * @description Address of the recipient.
             */
            target_email: string;
        };
        /** @description An invite to an organization. */
        OrganizationInvite: {
            /** Format: date-time */
            created_at: string;
            /** @description User who invited; null for the operator. */
            created_by: components["schemas"]["User"] | null;
            /** @description True if sending a mail was attempted; it may not have arrived. */
            emailing_attempt_made: boolean;
            first_name: string;
            /**
             * Format: uuid
             * @description Id of the invite. It is no secret and accepts nothing; only the link does.
             */
            id: string;
            /** @description True if the link has expired. */
            is_expired: boolean;
            /**
             * @description 1 member, 8 administrator, 15 owner.
             * @enum {integer}
             */
            level: 1 | 8 | 15;
            message: string | null;
            private_project_access: components["schemas"]["PrivateProjectAccess"][];
            /** Format: email */
            target_email: string;
            /** Format: date-time */
            updated_at: string;
        };
        /**
         * NewOrganizationInviteOrList
         * @description One item, or a list of items; the response has the same form as the request.
         */
        NewOrganizationInviteOrList: components["schemas"]["NewOrganizationInviteInput"][] | components["schemas"]["NewOrganizationInviteInput"];
        /** @description One item, or a list of items; the response has the same form as the request. */
        OrganizationInviteOrList: components["schemas"]["OrganizationInvite"][] | components["schemas"]["OrganizationInvite"];
        /** @description A page of a list. */
        OrganizationMemberPage: {
            /**
             * Format: uint64
             * @description Length of the whole list.
             */
            count: number;
            /**
             * Format: uri
             * @description Address of the next page; null at the end.
             */
            next: string | null;
            /**
             * Format: uri
             * @description Address of the previous page; null at the beginning.
             */
            previous: string | null;
            /** @description Rows of this page. */
            results: components["schemas"]["OrganizationMember"][];
        };
        /** @description A member of an organization. */
        OrganizationMember: {
            /** @description Always false: accounts have keys only. */
            has_social_auth: boolean;
            /**
             * Format: uuid
             * @description Id of the membership.
             */
            id: string;
            /** @description Always false: accounts have keys only. */
            is_2fa_enabled: boolean;
            /** Format: date-time */
            joined_at: string;
            /**
             * @description 1 member, 8 administrator, 15 owner.
             * @enum {integer}
             */
            level: 1 | 8 | 15;
            /** Format: date-time */
            updated_at: string;
            user: components["schemas"]["User"];
        };
        /**
         * PatchOrganizationMember
         * @description Fields of a membership to change.
         */
        PatchOrganizationMember: {
            /**
             * @description 1 member, 8 administrator, 15 owner.
             * @enum {integer}
             */
            level?: 1 | 8 | 15;
        };
        /** @description A page of a list. */
        ProjectItemPage: {
            /**
             * Format: uint64
             * @description Length of the whole list.
             */
            count: number;
            /**
             * Format: uri
             * @description Address of the next page; null at the end.
             */
            next: string | null;
            /**
             * Format: uri
             * @description Address of the previous page; null at the beginning.
             */
            previous: string | null;
            /** @description Rows of this page. */
            results: components["schemas"]["ProjectItem"][];
        };
        /**
         * NewProject
         * @description Fields of a new project.
         */
        NewProject: {
            /** @description True if clients' IP addresses are left out of events; false if not given. */
            anonymize_ips?: boolean;
            /** @description Name of the project. */
            name: string;
            /** @description IANA name of the time zone; `UTC` if not given. */
            timezone?: string;
        };
        /** @description A project with all of its settings. */
        Project: {
            access_control: boolean;
            /** @description True if clients' IP addresses are left out of events. */
            anonymize_ips: boolean;
            /** @description Key with which clients send events. */
            api_token: string | null;
            completed_snippet_onboarding: boolean;
            /** Format: date-time */
            created_at: string;
            has_completed_onboarding_for: unknown;
            /** Format: int64 */
            id: number;
            /** @description True if the project has ever received an event. */
            ingested_event: boolean;
            is_demo: boolean;
            name: string;
            /** Format: uuid */
            organization: string;
            /**
             * Format: int64
             * @description Equals `id`: a project has one team.
             */
            project_id: number;
            /** @description IANA name of the time zone. */
            timezone: string;
            /** Format: date-time */
            updated_at: string;
            /** Format: uuid */
            uuid: string;
        };
        /**
         * PatchProject
         * @description Fields of a project to change.
         */
        PatchProject: {
            /** @description True if clients' IP addresses are left out of events. */
            anonymize_ips?: boolean;
            /** @description Name of the project. */
            name?: string;
            /** @description IANA name of the time zone. */
            timezone?: string;
        };
        /** @description The state of demonstration events. */
        DemoData: {
            is_generating_demo_data: boolean;
        };
        /** @description A page of a list. */
        PersonalAPIKeyPage: {
            /**
             * Format: uint64
             * @description Length of the whole list.
             */
            count: number;
            /**
             * Format: uri
             * @description Address of the next page; null at the end.
             */
            next: string | null;
            /**
             * Format: uri
             * @description Address of the previous page; null at the beginning.
             */
            previous: string | null;
            /** @description Rows of this page. */
            results: components["schemas"]["PersonalAPIKey"][];
        };
        /**
         * NewPersonalAPIKey
         * @description Fields of a new key.
         */
        NewPersonalAPIKey: {
            /**
             * Format: date-time
             * @description Time at which the key expires; null: never.
             */
            expires_at?: string | null;
            /** @description Label of the key, for you. */
            label: string;
            /** @description Organizations that the key is limited to; null or empty: all of yours. */
            scoped_organizations?: string[] | null;
            /** @description Scopes that the key allows: `*`, or `<family>:read` and `<family>:write`. */
            scopes: string[];
        };
        /** @description A personal key with its new value. */
        CreatedPersonalAPIKey: {
            /** Format: date-time */
            created_at: string;
            /** Format: date-time */
            expires_at: string | null;
            /** Format: uuid */
            id: string;
            label: string;
            /** Format: date-time */
            last_rolled_at: string | null;
            /**
             * Format: date-time
             * @description Time of the last use, updated at most hourly.
             */
            last_used_at: string | null;
            /** @description First and last four characters of the value. */
            mask_value: string;
            scoped_organizations: string[] | null;
            /** @description Always empty: keys are limited by organization. */
            scoped_teams: number[];
            scopes: string[];
            /** Format: int64 */
            user_id: number;
            /** @description Value of the key. It is not stored, and cannot be read again. */
            value: string | null;
        };
        /** @description A personal key, without its value. */
        PersonalAPIKey: {
            /** Format: date-time */
            created_at: string;
            /** Format: date-time */
            expires_at: string | null;
            /** Format: uuid */
            id: string;
            label: string;
            /** Format: date-time */
            last_rolled_at: string | null;
            /**
             * Format: date-time
             * @description Time of the last use, updated at most hourly.
             */
            last_used_at: string | null;
            /** @description First and last four characters of the value. */
            mask_value: string;
            scoped_organizations: string[] | null;
            /** @description Always empty: keys are limited by organization. */
            scoped_teams: number[];
            scopes: string[];
            /** Format: int64 */
            user_id: number;
        };
        /**
         * PatchPersonalAPIKey
         * @description Fields of a key to change.
         */
        PatchPersonalAPIKey: {
            /**
             * Format: date-time
             * @description Time at which the key expires; null: never.
             */
            expires_at?: string | null;
            /** @description Label of the key, for you. */
            label?: string;
            /** @description Organizations that the key is limited to; null or empty: all of yours. */
            scoped_organizations?: string[] | null;
            /** @description Scopes that the key allows: `*`, or `<family>:read` and `<family>:write`. */
            scopes?: string[];
        };
        /** @description User of a project in ClickHouse. */
        ClickHouseUser: {
            /** @description Database of the tables. */
            database: string;
            /**
             * Format: date-time
             * @description Time of the last password; null if there was none.
             */
            rotated_at: string | null;
            /** @description Address of ClickHouse's HTTP interface, as the server reaches it. */
            url: string;
            /** @description Name to log in as. */
            user: string;
        };
        /** @description User of a project in ClickHouse with a new password. */
        RotatedClickHouseUser: {
            /** @description Database of the tables. */
            database: string;
            /** @description Password; shown only once. */
            password: string;
            /**
             * Format: date-time
             * @description Time of the last password; null if there was none.
             */
            rotated_at: string | null;
            /** @description Address of ClickHouse's HTTP interface, as the server reaches it. */
            url: string;
            /** @description Name to log in as. */
            user: string;
        };
        /**
         * ProjectQuery
         * @description Query to run.
         */
        ProjectQuery: {
            /** @description One SELECT in ClickHouse's SQL, without FORMAT. */
            query: string;
            /**
             * Format: uuid
             * @description Id of the query, by which it can be stopped before its answer begins; a new one if not
             *     given.
             */
            query_id?: string;
        };
        Document: Record<string, never>;
        /** @description An invitation, as its link shows it. */
        Signup: {
            /** Format: date-time */
            expires_at: string;
            first_name: string;
            /** Format: uuid */
            id: string;
            /**
             * @description 1 member, 8 administrator, 15 owner.
             * @enum {integer}
             */
            level: 1 | 8 | 15;
            organization_name: string;
            /** @description Address of the recipient, masked. */
            target_email: string;
        };
        /**
         * NewSignup
         * @description Name of the person who signs up.
         */
        NewSignup: {
            first_name?: string;
            last_name?: string;
        };
        /** @description Result of accepting an invitation. */
        SignedUp: {
            /**
             * @description 1 member, 8 administrator, 15 owner.
             * @enum {integer}
             */
            level: 1 | 8 | 15;
            /** Format: uuid */
            organization_id: string;
            /** @description First personal key of a new account, with the scope `*`; null for an existing account. */
            personal_api_key: string | null;
            user: components["schemas"]["User"];
        };
        /** @description A person with an account. */
        User: {
            /** @description Distinct id for events about this person. */
            distinct_id: string;
            /** Format: email */
            email: string;
            /** @description First name; may be empty. */
            first_name: string;
            /** @description Avatar for front ends; always null. */
            hedgehog_config: {
                [key: string]: unknown;
            } | null;
            /** Format: int64 */
            id: number;
            /** @description True once the person accepted an invite that was mailed to this address; false until then. */
            is_email_verified: boolean;
            /** @description Last name; may be empty. */
            last_name: string;
            /** Format: uuid */
            uuid: string;
        };
        /** @description A project in a list. */
        ProjectItem: {
            access_control: boolean;
            /** @description Key with which clients send events. */
            api_token: string | null;
            completed_snippet_onboarding: boolean;
            has_completed_onboarding_for: unknown;
            /** Format: int64 */
            id: number;
            /** @description True if the project has ever received an event. */
            ingested_event: boolean;
            is_demo: boolean;
            name: string;
            /** Format: uuid */
            organization: string;
            /**
             * Format: int64
             * @description Equals `id`: a project has one team.
             */
            project_id: number;
            /** @description IANA name of the time zone. */
            timezone: string;
            /** Format: uuid */
            uuid: string;
        };
        /** @description Fields of a new invite. */
        NewOrganizationInviteInput: {
            /** @description Name for the greeting in the mail. */
            first_name?: string;
            /**
             * @description Level of the new member, not above yours; 1 if not given.
             * @enum {integer}
             */
            level?: 1 | 8 | 15;
            /** @description Message to the recipient. */
            message?: string | null;
            /** @description Private projects that the invite gives access to, with levels not above yours. */
            private_project_access?: components["schemas"]["PrivateProjectAccessInput"][] | null;
            /** @description True to send a mail; true if not given. */
            send_email?: boolean;
            /**
             * Format: email
             * @description Address of the recipient.
             */
            target_email: string;
        };
        /** @description A level in a private project. */
        PrivateProjectAccessInput: {
            /**
             * Format: int64
             * @description Id of the project.
             */
            id: number;
            level: (1 | 8) | ("member" | "admin");
        };
        /** @description A level in a private project. */
        PrivateProjectAccess: {
            /**
             * Format: int64
             * @description Id of the project.
             */
            id: number;
            level: (1 | 8) | ("member" | "admin");
        };
        /**
         * @description State that the organization may set.
         * @enum {string}
         */
        EndState: "finished";
        /**
         * @description State of an import.
         * @enum {string}
         */
        HistoricalMigrationState: "requested" | "approved" | "rejected" | "finished";
        /** @description A line of a log. */
        BatchExportLogEntry: {
            /**
             * Format: uuid
             * @description Id of the run; null for lines of the export itself.
             */
            instance_id: string | null;
            level: components["schemas"]["BatchExportLogLevel"];
            /**
             * Format: uuid
             * @description Id of the export.
             */
            log_source_id: string;
            message: string;
            /** Format: date-time */
            timestamp: string;
        };
        /**
         * @description Level of a log line.
         * @enum {string}
         */
        BatchExportLogLevel: "DEBUG" | "INFO" | "WARNING" | "ERROR";
        /**
         * @description Status of a run or a backfill.
         * @enum {string}
         */
        BatchExportRunStatus: "Starting" | "Running" | "Completed" | "Failed" | "FailedRetryable" | "Cancelled" | "Terminated" | "TimedOut";
        /** @description Destination of an export, without its secrets. */
        BatchExportDestination: components["schemas"]["S3Destination"] | components["schemas"]["AzureBlobDestination"] | components["schemas"]["GCSDestination"] | components["schemas"]["FileSystemDestination"] | components["schemas"]["PostgresDestination"] | components["schemas"]["RedshiftDestination"] | components["schemas"]["SnowflakeDestination"] | components["schemas"]["BigQueryDestination"] | components["schemas"]["DatabricksDestination"] | components["schemas"]["ClickHouseDestination"] | components["schemas"]["HTTPDestination"] | components["schemas"]["NoOpDestination"];
        /**
         * @description Kind of rows that are exported.
         * @enum {string}
         */
        BatchExportModel: "events" | "persons";
        /** @description Blobs in Azure Blob Storage. */
        AzureBlobDestination: {
            config: components["schemas"]["AzureBlobPublicConfig"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "AzureBlob";
        };
        /** @description Rows of a table in BigQuery, merged by `uuid`. The service account needs the roles BigQuery Data Editor for the dataset and BigQuery Job User; its fields are those of the JSON key that Google creates. */
        BigQueryDestination: {
            config: components["schemas"]["BigQueryPublicConfig"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "BigQuery";
        };
        /** @description Rows of a table in your own ClickHouse, each once; an event that was sent again with other values is a newer row of the same key, and so is a person's new version. The user needs the rights to create, read, fill and drop tables of the database. One server, or ClickHouse Cloud: a staging table has to be on the host that is asked. */
        ClickHouseDestination: {
            config: components["schemas"]["ClickHousePublicConfig"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "ClickHouse";
        };
        /** @description Rows of a table in Databricks, merged by `uuid`, by a SQL warehouse. A service principal logs in by OAuth; it needs the right to create tables in the schema. */
        DatabricksDestination: {
            config: components["schemas"]["DatabricksPublicConfig"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "Databricks";
        };
        /** @description Files on the server that runs exports, in a folder named by the organization's id below the operator's folder (`export_root`). Without that setting there are no exports to files. */
        FileSystemDestination: {
            config: components["schemas"]["FileSystemPublicConfig"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "FileSystem";
        };
        /** @description Objects in Google Cloud Storage. The service account needs the role Storage Object User for the bucket. */
        GCSDestination: {
            config: components["schemas"]["GCSPublicConfig"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "GCS";
        };
        /** @description Batches of events, posted to a server: up to 1000 events or 4 MiB each, with an `Idempotency-Key`. If the URL's path ends with `/batch/`, batches have the form that clients of Millrace send; otherwise they are lines of JSON, with the token as `Authorization: Bearer`. `model` must be `events`. */
        HTTPDestination: {
            config: components["schemas"]["HTTPPublicConfig"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "HTTP";
        };
        /** @description Nothing is sent: runs are created and their rows counted, to try an interval or a query. */
        NoOpDestination: {
            config: components["schemas"]["NoOpPublicConfig"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "NoOp";
        };
        /** @description Rows of a table in PostgreSQL, upserted by `uuid`; persons by project and distinct id. The user needs the right to create tables in the schema. Give the server's own port, or a pooler's that keeps sessions: PgBouncer with `pool_mode = transaction` does not work. */
        PostgresDestination: {
            config: components["schemas"]["PostgresPublicConfig"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "Postgres";
        };
        /** @description Rows of a table in Amazon Redshift, by `uuid`; persons by project and distinct id. The user needs the right to create tables in the schema. */
        RedshiftDestination: {
            config: components["schemas"]["RedshiftPublicConfig"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "Redshift";
        };
        /** @description Objects in Amazon S3, or in a store with the same API. The key needs `s3:PutObject`, `s3:GetObject`, `s3:DeleteObject`, `s3:AbortMultipartUpload` and, to delete files of an earlier try, `s3:ListBucket`. */
        S3Destination: {
            config: components["schemas"]["S3PublicConfig"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "S3";
        };
        /** @description Rows of a table in Snowflake, merged by `uuid`, by its SQL API. The API accepts a key pair, or a programmatic access token as the `password`; it accepts no passwords of users. */
        SnowflakeDestination: {
            config: components["schemas"]["SnowflakePublicConfig"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "Snowflake";
        };
        SnowflakePublicConfig: {
            /**
             * @description Name of the account, as before `.snowflakecomputing.com`.
             * @example myorganization-myaccount
             */
            account?: string;
            /**
             * @description How the user logs in: `password` needs `password`, `keypair` needs `private_key`.
             * @default password
             * @example keypair
             * @enum {string}
             */
            authentication_type: "password" | "keypair";
            /**
             * @description Database that the table is in.
             * @example ANALYTICS
             */
            database?: string;
            /**
             * @description Names of events that are not exported.
             * @example [
             *       "$feature_flag_called"
             *     ]
             */
            exclude_events?: string[];
            /**
             * @description Names of the events that are exported; all if none are given.
             * @example [
             *       "$pageview",
             *       "purchase"
             *     ]
             */
            include_events?: string[];
            /**
             * @description Role that statements run as; the user's own if it is not given.
             * @example EXPORTER
             */
            role?: string;
            /**
             * @description Schema that the table is in.
             * @example PUBLIC
             */
            schema?: string;
            /**
             * @description Name of the table, which is created if it does not exist; without it `events`, or `persons` of that model.
             * @example millrace_events
             */
            table_name?: string;
            /**
             * @description Warehouse that statements run in.
             * @example COMPUTE_WH
             */
            warehouse?: string;
        };
        S3PublicConfig: {
            /**
             * @description Name of the bucket. Amazon's have 3 to 63 lower-case letters, digits, dots and dashes.
             * @example my-bucket
             */
            bucket_name?: string;
            /**
             * @description Compression of the files; none if it is not given. `JSONLines` and `CSV` allow `gzip`, `brotli` and `zstd`; `Parquet` allows `zstd`, `lz4`, `snappy`, `gzip` and `brotli`; `Arrow` allows `lz4` and `zstd`.
             * @example zstd
             * @enum {string}
             */
            compression?: "gzip" | "brotli" | "zstd" | "lz4" | "snappy";
            /**
             * @description Encryption of the files; that of the bucket if it is not given. `aws:kms` without `kms_key_id` uses Amazon's own key.
             * @example aws:kms
             * @enum {string}
             */
            encryption?: "AES256" | "aws:kms";
            /**
             * @description URL of a store with the API of S3 that is not Amazon's, without `?` and `#`.
             * @example https://s3.example.com
             */
            endpoint_url?: string;
            /**
             * @description Names of events that are not exported.
             * @example [
             *       "$feature_flag_called"
             *     ]
             */
            exclude_events?: string[];
            /**
             * @description Format of the files: `JSONLines`, `Parquet`, `CSV` (with a line of names) or `Arrow` (a stream). Values in `CSV` are not changed, and spreadsheets read those that begin with `=`, `+`, `-` or `@` as formulas: import such files as text.
             * @default JSONLines
             * @example Parquet
             * @enum {string}
             */
            file_format: "JSONLines" | "Parquet" | "CSV" | "Arrow";
            /**
             * @description Names of the events that are exported; all if none are given.
             * @example [
             *       "$pageview",
             *       "purchase"
             *     ]
             */
            include_events?: string[];
            /**
             * @description Key of Amazon's KMS that the files are encrypted with; `encryption` must be `aws:kms`.
             * @example arn:aws:kms:eu-central-1:012345678901:key/01234567-89ab-cdef-0123-456789abcdef
             */
            kms_key_id?: string;
            /**
             * @description Largest size of a file in megabytes, before compression. Further rows go into further files of the window, which are numbered. A window has 100 files at the most: if that is too few, the files are larger.
             * @example 512
             */
            max_file_size_mb?: number;
            /**
             * @description Folder of the files. `{year}`, `{month}`, `{day}`, `{hour}`, `{minute}` and `{second}` are those of the window's end, in UTC; `{table}` is `events` or `persons`; `{data_interval_start}` and `{data_interval_end}` are the window's. Slashes at its ends, and repeated slashes, are omitted. It may have 924 bytes.
             * @example events/{year}/{month}/{day}
             */
            prefix?: string;
            /**
             * @description Region of the bucket.
             * @example eu-central-1
             */
            region?: string;
            /**
             * @description Whether the bucket is named before the server's name, and not in the path.
             * @default false
             * @example true
             */
            use_virtual_style_addressing: boolean;
        };
        RedshiftPublicConfig: {
            /**
             * @description Database that the table is in.
             * @example analytics
             */
            database?: string;
            /**
             * @description Names of events that are not exported.
             * @example [
             *       "$feature_flag_called"
             *     ]
             */
            exclude_events?: string[];
            /**
             * @description Whether a certificate of the server is accepted that no authority vouches for.
             * @default false
             * @example true
             */
            has_self_signed_cert: boolean;
            /**
             * @description Name or address of the cluster.
             * @example my-cluster.abc123.eu-central-1.redshift.amazonaws.com
             */
            host?: string;
            /**
             * @description Names of the events that are exported; all if none are given.
             * @example [
             *       "$pageview",
             *       "purchase"
             *     ]
             */
            include_events?: string[];
            /**
             * @description Port that the server listens on.
             * @default 5439
             * @example 5439
             */
            port: number;
            /**
             * @description Type of columns that hold JSON.
             * @default varchar
             * @example super
             * @enum {string}
             */
            properties_data_type: "varchar" | "super";
            /**
             * @description Schema that the table is in.
             * @default public
             * @example public
             */
            schema: string;
            /**
             * @description Name of the table, which is created if it does not exist; without it `events`, or `persons` of that model.
             * @example millrace_events
             */
            table_name?: string;
        };
        PostgresPublicConfig: {
            /**
             * @description Database that the table is in.
             * @example analytics
             */
            database?: string;
            /**
             * @description Names of events that are not exported.
             * @example [
             *       "$feature_flag_called"
             *     ]
             */
            exclude_events?: string[];
            /**
             * @description Whether a certificate of the server is accepted that no authority vouches for.
             * @default false
             * @example true
             */
            has_self_signed_cert: boolean;
            /**
             * @description Name or address of the server.
             * @example db.example.com
             */
            host?: string;
            /**
             * @description Names of the events that are exported; all if none are given.
             * @example [
             *       "$pageview",
             *       "purchase"
             *     ]
             */
            include_events?: string[];
            /**
             * @description Port that the server listens on.
             * @default 5432
             * @example 5432
             */
            port: number;
            /**
             * @description Schema that the table is in.
             * @default public
             * @example public
             */
            schema: string;
            /**
             * @description Name of the table, which is created if it does not exist; without it `events`, or `persons` of that model.
             * @example millrace_events
             */
            table_name?: string;
        };
        NoOpPublicConfig: {
            /**
             * @description A note of yours.
             * @default
             * @example try
             */
            arg: string;
            /**
             * @description Names of events that are not exported.
             * @example [
             *       "$feature_flag_called"
             *     ]
             */
            exclude_events?: string[];
            /**
             * @description Names of the events that are exported; all if none are given.
             * @example [
             *       "$pageview",
             *       "purchase"
             *     ]
             */
            include_events?: string[];
        };
        HTTPPublicConfig: {
            /**
             * @description Names of events that are not exported.
             * @example [
             *       "$feature_flag_called"
             *     ]
             */
            exclude_events?: string[];
            /**
             * @description Names of the events that are exported; all if none are given.
             * @example [
             *       "$pageview",
             *       "purchase"
             *     ]
             */
            include_events?: string[];
            /**
             * @description URL that batches are posted to.
             * @example https://in.example.com/batch/
             */
            url?: string;
        };
        GCSPublicConfig: {
            /**
             * @description Name of the bucket.
             * @example my-bucket
             */
            bucket_name?: string;
            /**
             * @description Compression of the files; none if it is not given. `JSONLines` and `CSV` allow `gzip`, `brotli` and `zstd`; `Parquet` allows `zstd`, `lz4`, `snappy`, `gzip` and `brotli`; `Arrow` allows `lz4` and `zstd`.
             * @example zstd
             * @enum {string}
             */
            compression?: "gzip" | "brotli" | "zstd" | "lz4" | "snappy";
            /**
             * @description Names of events that are not exported.
             * @example [
             *       "$feature_flag_called"
             *     ]
             */
            exclude_events?: string[];
            /**
             * @description Format of the files: `JSONLines`, `Parquet`, `CSV` (with a line of names) or `Arrow` (a stream). Values in `CSV` are not changed, and spreadsheets read those that begin with `=`, `+`, `-` or `@` as formulas: import such files as text.
             * @default JSONLines
             * @example Parquet
             * @enum {string}
             */
            file_format: "JSONLines" | "Parquet" | "CSV" | "Arrow";
            /**
             * @description Names of the events that are exported; all if none are given.
             * @example [
             *       "$pageview",
             *       "purchase"
             *     ]
             */
            include_events?: string[];
            /**
             * @description Largest size of a file in megabytes, before compression. Further rows go into further files of the window, which are numbered. A window has 100 files at the most: if that is too few, the files are larger.
             * @example 512
             */
            max_file_size_mb?: number;
            /**
             * @description Folder of the files. `{year}`, `{month}`, `{day}`, `{hour}`, `{minute}` and `{second}` are those of the window's end, in UTC; `{table}` is `events` or `persons`; `{data_interval_start}` and `{data_interval_end}` are the window's. Slashes at its ends, and repeated slashes, are omitted. It may have 924 bytes.
             * @example events/{year}/{month}/{day}
             */
            prefix?: string;
        };
        FileSystemPublicConfig: {
            /**
             * @description Compression of the files; none if it is not given. `JSONLines` and `CSV` allow `gzip`, `brotli` and `zstd`; `Parquet` allows `zstd`, `lz4`, `snappy`, `gzip` and `brotli`; `Arrow` allows `lz4` and `zstd`.
             * @example zstd
             * @enum {string}
             */
            compression?: "gzip" | "brotli" | "zstd" | "lz4" | "snappy";
            /**
             * @description Names of events that are not exported.
             * @example [
             *       "$feature_flag_called"
             *     ]
             */
            exclude_events?: string[];
            /**
             * @description Format of the files: `JSONLines`, `Parquet`, `CSV` (with a line of names) or `Arrow` (a stream). Values in `CSV` are not changed, and spreadsheets read those that begin with `=`, `+`, `-` or `@` as formulas: import such files as text.
             * @default JSONLines
             * @example Parquet
             * @enum {string}
             */
            file_format: "JSONLines" | "Parquet" | "CSV" | "Arrow";
            /**
             * @description Names of the events that are exported; all if none are given.
             * @example [
             *       "$pageview",
             *       "purchase"
             *     ]
             */
            include_events?: string[];
            /**
             * @description Largest size of a file in megabytes, before compression. Further rows go into further files of the window, which are numbered. A window has 100 files at the most: if that is too few, the files are larger.
             * @example 512
             */
            max_file_size_mb?: number;
            /**
             * @description Folder of the files, below that of the organization: `a/b` is `<export_root>/<organization id>/a/b`. What is in braces is replaced as in the `prefix` of other files.
             * @example events/{year}/{month}
             */
            path?: string;
        };
        DatabricksPublicConfig: {
            /**
             * @description Catalog that the schema is in.
             * @example main
             */
            catalog?: string;
            /**
             * @description Names of events that are not exported.
             * @example [
             *       "$feature_flag_called"
             *     ]
             */
            exclude_events?: string[];
            /**
             * @description Path of the SQL warehouse.
             * @example /sql/1.0/warehouses/0123456789abcdef
             */
            http_path?: string;
            /**
             * @description Names of the events that are exported; all if none are given.
             * @example [
             *       "$pageview",
             *       "purchase"
             *     ]
             */
            include_events?: string[];
            /**
             * @description Kept for clients that send it; it has no effect.
             * @example 1
             */
            integration?: string;
            /**
             * @description Schema that the table is in.
             * @example analytics
             */
            schema?: string;
            /**
             * @description Name of the workspace's server. It may be given later: until then runs fail.
             * @example dbc-a1b2345c-d6e7.cloud.databricks.com
             */
            server_hostname?: string;
            /**
             * @description Name of the table, which is created if it does not exist.
             * @example millrace_events
             */
            table_name?: string;
            /**
             * @description Whether columns that hold JSON have the type VARIANT, and not STRING.
             * @default true
             * @example false
             */
            use_variant_type: boolean;
        };
        ClickHousePublicConfig: {
            /**
             * @description Database that the table is in.
             * @example analytics
             */
            database?: string;
            /**
             * @description Names of events that are not exported.
             * @example [
             *       "$feature_flag_called"
             *     ]
             */
            exclude_events?: string[];
            /**
             * @description Names of the events that are exported; all if none are given.
             * @example [
             *       "$pageview",
             *       "purchase"
             *     ]
             */
            include_events?: string[];
            /**
             * @description Name of the table, which is created if it does not exist; without it `events`, or `persons` of that model.
             * @example millrace_events
             */
            table_name?: string;
            /**
             * @description URL of the HTTP interface; with https the certificate must be by an authority that systems know.
             * @example https://clickhouse.example.com:8443
             */
            url?: string;
        };
        BigQueryPublicConfig: {
            /**
             * @description Dataset that the table is in.
             * @example analytics
             */
            dataset_id?: string;
            /**
             * @description Names of events that are not exported.
             * @example [
             *       "$feature_flag_called"
             *     ]
             */
            exclude_events?: string[];
            /**
             * @description Names of the events that are exported; all if none are given.
             * @example [
             *       "$pageview",
             *       "purchase"
             *     ]
             */
            include_events?: string[];
            /**
             * @description Project that the dataset is in.
             * @example my-project
             */
            project_id?: string;
            /**
             * @description Name of the table, which is created if it does not exist; without it `events`, or `persons` of that model.
             * @example millrace_events
             */
            table_id?: string;
            /**
             * @description Whether columns that hold JSON have the type JSON, and not STRING.
             * @default false
             * @example true
             */
            use_json_type: boolean;
        };
        AzureBlobPublicConfig: {
            /**
             * @description Compression of the files; none if it is not given. `JSONLines` and `CSV` allow `gzip`, `brotli` and `zstd`; `Parquet` allows `zstd`, `lz4`, `snappy`, `gzip` and `brotli`; `Arrow` allows `lz4` and `zstd`.
             * @example zstd
             * @enum {string}
             */
            compression?: "gzip" | "brotli" | "zstd" | "lz4" | "snappy";
            /**
             * @description Name of the container.
             * @example my-container
             */
            container_name?: string;
            /**
             * @description Names of events that are not exported.
             * @example [
             *       "$feature_flag_called"
             *     ]
             */
            exclude_events?: string[];
            /**
             * @description Format of the files: `JSONLines`, `Parquet`, `CSV` (with a line of names) or `Arrow` (a stream). Values in `CSV` are not changed, and spreadsheets read those that begin with `=`, `+`, `-` or `@` as formulas: import such files as text.
             * @default JSONLines
             * @example Parquet
             * @enum {string}
             */
            file_format: "JSONLines" | "Parquet" | "CSV" | "Arrow";
            /**
             * @description Names of the events that are exported; all if none are given.
             * @example [
             *       "$pageview",
             *       "purchase"
             *     ]
             */
            include_events?: string[];
            /**
             * @description Largest size of a file in megabytes, before compression. Further rows go into further files of the window, which are numbered. A window has 100 files at the most: if that is too few, the files are larger.
             * @example 512
             */
            max_file_size_mb?: number;
            /**
             * @description Folder of the files. `{year}`, `{month}`, `{day}`, `{hour}`, `{minute}` and `{second}` are those of the window's end, in UTC; `{table}` is `events` or `persons`; `{data_interval_start}` and `{data_interval_end}` are the window's. Slashes at its ends, and repeated slashes, are omitted. It may have 924 bytes.
             * @example events/{year}/{month}/{day}
             */
            prefix?: string;
        };
        /** @description Progress of a backfill. */
        BatchExportBackfillProgress: {
            /** Format: int64 */
            finished_runs: number;
            /**
             * Format: double
             * @description Finished part, from 0 to 1; null until it is known.
             */
            progress: number | null;
            /**
             * Format: int64
             * @description Number of runs; null until it is known.
             */
            total_runs: number | null;
        };
        /** @description Changes of an export's destination. Another type than before starts from an empty configuration. Secrets that are not named stay, unless the change sends them to another host, URL or account: then they must be given again. Fields that require each other must all be set afterwards. */
        PatchBatchExportDestination: components["schemas"]["PatchS3Destination"] | components["schemas"]["PatchAzureBlobDestination"] | components["schemas"]["PatchGCSDestination"] | components["schemas"]["PatchFileSystemDestination"] | components["schemas"]["PatchPostgresDestination"] | components["schemas"]["PatchRedshiftDestination"] | components["schemas"]["PatchSnowflakeDestination"] | components["schemas"]["PatchBigQueryDestination"] | components["schemas"]["PatchDatabricksDestination"] | components["schemas"]["PatchClickHouseDestination"] | components["schemas"]["PatchHTTPDestination"] | components["schemas"]["PatchNoOpDestination"] | components["schemas"]["PatchSameDestination"];
        /** @description Objects in Amazon S3, or in a store with the same API. The key needs `s3:PutObject`, `s3:GetObject`, `s3:DeleteObject`, `s3:AbortMultipartUpload` and, to delete files of an earlier try, `s3:ListBucket`. */
        PatchS3Destination: {
            config?: components["schemas"]["PatchS3Config"];
            /** @constant */
            type: "S3";
        };
        /** @description Blobs in Azure Blob Storage. */
        PatchAzureBlobDestination: {
            config?: components["schemas"]["PatchAzureBlobConfig"];
            /** @constant */
            type: "AzureBlob";
        };
        /** @description Objects in Google Cloud Storage. The service account needs the role Storage Object User for the bucket. */
        PatchGCSDestination: {
            config?: components["schemas"]["PatchGCSConfig"];
            /** @constant */
            type: "GCS";
        };
        /** @description Files on the server that runs exports, in a folder named by the organization's id below the operator's folder (`export_root`). Without that setting there are no exports to files. */
        PatchFileSystemDestination: {
            config?: components["schemas"]["PatchFileSystemConfig"];
            /** @constant */
            type: "FileSystem";
        };
        /** @description Rows of a table in PostgreSQL, upserted by `uuid`; persons by project and distinct id. The user needs the right to create tables in the schema. Give the server's own port, or a pooler's that keeps sessions: PgBouncer with `pool_mode = transaction` does not work. */
        PatchPostgresDestination: {
            config?: components["schemas"]["PatchPostgresConfig"];
            /** @constant */
            type: "Postgres";
        };
        /** @description Rows of a table in Amazon Redshift, by `uuid`; persons by project and distinct id. The user needs the right to create tables in the schema. */
        PatchRedshiftDestination: {
            config?: components["schemas"]["PatchRedshiftConfig"];
            /** @constant */
            type: "Redshift";
        };
        /** @description Rows of a table in Snowflake, merged by `uuid`, by its SQL API. The API accepts a key pair, or a programmatic access token as the `password`; it accepts no passwords of users. */
        PatchSnowflakeDestination: {
            config?: components["schemas"]["PatchSnowflakeConfig"];
            /** @constant */
            type: "Snowflake";
        };
        /** @description Rows of a table in BigQuery, merged by `uuid`. The service account needs the roles BigQuery Data Editor for the dataset and BigQuery Job User; its fields are those of the JSON key that Google creates. */
        PatchBigQueryDestination: {
            config?: components["schemas"]["PatchBigQueryConfig"];
            /** @constant */
            type: "BigQuery";
        };
        /** @description Rows of a table in Databricks, merged by `uuid`, by a SQL warehouse. A service principal logs in by OAuth; it needs the right to create tables in the schema. */
        PatchDatabricksDestination: {
            config?: components["schemas"]["PatchDatabricksConfig"];
            /** @constant */
            type: "Databricks";
        };
        /** @description Rows of a table in your own ClickHouse, each once; an event that was sent again with other values is a newer row of the same key, and so is a person's new version. The user needs the rights to create, read, fill and drop tables of the database. One server, or ClickHouse Cloud: a staging table has to be on the host that is asked. */
        PatchClickHouseDestination: {
            config?: components["schemas"]["PatchClickHouseConfig"];
            /** @constant */
            type: "ClickHouse";
        };
        /** @description Batches of events, posted to a server: up to 1000 events or 4 MiB each, with an `Idempotency-Key`. If the URL's path ends with `/batch/`, batches have the form that clients of Millrace send; otherwise they are lines of JSON, with the token as `Authorization: Bearer`. `model` must be `events`. */
        PatchHTTPDestination: {
            config?: components["schemas"]["PatchHTTPConfig"];
            /** @constant */
            type: "HTTP";
        };
        /** @description Nothing is sent: runs are created and their rows counted, to try an interval or a query. */
        PatchNoOpDestination: {
            config?: components["schemas"]["PatchNoOpConfig"];
            /** @constant */
            type: "NoOp";
        };
        /** @description Changes of fields of the type that the export has. */
        PatchSameDestination: {
            /** @description Fields of the type; those that are not named stay, null removes one. */
            config?: Record<string, never>;
        };
        PatchNoOpConfig: {
            /**
             * @description A note of yours.
             * @default
             * @example try
             */
            arg: string | null;
            /**
             * @description Names of events that are not exported.
             * @example [
             *       "$feature_flag_called"
             *     ]
             */
            exclude_events?: string[] | null;
            /**
             * @description Names of the events that are exported; all if none are given.
             * @example [
             *       "$pageview",
             *       "purchase"
             *     ]
             */
            include_events?: string[] | null;
        };
        PatchHTTPConfig: {
            /**
             * @description Names of events that are not exported.
             * @example [
             *       "$feature_flag_called"
             *     ]
             */
            exclude_events?: string[] | null;
            /**
             * @description Names of the events that are exported; all if none are given.
             * @example [
             *       "$pageview",
             *       "purchase"
             *     ]
             */
            include_events?: string[] | null;
            /**
             * @description Key of the project there, or the token of the server.
             * @example phc_0123456789abcdefghijklmnopqrstuvwxyzABCDEFG
             */
            token?: string;
            /**
             * @description URL that batches are posted to.
             * @example https://in.example.com/batch/
             */
            url?: string;
        };
        PatchClickHouseConfig: {
            /**
             * @description Database that the table is in.
             * @example analytics
             */
            database?: string;
            /**
             * @description Names of events that are not exported.
             * @example [
             *       "$feature_flag_called"
             *     ]
             */
            exclude_events?: string[] | null;
            /**
             * @description Names of the events that are exported; all if none are given.
             * @example [
             *       "$pageview",
             *       "purchase"
             *     ]
             */
            include_events?: string[] | null;
            /**
             * @description Password of the user.
             * @example correct horse
             */
            password?: string;
            /**
             * @description Name of the table, which is created if it does not exist; without it `events`, or `persons` of that model.
             * @example millrace_events
             */
            table_name?: string | null;
            /**
             * @description URL of the HTTP interface; with https the certificate must be by an authority that systems know.
             * @example https://clickhouse.example.com:8443
             */
            url?: string;
            /**
             * @description User who owns the table, or may create it.
             * @example exports
             */
            user?: string;
        };
        PatchDatabricksConfig: {
            /**
             * @description Catalog that the schema is in.
             * @example main
             */
            catalog?: string;
            /**
             * @description Id of the service principal. It may be given later, with its secret: until then runs fail.
             * @example 0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0
             */
            client_id?: string | null;
            /**
             * @description OAuth secret of the service principal.
             * @example dose0123456789abcdef0123456789abcdef
             */
            client_secret?: string | null;
            /**
             * @description Names of events that are not exported.
             * @example [
             *       "$feature_flag_called"
             *     ]
             */
            exclude_events?: string[] | null;
            /**
             * @description Path of the SQL warehouse.
             * @example /sql/1.0/warehouses/0123456789abcdef
             */
            http_path?: string;
            /**
             * @description Names of the events that are exported; all if none are given.
             * @example [
             *       "$pageview",
             *       "purchase"
             *     ]
             */
            include_events?: string[] | null;
            /**
             * @description Kept for clients that send it; it has no effect.
             * @example 1
             */
            integration?: string | null;
            /**
             * @description Schema that the table is in.
             * @example analytics
             */
            schema?: string;
            /**
             * @description Name of the workspace's server. It may be given later: until then runs fail.
             * @example dbc-a1b2345c-d6e7.cloud.databricks.com
             */
            server_hostname?: string | null;
            /**
             * @description Name of the table, which is created if it does not exist.
             * @example millrace_events
             */
            table_name?: string;
            /**
             * @description Whether columns that hold JSON have the type VARIANT, and not STRING.
             * @default true
             * @example false
             */
            use_variant_type: boolean | string | null;
        };
        PatchBigQueryConfig: {
            /**
             * @description Name of the service account.
             * @example exports@my-project.iam.gserviceaccount.com
             */
            client_email?: string;
            /**
             * @description Dataset that the table is in.
             * @example analytics
             */
            dataset_id?: string;
            /**
             * @description Names of events that are not exported.
             * @example [
             *       "$feature_flag_called"
             *     ]
             */
            exclude_events?: string[] | null;
            /**
             * @description Names of the events that are exported; all if none are given.
             * @example [
             *       "$pageview",
             *       "purchase"
             *     ]
             */
            include_events?: string[] | null;
            /**
             * @description Key of the service account, in PEM.
             * @example -----BEGIN PRIVATE KEY-----
             *     MIIE…
             *     -----END PRIVATE KEY-----
             */
            private_key?: string;
            /**
             * @description Id of the key.
             * @example 0123abcd
             */
            private_key_id?: string;
            /**
             * @description Project that the dataset is in.
             * @example my-project
             */
            project_id?: string;
            /**
             * @description Name of the table, which is created if it does not exist; without it `events`, or `persons` of that model.
             * @example millrace_events
             */
            table_id?: string | null;
            /**
             * @description URL that tokens are requested from.
             * @example https://oauth2.googleapis.com/token
             */
            token_uri?: string;
            /**
             * @description Whether columns that hold JSON have the type JSON, and not STRING.
             * @default false
             * @example true
             */
            use_json_type: boolean | string | null;
        };
        PatchSnowflakeConfig: {
            /**
             * @description Name of the account, as before `.snowflakecomputing.com`.
             * @example myorganization-myaccount
             */
            account?: string;
            /**
             * @description How the user logs in: `password` needs `password`, `keypair` needs `private_key`.
             * @default password
             * @example keypair
             * @enum {string|null}
             */
            authentication_type: "password" | "keypair" | null;
            /**
             * @description Database that the table is in.
             * @example ANALYTICS
             */
            database?: string;
            /**
             * @description Names of events that are not exported.
             * @example [
             *       "$feature_flag_called"
             *     ]
             */
            exclude_events?: string[] | null;
            /**
             * @description Names of the events that are exported; all if none are given.
             * @example [
             *       "$pageview",
             *       "purchase"
             *     ]
             */
            include_events?: string[] | null;
            /**
             * @description Programmatic access token of the user.
             * @example eyJraWQiOiIxMjM0NSIs…
             */
            password?: string | null;
            /**
             * @description RSA key of the user, in PEM.
             * @example -----BEGIN ENCRYPTED PRIVATE KEY-----
             *     MIIE…
             *     -----END ENCRYPTED PRIVATE KEY-----
             */
            private_key?: string | null;
            /**
             * @description Passphrase of the key, if the key is encrypted.
             * @example correct horse
             */
            private_key_passphrase?: string | null;
            /**
             * @description Role that statements run as; the user's own if it is not given.
             * @example EXPORTER
             */
            role?: string | null;
            /**
             * @description Schema that the table is in.
             * @example PUBLIC
             */
            schema?: string;
            /**
             * @description Name of the table, which is created if it does not exist; without it `events`, or `persons` of that model.
             * @example millrace_events
             */
            table_name?: string | null;
            /**
             * @description User who fills the table.
             * @example EXPORTS
             */
            user?: string;
            /**
             * @description Warehouse that statements run in.
             * @example COMPUTE_WH
             */
            warehouse?: string;
        };
        PatchRedshiftConfig: {
            /**
             * @description Database that the table is in.
             * @example analytics
             */
            database?: string;
            /**
             * @description Names of events that are not exported.
             * @example [
             *       "$feature_flag_called"
             *     ]
             */
            exclude_events?: string[] | null;
            /**
             * @description Whether a certificate of the server is accepted that no authority vouches for.
             * @default false
             * @example true
             */
            has_self_signed_cert: boolean | string | null;
            /**
             * @description Name or address of the cluster.
             * @example my-cluster.abc123.eu-central-1.redshift.amazonaws.com
             */
            host?: string;
            /**
             * @description Names of the events that are exported; all if none are given.
             * @example [
             *       "$pageview",
             *       "purchase"
             *     ]
             */
            include_events?: string[] | null;
            /**
             * @description Password of the user.
             * @example correct horse
             */
            password?: string;
            /**
             * @description Port that the server listens on.
             * @default 5439
             * @example 5439
             */
            port: number | string | null;
            /**
             * @description Type of columns that hold JSON.
             * @default varchar
             * @example super
             * @enum {string|null}
             */
            properties_data_type: "varchar" | "super" | null;
            /**
             * @description Schema that the table is in.
             * @default public
             * @example public
             */
            schema: string | null;
            /**
             * @description Name of the table, which is created if it does not exist; without it `events`, or `persons` of that model.
             * @example millrace_events
             */
            table_name?: string | null;
            /**
             * @description User who owns the table, or may create it.
             * @example exports
             */
            user?: string;
        };
        PatchPostgresConfig: {
            /**
             * @description Database that the table is in.
             * @example analytics
             */
            database?: string;
            /**
             * @description Names of events that are not exported.
             * @example [
             *       "$feature_flag_called"
             *     ]
             */
            exclude_events?: string[] | null;
            /**
             * @description Whether a certificate of the server is accepted that no authority vouches for.
             * @default false
             * @example true
             */
            has_self_signed_cert: boolean | string | null;
            /**
             * @description Name or address of the server.
             * @example db.example.com
             */
            host?: string;
            /**
             * @description Names of the events that are exported; all if none are given.
             * @example [
             *       "$pageview",
             *       "purchase"
             *     ]
             */
            include_events?: string[] | null;
            /**
             * @description Password of the user.
             * @example correct horse
             */
            password?: string;
            /**
             * @description Port that the server listens on.
             * @default 5432
             * @example 5432
             */
            port: number | string | null;
            /**
             * @description Schema that the table is in.
             * @default public
             * @example public
             */
            schema: string | null;
            /**
             * @description Name of the table, which is created if it does not exist; without it `events`, or `persons` of that model.
             * @example millrace_events
             */
            table_name?: string | null;
            /**
             * @description User who owns the table, or may create it.
             * @example exports
             */
            user?: string;
        };
        PatchFileSystemConfig: {
            /**
             * @description Compression of the files; none if it is not given. `JSONLines` and `CSV` allow `gzip`, `brotli` and `zstd`; `Parquet` allows `zstd`, `lz4`, `snappy`, `gzip` and `brotli`; `Arrow` allows `lz4` and `zstd`.
             * @example zstd
             * @enum {string|null}
             */
            compression?: "gzip" | "brotli" | "zstd" | "lz4" | "snappy" | null;
            /**
             * @description Names of events that are not exported.
             * @example [
             *       "$feature_flag_called"
             *     ]
             */
            exclude_events?: string[] | null;
            /**
             * @description Format of the files: `JSONLines`, `Parquet`, `CSV` (with a line of names) or `Arrow` (a stream). Values in `CSV` are not changed, and spreadsheets read those that begin with `=`, `+`, `-` or `@` as formulas: import such files as text.
             * @default JSONLines
             * @example Parquet
             * @enum {string|null}
             */
            file_format: "JSONLines" | "Parquet" | "CSV" | "Arrow" | null;
            /**
             * @description Names of the events that are exported; all if none are given.
             * @example [
             *       "$pageview",
             *       "purchase"
             *     ]
             */
            include_events?: string[] | null;
            /**
             * @description Largest size of a file in megabytes, before compression. Further rows go into further files of the window, which are numbered. A window has 100 files at the most: if that is too few, the files are larger.
             * @example 512
             */
            max_file_size_mb?: number | string | null;
            /**
             * @description Folder of the files, below that of the organization: `a/b` is `<export_root>/<organization id>/a/b`. What is in braces is replaced as in the `prefix` of other files.
             * @example events/{year}/{month}
             */
            path?: string;
        };
        PatchGCSConfig: {
            /**
             * @description Name of the bucket.
             * @example my-bucket
             */
            bucket_name?: string;
            /**
             * @description Compression of the files; none if it is not given. `JSONLines` and `CSV` allow `gzip`, `brotli` and `zstd`; `Parquet` allows `zstd`, `lz4`, `snappy`, `gzip` and `brotli`; `Arrow` allows `lz4` and `zstd`.
             * @example zstd
             * @enum {string|null}
             */
            compression?: "gzip" | "brotli" | "zstd" | "lz4" | "snappy" | null;
            /**
             * @description Names of events that are not exported.
             * @example [
             *       "$feature_flag_called"
             *     ]
             */
            exclude_events?: string[] | null;
            /**
             * @description Format of the files: `JSONLines`, `Parquet`, `CSV` (with a line of names) or `Arrow` (a stream). Values in `CSV` are not changed, and spreadsheets read those that begin with `=`, `+`, `-` or `@` as formulas: import such files as text.
             * @default JSONLines
             * @example Parquet
             * @enum {string|null}
             */
            file_format: "JSONLines" | "Parquet" | "CSV" | "Arrow" | null;
            /**
             * @description Names of the events that are exported; all if none are given.
             * @example [
             *       "$pageview",
             *       "purchase"
             *     ]
             */
            include_events?: string[] | null;
            /**
             * @description Largest size of a file in megabytes, before compression. Further rows go into further files of the window, which are numbered. A window has 100 files at the most: if that is too few, the files are larger.
             * @example 512
             */
            max_file_size_mb?: number | string | null;
            /**
             * @description Folder of the files. `{year}`, `{month}`, `{day}`, `{hour}`, `{minute}` and `{second}` are those of the window's end, in UTC; `{table}` is `events` or `persons`; `{data_interval_start}` and `{data_interval_end}` are the window's. Slashes at its ends, and repeated slashes, are omitted. It may have 924 bytes.
             * @example events/{year}/{month}/{day}
             */
            prefix?: string | null;
            /**
             * @description Key of a service account: the whole JSON file that Google creates, as a text. It has `client_email`, `private_key` and `private_key_id`.
             * @example {"type": "service_account", "private_key_id": "0123abcd", "private_key": "-----BEGIN PRIVATE KEY-----\nMIIE…\n-----END PRIVATE KEY-----\n", "client_email": "exports@my-project.iam.gserviceaccount.com", "token_uri": "https://oauth2.googleapis.com/token"}
             */
            service_account_key?: string | null;
        };
        PatchAzureBlobConfig: {
            /**
             * @description Compression of the files; none if it is not given. `JSONLines` and `CSV` allow `gzip`, `brotli` and `zstd`; `Parquet` allows `zstd`, `lz4`, `snappy`, `gzip` and `brotli`; `Arrow` allows `lz4` and `zstd`.
             * @example zstd
             * @enum {string|null}
             */
            compression?: "gzip" | "brotli" | "zstd" | "lz4" | "snappy" | null;
            /**
             * @description Connection string of the storage account: `AccountName=…;AccountKey=…`, or `BlobEndpoint=…` with an `AccountKey` or a `SharedAccessSignature`. A signature needs the rights to read, write, delete and list.
             * @example DefaultEndpointsProtocol=https;AccountName=myaccount;AccountKey=bXkta2V5;EndpointSuffix=core.windows.net
             */
            connection_string?: string | null;
            /**
             * @description Name of the container.
             * @example my-container
             */
            container_name?: string;
            /**
             * @description Names of events that are not exported.
             * @example [
             *       "$feature_flag_called"
             *     ]
             */
            exclude_events?: string[] | null;
            /**
             * @description Format of the files: `JSONLines`, `Parquet`, `CSV` (with a line of names) or `Arrow` (a stream). Values in `CSV` are not changed, and spreadsheets read those that begin with `=`, `+`, `-` or `@` as formulas: import such files as text.
             * @default JSONLines
             * @example Parquet
             * @enum {string|null}
             */
            file_format: "JSONLines" | "Parquet" | "CSV" | "Arrow" | null;
            /**
             * @description Names of the events that are exported; all if none are given.
             * @example [
             *       "$pageview",
             *       "purchase"
             *     ]
             */
            include_events?: string[] | null;
            /**
             * @description Largest size of a file in megabytes, before compression. Further rows go into further files of the window, which are numbered. A window has 100 files at the most: if that is too few, the files are larger.
             * @example 512
             */
            max_file_size_mb?: number | string | null;
            /**
             * @description Folder of the files. `{year}`, `{month}`, `{day}`, `{hour}`, `{minute}` and `{second}` are those of the window's end, in UTC; `{table}` is `events` or `persons`; `{data_interval_start}` and `{data_interval_end}` are the window's. Slashes at its ends, and repeated slashes, are omitted. It may have 924 bytes.
             * @example events/{year}/{month}/{day}
             */
            prefix?: string | null;
        };
        PatchS3Config: {
            /**
             * @description Access key that the files are written with. It may be given later, with its secret: until then runs fail.
             * @example AKIA0123456789ABCDEF
             */
            aws_access_key_id?: string | null;
            /**
             * @description Secret of the access key.
             * @example abcdefghijklmnopqrstuvwxyz0123456789ABCD
             */
            aws_secret_access_key?: string | null;
            /**
             * @description Name of the bucket. Amazon's have 3 to 63 lower-case letters, digits, dots and dashes.
             * @example my-bucket
             */
            bucket_name?: string;
            /**
             * @description Compression of the files; none if it is not given. `JSONLines` and `CSV` allow `gzip`, `brotli` and `zstd`; `Parquet` allows `zstd`, `lz4`, `snappy`, `gzip` and `brotli`; `Arrow` allows `lz4` and `zstd`.
             * @example zstd
             * @enum {string|null}
             */
            compression?: "gzip" | "brotli" | "zstd" | "lz4" | "snappy" | null;
            /**
             * @description Encryption of the files; that of the bucket if it is not given. `aws:kms` without `kms_key_id` uses Amazon's own key.
             * @example aws:kms
             * @enum {string|null}
             */
            encryption?: "AES256" | "aws:kms" | null;
            /**
             * @description URL of a store with the API of S3 that is not Amazon's, without `?` and `#`.
             * @example https://s3.example.com
             */
            endpoint_url?: string | null;
            /**
             * @description Names of events that are not exported.
             * @example [
             *       "$feature_flag_called"
             *     ]
             */
            exclude_events?: string[] | null;
            /**
             * @description Format of the files: `JSONLines`, `Parquet`, `CSV` (with a line of names) or `Arrow` (a stream). Values in `CSV` are not changed, and spreadsheets read those that begin with `=`, `+`, `-` or `@` as formulas: import such files as text.
             * @default JSONLines
             * @example Parquet
             * @enum {string|null}
             */
            file_format: "JSONLines" | "Parquet" | "CSV" | "Arrow" | null;
            /**
             * @description Names of the events that are exported; all if none are given.
             * @example [
             *       "$pageview",
             *       "purchase"
             *     ]
             */
            include_events?: string[] | null;
            /**
             * @description Key of Amazon's KMS that the files are encrypted with; `encryption` must be `aws:kms`.
             * @example arn:aws:kms:eu-central-1:012345678901:key/01234567-89ab-cdef-0123-456789abcdef
             */
            kms_key_id?: string | null;
            /**
             * @description Largest size of a file in megabytes, before compression. Further rows go into further files of the window, which are numbered. A window has 100 files at the most: if that is too few, the files are larger.
             * @example 512
             */
            max_file_size_mb?: number | string | null;
            /**
             * @description Folder of the files. `{year}`, `{month}`, `{day}`, `{hour}`, `{minute}` and `{second}` are those of the window's end, in UTC; `{table}` is `events` or `persons`; `{data_interval_start}` and `{data_interval_end}` are the window's. Slashes at its ends, and repeated slashes, are omitted. It may have 924 bytes.
             * @example events/{year}/{month}/{day}
             */
            prefix?: string;
            /**
             * @description Region of the bucket.
             * @example eu-central-1
             */
            region?: string;
            /**
             * @description Whether the bucket is named before the server's name, and not in the path.
             * @default false
             * @example true
             */
            use_virtual_style_addressing: boolean | string | null;
        };
        /** @description One step of a test. */
        BatchExportTestStep: {
            description: string;
            name: string;
            /** @description Result of the step; null if it was not run. */
            result: components["schemas"]["BatchExportTestResult"] | null;
        };
        /** @description Result of a step. */
        BatchExportTestResult: {
            /** @description Cause of the failure and how to fix it; null if the step passed. */
            message: string | null;
            status: components["schemas"]["BatchExportTestStatus"];
        };
        /**
         * @description Status of a step.
         * @enum {string}
         */
        BatchExportTestStatus: "Passed" | "Failed";
        /** @description Destination of a new export. Fields that the type does not have are ignored. */
        NewBatchExportDestination: components["schemas"]["NewS3Destination"] | components["schemas"]["NewAzureBlobDestination"] | components["schemas"]["NewGCSDestination"] | components["schemas"]["NewFileSystemDestination"] | components["schemas"]["NewPostgresDestination"] | components["schemas"]["NewRedshiftDestination"] | components["schemas"]["NewSnowflakeDestination"] | components["schemas"]["NewBigQueryDestination"] | components["schemas"]["NewDatabricksDestination"] | components["schemas"]["NewClickHouseDestination"] | components["schemas"]["NewHTTPDestination"] | components["schemas"]["NewNoOpDestination"];
        /**
         * @description Blobs in Azure Blob Storage.
         * @example {
         *       "config": {
         *         "compression": "zstd",
         *         "connection_string": "DefaultEndpointsProtocol=https;AccountName=myaccount;AccountKey=bXkta2V5;EndpointSuffix=core.windows.net",
         *         "container_name": "my-container",
         *         "file_format": "Parquet",
         *         "prefix": "events/{year}/{month}/{day}"
         *       },
         *       "type": "AzureBlob"
         *     }
         */
        NewAzureBlobDestination: {
            config: components["schemas"]["AzureBlobConfig"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "AzureBlob";
        };
        /**
         * @description Rows of a table in BigQuery, merged by `uuid`. The service account needs the roles BigQuery Data Editor for the dataset and BigQuery Job User; its fields are those of the JSON key that Google creates.
         * @example {
         *       "config": {
         *         "client_email": "exports@my-project.iam.gserviceaccount.com",
         *         "dataset_id": "analytics",
         *         "private_key": "-----BEGIN PRIVATE KEY-----\nMIIE…\n-----END PRIVATE KEY-----\n",
         *         "private_key_id": "0123abcd",
         *         "project_id": "my-project",
         *         "table_id": "millrace_events",
         *         "token_uri": "https://oauth2.googleapis.com/token"
         *       },
         *       "type": "BigQuery"
         *     }
         */
        NewBigQueryDestination: {
            config: components["schemas"]["BigQueryConfig"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "BigQuery";
        };
        /**
         * @description Rows of a table in your own ClickHouse, each once; an event that was sent again with other values is a newer row of the same key, and so is a person's new version. The user needs the rights to create, read, fill and drop tables of the database. One server, or ClickHouse Cloud: a staging table has to be on the host that is asked.
         * @example {
         *       "config": {
         *         "database": "analytics",
         *         "password": "correct horse",
         *         "table_name": "millrace_events",
         *         "url": "https://clickhouse.example.com:8443",
         *         "user": "exports"
         *       },
         *       "type": "ClickHouse"
         *     }
         */
        NewClickHouseDestination: {
            config: components["schemas"]["ClickHouseConfig"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "ClickHouse";
        };
        /**
         * @description Rows of a table in Databricks, merged by `uuid`, by a SQL warehouse. A service principal logs in by OAuth; it needs the right to create tables in the schema.
         * @example {
         *       "config": {
         *         "catalog": "main",
         *         "client_id": "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0",
         *         "client_secret": "dose0123456789abcdef0123456789abcdef",
         *         "http_path": "/sql/1.0/warehouses/0123456789abcdef",
         *         "schema": "analytics",
         *         "server_hostname": "dbc-a1b2345c-d6e7.cloud.databricks.com",
         *         "table_name": "millrace_events"
         *       },
         *       "type": "Databricks"
         *     }
         */
        NewDatabricksDestination: {
            config: components["schemas"]["DatabricksConfig"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "Databricks";
        };
        /**
         * @description Files on the server that runs exports, in a folder named by the organization's id below the operator's folder (`export_root`). Without that setting there are no exports to files.
         * @example {
         *       "config": {
         *         "compression": "zstd",
         *         "file_format": "Parquet",
         *         "path": "events/{year}/{month}"
         *       },
         *       "type": "FileSystem"
         *     }
         */
        NewFileSystemDestination: {
            config: components["schemas"]["FileSystemConfig"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "FileSystem";
        };
        /**
         * @description Objects in Google Cloud Storage. The service account needs the role Storage Object User for the bucket.
         * @example {
         *       "config": {
         *         "bucket_name": "my-bucket",
         *         "compression": "zstd",
         *         "file_format": "Parquet",
         *         "prefix": "events/{year}/{month}/{day}",
         *         "service_account_key": "{\"type\": \"service_account\", \"private_key_id\": \"0123abcd\", \"private_key\": \"-----BEGIN PRIVATE KEY-----\\nMIIE…\\n-----END PRIVATE KEY-----\\n\", \"client_email\": \"exports@my-project.iam.gserviceaccount.com\", \"token_uri\": \"https://oauth2.googleapis.com/token\"}"
         *       },
         *       "type": "GCS"
         *     }
         */
        NewGCSDestination: {
            config: components["schemas"]["GCSConfig"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "GCS";
        };
        /**
         * @description Batches of events, posted to a server: up to 1000 events or 4 MiB each, with an `Idempotency-Key`. If the URL's path ends with `/batch/`, batches have the form that clients of Millrace send; otherwise they are lines of JSON, with the token as `Authorization: Bearer`. `model` must be `events`.
         * @example {
         *       "config": {
         *         "token": "phc_0123456789abcdefghijklmnopqrstuvwxyzABCDEFG",
         *         "url": "https://in.example.com/batch/"
         *       },
         *       "type": "HTTP"
         *     }
         */
        NewHTTPDestination: {
            config: components["schemas"]["HTTPConfig"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "HTTP";
        };
        /**
         * @description Nothing is sent: runs are created and their rows counted, to try an interval or a query.
         * @example {
         *       "config": {},
         *       "type": "NoOp"
         *     }
         */
        NewNoOpDestination: {
            config?: components["schemas"]["NoOpConfig"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "NoOp";
        };
        /**
         * @description Rows of a table in PostgreSQL, upserted by `uuid`; persons by project and distinct id. The user needs the right to create tables in the schema. Give the server's own port, or a pooler's that keeps sessions: PgBouncer with `pool_mode = transaction` does not work.
         * @example {
         *       "config": {
         *         "database": "analytics",
         *         "host": "db.example.com",
         *         "password": "correct horse",
         *         "table_name": "millrace_events",
         *         "user": "exports"
         *       },
         *       "type": "Postgres"
         *     }
         */
        NewPostgresDestination: {
            config: components["schemas"]["PostgresConfig"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "Postgres";
        };
        /**
         * @description Rows of a table in Amazon Redshift, by `uuid`; persons by project and distinct id. The user needs the right to create tables in the schema.
         * @example {
         *       "config": {
         *         "database": "analytics",
         *         "host": "my-cluster.abc123.eu-central-1.redshift.amazonaws.com",
         *         "password": "correct horse",
         *         "table_name": "millrace_events",
         *         "user": "exports"
         *       },
         *       "type": "Redshift"
         *     }
         */
        NewRedshiftDestination: {
            config: components["schemas"]["RedshiftConfig"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "Redshift";
        };
        /**
         * @description Objects in Amazon S3, or in a store with the same API. The key needs `s3:PutObject`, `s3:GetObject`, `s3:DeleteObject`, `s3:AbortMultipartUpload` and, to delete files of an earlier try, `s3:ListBucket`.
         * @example {
         *       "config": {
         *         "aws_access_key_id": "AKIA0123456789ABCDEF",
         *         "aws_secret_access_key": "abcdefghijklmnopqrstuvwxyz0123456789ABCD",
         *         "bucket_name": "my-bucket",
         *         "compression": "zstd",
         *         "file_format": "Parquet",
         *         "prefix": "events/{year}/{month}/{day}",
         *         "region": "eu-central-1"
         *       },
         *       "type": "S3"
         *     }
         */
        NewS3Destination: {
            config: components["schemas"]["S3Config"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "S3";
        };
        /**
         * @description Rows of a table in Snowflake, merged by `uuid`, by its SQL API. The API accepts a key pair, or a programmatic access token as the `password`; it accepts no passwords of users.
         * @example {
         *       "config": {
         *         "account": "myorganization-myaccount",
         *         "authentication_type": "keypair",
         *         "database": "ANALYTICS",
         *         "private_key": "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIE…\n-----END ENCRYPTED PRIVATE KEY-----\n",
         *         "private_key_passphrase": "correct horse",
         *         "schema": "PUBLIC",
         *         "table_name": "millrace_events",
         *         "user": "EXPORTS",
         *         "warehouse": "COMPUTE_WH"
         *       },
         *       "type": "Snowflake"
         *     }
         */
        NewSnowflakeDestination: {
            config: components["schemas"]["SnowflakeConfig"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "Snowflake";
        };
        SnowflakeConfig: {
            /**
             * @description Name of the account, as before `.snowflakecomputing.com`.
             * @example myorganization-myaccount
             */
            account: string;
            /**
             * @description How the user logs in: `password` needs `password`, `keypair` needs `private_key`.
             * @default password
             * @example keypair
             * @enum {string|null}
             */
            authentication_type: "password" | "keypair" | null;
            /**
             * @description Database that the table is in.
             * @example ANALYTICS
             */
            database: string;
            /**
             * @description Names of events that are not exported.
             * @example [
             *       "$feature_flag_called"
             *     ]
             */
            exclude_events?: string[] | null;
            /**
             * @description Names of the events that are exported; all if none are given.
             * @example [
             *       "$pageview",
             *       "purchase"
             *     ]
             */
            include_events?: string[] | null;
            /**
             * @description Programmatic access token of the user.
             * @example eyJraWQiOiIxMjM0NSIs…
             */
            password?: string | null;
            /**
             * @description RSA key of the user, in PEM.
             * @example -----BEGIN ENCRYPTED PRIVATE KEY-----
             *     MIIE…
             *     -----END ENCRYPTED PRIVATE KEY-----
             */
            private_key?: string | null;
            /**
             * @description Passphrase of the key, if the key is encrypted.
             * @example correct horse
             */
            private_key_passphrase?: string | null;
            /**
             * @description Role that statements run as; the user's own if it is not given.
             * @example EXPORTER
             */
            role?: string | null;
            /**
             * @description Schema that the table is in.
             * @example PUBLIC
             */
            schema: string;
            /**
             * @description Name of the table, which is created if it does not exist; without it `events`, or `persons` of that model.
             * @example millrace_events
             */
            table_name?: string | null;
            /**
             * @description User who fills the table.
             * @example EXPORTS
             */
            user: string;
            /**
             * @description Warehouse that statements run in.
             * @example COMPUTE_WH
             */
            warehouse: string;
        } & (unknown & unknown);
        S3Config: {
            /**
             * @description Access key that the files are written with. It may be given later, with its secret: until then runs fail.
             * @example AKIA0123456789ABCDEF
             */
            aws_access_key_id?: string | null;
            /**
             * @description Secret of the access key.
             * @example abcdefghijklmnopqrstuvwxyz0123456789ABCD
             */
            aws_secret_access_key?: string | null;
            /**
             * @description Name of the bucket. Amazon's have 3 to 63 lower-case letters, digits, dots and dashes.
             * @example my-bucket
             */
            bucket_name: string;
            /**
             * @description Compression of the files; none if it is not given. `JSONLines` and `CSV` allow `gzip`, `brotli` and `zstd`; `Parquet` allows `zstd`, `lz4`, `snappy`, `gzip` and `brotli`; `Arrow` allows `lz4` and `zstd`.
             * @example zstd
             * @enum {string|null}
             */
            compression?: "gzip" | "brotli" | "zstd" | "lz4" | "snappy" | null;
            /**
             * @description Encryption of the files; that of the bucket if it is not given. `aws:kms` without `kms_key_id` uses Amazon's own key.
             * @example aws:kms
             * @enum {string|null}
             */
            encryption?: "AES256" | "aws:kms" | null;
            /**
             * @description URL of a store with the API of S3 that is not Amazon's, without `?` and `#`.
             * @example https://s3.example.com
             */
            endpoint_url?: string | null;
            /**
             * @description Names of events that are not exported.
             * @example [
             *       "$feature_flag_called"
             *     ]
             */
            exclude_events?: string[] | null;
            /**
             * @description Format of the files: `JSONLines`, `Parquet`, `CSV` (with a line of names) or `Arrow` (a stream). Values in `CSV` are not changed, and spreadsheets read those that begin with `=`, `+`, `-` or `@` as formulas: import such files as text.
             * @default JSONLines
             * @example Parquet
             * @enum {string|null}
             */
            file_format: "JSONLines" | "Parquet" | "CSV" | "Arrow" | null;
            /**
             * @description Names of the events that are exported; all if none are given.
             * @example [
             *       "$pageview",
             *       "purchase"
             *     ]
             */
            include_events?: string[] | null;
            /**
             * @description Key of Amazon's KMS that the files are encrypted with; `encryption` must be `aws:kms`.
             * @example arn:aws:kms:eu-central-1:012345678901:key/01234567-89ab-cdef-0123-456789abcdef
             */
            kms_key_id?: string | null;
            /**
             * @description Largest size of a file in megabytes, before compression. Further rows go into further files of the window, which are numbered. A window has 100 files at the most: if that is too few, the files are larger.
             * @example 512
             */
            max_file_size_mb?: number | string | null;
            /**
             * @description Folder of the files. `{year}`, `{month}`, `{day}`, `{hour}`, `{minute}` and `{second}` are those of the window's end, in UTC; `{table}` is `events` or `persons`; `{data_interval_start}` and `{data_interval_end}` are the window's. Slashes at its ends, and repeated slashes, are omitted. It may have 924 bytes.
             * @example events/{year}/{month}/{day}
             */
            prefix: string;
            /**
             * @description Region of the bucket.
             * @example eu-central-1
             */
            region: string;
            /**
             * @description Whether the bucket is named before the server's name, and not in the path.
             * @default false
             * @example true
             */
            use_virtual_style_addressing: boolean | string | null;
        } & unknown;
        RedshiftConfig: {
            /**
             * @description Database that the table is in.
             * @example analytics
             */
            database: string;
            /**
             * @description Names of events that are not exported.
             * @example [
             *       "$feature_flag_called"
             *     ]
             */
            exclude_events?: string[] | null;
            /**
             * @description Whether a certificate of the server is accepted that no authority vouches for.
             * @default false
             * @example true
             */
            has_self_signed_cert: boolean | string | null;
            /**
             * @description Name or address of the cluster.
             * @example my-cluster.abc123.eu-central-1.redshift.amazonaws.com
             */
            host: string;
            /**
             * @description Names of the events that are exported; all if none are given.
             * @example [
             *       "$pageview",
             *       "purchase"
             *     ]
             */
            include_events?: string[] | null;
            /**
             * @description Password of the user.
             * @example correct horse
             */
            password: string;
            /**
             * @description Port that the server listens on.
             * @default 5439
             * @example 5439
             */
            port: number | string | null;
            /**
             * @description Type of columns that hold JSON.
             * @default varchar
             * @example super
             * @enum {string|null}
             */
            properties_data_type: "varchar" | "super" | null;
            /**
             * @description Schema that the table is in.
             * @default public
             * @example public
             */
            schema: string | null;
            /**
             * @description Name of the table, which is created if it does not exist; without it `events`, or `persons` of that model.
             * @example millrace_events
             */
            table_name?: string | null;
            /**
             * @description User who owns the table, or may create it.
             * @example exports
             */
            user: string;
        };
        PostgresConfig: {
            /**
             * @description Database that the table is in.
             * @example analytics
             */
            database: string;
            /**
             * @description Names of events that are not exported.
             * @example [
             *       "$feature_flag_called"
             *     ]
             */
            exclude_events?: string[] | null;
            /**
             * @description Whether a certificate of the server is accepted that no authority vouches for.
             * @default false
             * @example true
             */
            has_self_signed_cert: boolean | string | null;
            /**
             * @description Name or address of the server.
             * @example db.example.com
             */
            host: string;
            /**
             * @description Names of the events that are exported; all if none are given.
             * @example [
             *       "$pageview",
             *       "purchase"
             *     ]
             */
            include_events?: string[] | null;
            /**
             * @description Password of the user.
             * @example correct horse
             */
            password: string;
            /**
             * @description Port that the server listens on.
             * @default 5432
             * @example 5432
             */
            port: number | string | null;
            /**
             * @description Schema that the table is in.
             * @default public
             * @example public
             */
            schema: string | null;
            /**
             * @description Name of the table, which is created if it does not exist; without it `events`, or `persons` of that model.
             * @example millrace_events
             */
            table_name?: string | null;
            /**
             * @description User who owns the table, or may create it.
             * @example exports
             */
            user: string;
        };
        NoOpConfig: {
            /**
             * @description A note of yours.
             * @default
             * @example try
             */
            arg: string | null;
            /**
             * @description Names of events that are not exported.
             * @example [
             *       "$feature_flag_called"
             *     ]
             */
            exclude_events?: string[] | null;
            /**
             * @description Names of the events that are exported; all if none are given.
             * @example [
             *       "$pageview",
             *       "purchase"
             *     ]
             */
            include_events?: string[] | null;
        };
        HTTPConfig: {
            /**
             * @description Names of events that are not exported.
             * @example [
             *       "$feature_flag_called"
             *     ]
             */
            exclude_events?: string[] | null;
            /**
             * @description Names of the events that are exported; all if none are given.
             * @example [
             *       "$pageview",
             *       "purchase"
             *     ]
             */
            include_events?: string[] | null;
            /**
             * @description Key of the project there, or the token of the server.
             * @example phc_0123456789abcdefghijklmnopqrstuvwxyzABCDEFG
             */
            token: string;
            /**
             * @description URL that batches are posted to.
             * @example https://in.example.com/batch/
             */
            url: string;
        };
        GCSConfig: {
            /**
             * @description Name of the bucket.
             * @example my-bucket
             */
            bucket_name: string;
            /**
             * @description Compression of the files; none if it is not given. `JSONLines` and `CSV` allow `gzip`, `brotli` and `zstd`; `Parquet` allows `zstd`, `lz4`, `snappy`, `gzip` and `brotli`; `Arrow` allows `lz4` and `zstd`.
             * @example zstd
             * @enum {string|null}
             */
            compression?: "gzip" | "brotli" | "zstd" | "lz4" | "snappy" | null;
            /**
             * @description Names of events that are not exported.
             * @example [
             *       "$feature_flag_called"
             *     ]
             */
            exclude_events?: string[] | null;
            /**
             * @description Format of the files: `JSONLines`, `Parquet`, `CSV` (with a line of names) or `Arrow` (a stream). Values in `CSV` are not changed, and spreadsheets read those that begin with `=`, `+`, `-` or `@` as formulas: import such files as text.
             * @default JSONLines
             * @example Parquet
             * @enum {string|null}
             */
            file_format: "JSONLines" | "Parquet" | "CSV" | "Arrow" | null;
            /**
             * @description Names of the events that are exported; all if none are given.
             * @example [
             *       "$pageview",
             *       "purchase"
             *     ]
             */
            include_events?: string[] | null;
            /**
             * @description Largest size of a file in megabytes, before compression. Further rows go into further files of the window, which are numbered. A window has 100 files at the most: if that is too few, the files are larger.
             * @example 512
             */
            max_file_size_mb?: number | string | null;
            /**
             * @description Folder of the files. `{year}`, `{month}`, `{day}`, `{hour}`, `{minute}` and `{second}` are those of the window's end, in UTC; `{table}` is `events` or `persons`; `{data_interval_start}` and `{data_interval_end}` are the window's. Slashes at its ends, and repeated slashes, are omitted. It may have 924 bytes.
             * @example events/{year}/{month}/{day}
             */
            prefix?: string | null;
            /**
             * @description Key of a service account: the whole JSON file that Google creates, as a text. It has `client_email`, `private_key` and `private_key_id`.
             * @example {"type": "service_account", "private_key_id": "0123abcd", "private_key": "-----BEGIN PRIVATE KEY-----\nMIIE…\n-----END PRIVATE KEY-----\n", "client_email": "exports@my-project.iam.gserviceaccount.com", "token_uri": "https://oauth2.googleapis.com/token"}
             */
            service_account_key?: string | null;
        };
        FileSystemConfig: {
            /**
             * @description Compression of the files; none if it is not given. `JSONLines` and `CSV` allow `gzip`, `brotli` and `zstd`; `Parquet` allows `zstd`, `lz4`, `snappy`, `gzip` and `brotli`; `Arrow` allows `lz4` and `zstd`.
             * @example zstd
             * @enum {string|null}
             */
            compression?: "gzip" | "brotli" | "zstd" | "lz4" | "snappy" | null;
            /**
             * @description Names of events that are not exported.
             * @example [
             *       "$feature_flag_called"
             *     ]
             */
            exclude_events?: string[] | null;
            /**
             * @description Format of the files: `JSONLines`, `Parquet`, `CSV` (with a line of names) or `Arrow` (a stream). Values in `CSV` are not changed, and spreadsheets read those that begin with `=`, `+`, `-` or `@` as formulas: import such files as text.
             * @default JSONLines
             * @example Parquet
             * @enum {string|null}
             */
            file_format: "JSONLines" | "Parquet" | "CSV" | "Arrow" | null;
            /**
             * @description Names of the events that are exported; all if none are given.
             * @example [
             *       "$pageview",
             *       "purchase"
             *     ]
             */
            include_events?: string[] | null;
            /**
             * @description Largest size of a file in megabytes, before compression. Further rows go into further files of the window, which are numbered. A window has 100 files at the most: if that is too few, the files are larger.
             * @example 512
             */
            max_file_size_mb?: number | string | null;
            /**
             * @description Folder of the files, below that of the organization: `a/b` is `<export_root>/<organization id>/a/b`. What is in braces is replaced as in the `prefix` of other files.
             * @example events/{year}/{month}
             */
            path: string;
        };
        DatabricksConfig: {
            /**
             * @description Catalog that the schema is in.
             * @example main
             */
            catalog: string;
            /**
             * @description Id of the service principal. It may be given later, with its secret: until then runs fail.
             * @example 0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0
             */
            client_id?: string | null;
            /**
             * @description OAuth secret of the service principal.
             * @example dose0123456789abcdef0123456789abcdef
             */
            client_secret?: string | null;
            /**
             * @description Names of events that are not exported.
             * @example [
             *       "$feature_flag_called"
             *     ]
             */
            exclude_events?: string[] | null;
            /**
             * @description Path of the SQL warehouse.
             * @example /sql/1.0/warehouses/0123456789abcdef
             */
            http_path: string;
            /**
             * @description Names of the events that are exported; all if none are given.
             * @example [
             *       "$pageview",
             *       "purchase"
             *     ]
             */
            include_events?: string[] | null;
            /**
             * @description Kept for clients that send it; it has no effect.
             * @example 1
             */
            integration?: string | null;
            /**
             * @description Schema that the table is in.
             * @example analytics
             */
            schema: string;
            /**
             * @description Name of the workspace's server. It may be given later: until then runs fail.
             * @example dbc-a1b2345c-d6e7.cloud.databricks.com
             */
            server_hostname?: string | null;
            /**
             * @description Name of the table, which is created if it does not exist.
             * @example millrace_events
             */
            table_name: string;
            /**
             * @description Whether columns that hold JSON have the type VARIANT, and not STRING.
             * @default true
             * @example false
             */
            use_variant_type: boolean | string | null;
        };
        ClickHouseConfig: {
            /**
             * @description Database that the table is in.
             * @example analytics
             */
            database: string;
            /**
             * @description Names of events that are not exported.
             * @example [
             *       "$feature_flag_called"
             *     ]
             */
            exclude_events?: string[] | null;
            /**
             * @description Names of the events that are exported; all if none are given.
             * @example [
             *       "$pageview",
             *       "purchase"
             *     ]
             */
            include_events?: string[] | null;
            /**
             * @description Password of the user.
             * @example correct horse
             */
            password: string;
            /**
             * @description Name of the table, which is created if it does not exist; without it `events`, or `persons` of that model.
             * @example millrace_events
             */
            table_name?: string | null;
            /**
             * @description URL of the HTTP interface; with https the certificate must be by an authority that systems know.
             * @example https://clickhouse.example.com:8443
             */
            url: string;
            /**
             * @description User who owns the table, or may create it.
             * @example exports
             */
            user: string;
        };
        BigQueryConfig: {
            /**
             * @description Name of the service account.
             * @example exports@my-project.iam.gserviceaccount.com
             */
            client_email: string;
            /**
             * @description Dataset that the table is in.
             * @example analytics
             */
            dataset_id: string;
            /**
             * @description Names of events that are not exported.
             * @example [
             *       "$feature_flag_called"
             *     ]
             */
            exclude_events?: string[] | null;
            /**
             * @description Names of the events that are exported; all if none are given.
             * @example [
             *       "$pageview",
             *       "purchase"
             *     ]
             */
            include_events?: string[] | null;
            /**
             * @description Key of the service account, in PEM.
             * @example -----BEGIN PRIVATE KEY-----
             *     MIIE…
             *     -----END PRIVATE KEY-----
             */
            private_key: string;
            /**
             * @description Id of the key.
             * @example 0123abcd
             */
            private_key_id: string;
            /**
             * @description Project that the dataset is in.
             * @example my-project
             */
            project_id: string;
            /**
             * @description Name of the table, which is created if it does not exist; without it `events`, or `persons` of that model.
             * @example millrace_events
             */
            table_id?: string | null;
            /**
             * @description URL that tokens are requested from.
             * @example https://oauth2.googleapis.com/token
             */
            token_uri: string;
            /**
             * @description Whether columns that hold JSON have the type JSON, and not STRING.
             * @default false
             * @example true
             */
            use_json_type: boolean | string | null;
        };
        AzureBlobConfig: {
            /**
             * @description Compression of the files; none if it is not given. `JSONLines` and `CSV` allow `gzip`, `brotli` and `zstd`; `Parquet` allows `zstd`, `lz4`, `snappy`, `gzip` and `brotli`; `Arrow` allows `lz4` and `zstd`.
             * @example zstd
             * @enum {string|null}
             */
            compression?: "gzip" | "brotli" | "zstd" | "lz4" | "snappy" | null;
            /**
             * @description Connection string of the storage account: `AccountName=…;AccountKey=…`, or `BlobEndpoint=…` with an `AccountKey` or a `SharedAccessSignature`. A signature needs the rights to read, write, delete and list.
             * @example DefaultEndpointsProtocol=https;AccountName=myaccount;AccountKey=bXkta2V5;EndpointSuffix=core.windows.net
             */
            connection_string?: string | null;
            /**
             * @description Name of the container.
             * @example my-container
             */
            container_name: string;
            /**
             * @description Names of events that are not exported.
             * @example [
             *       "$feature_flag_called"
             *     ]
             */
            exclude_events?: string[] | null;
            /**
             * @description Format of the files: `JSONLines`, `Parquet`, `CSV` (with a line of names) or `Arrow` (a stream). Values in `CSV` are not changed, and spreadsheets read those that begin with `=`, `+`, `-` or `@` as formulas: import such files as text.
             * @default JSONLines
             * @example Parquet
             * @enum {string|null}
             */
            file_format: "JSONLines" | "Parquet" | "CSV" | "Arrow" | null;
            /**
             * @description Names of the events that are exported; all if none are given.
             * @example [
             *       "$pageview",
             *       "purchase"
             *     ]
             */
            include_events?: string[] | null;
            /**
             * @description Largest size of a file in megabytes, before compression. Further rows go into further files of the window, which are numbered. A window has 100 files at the most: if that is too few, the files are larger.
             * @example 512
             */
            max_file_size_mb?: number | string | null;
            /**
             * @description Folder of the files. `{year}`, `{month}`, `{day}`, `{hour}`, `{minute}` and `{second}` are those of the window's end, in UTC; `{table}` is `events` or `persons`; `{data_interval_start}` and `{data_interval_end}` are the window's. Slashes at its ends, and repeated slashes, are omitted. It may have 924 bytes.
             * @example events/{year}/{month}/{day}
             */
            prefix?: string | null;
        };
        /** @description A change in the activity log. */
        ActivityLogEntry: {
            /**
             * @description `created`, `updated`, `deleted`, `installed`, `uninstalled`, `enabled`, `disabled` or
             *     `config_updated`.
             */
            activity: string;
            /** Format: date-time */
            created_at: string;
            detail: components["schemas"]["ActivityLogDetail"];
            /** Format: uuid */
            id: string;
            /** @description True if the system made the change, not a person. */
            is_system: boolean;
            /** @description Id of the changed resource, as paths have it. */
            item_id: string;
            /** Format: uuid */
            organization_id: string | null;
            /** @description Kind of the changed resource, such as `Project`. */
            scope: string;
            user: components["schemas"]["ActivityUser"];
        };
        /** @description Details of a change. */
        ActivityLogDetail: {
            changes: components["schemas"]["ActivityFieldChange"][];
            id: string | null;
            merge: unknown;
            /** @description Name of the resource at that time. */
            name: string;
            short_id: string | null;
            trigger: unknown;
            type: string | null;
        };
        /** @description Person who made a change, with the name and address of that time. */
        ActivityUser: {
            email: string | null;
            first_name: string;
        };
        /** @description A field that changed. Secrets are left out. */
        ActivityFieldChange: {
            /** @description `created`, `changed` or `deleted`. */
            action: string;
            after: unknown;
            before: unknown;
            field: string;
            /** @description Kind of the changed resource. */
            type: string;
        };
        /** @description A feature that an organization may use. */
        ProductFeature: {
            description: string;
            is_plan_default: boolean;
            key: string;
            /** Format: uint64 */
            limit: number | null;
            name: string;
            note: string | null;
            unit: string | null;
        };
        /** @description Error of ClickHouse behind the error of a query. */
        ClickHouseError: {
            /**
             * Format: uint32
             * @description Code of the error.
             */
            code: number;
            /** @description Name of the error, such as `SYNTAX_ERROR`. */
            name: string | null;
            /**
             * Format: uint32
             * @description Position in the query, in bytes, from 1.
             */
            position: number | null;
        };
    };
    responses: never;
    parameters: {
        /** @description Answer 304 if the resource still has this `ETag`. */
        IfNoneMatch: string;
        /** @description Id of the request in log lines: up to 128 characters without spaces. */
        RequestId: string;
        /** @description Rows of the page: 100 if not given, 1000 at most. */
        Limit: number;
        /** @description Number of rows to skip. */
        Offset: number;
        /** @description Any text. The same request with the same text is executed once in 24 h. */
        IdempotencyKey: string;
        /** @description Change the resource only if it still has this `ETag`. */
        IfMatch: string;
    };
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
    docs_retrieve: {
        parameters: {
            query?: never;
            header?: {
                /** @description Answer 304 if the resource still has this `ETag`. */
                "If-None-Match"?: components["parameters"]["IfNoneMatch"];
                /** @description Id of the request in log lines: up to 128 characters without spaces. */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/html": unknown;
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    organizations_list: {
        parameters: {
            query?: {
                /** @description Rows of the page: 100 if not given, 1000 at most. */
                limit?: components["parameters"]["Limit"];
                /** @description Number of rows to skip. */
                offset?: components["parameters"]["Offset"];
            };
            header?: {
                /** @description Id of the request in log lines: up to 128 characters without spaces. */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OrganizationPage"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    organizations_create: {
        parameters: {
            query?: never;
            header?: {
                /** @description Any text. The same request with the same text is executed once in 24 h. */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /** @description Id of the request in log lines: up to 128 characters without spaces. */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewOrganization"];
            };
        };
        responses: {
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Organization"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    organizations_retrieve: {
        parameters: {
            query?: never;
            header?: {
                /** @description Answer 304 if the resource still has this `ETag`. */
                "If-None-Match"?: components["parameters"]["IfNoneMatch"];
                /** @description Id of the request in log lines: up to 128 characters without spaces. */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                /** @description Id of an organization, or `@current`. */
                organization_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Organization"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    organizations_destroy: {
        parameters: {
            query?: never;
            header?: {
                /** @description Change the resource only if it still has this `ETag`. */
                "If-Match"?: components["parameters"]["IfMatch"];
                /** @description Id of the request in log lines: up to 128 characters without spaces. */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                /** @description Id of an organization, or `@current`. */
                organization_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    organizations_partial_update: {
        parameters: {
            query?: never;
            header?: {
                /** @description Change the resource only if it still has this `ETag`. */
                "If-Match"?: components["parameters"]["IfMatch"];
                /** @description Id of the request in log lines: up to 128 characters without spaces. */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                /** @description Id of an organization, or `@current`. */
                organization_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["PatchOrganization"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Organization"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    organizations_activity_list: {
        parameters: {
            query?: {
                /** @description Rows of the page: 100 if not given, 1000 at most. */
                limit?: components["parameters"]["Limit"];
                /** @description Number of rows to skip. */
                offset?: components["parameters"]["Offset"];
                /** @description Only these kinds, with commas between them. */
                scopes?: string;
                /** @description Only changes of the resource with this id. */
                item_id?: string;
            };
            header?: {
                /** @description Id of the request in log lines: up to 128 characters without spaces. */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                /** @description Id of an organization, or `@current`. */
                organization_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ActivityLogEntryPage"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    organizations_batch_exports_list: {
        parameters: {
            query?: {
                /** @description Rows of the page: 100 if not given, 1000 at most. */
                limit?: components["parameters"]["Limit"];
                /** @description Number of rows to skip. */
                offset?: components["parameters"]["Offset"];
            };
            header?: {
                /** @description Id of the request in log lines: up to 128 characters without spaces. */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                /** @description Id of an organization, or `@current`. */
                organization_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BatchExportPage"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    organizations_batch_exports_create: {
        parameters: {
            query?: never;
            header?: {
                /** @description Any text. The same request with the same text is executed once in 24 h. */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /** @description Id of the request in log lines: up to 128 characters without spaces. */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                /** @description Id of an organization, or `@current`. */
                organization_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewBatchExport"];
            };
        };
        responses: {
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BatchExport"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    organizations_batch_exports_test_retrieve: {
        parameters: {
            query?: {
                /** @description Type of the destination. */
                destination?: string;
            };
            header?: {
                /** @description Answer 304 if the resource still has this `ETag`. */
                "If-None-Match"?: components["parameters"]["IfNoneMatch"];
                /** @description Id of the request in log lines: up to 128 characters without spaces. */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                /** @description Id of an organization, or `@current`. */
                organization_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BatchExportTest"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    organizations_batch_exports_test: {
        parameters: {
            query?: never;
            header?: {
                /** @description Any text. The same request with the same text is executed once in 24 h. */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /** @description Id of the request in log lines: up to 128 characters without spaces. */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                /** @description Id of an organization, or `@current`. */
                organization_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["BatchExportTestRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BatchExportTest"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    organizations_batch_exports_retrieve: {
        parameters: {
            query?: never;
            header?: {
                /** @description Answer 304 if the resource still has this `ETag`. */
                "If-None-Match"?: components["parameters"]["IfNoneMatch"];
                /** @description Id of the request in log lines: up to 128 characters without spaces. */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                /** @description Id of an organization, or `@current`. */
                organization_id: string;
                /** @description Id of the resource. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BatchExport"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    organizations_batch_exports_destroy: {
        parameters: {
            query?: never;
            header?: {
                /** @description Change the resource only if it still has this `ETag`. */
                "If-Match"?: components["parameters"]["IfMatch"];
                /** @description Id of the request in log lines: up to 128 characters without spaces. */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                /** @description Id of an organization, or `@current`. */
                organization_id: string;
                /** @description Id of the resource. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    organizations_batch_exports_partial_update: {
        parameters: {
            query?: never;
            header?: {
                /** @description Change the resource only if it still has this `ETag`. */
                "If-Match"?: components["parameters"]["IfMatch"];
                /** @description Id of the request in log lines: up to 128 characters without spaces. */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                /** @description Id of an organization, or `@current`. */
                organization_id: string;
                /** @description Id of the resource. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["PatchBatchExport"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BatchExport"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    organizations_batch_exports_backfill: {
        parameters: {
            query?: never;
            header?: {
                /** @description Any text. The same request with the same text is executed once in 24 h. */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /** @description Change the resource only if it still has this `ETag`. */
                "If-Match"?: components["parameters"]["IfMatch"];
                /** @description Id of the request in log lines: up to 128 characters without spaces. */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                /** @description Id of an organization, or `@current`. */
                organization_id: string;
                /** @description Id of the resource. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["BatchExportBackfillRange"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BatchExportWithBackfill"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    organizations_batch_exports_backfills_list: {
        parameters: {
            query?: {
                /** @description Rows of the page: 100 if not given, 1000 at most. */
                limit?: components["parameters"]["Limit"];
                /** @description Number of rows to skip. */
                offset?: components["parameters"]["Offset"];
            };
            header?: {
                /** @description Id of the request in log lines: up to 128 characters without spaces. */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                /** @description Id of an organization, or `@current`. */
                organization_id: string;
                /** @description Id of the resource. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BatchExportBackfillPage"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    organizations_batch_exports_backfills_create: {
        parameters: {
            query?: never;
            header?: {
                /** @description Any text. The same request with the same text is executed once in 24 h. */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /** @description Id of the request in log lines: up to 128 characters without spaces. */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                /** @description Id of an organization, or `@current`. */
                organization_id: string;
                /** @description Id of the resource. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["BatchExportBackfillRange"];
            };
        };
        responses: {
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BatchExportBackfill"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    organizations_batch_exports_backfills_retrieve: {
        parameters: {
            query?: never;
            header?: {
                /** @description Answer 304 if the resource still has this `ETag`. */
                "If-None-Match"?: components["parameters"]["IfNoneMatch"];
                /** @description Id of the request in log lines: up to 128 characters without spaces. */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                /** @description Id of an organization, or `@current`. */
                organization_id: string;
                /** @description Id of the resource. */
                id: string;
                /** @description Id of the resource. */
                backfill_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BatchExportBackfill"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    organizations_batch_exports_backfills_cancel: {
        parameters: {
            query?: never;
            header?: {
                /** @description Any text. The same request with the same text is executed once in 24 h. */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /** @description Change the resource only if it still has this `ETag`. */
                "If-Match"?: components["parameters"]["IfMatch"];
                /** @description Id of the request in log lines: up to 128 characters without spaces. */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                /** @description Id of an organization, or `@current`. */
                organization_id: string;
                /** @description Id of the resource. */
                id: string;
                /** @description Id of the resource. */
                backfill_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["Nothing"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BatchExportBackfill"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    organizations_batch_exports_logs_retrieve: {
        parameters: {
            query?: {
                /** @description Only lines later than this time. */
                after?: string;
                /** @description Only lines earlier than this time. */
                before?: string;
                /** @description Only these levels, joined with commas: DEBUG, INFO, WARNING, ERROR. */
                level?: string;
                /** @description Only lines that contain this. */
                search?: string;
                /** @description Number of lines; at most 500. */
                limit?: number;
                /** @description Number of lines to skip. */
                offset?: number;
                /** @description Only the lines of this run. */
                instance_id?: string;
            };
            header?: {
                /** @description Answer 304 if the resource still has this `ETag`. */
                "If-None-Match"?: components["parameters"]["IfNoneMatch"];
                /** @description Id of the request in log lines: up to 128 characters without spaces. */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                /** @description Id of an organization, or `@current`. */
                organization_id: string;
                /** @description Id of the resource. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BatchExportWithLogs"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    organizations_batch_exports_pause: {
        parameters: {
            query?: never;
            header?: {
                /** @description Any text. The same request with the same text is executed once in 24 h. */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /** @description Change the resource only if it still has this `ETag`. */
                "If-Match"?: components["parameters"]["IfMatch"];
                /** @description Id of the request in log lines: up to 128 characters without spaces. */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                /** @description Id of an organization, or `@current`. */
                organization_id: string;
                /** @description Id of the resource. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["Nothing"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BatchExport"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    organizations_batch_exports_runs_list: {
        parameters: {
            query?: {
                /** @description Rows of the page: 100 if not given, 1000 at most. */
                limit?: components["parameters"]["Limit"];
                /** @description Number of rows to skip. */
                offset?: components["parameters"]["Offset"];
                /** @description Only runs created at this time or later. */
                after?: string;
                /** @description Only runs created before this time. */
                before?: string;
                /** @description Only runs whose window starts at this time or later. */
                start?: string;
                /** @description Only runs whose window starts before this time. */
                end?: string;
                /** @description `data_interval_start` or `-data_interval_start`: by window. */
                ordering?: string;
            };
            header?: {
                /** @description Id of the request in log lines: up to 128 characters without spaces. */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                /** @description Id of an organization, or `@current`. */
                organization_id: string;
                /** @description Id of the resource. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BatchExportRunPage"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    organizations_batch_exports_runs_retrieve: {
        parameters: {
            query?: never;
            header?: {
                /** @description Answer 304 if the resource still has this `ETag`. */
                "If-None-Match"?: components["parameters"]["IfNoneMatch"];
                /** @description Id of the request in log lines: up to 128 characters without spaces. */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                /** @description Id of an organization, or `@current`. */
                organization_id: string;
                /** @description Id of the resource. */
                id: string;
                /** @description Id of the resource. */
                run_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BatchExportRun"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    organizations_batch_exports_runs_cancel: {
        parameters: {
            query?: never;
            header?: {
                /** @description Any text. The same request with the same text is executed once in 24 h. */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /** @description Change the resource only if it still has this `ETag`. */
                "If-Match"?: components["parameters"]["IfMatch"];
                /** @description Id of the request in log lines: up to 128 characters without spaces. */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                /** @description Id of an organization, or `@current`. */
                organization_id: string;
                /** @description Id of the resource. */
                id: string;
                /** @description Id of the resource. */
                run_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["Nothing"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BatchExportRun"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    organizations_batch_exports_runs_logs_list: {
        parameters: {
            query?: {
                /** @description Rows of the page: 100 if not given, 1000 at most. */
                limit?: components["parameters"]["Limit"];
                /** @description Number of rows to skip. */
                offset?: components["parameters"]["Offset"];
                /** @description Only lines later than this time. */
                after?: string;
                /** @description Only lines earlier than this time. */
                before?: string;
                /** @description Only these levels, joined with commas: DEBUG, INFO, WARNING, ERROR. */
                level?: string;
                /** @description Only lines that contain this. */
                search?: string;
            };
            header?: {
                /** @description Id of the request in log lines: up to 128 characters without spaces. */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                /** @description Id of an organization, or `@current`. */
                organization_id: string;
                /** @description Id of the resource. */
                id: string;
                /** @description Id of the resource. */
                run_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BatchExportLogEntryPage"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    organizations_batch_exports_runs_retry: {
        parameters: {
            query?: never;
            header?: {
                /** @description Any text. The same request with the same text is executed once in 24 h. */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /** @description Change the resource only if it still has this `ETag`. */
                "If-Match"?: components["parameters"]["IfMatch"];
                /** @description Id of the request in log lines: up to 128 characters without spaces. */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                /** @description Id of an organization, or `@current`. */
                organization_id: string;
                /** @description Id of the resource. */
                id: string;
                /** @description Id of the resource. */
                run_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["Nothing"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BatchExportRun"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    organizations_batch_exports_unpause: {
        parameters: {
            query?: never;
            header?: {
                /** @description Any text. The same request with the same text is executed once in 24 h. */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /** @description Change the resource only if it still has this `ETag`. */
                "If-Match"?: components["parameters"]["IfMatch"];
                /** @description Id of the request in log lines: up to 128 characters without spaces. */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                /** @description Id of an organization, or `@current`. */
                organization_id: string;
                /** @description Id of the resource. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["BatchExportUnpause"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BatchExportWithBackfill"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    organizations_domains_list: {
        parameters: {
            query?: {
                /** @description Rows of the page: 100 if not given, 1000 at most. */
                limit?: components["parameters"]["Limit"];
                /** @description Number of rows to skip. */
                offset?: components["parameters"]["Offset"];
            };
            header?: {
                /** @description Id of the request in log lines: up to 128 characters without spaces. */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                /** @description Id of an organization, or `@current`. */
                organization_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OrganizationDomainPage"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    organizations_domains_create: {
        parameters: {
            query?: never;
            header?: {
                /** @description Any text. The same request with the same text is executed once in 24 h. */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /** @description Id of the request in log lines: up to 128 characters without spaces. */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                /** @description Id of an organization, or `@current`. */
                organization_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewOrganizationDomain"];
            };
        };
        responses: {
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OrganizationDomain"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    organizations_domains_retrieve: {
        parameters: {
            query?: never;
            header?: {
                /** @description Answer 304 if the resource still has this `ETag`. */
                "If-None-Match"?: components["parameters"]["IfNoneMatch"];
                /** @description Id of the request in log lines: up to 128 characters without spaces. */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                /** @description Id of an organization, or `@current`. */
                organization_id: string;
                /** @description Id of the resource. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OrganizationDomain"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    organizations_domains_destroy: {
        parameters: {
            query?: never;
            header?: {
                /** @description Change the resource only if it still has this `ETag`. */
                "If-Match"?: components["parameters"]["IfMatch"];
                /** @description Id of the request in log lines: up to 128 characters without spaces. */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                /** @description Id of an organization, or `@current`. */
                organization_id: string;
                /** @description Id of the resource. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    organizations_domains_partial_update: {
        parameters: {
            query?: never;
            header?: {
                /** @description Change the resource only if it still has this `ETag`. */
                "If-Match"?: components["parameters"]["IfMatch"];
                /** @description Id of the request in log lines: up to 128 characters without spaces. */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                /** @description Id of an organization, or `@current`. */
                organization_id: string;
                /** @description Id of the resource. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["PatchOrganizationDomain"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OrganizationDomain"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    organizations_domains_verify: {
        parameters: {
            query?: never;
            header?: {
                /** @description Any text. The same request with the same text is executed once in 24 h. */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /** @description Id of the request in log lines: up to 128 characters without spaces. */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                /** @description Id of an organization, or `@current`. */
                organization_id: string;
                /** @description Id of the resource. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["Nothing"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OrganizationDomain"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    organizations_historical_migrations_list: {
        parameters: {
            query?: {
                /** @description Rows of the page: 100 if not given, 1000 at most. */
                limit?: components["parameters"]["Limit"];
                /** @description Number of rows to skip. */
                offset?: components["parameters"]["Offset"];
            };
            header?: {
                /** @description Id of the request in log lines: up to 128 characters without spaces. */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                /** @description Id of an organization, or `@current`. */
                organization_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["HistoricalMigrationPage"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    organizations_historical_migrations_create: {
        parameters: {
            query?: never;
            header?: {
                /** @description Any text. The same request with the same text is executed once in 24 h. */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /** @description Id of the request in log lines: up to 128 characters without spaces. */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                /** @description Id of an organization, or `@current`. */
                organization_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewHistoricalMigration"];
            };
        };
        responses: {
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["HistoricalMigration"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    organizations_historical_migrations_retrieve: {
        parameters: {
            query?: never;
            header?: {
                /** @description Answer 304 if the resource still has this `ETag`. */
                "If-None-Match"?: components["parameters"]["IfNoneMatch"];
                /** @description Id of the request in log lines: up to 128 characters without spaces. */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                /** @description Id of an organization, or `@current`. */
                organization_id: string;
                /** @description Id of the resource. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["HistoricalMigration"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    organizations_historical_migrations_partial_update: {
        parameters: {
            query?: never;
            header?: {
                /** @description Change the resource only if it still has this `ETag`. */
                "If-Match"?: components["parameters"]["IfMatch"];
                /** @description Id of the request in log lines: up to 128 characters without spaces. */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                /** @description Id of an organization, or `@current`. */
                organization_id: string;
                /** @description Id of the resource. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["PatchHistoricalMigration"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["HistoricalMigration"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    organizations_historical_migrations_approve: {
        parameters: {
            query?: never;
            header?: {
                /** @description Any text. The same request with the same text is executed once in 24 h. */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /** @description Change the resource only if it still has this `ETag`. */
                "If-Match"?: components["parameters"]["IfMatch"];
                /** @description Id of the request in log lines: up to 128 characters without spaces. */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                /** @description Id of an organization, or `@current`. */
                organization_id: string;
                /** @description Id of the resource. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["HistoricalMigrationDecision"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["HistoricalMigration"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    organizations_historical_migrations_reject: {
        parameters: {
            query?: never;
            header?: {
                /** @description Any text. The same request with the same text is executed once in 24 h. */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /** @description Change the resource only if it still has this `ETag`. */
                "If-Match"?: components["parameters"]["IfMatch"];
                /** @description Id of the request in log lines: up to 128 characters without spaces. */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                /** @description Id of an organization, or `@current`. */
                organization_id: string;
                /** @description Id of the resource. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["HistoricalMigrationDecision"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["HistoricalMigration"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    organizations_invites_list: {
        parameters: {
            query?: {
                /** @description Rows of the page: 100 if not given, 1000 at most. */
                limit?: components["parameters"]["Limit"];
                /** @description Number of rows to skip. */
                offset?: components["parameters"]["Offset"];
            };
            header?: {
                /** @description Id of the request in log lines: up to 128 characters without spaces. */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                /** @description Id of an organization, or `@current`. */
                organization_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OrganizationInvitePage"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    organizations_invites_create: {
        parameters: {
            query?: never;
            header?: {
                /** @description Any text. The same request with the same text is executed once in 24 h. */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /** @description Id of the request in log lines: up to 128 characters without spaces. */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                /** @description Id of an organization, or `@current`. */
                organization_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewOrganizationInvite"];
            };
        };
        responses: {
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OrganizationInvite"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    organizations_invites_bulk: {
        parameters: {
            query?: never;
            header?: {
                /** @description Any text. The same request with the same text is executed once in 24 h. */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /** @description Id of the request in log lines: up to 128 characters without spaces. */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                /** @description Id of an organization, or `@current`. */
                organization_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewOrganizationInviteOrList"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OrganizationInviteOrList"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    organizations_invites_destroy: {
        parameters: {
            query?: never;
            header?: {
                /** @description Id of the request in log lines: up to 128 characters without spaces. */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                /** @description Id of an organization, or `@current`. */
                organization_id: string;
                /** @description Id of the resource. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    organizations_invites_resend: {
        parameters: {
            query?: never;
            header?: {
                /** @description Any text. The same request with the same text is executed once in 24 h. */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /** @description Id of the request in log lines: up to 128 characters without spaces. */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                /** @description Id of an organization, or `@current`. */
                organization_id: string;
                /** @description Id of the resource. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["Nothing"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OrganizationInvite"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    organizations_members_list: {
        parameters: {
            query?: {
                /** @description Rows of the page: 100 if not given, 1000 at most. */
                limit?: components["parameters"]["Limit"];
                /** @description Number of rows to skip. */
                offset?: components["parameters"]["Offset"];
                /** @description Only the member with this address, in any case. */
                email?: string;
            };
            header?: {
                /** @description Id of the request in log lines: up to 128 characters without spaces. */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                /** @description Id of an organization, or `@current`. */
                organization_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OrganizationMemberPage"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    organizations_members_retrieve: {
        parameters: {
            query?: never;
            header?: {
                /** @description Answer 304 if the resource still has this `ETag`. */
                "If-None-Match"?: components["parameters"]["IfNoneMatch"];
                /** @description Id of the request in log lines: up to 128 characters without spaces. */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                /** @description Id of an organization, or `@current`. */
                organization_id: string;
                /** @description UUID of a user, or `@me`. */
                user_uuid: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OrganizationMember"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    organizations_members_destroy: {
        parameters: {
            query?: never;
            header?: {
                /** @description Change the resource only if it still has this `ETag`. */
                "If-Match"?: components["parameters"]["IfMatch"];
                /** @description Id of the request in log lines: up to 128 characters without spaces. */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                /** @description Id of an organization, or `@current`. */
                organization_id: string;
                /** @description UUID of a user, or `@me`. */
                user_uuid: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    organizations_members_partial_update: {
        parameters: {
            query?: never;
            header?: {
                /** @description Change the resource only if it still has this `ETag`. */
                "If-Match"?: components["parameters"]["IfMatch"];
                /** @description Id of the request in log lines: up to 128 characters without spaces. */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                /** @description Id of an organization, or `@current`. */
                organization_id: string;
                /** @description UUID of a user, or `@me`. */
                user_uuid: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["PatchOrganizationMember"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OrganizationMember"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    organizations_projects_list: {
        parameters: {
            query?: {
                /** @description Rows of the page: 100 if not given, 1000 at most. */
                limit?: components["parameters"]["Limit"];
                /** @description Number of rows to skip. */
                offset?: components["parameters"]["Offset"];
                /** @description Only projects whose names contain this. */
                search?: string;
            };
            header?: {
                /** @description Id of the request in log lines: up to 128 characters without spaces. */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                /** @description Id of an organization, or `@current`. */
                organization_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ProjectItemPage"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    organizations_projects_create: {
        parameters: {
            query?: never;
            header?: {
                /** @description Any text. The same request with the same text is executed once in 24 h. */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /** @description Id of the request in log lines: up to 128 characters without spaces. */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                /** @description Id of an organization, or `@current`. */
                organization_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewProject"];
            };
        };
        responses: {
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Project"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    organizations_projects_retrieve: {
        parameters: {
            query?: never;
            header?: {
                /** @description Answer 304 if the resource still has this `ETag`. */
                "If-None-Match"?: components["parameters"]["IfNoneMatch"];
                /** @description Id of the request in log lines: up to 128 characters without spaces. */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                /** @description Id of an organization, or `@current`. */
                organization_id: string;
                /** @description Id of a project, or `@current`. */
                project_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Project"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    organizations_projects_destroy: {
        parameters: {
            query?: never;
            header?: {
                /** @description Change the resource only if it still has this `ETag`. */
                "If-Match"?: components["parameters"]["IfMatch"];
                /** @description Id of the request in log lines: up to 128 characters without spaces. */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                /** @description Id of an organization, or `@current`. */
                organization_id: string;
                /** @description Id of a project, or `@current`. */
                project_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    organizations_projects_partial_update: {
        parameters: {
            query?: never;
            header?: {
                /** @description Change the resource only if it still has this `ETag`. */
                "If-Match"?: components["parameters"]["IfMatch"];
                /** @description Id of the request in log lines: up to 128 characters without spaces. */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                /** @description Id of an organization, or `@current`. */
                organization_id: string;
                /** @description Id of a project, or `@current`. */
                project_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["PatchProject"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Project"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    organizations_projects_activity_list: {
        parameters: {
            query?: {
                /** @description Rows of the page: 100 if not given, 1000 at most. */
                limit?: components["parameters"]["Limit"];
                /** @description Number of rows to skip. */
                offset?: components["parameters"]["Offset"];
            };
            header?: {
                /** @description Id of the request in log lines: up to 128 characters without spaces. */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                /** @description Id of an organization, or `@current`. */
                organization_id: string;
                /** @description Id of a project, or `@current`. */
                project_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ActivityLogEntryPage"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    organizations_projects_is_generating_demo_data_retrieve: {
        parameters: {
            query?: never;
            header?: {
                /** @description Answer 304 if the resource still has this `ETag`. */
                "If-None-Match"?: components["parameters"]["IfNoneMatch"];
                /** @description Id of the request in log lines: up to 128 characters without spaces. */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                /** @description Id of an organization, or `@current`. */
                organization_id: string;
                /** @description Id of a project, or `@current`. */
                project_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DemoData"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    organizations_projects_reset_token: {
        parameters: {
            query?: never;
            header?: {
                /** @description Change the resource only if it still has this `ETag`. */
                "If-Match"?: components["parameters"]["IfMatch"];
                /** @description Id of the request in log lines: up to 128 characters without spaces. */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                /** @description Id of an organization, or `@current`. */
                organization_id: string;
                /** @description Id of a project, or `@current`. */
                project_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["Nothing"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Project"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    personal_api_keys_list: {
        parameters: {
            query?: {
                /** @description Rows of the page: 100 if not given, 1000 at most. */
                limit?: components["parameters"]["Limit"];
                /** @description Number of rows to skip. */
                offset?: components["parameters"]["Offset"];
            };
            header?: {
                /** @description Id of the request in log lines: up to 128 characters without spaces. */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PersonalAPIKeyPage"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    personal_api_keys_create: {
        parameters: {
            query?: never;
            header?: {
                /** @description Any text. The same request with the same text is executed once in 24 h. */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /** @description Id of the request in log lines: up to 128 characters without spaces. */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewPersonalAPIKey"];
            };
        };
        responses: {
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CreatedPersonalAPIKey"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    personal_api_keys_retrieve: {
        parameters: {
            query?: never;
            header?: {
                /** @description Answer 304 if the resource still has this `ETag`. */
                "If-None-Match"?: components["parameters"]["IfNoneMatch"];
                /** @description Id of the request in log lines: up to 128 characters without spaces. */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                /** @description Id of the resource. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PersonalAPIKey"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    personal_api_keys_destroy: {
        parameters: {
            query?: never;
            header?: {
                /** @description Change the resource only if it still has this `ETag`. */
                "If-Match"?: components["parameters"]["IfMatch"];
                /** @description Id of the request in log lines: up to 128 characters without spaces. */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                /** @description Id of the resource. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    personal_api_keys_partial_update: {
        parameters: {
            query?: never;
            header?: {
                /** @description Change the resource only if it still has this `ETag`. */
                "If-Match"?: components["parameters"]["IfMatch"];
                /** @description Id of the request in log lines: up to 128 characters without spaces. */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                /** @description Id of the resource. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["PatchPersonalAPIKey"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PersonalAPIKey"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    personal_api_keys_roll: {
        parameters: {
            query?: never;
            header?: {
                /** @description Any text. The same request with the same text is executed once in 24 h. */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /** @description Change the resource only if it still has this `ETag`. */
                "If-Match"?: components["parameters"]["IfMatch"];
                /** @description Id of the request in log lines: up to 128 characters without spaces. */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                /** @description Id of the resource. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["Nothing"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CreatedPersonalAPIKey"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    projects_clickhouse_user_retrieve: {
        parameters: {
            query?: never;
            header?: {
                /** @description Answer 304 if the resource still has this `ETag`. */
                "If-None-Match"?: components["parameters"]["IfNoneMatch"];
                /** @description Id of the request in log lines: up to 128 characters without spaces. */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                /** @description Id of a project, or `@current`. */
                project_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ClickHouseUser"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    projects_clickhouse_user: {
        parameters: {
            query?: never;
            header?: {
                /** @description Any text. The same request with the same text is executed once in 24 h. */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /** @description Id of the request in log lines: up to 128 characters without spaces. */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                /** @description Id of a project, or `@current`. */
                project_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["Nothing"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RotatedClickHouseUser"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    projects_query: {
        parameters: {
            query?: never;
            header?: {
                /** @description Id of the request in log lines: up to 128 characters without spaces. */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                /** @description Id of a project, or `@current`. */
                project_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ProjectQuery"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": unknown;
                    "application/vnd.apache.arrow.stream": unknown;
                    "application/vnd.apache.parquet": unknown;
                    "application/x-ndjson": unknown;
                    "text/csv": unknown;
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    projects_query_destroy: {
        parameters: {
            query?: never;
            header?: {
                /** @description Id of the request in log lines: up to 128 characters without spaces. */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                /** @description Id of a project, or `@current`. */
                project_id: string;
                /** @description Id of the resource. */
                query_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    schema_retrieve: {
        parameters: {
            query?: never;
            header?: {
                /** @description Answer 304 if the resource still has this `ETag`. */
                "If-None-Match"?: components["parameters"]["IfNoneMatch"];
                /** @description Id of the request in log lines: up to 128 characters without spaces. */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Document"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    signup_retrieve: {
        parameters: {
            query?: never;
            header?: {
                /** @description Answer 304 if the resource still has this `ETag`. */
                "If-None-Match"?: components["parameters"]["IfNoneMatch"];
                /** @description Id of the request in log lines: up to 128 characters without spaces. */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                /** @description Token of the link. */
                token: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Signup"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    signup_create: {
        parameters: {
            query?: never;
            header?: {
                /** @description Any text. The same request with the same text is executed once in 24 h. */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /** @description Id of the request in log lines: up to 128 characters without spaces. */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                /** @description Token of the link. */
                token: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["NewSignup"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SignedUp"];
                };
            };
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SignedUp"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
}
