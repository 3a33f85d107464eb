-- Triggers of SQLite.

-- Entries are written by every kind of change: they are counted here.
CREATE TRIGGER activity_counted AFTER INSERT ON activity_log WHEN NEW.organization_id IS NOT NULL
BEGIN
    INSERT INTO activity_counts (organization_id, scope, entries)
    VALUES (NEW.organization_id, NEW.scope, 1)
    ON CONFLICT (organization_id, scope) DO UPDATE SET entries = entries + 1;
END;

-- Marks of deleted rows, also of those that a cascade deletes: `cleanup` deletes what belongs to
-- them, piece by piece.
CREATE TRIGGER projects_deleted AFTER DELETE ON projects
BEGIN
    INSERT INTO deleted_projects (team_id) VALUES (OLD.id) ON CONFLICT DO NOTHING;
END;
CREATE TRIGGER organizations_deleted AFTER DELETE ON organizations
BEGIN
    INSERT INTO deleted_organizations (organization_id) VALUES (OLD.id) ON CONFLICT DO NOTHING;
END;
CREATE TRIGGER batch_exports_deleted AFTER DELETE ON batch_exports
BEGIN
    INSERT INTO deleted_batch_exports (batch_export_id) VALUES (OLD.id) ON CONFLICT DO NOTHING;
END;
CREATE TRIGGER plugins_deleted AFTER DELETE ON plugins
BEGIN
    INSERT INTO deleted_plugins (plugin_id) VALUES (OLD.id) ON CONFLICT DO NOTHING;
END;
