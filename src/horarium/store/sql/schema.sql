-- The schema after all migrations, for people who read it and for the test that compares it. Nothing runs this file.
-- Written by: python -m tests.rules.schema_dump --write

-- schema horarium
CREATE SCHEMA horarium;

-- function drop_partitions(date, date)
CREATE FUNCTION horarium.drop_partitions(days_before date, months_before date) RETURNS text[]
    LANGUAGE plpgsql
    SET lock_timeout TO '2s'
    AS $_$
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
END $_$;

-- function enqueue(text, json, timestamp with time zone, text, integer, text)
CREATE FUNCTION horarium.enqueue(handler text, payload json DEFAULT '{}'::json, run_at timestamp with time zone DEFAULT now(), queue text DEFAULT 'default'::text, priority integer DEFAULT 5, tenant text DEFAULT 'default'::text) RETURNS uuid
    LANGUAGE plpgsql
    SET search_path TO 'horarium', 'pg_temp'
    AS $$
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

-- function fence(text, smallint[])
CREATE FUNCTION horarium.fence(guarded text, gone smallint[]) RETURNS void
    LANGUAGE plpgsql
    SET lock_timeout TO '3s'
    AS $$
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

-- function make_partition(text, text, text, timestamp without time zone, timestamp without time zone)
CREATE FUNCTION horarium.make_partition(parent text, name text, key text, first timestamp without time zone, last timestamp without time zone) RETURNS boolean
    LANGUAGE plpgsql
    SET lock_timeout TO '2s'
    AS $$
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

-- function make_partitions(date, date)
CREATE FUNCTION horarium.make_partitions(first date, last date) RETURNS integer
    LANGUAGE plpgsql
    AS $$
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

-- function refuse_moved()
CREATE FUNCTION horarium.refuse_moved() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    RAISE EXCEPTION 'the shard of this row of % does not live in this database', TG_TABLE_NAME USING ERRCODE = 'HRM01';
END $$;

-- function shard_of(uuid)
CREATE FUNCTION horarium.shard_of(id uuid) RETURNS smallint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN ((((get_byte(uuid_send(id), 6) & 15) << 8) | get_byte(uuid_send(id), 7)))::smallint;

-- table api_keys
CREATE TABLE horarium.api_keys (
    id text NOT NULL,
    tenant_id text NOT NULL,
    name text DEFAULT ''::text NOT NULL,
    role text NOT NULL,
    hash bytea NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    created_by text DEFAULT ''::text NOT NULL,
    expires_at timestamp with time zone,
    revoked_at timestamp with time zone,
    CONSTRAINT api_keys_role_check CHECK ((role = ANY (ARRAY['viewer'::text, 'worker'::text, 'operator'::text, 'editor'::text, 'admin'::text])))
);

-- table audit
CREATE TABLE horarium.audit (
    id bigint NOT NULL,
    at timestamp with time zone DEFAULT now() NOT NULL,
    tenant_id text NOT NULL,
    actor text NOT NULL,
    action text NOT NULL,
    object_type text NOT NULL,
    object_id text NOT NULL,
    before json,
    after json,
    remote text,
    request_id text
)
PARTITION BY RANGE (at);

-- table audit_default
CREATE TABLE horarium.audit_default (
    id bigint CONSTRAINT audit_id_not_null NOT NULL,
    at timestamp with time zone DEFAULT now() CONSTRAINT audit_at_not_null NOT NULL,
    tenant_id text CONSTRAINT audit_tenant_id_not_null NOT NULL,
    actor text CONSTRAINT audit_actor_not_null NOT NULL,
    action text CONSTRAINT audit_action_not_null NOT NULL,
    object_type text CONSTRAINT audit_object_type_not_null NOT NULL,
    object_id text CONSTRAINT audit_object_id_not_null NOT NULL,
    before json,
    after json,
    remote text,
    request_id text
);

-- sequence audit_id_seq
ALTER TABLE horarium.audit ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME horarium.audit_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

-- table borrowed_names
CREATE TABLE horarium.borrowed_names (
    tenant_id text NOT NULL,
    name text NOT NULL,
    shard smallint NOT NULL,
    job_id uuid NOT NULL
);

-- table cluster
CREATE TABLE horarium.cluster (
    key text NOT NULL,
    value text NOT NULL
);

