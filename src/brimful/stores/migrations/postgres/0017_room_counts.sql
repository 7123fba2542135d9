-- How many messages a room has, and their tokens, in sums over spans of positions: so nobody has to read all of them. What
-- is in no span is counted when it is next needed.

CREATE TABLE room_counts (
  tenant TEXT COLLATE "C" NOT NULL,
  room BIGINT NOT NULL,
  counter TEXT COLLATE "C" NOT NULL, -- the tokenizer, and the rules for media
  first BIGINT NOT NULL, -- seq
  last BIGINT NOT NULL,
  messages BIGINT NOT NULL,
  tokens BIGINT NOT NULL,
  PRIMARY KEY (tenant, room, counter, first)
);

ALTER TABLE room_counts ENABLE ROW LEVEL SECURITY;
ALTER TABLE room_counts FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON room_counts USING (tenant = current_setting('brimful.tenant', true))
  WITH CHECK (tenant = current_setting('brimful.tenant', true));

DO $$
BEGIN
  GRANT SELECT, INSERT, UPDATE, DELETE ON room_counts TO brimful_app;
EXCEPTION WHEN undefined_object OR insufficient_privilege THEN
  NULL; -- there is no such role where transactions do not run as a superuser
END
$$;
