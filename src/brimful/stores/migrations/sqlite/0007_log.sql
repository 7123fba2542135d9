-- The log: every build and every answer in the order of their arrival, with what each adds to the figures. Tallies hold
-- these sums by hours and days, of all rooms and of each, so that they can be told of any number of builds.

CREATE TABLE log_ends (
  tenant TEXT NOT NULL PRIMARY KEY,
  last INTEGER NOT NULL, -- the last place that was given; whoever appends holds this row
  pruned INTEGER NOT NULL -- the first hour of which nothing was pruned
) STRICT, WITHOUT ROWID;

CREATE TABLE log (
  tenant TEXT NOT NULL,
  place INTEGER NOT NULL,
  kind TEXT NOT NULL, -- build, answer
  item TEXT, -- the id of the snapshot or the response; of a room that is gone, none
  room TEXT,
  at REAL NOT NULL,
  persona TEXT NOT NULL,
  model TEXT NOT NULL,
  policy TEXT NOT NULL,
  body BLOB, -- what it adds; none where an older version of Brimful wrote it, and nobody has asked since
  PRIMARY KEY (tenant, place)
) STRICT, WITHOUT ROWID;

CREATE TABLE tallies (
  tenant TEXT NOT NULL,
  room TEXT NOT NULL, -- empty: all rooms
  size INTEGER NOT NULL, -- hours
  hour INTEGER NOT NULL, -- its first hour, counted from 1970
  persona TEXT NOT NULL,
  model TEXT NOT NULL,
  policy TEXT NOT NULL,
  body BLOB NOT NULL,
  PRIMARY KEY (tenant, room, size, hour, persona, model, policy)
) STRICT, WITHOUT ROWID;

-- The answer as it stands in its room.
ALTER TABLE responses ADD COLUMN message TEXT;

-- The last day on which a build referred to a content, counted from 1970.
ALTER TABLE contents ADD COLUMN seen INTEGER NOT NULL DEFAULT 0;

INSERT INTO log (tenant, place, kind, item, room, at, persona, model, policy)
SELECT tenant, row_number() OVER (PARTITION BY tenant ORDER BY at, kind DESC, number, id),
  kind, id, room, at, persona, model, policy
FROM (
  SELECT tenant, 'build' AS kind, number, id, room, at, coalesce(persona, '') AS persona,
    json_extract(CAST(digest AS TEXT), '$.model') AS model, json_extract(CAST(digest AS TEXT), '$.policy') AS policy
  FROM snapshots
  UNION ALL
  SELECT tenant, 'answer', 0, id, room, at, '', '', '' FROM responses
);

INSERT INTO log_ends (tenant, last, pruned) SELECT tenant, max(place), -9007199254740992 FROM log GROUP BY tenant;

CREATE UNIQUE INDEX log_by_item ON log (tenant, kind, item) WHERE item IS NOT NULL;
CREATE INDEX log_by_time ON log (tenant, at);
CREATE INDEX log_by_room ON log (tenant, room, place) WHERE room IS NOT NULL;
CREATE INDEX log_by_persona ON log (tenant, persona, place) WHERE kind = 'build';
CREATE INDEX log_by_model ON log (tenant, model, place) WHERE kind = 'build';
CREATE INDEX log_unsettled ON log (tenant, place) WHERE body IS NULL;
CREATE INDEX responses_by_message ON responses (tenant, message) WHERE message IS NOT NULL;
CREATE INDEX contents_unused ON contents (tenant, seen) WHERE uses <= 0;

INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
  ('log', 'log', '1000000 500000 1'),
  ('log', 'log_by_item', '1000000 500000 500000 1'),
  ('log', 'log_by_time', '1000000 500000 1'),
  ('log', 'log_by_room', '1000000 500000 100 1'),
  ('log', 'log_by_persona', '500000 250000 50000 1'),
  ('log', 'log_by_model', '500000 250000 50000 1'),
  ('log', 'log_unsettled', '1000 500 1'),
  ('tallies', 'tallies', '1000000 500000 50 50 10 5 2 1'),
  ('responses', 'responses_by_message', '100000 50000 1'),
  ('contents', 'contents_unused', '10000 5000 100');

ANALYZE sqlite_schema;