-- table dead_letters
CREATE TABLE horarium.dead_letters (
    run_id uuid NOT NULL,
    job_id uuid NOT NULL,
    tenant_id text NOT NULL,
    queue text NOT NULL,
    shard smallint NOT NULL,
    fingerprint text NOT NULL,
    error text DEFAULT ''::text NOT NULL,
    attempts smallint NOT NULL,
    since timestamp with time zone DEFAULT now() NOT NULL
);

-- sequence fencing_tokens
CREATE SEQUENCE horarium.fencing_tokens
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

-- table history
CREATE TABLE horarium.history (
    id uuid NOT NULL,
    job_id uuid NOT NULL,
    scheduled_for timestamp with time zone NOT NULL,
    ready_at timestamp with time zone NOT NULL,
    started_at timestamp with time zone,
    finished_at timestamp with time zone DEFAULT now() NOT NULL,
    fencing_token bigint NOT NULL,
    job_version integer NOT NULL,
    shard smallint NOT NULL,
    priority smallint NOT NULL,
    attempt smallint NOT NULL,
    state text NOT NULL,
    trigger text NOT NULL,
    tenant_id text NOT NULL,
    queue text NOT NULL,
    target_key text NOT NULL,
    worker_id text,
    rerun_of uuid,
    timeout_s integer,
    payload json,
    target jsonb,
    retry jsonb,
    failures jsonb,
    result json,
    error text,
    progress jsonb,
    CONSTRAINT history_state_check CHECK ((state = ANY (ARRAY['succeeded'::text, 'dead'::text, 'cancelled'::text, 'skipped'::text])))
)
PARTITION BY RANGE (finished_at);

-- table history_default
CREATE TABLE horarium.history_default (
    id uuid CONSTRAINT history_id_not_null NOT NULL,
    job_id uuid CONSTRAINT history_job_id_not_null NOT NULL,
    scheduled_for timestamp with time zone CONSTRAINT history_scheduled_for_not_null NOT NULL,
    ready_at timestamp with time zone CONSTRAINT history_ready_at_not_null NOT NULL,
    started_at timestamp with time zone,
    finished_at timestamp with time zone DEFAULT now() CONSTRAINT history_finished_at_not_null NOT NULL,
    fencing_token bigint CONSTRAINT history_fencing_token_not_null NOT NULL,
    job_version integer CONSTRAINT history_job_version_not_null NOT NULL,
    shard smallint CONSTRAINT history_shard_not_null NOT NULL,
    priority smallint CONSTRAINT history_priority_not_null NOT NULL,
    attempt smallint CONSTRAINT history_attempt_not_null NOT NULL,
    state text CONSTRAINT history_state_not_null NOT NULL,
    trigger text CONSTRAINT history_trigger_not_null NOT NULL,
    tenant_id text CONSTRAINT history_tenant_id_not_null NOT NULL,
    queue text CONSTRAINT history_queue_not_null NOT NULL,
    target_key text CONSTRAINT history_target_key_not_null NOT NULL,
    worker_id text,
    rerun_of uuid,
    timeout_s integer,
    payload json,
    target jsonb,
    retry jsonb,
    failures jsonb,
    result json,
    error text,
    progress jsonb,
    CONSTRAINT history_state_check CHECK ((state = ANY (ARRAY['succeeded'::text, 'dead'::text, 'cancelled'::text, 'skipped'::text])))
);

-- table idempotency_keys
CREATE TABLE horarium.idempotency_keys (
    tenant_id text NOT NULL,
    key text NOT NULL,
    shard smallint NOT NULL,
    request_hash bytea NOT NULL,
    status smallint,
    headers jsonb,
    body bytea,
    created_at timestamp with time zone DEFAULT now() NOT NULL
);

