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

INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES ('room_counts', 'room_counts', '10000 5000 10 5 1');
