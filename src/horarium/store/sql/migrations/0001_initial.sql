-- phase: expand
-- The first schema. All times are UTC instants (timestamptz). Plain PostgreSQL >= 15, no extension.

-- The definition of a job: wide, seldom written.
CREATE TABLE jobs (
    id                  uuid PRIMARY KEY,
    shard               smallint NOT NULL,
    tenant_id           text NOT NULL DEFAULT 'default',
    name                text,
    description         text NOT NULL DEFAULT '',
    owner               text,
    tags                text[] NOT NULL DEFAULT '{}',
    managed_by          text,
    target              jsonb NOT NULL,
    payload             json NOT NULL DEFAULT '{}',
    queue               text NOT NULL DEFAULT 'default',
    priority            smallint NOT NULL DEFAULT 5 CHECK (priority BETWEEN 0 AND 9),
    schedule            text,
    interval_s          integer CHECK (interval_s > 0),
    run_at              timestamptz,
    run_at_local        text,
    run_at_fold         text CHECK (run_at_fold IN ('first', 'second')),
    after               jsonb,
    timezone            text NOT NULL DEFAULT 'UTC',
    start_at            timestamptz,
    end_at              timestamptz,
    jitter_s            integer NOT NULL DEFAULT 0 CHECK (jitter_s >= 0),
    misfire             text NOT NULL DEFAULT 'run_once' CHECK (misfire IN ('skip', 'run_once', 'run_all')),
    misfire_grace_s     integer NOT NULL DEFAULT 60 CHECK (misfire_grace_s >= 0),
    catch_up_window_s   integer NOT NULL DEFAULT 86400 CHECK (catch_up_window_s >= 0),
    max_catch_up        integer NOT NULL DEFAULT 100 CHECK (max_catch_up BETWEEN 0 AND 1000),
    overlap             text NOT NULL DEFAULT 'allow'
                        CHECK (overlap IN ('allow', 'skip', 'queue_one', 'queue_all', 'cancel_running')),
    concurrency         jsonb,
    retry               jsonb NOT NULL DEFAULT '{}',
    timeout_s           integer NOT NULL DEFAULT 300 CHECK (timeout_s BETWEEN 1 AND 86400),
    expect              jsonb,
    status              text NOT NULL DEFAULT 'active'
                        CHECK (status IN ('active', 'paused', 'finished', 'cancelled', 'error')),
    status_reason       text,
    pause               jsonb,
    version             integer NOT NULL DEFAULT 1,
    anchor_at           timestamptz NOT NULL DEFAULT now(),
    created_at          timestamptz NOT NULL DEFAULT now(),
    created_by          text NOT NULL DEFAULT '',
    updated_at          timestamptz NOT NULL DEFAULT now(),
    updated_by          text NOT NULL DEFAULT '',
    deleted_at          timestamptz,
    CHECK (num_nonnulls(schedule, interval_s, run_at, after) = 1)
);
COMMENT ON COLUMN jobs.anchor_at IS 'interval_s counts from here: start_at, or when the interval was set (rule I2)';
COMMENT ON COLUMN jobs.retry IS 'only the members that differ from the defaults';
-- A tenant's names are unique while their jobs are not deleted; one-offs may have none.
CREATE UNIQUE INDEX jobs_name ON jobs (tenant_id, name) WHERE name IS NOT NULL AND deleted_at IS NULL;
-- Jobs whose pause ends by itself (rule P3).
CREATE INDEX jobs_paused ON jobs (shard) WHERE status = 'paused';

-- Names that a job bears by a rename and that are hashed to another shard than the job's: with several databases the two may part,
-- and this row, which lives with the name's shard, keeps the name unique and leads to the job.
CREATE TABLE borrowed_names (
    tenant_id           text NOT NULL,
    name                text NOT NULL,
    shard               smallint NOT NULL,
    job_id              uuid NOT NULL,
    PRIMARY KEY (tenant_id, name)
);

