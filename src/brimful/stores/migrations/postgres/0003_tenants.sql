-- A row is seen and written by its own tenant alone, whatever a statement says. The tenant of a transaction is a setting.

DO $$
DECLARE
  name text;
BEGIN
  FOR name IN
    SELECT c.relname FROM pg_class c
    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant'
    WHERE c.relkind = 'r' AND c.relnamespace = current_schema()::regnamespace
  LOOP
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
    EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
    EXECUTE format(
      'CREATE POLICY own_rows ON %I USING (tenant = current_setting(''brimful.tenant'', true)) '
      'WITH CHECK (tenant = current_setting(''brimful.tenant'', true))', name);
  END LOOP;
END
$$;

-- Whoever looks after the whole database may ask for the names of tenants, and for nothing else of theirs.

CREATE POLICY names ON tenants FOR SELECT USING (current_setting('brimful.names', true) = 'all');

-- No policy binds a superuser. Whoever connects as one works as this role instead, which can do nothing else.

DO $$
BEGIN
  IF (SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user) THEN
    BEGIN
      CREATE ROLE brimful_app NOLOGIN;
    EXCEPTION WHEN duplicate_object OR unique_violation THEN
      NULL;
    END;
    EXECUTE format('GRANT USAGE ON SCHEMA %I TO brimful_app', current_schema());
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA %I TO brimful_app', current_schema());
    EXECUTE format('GRANT USAGE, SELECT, UPDATE ON ALL SEQUENCES IN SCHEMA %I TO brimful_app', current_schema());
    EXECUTE format('GRANT brimful_app TO %I', current_user);
  END IF;
EXCEPTION WHEN insufficient_privilege THEN
  NULL; -- the check tells that nothing but the statements themselves keeps tenants apart
END
$$;
