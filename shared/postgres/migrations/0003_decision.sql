-- The decision's facts: policies of types, published templates, consents, caps, windows, the inbox, administration.

-- ---------------------------------------------------------------- types: when, how often, where else
-- NULL means the category's default everywhere below (shared/core/catalogue.py tells them).

ALTER TABLE ulak.notification_types
    ADD COLUMN quiet_hours            JSONB,          -- {"start": "22:00", "end": "09:00", "spreadSec": 900}; {} is none
    ADD COLUMN content_window_seconds INT CHECK (content_window_seconds >= 0),   -- 0 is none
    ADD COLUMN fallback_channels      TEXT[],         -- in order, for want of a target; SMS costs, so it is never a default
    ADD COLUMN max_sms_segments       SMALLINT CHECK (max_sms_segments > 0),
    ADD COLUMN sms_overflow           VARCHAR(8) NOT NULL DEFAULT 'warn' CHECK (sms_overflow IN ('warn', 'refuse')),
    ADD COLUMN parameter_schema       JSONB,          -- JSON Schema (2020-12) of params
    ADD COLUMN sample                 JSONB NOT NULL DEFAULT '{}',   -- params that every template of the type must render
    ADD COLUMN revision               INT NOT NULL DEFAULT 1;

-- How often a day, by the user's own calendar. No row: as often as asked.
CREATE TABLE ulak.frequency_caps (
    category   VARCHAR(16) NOT NULL,
    channel    VARCHAR(16) NOT NULL,
    per_day    INT NOT NULL CHECK (per_day >= 0),
    revision   INT NOT NULL DEFAULT 1,
    updated_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    PRIMARY KEY (category, channel)
);
INSERT INTO ulak.frequency_caps (category, channel, per_day) VALUES ('MARKETING', 'PUSH', 3);   -- seed 003

ALTER TABLE ulak.templates
    ADD COLUMN state        VARCHAR(12) NOT NULL DEFAULT 'published' CHECK (state IN ('draft', 'published')),
    ADD COLUMN prepared     JSONB,                    -- what is rendered where it differs from parts: CSS inlined, text from HTML
    ADD COLUMN options      JSONB NOT NULL DEFAULT '{}',   -- channel's own settings, e.g. {"transliterate": true, "senderId": "SHOP"}
    ADD COLUMN revision     INT NOT NULL DEFAULT 1,   -- counts changes of a draft
    ADD COLUMN created_by   VARCHAR(128) NOT NULL DEFAULT '',
    ADD COLUMN published_by VARCHAR(128),
    ADD COLUMN published_at TIMESTAMPTZ,
    ADD CHECK (NOT active OR state = 'published');

ALTER TABLE ulak.event_mappings ADD COLUMN revision INT NOT NULL DEFAULT 1;
ALTER TABLE ulak.sender_profiles ADD COLUMN revision INT NOT NULL DEFAULT 1;
ALTER TABLE ulak.applications ADD COLUMN revision INT NOT NULL DEFAULT 1;
ALTER TABLE ulak.api_keys ADD COLUMN revision INT NOT NULL DEFAULT 1;

-- ---------------------------------------------------------------- whom

ALTER TABLE ulak.recipients ADD COLUMN revision INT NOT NULL DEFAULT 1;
CREATE INDEX recipients_email ON ulak.recipients (email_key) WHERE email_key IS NOT NULL;
CREATE INDEX recipients_phone ON ulak.recipients (phone_key) WHERE phone_key IS NOT NULL;

ALTER TABLE ulak.devices
    ADD COLUMN device_id  VARCHAR(128),               -- the app's own name for the installation
    ADD COLUMN permission VARCHAR(16) NOT NULL DEFAULT 'granted' CHECK (permission IN ('granted', 'provisional', 'denied')),
    ADD COLUMN created_at TIMESTAMPTZ NOT NULL DEFAULT now();
CREATE UNIQUE INDEX devices_installation ON ulak.devices (user_id, app_id, device_id) WHERE device_id IS NOT NULL;
CREATE INDEX devices_last_seen ON ulak.devices (last_seen);

