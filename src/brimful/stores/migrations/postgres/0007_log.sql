-- The log: every build and every answer in the order of their arrival, with what each adds to the figures. Tallies hold
-- these sums by hours and days, of all rooms and of each, so that they can be told of any number of builds.

CREATE TABLE log_ends (
  tenant TEXT COLLATE "C" NOT NULL PRIMARY KEY,
  last BIGINT NOT NULL, -- the last place that was given; whoever appends holds this row
  pruned BIGINT NOT NULL -- the first hour of which nothing was pruned
) WITH (fillfactor = 50); -- changed in its place, all the time

CREATE TABLE log (
  tenant TEXT COLLATE "C" NOT NULL,
  place BIGINT NOT NULL,
  kind TEXT COLLATE "C" NOT NULL, -- build, answer
  item TEXT COLLATE "C", -- the id of the snapshot or the response; of a room that is gone, none
  room TEXT COLLATE "C",
  at DOUBLE PRECISION NOT NULL,
  persona TEXT COLLATE "C" NOT NULL,
  model TEXT COLLATE "C" NOT NULL,
  policy TEXT COLLATE "C" NOT NULL,
  body BYTEA, -- what it adds; none where an older version of Brimful wrote it, and nobody has asked since
  PRIMARY KEY (tenant, place)
);

CREATE TABLE tallies (
  tenant TEXT COLLATE "C" NOT NULL,
  room TEXT COLLATE "C" NOT NULL, -- empty: all rooms
  size BIGINT NOT NULL, -- hours
  hour BIGINT NOT NULL, -- its first hour, counted from 1970
  persona TEXT COLLATE "C" NOT NULL,
  model TEXT COLLATE "C" NOT NULL,
  policy TEXT COLLATE "C" NOT NULL,
  body BYTEA NOT NULL,
  PRIMARY KEY (tenant, room, size, hour, persona, model, policy)
) WITH (fillfactor = 50); -- changed in its place

-- The answer as it stands in its room.
ALTER TABLE responses ADD COLUMN message TEXT COLLATE "C";

-- The last day on which a build referred to a content, counted from 1970.
ALTER TABLE contents ADD COLUMN seen BIGINT NOT NULL DEFAULT 0;

-- Here, and in no other place, all tenants are read.

ALTER TABLE snapshots NO FORCE ROW LEVEL SECURITY;
ALTER TABLE responses NO FORCE ROW LEVEL SECURITY;

INSERT INTO log (tenant, place, kind, item, room, at, persona, model, policy)
SELECT tenant, row_number() OVER (PARTITION BY tenant ORDER BY at, kind DESC, number, id),
  kind, id, room, at, persona, model, policy
FROM (
  SELECT tenant, 'build' COLLATE "C" AS kind, number, id, room, at, coalesce(persona, '') AS persona,
    convert_from(digest, 'UTF8')::json ->> 'model' AS model,
    convert_from(digest, 'UTF8')::json ->> 'policy' AS policy
  FROM snapshots
  UNION ALL
  SELECT tenant, 'answer', 0, id, room, at, '', '', '' FROM responses
) events;

INSERT INTO log_ends (tenant, last, pruned) SELECT tenant, max(place), -9007199254740992 FROM log GROUP BY tenant;

ALTER TABLE snapshots FORCE ROW LEVEL SECURITY;
ALTER TABLE responses FORCE ROW LEVEL SECURITY;

CREATE UNIQUE INDEX log_by_item ON log (tenant, kind, item) WHERE item IS NOT NULL;
CREATE INDEX log_by_time ON log (tenant, at);
CREATE INDEX log_by_room ON log (tenant, room, place) WHERE room IS NOT NULL;
CREATE INDEX log_by_persona ON log (tenant, persona, place) WHERE kind = 'build';
CREATE INDEX log_by_model ON log (tenant, model, place) WHERE kind = 'build';
CREATE INDEX log_unsettled ON log (tenant, place) WHERE body IS NULL;
CREATE INDEX responses_by_message ON responses (tenant, message) WHERE message IS NOT NULL;
CREATE INDEX contents_unused ON contents (tenant, seen) WHERE uses <= 0;

-- A row is seen and written by its own tenant alone, as in all tables.

DO $$
DECLARE
  name text;
BEGIN
  FOREACH name IN ARRAY ARRAY['log', 'log_ends', 'tallies'] LOOP
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
    EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
    EXECUTE format(
      'CREATE POLICY own_rows ON %I USING (tenant = current_setting(''brimful.tenant'', true)) '
      'WITH CHECK (tenant = current_setting(''brimful.tenant'', true))', name);
  END LOOP;
END
$$;

DO $$
BEGIN
  IF (SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user) THEN
    GRANT SELECT, INSERT, UPDATE, DELETE ON log, log_ends, tallies TO brimful_app;
  END IF;
EXCEPTION WHEN insufficient_privilege OR undefined_object THEN
  NULL; -- as before: the check tells it
END
$$;
