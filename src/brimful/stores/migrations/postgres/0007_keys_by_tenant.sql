-- Every key starts with the tenant, and every table has a primary key, so that the tables can be distributed by tenant
-- and a tenant's rows can be moved while they are written.

ALTER TABLE contents DROP CONSTRAINT contents_tenant_hash_key, ADD PRIMARY KEY (tenant, hash);
ALTER TABLE scopes DROP CONSTRAINT scopes_pkey, ADD PRIMARY KEY (tenant, number);
ALTER TABLE vectors DROP CONSTRAINT vectors_pkey, ADD PRIMARY KEY (tenant, number);
ALTER TABLE usage_reports DROP CONSTRAINT usage_reports_pkey, ADD PRIMARY KEY (tenant, number);
ALTER TABLE janitor_runs DROP CONSTRAINT janitor_runs_pkey, ADD PRIMARY KEY (tenant, number);
ALTER TABLE janitor_undo DROP CONSTRAINT janitor_undo_pkey, ADD PRIMARY KEY (tenant, number);

DROP INDEX janitor_runs_by_tenant; -- the same columns as the primary key

-- Foreign keys refer to the unique constraint, which the primary key replaces.

ALTER TABLE messages DROP CONSTRAINT messages_tenant_room_fkey;
ALTER TABLE rooms
  DROP CONSTRAINT rooms_pkey,
  DROP CONSTRAINT rooms_tenant_number_key,
  ADD PRIMARY KEY (tenant, number);
ALTER TABLE messages ADD FOREIGN KEY (tenant, room) REFERENCES rooms (tenant, number) ON DELETE CASCADE;

ALTER TABLE inclusions DROP CONSTRAINT inclusions_tenant_snapshot_fkey;
ALTER TABLE snapshots
  DROP CONSTRAINT snapshots_pkey,
  DROP CONSTRAINT snapshots_tenant_number_key,
  ADD PRIMARY KEY (tenant, number);
ALTER TABLE inclusions ADD FOREIGN KEY (tenant, snapshot) REFERENCES snapshots (tenant, number) ON DELETE CASCADE;
