-- The outbox in a producer's own database: what `ulak outbox ddl` prints and the relay reads (ULAK_RELAY_SOURCES).
-- Same shape as Ulak's own. Run it as often as you like; it changes nothing that exists.
-- A service inserts into it in the transaction of the fact it reports. Nothing else is needed: no Kafka client, no HTTP.

CREATE SCHEMA IF NOT EXISTS ulak;

CREATE TABLE IF NOT EXISTS ulak.outbox (
    id            UUID PRIMARY KEY DEFAULT gen_random_uuid(),
    message_class SMALLINT NOT NULL DEFAULT 1 CHECK (message_class BETWEEN 0 AND 3),  -- 0 critical, 1 tx, 2 bulk, 3 low
    topic         VARCHAR(200) NOT NULL,              -- without the installation's prefix, e.g. domain-events
    key           BYTEA,                              -- the aggregate's id, UTF-8
    payload       BYTEA NOT NULL,                     -- a CloudEvent as JSON, UTF-8
    headers       JSONB NOT NULL DEFAULT '{}',        -- name -> text
    available_at  TIMESTAMPTZ NOT NULL DEFAULT now()
);
CREATE INDEX IF NOT EXISTS outbox_due ON ulak.outbox (message_class, available_at);

-- Wakes the relay at commit, so that it need not poll often. NOTIFY makes commits queue for one lock; a service that
-- commits thousands of times a second drops this trigger and is found by the relay's poll instead.
CREATE OR REPLACE FUNCTION ulak.outbox_notify() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('ulak_outbox', '');
    RETURN NULL;
END
$$;

CREATE OR REPLACE TRIGGER outbox_notify AFTER INSERT ON ulak.outbox
    FOR EACH STATEMENT EXECUTE FUNCTION ulak.outbox_notify();
