-- What the janitor did: what it set aside is marked with its run, and what it wrote over is kept, so that it can be undone.

-- The run that set it aside: since then it is not told and not found, but it is there.
ALTER TABLE messages ADD COLUMN aside INTEGER;
ALTER TABLE memories ADD COLUMN aside INTEGER;

CREATE INDEX messages_aside ON messages (tenant, aside) WHERE aside IS NOT NULL;
CREATE INDEX memories_aside ON memories (tenant, aside) WHERE aside IS NOT NULL;

CREATE TABLE tidyings (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  tenant TEXT NOT NULL,
  state TEXT NOT NULL, -- running, done, undoing, undone, purged
  holder TEXT NOT NULL, -- who is at it
  begun REAL NOT NULL,
  beat REAL NOT NULL, -- when its holder was last heard of
  ended REAL,
  facts BLOB NOT NULL -- numbers by name
) STRICT;

CREATE INDEX tidyings_by_tenant ON tidyings (tenant, number);

CREATE TABLE tidied (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  tenant TEXT NOT NULL,
  run INTEGER NOT NULL,
  item TEXT NOT NULL, -- a summary
  room TEXT NOT NULL,
  body BLOB NOT NULL, -- what it was before the run
  UNIQUE (tenant, run, item)
) STRICT;

CREATE INDEX tidied_by_room ON tidied (tenant, room);

INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
  ('messages', 'messages_aside', '100000 50000 1000'),
  ('memories', 'memories_aside', '1000 500 100'),
  ('tidyings', 'tidyings_by_tenant', '10000 5000 1'),
  ('tidied', 'sqlite_autoindex_tidied_1', '100000 50000 100 1'),
  ('tidied', 'tidied_by_room', '100000 50000 100');

ANALYZE sqlite_schema;
