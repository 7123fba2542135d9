-- Who may ask a server in a tenant's name. Of a key only a digest is kept.

CREATE TABLE callers (
  tenant TEXT COLLATE "C" NOT NULL,
  id TEXT COLLATE "C" NOT NULL,
  digest BYTEA NOT NULL,
  name TEXT COLLATE "C" NOT NULL,
  scopes TEXT COLLATE "C" NOT NULL, -- with spaces between
  created DOUBLE PRECISION NOT NULL,
  revoked DOUBLE PRECISION,
  PRIMARY KEY (tenant, id)
);

-- A row is seen and written by its own tenant alone, as in all tables.

ALTER TABLE callers ENABLE ROW LEVEL SECURITY;
ALTER TABLE callers FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON callers USING (tenant = current_setting('brimful.tenant', true))
  WITH CHECK (tenant = current_setting('brimful.tenant', true));

DO $$
BEGIN
  IF (SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user) THEN
    GRANT SELECT, INSERT, UPDATE, DELETE ON callers TO brimful_app;
  END IF;
EXCEPTION WHEN insufficient_privilege OR undefined_object THEN
  NULL; -- as before: the check tells it
END
$$;
