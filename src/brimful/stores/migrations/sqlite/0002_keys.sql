-- Keys of tenants, each wrapped by a key that is never here.

CREATE TABLE keys (
  tenant TEXT NOT NULL,
  number INTEGER NOT NULL, -- 0 names contents and terms, for ever; of the others, the newest seals
  wrapped BLOB NOT NULL,
  kek TEXT NOT NULL, -- the id of the key that wrapped it
  created REAL NOT NULL,
  retired REAL, -- since then, nothing is sealed with it
  mixed INTEGER NOT NULL DEFAULT 0, -- of number 0: some rows may still be in the clear
  PRIMARY KEY (tenant, number)
) STRICT, WITHOUT ROWID;
