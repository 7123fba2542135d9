-- Long texts are indexed in passages: a record has one document for each, numbered by `part` from 0.
-- Long texts that were indexed as one document have the part -1 until they are indexed again.

CREATE TABLE documents_by_part (
  doc INTEGER PRIMARY KEY AUTOINCREMENT,
  tenant TEXT NOT NULL,
  scope INTEGER NOT NULL,
  kind TEXT NOT NULL,
  item TEXT NOT NULL,
  part INTEGER NOT NULL DEFAULT 0, -- the number of the passage
  start INTEGER NOT NULL DEFAULT 0, -- where the passage starts and stops in the text; both are 0 if it is all of it
  stop INTEGER NOT NULL DEFAULT 0,
  seq INTEGER NOT NULL, -- a message's position; for a memory or lore entry with several passages, its first document
  at REAL NOT NULL,
  length INTEGER NOT NULL,
  passage TEXT NOT NULL, -- the address of the text to embed, empty if there is none
  terms TEXT NOT NULL, -- the indexed tokens, needed to remove them again
  UNIQUE (tenant, kind, item, part)
) STRICT;

INSERT INTO documents_by_part (doc, tenant, scope, kind, item, part, seq, at, length, passage, terms)
SELECT doc, tenant, scope, kind, item, iif(length >= 60, -1, 0), seq, at, length, passage, terms FROM documents;

-- Numbers of removed documents are not used again.
DELETE FROM sqlite_sequence WHERE name = 'documents_by_part';

INSERT INTO sqlite_sequence (name, seq)
SELECT 'documents_by_part', seq FROM sqlite_sequence WHERE name = 'documents';

DROP TABLE documents;

ALTER TABLE documents_by_part RENAME TO documents;

CREATE INDEX documents_by_passage ON documents (tenant, passage) WHERE passage <> '';

CREATE INDEX documents_undivided ON documents (tenant) WHERE part < 0;

INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
  ('documents', 'sqlite_autoindex_documents_1', '1000000 500000 250000 1 1'),
  ('documents', 'documents_by_passage', '1000000 500000 1'),
  ('documents', 'documents_undivided', '1000 500');
