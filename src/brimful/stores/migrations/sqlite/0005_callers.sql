-- Who may ask a server in a tenant's name. Of a key only a digest is kept.

CREATE TABLE callers (
  tenant TEXT NOT NULL,
  id TEXT NOT NULL,
  digest BLOB NOT NULL,
  name TEXT NOT NULL,
  scopes TEXT NOT NULL, -- with spaces between
  created REAL NOT NULL,
  revoked REAL,
  PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;
