-- In how many documents a token occurs. Until now the index was asked, which reads all of them: of a common word in a
-- room of a million messages, hundreds of thousands.

CREATE TABLE terms (
  tenant TEXT NOT NULL,
  token TEXT NOT NULL,
  documents INTEGER NOT NULL,
  PRIMARY KEY (tenant, token)
) STRICT, WITHOUT ROWID;

-- A token begins with the number of its scope, in hexadecimal digits.

INSERT INTO terms (tenant, token, documents)
SELECT s.tenant, f.term, f.doc FROM lexicon_found f
JOIN (SELECT tenant, printf('%x', number) AS name FROM scopes) s ON s.name = substr(f.term, 1, instr(f.term, ':') - 1);

INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES ('terms', 'terms', '1000000 500000 1');

ANALYZE sqlite_schema;
