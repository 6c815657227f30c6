"""What would become of a notification: decided and rendered as the router would, nothing stored, counted or claimed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from fastapi import APIRouter, Request
from starlette.responses import Response

from services.ingest.acceptance import Admitted
from services.ingest.caller import Caller
from services.ingest.dry_run_model import DryRunAnswer
from services.ingest.endpoint import Surface, call_of, responses
from services.ingest.gate import DRY_RUN_PATH, Call
from services.ingest.intake import NotificationIntake
from services.ingest.language import AcceptLanguage, Lang, chosen
from services.ingest.model import NotificationRequest
from services.ingest.row import sealed_profile
from shared.content.problem import RenderError
from shared.content.render import Renderer
from shared.core.catalogue import Template
from shared.core.identifier import NOTIFICATION, new_id, public_id
from shared.core.segment import segments
from shared.core.unsubscribe import with_example
from shared.decision.chain import ChannelDecision, Decision, decide
from shared.decision.facts import Facts, Mode
from shared.decision.verdict import Defer, Go, Redirect, Verdict
from shared.decision.wording import Language, tell_channel, tell_step
from shared.facts.recipient import Known, find_recipient
from shared.facts.store import FactStore
from shared.facts.subject import Recipient
from shared.facts.template import TemplateChoice
from shared.postgres.pool import Pool
from shared.runtime.keyring import RingSource
from shared.web.endpoint import BODY_PROBLEMS, documented, guarded, json_body
from shared.web.problem import Problem
from shared.web.response import json_response, problem_response
from shared.wire.channel import SMS, Channels

_NOBODY: Final = Recipient({})


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A request as if it had been accepted: what the facts are loaded for (`shared/facts/subject.py`)."""

    id: UUID
    user_id: int | None
    mode: Mode
    recipient: Recipient
    channels: tuple[str, ...] | None
    locale: str | None
    business_key: str | None
    expires_at: datetime
    send_at: datetime | None
    api_key_id: UUID | None


