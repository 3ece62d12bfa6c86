-- Activation: who may start beside instances that run. And what a delete and a resume on another node need.

-- Of a version, set when it is published: 0 always, 1 singleton, 2 correlated singleton, 3 correlation.
ALTER TABLE definition ADD COLUMN activation smallint NOT NULL DEFAULT 0 CHECK (activation BETWEEN 0 AND 3);
-- What is left to do after the publish that made a strategy another: 2, note what was started or correlated before, until
-- when starts are refused as busy; 1, throw away the notes of what ended meanwhile; 0, nothing.
ALTER TABLE definition ADD COLUMN seeding smallint NOT NULL DEFAULT 0 CHECK (seeding BETWEEN 0 AND 2);
CREATE INDEX definition_seeding ON definition (tenant_id, definition_id) WHERE is_published AND seeding > 0;
-- Whether anybody compares correlation ids across definitions.
CREATE INDEX definition_correlation ON definition (tenant_id) WHERE is_published AND activation = 3;

-- What a start under a strategy holds, from the statement that accepts it to the commit that ends its instance. Rows
-- that are not exclusive are those of others that count: what was there before the strategy was published, and what took
-- a correlation id that somebody compares. They count for as long as what they tell is so, whether they are gone by then
-- or not.
CREATE TABLE activation (
    tenant_id text NOT NULL,
    key bytea NOT NULL,
    instance_id text NOT NULL,
    exclusive boolean NOT NULL,
    strategy smallint NOT NULL,
    definition_id text NOT NULL,
    correlation_id text,
    PRIMARY KEY (tenant_id, key, instance_id)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);
CREATE UNIQUE INDEX activation_held ON activation (tenant_id, key) WHERE exclusive;
CREATE INDEX activation_instance ON activation (tenant_id, instance_id);

-- The strategy that a definition asks for: `Elsa.Workflows.Runtime.ActivationValidators.SingletonStrategy, …`. A publish
-- refuses names that are not known.
CREATE FUNCTION activation_of(body json) RETURNS smallint
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE trim(substring(split_part(body->'options'->>'activationStrategyType', ',', 1) from '[^.]*$'))
        WHEN 'SingletonStrategy' THEN 1 WHEN 'Singleton' THEN 1
        WHEN 'CorrelatedSingletonStrategy' THEN 2 WHEN 'CorrelatedSingleton' THEN 2
        WHEN 'CorrelationStrategy' THEN 3 WHEN 'Correlation' THEN 3
        ELSE 0 END::smallint
$$;

-- What a start must hold; null: nothing. No correlation id is one of its own for a correlated singleton, and nothing to
-- compare for the correlation strategy.
CREATE FUNCTION activation_key(strategy smallint, definition text, correlation text) RETURNS bytea
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE strategy
        WHEN 1 THEN sha256(convert_to('1|' || definition, 'UTF8'))
        WHEN 2 THEN sha256(convert_to(concat('2|', length(definition), '|', definition, '|' || nullif(correlation, '')),
                                      'UTF8'))
        WHEN 3 THEN sha256(convert_to('3|' || nullif(correlation, ''), 'UTF8'))
        END
$$;

-- Versions that were published before there were strategies; the cluster does for them what a publish does.
UPDATE definition SET activation = activation_of(body) WHERE was_published AND activation_of(body) > 0;
UPDATE definition SET seeding = 2 WHERE is_published AND activation > 0;

-- Whether what a row tells that is not exclusive is still so.
CREATE FUNCTION activation_counts(of_tenant text, instance text, strategy smallint, definition text, correlation text)
RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT 1 FROM instance i
                   WHERE i.tenant_id = $1 AND i.id = $2 AND i.status = 0 AND i.definition_id = $4
                     AND ($3 = 1 OR nullif(i.correlation_id, '') IS NOT DISTINCT FROM nullif($5, '')))
           OR EXISTS (SELECT 1 FROM work w
                      WHERE w.tenant_id = $1 AND w.instance_id = $2 AND w.kind = 0 AND w.definition_id = $4
                        AND ($3 = 1 OR nullif(w.body->>'correlationId', '') IS NOT DISTINCT FROM nullif($5, '')))
$$;

-- Whether what is committed forbids a start. Rivals of the same moment are kept apart by the unique index.
CREATE FUNCTION activation_blocked(of_tenant text, of_strategy smallint, of_definition text, of_correlation text)
RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
DECLARE
    of_key bytea := activation_key(of_strategy, of_definition, of_correlation);
BEGIN
    IF of_key IS NULL THEN
        RETURN false;
    END IF;
    RETURN EXISTS (SELECT 1 FROM activation a
                   WHERE a.tenant_id = of_tenant AND a.key = of_key
                     AND (a.exclusive
                          OR activation_counts(a.tenant_id, a.instance_id, a.strategy, a.definition_id,
                                               a.correlation_id)));
END $$;

-- Ends a statement that must write all or nothing, and that is to be tried again: what was started before the strategy
-- was published is not known yet.
CREATE FUNCTION activation_unseeded() RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the activation strategy was published a moment ago' USING ERRCODE = 'serialization_failure';
END $$;

-- Ends a statement that must write all or nothing: two starts wanted one key at the same moment, and this one lost.
CREATE FUNCTION activation_lost() RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'a rival start took the activation key' USING ERRCODE = 'serialization_failure';
END $$;

-- A delete finds what was kept for its instance alone.
CREATE INDEX inbox_instance ON inbox (tenant_id, instance_id) WHERE instance_id IS NOT NULL;

-- Instructions that were consumed and met nothing, for the doors of other nodes that wait for them, and for whoever asks
-- again under the same idempotency key.
CREATE TABLE unmet (
    tenant_id text NOT NULL,
    work_id bigint NOT NULL,
    -- It was a dead letter, and is not any more: replayed as another row, or thrown away.
    given_up boolean NOT NULL DEFAULT false,
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, work_id)
);
CREATE INDEX unmet_at ON unmet (at);
