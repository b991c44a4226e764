"""Makes letters of what callers say about failures: defaults, coercions, redaction and limits, in one place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from msgspec import field

from mahavishnu.classify.verdict import POLICY_OF, Verdict, policy
from mahavishnu.model import lifecycle
from mahavishnu.model.backoff import BackoffRegistry
from mahavishnu.model.errors import InvalidInput, InvalidPayload
from mahavishnu.model.ids import DEFAULT_NAMESPACE, document_key, new_entry_id, new_task_id
from mahavishnu.model.json_value import EMPTY, Json, json_safe_copy, texts, type_label
from mahavishnu.model.letter import DeadLetter, adapter_named_by, source_naming
from mahavishnu.model.letter_parts import DlqReason, ErrorCategory, RecordedVerdict, RetryPolicy
from mahavishnu.model.query import require_namespace
from mahavishnu.model.record import Value
from mahavishnu.values.encryption import NO_ENCRYPTION, TASK, Binding, Encryption
from mahavishnu.values.payload import (
    NOT_JSON,
    LetterRequest,
    Payload,
    is_secret,
    mask_failure,
    mask_text,
    mask_texts,
    redact,
    texts_under,
    write_payload,
    write_values,
)

if TYPE_CHECKING:
    from mahavishnu.classify.assess import Assessment
    from mahavishnu.values.kinds import ValueKind

PRIORITIES: Mapping[str, int] = {"high": 10, "medium": 0, "low": -10}
# In the metadata of letters that could not be made as they were asked for:
GIVEN = "dlq_given"  #: what was given for the `task_id`, the `repos` and so on, where that cannot be kept as it is
_NOWHERE = Binding("", TASK)
_default_policy = lru_cache(64)(policy)  # the settings name few
_new_verdict = lru_cache(1024)(RecordedVerdict)  # most letters share a few reasons


RequestOf: TypeAlias = Callable[[], LetterRequest]
"""What a letter of a run would have, for runs that may need none."""


class TrackedWork(Protocol):
    """A lifecycle task, as far as a letter of it hides values."""

    @property
    def task_id(self) -> str: ...
    @property
    def namespace(self) -> str: ...
    @property
    def context(self) -> Json: ...
    @property
    def context_types(self) -> Json: ...


class LetterFactory(Value, frozen=True):
    """The defaults and limits under which letters are made.

    Precedence of the retry policy and budget: the caller's, the strategy's, the verdict's own advice, that of the
    category (for the policy if `by_category` says so), the default.
    """

    retry_policy: str = RetryPolicy.EXPONENTIAL
    by_category: bool = False
    max_retries: int = 3
    category_max_retries: Mapping[ErrorCategory, int] = field(default_factory=dict)
    max_task_bytes: int = 1024 * 1024
    redact_keys: tuple[str, ...] = ()
    value_kinds: tuple[ValueKind, ...] = ()
    encryption: Encryption = NO_ENCRYPTION

    @property
    def secret_keys(self) -> tuple[str, ...]:
        """Patterns of the names whose values no log and no audit shows."""
        return (*self.redact_keys, *self.encryption.fields)

    def write_payload(self, request: LetterRequest, binding: Binding = _NOWHERE) -> Payload:
        """Return the task as its record keeps it; without a binding, for comparison only. Raises InvalidPayload."""
        written = write_payload(request, self.redact_keys, self.value_kinds)
        if not self.encryption.fields:
            return written
        payload, types = self.encryption.encrypt(written.payload, written.types, binding)
        return written._replace(payload=payload, types=types)

    def make(
        self,
        request: LetterRequest,
        assessment: Assessment,
        now: datetime,
        *,
        namespace: str,
        backoffs: BackoffRegistry,
    ) -> DeadLetter:
        """Make a sound new letter, not stored yet. Raises InvalidInput, naming what cannot be taken and why.

        It is of `namespace`, unless the request names another one. Its payload may be too large yet: `check_size` says
        so.
        """
        _check(request)
        namespace = namespace if request.namespace is None else require_namespace(request.namespace)
        written = write_payload(request, self.redact_keys, self.value_kinds)
        payload = written.payload
        secrets = self._secrets_given(request)
        if written.notes:  # a run would be given something else
            labels = {**(request.metadata or {}), **mask_texts(dict(written.notes), secrets)}
            request = request._replace(metadata=labels, retry_policy=RetryPolicy.NEVER)
        if secrets and (masked := mask_failure(assessment.failure, secrets)) != assessment.failure:
            assessment = assessment.with_masked(masked)
        failure, verdict, task_id = assessment.failure, assessment.verdict, request.task_id
        chosen = request.advised_policy if request.retry_policy is None else request.retry_policy
        retry_policy = self.policy_for(verdict) if chosen is None else policy(chosen)
        max_retries = self._budget(request, assessment)
        priority, reason = _priority(request), _reason(request)
        metadata = request.metadata
        if metadata and self.redact_keys:
            metadata = redact(dict(metadata), self.redact_keys)
        adapter = request.adapter or adapter_named_by(request.source, payload)
        letter = lifecycle.new_letter(
            DeadLetter(
                task_id=task_id,
                entry_id=new_entry_id(now),
                payload=payload,
                repos=texts(request.repos, "repos of task {!r:.80}", task_id),
                labels=Json.of(dict(metadata), "metadata") if metadata else EMPTY,
                error=failure.message,
                last_error=failure.message,
                failures=(failure,),
                error_category=failure.category,
                failed_at=failure.at,
                created_at=now,
                updated_at=now,
                retry_policy=retry_policy,
                max_retries=max_retries,
                priority=priority,
                depends_on=texts(request.depends_on, "depends_on of task {!r:.80}", task_id),
                namespace=namespace,
                queue=request.queue,
                reason=reason,
                source=source_naming(request.adapter, request.source),
                adapter=adapter,
                tags=verdict.tags,
                payload_types=written.types,
                typed=request.write is not None,
                policy_by_verdict=request.retry_policy is None,
                verdict=_new_verdict(verdict.reason or None, verdict.author or None),
                fingerprint=assessment.fingerprint,
            ),
            retry_in=assessment.retry_in,
            backoffs=backoffs,
        )
        if not self.encryption.fields:
            return letter
        return self.encryption.mask_errors(self.encryption.encrypt_letter(letter))

    def _secrets_given(self, request: LetterRequest) -> list[str]:
        patterns = (*self.secret_keys, *request.redact)
        if not patterns:
            return []
        from mahavishnu.values.typed_json import plain_text  # who masks nothing does not wait for it

        hidden = partial(is_secret, patterns=patterns)
        found = [*texts_under(request.task, hidden), *texts_under(request.metadata, hidden)]
        if plain_text(request.task) is None:  # what stands inside of objects is found once they are written
            with suppress(Exception):  # code of the user's types: it has written them before
                written = write_values(request, self.value_kinds).payload
                found += texts_under(written.shared_value, hidden)
        return found

    def mask_request(self, text: str, request: LetterRequest) -> str:
        """The text without what a letter of this request hides. Never raises."""
        try:
            return mask_text(text, self._secrets_given(request))
        except Exception:  # what was given is user code
            return "(not shown: what it must not quote cannot be told)"

    def mask_error(self, text: str, task: TrackedWork, request: LetterRequest | None = None) -> str:
        """Mask in a task's error the values that a letter hides, by `request` or its context. Never raises."""
        if not self.secret_keys and (request is None or not request.redact):
            return text
        try:
            given = LetterRequest(task.task_id, task.context.shared_value) if request is None else request
            secrets = self._secrets_given(given)
            binding = Binding.of_task(task.namespace, task.task_id)
            secrets += self.encryption.secrets_in(task.context, task.context_types, binding)
            return mask_text(text, secrets)
        except Exception as problem:  # what was given is user code: anything can happen in it
            return f"(the text of the error is not kept: what it must not quote cannot be told: {type_label(problem)})"

    def mask_quotes(self, text: str, *given: Any) -> str:
        """The text, such as of a refusal, without what stands under secret names in these values."""
        hidden = partial(is_secret, patterns=self.secret_keys)
        return mask_text(text, [*texts_under(given, hidden)]) if self.secret_keys else text

    def identity_of(self, value: Json) -> Json:
        """Return JSON that is equal for equal values only, with marks in the place of secrets."""
        return self.encryption.mark(value, self.secret_keys)

    def with_usable_id(self, request: LetterRequest, namespace: str) -> LetterRequest:
        """Return the request with a usable task id, equal for equal ids; an unusable one is in the metadata."""
        where = (namespace if request.namespace is None else request.namespace, request.queue)
        if _is_name(request.task_id, *where) or (_is_name(request.task_id) and not _is_name("any", *where)):
            return request
        labels = request.metadata if isinstance(request.metadata, Mapping) else {}
        given = {"task_id": json_safe_copy(request.task_id)}
        return request._replace(task_id=_id_in_place_of(request.task_id), metadata={**labels, GIVEN: given})

    def with_placeholders(self, request: LetterRequest, why: str) -> LetterRequest:
        """The request with descriptions in the place of what JSON cannot hold, and without what no letter can have."""
        labels = json_safe_copy(request.metadata)
        plain = LetterRequest(request.task_id, None, source=request.source, adapter=request.adapter)
        try:
            written = write_values(request, self.value_kinds)
            plain = plain._replace(task=written.payload.value, payload_types=written.types)
        except Exception:  # the task is user code: anything can happen in it
            plain = plain._replace(task=json_safe_copy(request.task))
        given = {}
        for name in ("task_id", "repos", "priority", "depends_on", "namespace", "queue", "reason"):
            value = getattr(request, name)
            try:
                if name in ("repos", "depends_on"):
                    value = texts(value, name)
                plain = _require_usable(plain._replace(**{name: value}))
            except Exception:
                given[name] = json_safe_copy(value)
                if name == "task_id":
                    plain = plain._replace(task_id=_id_in_place_of(value))
        if request.metadata is not None and not isinstance(labels, dict):
            given["metadata"] = labels
        labels = {**(labels if isinstance(labels, dict) else {}), NOT_JSON: why}
        if given:
            before = labels.get(GIVEN)  # of an id that was replaced already
            labels[GIVEN] = {**given, **before} if isinstance(before, dict) else given
        return plain._replace(metadata=labels, retry_policy=RetryPolicy.NEVER)

    def check_size(self, letter: DeadLetter) -> None:
        """Raise InvalidPayload if the payload is too large."""
        if not self.fits(letter):
            size = (
                f"{len(letter.payload.text)} bytes as JSON, more than the {self.max_task_bytes} of dlq_max_task_bytes"
            )
            raise InvalidPayload("task", f"has {size}")

    def json_of(self, value: Any, name: str, *, is_decrypted: bool = True) -> Json:
        """Return masked JSON, also of what is to be encrypted if nothing decrypts it. Raises InvalidPayload."""
        patterns = self.redact_keys if is_decrypted else self.secret_keys
        made = Json.of(redact(value, patterns) if patterns else value, name)
        if len(made.text) > self.max_task_bytes:
            size = f"{len(made.text)} bytes as JSON, more than the {self.max_task_bytes} of dlq_max_task_bytes"
            raise InvalidPayload(name, f"has {size}: keep it elsewhere, and where it is in here, or raise that setting")
        return made

    def fits(self, letter: DeadLetter) -> bool:
        """Return True if the payload is not too large."""
        return len(letter.payload.text) <= self.max_task_bytes

    def policy_for(self, verdict: Verdict) -> str:
        """Return the retry policy of a failure for which none was chosen."""
        if verdict.policy is not None:
            return verdict.policy
        return POLICY_OF[verdict.category] if self.by_category else _default_policy(self.retry_policy)

    def _budget(self, request: LetterRequest, assessment: Assessment) -> int:
        if request.max_retries is not None:
            if isinstance(request.max_retries, bool) or not isinstance(request.max_retries, int):
                raise InvalidInput(
                    f"max_retries of {_name(request)} must be a whole number, not {request.max_retries!r}"
                )
            return request.max_retries
        if assessment.verdict.max_retries is not None:
            return assessment.verdict.max_retries
        return self.category_max_retries.get(assessment.verdict.category, self.max_retries)


