-- Work to do in the background: at most one job of a tenant, a kind and a subject, such as an embedder.

CREATE TABLE jobs (
  tenant TEXT NOT NULL,
  kind TEXT NOT NULL, -- embed, janitor or retention
  subject TEXT NOT NULL, -- the embedder; empty for other kinds
  due REAL NOT NULL, -- not before this time
  worker TEXT NOT NULL DEFAULT '', -- who claimed it
  lease REAL NOT NULL DEFAULT 0, -- until then it belongs to that worker
  attempts INTEGER NOT NULL DEFAULT 0, -- since something was done
  error TEXT NOT NULL DEFAULT '', -- of the last attempt
  PRIMARY KEY (tenant, kind, subject)
) STRICT, WITHOUT ROWID;

CREATE INDEX jobs_by_due ON jobs (kind, subject, due);
CREATE INDEX jobs_failed ON jobs (due) WHERE error <> '';

INSERT INTO jobs (tenant, kind, subject, due) SELECT DISTINCT tenant, 'embed', embedder, 0 FROM embedding_queue;
