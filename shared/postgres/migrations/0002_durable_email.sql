-- Durable e-mail in Ulak's own database. The producer schema (outbox columns, email_messages, functions) came just
-- before, by its own steps: a service that shares this database enqueues here, and `POST /emails` of model A writes here.

-- Who a mail is from, per type, so that a campaign never risks the reputation of a password reset.
CREATE TABLE ulak.sender_profiles (
    name            VARCHAR(64) PRIMARY KEY,
    from_address    VARCHAR(320) NOT NULL,
    from_name       VARCHAR(128) NOT NULL DEFAULT '',
    reply_to        VARCHAR(320),
    return_path     VARCHAR(320),                     -- envelope sender; NULL: from_address
    dkim_domain     VARCHAR(253),                     -- NULL: not signed by us
    dkim_selector   VARCHAR(63),
    dkim_key_sealed BYTEA,                            -- PEM; dkim-v1, row = name
    updated_at      TIMESTAMPTZ NOT NULL DEFAULT now(),
    CHECK (num_nonnulls(dkim_domain, dkim_selector, dkim_key_sealed) IN (0, 3))
);

ALTER TABLE ulak.notification_types ADD COLUMN sender_profile VARCHAR(64) REFERENCES ulak.sender_profiles (name);

-- Whose `POST /emails` of model A a row is; NULL for one that a service wrote by SQL.
ALTER TABLE ulak.email_messages ADD COLUMN application_id INT;

-- Model B: which ledger entry came from which source's row, until its end is written back there. One line per message.
CREATE TABLE ulak.email_intakes (
    notification_id UUID PRIMARY KEY,
    source          VARCHAR(200) NOT NULL,            -- name of the relay's source; '' for POST /emails, whose source_id is the notification's id
    source_id       UUID NOT NULL,                    -- email_messages.id there
    owned_files     TEXT[] NOT NULL DEFAULT '{}',     -- storage references that go with the message
    settled_at      TIMESTAMPTZ,                      -- when the end was written back
    created_at      TIMESTAMPTZ NOT NULL,
    UNIQUE (source_id, source)                        -- in this order: `GET /emails/{id}` knows the id alone
);
CREATE INDEX email_intakes_open ON ulak.email_intakes (source, notification_id) WHERE settled_at IS NULL;
CREATE INDEX email_intakes_files ON ulak.email_intakes USING gin (owned_files) WHERE owned_files <> '{}';
CREATE INDEX email_intakes_created ON ulak.email_intakes (created_at, notification_id) WHERE settled_at IS NOT NULL;
