-- Every table has a tenant. What is said stands once, in contents; records refer to it by its address.

CREATE TABLE migrations (
  name TEXT NOT NULL PRIMARY KEY,
  checksum TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE tenants (
  tenant TEXT NOT NULL PRIMARY KEY
) STRICT, WITHOUT ROWID;

CREATE TABLE contents (
  tenant TEXT NOT NULL,
  hash TEXT NOT NULL,
  body BLOB NOT NULL,
  uses INTEGER NOT NULL, -- records that refer to it; past contexts are not counted
  UNIQUE (tenant, hash)
) STRICT;

CREATE TABLE counts (
  tenant TEXT NOT NULL,
  tokenizer TEXT NOT NULL,
  hash TEXT NOT NULL,
  tokens INTEGER NOT NULL,
  PRIMARY KEY (tenant, tokenizer, hash)
) STRICT, WITHOUT ROWID;

CREATE TABLE users (
  tenant TEXT NOT NULL,
  id TEXT NOT NULL,
  body BLOB NOT NULL,
  PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE personas (
  tenant TEXT NOT NULL,
  id TEXT NOT NULL,
  body BLOB NOT NULL,
  PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE lorebooks (
  tenant TEXT NOT NULL,
  id TEXT NOT NULL,
  body BLOB NOT NULL,
  PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE rooms (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  tenant TEXT NOT NULL,
  id TEXT NOT NULL,
  body BLOB NOT NULL,
  owner TEXT,
  last INTEGER NOT NULL DEFAULT 0, -- the seq of its newest message
  spoken REAL NOT NULL DEFAULT 0, -- the time of its newest message
  UNIQUE (tenant, id),
  UNIQUE (tenant, number)
) STRICT;

CREATE INDEX rooms_by_owner ON rooms (tenant, owner) WHERE owner IS NOT NULL;

CREATE TABLE messages (
  tenant TEXT NOT NULL,
  room INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  id TEXT NOT NULL,
  hash TEXT NOT NULL,
  at REAL NOT NULL,
  edited REAL,
  deleted INTEGER NOT NULL DEFAULT 0,
  detail BLOB NOT NULL, -- sender, role, metadata
  PRIMARY KEY (tenant, room, seq),
  FOREIGN KEY (tenant, room) REFERENCES rooms (tenant, number) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX messages_by_id ON messages (tenant, id);

CREATE TABLE memories (
  tenant TEXT NOT NULL,
  id TEXT NOT NULL,
  scope TEXT NOT NULL,
  type TEXT NOT NULL,
  persona TEXT,
  person TEXT,
  room TEXT,
  hash TEXT NOT NULL,
  at REAL NOT NULL,
  pinned INTEGER NOT NULL,
  accesses INTEGER NOT NULL,
  accessed REAL,
  detail BLOB NOT NULL, -- importance, source, metadata
  PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX memories_by_scope ON memories (tenant, scope, at);
CREATE INDEX memories_pinned ON memories (tenant, scope) WHERE pinned = 1;

CREATE TABLE lore_entries (
  tenant TEXT NOT NULL,
  id TEXT NOT NULL,
  lorebook TEXT NOT NULL,
  hash TEXT NOT NULL,
  place INTEGER NOT NULL,
  detail BLOB NOT NULL, -- name, keys, constant, enabled, importance, settings
  PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX lore_entries_by_lorebook ON lore_entries (tenant, lorebook, place);

CREATE TABLE summaries (
  tenant TEXT NOT NULL,
  id TEXT NOT NULL,
  room TEXT NOT NULL,
  hash TEXT NOT NULL,
  at REAL NOT NULL,
  detail BLOB NOT NULL, -- cluster, first, last, covers, metadata
  PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX summaries_by_room ON summaries (tenant, room, at);

CREATE TABLE snapshots (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  tenant TEXT NOT NULL,
  id TEXT NOT NULL,
  room TEXT NOT NULL,
  persona TEXT,
  at REAL NOT NULL,
  message TEXT,
  digest BLOB NOT NULL, -- what a list of builds shows
  refs BLOB NOT NULL, -- the addresses of its contents
  body BLOB NOT NULL,
  UNIQUE (tenant, id),
  UNIQUE (tenant, number)
) STRICT;

CREATE INDEX snapshots_by_room ON snapshots (tenant, room, at);

CREATE TABLE inclusions (
  tenant TEXT NOT NULL,
  snapshot INTEGER NOT NULL,
  place INTEGER NOT NULL,
  item TEXT NOT NULL,
  kind TEXT NOT NULL,
  outcome TEXT NOT NULL,
  reason TEXT NOT NULL,
  tokens INTEGER NOT NULL,
  relevance REAL,
  PRIMARY KEY (tenant, snapshot, place),
  FOREIGN KEY (tenant, snapshot) REFERENCES snapshots (tenant, number) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE INDEX inclusions_by_item ON inclusions (tenant, item, snapshot);

CREATE TABLE responses (
  tenant TEXT NOT NULL,
  id TEXT NOT NULL,
  context TEXT NOT NULL,
  room TEXT NOT NULL,
  at REAL NOT NULL,
  body BLOB NOT NULL,
  PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX responses_by_room ON responses (tenant, room, at);
CREATE INDEX responses_by_context ON responses (tenant, context, at);

CREATE TABLE scopes (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  tenant TEXT NOT NULL,
  scope TEXT NOT NULL,
  documents INTEGER NOT NULL DEFAULT 0,
  words INTEGER NOT NULL DEFAULT 0,
  changes INTEGER NOT NULL DEFAULT 0, -- grows with every write
  UNIQUE (tenant, scope)
) STRICT;

CREATE TABLE documents (
  doc INTEGER PRIMARY KEY AUTOINCREMENT,
  tenant TEXT NOT NULL,
  scope INTEGER NOT NULL,
  kind TEXT NOT NULL,
  item TEXT NOT NULL,
  seq INTEGER NOT NULL,
  at REAL NOT NULL,
  length INTEGER NOT NULL,
  passage TEXT NOT NULL, -- the address of what is embedded; empty: nothing is
  terms TEXT NOT NULL, -- as the lexicon holds them, so that they can be taken out again
  UNIQUE (tenant, kind, item)
) STRICT;

CREATE INDEX documents_by_passage ON documents (tenant, passage) WHERE passage <> '';

CREATE TABLE embedders (
  tenant TEXT NOT NULL,
  id TEXT NOT NULL,
  since INTEGER NOT NULL, -- the newest is the largest
  dims INTEGER,
  dropped INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE pending (
  tenant TEXT NOT NULL,
  embedder TEXT NOT NULL,
  doc INTEGER NOT NULL,
  passage TEXT NOT NULL,
  PRIMARY KEY (tenant, embedder, doc)
) STRICT, WITHOUT ROWID;

CREATE INDEX pending_by_passage ON pending (tenant, embedder, passage);

CREATE TABLE vectors (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  tenant TEXT NOT NULL,
  embedder TEXT NOT NULL,
  hash TEXT NOT NULL,
  vector BLOB NOT NULL, -- float16
  UNIQUE (tenant, embedder, hash)
) STRICT;

-- What follows is SQLite's own way to search; PostgreSQL has another.

-- A log, so that a cache reads only what is new: a document got a vector, or (vector 0) is gone.
CREATE TABLE embedded (
  tenant TEXT NOT NULL,
  embedder TEXT NOT NULL,
  scope INTEGER NOT NULL,
  number INTEGER NOT NULL, -- in the order of arrival
  doc INTEGER NOT NULL,
  vector INTEGER NOT NULL,
  PRIMARY KEY (tenant, embedder, scope, number)
) STRICT, WITHOUT ROWID;

CREATE VIRTUAL TABLE lexicon USING fts5 (
  terms, content = '', columnsize = 0, tokenize = "ascii tokenchars '_:='"
);
CREATE VIRTUAL TABLE lexicon_found USING fts5vocab (lexicon, row);
CREATE VIRTUAL TABLE lexicon_places USING fts5vocab (lexicon, instance);

-- What the planner should expect: tenants with very many rows. Without it, a tenant's name seems to be a good key.

ANALYZE sqlite_schema;

INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
  ('contents', 'sqlite_autoindex_contents_1', '1000000 500000 1'),
  ('counts', 'counts', '1000000 500000 500000 1'),
  ('rooms', 'sqlite_autoindex_rooms_1', '10000 5000 1'),
  ('rooms', 'sqlite_autoindex_rooms_2', '10000 5000 1'),
  ('rooms', 'rooms_by_owner', '10000 5000 10'),
  ('messages', 'messages', '1000000 500000 1000 1'),
  ('messages', 'messages_by_id', '1000000 500000 1'),
  ('memories', 'memories', '100000 50000 1'),
  ('memories', 'memories_by_scope', '100000 50000 100 1'),
  ('memories', 'memories_pinned', '1000 500 10'),
  ('lore_entries', 'lore_entries', '10000 5000 1'),
  ('lore_entries', 'lore_entries_by_lorebook', '10000 5000 100 1'),
  ('summaries', 'summaries', '10000 5000 1'),
  ('summaries', 'summaries_by_room', '10000 5000 10 1'),
  ('snapshots', 'sqlite_autoindex_snapshots_1', '100000 50000 1'),
  ('snapshots', 'sqlite_autoindex_snapshots_2', '100000 50000 1'),
  ('snapshots', 'snapshots_by_room', '100000 50000 100 1'),
  ('inclusions', 'inclusions', '10000000 5000000 300 1'),
  ('inclusions', 'inclusions_by_item', '10000000 5000000 20 1'),
  ('responses', 'responses', '100000 50000 1'),
  ('responses', 'responses_by_room', '100000 50000 100 1'),
  ('responses', 'responses_by_context', '100000 50000 1 1'),
  ('scopes', 'sqlite_autoindex_scopes_1', '10000 5000 1'),
  ('documents', 'sqlite_autoindex_documents_1', '1000000 500000 250000 1'),
  ('documents', 'documents_by_passage', '1000000 500000 1'),
  ('pending', 'pending', '100000 50000 50000 1'),
  ('pending', 'pending_by_passage', '100000 50000 50000 1'),
  ('vectors', 'sqlite_autoindex_vectors_1', '1000000 500000 500000 1'),
  ('embedded', 'embedded', '1000000 500000 500000 1000 1');

-- Read it now, and not only when the file is opened next.
ANALYZE sqlite_schema;
