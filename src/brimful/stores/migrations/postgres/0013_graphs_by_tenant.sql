-- HNSW graphs of one tenant each replace those of all tenants together, which found too little for small tenants. A
-- worker builds them for large tenants.

DO $$
DECLARE
  name text;
BEGIN
  FOR name IN
    SELECT indexname FROM pg_indexes WHERE schemaname = current_schema() AND tablename = 'vectors'
      AND indexname LIKE 'vectors\_near\_%'
  LOOP
    EXECUTE format('DROP INDEX %I', name);
  END LOOP;
END
$$;

ALTER TABLE jobs NO FORCE ROW LEVEL SECURITY;
ALTER TABLE embedders NO FORCE ROW LEVEL SECURITY;

INSERT INTO jobs (tenant, kind, subject, due)
SELECT tenant, 'graph', id, 0 FROM embedders WHERE dropped = 0 ON CONFLICT DO NOTHING;

ALTER TABLE jobs FORCE ROW LEVEL SECURITY;
ALTER TABLE embedders FORCE ROW LEVEL SECURITY;