-- table jobs
CREATE TABLE horarium.jobs (
    id uuid NOT NULL,
    shard smallint NOT NULL,
    tenant_id text DEFAULT 'default'::text NOT NULL,
    name text,
    description text DEFAULT ''::text NOT NULL,
    owner text,
    tags text[] DEFAULT '{}'::text[] NOT NULL,
    managed_by text,
    target jsonb NOT NULL,
    payload json DEFAULT '{}'::json NOT NULL,
    queue text DEFAULT 'default'::text NOT NULL,
    priority smallint DEFAULT 5 NOT NULL,
    schedule text,
    interval_s integer,
    run_at timestamp with time zone,
    run_at_local text,
    run_at_fold text,
    after jsonb,
    timezone text DEFAULT 'UTC'::text NOT NULL,
    start_at timestamp with time zone,
    end_at timestamp with time zone,
    jitter_s integer DEFAULT 0 NOT NULL,
    misfire text DEFAULT 'run_once'::text NOT NULL,
    misfire_grace_s integer DEFAULT 60 NOT NULL,
    catch_up_window_s integer DEFAULT 86400 NOT NULL,
    max_catch_up integer DEFAULT 100 NOT NULL,
    overlap text DEFAULT 'allow'::text NOT NULL,
    concurrency jsonb,
    retry jsonb DEFAULT '{}'::jsonb NOT NULL,
    timeout_s integer DEFAULT 300 NOT NULL,
    expect jsonb,
    status text DEFAULT 'active'::text NOT NULL,
    status_reason text,
    pause jsonb,
    version integer DEFAULT 1 NOT NULL,
    anchor_at timestamp with time zone DEFAULT now() NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    created_by text DEFAULT ''::text NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_by text DEFAULT ''::text NOT NULL,
    deleted_at timestamp with time zone,
    CONSTRAINT jobs_catch_up_window_s_check CHECK ((catch_up_window_s >= 0)),
    CONSTRAINT jobs_check CHECK ((num_nonnulls(schedule, interval_s, run_at, after) = 1)),
    CONSTRAINT jobs_interval_s_check CHECK ((interval_s > 0)),
    CONSTRAINT jobs_jitter_s_check CHECK ((jitter_s >= 0)),
    CONSTRAINT jobs_max_catch_up_check CHECK (((max_catch_up >= 0) AND (max_catch_up <= 1000))),
    CONSTRAINT jobs_misfire_check CHECK ((misfire = ANY (ARRAY['skip'::text, 'run_once'::text, 'run_all'::text]))),
    CONSTRAINT jobs_misfire_grace_s_check CHECK ((misfire_grace_s >= 0)),
    CONSTRAINT jobs_overlap_check CHECK ((overlap = ANY (ARRAY['allow'::text, 'skip'::text, 'queue_one'::text, 'queue_all'::text, 'cancel_running'::text]))),
    CONSTRAINT jobs_priority_check CHECK (((priority >= 0) AND (priority <= 9))),
    CONSTRAINT jobs_run_at_fold_check CHECK ((run_at_fold = ANY (ARRAY['first'::text, 'second'::text]))),
    CONSTRAINT jobs_status_check CHECK ((status = ANY (ARRAY['active'::text, 'paused'::text, 'finished'::text, 'cancelled'::text, 'error'::text]))),
    CONSTRAINT jobs_timeout_s_check CHECK (((timeout_s >= 1) AND (timeout_s <= 86400)))
);

-- comment COLUMN jobs.retry
COMMENT ON COLUMN horarium.jobs.retry IS 'only the members that differ from the defaults';

-- comment COLUMN jobs.anchor_at
COMMENT ON COLUMN horarium.jobs.anchor_at IS 'interval_s counts from here: start_at, or when the interval was set (rule I2)';

-- table nodes
CREATE TABLE horarium.nodes (
    id text NOT NULL,
    url text,
    version text NOT NULL,
    host text DEFAULT ''::text NOT NULL,
    pid integer DEFAULT 0 NOT NULL,
    started_at timestamp with time zone DEFAULT now() NOT NULL,
    last_seen_at timestamp with time zone DEFAULT now() NOT NULL
)
WITH (fillfactor='50');

-- table past_schedules
CREATE TABLE horarium.past_schedules (
    job_id uuid NOT NULL,
    shard smallint NOT NULL,
    valid_from timestamp with time zone NOT NULL,
    valid_until timestamp with time zone NOT NULL,
    schedule_key text
);

-- comment COLUMN past_schedules.valid_from
COMMENT ON COLUMN horarium.past_schedules.valid_from IS 'it governed the nominal times later than this, up to and including valid_until';

-- table rollups
CREATE TABLE horarium.rollups (
    minute timestamp with time zone NOT NULL,
    tenant_id text NOT NULL,
    queue text NOT NULL,
    outcome text NOT NULL,
    shard smallint NOT NULL,
    count bigint NOT NULL,
    lag_ms bigint[] NOT NULL,
    duration_ms bigint[] NOT NULL
)
WITH (fillfactor='70');

-- comment COLUMN rollups.lag_ms
COMMENT ON COLUMN horarium.rollups.lag_ms IS 'histogram: number of runs in bucket i, upper bounds 2^i ms';

