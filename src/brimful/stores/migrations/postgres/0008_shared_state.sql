-- What several servers share: how many requests a key has left, and where the histories of trimmed requests began.

CREATE TABLE rate_limits (
  tenant TEXT COLLATE "C" NOT NULL,
  name TEXT COLLATE "C" NOT NULL,
  remaining DOUBLE PRECISION NOT NULL,
  at DOUBLE PRECISION NOT NULL,
  PRIMARY KEY (tenant, name)
);

CREATE TABLE trimmed_requests (
  tenant TEXT COLLATE "C" NOT NULL,
  digest TEXT COLLATE "C" NOT NULL, -- of the messages of the request
  body BYTEA NOT NULL,
  at DOUBLE PRECISION NOT NULL,
  PRIMARY KEY (tenant, digest)
);

CREATE INDEX trimmed_requests_by_time ON trimmed_requests (tenant, at);

ALTER TABLE rate_limits ENABLE ROW LEVEL SECURITY;
ALTER TABLE rate_limits FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON rate_limits USING (tenant = current_setting('brimful.tenant', true))
  WITH CHECK (tenant = current_setting('brimful.tenant', true));
ALTER TABLE trimmed_requests ENABLE ROW LEVEL SECURITY;
ALTER TABLE trimmed_requests FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON trimmed_requests USING (tenant = current_setting('brimful.tenant', true))
  WITH CHECK (tenant = current_setting('brimful.tenant', true));

DO $$
BEGIN
  GRANT SELECT, INSERT, UPDATE, DELETE ON rate_limits, trimmed_requests TO brimful_app;
EXCEPTION WHEN undefined_object OR insufficient_privilege THEN
  NULL; -- there is no such role where transactions do not run as a superuser
END
$$;
