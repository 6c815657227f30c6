-- Ulak's schema, first revision. PostgreSQL 15 or newer, no extensions. Plan: docs/data.md.
-- Everything lives in schema `ulak` and is named with it in every query: no search_path, so poolers need no setting.

CREATE SCHEMA IF NOT EXISTS ulak;

-- UUIDv7 (RFC 9562 section 5.7) for rows that SQL creates; PostgreSQL brings uuidv7() only from 18 on.
CREATE FUNCTION ulak.uuidv7() RETURNS uuid LANGUAGE sql VOLATILE PARALLEL SAFE AS $$
    SELECT encode(
        set_bit(set_bit(
            overlay(uuid_send(gen_random_uuid())
                    PLACING substring(int8send(floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3)
                    FROM 1 FOR 6),
            52, 1), 53, 1),
        'hex')::uuid
$$;

-- ---------------------------------------------------------------- who calls

CREATE TABLE ulak.applications (
    id         INT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name       VARCHAR(64) NOT NULL UNIQUE,
    sources    TEXT[] NOT NULL DEFAULT '{}',          -- CloudEvents `source` values that are this application
    created_at TIMESTAMPTZ NOT NULL DEFAULT now()
);

CREATE TABLE ulak.api_keys (
    id              UUID PRIMARY KEY,
    application_id  INT NOT NULL REFERENCES ulak.applications (id),
    name            VARCHAR(64) NOT NULL,
    secret_hash     BYTEA NOT NULL UNIQUE,            -- SHA-256 of a 256-bit random secret; the secret is shown once
    kind            VARCHAR(8) NOT NULL CHECK (kind IN ('live', 'team', 'test')),
    scopes          TEXT[] NOT NULL,                  -- notifications, otp, admin
    rate_per_second INT CHECK (rate_per_second > 0),  -- NULL: no limit of its own
    allow_list      BYTEA[] NOT NULL DEFAULT '{}',    -- target keys a team key may reach
    expires_at      TIMESTAMPTZ,
    revoked_at      TIMESTAMPTZ,
    created_at      TIMESTAMPTZ NOT NULL DEFAULT now()
);

-- ---------------------------------------------------------------- what may be said, and how

CREATE TABLE ulak.notification_types (
    type                    VARCHAR(64) PRIMARY KEY,
    category                VARCHAR(16) NOT NULL CHECK (category IN ('SECURITY', 'TRANSACTIONAL', 'MARKETING')),
    message_class           SMALLINT NOT NULL,        -- 0 critical, 1 tx, 2 bulk, 3 low
    default_channels        TEXT[] NOT NULL,
    ttl_seconds             INT NOT NULL CHECK (ttl_seconds > 0),
    promises                JSONB NOT NULL DEFAULT '{}',   -- channel -> AT_LEAST_ONCE | AT_MOST_ONCE; else the channel's default
    retention_days          INT NOT NULL DEFAULT 90,
    updated_at              TIMESTAMPTZ NOT NULL DEFAULT now()
);

CREATE TABLE ulak.templates (
    type       VARCHAR(64) NOT NULL REFERENCES ulak.notification_types (type),
    channel    VARCHAR(16) NOT NULL,
    locale     VARCHAR(16) NOT NULL,                  -- BCP 47, e.g. tr, tr-TR
    version    INT NOT NULL,
    parts      JSONB NOT NULL,                        -- content field -> Jinja source (subject, text, html | title, body | text)
    parameters TEXT[] NOT NULL,                       -- names the parts use: what a request must bring
    checksum   BYTEA NOT NULL,                        -- SHA-256 of the parts: pushing the same file twice makes no version
    active     BOOLEAN NOT NULL,
    created_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    PRIMARY KEY (type, channel, locale, version)
);
CREATE UNIQUE INDEX templates_active ON ulak.templates (type, channel, locale) WHERE active;

CREATE TABLE ulak.event_mappings (
    name              VARCHAR(64) PRIMARY KEY,
    event_type        VARCHAR(200) NOT NULL,          -- CloudEvents `type`
    notification_type VARCHAR(64) NOT NULL REFERENCES ulak.notification_types (type),
    role              VARCHAR(32) NOT NULL DEFAULT '',
    recipient         TEXT NOT NULL,                  -- JMESPath into the event: the external user id
    params            JSONB NOT NULL,                 -- parameter -> JMESPath
    business_key      TEXT,                           -- JMESPath
    active            BOOLEAN NOT NULL DEFAULT true,
    updated_at        TIMESTAMPTZ NOT NULL DEFAULT now()
);
CREATE INDEX event_mappings_event_type ON ulak.event_mappings (event_type) WHERE active;

-- ---------------------------------------------------------------- whom

CREATE TABLE ulak.recipients (
    user_id      BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    external_id  VARCHAR(128) NOT NULL UNIQUE,
    email_key    BYTEA,                               -- target key; the address is sealed with it as its row
    email_sealed BYTEA,
    phone_key    BYTEA,
    phone_sealed BYTEA,
    locale       VARCHAR(16),
    time_zone    VARCHAR(64),
    attributes   JSONB NOT NULL DEFAULT '{}',
    created_at   TIMESTAMPTZ NOT NULL DEFAULT now(),
    updated_at   TIMESTAMPTZ NOT NULL DEFAULT now()
);

CREATE TABLE ulak.devices (
    id           UUID PRIMARY KEY DEFAULT ulak.uuidv7(),
    user_id      BIGINT NOT NULL REFERENCES ulak.recipients (user_id),
    token_key    BYTEA NOT NULL UNIQUE,               -- target key of channel PUSH
    token_sealed BYTEA NOT NULL,
    platform     VARCHAR(8) NOT NULL,                 -- IOS, ANDROID, WEB
    app_id       VARCHAR(128) NOT NULL DEFAULT '',    -- APNs topic / FCM project; '' is the provider's default
    environment  VARCHAR(16) NOT NULL DEFAULT 'production',
    active       BOOLEAN NOT NULL DEFAULT true,
    last_seen    TIMESTAMPTZ NOT NULL DEFAULT now()
);
CREATE INDEX devices_user ON ulak.devices (user_id) WHERE active;

CREATE TABLE ulak.user_preferences (
    user_id    BIGINT NOT NULL REFERENCES ulak.recipients (user_id),
    category   VARCHAR(16) NOT NULL,
    channel    VARCHAR(16) NOT NULL,
    type       VARCHAR(64) NOT NULL DEFAULT '',       -- '' speaks for the whole category
    enabled    BOOLEAN NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    PRIMARY KEY (user_id, category, channel, type)
);

CREATE TABLE ulak.suppressions (
    channel     VARCHAR(16) NOT NULL,
    address_key BYTEA NOT NULL,
    reason      VARCHAR(32) NOT NULL,
    created_at  TIMESTAMPTZ NOT NULL DEFAULT now(),
    PRIMARY KEY (channel, address_key)
);

-- ---------------------------------------------------------------- the hot tables, by day of their id
-- No foreign keys between them: rows are written in one transaction, `ulak db audit` proves that none is orphaned.
-- No index on a column that changes with the status, so that updates stay HOT.

CREATE TABLE ulak.notifications (
    id             UUID NOT NULL,
    application_id INT NOT NULL,
    event_id       VARCHAR(200) NOT NULL,
    user_id        BIGINT,
    type           VARCHAR(64) NOT NULL,
    message_class  SMALLINT NOT NULL,
    mode           VARCHAR(8) NOT NULL,               -- live, team, test
    state          VARCHAR(16) NOT NULL,              -- lifecycle.NotificationState
    params_sealed  BYTEA,                             -- params-v1; NULL where content was rendered at acceptance (OTP)
    channels       TEXT[],                            -- asked for by the caller; NULL: the type's default
    locale         VARCHAR(16),
    business_key   VARCHAR(200),
    collapse_key   VARCHAR(64),
    event_time     TIMESTAMPTZ,
    send_at        TIMESTAMPTZ,
    expires_at     TIMESTAMPTZ NOT NULL,
    api_key_id     UUID,
    traceparent    VARCHAR(64),
    cancelled_at   TIMESTAMPTZ,
    created_at     TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (id)
) PARTITION BY RANGE (id);
CREATE INDEX notifications_user ON ulak.notifications (user_id, id);

CREATE TABLE ulak.deliveries (
    notification_id     UUID NOT NULL,
    channel             VARCHAR(16) NOT NULL,
    target_key          BYTEA NOT NULL,               -- keyed hash of the address; empty where a channel was skipped
    address_sealed      BYTEA,                        -- address-v1, row = target_key
    platform            VARCHAR(8),                   -- push: IOS, ANDROID, WEB
    app_id              VARCHAR(128),
    status              VARCHAR(16) NOT NULL,         -- lifecycle.DeliveryStatus
    reason              VARCHAR(32),                  -- lifecycle.Reason
    message_class       SMALLINT NOT NULL,
    promise             VARCHAR(16) NOT NULL,
    mode                VARCHAR(8) NOT NULL,
    attempt             INT NOT NULL DEFAULT 0,       -- attempts already made
    next_attempt_at     TIMESTAMPTZ NOT NULL,
    claim_id            UUID,
    lease_until         TIMESTAMPTZ,
    cancel_requested    BOOLEAN NOT NULL DEFAULT false,
    provider            VARCHAR(32),
    provider_message_id VARCHAR(128),
    last_error          VARCHAR(256),
    send_until          TIMESTAMPTZ,                  -- marketing: end of the allowed hours
    expires_at          TIMESTAMPTZ NOT NULL,
    campaign_id         UUID,
    chunk               INT,
    created_at          TIMESTAMPTZ NOT NULL,
    updated_at          TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (notification_id, channel, target_key)
) PARTITION BY RANGE (notification_id);

CREATE TABLE ulak.contents (
    notification_id  UUID NOT NULL,
    channel          VARCHAR(16) NOT NULL,
    sealed           BYTEA,                           -- row = notification id + channel; NULL once cleared
    purpose          VARCHAR(16) NOT NULL,            -- content-v1 | otp-v1
    locale           VARCHAR(16) NOT NULL,
    template_version INT NOT NULL,
    PRIMARY KEY (notification_id, channel)
) PARTITION BY RANGE (notification_id);

CREATE TABLE ulak.delivery_log (
    notification_id UUID NOT NULL,
    id              UUID NOT NULL,                    -- UUIDv7: order and time
    kind            VARCHAR(16) NOT NULL,             -- verdict, attempt, route, receipt, operator, duplicate
    channel         VARCHAR(16) NOT NULL DEFAULT '',
    target_key      BYTEA NOT NULL DEFAULT '',
    attempt         INT,
    result          VARCHAR(32) NOT NULL,             -- go, skip, defer | an outcome | a receipt kind
    reason          VARCHAR(32),
    provider        VARCHAR(32),
    detail          VARCHAR(256),                     -- for operators; never an address, a body or a code
    PRIMARY KEY (notification_id, id)
) PARTITION BY RANGE (notification_id);

-- ---------------------------------------------------------------- dedup, across partitions

CREATE TABLE ulak.notification_dedup (
    application_id  INT NOT NULL,
    key             VARCHAR(200) NOT NULL,            -- eventId, CloudEvents id, OTP requestId
    mapping         VARCHAR(100) NOT NULL,            -- type, or type:role
    notification_id UUID NOT NULL,
    request_hmac    BYTEA NOT NULL,
    until           TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (application_id, key, mapping)
);

-- ---------------------------------------------------------------- small tables that drive work

CREATE TABLE ulak.outbox (
    id            UUID PRIMARY KEY DEFAULT ulak.uuidv7(),
    message_class SMALLINT NOT NULL DEFAULT 1,
    topic         VARCHAR(200) NOT NULL,              -- without the installation's prefix
    key           BYTEA,
    payload       BYTEA NOT NULL,
    headers       JSONB NOT NULL DEFAULT '{}',        -- name -> text
    available_at  TIMESTAMPTZ NOT NULL DEFAULT now()
);
CREATE INDEX outbox_due ON ulak.outbox (message_class, available_at);

CREATE TABLE ulak.deferred (
    id              UUID PRIMARY KEY DEFAULT ulak.uuidv7(),
    due_at          TIMESTAMPTZ NOT NULL,
    kind            VARCHAR(16) NOT NULL,             -- notification | delivery
    notification_id UUID NOT NULL,
    channel         VARCHAR(16) NOT NULL DEFAULT '',
    target_key      BYTEA NOT NULL DEFAULT '',
    pause_id        UUID
);
CREATE INDEX deferred_due ON ulak.deferred (due_at) WHERE pause_id IS NULL;
CREATE INDEX deferred_notification ON ulak.deferred (notification_id);

CREATE TABLE ulak.leases (
    claim_id         UUID PRIMARY KEY,
    lane             VARCHAR(64) NOT NULL,
    lease_until      TIMESTAMPTZ NOT NULL,
    notification_ids UUID[] NOT NULL
);
CREATE INDEX leases_until ON ulak.leases (lease_until);

CREATE TABLE ulak.otp_due (
    notification_id UUID PRIMARY KEY,
    due_at          TIMESTAMPTZ NOT NULL
);
CREATE INDEX otp_due_at ON ulak.otp_due (due_at);

CREATE TABLE ulak.otp_current (
    phone_key       BYTEA NOT NULL,
    purpose         VARCHAR(32) NOT NULL,
    notification_id UUID NOT NULL,
    expires_at      TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (phone_key, purpose)
);

CREATE TABLE ulak.unknown_open (
    notification_id UUID NOT NULL,
    channel         VARCHAR(16) NOT NULL,
    target_key      BYTEA NOT NULL,
    since           TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (notification_id, channel, target_key)
);

-- Where our own reference cannot travel in the callback: provider's id -> delivery. Hash-partitioned, own retention.
CREATE TABLE ulak.provider_messages (
    provider        VARCHAR(32) NOT NULL,
    message_id      VARCHAR(128) NOT NULL,
    notification_id UUID NOT NULL,
    channel         VARCHAR(16) NOT NULL,
    target_key      BYTEA NOT NULL,
    attempt         INT NOT NULL,
    created_at      TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (provider, message_id)
) PARTITION BY HASH (provider, message_id);
CREATE TABLE ulak.provider_messages_0 PARTITION OF ulak.provider_messages FOR VALUES WITH (MODULUS 4, REMAINDER 0);
CREATE TABLE ulak.provider_messages_1 PARTITION OF ulak.provider_messages FOR VALUES WITH (MODULUS 4, REMAINDER 1);
CREATE TABLE ulak.provider_messages_2 PARTITION OF ulak.provider_messages FOR VALUES WITH (MODULUS 4, REMAINDER 2);
CREATE TABLE ulak.provider_messages_3 PARTITION OF ulak.provider_messages FOR VALUES WITH (MODULUS 4, REMAINDER 3);

-- Receipts that came before their send was recorded; applied in the transaction that records it.
CREATE TABLE ulak.parked_receipts (
    id              UUID PRIMARY KEY,
    notification_id UUID NOT NULL,
    channel         VARCHAR(16) NOT NULL,
    target_key      BYTEA NOT NULL,
    attempt         INT NOT NULL,
    kind            VARCHAR(16) NOT NULL,             -- lifecycle.ReceiptKind
    provider        VARCHAR(32) NOT NULL,
    detail          VARCHAR(256),
    received_at     TIMESTAMPTZ NOT NULL
);
CREATE INDEX parked_receipts_notification ON ulak.parked_receipts (notification_id);

-- Which callbacks were applied: the projector's dedup by provider event. Pruned with the receipts topic's retention.
CREATE TABLE ulak.applied_receipts (
    provider   VARCHAR(32) NOT NULL,
    event_key  BYTEA NOT NULL,                        -- keyed hash of the provider's event id, or of its body
    applied_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (provider, event_key)
);
CREATE INDEX applied_receipts_at ON ulak.applied_receipts (applied_at);

CREATE TABLE ulak.dead_letters (
    topic           VARCHAR(200) NOT NULL,            -- the DLQ topic, without prefix
    fingerprint     BYTEA NOT NULL,                   -- SHA-256 of original topic, partition and offset, or of delivery and attempt
    notification_id UUID,
    channel         VARCHAR(16) NOT NULL DEFAULT '',
    target_key      BYTEA NOT NULL DEFAULT '',
    error_class     VARCHAR(64) NOT NULL,
    detail          VARCHAR(256),
    state           VARCHAR(16) NOT NULL DEFAULT 'open',   -- open, replayed, purged
    note            VARCHAR(500),
    first_seen      TIMESTAMPTZ NOT NULL,
    last_seen       TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (topic, fingerprint)
);

-- How far the sweep has read, per horizon (10 minutes, 1 hour, 6 hours): ids below it have been looked at.
CREATE TABLE ulak.sweep_progress (
    horizon_sec INT PRIMARY KEY,
    swept_to    UUID NOT NULL
);