class DryRun:
    """What stands behind `POST /internal/v1/notifications/dry-run`. clock returns the present moment, aware."""

    def __init__(
        self,
        *,
        intake: NotificationIntake,
        facts: FactStore,
        pool: Pool,
        rings: RingSource,
        renderer: Renderer,
        channels: Channels,
        default_locale: str,
        clock: Callable[[], datetime],
    ) -> None:
        self._intake = intake
        self._facts = facts
        self._pool = pool
        self._rings = rings
        self._renderer = renderer
        self._channels = channels
        self._default_locale = default_locale
        self._clock = clock

    async def run(self, item: object, caller: Caller, language: Language) -> dict[str, Any] | Problem:
        """The answer's body, or the problem that accepting it would be answered with. Raises UnavailableError.

        A user we do not know has no devices, consents or preferences: it is decided with what the request brings.
        Whether the same eventId was accepted before is not asked.
        """
        checked = await self._intake.check(item)
        if isinstance(checked, Problem):
            return checked
        admitted, catalogue = checked
        known = await find_recipient(self._pool, str(admitted.request.user_id))
        hypothesis = self._hypothesis(admitted, caller, known)
        templates = TemplateChoice(catalogue, self._channels, self._default_locale)
        now = self._clock()
        loaded = await self._facts.load([(hypothesis, admitted.type)], templates, now, counting=True)
        facts = loaded[hypothesis.id]
        decision = decide(facts, now, channels=self._channels)
        chosen = templates.by_channel(admitted.type.name, hypothesis.locale)
        return self._body(admitted, decision, facts, chosen, language, known=known is not None)

    def _hypothesis(self, admitted: Admitted, caller: Caller, known: Known | None) -> Hypothesis:
        """What the request says of its recipient replaces what is known, as accepting it would."""
        addresses = dict((_NOBODY if known is None else known.recipient).addresses)
        locale = None if known is None else known.locale
        zone = None if known is None else known.recipient.zone
        if admitted.profile is not None:
            given = sealed_profile(self._rings.ring, admitted.profile)
            brought = Recipient.stored(
                given.email_key, given.email_sealed, given.phone_key, given.phone_sealed, given.time_zone
            )
            addresses |= brought.addresses
            locale, zone = given.locale or locale, brought.zone or zone
        return Hypothesis(
            id=new_id(),
            user_id=None if known is None else known.id,
            mode=Mode(caller.mode),
            recipient=Recipient(addresses, zone),
            channels=admitted.channels,
            locale=locale,
            business_key=admitted.request.business_key,
            expires_at=admitted.expires_at,
            send_at=admitted.send_at,
            api_key_id=caller.key_id,
        )

    def _body(
        self,
        admitted: Admitted,
        decision: Decision,
        facts: Facts,
        templates: Mapping[str, Template],
        language: Language,
        *,
        known: bool,
    ) -> dict[str, Any]:
        until = decision.defer_until
        params = with_example(admitted.type.category, admitted.request.params)
        body: dict[str, Any] = {
            "state": "DECIDED" if until is None else "DEFERRED",
            "until": until,
            "userKnown": known,
            "class": admitted.message_class.label,
            "expiresAt": admitted.expires_at,
            "priority": None if admitted.clamped is None else admitted.clamped.model_dump(by_alias=True),
            "duplicateOf": None if facts.duplicate_of is None else public_id(NOTIFICATION, facts.duplicate_of),
            "channels": [
                self._channel(channel, params, facts, templates.get(channel.channel), language)
                for channel in decision.channels
            ],
        }
        return {name: value for name, value in body.items() if value is not None}

    def _channel(
        self,
        channel: ChannelDecision,
        params: Mapping[str, Any],
        facts: Facts,
        template: Template | None,
        language: Language,
    ) -> dict[str, Any]:
        verdict = channel.verdict
        body: dict[str, Any] = {
            "channel": channel.channel,
            **_verdict(verdict),
            "text": tell_channel(channel, language),
            "insteadOf": channel.redirected_from,
            "targets": len(channel.targets),
            "leftOut": [refusal.reason for refusal in channel.refusals] or None,
            "sendUntil": channel.send_until,
            "trail": [
                {"rule": step.rule, **_verdict(step.verdict), "text": tell_step(step, language)}
                for step in channel.trail
            ],
        }
        if template is not None and isinstance(verdict, Go | Defer):
            body |= self._rendered(template, params, facts.zone)
        return {name: value for name, value in body.items() if value is not None}

    def _rendered(self, template: Template, params: Mapping[str, Any], zone: str | None) -> dict[str, Any]:
        """What would be said; or why it cannot be, which the router would record as FAILED(render)."""
        used = {"locale": template.locale, "version": template.version}
        try:
            content = self._renderer.render(template, params, zone=zone)
        except RenderError as error:
            return {"template": used, "renderProblem": str(error)}
        body: dict[str, Any] = {"template": used, "content": content}
        if template.channel == SMS.name:
            packed = segments(content["text"])
            body["segments"] = {"encoding": packed.encoding, "count": packed.count, "units": packed.units}
        return body


def dry_run_surface(dry_run: DryRun) -> Surface:
    """The call; its sentences are in the language that `services/ingest/language.py` finds asked for."""
    router = APIRouter(tags=["notifications"])

    @router.post(
        DRY_RUN_PATH,
        operation_id="dryRunNotification",
        summary="What would be decided and rendered; nothing is stored",
        responses=responses({200: DryRunAnswer}, *BODY_PROBLEMS),
        openapi_extra=documented(NotificationRequest),
    )
    async def run(request: Request, lang: Lang = None, accept_language: AcceptLanguage = None) -> Response:
        async def answer(call: Call) -> Response:
            found = await dry_run.run(json_body(call), call.caller, chosen(lang, accept_language))
            return problem_response(found) if isinstance(found, Problem) else json_response(found)

        return await guarded(answer)(call_of(request))

    return Surface(router, {})


def _verdict(verdict: Verdict) -> dict[str, Any]:
    body: dict[str, Any] = {"verdict": type(verdict).__name__.lower()}
    if not isinstance(verdict, Go):
        body["reason"] = verdict.reason
    if isinstance(verdict, Defer):
        body["until"] = verdict.until
    if isinstance(verdict, Redirect):
        body["to"] = verdict.channel
    return body