def _is_name(task_id: Any, *where: Any) -> bool:
    try:
        document_key(task_id, *where)
    except Exception:
        return False
    return True


def _id_in_place_of(unusable: object) -> str:
    return new_task_id(unusable) if unusable and isinstance(unusable, str) else new_task_id()


def _require_usable(request: LetterRequest) -> LetterRequest:
    """The request, if a letter can be named so and have these. Raises InvalidInput, or anything for an odd value."""
    namespace = DEFAULT_NAMESPACE if request.namespace is None else require_namespace(request.namespace)
    document_key(request.task_id, namespace, request.queue)
    _priority(request)
    _reason(request)
    return request


def _check(request: LetterRequest) -> None:
    if not isinstance(request.task_id, str):
        raise InvalidInput(f"task_id must be text, not {request.task_id!r:.80}")
    if request.adapter is not None and (not isinstance(request.adapter, str) or not request.adapter):
        raise InvalidInput(f"adapter of {_name(request)} must be the name of one, not {request.adapter!r:.80}")
    if request.metadata is not None and not isinstance(request.metadata, Mapping):
        raise InvalidInput(f"metadata of {_name(request)} must be a dict, not {request.metadata!r:.80}")


def _name(request: LetterRequest) -> str:
    return f"task {request.task_id!r:.80}"


def _reason(request: LetterRequest) -> DlqReason:
    if type(request.reason) is DlqReason:
        return request.reason
    try:
        return DlqReason(request.reason)
    except ValueError:
        raise InvalidInput(f"there is no reason {request.reason!r:.80}; there are {', '.join(DlqReason)}") from None


def _priority(request: LetterRequest) -> int:
    if request.priority is not None:
        if isinstance(request.priority, bool) or not isinstance(request.priority, int):
            raise InvalidInput(f"priority of {_name(request)} must be a whole number, not {request.priority!r}")
        return request.priority
    named = request.metadata.get("priority") if request.metadata else None
    return PRIORITIES.get(named.lower(), 0) if isinstance(named, str) else 0
