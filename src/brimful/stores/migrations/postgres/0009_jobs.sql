-- Work to do in the background: at most one job of a tenant, a kind and a subject, such as an embedder.

CREATE TABLE jobs (
  tenant TEXT COLLATE "C" NOT NULL,
  kind TEXT COLLATE "C" NOT NULL, -- embed, janitor or retention
  subject TEXT COLLATE "C" NOT NULL, -- the embedder; empty for other kinds
  due DOUBLE PRECISION NOT NULL, -- not before this time
  worker TEXT COLLATE "C" NOT NULL DEFAULT '', -- who claimed it
  lease DOUBLE PRECISION NOT NULL DEFAULT 0, -- until then it belongs to that worker
  attempts BIGINT NOT NULL DEFAULT 0, -- since something was done
  error TEXT COLLATE "C" NOT NULL DEFAULT '', -- of the last attempt
  PRIMARY KEY (tenant, kind, subject)
);

CREATE INDEX jobs_by_due ON jobs (kind, subject, due);
CREATE INDEX jobs_failed ON jobs (due) WHERE error <> '';

INSERT INTO jobs (tenant, kind, subject, due) SELECT DISTINCT tenant, 'embed', embedder, 0 FROM embedding_queue;

ALTER TABLE jobs ENABLE ROW LEVEL SECURITY;
ALTER TABLE jobs FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON jobs USING (tenant = current_setting('brimful.tenant', true))
  WITH CHECK (tenant = current_setting('brimful.tenant', true));
CREATE POLICY names ON jobs FOR SELECT USING (current_setting('brimful.names', true) = 'all');

DO $$
BEGIN
  GRANT SELECT, INSERT, UPDATE, DELETE ON jobs TO brimful_app;
EXCEPTION WHEN undefined_object OR insufficient_privilege THEN
  NULL; -- there is no such role where transactions do not run as a superuser
END
$$;