-- table run_logs
CREATE TABLE horarium.run_logs (
    run_id uuid NOT NULL,
    at timestamp with time zone NOT NULL,
    seq integer NOT NULL,
    attempt smallint NOT NULL,
    level text DEFAULT 'info'::text NOT NULL,
    message text NOT NULL,
    fields json
)
PARTITION BY RANGE (at);

-- table run_logs_default
CREATE TABLE horarium.run_logs_default (
    run_id uuid CONSTRAINT run_logs_run_id_not_null NOT NULL,
    at timestamp with time zone CONSTRAINT run_logs_at_not_null NOT NULL,
    seq integer CONSTRAINT run_logs_seq_not_null NOT NULL,
    attempt smallint CONSTRAINT run_logs_attempt_not_null NOT NULL,
    level text DEFAULT 'info'::text CONSTRAINT run_logs_level_not_null NOT NULL,
    message text CONSTRAINT run_logs_message_not_null NOT NULL,
    fields json
);

-- table runs
CREATE TABLE horarium.runs (
    id uuid NOT NULL,
    job_id uuid NOT NULL,
    scheduled_for timestamp with time zone NOT NULL,
    ready_at timestamp with time zone NOT NULL,
    started_at timestamp with time zone,
    lease_expires_at timestamp with time zone,
    fencing_token bigint DEFAULT 0 NOT NULL,
    job_version integer NOT NULL,
    shard smallint NOT NULL,
    priority smallint NOT NULL,
    attempt smallint DEFAULT 0 NOT NULL,
    snoozes smallint DEFAULT 0 NOT NULL,
    state text DEFAULT 'waiting'::text NOT NULL,
    trigger text DEFAULT 'schedule'::text NOT NULL,
    tenant_id text NOT NULL,
    queue text NOT NULL,
    target_key text NOT NULL,
    worker_id text,
    rerun_of uuid,
    timeout_s integer,
    payload json,
    target jsonb,
    retry jsonb,
    failures jsonb,
    cancel_requested_at timestamp with time zone,
    cancel_requested_by text,
    CONSTRAINT runs_state_check CHECK ((state = ANY (ARRAY['waiting'::text, 'running'::text]))),
    CONSTRAINT runs_trigger_check CHECK ((trigger = ANY (ARRAY['schedule'::text, 'manual'::text, 'rerun'::text, 'backfill'::text, 'dependency'::text])))
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0.05', autovacuum_vacuum_threshold='1000', autovacuum_vacuum_cost_delay='0');

-- comment COLUMN runs.payload
COMMENT ON COLUMN horarium.runs.payload IS 'only where it differs from the job''s; so too target, retry and timeout_s';

-- table schema_version
CREATE TABLE horarium.schema_version (
    version integer NOT NULL,
    name text NOT NULL,
    phase text NOT NULL,
    checksum text NOT NULL,
    applied_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT schema_version_phase_check CHECK ((phase = ANY (ARRAY['expand'::text, 'contract'::text])))
);

-- table shards
CREATE TABLE horarium.shards (
    shard smallint NOT NULL,
    leader text,
    term bigint DEFAULT 0 NOT NULL,
    lease_expires_at timestamp with time zone,
    state text DEFAULT 'here'::text NOT NULL,
    peer smallint,
    copied_until timestamp with time zone,
    CONSTRAINT shards_state_check CHECK ((state = ANY (ARRAY['here'::text, 'leaving'::text, 'left'::text, 'gone'::text, 'arriving'::text, 'arrived'::text])))
)
WITH (fillfactor='20', autovacuum_vacuum_threshold='200', autovacuum_vacuum_scale_factor='0');

-- table skips
CREATE TABLE horarium.skips (
    id bigint NOT NULL,
    job_id uuid NOT NULL,
    tenant_id text NOT NULL,
    shard smallint NOT NULL,
    first timestamp with time zone NOT NULL,
    last timestamp with time zone NOT NULL,
    count integer NOT NULL,
    exact boolean DEFAULT true NOT NULL,
    reason text NOT NULL,
    coalesced_into uuid,
    recorded_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT skips_count_check CHECK ((count > 0)),
    CONSTRAINT skips_reason_check CHECK ((reason = ANY (ARRAY['misfire'::text, 'coalesced'::text, 'overlap'::text, 'paused'::text, 'quota'::text, 'edited'::text, 'deleted'::text, 'clock'::text])))
);

-- comment COLUMN skips.exact
COMMENT ON COLUMN horarium.skips.exact IS 'false: count is a lower bound (rule M3)';

-- sequence skips_id_seq
ALTER TABLE horarium.skips ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME horarium.skips_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

-- table timers
CREATE TABLE horarium.timers (
    job_id uuid NOT NULL,
    scheduled_for timestamp with time zone NOT NULL,
    due_at timestamp with time zone NOT NULL,
    last_scheduled_for timestamp with time zone,
    shard smallint NOT NULL,
    priority smallint NOT NULL,
    job_version integer NOT NULL,
    tenant_id text NOT NULL,
    queue text NOT NULL,
    target_key text NOT NULL,
    schedule_key text NOT NULL,
    policy_key text DEFAULT ''::text NOT NULL,
    zone_version text DEFAULT ''::text NOT NULL
)
WITH (fillfactor='80', autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_cost_delay='0');

-- comment COLUMN timers.target_key
COMMENT ON COLUMN horarium.timers.target_key IS 'who can run it: the handler''s name, or @http, @command';

-- comment COLUMN timers.schedule_key
COMMENT ON COLUMN horarium.timers.schedule_key IS 'everything the next fire depends on, as one text: equal schedules share it';

-- comment COLUMN timers.policy_key
COMMENT ON COLUMN horarium.timers.policy_key IS 'misfire and overlap policy where they differ from the defaults';

-- table workers
CREATE TABLE horarium.workers (
    id text NOT NULL,
    tenant_id text NOT NULL,
    node_id text NOT NULL,
    version text DEFAULT ''::text NOT NULL,
    host text DEFAULT ''::text NOT NULL,
    pid integer DEFAULT 0 NOT NULL,
    queues jsonb DEFAULT '[]'::jsonb NOT NULL,
    handlers jsonb,
    slots integer DEFAULT 0 NOT NULL,
    running integer DEFAULT 0 NOT NULL,
    started_at timestamp with time zone DEFAULT now() NOT NULL,
    last_seen_at timestamp with time zone DEFAULT now() NOT NULL
)
WITH (fillfactor='50');

-- table attach audit_default
ALTER TABLE ONLY horarium.audit ATTACH PARTITION horarium.audit_default DEFAULT;

-- table attach history_default
ALTER TABLE ONLY horarium.history ATTACH PARTITION horarium.history_default DEFAULT;

-- table attach run_logs_default
ALTER TABLE ONLY horarium.run_logs ATTACH PARTITION horarium.run_logs_default DEFAULT;

-- constraint api_keys api_keys_pkey
ALTER TABLE ONLY horarium.api_keys
    ADD CONSTRAINT api_keys_pkey PRIMARY KEY (id);

-- constraint audit audit_pkey
ALTER TABLE ONLY horarium.audit
    ADD CONSTRAINT audit_pkey PRIMARY KEY (id, at);

-- constraint audit_default audit_default_pkey
ALTER TABLE ONLY horarium.audit_default
    ADD CONSTRAINT audit_default_pkey PRIMARY KEY (id, at);

-- constraint borrowed_names borrowed_names_pkey
ALTER TABLE ONLY horarium.borrowed_names
    ADD CONSTRAINT borrowed_names_pkey PRIMARY KEY (tenant_id, name);

-- constraint cluster cluster_pkey
ALTER TABLE ONLY horarium.cluster
    ADD CONSTRAINT cluster_pkey PRIMARY KEY (key);

-- constraint dead_letters dead_letters_pkey
ALTER TABLE ONLY horarium.dead_letters
    ADD CONSTRAINT dead_letters_pkey PRIMARY KEY (run_id);

-- constraint idempotency_keys idempotency_keys_pkey
ALTER TABLE ONLY horarium.idempotency_keys
    ADD CONSTRAINT idempotency_keys_pkey PRIMARY KEY (tenant_id, key);

-- constraint jobs jobs_pkey
ALTER TABLE ONLY horarium.jobs
    ADD CONSTRAINT jobs_pkey PRIMARY KEY (id);

-- constraint nodes nodes_pkey
ALTER TABLE ONLY horarium.nodes
    ADD CONSTRAINT nodes_pkey PRIMARY KEY (id);

-- constraint rollups rollups_pkey
ALTER TABLE ONLY horarium.rollups
    ADD CONSTRAINT rollups_pkey PRIMARY KEY (minute, tenant_id, queue, outcome, shard);

-- constraint runs runs_pkey
ALTER TABLE ONLY horarium.runs
    ADD CONSTRAINT runs_pkey PRIMARY KEY (id);

-- constraint schema_version schema_version_pkey
ALTER TABLE ONLY horarium.schema_version
    ADD CONSTRAINT schema_version_pkey PRIMARY KEY (version);

-- constraint shards shards_pkey
ALTER TABLE ONLY horarium.shards
    ADD CONSTRAINT shards_pkey PRIMARY KEY (shard);

-- constraint skips skips_pkey
ALTER TABLE ONLY horarium.skips
    ADD CONSTRAINT skips_pkey PRIMARY KEY (id);

-- constraint timers timers_pkey
ALTER TABLE ONLY horarium.timers
    ADD CONSTRAINT timers_pkey PRIMARY KEY (job_id);

-- constraint workers workers_pkey
ALTER TABLE ONLY horarium.workers
    ADD CONSTRAINT workers_pkey PRIMARY KEY (id);

-- index audit_object
CREATE INDEX audit_object ON ONLY horarium.audit USING btree (object_id, id DESC);

-- index audit_default_object_id_id_idx
CREATE INDEX audit_default_object_id_id_idx ON horarium.audit_default USING btree (object_id, id DESC);

-- index dead_letters_group
CREATE INDEX dead_letters_group ON horarium.dead_letters USING btree (tenant_id, fingerprint);

-- index dead_letters_job
CREATE INDEX dead_letters_job ON horarium.dead_letters USING btree (job_id);

-- index history_id
CREATE INDEX history_id ON ONLY horarium.history USING btree (id);

-- index history_default_id_idx
CREATE INDEX history_default_id_idx ON horarium.history_default USING btree (id);

-- index history_job
CREATE INDEX history_job ON ONLY horarium.history USING btree (job_id, id DESC);

-- index history_default_job_id_id_idx
CREATE INDEX history_default_job_id_id_idx ON horarium.history_default USING btree (job_id, id DESC);

-- index idempotency_keys_created
CREATE INDEX idempotency_keys_created ON horarium.idempotency_keys USING btree (created_at);

-- index jobs_name
CREATE UNIQUE INDEX jobs_name ON horarium.jobs USING btree (tenant_id, name) WHERE ((name IS NOT NULL) AND (deleted_at IS NULL));

-- index jobs_paused
CREATE INDEX jobs_paused ON horarium.jobs USING btree (shard) WHERE (status = 'paused'::text);

-- index past_schedules_ended
CREATE INDEX past_schedules_ended ON horarium.past_schedules USING btree (valid_until);

-- index past_schedules_job
CREATE INDEX past_schedules_job ON horarium.past_schedules USING btree (job_id, valid_until);

-- index run_logs_run
CREATE INDEX run_logs_run ON ONLY horarium.run_logs USING btree (run_id, attempt, seq);

-- index run_logs_default_run_id_attempt_seq_idx
CREATE INDEX run_logs_default_run_id_attempt_seq_idx ON horarium.run_logs_default USING btree (run_id, attempt, seq);

-- index runs_job
CREATE INDEX runs_job ON horarium.runs USING btree (job_id);

-- index skips_job
CREATE INDEX skips_job ON horarium.skips USING btree (job_id, id DESC);

-- index skips_recorded
CREATE INDEX skips_recorded ON horarium.skips USING btree (recorded_at);

-- index timers_due
CREATE INDEX timers_due ON horarium.timers USING btree (shard, due_at);

-- index attach audit_default_object_id_id_idx
ALTER INDEX horarium.audit_object ATTACH PARTITION horarium.audit_default_object_id_id_idx;

-- index attach audit_default_pkey
ALTER INDEX horarium.audit_pkey ATTACH PARTITION horarium.audit_default_pkey;

-- index attach history_default_id_idx
ALTER INDEX horarium.history_id ATTACH PARTITION horarium.history_default_id_idx;

-- index attach history_default_job_id_id_idx
ALTER INDEX horarium.history_job ATTACH PARTITION horarium.history_default_job_id_id_idx;

-- index attach run_logs_default_run_id_attempt_seq_idx
ALTER INDEX horarium.run_logs_run ATTACH PARTITION horarium.run_logs_default_run_id_attempt_seq_idx;