-- Who must not be written to. One row per scope: what a complaint adds for marketing does not hide a hard bounce.
ALTER TABLE ulak.suppressions
    ADD COLUMN scope          VARCHAR(16) NOT NULL DEFAULT 'ALL' CHECK (scope IN ('ALL', 'MARKETING')),
    ADD COLUMN address_sealed BYTEA,                  -- address-v1, row = address_key; gone after erasure, the key stays
    ADD COLUMN source         VARCHAR(16) NOT NULL DEFAULT 'manual',   -- bounce, complaint, stop, manual, import
    ADD COLUMN note           VARCHAR(500),
    ADD COLUMN created_by     VARCHAR(128) NOT NULL DEFAULT '',
    ADD COLUMN expires_at     TIMESTAMPTZ,
    ADD COLUMN id             UUID NOT NULL DEFAULT ulak.uuidv7(),   -- what it is called in a path: never by its address
    DROP CONSTRAINT suppressions_pkey,
    ADD PRIMARY KEY (id),
    ADD UNIQUE (channel, address_key, scope);

-- ---------------------------------------------------------------- consent

-- Append-only. A consent belongs to what it was given for: an address on EMAIL and SMS, a user on PUSH and INBOX.
CREATE TABLE ulak.consents (
    id              UUID PRIMARY KEY,                 -- UUIDv7: the order in which they were recorded
    subject         BYTEA NOT NULL,                   -- address: its target key; user: keyed hash of the user id
    channel         VARCHAR(16) NOT NULL,
    purpose         VARCHAR(16) NOT NULL DEFAULT 'MARKETING' CHECK (purpose IN ('MARKETING', 'TRACKING')),
    user_id         BIGINT,                           -- who gave it, where known
    address_sealed  BYTEA,                            -- address-v1, row = subject; NULL where the subject is a user
    granted         BOOLEAN NOT NULL,
    at              TIMESTAMPTZ NOT NULL,             -- when the person said so
    recorded_at     TIMESTAMPTZ NOT NULL DEFAULT now(),
    source          VARCHAR(32) NOT NULL,             -- İYS source code (HS_WEB, HS_MOBIL, ...), ONE_CLICK, COMPLAINT, STOP, IYS
    wording_version VARCHAR(64),
    evidence_sealed BYTEA,                            -- consent-v1, row = id: IP, form, signature, recording number
    recipient_kind  VARCHAR(16) NOT NULL DEFAULT 'BIREYSEL' CHECK (recipient_kind IN ('BIREYSEL', 'TACIR')),
    reference       VARCHAR(200),                     -- the teller's own id: the same again is no second line
    recorded_by     VARCHAR(128) NOT NULL DEFAULT ''
);
CREATE INDEX consents_subject ON ulak.consents (subject, channel, purpose, id);
CREATE INDEX consents_user ON ulak.consents (user_id, id) WHERE user_id IS NOT NULL;
CREATE UNIQUE INDEX consents_reference ON ulak.consents (source, reference) WHERE reference IS NOT NULL;

-- What stands now: the latest word by `at`, a refusal winning a tie. Written with the ledger line that changes it.
CREATE TABLE ulak.consent_states (
    subject    BYTEA NOT NULL,
    channel    VARCHAR(16) NOT NULL,
    purpose    VARCHAR(16) NOT NULL,
    granted    BOOLEAN NOT NULL,
    at         TIMESTAMPTZ NOT NULL,
    consent_id UUID NOT NULL,
    PRIMARY KEY (subject, channel, purpose)
);

-- What İYS (the Turkish registry of commercial messages) knows of a ledger line.
CREATE TABLE ulak.iys_records (
    consent_id      UUID PRIMARY KEY REFERENCES ulak.consents (id),
    state           VARCHAR(12) NOT NULL CHECK (state IN ('PENDING', 'SUBMITTED', 'ACCEPTED', 'REJECTED')),
    request_id      VARCHAR(64),
    sub_request_id  VARCHAR(64),
    code            VARCHAR(32),                      -- the registry's error code
    detail          VARCHAR(256),
    attempts        INT NOT NULL DEFAULT 0,
    next_attempt_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    updated_at      TIMESTAMPTZ NOT NULL DEFAULT now()
);
CREATE INDEX iys_records_due ON ulak.iys_records (next_attempt_at) WHERE state IN ('PENDING', 'SUBMITTED');
CREATE INDEX iys_records_request ON ulak.iys_records (request_id) WHERE state = 'SUBMITTED';

CREATE TABLE ulak.iys_cursors (
    brand      VARCHAR(64) PRIMARY KEY,               -- iysCode/brandCode
    after      VARCHAR(128) NOT NULL,                 -- where the next pull of changes goes on
    updated_at TIMESTAMPTZ NOT NULL DEFAULT now()
);