-- The next occurrence of each active job: narrow, the hot table of the scheduler. Each tick writes a new version of the row and of
-- its entry in timers_due, so dead ones come as fast as ticks: vacuum starts at 2 % and does not pause, for what it leaves behind
-- lies in the way of every scan. A fifth of each page is kept free for new versions.
CREATE TABLE timers (
    job_id              uuid PRIMARY KEY,
    scheduled_for       timestamptz NOT NULL,
    due_at              timestamptz NOT NULL,
    last_scheduled_for  timestamptz,
    shard               smallint NOT NULL,
    priority            smallint NOT NULL,
    job_version         integer NOT NULL,
    tenant_id           text NOT NULL,
    queue               text NOT NULL,
    target_key          text NOT NULL,
    schedule_key        text NOT NULL,
    policy_key          text NOT NULL DEFAULT '',
    zone_version        text NOT NULL DEFAULT ''
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
COMMENT ON COLUMN timers.schedule_key IS 'everything the next fire depends on, as one text: equal schedules share it';
COMMENT ON COLUMN timers.policy_key IS 'misfire and overlap policy where they differ from the defaults';
COMMENT ON COLUMN timers.target_key IS 'who can run it: the handler''s name, or @http, @command';
CREATE INDEX timers_due ON timers (shard, due_at);

-- Live runs only: waiting or running. Small and hot. The leader knows its runs, so rows are reached by key. A row lives for seconds:
-- written, claimed, deleted. Half of each page is kept free, so that the claim finds room beside the row and no index is touched
-- (HOT); vacuum starts early and does not pause, so that the table stays as small as what lives in it.
CREATE TABLE runs (
    id                  uuid PRIMARY KEY,
    job_id              uuid NOT NULL,
    scheduled_for       timestamptz NOT NULL,
    ready_at            timestamptz NOT NULL,
    started_at          timestamptz,
    lease_expires_at    timestamptz,
    fencing_token       bigint NOT NULL DEFAULT 0,
    job_version         integer NOT NULL,
    shard               smallint NOT NULL,
    priority            smallint NOT NULL,
    attempt             smallint NOT NULL DEFAULT 0,
    snoozes             smallint NOT NULL DEFAULT 0,
    state               text NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'running')),
    trigger             text NOT NULL DEFAULT 'schedule'
                        CHECK (trigger IN ('schedule', 'manual', 'rerun', 'backfill', 'dependency')),
    tenant_id           text NOT NULL,
    queue               text NOT NULL,
    target_key          text NOT NULL,
    worker_id           text,
    rerun_of            uuid,
    timeout_s           integer,
    payload             json,
    target              jsonb,
    retry               jsonb,
    failures            jsonb,
    cancel_requested_at timestamptz,
    cancel_requested_by text
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0);
COMMENT ON COLUMN runs.payload IS 'only where it differs from the job''s; so too target, retry and timeout_s';
CREATE INDEX runs_job ON runs (job_id);

-- Finished runs: append-only, a partition a day, never updated, dropped whole.
CREATE TABLE history (
    id                  uuid NOT NULL,
    job_id              uuid NOT NULL,
    scheduled_for       timestamptz NOT NULL,
    ready_at            timestamptz NOT NULL,
    started_at          timestamptz,
    finished_at         timestamptz NOT NULL DEFAULT now(),
    fencing_token       bigint NOT NULL,
    job_version         integer NOT NULL,
    shard               smallint NOT NULL,
    priority            smallint NOT NULL,
    attempt             smallint NOT NULL,
    state               text NOT NULL CHECK (state IN ('succeeded', 'dead', 'cancelled', 'skipped')),
    trigger             text NOT NULL,
    tenant_id           text NOT NULL,
    queue               text NOT NULL,
    target_key          text NOT NULL,
    worker_id           text,
    rerun_of            uuid,
    timeout_s           integer,
    payload             json,
    target              jsonb,
    retry               jsonb,
    failures            jsonb,
    result              json,
    error               text,
    progress            jsonb
) PARTITION BY RANGE (finished_at);
CREATE INDEX history_job ON history (job_id, id DESC);
CREATE INDEX history_id ON history (id);
CREATE TABLE history_default PARTITION OF history DEFAULT;

