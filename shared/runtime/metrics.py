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

# --- router
DECISIONS: Final = Counter("ulak_decisions_total", "Verdicts per channel.", ("channel", "verdict", "reason"))
EVENTS_IGNORED: Final = Counter("ulak_events_ignored_total", "Domain events that no mapping wants.", ())
DUPLICATES: Final = Counter("ulak_duplicates_total", "Requests or events seen before.", ("body",))

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
HINTS_DROPPED: Final = Counter("ulak_hints_dropped_total", "Hints that asked for nothing any more.", ("service", "why"))

# --- callbacks
RECEIPTS: Final = Counter("ulak_receipts_total", "Receipts by what became of them.", ("provider", "result"))
CALLBACKS_REFUSED: Final = Counter("ulak_callbacks_refused_total", "Callbacks turned away.", ("provider", "why"))

# --- relay
OUTBOX_PUBLISHED: Final = Counter("ulak_outbox_published_total", "Outbox rows published.", ("message_class",))
OUTBOX_OLDEST: Final = Gauge("ulak_outbox_oldest_seconds", "Age of the oldest due outbox row.", ("message_class",))
OUTBOX_DEAD_ROWS: Final = Gauge("ulak_outbox_dead_rows", "Outbox rows deleted and not yet vacuumed (O6).", ())
OUTBOX_REJECTED: Final = Counter("ulak_outbox_rejected_total", "Outbox rows that cannot be published.", ("reason",))
OLDEST_SNAPSHOT: Final = Gauge("ulak_postgres_oldest_snapshot_seconds", "Age of the oldest open snapshot (O6).", ())
LEASES_REAPED: Final = Counter("ulak_leases_reaped_total", "Deliveries whose lease ran out.", ("status",))
RELAY_FAILURES: Final = Counter("ulak_relay_failures_total", "Rounds of a relay loop that failed.", ("loop",))
SWEPT: Final = Counter("ulak_swept_total", "Hints that the sweep or the reaper published again.", ("kind",))
UPKEEP_REMOVED: Final = Counter("ulak_upkeep_removed_total", "Rows past their time, by table.", ("table",))
UNKNOWN_CLOSED: Final = Counter("ulak_unknown_closed_total", "UNKNOWN deliveries closed without a receipt.", ())

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
