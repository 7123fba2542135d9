-- Packed postings: documents by term in segments, of which each scope has a few. The documents of a store from before
-- are packed in the background, those with the highest numbers first: until then, they are found in `postings`.

CREATE TABLE term_blocks (
  tenant TEXT COLLATE "C" NOT NULL,
  scope BIGINT NOT NULL,
  segment BIGINT NOT NULL, -- the number of writes to the scope when it was written
  part BIGINT NOT NULL, -- -1: a write that is not in a segment yet; 0: terms; from 1: documents of a common term
  term TEXT COLLATE "C" NOT NULL, -- the first one
  body BYTEA NOT NULL,
  PRIMARY KEY (tenant, scope, segment, part, term)
);

ALTER TABLE term_blocks ALTER COLUMN body SET STORAGE EXTERNAL; -- it is packed already

CREATE TABLE term_scopes (
  tenant TEXT COLLATE "C" NOT NULL,
  scope BIGINT NOT NULL,
  writes BIGINT NOT NULL, -- a writer locks this row
  unpacked BIGINT NOT NULL DEFAULT 0, -- documents up to this one may be in `postings`
  segments BIGINT[] NOT NULL DEFAULT '{}', -- number, documents, first and last document of each
  PRIMARY KEY (tenant, scope)
) WITH (fillfactor = 70); -- updated in place

CREATE INDEX term_scopes_unpacked ON term_scopes (tenant, scope) WHERE unpacked > 0;

-- A migration has no tenant: row-level security would hide every row.
ALTER TABLE scopes NO FORCE ROW LEVEL SECURITY;

INSERT INTO term_scopes (tenant, scope, writes, unpacked) SELECT tenant, number, 0, 9223372036854775807 FROM scopes;

ALTER TABLE scopes FORCE ROW LEVEL SECURITY;

DROP TABLE term_counts;

ALTER TABLE term_blocks ENABLE ROW LEVEL SECURITY;
ALTER TABLE term_blocks FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON term_blocks USING (tenant = current_setting('brimful.tenant', true))
  WITH CHECK (tenant = current_setting('brimful.tenant', true));

ALTER TABLE term_scopes ENABLE ROW LEVEL SECURITY;
ALTER TABLE term_scopes FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON term_scopes USING (tenant = current_setting('brimful.tenant', true))
  WITH CHECK (tenant = current_setting('brimful.tenant', true));

DO $$
BEGIN
  GRANT SELECT, INSERT, UPDATE, DELETE ON term_blocks, term_scopes TO brimful_app;
EXCEPTION WHEN undefined_object OR insufficient_privilege THEN
  NULL; -- there is no such role where transactions do not run as a superuser
END
$$;