-- ---------------------------------------------------------------- the same content, once

CREATE TABLE ulak.content_window (
    type            VARCHAR(64) NOT NULL,
    user_id         BIGINT NOT NULL,
    business_key    VARCHAR(200) NOT NULL,
    notification_id UUID NOT NULL,
    until           TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (type, user_id, business_key)
);
CREATE INDEX content_window_until ON ulak.content_window (until);

-- Consent is read again right before a marketing send (C5), so the worker must know what is one.
ALTER TABLE ulak.deliveries ADD COLUMN marketing BOOLEAN NOT NULL DEFAULT false;

-- ---------------------------------------------------------------- the inbox, read by user, newest first

CREATE TABLE ulak.inbox (
    user_id         BIGINT NOT NULL,
    created_at      TIMESTAMPTZ NOT NULL,             -- when it was delivered, not when it was accepted
    notification_id UUID NOT NULL,
    type            VARCHAR(64) NOT NULL,
    content_sealed  BYTEA NOT NULL,                   -- inbox-v1, row = notification id
    locale          VARCHAR(16) NOT NULL,
    seen_at         TIMESTAMPTZ,
    read_at         TIMESTAMPTZ,
    archived_at     TIMESTAMPTZ,
    PRIMARY KEY (user_id, created_at, notification_id)
);
CREATE UNIQUE INDEX inbox_notification ON ulak.inbox (user_id, notification_id);
CREATE INDEX inbox_created ON ulak.inbox (created_at);

-- Kept in the transaction that adds, reads or prunes: exact, and one row to read.
CREATE TABLE ulak.inbox_counters (
    user_id BIGINT PRIMARY KEY,
    unread  INT NOT NULL CHECK (unread >= 0)
);

-- What the app tells of a notification; the push providers tell of acceptance alone.
CREATE TABLE ulak.app_reports (
    notification_id UUID NOT NULL,
    user_id         BIGINT NOT NULL,
    kind            VARCHAR(16) NOT NULL CHECK (kind IN ('received', 'opened')),
    at              TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (notification_id, user_id, kind)
);

-- ---------------------------------------------------------------- administration

CREATE TABLE ulak.audit_log (
    id     UUID PRIMARY KEY DEFAULT ulak.uuidv7(),
    at     TIMESTAMPTZ NOT NULL DEFAULT now(),
    actor  VARCHAR(128) NOT NULL,                     -- API key's name and application, or the operator's login
    action VARCHAR(32) NOT NULL,                      -- created, updated, deleted, published, rolled_back, imported, ...
    kind   VARCHAR(32) NOT NULL,                      -- notification_type, template, recipient, ...
    key    VARCHAR(256) NOT NULL,                     -- which one: a name or an id, never an address
    detail JSONB NOT NULL DEFAULT '{}'                -- what changed, without personal data
);
CREATE INDEX audit_log_key ON ulak.audit_log (kind, key, id);

CREATE TABLE ulak.import_runs (
    id             UUID PRIMARY KEY,
    kind           VARCHAR(32) NOT NULL,              -- recipients, consents, suppressions, preferences, devices
    application_id INT NOT NULL,
    state          VARCHAR(12) NOT NULL CHECK (state IN ('RUNNING', 'FINISHED', 'ABORTED')),
    lines          BIGINT NOT NULL DEFAULT 0,         -- lines settled, accepted or rejected: where a resumed stream goes on
    accepted       BIGINT NOT NULL DEFAULT 0,
    rejected       BIGINT NOT NULL DEFAULT 0,
    started_by     VARCHAR(128) NOT NULL,
    stream         UUID,                              -- the request that is streaming lines to it, and until when it is
    stream_until   TIMESTAMPTZ,                       -- taken to live without a sign of life
    created_at     TIMESTAMPTZ NOT NULL DEFAULT now(),
    updated_at     TIMESTAMPTZ NOT NULL DEFAULT now()
);

CREATE TABLE ulak.import_errors (
    run_id  UUID NOT NULL REFERENCES ulak.import_runs (id) ON DELETE CASCADE,
    line    BIGINT NOT NULL,                          -- 1 is the stream's first
    code    VARCHAR(64) NOT NULL,
    path    VARCHAR(128) NOT NULL DEFAULT '',
    detail  VARCHAR(256) NOT NULL,                    -- never repeats the line's values
    PRIMARY KEY (run_id, line)
);
