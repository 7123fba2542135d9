-- Where tenants are that are not simply in this store: in a directory of stores, they can be moved to others.

CREATE TABLE placements (
  tenant TEXT COLLATE "C" NOT NULL PRIMARY KEY,
  store TEXT COLLATE "C" NOT NULL, -- its name in the directory
  state TEXT COLLATE "C" NOT NULL -- moving, moved or arriving
);

ALTER TABLE placements ENABLE ROW LEVEL SECURITY;
ALTER TABLE placements FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON placements USING (tenant = current_setting('brimful.tenant', true))
  WITH CHECK (tenant = current_setting('brimful.tenant', true));

DO $$
BEGIN
  GRANT SELECT, INSERT, UPDATE, DELETE ON placements TO brimful_app;
EXCEPTION WHEN undefined_object OR insufficient_privilege THEN
  NULL; -- there is no such role where transactions do not run as a superuser
END
$$;
