-- What operators say to workers (pauses, quotas, drains), what became of providers, and what a message cost.
-- Expand only: a release before this one goes on working on the same database.

-- ---------------------------------------------------------------- controls

-- One number that every change of pauses, quotas and drains raises: processes ask for it often, and read the rest only
-- when it has moved. A claim names the number it was decided by, so that a pause committed before it stops it.
CREATE TABLE ulak.control_revision (
    singleton BOOLEAN PRIMARY KEY DEFAULT true CHECK (singleton),
    revision  BIGINT NOT NULL DEFAULT 1
);
INSERT INTO ulak.control_revision DEFAULT VALUES;

CREATE FUNCTION ulak.raise_control_revision() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE ulak.control_revision SET revision = revision + 1;
    RETURN NULL;
END $$;

-- A row per pause, in force until it is resumed; kept afterwards, for deferred rows name it until they are released.
CREATE TABLE ulak.pauses (
    id                 UUID PRIMARY KEY DEFAULT ulak.uuidv7(),
    kind               VARCHAR(16) NOT NULL CHECK (kind IN ('lane', 'type', 'template', 'provider', 'api_key')),
    key                VARCHAR(200) NOT NULL,         -- lane; type; TYPE/CHANNEL/LOCALE/version; provider account; API key's id
    note               VARCHAR(500) NOT NULL DEFAULT '',
    paused_by          VARCHAR(128) NOT NULL,
    paused_at          TIMESTAMPTZ NOT NULL DEFAULT now(),
    resumed_by         VARCHAR(128),
    resumed_at         TIMESTAMPTZ,
    release_per_second DOUBLE PRECISION               -- how fast what waited is let go once resumed; NULL: the relay's
                       CHECK (release_per_second > 0),
    released_to        TIMESTAMPTZ,                   -- once resumed: up to when the pace is used up
    ended_at           TIMESTAMPTZ                    -- once resumed: since when nothing waits under it any more
);
CREATE UNIQUE INDEX pauses_in_force ON ulak.pauses (kind, key) WHERE resumed_at IS NULL;
CREATE INDEX pauses_releasing ON ulak.pauses (resumed_at) WHERE resumed_at IS NOT NULL AND ended_at IS NULL;
-- Letting go of what waited changes nothing that a claim is decided by.
CREATE TRIGGER pauses_changed AFTER INSERT OR UPDATE OF kind, key, note, resumed_at OR DELETE ON ulak.pauses
    FOR EACH STATEMENT EXECUTE FUNCTION ulak.raise_control_revision();

-- A hint under a pause becomes one row of it, however often the hint comes.
CREATE UNIQUE INDEX deferred_pause ON ulak.deferred (pause_id, notification_id, channel, target_key)
    WHERE pause_id IS NOT NULL;
-- What is held by a pause is due when it expires: then its hint goes out for its end to be told.
DROP INDEX ulak.deferred_due;
CREATE INDEX deferred_due ON ulak.deferred (due_at);

-- What operators set instead of the settings' quotas. scope: '' is the whole account, `class:bulk` one class of it,
-- `domain:shop.example` what one sender domain may send through it.
CREATE TABLE ulak.quotas (
    account            VARCHAR(64) NOT NULL,
    scope              VARCHAR(260) NOT NULL DEFAULT '',
    per_second         DOUBLE PRECISION CHECK (per_second > 0),
    reserve_per_second DOUBLE PRECISION CHECK (reserve_per_second >= 0),
    per_day            BIGINT CHECK (per_day >= 0),
    ramp_from          DATE,                          -- first day (UTC) of a ramp-up
    ramp_per_day       BIGINT CHECK (ramp_per_day > 0),
    ramp_growth        DOUBLE PRECISION CHECK (ramp_growth > 1),  -- each day so many times the day before
    updated_by         VARCHAR(128) NOT NULL,
    updated_at         TIMESTAMPTZ NOT NULL DEFAULT now(),
    PRIMARY KEY (account, scope)
);
CREATE TRIGGER quotas_changed AFTER INSERT OR UPDATE OR DELETE ON ulak.quotas
    FOR EACH STATEMENT EXECUTE FUNCTION ulak.raise_control_revision();

-- What was taken of a daily quota, kept here beside Redis, so that a Redis that was emptied does not begin the day anew.
CREATE TABLE ulak.quota_days (
    account VARCHAR(64) NOT NULL,
    scope   VARCHAR(260) NOT NULL DEFAULT '',
    day     DATE NOT NULL,                            -- UTC
    taken   BIGINT NOT NULL,
    PRIMARY KEY (account, scope, day)
);

