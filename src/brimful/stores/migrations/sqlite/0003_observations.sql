-- What requests came to: how much was counted, and what the provider said of it. Written once, never changed.

CREATE TABLE observations (
  number INTEGER PRIMARY KEY AUTOINCREMENT, -- in the order of arrival
  tenant TEXT NOT NULL,
  id TEXT NOT NULL,
  model TEXT NOT NULL,
  route TEXT NOT NULL,
  at REAL NOT NULL,
  kind TEXT NOT NULL,
  context TEXT,
  room TEXT,
  counted INTEGER NOT NULL,
  margin INTEGER NOT NULL,
  basis TEXT NOT NULL,
  tokenizer TEXT NOT NULL,
  features BLOB NOT NULL, -- numbers by name
  reported INTEGER NOT NULL,
  cached INTEGER NOT NULL,
  expected_cached INTEGER NOT NULL,
  completion INTEGER NOT NULL,
  reasoning INTEGER NOT NULL,
  refused_above INTEGER, -- the window that an overflow told
  UNIQUE (tenant, id)
) STRICT;

CREATE INDEX observations_by_model ON observations ( -- from kind on: what is summed up, so that no row is read for it
  tenant, model, route, at, kind, counted, margin, reported, cached, expected_cached
);
CREATE INDEX observations_unusual ON observations (tenant, model, route, at) WHERE kind <> 'usage';
CREATE INDEX observations_by_time ON observations (tenant, at);
CREATE INDEX observations_by_room ON observations (tenant, room) WHERE room IS NOT NULL;

INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
  ('observations', 'sqlite_autoindex_observations_1', '1000000 500000 1'),
  ('observations', 'observations_by_model', '1000000 500000 100000 50000 1 1 1 1 1 1 1'),
  ('observations', 'observations_unusual', '1000 500 100 50 1'),
  ('observations', 'observations_by_time', '1000000 500000 1'),
  ('observations', 'observations_by_room', '1000000 500000 1000');

ANALYZE sqlite_schema;
