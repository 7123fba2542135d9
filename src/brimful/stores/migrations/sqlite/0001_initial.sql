-- Every table but one has a tenant. Contents are stored once; records refer to them by address.

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
  seen INTEGER NOT NULL DEFAULT 0, -- the last day, counted from 1970, on which a context referred to it
  UNIQUE (tenant, hash)
) STRICT;

CREATE TABLE token_counts (
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
  last_message_at REAL NOT NULL DEFAULT 0, -- the time of its newest message
  unindexed INTEGER, -- the seq of the first message that is not indexed yet, NULL: all messages are indexed
  UNIQUE (tenant, id),
  UNIQUE (tenant, number)
) STRICT;

CREATE INDEX rooms_by_owner ON rooms (tenant, owner) WHERE owner IS NOT NULL;
CREATE INDEX rooms_unindexed ON rooms (tenant, number) WHERE unindexed IS NOT NULL;

CREATE TABLE messages (
  tenant TEXT NOT NULL,
  room INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  id TEXT NOT NULL,
  hash TEXT NOT NULL,
  at REAL NOT NULL,
  edited REAL,
  deleted INTEGER NOT NULL DEFAULT 0,
  archived_by INTEGER, -- the janitor run that archived it
  detail BLOB NOT NULL, -- sender, role, metadata, persona, hidden, superseded
  PRIMARY KEY (tenant, room, seq),
  FOREIGN KEY (tenant, room) REFERENCES rooms (tenant, number) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX messages_by_id ON messages (tenant, id);

-- How many messages a room has, and their tokens, in sums over spans of positions: so nobody has to read all of them. What
-- is in no span is counted when it is next needed.
CREATE TABLE room_counts (
  tenant TEXT NOT NULL,
  room INTEGER NOT NULL,
  counter TEXT NOT NULL, -- the tokenizer, and the rules for media
  first INTEGER NOT NULL, -- seq
  last INTEGER NOT NULL,
  messages INTEGER NOT NULL,
  tokens INTEGER NOT NULL,
  PRIMARY KEY (tenant, room, counter, first)
) STRICT, WITHOUT ROWID;

CREATE TABLE memories (
  tenant TEXT NOT NULL,
  id TEXT NOT NULL,
  scope TEXT NOT NULL,
  type TEXT NOT NULL,
  persona TEXT,
  user_id TEXT,
  room TEXT,
  hash TEXT NOT NULL,
  at REAL NOT NULL,
  pinned INTEGER NOT NULL,
  summary INTEGER NOT NULL DEFAULT 0, -- 1: it summarizes the other memories of its cluster
  accesses INTEGER NOT NULL,
  accessed REAL,
  archived_by INTEGER, -- the janitor run that archived it
  state TEXT NOT NULL DEFAULT 'active', -- active, proposed, rejected
  detail BLOB NOT NULL, -- importance, source, metadata
  PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX memories_by_scope ON memories (tenant, scope, at);
CREATE INDEX memories_by_user ON memories (tenant, user_id);
CREATE INDEX memories_by_time ON memories (tenant, at DESC, id);
CREATE INDEX memories_pinned ON memories (tenant, scope) WHERE pinned = 1;
CREATE INDEX memories_summaries ON memories (tenant, scope) WHERE summary = 1;
CREATE INDEX memories_by_state ON memories (tenant, state, at DESC, id) WHERE state <> 'active';

CREATE TABLE lore_entries (
  tenant TEXT NOT NULL,
  id TEXT NOT NULL,
  lorebook TEXT NOT NULL,
  hash TEXT NOT NULL,
  position INTEGER NOT NULL,
  detail BLOB NOT NULL, -- all other fields
  PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX lore_entries_by_lorebook ON lore_entries (tenant, lorebook, position);

CREATE TABLE summaries (
  tenant TEXT NOT NULL,
  id TEXT NOT NULL,
  room TEXT NOT NULL,
  hash TEXT NOT NULL,
  at REAL NOT NULL,
  detail BLOB NOT NULL, -- cluster, first, last, covers, metadata, spans
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
  task TEXT, -- a hash of what its run is about, to find the context before it
  digest BLOB NOT NULL, -- the context in one line, for lists
  items BLOB NOT NULL, -- short hashes of its candidates
  refs BLOB NOT NULL, -- the addresses of its contents
  body BLOB NOT NULL,
  UNIQUE (tenant, id),
  UNIQUE (tenant, number)
) STRICT;

CREATE INDEX snapshots_by_room ON snapshots (tenant, room, at);
CREATE INDEX snapshots_by_task ON snapshots (tenant, task, number) WHERE task IS NOT NULL;

-- The rooms whose contexts had an item as a candidate; messages of the room itself need no row.
CREATE TABLE context_items (
  tenant TEXT NOT NULL,
  item TEXT NOT NULL,
  room TEXT NOT NULL,
  PRIMARY KEY (tenant, item, room)
) STRICT, WITHOUT ROWID;

CREATE INDEX context_items_by_room ON context_items (tenant, room);

CREATE TABLE responses (
  tenant TEXT NOT NULL,
  id TEXT NOT NULL,
  context TEXT NOT NULL,
  room TEXT NOT NULL,
  at REAL NOT NULL,
  message TEXT, -- the id of the response as a message of its room
  feedback TEXT, -- good, bad; NULL: none
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
  changes INTEGER NOT NULL DEFAULT 0, -- increases with every write
  UNIQUE (tenant, scope)
) STRICT;

CREATE TABLE documents (
  doc INTEGER PRIMARY KEY AUTOINCREMENT,
  tenant TEXT NOT NULL,
  scope INTEGER NOT NULL,
  kind TEXT NOT NULL,
  item TEXT NOT NULL,
  part INTEGER NOT NULL DEFAULT 0, -- the number of the passage; below 0, the rest of a text that is not indexed yet
  start INTEGER NOT NULL DEFAULT 0, -- where the passage starts and stops in the text; both are 0 if it is all of it
  stop INTEGER NOT NULL DEFAULT 0,
  seq INTEGER NOT NULL, -- a message's position; for a memory or lore entry with several passages, its first document
  at REAL NOT NULL,
  length INTEGER NOT NULL,
  passage TEXT NOT NULL, -- the address of the text to embed, empty if there is none
  terms TEXT NOT NULL, -- the indexed tokens, needed to remove them again
  UNIQUE (tenant, kind, item, part)
) STRICT;

CREATE INDEX documents_by_passage ON documents (tenant, passage) WHERE passage <> '';
CREATE INDEX documents_undivided ON documents (tenant) WHERE part < 0;

CREATE TABLE embedders (
  tenant TEXT NOT NULL,
  id TEXT NOT NULL,
  since INTEGER NOT NULL, -- increases with every embedder
  dims INTEGER,
  dropped INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE embedding_queue (
  tenant TEXT NOT NULL,
  embedder TEXT NOT NULL,
  doc INTEGER NOT NULL,
  PRIMARY KEY (tenant, embedder, doc)
) STRICT, WITHOUT ROWID;

CREATE TABLE vectors (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  tenant TEXT NOT NULL,
  embedder TEXT NOT NULL,
  hash TEXT NOT NULL,
  vector BLOB NOT NULL, -- float16
  UNIQUE (tenant, embedder, hash)
) STRICT;

CREATE TABLE data_keys (
  tenant TEXT NOT NULL,
  number INTEGER NOT NULL, -- 0 derives content addresses and term hashes; the highest number encrypts
  wrapped BLOB NOT NULL, -- encrypted with a key that is not stored here
  kek TEXT NOT NULL, -- the id of the key-encryption key
  created REAL NOT NULL,
  retired REAL, -- when the last row encrypted with it was re-encrypted
  mixed INTEGER NOT NULL DEFAULT 0, -- of number 0: some rows may still be in plain text
  PRIMARY KEY (tenant, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE usage_reports (
  number INTEGER PRIMARY KEY AUTOINCREMENT, -- in order of arrival
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
  reported_window INTEGER, -- the window that an overflow error reported
  UNIQUE (tenant, id)
) STRICT;

CREATE INDEX usage_reports_by_model ON usage_reports ( -- covers the columns that are aggregated
  tenant, model, route, at, kind, counted, margin, reported, cached, expected_cached
);

CREATE INDEX usage_reports_unusual ON usage_reports (tenant, model, route, at) WHERE kind <> 'usage';
CREATE INDEX usage_reports_by_time ON usage_reports (tenant, at);
CREATE INDEX usage_reports_by_room ON usage_reports (tenant, room) WHERE room IS NOT NULL;

CREATE TABLE term_counts (
  tenant TEXT NOT NULL,
  token TEXT NOT NULL,
  documents INTEGER NOT NULL,
  PRIMARY KEY (tenant, token)
) STRICT, WITHOUT ROWID;

CREATE TABLE api_keys (
  tenant TEXT NOT NULL,
  id TEXT NOT NULL,
  digest BLOB NOT NULL,
  name TEXT NOT NULL,
  scopes TEXT NOT NULL, -- separated by spaces
  created REAL NOT NULL,
  revoked REAL,
  user_id TEXT, -- NULL: it may act for all users
  expires REAL,
  models TEXT, -- patterns as a JSON list; NULL: all
  policies TEXT, -- names as a JSON list; NULL: all
  used REAL, -- last, to a minute
  PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;

-- The log of contexts and responses in order of arrival, and tallies of them per hour and per day.

CREATE TABLE log_ends (
  tenant TEXT NOT NULL PRIMARY KEY,
  last INTEGER NOT NULL, -- the last position; a writer locks this row
  pruned INTEGER NOT NULL -- the first hour that was not pruned
) STRICT, WITHOUT ROWID;

CREATE TABLE log (
  tenant TEXT NOT NULL,
  position INTEGER NOT NULL,
  kind TEXT NOT NULL, -- build, answer
  item TEXT, -- the id of the snapshot or response, NULL after its room was removed
  room TEXT,
  at REAL NOT NULL,
  persona TEXT NOT NULL,
  model TEXT NOT NULL,
  policy TEXT NOT NULL,
  user_id TEXT NOT NULL, -- empty: unknown, or removed
  api_key TEXT NOT NULL, -- the id of an API key; empty: none
  run TEXT, -- the first context of its run
  body BLOB NOT NULL, -- its tally
  PRIMARY KEY (tenant, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE tallies (
  tenant TEXT NOT NULL,
  scope TEXT NOT NULL, -- all, room, user or key
  owner TEXT NOT NULL, -- the id of the room, user or API key; empty: all
  size INTEGER NOT NULL, -- hours
  hour INTEGER NOT NULL, -- the first hour, counted from 1970
  persona TEXT NOT NULL,
  model TEXT NOT NULL,
  policy TEXT NOT NULL,
  body BLOB NOT NULL,
  PRIMARY KEY (tenant, scope, owner, size, hour, persona, model, policy)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX log_by_item ON log (tenant, kind, item) WHERE item IS NOT NULL;
CREATE INDEX log_by_run ON log (tenant, run, kind, position) WHERE run IS NOT NULL;
CREATE INDEX log_by_time ON log (tenant, at);
CREATE INDEX log_by_room ON log (tenant, room, position) WHERE room IS NOT NULL;
CREATE INDEX log_by_persona ON log (tenant, persona, position) WHERE kind = 'build';
CREATE INDEX log_by_model ON log (tenant, model, position) WHERE kind = 'build';
CREATE INDEX api_keys_by_user ON api_keys (tenant, user_id) WHERE user_id IS NOT NULL;
CREATE INDEX log_by_user ON log (tenant, user_id, position) WHERE user_id <> '';
CREATE INDEX tallies_by_hour ON tallies (tenant, scope, size, hour) WHERE scope IN ('user', 'key');
CREATE INDEX responses_by_message ON responses (tenant, message) WHERE message IS NOT NULL;
CREATE INDEX responses_by_feedback ON responses (tenant, feedback) WHERE feedback IS NOT NULL;
CREATE INDEX contents_unused ON contents (tenant, seen) WHERE uses <= 0;
CREATE INDEX messages_archived ON messages (tenant, archived_by) WHERE archived_by IS NOT NULL;
CREATE INDEX memories_archived ON memories (tenant, archived_by) WHERE archived_by IS NOT NULL;

-- Runs that can be undone. A learning run adds memories; its rows in janitor_undo are these memories.

CREATE TABLE janitor_runs (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  tenant TEXT NOT NULL,
  kind TEXT NOT NULL DEFAULT 'janitor', -- janitor, learning
  state TEXT NOT NULL, -- running, done, undoing, undone, purged
  holder TEXT NOT NULL, -- the process that runs it
  started REAL NOT NULL,
  heartbeat REAL NOT NULL, -- the last sign of life of its holder
  ended REAL,
  facts BLOB NOT NULL -- numbers by name
) STRICT;

CREATE INDEX janitor_runs_by_tenant ON janitor_runs (tenant, number);

CREATE TABLE janitor_undo (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  tenant TEXT NOT NULL,
  run INTEGER NOT NULL,
  item TEXT NOT NULL, -- a summary
  room TEXT NOT NULL,
  body BLOB NOT NULL, -- the summary before the run
  UNIQUE (tenant, run, item)
) STRICT;

CREATE INDEX janitor_undo_by_room ON janitor_undo (tenant, room);
CREATE INDEX snapshots_by_message ON snapshots (tenant, message) WHERE message IS NOT NULL;

CREATE TABLE learned_messages (
  tenant TEXT NOT NULL,
  scope TEXT NOT NULL, -- of the memories
  message TEXT NOT NULL, -- the hash of a message that was read
  run INTEGER NOT NULL, -- 0 if nothing was learned
  PRIMARY KEY (tenant, scope, message)
) STRICT, WITHOUT ROWID;

CREATE INDEX learned_messages_by_run ON learned_messages (tenant, run);

-- Calls of models that Brimful makes by itself: what they cost by UTC day, what those under way may cost, and the limit.

CREATE TABLE own_calls (
  tenant TEXT NOT NULL,
  day INTEGER NOT NULL, -- since 1970
  kind TEXT NOT NULL,
  calls INTEGER NOT NULL DEFAULT 0,
  prompt INTEGER NOT NULL DEFAULT 0, -- tokens
  completion INTEGER NOT NULL DEFAULT 0,
  nanodollars INTEGER NOT NULL DEFAULT 0,
  unpriced INTEGER NOT NULL DEFAULT 0, -- calls whose price is not known
  reserved_tokens INTEGER NOT NULL DEFAULT 0,
  reserved_nanodollars INTEGER NOT NULL DEFAULT 0,
  tokens_per_day INTEGER,
  nanodollars_per_day INTEGER,
  PRIMARY KEY (tenant, day, kind)
) STRICT, WITHOUT ROWID;

-- What API keys and users may use of models, if limits were set for one of them, and what they have used by period.

CREATE TABLE usage_limits (
  tenant TEXT NOT NULL,
  subject TEXT NOT NULL, -- a hash of kind and name
  kind TEXT NOT NULL, -- key or user
  name TEXT NOT NULL, -- empty if the user was removed
  limits TEXT NOT NULL, -- JSON
  PRIMARY KEY (tenant, subject)
) STRICT, WITHOUT ROWID;

CREATE TABLE limit_counters (
  tenant TEXT NOT NULL,
  period TEXT NOT NULL, -- minute, day or month
  start INTEGER NOT NULL, -- seconds since 1970
  subject TEXT NOT NULL,
  requests INTEGER NOT NULL,
  tokens INTEGER NOT NULL, -- with those that are reserved
  nanodollars INTEGER NOT NULL,
  reserved_tokens INTEGER NOT NULL, -- by requests under way
  reserved_nanodollars INTEGER NOT NULL,
  PRIMARY KEY (tenant, period, start, subject)
) STRICT, WITHOUT ROWID;

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

-- Work to do in the background: at most one job of a tenant, a kind and a subject, such as an embedder.

CREATE TABLE jobs (
  tenant TEXT NOT NULL,
  kind TEXT NOT NULL, -- embed, janitor or retention, for example
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

-- Search in SQLite; PostgreSQL has other tables.

-- A log that in-memory indexes follow: a document received a vector, or was removed (vector 0).
CREATE TABLE vector_log (
  tenant TEXT NOT NULL,
  embedder TEXT NOT NULL,
  scope INTEGER NOT NULL,
  number INTEGER NOT NULL, -- in order of arrival
  doc INTEGER NOT NULL,
  vector INTEGER NOT NULL,
  PRIMARY KEY (tenant, embedder, scope, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE vector_blocks (
  number INTEGER PRIMARY KEY,
  tenant TEXT NOT NULL,
  embedder TEXT NOT NULL,
  scope INTEGER NOT NULL,
  block INTEGER NOT NULL, -- a fixed number of log entries
  first INTEGER NOT NULL, -- document
  last INTEGER NOT NULL,
  body BLOB NOT NULL,
  UNIQUE (tenant, embedder, scope, block)
) STRICT;

CREATE INDEX vector_blocks_by_doc ON vector_blocks (tenant, embedder, scope, last, first);

CREATE VIRTUAL TABLE text_index USING fts5 (
  terms, content = '', columnsize = 0, tokenize = "ascii tokenchars '_:='"
);
CREATE VIRTUAL TABLE text_index_terms USING fts5vocab (text_index, row);
CREATE VIRTUAL TABLE text_index_positions USING fts5vocab (text_index, instance);

-- Statistics for the query planner: tenants have many rows. Without them it takes the tenant for a selective key.

ANALYZE sqlite_schema;

INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
  ('contents', 'sqlite_autoindex_contents_1', '1000000 500000 1'),
  ('token_counts', 'token_counts', '1000000 500000 500000 1'),
  ('rooms', 'sqlite_autoindex_rooms_1', '10000 5000 1'),
  ('rooms', 'sqlite_autoindex_rooms_2', '10000 5000 1'),
  ('rooms', 'rooms_by_owner', '10000 5000 10'),
  ('rooms', 'rooms_unindexed', '100 50 1'),
  ('messages', 'messages', '1000000 500000 1000 1'),
  ('messages', 'messages_by_id', '1000000 500000 1'),
  ('room_counts', 'room_counts', '10000 5000 10 5 1'),
  ('memories', 'memories', '100000 50000 1'),
  ('memories', 'memories_by_scope', '100000 50000 100 1'),
  ('memories', 'memories_by_user', '100000 50000 100'),
  ('memories', 'memories_by_time', '100000 50000 2 1'),
  ('memories', 'memories_pinned', '1000 500 10'),
  ('memories', 'memories_summaries', '1000 500 10'),
  ('lore_entries', 'lore_entries', '10000 5000 1'),
  ('lore_entries', 'lore_entries_by_lorebook', '10000 5000 100 1'),
  ('summaries', 'summaries', '10000 5000 1'),
  ('summaries', 'summaries_by_room', '10000 5000 10 1'),
  ('snapshots', 'sqlite_autoindex_snapshots_1', '100000 50000 1'),
  ('snapshots', 'sqlite_autoindex_snapshots_2', '100000 50000 1'),
  ('snapshots', 'snapshots_by_room', '100000 50000 100 1'),
  ('snapshots', 'snapshots_by_task', '100000 50000 20 1'),
  ('context_items', 'context_items', '1000000 500000 10 1'),
  ('context_items', 'context_items_by_room', '1000000 500000 100'),
  ('responses', 'responses', '100000 50000 1'),
  ('responses', 'responses_by_room', '100000 50000 100 1'),
  ('responses', 'responses_by_context', '100000 50000 1 1'),
  ('scopes', 'sqlite_autoindex_scopes_1', '10000 5000 1'),
  ('documents', 'sqlite_autoindex_documents_1', '1000000 500000 250000 1 1'),
  ('documents', 'documents_by_passage', '1000000 500000 1'),
  ('documents', 'documents_undivided', '1000 500'),
  ('embedding_queue', 'embedding_queue', '100000 50000 50000 1'),
  ('vectors', 'sqlite_autoindex_vectors_1', '1000000 500000 500000 1'),
  ('vector_log', 'vector_log', '1000000 500000 500000 1000 1'),
  ('usage_reports', 'sqlite_autoindex_usage_reports_1', '1000000 500000 1'),
  ('usage_reports', 'usage_reports_by_model', '1000000 500000 100000 50000 1 1 1 1 1 1 1'),
  ('usage_reports', 'usage_reports_unusual', '1000 500 100 50 1'),
  ('usage_reports', 'usage_reports_by_time', '1000000 500000 1'),
  ('usage_reports', 'usage_reports_by_room', '1000000 500000 1000'),
  ('term_counts', 'term_counts', '1000000 500000 1'),
  ('vector_blocks', 'sqlite_autoindex_vector_blocks_1', '10000 5000 5000 500 1'),
  ('vector_blocks', 'vector_blocks_by_doc', '10000 5000 5000 500 1 1'),
  ('log', 'log', '1000000 500000 1'),
  ('log', 'log_by_item', '1000000 500000 500000 1'),
  ('log', 'log_by_run', '1000000 500000 40 20 1'),
  ('log', 'log_by_time', '1000000 500000 1'),
  ('log', 'log_by_room', '1000000 500000 100 1'),
  ('log', 'log_by_persona', '500000 250000 50000 1'),
  ('log', 'log_by_model', '500000 250000 50000 1'),
  ('api_keys', 'api_keys_by_user', '1000 500 5'),
  ('log', 'log_by_user', '500000 250000 5000 1'),
  ('tallies', 'tallies', '1000000 500000 200000 50 25 10 5 2 1'),
  ('tallies', 'tallies_by_hour', '500000 400000 200000 100000 100'),
  ('responses', 'responses_by_message', '100000 50000 1'),
  ('responses', 'responses_by_feedback', '1000 500 250'),
  ('contents', 'contents_unused', '10000 5000 100'),
  ('messages', 'messages_archived', '100000 50000 1000'),
  ('memories', 'memories_archived', '1000 500 100'),
  ('janitor_runs', 'janitor_runs_by_tenant', '10000 5000 1'),
  ('janitor_undo', 'sqlite_autoindex_janitor_undo_1', '100000 50000 100 1'),
  ('janitor_undo', 'janitor_undo_by_room', '100000 50000 100'),
  ('snapshots', 'snapshots_by_message', '100000 50000 1'),
  ('learned_messages', 'learned_messages', '100000 50000 100 1'),
  ('learned_messages', 'learned_messages_by_run', '100000 50000 20'),
  ('own_calls', 'own_calls', '100000 1000 4 1'),
  ('usage_limits', 'usage_limits', '10000 1000 1'),
  ('limit_counters', 'limit_counters', '100000 10000 5000 1000 1'),
  ('rate_limits', 'rate_limits', '1000 10 1'),
  ('trimmed_requests', 'trimmed_requests', '100000 1000 1'),
  ('trimmed_requests', 'trimmed_requests_by_time', '100000 1000 1');

-- Load the statistics now, not only when the file is opened again.
ANALYZE sqlite_schema;