-- What handlers said while they ran, and the output of commands. Kept as long as history.
CREATE TABLE run_logs (
    run_id              uuid NOT NULL,
    at                  timestamptz NOT NULL,
    seq                 integer NOT NULL,
    attempt             smallint NOT NULL,
    level               text NOT NULL DEFAULT 'info',
    message             text NOT NULL,
    fields              json
) PARTITION BY RANGE (at);
CREATE INDEX run_logs_run ON run_logs (run_id, attempt, seq);
CREATE TABLE run_logs_default PARTITION OF run_logs DEFAULT;

-- Ticks that did not become a run: one row for a stretch of them.
CREATE TABLE skips (
    id                  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job_id              uuid NOT NULL,
    tenant_id           text NOT NULL,
    shard               smallint NOT NULL,
    first               timestamptz NOT NULL,
    last                timestamptz NOT NULL,
    count               integer NOT NULL CHECK (count > 0),
    exact               boolean NOT NULL DEFAULT true,
    reason              text NOT NULL
                        CHECK (reason IN ('misfire', 'coalesced', 'overlap', 'paused', 'quota', 'edited', 'deleted', 'clock')),
    coalesced_into      uuid,
    recorded_at         timestamptz NOT NULL DEFAULT now()
);
COMMENT ON COLUMN skips.exact IS 'false: count is a lower bound (rule M3)';
CREATE INDEX skips_job ON skips (job_id, id DESC);
CREATE INDEX skips_recorded ON skips (recorded_at);

-- Which schedule governed a job before the one it has now: so that it can be checked which ticks there had to be. One row for each
-- change of the schedule; NULL: which ticks there were in this time cannot be told any more.
CREATE TABLE past_schedules (
    job_id              uuid NOT NULL,
    shard               smallint NOT NULL,
    valid_from          timestamptz NOT NULL,
    valid_until         timestamptz NOT NULL,
    schedule_key        text
);
COMMENT ON COLUMN past_schedules.valid_from IS 'it governed the nominal times later than this, up to and including valid_until';
CREATE INDEX past_schedules_job ON past_schedules (job_id, valid_until);
CREATE INDEX past_schedules_ended ON past_schedules (valid_until);

