-- In how many documents a token occurs. Until now postings were counted: of a common word in a room of a million
-- messages, hundreds of thousands.

CREATE TABLE terms (
  tenant TEXT COLLATE "C" NOT NULL,
  token TEXT COLLATE "C" NOT NULL,
  documents BIGINT NOT NULL,
  PRIMARY KEY (tenant, token)
) WITH (fillfactor = 70); -- a count is changed in its place

ALTER TABLE postings NO FORCE ROW LEVEL SECURITY; -- here, and in no other place, all tenants are read

INSERT INTO terms (tenant, token, documents) SELECT tenant, token, count(*) FROM postings GROUP BY tenant, token;

ALTER TABLE postings FORCE ROW LEVEL SECURITY;

-- A row is seen and written by its own tenant alone, as in all tables.

ALTER TABLE terms ENABLE ROW LEVEL SECURITY;
ALTER TABLE terms FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON terms USING (tenant = current_setting('brimful.tenant', true))
  WITH CHECK (tenant = current_setting('brimful.tenant', true));

DO $$
BEGIN
  IF (SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user) THEN
    GRANT SELECT, INSERT, UPDATE, DELETE ON terms TO brimful_app;
  END IF;
EXCEPTION WHEN insufficient_privilege OR undefined_object THEN
  NULL; -- as before: the check tells it
END
$$;
