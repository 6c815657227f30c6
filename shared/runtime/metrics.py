"""Every metric of Ulak, declared once: name with its unit, labels with bounded values (docs/metrics.md lists them).

A service touches only its own; all of them exist in every process, so that dashboards see zeros instead of gaps.
"""

from typing import Final

from prometheus_client import Counter, Gauge, Histogram

_LATENCY_SEC: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800)

# --- ingest
REQUESTS: Final = Counter("ulak_http_requests_total", "Requests answered.", ("route", "status"))
GROUP_COMMIT_SIZE: Final = Histogram(
    "ulak_group_commit_rows",
    "Accepted requests per database transaction.",
    buckets=(1, 2, 5, 10, 20, 50, 100, 200, 500),
)

# --- me
JWKS_READS: Final = Counter("ulak_jwks_reads_total", "Readings of the token signer's public keys.", ("result",))
UNSUBSCRIBED: Final = Counter("ulak_unsubscribed_total", "One-click withdrawals.", ("channel", "result"))

# --- router
DECISIONS: Final = Counter("ulak_decisions_total", "Verdicts per channel.", ("channel", "verdict", "reason"))
CAPS: Final = Counter(
    "ulak_frequency_caps_total",
    "Places in users' days by what became of them: granted, refused, or waits for Redis.",
    ("result",),
)
EVENTS_IGNORED: Final = Counter("ulak_events_ignored_total", "Domain events that no mapping wants.", ())
DUPLICATES: Final = Counter("ulak_duplicates_total", "Requests or events seen before.", ("body",))

# --- caches
CACHE_LOOKUPS: Final = Counter(
    "ulak_cache_lookups_total", "Look-ups by whether memory had the answer (hit) or not (miss).", ("cache", "result")
)
INVALIDATIONS: Final = Counter("ulak_cache_invalidations_total", "Changes heard of from other processes.", ("kind",))
INVALIDATION_LISTENING: Final = Gauge(
    "ulak_cache_listening", "1 while changes are heard of; else caches live their time.", ()
)

# --- workers
OUTCOMES: Final = Counter("ulak_outcomes_total", "Attempts by what they meant.", ("lane", "provider", "outcome"))
SEND_LATENCY: Final = Histogram(
    "ulak_acceptance_to_provider_seconds",
    "From acceptance to the provider's acceptance.",
    ("lane",),
    buckets=_LATENCY_SEC,
)
PROVIDER_MISSING: Final = Counter(
    "ulak_provider_missing_total",
    "Deliveries that wait because their provider is not configured.",
    ("lane", "provider"),
)
REDIS_FALLBACK: Final = Counter("ulak_redis_fallback_total", "Times Redis did not answer and a worker paced by itself.")
TOKENS: Final = Counter("ulak_quota_tokens_total", "Quota tokens asked for.", ("account", "result"))
UNRECOGNISED: Final = Counter(
    "ulak_unrecognised_replies_total", "Replies that a provider's table does not list.", ("provider",)
)
BREAKER_PHASE: Final = Gauge(
    "ulak_breaker_phase",
    "What a provider's breaker is: 0 closed, 1 half open, 2 open (nothing goes to it).",
    ("account", "message_class"),
)
PROVIDER_SWITCHES: Final = Counter(
    "ulak_provider_switches_total",
    "Changes of breakers that this process caused, by what they became.",
    ("account", "message_class", "phase"),
)
ROUTED_AROUND: Final = Counter(
    "ulak_routed_around_total", "Deliveries that went to another than their first provider.", ("lane", "provider")
)
ROUTE_WAITS: Final = Counter("ulak_route_waits_total", "Deliveries put off because no provider takes them.", ("lane",))
HINTS_DROPPED: Final = Counter("ulak_hints_dropped_total", "Hints that asked for nothing any more.", ("service", "why"))

PAUSE_HELD: Final = Counter("ulak_pause_held_total", "Deliveries that a pause has let wait.", ("lane",))
PAUSES_IN_FORCE: Final = Gauge("ulak_pauses_in_force", "Pauses in force, as the relay sees them.", ("kind",))
PAUSE_WAITING: Final = Gauge(
    "ulak_pause_waiting_deliveries", "Deliveries that wait under pauses, 100,000 at most of each pause.", ("kind",)
)
PAUSE_RELEASED: Final = Counter("ulak_pause_released_total", "Deliveries let go after the end of their pause.", ())
CONTROL_REVISION: Final = Gauge(
    "ulak_control_revision", "Which state of pauses, quotas and drains this process knows.", ()
)
CONTROL_FAILURES: Final = Counter(
    "ulak_control_failures_total",
    "Times that pauses, quotas and drains could not be asked for; the last known stay.",
    (),
)

# --- callbacks
RECEIPTS: Final = Counter("ulak_receipts_total", "Receipts by what became of them.", ("provider", "result"))
CALLBACKS_REFUSED: Final = Counter("ulak_callbacks_refused_total", "Callbacks turned away.", ("provider", "why"))

