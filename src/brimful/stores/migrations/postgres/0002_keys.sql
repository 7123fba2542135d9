-- Keys of tenants, each wrapped by a key that is never here.

CREATE TABLE keys (
  tenant TEXT COLLATE "C" NOT NULL,
  number BIGINT NOT NULL, -- 0 names contents and terms, for ever; of the others, the newest seals
  wrapped BYTEA NOT NULL,
  kek TEXT COLLATE "C" NOT NULL, -- the id of the key that wrapped it
  created DOUBLE PRECISION NOT NULL,
  retired DOUBLE PRECISION, -- since then, nothing is sealed with it
  mixed BIGINT NOT NULL DEFAULT 0, -- of number 0: some rows may still be in the clear
  PRIMARY KEY (tenant, number)
);
