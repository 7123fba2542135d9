-- What several servers share: how many requests a key has left, and where the histories of trimmed requests began.

CREATE TABLE rate_limits (
  tenant TEXT NOT NULL,
  name TEXT NOT NULL,
  remaining REAL NOT NULL,
  at REAL NOT NULL,
  PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE trimmed_requests (
  tenant TEXT NOT NULL,
  digest TEXT NOT NULL, -- of the messages of the request
  body BLOB NOT NULL,
  at REAL NOT NULL,
  PRIMARY KEY (tenant, digest)
) STRICT, WITHOUT ROWID;

CREATE INDEX trimmed_requests_by_time ON trimmed_requests (tenant, at);

INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
  ('rate_limits', 'rate_limits', '1000 10 1'),
  ('trimmed_requests', 'trimmed_requests', '100000 1000 1'),
  ('trimmed_requests', 'trimmed_requests_by_time', '100000 1000 1');
