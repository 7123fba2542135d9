-- Parts of the log of vectors, ready to be searched: whoever opens a large store reads these instead of all vectors.
-- They hold nothing that the vectors do not tell, and are made anew where they are missing.

CREATE TABLE embedded_blocks (
  number INTEGER PRIMARY KEY,
  tenant TEXT NOT NULL,
  embedder TEXT NOT NULL,
  scope INTEGER NOT NULL,
  block INTEGER NOT NULL, -- of as many entries of the log as all others
  first INTEGER NOT NULL, -- documents
  last INTEGER NOT NULL,
  body BLOB NOT NULL,
  UNIQUE (tenant, embedder, scope, block)
) STRICT;

CREATE INDEX embedded_blocks_by_doc ON embedded_blocks (tenant, embedder, scope, last, first);

INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
  ('embedded_blocks', 'sqlite_autoindex_embedded_blocks_1', '10000 5000 5000 500 1'),
  ('embedded_blocks', 'embedded_blocks_by_doc', '10000 5000 5000 500 1 1');

ANALYZE sqlite_schema;