-- What one API key may ask for; type '' is all types together.
CREATE TABLE ulak.caller_quotas (
    api_key_id UUID NOT NULL REFERENCES ulak.api_keys (id) ON DELETE CASCADE,
    type       VARCHAR(64) NOT NULL DEFAULT '',
    per_minute BIGINT CHECK (per_minute > 0),
    per_day    BIGINT CHECK (per_day > 0),
    updated_by VARCHAR(128) NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    PRIMARY KEY (api_key_id, type)
);
CREATE TRIGGER caller_quotas_changed AFTER INSERT OR UPDATE OR DELETE ON ulak.caller_quotas
    FOR EACH STATEMENT EXECUTE FUNCTION ulak.raise_control_revision();

-- ---------------------------------------------------------------- providers

-- Provider accounts that operators have taken out: nothing new goes to them, wherever another one can carry it.
CREATE TABLE ulak.provider_drains (
    account    VARCHAR(64) PRIMARY KEY,
    note       VARCHAR(500) NOT NULL DEFAULT '',
    drained_by VARCHAR(128) NOT NULL,
    drained_at TIMESTAMPTZ NOT NULL DEFAULT now()
);
CREATE TRIGGER provider_drains_changed AFTER INSERT OR UPDATE OR DELETE ON ulak.provider_drains
    FOR EACH STATEMENT EXECUTE FUNCTION ulak.raise_control_revision();

-- Every switch: of a breaker, or by an operator. Pruned with the delivery log's retention.
CREATE TABLE ulak.provider_events (
    id            UUID PRIMARY KEY DEFAULT ulak.uuidv7(),
    at            TIMESTAMPTZ NOT NULL DEFAULT now(),
    account       VARCHAR(64) NOT NULL,
    message_class SMALLINT,                           -- NULL: all classes
    from_state    VARCHAR(16) NOT NULL,               -- closed, open, half_open, drained, enabled
    to_state      VARCHAR(16) NOT NULL,
    reason        VARCHAR(200) NOT NULL,              -- in words: `10 failures in a row, the last one 503`
    actor         VARCHAR(128)                        -- the operator's; NULL: a breaker
);
CREATE INDEX provider_events_account ON ulak.provider_events (account, id);

-- ---------------------------------------------------------------- what a message cost

ALTER TABLE ulak.deliveries
    ADD COLUMN segments       SMALLINT,               -- SMS: parts that the provider charges
    ADD COLUMN price_micros   BIGINT,                 -- millionths of the currency, all parts together
    ADD COLUMN price_currency CHAR(3);                -- ISO 4217

-- ---------------------------------------------------------------- dead letters and their replay

-- The one provider that an operator's replay has chosen for it; NULL: the lane's order.
ALTER TABLE ulak.deliveries ADD COLUMN chosen_provider VARCHAR(32);

-- Letters that no row of ours stands for lie in Kafka alone: where, and for which topic they were meant.
ALTER TABLE ulak.dead_letters
    ADD COLUMN origin_topic  VARCHAR(200),            -- without prefix; NULL: the delivery's row is the letter
    ADD COLUMN dlq_partition INT,
    ADD COLUMN dlq_offset    BIGINT,
    ADD COLUMN run_id        UUID,                    -- the replay that ended it
    ADD COLUMN ended_by      VARCHAR(128);            -- who ended it: replayed, refused, closed or purged
CREATE INDEX dead_letters_notification ON ulak.dead_letters (notification_id) WHERE notification_id IS NOT NULL;
CREATE INDEX dead_letters_fingerprint ON ulak.dead_letters (fingerprint);
CREATE INDEX dead_letters_state ON ulak.dead_letters (topic, state, first_seen, fingerprint);

-- How far the dead-letter topics have been read into the table above.
CREATE TABLE ulak.dead_letter_reads (
    topic       VARCHAR(200) NOT NULL,                -- without prefix
    partition   INT NOT NULL,
    next_offset BIGINT NOT NULL,
    PRIMARY KEY (topic, partition)
);

-- A row per `replay run`, whose counts move with the letters that they count, in the same transaction.
CREATE TABLE ulak.replay_runs (
    id              UUID PRIMARY KEY,
    topic           VARCHAR(200) NOT NULL,            -- of dead letters, without prefix
    filters         JSONB NOT NULL,
    provider        VARCHAR(32),                      -- chosen for all that it replays
    rate_per_second DOUBLE PRECISION NOT NULL CHECK (rate_per_second > 0),
    started_by      VARCHAR(128) NOT NULL,
    started_at      TIMESTAMPTZ NOT NULL,             -- letters of later are not its business
    ended_at        TIMESTAMPTZ,
    counts          JSONB NOT NULL DEFAULT '{}',      -- what became of letters -> how many
    reached_at      TIMESTAMPTZ,                      -- first_seen and fingerprint of the last letter it has dealt with,
    reached         BYTEA                             -- so that a run which was broken off goes on behind it
);
CREATE INDEX replay_runs_open ON ulak.replay_runs (topic, started_at) WHERE ended_at IS NULL;
