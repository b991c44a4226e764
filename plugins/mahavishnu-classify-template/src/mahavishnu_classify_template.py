"""The smallest classifier: who declines a card decides for good, and nobody has to retry."""

from mahavishnu import ErrorCategory, Verdict, hookimpl


@hookimpl
def classify_error(error: BaseException | str) -> Verdict | None:
    if "card was declined" in str(error):
        return Verdict(ErrorCategory.VALIDATION, "the customer has to use another card", tags=("payment",))
    return None  # no opinion