# --- relay
OUTBOX_PUBLISHED: Final = Counter("ulak_outbox_published_total", "Outbox rows published.", ("message_class",))
OUTBOX_OLDEST: Final = Gauge(
    "ulak_outbox_oldest_seconds", "Age of the oldest due outbox row.", ("source", "message_class")
)
OUTBOX_SET_ASIDE: Final = Gauge(
    "ulak_outbox_set_aside_rows", "Outbox rows that wait for `ulak outbox requeue`, 10,000 at most.", ("source",)
)
OUTBOX_DEAD_ROWS: Final = Gauge("ulak_outbox_dead_rows", "Outbox rows deleted and not yet vacuumed (O6).", ("source",))
OUTBOX_REJECTED: Final = Counter("ulak_outbox_rejected_total", "Outbox rows that cannot be published.", ("reason",))
OUTBOX_UNSEALABLE: Final = Counter(
    "ulak_outbox_unsealable_total",
    "Sealed outbox rows that did not open: unknown_key (they wait), lost_key or tampered (set aside).",
    ("source", "reason"),
)
OLDEST_SNAPSHOT: Final = Gauge(
    "ulak_postgres_oldest_snapshot_seconds",
    "Age of the oldest open snapshot, as far as we may see it (O6).",
    ("source",),
)
SOURCE_UP: Final = Gauge("ulak_relay_source_up", "Whether a source's database answers and has our schema.", ("source",))
LEASES_REAPED: Final = Counter("ulak_leases_reaped_total", "Deliveries whose lease ran out.", ("status",))
RELAY_FAILURES: Final = Counter("ulak_relay_failures_total", "Rounds of a relay loop that failed.", ("loop",))
SWEPT: Final = Counter("ulak_swept_total", "Hints that the sweep or the reaper published again.", ("kind",))
UPKEEP_REMOVED: Final = Counter("ulak_upkeep_removed_total", "Rows past their time, by table.", ("table",))
UNKNOWN_CLOSED: Final = Counter("ulak_unknown_closed_total", "UNKNOWN deliveries closed without a receipt.", ())

# --- ingest: imports
IMPORT_LINES: Final = Counter(
    "ulak_import_lines_total", "Lines that imports have settled.", ("kind", "result")
)  # result: accepted, rejected

# --- relay: the registry of commercial messages (İYS)
IYS_RECORDS: Final = Counter(
    "ulak_iys_records_total", "Consents told to the registry, by what became of them.", ("state",)
)
IYS_CHANGES: Final = Counter(
    "ulak_iys_changes_total", "Citizens' changes pulled from the registry: taken or passed_over.", ("result",)
)

# --- relay: e-mail sent from the table (Model A)
EMAIL_OLDEST: Final = Gauge("ulak_email_oldest_seconds", "How long the oldest due e-mail row has waited.", ("source",))
EMAIL_ENDED: Final = Counter(
    "ulak_email_ended_total", "E-mail rows by their end; the reason of FAILED ones.", ("status", "reason")
)
EMAIL_SEND: Final = Histogram(
    "ulak_email_send_seconds", "From handing mails over to their last answer.", ("provider",), buckets=_LATENCY_SEC
)
EMAIL_CLAIMS_LOST: Final = Counter(
    "ulak_email_claims_lost_total", "Outcomes that found their e-mail row claimed by another.", ("source",)
)
EMAIL_REAPED: Final = Counter("ulak_email_reaped_total", "E-mail rows whose lease ran out.", ("source",))
EMAIL_UNSEALABLE: Final = Counter(
    "ulak_email_unsealable_total", "E-mail rows that no key opens: unknown (they wait) or lost.", ("source", "key")
)

# --- relay: e-mail by the ledger (Model B)
EMAIL_TAKEN: Final = Counter("ulak_email_taken_total", "E-mail rows taken into the ledger.", ("source",))
EMAIL_WRITE_BACK: Final = Histogram(
    "ulak_email_write_back_seconds",
    "From the last delivery's end to the row that says so in its source.",
    ("source",),
    buckets=_LATENCY_SEC,
)

# --- Kafka
CONSUMER_LAG: Final = Gauge("ulak_consumer_lag_messages", "Messages behind the end.", ("topic",))
CONSUMER_HELD: Final = Gauge("ulak_consumer_held_partitions", "Partitions that wait.", ("topic", "why"))
CONSUMER_RETRIES: Final = Counter("ulak_consumer_batch_retries_total", "Batches whose handler failed.", ("group",))
DEAD_LETTERS: Final = Counter("ulak_dead_letters_total", "Messages written to a DLQ.", ("topic", "reason"))
PRODUCED: Final = Counter("ulak_produced_total", "Records by what became of them.", ("topic", "result"))
CONSUMED: Final = Counter("ulak_consumed_total", "Messages that a handler finished with.", ("group",))
CONSUMER_BATCH_LATENCY: Final = Histogram(
    "ulak_consumer_batch_seconds", "Time of a handler for one batch.", ("group",), buckets=_LATENCY_SEC
)
DEAD_LETTER_WRITE_FAILURES: Final = Counter(
    "ulak_dead_letter_write_failures_total", "Dead letters that could not be written; consumption rests.", ("topic",)
)
OFFSETS_LOST: Final = Counter(
    "ulak_consumer_offsets_lost_total", "Partitions whose offsets or next messages were gone (K8).", ("topic",)
)
COMMIT_FAILURES: Final = Counter("ulak_commit_failures_total", "Commits refused by the broker.", ("group", "error"))
PARTITIONS_MOVED: Final = Counter(
    "ulak_consumer_partitions_moved_total", "Partitions assigned, revoked or lost.", ("group", "kind")
)
WORK_ABANDONED: Final = Counter(
    "ulak_consumer_abandoned_total", "Messages still worked on when their partition had to go (K3).", ("group",)
)
PRODUCER_QUEUE_FULL: Final = Counter("ulak_producer_queue_full_total", "Times the local queue had no room (K9).", ())
PRODUCERS_REPLACED: Final = Counter("ulak_producers_replaced_total", "Producers that died of a fatal error (K11).", ())