-- Runs that used up their attempts, until somebody retries or discards them.
CREATE TABLE dead_letters (
    run_id              uuid PRIMARY KEY,
    job_id              uuid NOT NULL,
    tenant_id           text NOT NULL,
    queue               text NOT NULL,
    shard               smallint NOT NULL,
    fingerprint         text NOT NULL,
    error               text NOT NULL DEFAULT '',
    attempts            smallint NOT NULL,
    since               timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX dead_letters_job ON dead_letters (job_id);
CREATE INDEX dead_letters_group ON dead_letters (tenant_id, fingerprint);

-- Some rows that are written each second: pages are mostly free, and vacuum comes after 200 writes, however few rows there are.
-- Who leads a shard. `term` rises with each change of leader; a write under an old term changes nothing.
-- `state` tells whether it lives in this database, or how far its move from or to the database numbered `peer` has come.
CREATE TABLE shards (
    shard               smallint PRIMARY KEY,
    leader              text,
    term                bigint NOT NULL DEFAULT 0,
    lease_expires_at    timestamptz,
    state               text NOT NULL DEFAULT 'here'
                        CHECK (state IN ('here', 'leaving', 'left', 'gone', 'arriving', 'arrived')),
    peer                smallint,
    copied_until        timestamptz
) WITH (fillfactor = 20, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_scale_factor = 0);

CREATE TABLE nodes (
    id                  text PRIMARY KEY,
    url                 text,
    version             text NOT NULL,
    host                text NOT NULL DEFAULT '',
    pid                 integer NOT NULL DEFAULT 0,
    started_at          timestamptz NOT NULL DEFAULT now(),
    last_seen_at        timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 50);

CREATE TABLE workers (
    id                  text PRIMARY KEY,
    tenant_id           text NOT NULL,
    node_id             text NOT NULL,
    version             text NOT NULL DEFAULT '',
    host                text NOT NULL DEFAULT '',
    pid                 integer NOT NULL DEFAULT 0,
    queues              jsonb NOT NULL DEFAULT '[]',
    handlers            jsonb,
    slots               integer NOT NULL DEFAULT 0,
    running             integer NOT NULL DEFAULT 0,
    started_at          timestamptz NOT NULL DEFAULT now(),
    last_seen_at        timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 50);

CREATE TABLE api_keys (
    id                  text PRIMARY KEY,
    tenant_id           text NOT NULL,
    name                text NOT NULL DEFAULT '',
    role                text NOT NULL CHECK (role IN ('viewer', 'worker', 'operator', 'editor', 'admin')),
    hash                bytea NOT NULL,
    created_at          timestamptz NOT NULL DEFAULT now(),
    created_by          text NOT NULL DEFAULT '',
    expires_at          timestamptz,
    revoked_at          timestamptz
);

-- Every change and every manual action, written in the transaction of the change. Append-only.
CREATE TABLE audit (
    id                  bigint GENERATED ALWAYS AS IDENTITY,
    at                  timestamptz NOT NULL DEFAULT now(),
    tenant_id           text NOT NULL,
    actor               text NOT NULL,
    action              text NOT NULL,
    object_type         text NOT NULL,
    object_id           text NOT NULL,
    before              json,
    after               json,
    remote              text,
    request_id          text,
    PRIMARY KEY (id, at)
) PARTITION BY RANGE (at);
CREATE INDEX audit_object ON audit (object_id, id DESC);
CREATE TABLE audit_default PARTITION OF audit DEFAULT;

-- Counts by minute: what pictures and totals are drawn from, so that nothing counts rows.
CREATE TABLE rollups (
    minute              timestamptz NOT NULL,
    tenant_id           text NOT NULL,
    queue               text NOT NULL,
    outcome             text NOT NULL,
    shard               smallint NOT NULL,
    count               bigint NOT NULL,
    lag_ms              bigint[] NOT NULL,
    duration_ms         bigint[] NOT NULL,
    PRIMARY KEY (minute, tenant_id, queue, outcome, shard)
) WITH (fillfactor = 70);
COMMENT ON COLUMN rollups.lag_ms IS 'histogram: number of runs in bucket i, upper bounds 2^i ms';

-- Answers kept for repeated requests. They live with a shard that is hashed from the key, and move with it.
CREATE TABLE idempotency_keys (
    tenant_id           text NOT NULL,
    key                 text NOT NULL,
    shard               smallint NOT NULL,
    request_hash        bytea NOT NULL,
    status              smallint,
    headers             jsonb,
    body                bytea,
    created_at          timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, key)
);
CREATE INDEX idempotency_keys_created ON idempotency_keys (created_at);

-- Facts that never change: number of shards, id of the installation, the secret that signs cursors; and of this one of its
-- databases its number and its name.
CREATE TABLE cluster (
    key                 text PRIMARY KEY,
    value               text NOT NULL
);

-- Rises with every claim. No CACHE: with one, two connections would hand a run falling tokens.
CREATE SEQUENCE fencing_tokens AS bigint;

-- Partitions of the append-only tables: a day each for history and run_logs, a month each for audit.
-- A partition is filled with what landed in the default one meanwhile, then attached: that locks the parent least.
CREATE FUNCTION make_partition(parent text, name text, key text, first timestamp, last timestamp) RETURNS boolean
LANGUAGE plpgsql SET lock_timeout = '2s' AS $$
DECLARE
    lower timestamptz := first AT TIME ZONE 'UTC';
    upper timestamptz := last AT TIME ZONE 'UTC';
