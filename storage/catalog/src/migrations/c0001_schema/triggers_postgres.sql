-- Triggers of PostgreSQL.

-- Entries are written by every kind of change, and two of those may run at the same time: they are
-- counted at the end of the transaction, when it has all other locks that it needs, so that
-- counting cannot make two changes wait for each other.
CREATE FUNCTION activity_counted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO activity_counts AS counted (organization_id, scope, entries)
    VALUES (NEW.organization_id, NEW.scope, 1)
    ON CONFLICT (organization_id, scope) DO UPDATE SET entries = counted.entries + 1;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER activity_counted AFTER INSERT ON activity_log
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.organization_id IS NOT NULL)
    EXECUTE FUNCTION activity_counted();

-- Marks of deleted rows, also of those that a cascade deletes: `cleanup` deletes what belongs to
-- them, piece by piece.
CREATE FUNCTION projects_deleted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO deleted_projects (team_id) VALUES (OLD.id) ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;
CREATE TRIGGER projects_deleted AFTER DELETE ON projects
    FOR EACH ROW EXECUTE FUNCTION projects_deleted();
CREATE FUNCTION organizations_deleted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO deleted_organizations (organization_id) VALUES (OLD.id) ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;
CREATE TRIGGER organizations_deleted AFTER DELETE ON organizations
    FOR EACH ROW EXECUTE FUNCTION organizations_deleted();
CREATE FUNCTION batch_exports_deleted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO deleted_batch_exports (batch_export_id) VALUES (OLD.id) ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;
CREATE TRIGGER batch_exports_deleted AFTER DELETE ON batch_exports
    FOR EACH ROW EXECUTE FUNCTION batch_exports_deleted();
CREATE FUNCTION plugins_deleted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO deleted_plugins (plugin_id) VALUES (OLD.id) ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;
CREATE TRIGGER plugins_deleted AFTER DELETE ON plugins
    FOR EACH ROW EXECUTE FUNCTION plugins_deleted();
