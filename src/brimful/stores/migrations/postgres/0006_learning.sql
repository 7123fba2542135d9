-- Memories that are learned from conversations. Learning is a run that can be undone, like the janitor's; its rows in
-- janitor_undo are the memories it added. The kind of a run is janitor or learning.

ALTER TABLE janitor_runs ADD COLUMN kind TEXT COLLATE "C" NOT NULL DEFAULT 'janitor';

CREATE TABLE learned_messages (
  tenant TEXT COLLATE "C" NOT NULL,
  scope TEXT COLLATE "C" NOT NULL, -- of the memories
  message TEXT COLLATE "C" NOT NULL, -- the hash of a message that was read
  run BIGINT NOT NULL, -- 0 if nothing was learned
  PRIMARY KEY (tenant, scope, message)
);

CREATE INDEX learned_messages_by_run ON learned_messages (tenant, run);

ALTER TABLE learned_messages ENABLE ROW LEVEL SECURITY;
ALTER TABLE learned_messages FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON learned_messages USING (tenant = current_setting('brimful.tenant', true))
  WITH CHECK (tenant = current_setting('brimful.tenant', true));

DO $$
BEGIN
  GRANT SELECT, INSERT, UPDATE, DELETE ON learned_messages TO brimful_app;
EXCEPTION WHEN undefined_object OR insufficient_privilege THEN
  NULL; -- there is no such role where transactions do not run as a superuser
END
$$;