BEGIN
    IF to_regclass('horarium.' || name) IS NOT NULL THEN
        RETURN false;
    END IF;
    EXECUTE format('CREATE TABLE horarium.%I (LIKE horarium.%I INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', name, parent);
    EXECUTE format('WITH moved AS (DELETE FROM horarium.%I WHERE %I >= %L AND %I < %L RETURNING *)
                    INSERT INTO horarium.%I SELECT * FROM moved', parent || '_default', key, lower, key, upper, name);
    EXECUTE format('ALTER TABLE horarium.%I ATTACH PARTITION horarium.%I FOR VALUES FROM (%L) TO (%L)',
                   parent, name, lower, upper);
    RETURN true;
END $$;

CREATE FUNCTION make_partitions(first date, last date) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    day date;
    made integer := 0;
BEGIN
    FOR day IN SELECT generate_series(first, last, interval '1 day')::date LOOP
        made := made
            + make_partition('history', 'history_' || to_char(day, 'YYYYMMDD'), 'finished_at', day, day + 1)::integer
            + make_partition('run_logs', 'run_logs_' || to_char(day, 'YYYYMMDD'), 'at', day, day + 1)::integer;
    END LOOP;
    FOR day IN SELECT generate_series(date_trunc('month', first), date_trunc('month', last), interval '1 month')::date LOOP
        made := made + make_partition('audit', 'audit_' || to_char(day, 'YYYYMM'), 'at', day,
                                      day + interval '1 month')::integer;
    END LOOP;
    RETURN made;
END $$;

-- Drops the partitions that ended before a day: history and run_logs before `days_before`, audit before `months_before`.
CREATE FUNCTION drop_partitions(days_before date, months_before date) RETURNS text[]
LANGUAGE plpgsql SET lock_timeout = '2s' AS $$
DECLARE
    victim record;
    dropped text[] := '{}';
BEGIN
    FOR victim IN
        SELECT child.relname AS name, parent.relname AS parent
        FROM pg_inherits i
        JOIN pg_class child ON child.oid = i.inhrelid
        JOIN pg_class parent ON parent.oid = i.inhparent
        JOIN pg_namespace n ON n.oid = parent.relnamespace AND n.nspname = 'horarium'
        WHERE child.relname ~ '_[0-9]+$' AND child.relkind = 'r'
        ORDER BY child.relname
    LOOP
        IF victim.parent = 'audit' THEN
            CONTINUE WHEN to_date(right(victim.name, 6), 'YYYYMM') + interval '1 month' > months_before;
        ELSE
            CONTINUE WHEN to_date(right(victim.name, 8), 'YYYYMMDD') >= days_before;
        END IF;
        EXECUTE format('DROP TABLE horarium.%I', victim.name);
        dropped := dropped || victim.name;
    END LOOP;
    RETURN dropped;
END $$;

-- The shard that an id carries.
CREATE FUNCTION shard_of(id uuid) RETURNS smallint LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN ((get_byte(uuid_send(id), 6) & 15) << 8 | get_byte(uuid_send(id), 7))::smallint;

-- Of the tables whose rows belong to a shard: what is written there for a shard that does not live here is refused. A node that
-- does not know yet that the shard was moved learns it so. The mover itself passes, by a setting of its transaction.
CREATE FUNCTION refuse_moved() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the shard of this row of % does not live in this database', TG_TABLE_NAME USING ERRCODE = 'HRM01';
END $$;

-- Puts the fence around one table for these shards, or takes it away when there are none. Waits for the writers of before: whoever
-- writes a row of these shards afterwards is refused. After-triggers, since those leave the quick way of COPY alone.
CREATE FUNCTION fence(guarded text, gone smallint[]) RETURNS void LANGUAGE plpgsql SET lock_timeout = '3s' AS $$
DECLARE
    passes constant text := 'current_setting(''horarium.mover'', true) IS DISTINCT FROM ''on''';
    shard_new constant text := CASE guarded WHEN 'run_logs' THEN 'horarium.shard_of(NEW.run_id)' ELSE 'NEW.shard' END;
BEGIN
    IF cardinality(gone) = 0 THEN
        IF EXISTS (SELECT FROM pg_trigger WHERE tgrelid = ('horarium.' || guarded)::regclass AND tgname = 'fence_writes') THEN
            EXECUTE format('DROP TRIGGER IF EXISTS fence_writes ON horarium.%I', guarded);
            EXECUTE format('DROP TRIGGER IF EXISTS fence_deletes ON horarium.%I', guarded);
        END IF;
        RETURN;
    END IF;
    EXECUTE format('CREATE OR REPLACE TRIGGER fence_writes AFTER INSERT OR UPDATE ON horarium.%I FOR EACH ROW
                    WHEN (%s = ANY (%L::smallint[]) AND %s) EXECUTE FUNCTION horarium.refuse_moved()',
                   guarded, shard_new, gone, passes);
    IF guarded IN ('jobs', 'timers', 'runs', 'dead_letters', 'skips') THEN
        EXECUTE format('CREATE OR REPLACE TRIGGER fence_deletes AFTER DELETE ON horarium.%I FOR EACH ROW
                        WHEN (OLD.shard = ANY (%L::smallint[]) AND %s) EXECUTE FUNCTION horarium.refuse_moved()',
                       guarded, gone, passes);
    END IF;
END $$;

-- One run of a handler from SQL, inside the caller's own transaction: nothing is queued when that rolls back.
-- Returns the job's id. The leader finds the timer by its slow scan, within seconds.
CREATE FUNCTION enqueue(handler text, payload json DEFAULT '{}', run_at timestamptz DEFAULT now(),
                        queue text DEFAULT 'default', priority integer DEFAULT 5, tenant text DEFAULT 'default')
RETURNS uuid LANGUAGE plpgsql SET search_path = horarium, pg_temp AS $$
DECLARE
    shard integer;
    new_id uuid;
BEGIN
    -- Written as what is not allowed: what \w means beyond ASCII depends on the database's locale.
    IF length(handler) NOT BETWEEN 1 AND 200 OR handler ~ '^[-.:/]|[\x01-\x2c\x3b-\x40\x5b-\x5e\x60\x7b-\x7f]' THEN
        RAISE EXCEPTION 'handler: 1 to 200 letters, digits and _ . : / - are allowed, beginning with a letter, digit or _'
            USING ERRCODE = 'check_violation';
    END IF;
    IF length(queue) NOT BETWEEN 1 AND 100 OR queue ~ '^[-.:]|[\x01-\x2c\x2f\x3b-\x40\x5b-\x5e\x60\x7b-\x7f]' THEN
        RAISE EXCEPTION 'queue: 1 to 100 letters, digits and _ . : - are allowed, beginning with a letter, digit or _'
            USING ERRCODE = 'check_violation';
    END IF;
    -- Only a shard that lives in this database: the job must be written in the caller's transaction.
    SELECT s.shard INTO shard FROM shards s WHERE s.state = 'here' ORDER BY random() LIMIT 1;
    IF shard IS NULL THEN
        RAISE EXCEPTION 'no shard lives in this database: ask another one of the installation'
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    new_id := (lpad(to_hex((extract(epoch FROM clock_timestamp()) * 1000)::bigint), 12, '0')
               || '7' || lpad(to_hex(shard), 3, '0')
               || to_hex(8 + floor(random() * 4)::integer) || substr(md5(gen_random_uuid()::text), 1, 15))::uuid;
    INSERT INTO jobs (id, shard, tenant_id, target, payload, queue, priority, run_at, created_by)
    VALUES (new_id, shard, tenant, jsonb_build_object('handler', handler), payload, queue, priority, run_at, 'sql:' || session_user);
    INSERT INTO timers (job_id, shard, scheduled_for, due_at, priority, job_version, tenant_id, queue, target_key, schedule_key)
    VALUES (new_id, shard, run_at, run_at, priority, 1, tenant, queue, handler,
            '["once",' || (extract(epoch FROM run_at) * 1000000)::bigint || ',null,"UTC",null]');
    RETURN new_id;
END $$;
