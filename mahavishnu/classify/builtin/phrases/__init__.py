"""How error messages are worded, in English: phrases, because single words say too little.

One phrase per line; a line that ends with a bar goes on in the next. Words are separated by blanks; each is one of:

    refused|reset   one of these (`could_not` is written for two words)
    exceed~         with any ending: exceeds, exceeded, exceeding
    very?           may be left out
    %server         one of a named set below
    %be*            any number of them, or none
    ..  ....        up to two, up to four words of any kind
    $               at the end: the sentence, or the part of it, ends here
    ^               at the beginning: it begins here
    !to|by          at the end: not if one of these follows; at the beginning: not if one of these is before

They are looked for in tidied text (`classify.builtin.text.tidied`): lower case, no `_` or `-`, "couldn't" spelled
"could not", paths and quoted words taken out. The rank says how much a phrase is worth: 2 names the cause, 3 a symptom,
4 is a guess, 5 the last one: a matter and a word of failure in the same clause. The lowest rank in a text counts, and
of equal ones the category that comes first in `PRECEDENCE`.
"""

from __future__ import annotations

from mahavishnu.classify.builtin.known import N, P, R, T, V, X
from mahavishnu.classify.builtin.phrases import network, permanent, permission, resource, transient, validation
from mahavishnu.model.letter_parts import ErrorCategory

# "Connection failed: wrong password", "connection refused: too many clients": the wire is only where it was noticed.
PRECEDENCE = (T, R, P, N, V, X)
SETS: dict[str, str] = {
    "be": "is|was|are|were|be|been|being|has|have|had|got|gets|currently|still|already|now|just|it|itself|temporarily",
    "the": "the|a|an|your|any|this|that|our|its|their|another|some|my",
    "fail": "cannot|could_not|unable_to|failed_to|fails_to|fail_to|not_able_to|failure_to|failing_to|error|failed|"
    "failure|refused_to|did_not|does_not|was_not|trouble|problem|problems|impossible_to|not_possible_to|were_not|"
    "while|when|are_not|is_not",
    "server": "server|service|services|system|backend|upstream|api|endpoint|database|host|broker|cluster|node|gateway|"
    "site|website|registry|replica|storage|dependency|provider|store|function|instance|region|model|mirror|"
    "repository|worker|page|nameserver|engine|platform|application|agent|daemon|coordinator|controller|scheduler|leader|primary|master|datastore|db|controller|queue|"
    "bucket|index|shard|shards|partition|machine|vm|container|peer|target|remote",
    "over": "exceeded|exceeds|exceed|exceeding|reached|hit|exhausted|breached|over|surpassed|above|used_up|depleted|"
    "violated|passed|crossed",
    "out": "out_of|run_out_of|ran_out_of|not_enough|insufficient|low_on|lack_of|short_of|no_more|exhausted|"
    "running_out_of|no_free|too_little",
    "field": "field|fields|parameter|parameters|param|argument|arguments|property|properties|value|values|header|"
    "headers|input|key|keys|column|columns|attribute|option|options|element|id|name|body|variable|flag|entry|"
    "date|title|url|email|data|query|repo|type|item|string|text|file|object|payload|request|message|document|"
    "record|row|number|array|list|line|path|token|content|image|json|xml|yaml|csv|sql|amount|format|operand|"
    "version|schema|method|operation|extension|encoding|length|size|password|filename|username|prompt|"
    "description|identifier|character|characters|attachment|upload|entity|uri|range|currency|code|statement|"
    "expression|configuration|spec|template|response",
    "closed": "closed|dropped|terminated|ended|severed|cut|broken|reset|interrupted|lost|aborted|hung_up|shut_down|"
    "shutdown|killed|disconnected",
    "secret": "credential|credentials|api_key|apikey|access_key|secret_key|client_secret|secret|passphrase|username|"
    "bearer_token|auth_token|access_token|refresh_token|api_token|id_token|security_token|session_token|"
    "authentication_token|csrf_token|license_key|subscription_key|ssh_key|signature|grant|login|user_name|"
    "access_key_id|oauth_token|private_key|jwt|client_token|personal_access_token",
    "bad": "failed|failure|error_in|error_while|error_from|error_on|errors_in|cannot|could_not|unable|refused|lost|"
    "closed|broken|unavailable|"
    "aborted|rejected|fails|failing|problem_with|trouble_with|without|denied|expired|exceeded|reached|missing|terminating|killed|"
    "must|refusing|interrupted|bad|wrong|invalid|stuck|blocked|disabled|revoked|dropped|exhausted|suspended|degraded|"
    "unhealthy|not_known|not_found|not_allowed|not_accepted|not_available|insufficient|too_many|too_much|too_large|"
    "too_long|too_short|unexpected|crashed|rolled_back",
    "state": "invalid|incorrect|wrong|bad|expired|missing|revoked|rejected|unknown|unrecognized|not_valid|"
    "no_longer_valid|denied|disabled|required|not_accepted|not_found|mismatch|inactive|not_provided|"
    "does_not_match|do_not_match|malformed|blocked|unauthorized|mandatory|needed|refused|not_been_provided|not_been_supplied|not_been_given|not_been_set|not_been_configured|not_set",
}
# By category and rank.
PHRASES: dict[ErrorCategory, dict[int, str]] = {
    T: transient.PHRASES,
    R: resource.PHRASES,
    P: permission.PHRASES,
    N: network.PHRASES,
    V: validation.PHRASES,
    X: permanent.PHRASES,
}
