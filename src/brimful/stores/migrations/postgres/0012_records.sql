-- Records of contexts in a tenth of the space: instead of a row for each candidate, a context has short hashes of its
-- candidates, and each candidate that is no message of the room has one row per room. Contexts that were saved before
-- have no hashes.

ALTER TABLE snapshots ADD COLUMN items BYTEA;

CREATE TABLE context_items (
  tenant TEXT COLLATE "C" NOT NULL,
  item TEXT COLLATE "C" NOT NULL,
  room TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (tenant, item, room)
);

CREATE INDEX context_items_by_room ON context_items (tenant, room);

-- A migration has no tenant: row-level security would hide every row.
ALTER TABLE inclusions NO FORCE ROW LEVEL SECURITY;
ALTER TABLE snapshots NO FORCE ROW LEVEL SECURITY;

INSERT INTO context_items (tenant, item, room)
SELECT DISTINCT i.tenant, i.item, s.room FROM inclusions i
JOIN snapshots s ON s.tenant = i.tenant AND s.number = i.snapshot;

ALTER TABLE snapshots FORCE ROW LEVEL SECURITY;

DROP TABLE inclusions;

ALTER TABLE context_items ENABLE ROW LEVEL SECURITY;
ALTER TABLE context_items FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON context_items USING (tenant = current_setting('brimful.tenant', true))
  WITH CHECK (tenant = current_setting('brimful.tenant', true));

DO $$
BEGIN
  GRANT SELECT, INSERT, UPDATE, DELETE ON context_items TO brimful_app;
EXCEPTION WHEN undefined_object OR insufficient_privilege THEN
  NULL; -- there is no such role where transactions do not run as a superuser
END
$$;
