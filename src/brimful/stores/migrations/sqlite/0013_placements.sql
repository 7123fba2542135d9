-- Where tenants are that are not simply in this store: in a directory of stores, they can be moved to others.

CREATE TABLE placements (
  tenant TEXT NOT NULL PRIMARY KEY,
  store TEXT NOT NULL, -- its name in the directory
  state TEXT NOT NULL -- moving, moved or arriving
) STRICT, WITHOUT ROWID;
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES ('placements', 'placements', '1000 1');
